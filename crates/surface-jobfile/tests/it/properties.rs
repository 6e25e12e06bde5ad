//! Laws that hold for any file.

use std::collections::HashSet;
use std::fmt::Write;

use proptest::prelude::*;
use surface_jobfile::{Limits, Plan, graph, parse, parse_with};

/// A file of jobs `j0`, `j1`…, each with its needs.
fn file(needs: &[Vec<usize>]) -> String {
    let mut text = String::new();
    for (job, needs) in needs.iter().enumerate() {
        let needs: Vec<String> = needs.iter().map(|need| format!("'j{need}'")).collect();
        let _ = write!(text, "[job.j{job}]\nneeds = [{}]\nrun = 'true'\n", needs.join(", "));
    }
    text
}

/// Needs that point backwards only.
fn acyclic() -> impl Strategy<Value = Vec<Vec<usize>>> {
    (1_usize..40).prop_flat_map(|count| {
        (0..count)
            .map(|job| {
                prop::collection::vec(0..job.max(1), 0..4).prop_map(move |needs| if job == 0 { vec![] } else { needs })
            })
            .collect::<Vec<_>>()
    })
}

proptest! {
    #[test]
    fn a_graph_without_a_cycle_is_never_said_to_have_one(needs in acyclic(), shuffle in any::<prop::sample::Index>()) {
        // The order of the file says nothing: turn it.
        let count = needs.len();
        let turn = shuffle.index(count);
        let place = |job: usize| (job + turn) % count;
        let mut turned = vec![Vec::new(); count];
        for (job, needs) in needs.iter().enumerate() {
            turned[place(job)] = needs.iter().map(|&need| place(need)).collect();
        }
        let plan = parse("test.toml", &file(&turned)).map_err(|problems| TestCaseError::fail(problems.to_string()))?;
        for (job, needs) in plan.jobs.iter().zip(&turned) {
            let wanted: HashSet<usize> = needs.iter().copied().collect();
            prop_assert_eq!(job.needs.iter().copied().collect::<HashSet<_>>(), wanted);
            prop_assert!(job.needs.is_sorted_by(|a, b| a < b));
        }
        let order = plan.order().expect("there is one");
        let mut done = HashSet::new();
        for job in order {
            prop_assert!(plan.jobs[job].needs.iter().all(|need| done.contains(need)));
            done.insert(job);
        }
        prop_assert_eq!(done.len(), count);
    }

    #[test]
    fn a_cycle_that_is_named_is_one(needs in acyclic(), ring in 2_usize..12, edges in prop::collection::vec(any::<(prop::sample::Index, prop::sample::Index)>(), 0..6)) {
        // A ring beside the rest, with arrows from the rest into it and back.
        let (mut needs, start) = (needs.clone(), needs.len());
        for step in 0..ring {
            needs.push(vec![start + (step + 1) % ring]);
        }
        for (user, need) in edges {
            let (user, need) = (user.index(needs.len()), need.index(needs.len()));
            if user != need {
                needs[user].push(need);
            }
        }
        let said = parse("test.toml", &file(&needs)).expect_err("there is a cycle").to_string();
        let named = said.split("in a cycle: ").nth(1).and_then(|said| said.split(';').next()).expect("it is named");
        prop_assume!(!named.contains('…'));
        let cycle: Vec<usize> = named.split(" -> ").map(|name| name[1..].parse().unwrap()).collect();
        prop_assert_eq!(cycle.first(), cycle.last());
        prop_assert!(cycle.len() >= 3);
        prop_assert!(cycle.len() <= ring.max(needs.len()) + 1);
        for pair in cycle.windows(2) {
            prop_assert!(needs[pair[0]].contains(&pair[1]), "{} does not need {} in {named}", pair[0], pair[1]);
        }
    }

    #[test]
    fn a_matrix_has_the_product_of_its_keys_and_unique_names(
        lists in prop::collection::vec(prop::collection::hash_set(prop_oneof!["[ab,\"\\[\\]\\\\ \n]{0,3}", "[a\",]{1,6}"], 1..5), 1..4),
    ) {
        let quoted = |text: &String| serde_json::to_string(text).unwrap();
        let mut keys = String::new();
        for (key, list) in lists.iter().enumerate() {
            let list: Vec<String> = list.iter().map(quoted).collect();
            let _ = write!(keys, "\"k{key}\": [{}],", list.join(","));
        }
        let keys = keys.trim_end_matches(',');
        let same = (0..lists.len()).map(|key| format!("{{k{key}}}")).collect::<Vec<_>>().join(",");
        let text = format!(
            r#"{{"job": {{"a": {{"foreach": {{{keys}}}, "run": "{{k0}}!"}},
                "b": {{"foreach": {{{keys}}}, "needs": ["a[{same}]"], "command": ["x", "{{job}}"]}}}}}}"#
        );
        let plan = parse("test.json", &text).map_err(|problems| TestCaseError::fail(problems.to_string()))?;
        let count: usize = lists.iter().map(|list| list.len()).product();
        prop_assert_eq!(plan.jobs.len(), 2 * count);
        let names: HashSet<&str> = plan.jobs.iter().map(|job| job.name.as_str()).collect();
        prop_assert_eq!(names.len(), 2 * count);
        for job in &plan.jobs[count..] {
            prop_assert_eq!(job.needs.len(), 1);
            prop_assert_eq!(&plan.jobs[job.needs[0]].values, &job.values);
        }
    }

    #[test]
    fn any_text_gives_a_plan_or_problems(pieces in prop::collection::vec(prop::sample::select(PIECES), 0..30)) {
        let text = pieces.concat();
        let limits = Limits { jobs: 1_000, edges: 10_000, text_bytes: 1 << 20, globs: false, ..Limits::default() };
        for name in ["x.toml", "x.json"] {
            match parse_with(name, text.as_bytes(), &limits) {
                Ok(plan) => {
                    prop_assert!(plan.order().is_some());
                    graph::text(&plan);
                    let stored = serde_json::to_string(&plan).unwrap();
                    prop_assert_eq!(serde_json::from_str::<Plan>(&stored).unwrap(), plan);
                }
                Err(problems) => {
                    prop_assert!(problems.len() > 0);
                    problems.pretty(true);
                }
            }
        }
    }
}

const PIECES: &[&str] = &[
    "[job.a]\n",
    "[job.b]\n",
    "[resources]\n",
    "[defaults]\n",
    "[env]\n",
    "run = 'true {x} {{x}} ${x}'\n",
    "command = ['a', '{job}']\n",
    "needs = ['a']\n",
    "needs = ['b[{x}]']\n",
    "foreach = { x = '1..3' }\n",
    "foreach = { x = ['p', 'q'], y = '0..1' }\n",
    "exclude = [{ x = 1 }]\n",
    "cpu = 2\n",
    "ram = '1 GB'\n",
    "licence = 1\n",
    "env = { A = '{x}' }\n",
    "outputs = ['{x}']\n",
    "timeout = '1m'\n",
    "ä\u{1f600}",
    "\"",
    "{",
    "[",
    "=",
    "\n",
];
