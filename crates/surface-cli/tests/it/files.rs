//! `check`, `graph` and `report`: files as people look at them.

use crate::run_site::{Site, assert_code};
use crate::text;

const GOOD: &str = r#"
[job.image]
foreach = { scene = "1..3" }
run = "true {scene}"
[job.film]
needs = ["image"]
run = "true"
"#;

#[test]
fn a_file_that_is_right_is_drawn() {
    let site = Site::new(GOOD);
    let output = site.bursar("check jobs.toml");
    assert_code(&output, 0);
    let drawing = text(&output.stdout);
    assert!(drawing.starts_with("jobs: 4 jobs in 2 groups") && drawing.contains("└─ film"), "{drawing}");
    let json: serde_json::Value = serde_json::from_slice(&site.bursar("check jobs.toml --json").stdout).unwrap();
    assert_eq!((json["ok"].as_bool(), json["plan"]["jobs"].as_array().unwrap().len()), (Some(true), 4));
}

#[test]
fn a_file_that_is_wrong_is_shown_with_its_lines_and_code_3() {
    let site = Site::new("[job.a]\nrun = 'true'\nretires = 2\nneeds = ['b']");
    let output = site.bursar("check jobs.toml");
    assert_code(&output, 3);
    let error = text(&output.stderr);
    for part in ["jobs.toml", "retires = 2", "did you mean `retries`?", "bursar: jobs.toml has"] {
        assert!(error.contains(part), "`{part}` is missing from:\n{error}");
    }
    assert!(output.stdout.is_empty());
    assert!(!error.contains('\x1b'), "nobody is at a terminal: {error:?}");
    let output = site.bursar("check jobs.toml --json");
    assert_code(&output, 3);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((json["ok"].as_bool(), json["problems"][0]["line"].as_u64()), (Some(false), Some(3)));
    for words in ["check no-such.toml", "graph no-such.toml"] {
        let output = site.bursar(words);
        assert_code(&output, 3);
        assert!(text(&output.stderr).contains("cannot be read"), "{}", text(&output.stderr));
    }
}

#[test]
fn a_file_or_a_run_is_drawn_for_programs() {
    let site = Site::new(GOOD);
    assert!(text(&site.bursar("graph jobs.toml").stdout).starts_with("digraph \"jobs\" {"));
    assert!(text(&site.bursar("graph jobs.toml --svg").stdout).starts_with("<svg "));
    assert_code(&site.bursar("graph jobs.toml -o plan.svg"), 0);
    assert!(site.lines("plan.svg")[0].starts_with("<svg "));
    assert_code(&site.bursar("run jobs.toml"), 0);
    site.write("this is no job file any more");
    let id = site.newest().id;
    let drawing = text(&site.bursar(&format!("graph {id} --text")).stdout);
    assert!(drawing.starts_with("jobs: 4 jobs in 2 groups"), "the run kept its plan: {drawing}");
    let unwritable = site.bursar("graph latest -o no/such/folder/x.dot");
    assert_code(&unwritable, 1);
    assert!(text(&unwritable.stderr).contains("cannot write no/such/folder/x.dot"), "{}", text(&unwritable.stderr));
}

#[test]
fn a_run_is_reported_as_one_html_file() {
    let site = Site::new(GOOD);
    assert_code(&site.bursar("run jobs.toml"), 0);
    let output = site.bursar("report");
    assert_code(&output, 0);
    let name = text(&output.stdout).trim().to_owned();
    assert_eq!(name, format!("bursar-{}.html", site.newest().id));
    let page = site.lines(&name).join("\n");
    assert!(page.starts_with("<!doctype html>") && page.contains("image[2]"));
    let page = text(&site.bursar("report latest -o -").stdout);
    assert!(page.starts_with("<!doctype html>"));
}
