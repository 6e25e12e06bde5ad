//! Which job makes what another job reads: that job is needed, whether the file says so or leaves it to us.
//!
//! Room: surface.
//!
//! Paths are compared by where they lead (`src/paths.rs`), however they are written.
//!
//! # Invariant
//! In a plan without problems, a job that reads a file that another job declares as its output runs after that job. What a job reads without declaring it is
//! not known here.

use std::collections::BTreeMap;

use glob::{MatchOptions, Pattern};

use crate::draft::Drafts;
use crate::expand::Expanded;
use crate::fresh::matches;
use crate::keys::Values;
use crate::limits::Limits;
use crate::paths::Paths;
use crate::plan::Job;
use surface_text::units::clip;

/// `*` does not match `/`, as in globs on the disk.
const MATCHING: MatchOptions =
    MatchOptions { case_sensitive: true, require_literal_separator: true, require_literal_leading_dot: false };

/// The jobs that make files, by path of the file.
struct Producers(BTreeMap<String, usize>);

impl Producers {
    fn of(jobs: &[Job], paths: &mut Paths<'_>) -> Self {
        let mut producers = BTreeMap::new();
        for (at, job) in jobs.iter().enumerate() {
            producers.extend(job.outputs.iter().map(|output| (paths.name(job.cwd.as_deref(), output), at)));
        }
        Self(producers)
    }

    /// Calls `found` with every job that makes something which `input` means: that file, one that a glob fits, or a folder it is in.
    fn of_input(&self, job: &Job, input: &str, paths: &mut Paths<'_>, mut found: impl FnMut(usize, &str)) {
        let path = paths.name(job.cwd.as_deref(), input);
        let literal = path.find(['*', '?', '[']).unwrap_or(path.len());
        for (end, _) in path[..literal].match_indices('/') {
            if let Some((folder, producer)) = self.0.get_key_value(&path[..end]) {
                found(*producer, folder);
            }
        }
        if let Some((file, producer)) = self.0.get_key_value(path.as_str()) {
            return found(*producer, file);
        }
        if literal < path.len()
            && let Ok(pattern) = Pattern::new(&path)
        {
            let near = self.0.range(path[..literal].to_owned()..);
            let near = near.take_while(|(file, _)| file.starts_with(&path[..literal]));
            near.filter(|(file, _)| pattern.matches_with(file, MATCHING))
                .for_each(|(file, producer)| found(*producer, file));
        }
    }
}

/// Adds the needs of jobs with `needs = "inputs"`, and reports jobs that read what they do not wait for.
pub(crate) fn needs(
    drafts: &Drafts<'_, '_>,
    all: &mut Expanded,
    paths: &mut Paths<'_>,
    limits: &Limits,
    values: &mut Values<'_>,
) {
    if all.jobs.iter().all(|job| job.outputs.is_empty()) && drafts.jobs.iter().all(|draft| !draft.needs_inputs) {
        return;
    }
    let producers = Producers::of(&all.jobs, paths);
    let mut edges_left = limits.edges.saturating_sub(all.jobs.iter().map(|job| job.needs.len()).sum());
    for (range, draft) in all.ranges.clone().into_iter().zip(&drafts.jobs).filter(|(_, draft)| draft.needs_inputs) {
        for at in range {
            let job = &all.jobs[at];
            let mut needs = job.needs.clone();
            for (nth, input) in job.inputs.iter().enumerate() {
                let mut is_made = false;
                producers.of_input(job, input, paths, |producer, _| {
                    is_made = true;
                    needs.extend((producer != at).then_some(producer));
                });
                // The job waits for the maker of its input, so a name that no job makes is a typing error.
                if !is_made && limits.globs && is_missing(&job.folder(paths.base()), input) {
                    let input = clip(input);
                    let message =
                        format!("job `{}` reads `{input}`, which no job makes and which does not exist", job.name);
                    let help =
                        "correct its name, add it to the `outputs` of the job that makes it, or list `needs` by name";
                    return values.report.add(
                        &draft.inputs.get(nth).map_or(&draft.at, |text| &text.at).clone(),
                        message,
                        help,
                    );
                }
            }
            needs.sort_unstable();
            needs.dedup();
            let Some(left) = edges_left.checked_sub(needs.len()) else {
                let message =
                    format!("with the inputs of job `{}` there are more than {} needs", draft.name, limits.edges);
                let help = "put one job between those that make the files and those that read them";
                return values.report.add(&draft.at, message, help);
            };
            edges_left = left;
            all.jobs[at].needs = needs;
        }
    }
    let mut steps = limits.edges;
    for (range, draft) in all.ranges.iter().zip(&drafts.jobs).filter(|(_, draft)| !draft.needs_inputs) {
        'draft: for at in range.clone() {
            let job = &all.jobs[at];
            for (nth, input) in job.inputs.iter().enumerate() {
                let mut missed = None;
                producers.of_input(job, input, paths, |producer, file| {
                    if missed.is_none() && producer != at && !waits_for(&all.jobs, at, producer, &mut steps) {
                        missed = Some((producer, file.to_owned()));
                    }
                });
                let Some((producer, file)) = missed else { continue };
                let (producer, file) = (&all.jobs[producer], clip(&file));
                let message = format!(
                    "job `{}` reads `{file}`, which `{}` makes, and does not wait for it",
                    job.name, producer.name
                );
                let help = format!(
                    "add `{}` to its `needs`, or write `needs = \"inputs\"`: it then needs the jobs that make its inputs",
                    producer.group
                );
                values.report.add(&draft.inputs.get(nth).map_or(&draft.at, |text| &text.at).clone(), message, help);
                break 'draft;
            }
        }
    }
}

/// Whether nothing on the disk is what an input means.
fn is_missing(folder: &std::path::Path, input: &str) -> bool {
    matches(folder, input).is_ok_and(|files| !files.iter().any(|file| std::fs::symlink_metadata(file).is_ok()))
}

/// Whether a job runs after `other`. Beyond this number of steps it is assumed to.
fn waits_for(jobs: &[Job], at: usize, other: usize, steps: &mut usize) -> bool {
    if jobs[at].needs.binary_search(&other).is_ok() {
        return true; // as usual
    }
    let mut seen = std::collections::HashSet::new();
    let mut open = vec![at];
    while let Some(at) = open.pop() {
        for &need in &jobs[at].needs {
            if need == other || *steps == 0 {
                return true;
            }
            *steps -= 1;
            if seen.insert(need) {
                open.push(need);
            }
        }
    }
    false
}
