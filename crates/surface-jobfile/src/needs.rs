//! Names in `needs` become indices, and problems are reported: unknown jobs, cycles, files with two writers.
//!
//! Room: decisions.
//!
//! # Invariant
//! Edges are counted before they are built: a group that needs a group is a product.

use std::collections::HashMap;

use crate::draft::{Draft, Drafts};
use crate::expand::{Expanded, Index, instance_name};
use crate::keys::{Spanned, Values};
use crate::limits::Limits;
use crate::paths::Paths;
use crate::plan::Job;
use crate::template::Template;
use surface_text::cycle;
use surface_text::nearest;
use surface_text::units::clip;

/// Names of a cycle that are written out; of a longer one the ends.
const CYCLE_NAMES: usize = 12;

/// Groups that are needed but do not exist; reported even if the file has other problems.
pub(crate) fn groups(drafts: &Drafts<'_, '_>, values: &mut Values<'_>) {
    let known: HashMap<&str, usize> = drafts.jobs.iter().enumerate().map(|(at, draft)| (draft.name, at)).collect();
    for draft in &drafts.jobs {
        for need in &draft.needs {
            let group = need.value.split_once('[').map_or(need.value, |(group, _)| group);
            if group == draft.name && !need.value.contains('[') {
                let message = format!("job `{group}` needs itself");
                values.report.add(&need.at, message, "remove it from its `needs`");
            } else if !known.contains_key(group) {
                let message = format!("job `{}` needs `{}`, and there is no such job", draft.name, clip(need.value));
                let near = if values.report.is_full() { None } else { nearest(group, known.keys().copied()) };
                let help = match near {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => format!("write `[job.{}]`, or remove it from `needs`", clip(group)),
                };
                values.report.add(&need.at, message, help);
            }
        }
    }
}

/// Fills in the needs of all jobs.
pub(crate) fn resolve(drafts: &Drafts<'_, '_>, all: &mut Expanded, limits: &Limits, values: &mut Values<'_>) {
    let mut edges_left = limits.edges;
    let mut needs: Vec<Vec<usize>> = vec![Vec::new(); all.jobs.len()];
    {
        let index = Index::of(drafts, all);
        for (at, draft) in drafts.jobs.iter().enumerate() {
            for need in &draft.needs {
                let edges = match one(draft, at, need, all, &index, values) {
                    Some(edges) => edges,
                    None => continue,
                };
                let users = all.ranges[at].clone();
                let Some(left) = users.len().checked_mul(edges.per_user()).and_then(|sum| edges_left.checked_sub(sum))
                else {
                    let message = format!(
                        "with `{}` of job `{}` there are more than {} needs",
                        clip(need.value),
                        draft.name,
                        limits.edges
                    );
                    let help = "put one job between the two groups, which needs the first and is needed by the second";
                    values.report.add(&need.at, message, help);
                    return;
                };
                edges_left = left;
                for (nth, user) in users.enumerate() {
                    match &edges {
                        Edges::All(range) => needs[user].extend(range.clone()),
                        Edges::Each(list) => needs[user].push(list[nth]),
                    }
                }
            }
        }
    }
    for (job, mut needs) in all.jobs.iter_mut().zip(needs) {
        needs.sort_unstable();
        needs.dedup();
        job.needs = needs;
    }
}

enum Edges {
    /// Every instance of the user needs all of these.
    All(std::ops::Range<usize>),
    /// The nth instance needs the nth of these.
    Each(Vec<usize>),
}

impl Edges {
    fn per_user(&self) -> usize {
        match self {
            Self::All(range) => range.len(),
            Self::Each(_) => 1,
        }
    }
}

fn one(
    draft: &Draft<'_, '_>,
    at: usize,
    need: &Spanned<&str>,
    all: &Expanded,
    index: &Index<'_>,
    values: &mut Values<'_>,
) -> Option<Edges> {
    let Some((group, list)) = need.value.split_once('[') else {
        return index.groups.get(need.value).map(|&group| Edges::All(all.ranges[group].clone()));
    };
    let group_at = *index.groups.get(group)?;
    let keys: Vec<&str> = all.keys[at].iter().map(String::as_str).collect();
    let Some(elements) = elements(list) else {
        let message = format!("`{}` is not the name of an instance", clip(need.value));
        values.report.add(
            &need.at,
            message,
            format!("write `{group}[VALUE]`, with values in quotes if they have commas"),
        );
        return None;
    };
    let wanted = all.keys[group_at].len();
    if elements.len() != wanted {
        let message = match wanted {
            0 => format!("`{}` names an instance, but job `{group}` has no `foreach`", clip(need.value)),
            _ => {
                let (need, count) = (clip(need.value), elements.len());
                format!("the values in `{need}` are {count}, and those of job `{group}` are {wanted}")
            }
        };
        let help = match wanted {
            0 => format!("write `{group}`"),
            _ => format!("write `{group}[{}]`, or `{group}` for all", all.keys[group_at].join(",")),
        };
        values.report.add(&need.at, message, help);
        return None;
    }
    let templates: Result<Vec<Template>, _> = elements.iter().map(|element| Template::read(element, &keys)).collect();
    let templates = match templates {
        Ok(templates) => templates,
        Err(miss) => {
            let message = format!("`{{{}}}` is not a value of job `{}`", miss.written, draft.name);
            values.report.add(&need.at, message, format!("did you mean `{{{}}}`?", miss.meant));
            return None;
        }
    };
    let users = all.ranges[at].clone();
    let mut each = Vec::with_capacity(users.len());
    let same = templates.iter().all(Template::is_plain);
    for user in users.clone() {
        if let (true, Some(&found)) = (same, each.first()) {
            if user == found {
                itself(&all.jobs[user], need, values);
                return None;
            }
            each.push(found);
            continue;
        }
        let job = &all.jobs[user];
        let own: Vec<&str> = job.values.iter().map(|(_, value)| value.as_str()).collect();
        let filled: Vec<String> = templates.iter().map(|template| template.fill(&job.name, &own)).collect();
        let name = instance_name(group, &filled.iter().map(String::as_str).collect::<Vec<_>>());
        let Some(found) = index.instance(&name) else {
            let message = format!("job `{}` needs `{}`, and there is no such instance", job.name, clip(&name));
            let instances = &all.jobs[all.ranges[group_at].clone()];
            let (first, last) = (instances.first()?, instances.last()?);
            values.report.add(
                &need.at,
                message,
                format!("there are `{}` to `{}`", clip(&first.name), clip(&last.name)),
            );
            return None;
        };
        if found == user {
            itself(job, need, values);
            return None;
        }
        each.push(found);
    }
    Some(Edges::Each(each))
}

fn itself(job: &Job, need: &Spanned<&str>, values: &mut Values<'_>) {
    values.report.add(&need.at, format!("job `{}` needs itself", job.name), "remove it from its `needs`");
}

/// `linux,"a,b"]` as its values.
fn elements(list: &str) -> Option<Vec<String>> {
    let mut rest = list.strip_suffix(']')?;
    let mut elements = Vec::new();
    loop {
        rest = rest.trim_start();
        if let Some(quoted) = rest.strip_prefix('"') {
            let mut value = String::new();
            let mut chars = quoted.char_indices();
            let end = loop {
                match chars.next()? {
                    (at, '"') => break at + 1,
                    (_, '\\') => value.push(chars.next()?.1),
                    (_, c) => value.push(c),
                }
            };
            elements.push(value);
            rest = quoted[end..].trim_start();
        } else {
            let end = rest.find(',').unwrap_or(rest.len());
            elements.push(rest[..end].trim_end().to_owned());
            rest = &rest[end..];
        }
        match rest.strip_prefix(',') {
            Some(more) => rest = more,
            None if rest.is_empty() => return Some(elements),
            None => return None,
        }
    }
}

/// Reports a cycle of needs, if there is one.
pub(crate) fn cycle(drafts: &Drafts<'_, '_>, all: &Expanded, values: &mut Values<'_>) {
    let needs: Vec<&[usize]> = all.jobs.iter().map(|job| job.needs.as_slice()).collect();
    let Some(cycle) = cycle::cycle(&needs) else { return };
    let mut names: Vec<&str> = cycle.iter().map(|&job| all.jobs[job].name.as_str()).collect();
    names.push(names[0]);
    let count = names.len() - 1;
    let shown = if names.len() > CYCLE_NAMES {
        let (head, tail) = (&names[..CYCLE_NAMES / 2], &names[names.len() - CYCLE_NAMES / 2..]);
        format!("{} -> … -> {} ({count} jobs)", head.join(" -> "), tail.join(" -> "))
    } else {
        names.join(" -> ")
    };
    // The need that leads from the first to the second.
    let (first, second) = (&all.jobs[cycle[0]].group, &all.jobs[cycle[1 % count]].group);
    let draft = drafts.jobs.iter().find(|draft| draft.name == first.as_str());
    let at = draft.map(|draft| {
        let need = draft.needs.iter().find(|need| need.value.split('[').next() == Some(second.as_str()));
        need.map_or(&draft.at, |need| &need.at).clone()
    });
    let message = format!("jobs need each other in a cycle: {shown}");
    values.report.add(&at.unwrap_or(0..0), message, "each waits for the next; remove one of these needs");
}

/// Two jobs that write one file would each find it newer than what they read.
pub(crate) fn writers(drafts: &Drafts<'_, '_>, all: &Expanded, paths: &mut Paths<'_>, values: &mut Values<'_>) {
    let mut writers: HashMap<String, usize> = HashMap::new();
    for (range, draft) in all.ranges.iter().zip(&drafts.jobs) {
        'draft: for at in range.clone() {
            let job = &all.jobs[at];
            for (nth, output) in job.outputs.iter().enumerate() {
                let first = *writers.entry(paths.name(job.cwd.as_deref(), output)).or_insert(at);
                if first == at {
                    continue;
                }
                let message =
                    format!("jobs `{}` and `{}` both write `{}`", all.jobs[first].name, job.name, clip(output));
                let help = match job.values.first() {
                    Some((key, _)) => format!("put a value into the name, such as `{{{key}}}`"),
                    None => "give each its own file".to_owned(),
                };
                values.report.add(&draft.outputs.get(nth).map_or(&draft.at, |text| &text.at).clone(), message, help);
                break 'draft;
            }
        }
    }
}
