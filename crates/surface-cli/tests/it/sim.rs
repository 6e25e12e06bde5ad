//! `sim`: a workload on a simulated machine.

use std::fs;

use crate::run_site::{Site, assert_code};
use crate::{complains, says, text};

const HOGS: &str = r#"
for = "500ms"
[thread.hog]
count = 3
does = ["run 20ms"]
[thread.sleeper]
weight = 2048
latency = "sensitive"
deadline = "3ms"
does = ["run 100us..300us", "sleep 2ms..9ms"]
"#;

#[test]
fn a_workload_is_shown_as_tables_and_a_timeline() {
    let site = Site::new(HOGS);
    let told = says(&site.bursar("sim jobs.toml"));
    assert!(told.starts_with("jobs: 500 ms on 1 CPU, eevdf, seed 0; "), "{told}");
    for part in ["no law broke", "hog ×3", "WAIT P50", "PREEMPTED", "MISSED", "CPU  BUSY", "a hog, b sleeper, · idle"]
    {
        assert!(told.contains(part), "`{part}` is missing from:\n{told}");
    }
    let lanes: Vec<&str> = told.lines().filter(|line| line.starts_with("CPU 0   ")).collect();
    assert_eq!(lanes.len(), 1, "{told}");
    assert_eq!(lanes[0].chars().count(), "CPU 0   ".len() + 100, "{told}");
    assert!(!told.contains('\x1b'), "there is no terminal: {told:?}");
}

#[test]
fn contexts_that_no_system_would_admit_are_named_and_simulated() {
    let two = |budget: &str| {
        let context = |name: &str| {
            format!(
                "[context.{name}]\nbudget = \"{budget}\"\nperiod = \"10ms\"\n[thread.{name}]\ncontext = \"{name}\"\ndoes = [\"run 20ms\"]\n"
            )
        };
        Site::new(&format!("for = \"100ms\"\n{}{}", context("left"), context("right"))).bursar("sim jobs.toml")
    };
    let told = two("9ms");
    assert_code(&told, 0);
    let warned = text(&told.stderr);
    assert!(
        warned.contains("warning: a system would refuse this: admission: right needs 9 ms in every 10 ms; CPU 0 has"),
        "{warned}"
    );
    assert_eq!(text(&two("4ms").stderr), "", "these two fit");
}

#[test]
fn the_same_seed_gives_the_same_run_and_another_seed_another() {
    let site = Site::new(HOGS);
    let [first, again, other] =
        ["--seed 7", "--seed 7", "--seed 8"].map(|seed| says(&site.bursar(&format!("sim jobs.toml {seed}"))));
    assert_eq!(first, again);
    assert_ne!(first.replace("seed 7", ""), other.replace("seed 8", ""));
}

#[test]
fn policies_stand_side_by_side_on_the_same_workload() {
    let site = Site::new(HOGS);
    let json: serde_json::Value =
        serde_json::from_str(&says(&site.bursar("sim jobs.toml --compare --json --for 2s"))).unwrap();
    let runs = json["runs"].as_array().unwrap();
    let waits: Vec<(&str, u64)> = runs
        .iter()
        .map(|run| (run["policy"].as_str().unwrap(), run["threads"][1]["wait_p99_ns"].as_u64().unwrap()))
        .collect();
    assert_eq!(waits.iter().map(|(policy, _)| *policy).collect::<Vec<_>>(), ["eevdf", "wfq", "rr"]);
    assert!(
        waits[0].1 < waits[1].1 && waits[0].1 < waits[2].1,
        "the sleeper is served soonest by deadlines: {waits:?}"
    );
    assert_eq!((json["cpus"].as_u64(), json["for_ns"].as_u64()), (Some(1), Some(2_000_000_000)));

    let told = says(&site.bursar("sim jobs.toml --policy rr,eevdf"));
    let order: Vec<&str> =
        told.lines().filter_map(|line| line.split_once(" CPU 0 ")).map(|(policy, _)| policy.trim()).collect();
    assert_eq!(order, ["rr", "eevdf"], "{told}");
    assert!(told.contains("POLICY"), "{told}");
}

#[test]
fn a_law_that_breaks_ends_the_run_with_a_command_that_shows_it_again() {
    let site = Site::new(&HOGS.replace("deadline =", "wait_limit ="));
    // Deadlines serve it in time; round robin does not.
    says(&site.bursar("sim jobs.toml --seed 3"));
    let output = site.bursar("sim jobs.toml --seed 3 --compare --for 400ms");
    let error = complains(&output, 1);
    assert!(output.stdout.is_empty(), "{}", text(&output.stdout));
    assert!(error.contains("a law broke under") && error.contains("`sleeper` waited"), "{error}");
    let replay =
        error.lines().find_map(|line| line.strip_prefix("replay: bursar ")).unwrap_or_else(|| panic!("{error}"));
    assert!(replay.starts_with("sim jobs.toml --seed 3 --policy "), "{replay}");
    let again = complains(&site.bursar(replay), 1);
    assert_eq!(again, error, "the same law, at the same time");
}

#[test]
fn a_workload_that_is_wrong_is_shown_with_its_lines_and_code_3() {
    let site = Site::new("[thread.hog]\ndoes = [\"rum 10ms\"]\nweigth = 2\n");
    let output = site.bursar("sim jobs.toml");
    let error = complains(&output, 3);
    assert!(error.contains("did you mean `weight`?") && error.contains("jobs.toml has 1 problem"), "{error}");
    site.write("[thread.hog]\ndoes = [\"rum 10ms\"]\n");
    let error = complains(&site.bursar("sim jobs.toml"), 3);
    for part in ["`rum 10ms` is not a step", "did you mean `run`?", "does = [\"rum 10ms\"]"] {
        assert!(error.contains(part), "`{part}` is missing from:\n{error}");
    }
    assert!(complains(&site.bursar("sim no-such.toml"), 3).contains("cannot be read"));
}

#[test]
fn options_of_a_simulation_are_answered_with_value_limit_and_way_out() {
    let site = Site::new("cpus = 4\n[thread.pinned]\ncpus = [3]\ndoes = ['run 1ms']\n");
    says(&site.bursar("sim jobs.toml"));
    let error = complains(&site.bursar("sim jobs.toml --cpus 2"), 2);
    assert!(error.contains("names CPU 3, and the machine has 2") && error.contains("`--cpus 4`"), "{error}");
    for (option, part) in [
        ("--policy fifo", "none of eevdf, wfq, rr"),
        ("--for 0s", "a run of 0 shows nothing"),
        ("--for 5x", "write `2s`, `500ms` or `250us`"),
        ("--cpus 300", "300 is not in 1..=256"),
        ("--window 5ms", "there is no `..` in it"),
        ("--window 5ms..1ms", "its end is not after its beginning"),
        ("--window 2s..3s", "`--window` begins at 2.0 s, and the run ends at 1.0 s; choose an earlier one"),
    ] {
        let error = complains(&site.bursar(&format!("sim jobs.toml {option}")), 2);
        assert!(error.contains(part), "{option}: `{part}` is missing from:\n{error}");
    }
}

#[test]
fn a_wait_that_lasts_to_the_end_is_shown() {
    let site = Site::new(
        "for = '200ms'\n[thread.hog]\nclass = 'fair'\ndoes = ['run 1s']\n[thread.starved]\nclass = 'idle'\ndoes = ['run 1ms']\n",
    );
    let told: serde_json::Value = serde_json::from_str(&says(&site.bursar("sim jobs.toml --json"))).unwrap();
    let starved = &told["runs"][0]["threads"][1];
    assert_eq!((starved["name"].as_str(), starved["ran_ns"].as_u64()), (Some("starved"), Some(0)), "{told}");
    assert_eq!((starved["waits"].as_u64(), starved["wait_max_ns"].as_u64()), (Some(1), Some(200_000_000)), "{told}");
}

#[test]
fn a_cycle_of_calls_is_refused_and_told() {
    let site = Site::new(
        "for = '100ms'\n[thread.left]\ndoes = ['run 1ms', 'call right']\n[thread.right]\ndoes = ['receive', 'run 1ms', 'call left', 'reply']\n",
    );
    let told = says(&site.bursar("sim jobs.toml"));
    assert!(told.contains("\nright was refused 4") && told.contains("(a cycle of calls)"), "{told}");
    let told: serde_json::Value = serde_json::from_str(&says(&site.bursar("sim jobs.toml --json"))).unwrap();
    let threads = &told["runs"][0]["threads"];
    assert_eq!(threads[0]["refused"].as_u64(), Some(0), "{told}");
    assert!(threads[1]["refused"].as_u64().is_some_and(|count| count >= 40), "{told}");
}

#[test]
fn help_for_a_file_in_json_says_how_toml_is_read() {
    let site = Site::new("");
    fs::write(site.path("jobs.json"), "{ \"thread\": { \"hog\": 3 } }").unwrap();
    let error = complains(&site.bursar("sim jobs.json"), 3);
    assert!(error.contains("in JSON, `[job.a]` is `\"job\": { \"a\": { … } }`"), "{error}");
    let error = complains(&site.bursar("check jobs.json"), 3);
    assert!(error.contains("the help shows TOML"), "{error}");
}

#[test]
fn what_a_machine_refuses_is_named() {
    let site = Site::new(
        "cpus = 1\n[process.p]\n[context.c]\nbudget = '1ms'\nperiod = '2ms'\n[lease.all]\nprocess = 'p'\ncpus = [0]\ncontext = 'c'\n[thread.t]\ndoes = ['run 1ms']\n",
    );
    let error = complains(&site.bursar("sim jobs.toml"), 1);
    assert!(error.contains("lease `all`: a lease of CPUs 0 leaves none for the system"), "{error}");
}

#[test]
fn a_timeline_is_drawn_for_a_browser() {
    let site = Site::new(&format!("name = \"a <b> & c\"\ncpus = 2\n{HOGS}"));
    says(&site.bursar("sim jobs.toml --svg t.svg --window 100ms..150ms --policy eevdf,rr"));
    let picture = fs::read_to_string(site.path("t.svg")).unwrap();
    assert!(picture.starts_with("<svg ") && picture.ends_with("</svg>\n"));
    assert!(picture.contains("a &lt;b&gt; &amp; c · rr") && !picture.contains("<b>"));
    assert!(picture.matches("<title>hog.").count() > 10, "{picture}");
    let unwritable = site.bursar("sim jobs.toml --svg no/such/folder/x.svg");
    assert_code(&unwritable, 1);
}

#[test]
fn the_examples_of_a_simulation_run() {
    let site = Site::new("");
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples");
    for example in ["sim-hog.toml", "sim-audio.toml"] {
        let told = says(&site.bursar(&format!("sim {root}/{example} --compare --for 300ms")));
        assert!(told.contains("no law broke"), "{told}");
    }
}
