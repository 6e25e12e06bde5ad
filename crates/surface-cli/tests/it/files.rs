//! `check`, `graph` and `report`: files as people look at them.

use std::fs;

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
    assert!(!error.contains('\x1b'), "there is no terminal: {error:?}");
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

#[test]
fn what_a_bad_file_says_never_reaches_a_terminal_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let files = [
        ("raw.toml", "[job.a\x1b[31m]\nrun = \"x\x1b]0;title\x07\"\nfoo\x1b[2J = 1\n"),
        ("bare.toml", "[job.a]\nrun = 1\x1b[31m\n"),
        ("written.toml", "[job.a]\nrun = 'x'\nneeds = [\"\\u001b[31mb\"]\ntimeout = \"\\u009b31m\"\n"),
        ("node.toml", "[node.a]\nkind = \"\\u001b[31m\"\n[edge]\nfrom = \"\\u001b\"\n"),
        ("text.json", "{\"job\": {\"a\": {\"run\": \"x\", \"needs\": [\"\\u001b[31m\", \"\\u202ecod\"]}}}"),
        ("name\x1b[31m.toml", "nonsense"),
    ];
    for (name, text) in files {
        let path = dir.path().join(name);
        fs::write(&path, text).unwrap();
        for verb in [&["check"][..], &["run"], &["graph"], &["flow", "check"], &["flow", "run"], &["exec"]] {
            let output = super::bursar(verb).arg(&path).output().unwrap();
            assert!(!output.status.success(), "{verb:?} {name}");
            let said = super::text(&output.stdout) + &super::text(&output.stderr);
            let harmful = said.chars().find(|c| c.is_control() && !"\n\t".contains(*c) || *c == '\u{202e}');
            assert_eq!(harmful, None, "{verb:?} {name}: {}", said.escape_debug());
        }
    }
    let output = super::bursar(&["run"]).arg(dir.path().join("not\x1b[31mthere")).output().unwrap();
    assert!(!output.stderr.contains(&0x1b) && !output.stdout.contains(&0x1b));
}
