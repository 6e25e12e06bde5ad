//! A flow as a job: it runs, ends, is cancelled and paused like any other.

use std::fs;

use surface_journal::State;

use super::run_site::{Site, assert_code};
use super::text;

/// Counts what comes, and writes it.
fn site(source: &str) -> Site {
    let site = Site::new(
        "[job.made]\noutputs = ['in.txt']\nrun = 'seq 5 > in.txt'\n[job.graph]\nneeds = ['made']\nflow = 'graph.toml'\noutputs = ['out.txt']\n",
    );
    let graph = format!("edges = ['in -> out']\n[node.in]\n{source}\n[node.out]\nkind = 'write'\npath = 'out.txt'\n");
    fs::write(site.path("graph.toml"), graph).unwrap();
    site
}

#[test]
fn a_flow_runs_as_a_job_and_is_up_to_date_until_its_file_changes() {
    let site = site("kind = 'lines'\npath = 'in.txt'");
    assert_code(&site.bursar("run jobs.toml"), 0);
    assert_eq!(site.lines("out.txt"), ["1", "2", "3", "4", "5"]);
    assert_code(&site.bursar("run jobs.toml"), 0);
    assert_eq!(site.job("graph").attempt, 0);
    let text = fs::read_to_string(site.path("graph.toml")).unwrap();
    fs::write(site.path("graph.toml"), text + "# another\n").unwrap();
    assert_code(&site.bursar("run jobs.toml"), 0);
    assert_eq!(site.job("graph").attempt, 1);
}

#[test]
fn a_flow_that_is_cancelled_as_a_job_delivers_what_is_on_its_way() {
    let site = site("kind = 'command'\nrun = 'echo one; echo up > fifo; sleep 600'");
    let fifo = site.fifo("fifo");
    let run = site.start("run jobs.toml --keep-incomplete");
    fifo.wait();
    assert_code(&site.bursar("pause graph"), 0);
    assert_eq!(site.bursar("why graph").status.code(), Some(0));
    assert_code(&site.bursar("resume graph"), 0);
    assert_code(&site.bursar("cancel graph"), 0);
    assert_eq!(run.wait().0, Some(1));
    assert_eq!(site.job("graph").state, State::Cancelled);
    assert_eq!(site.lines("out.txt"), ["one"]);
}

#[test]
fn a_flow_file_that_is_wrong_is_refused_before_any_job_runs() {
    let site = site("kind = 'linse'\npath = 'in.txt'");
    for command in ["check jobs.toml", "run jobs.toml"] {
        let output = site.bursar(command);
        assert_code(&output, 3);
        assert!(text(&output.stderr).contains("linse"), "{command}: {}", text(&output.stderr));
    }
    assert!(!site.path("in.txt").exists());
    fs::remove_file(site.path("graph.toml")).unwrap();
    assert_code(&site.bursar("run jobs.toml"), 3);
}
