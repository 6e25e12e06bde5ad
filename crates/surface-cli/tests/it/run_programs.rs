//! A Janus program as a job: it runs, ends, is cancelled and paused like any other.

use std::fs;
use std::time::Duration;

use surface_journal::State;
use test_support::until;

use super::run_site::{Site, assert_code};
use super::text;

fn site(job: &str, program: &str) -> Site {
    let site = Site::new(&format!("[job.step]\nexec = 'step.jan'\n{job}\n"));
    fs::write(site.path("step.jan"), program).unwrap();
    site
}

#[test]
fn a_program_runs_as_a_job_and_is_up_to_date_until_its_file_or_its_arguments_change() {
    let site = site("", "func main(n: i64) do\n    print(\"square\", n * n)\nend\n");
    // A program writes no files; what shows that it ran is its attempt.
    fs::write(site.path("made"), "").unwrap();
    let with = |n: u32| {
        site.write(&format!("[job.step]\nexec = 'step.jan'\nargs = [{n}]\nops = 1000\noutputs = ['made']\n"));
        assert_code(&site.bursar("run jobs.toml"), 0);
        site.job("step").attempt
    };
    assert_eq!(with(7), 1, "no run has left the output as it is");
    assert!(text(&site.bursar("logs step").stdout).contains("square 49"));
    assert_eq!(site.job("step").command, "bursar exec --ops=1000 --arg=7 step.jan");
    assert_eq!(with(7), 0, "it is up to date");
    assert_eq!(with(8), 1, "another argument is another command");
    assert_eq!(with(8), 0);
    fs::write(site.path("step.jan"), "func main(n: i64) do\n    print(n)\nend\n").unwrap();
    assert_eq!(with(8), 1, "the program changed");
}

#[test]
fn a_program_that_spends_its_budget_is_a_job_that_failed_and_says_why_in_its_log() {
    let site = site("ops = 5000\nretries = 1\nbackoff = '1ms'", "func main() do\n    while true do end\nend\n");
    assert_code(&site.bursar("run jobs.toml"), 1);
    let job = site.job("step");
    assert_eq!((job.state, job.attempt), (State::Failed, 2), "each attempt has a budget of its own");
    let log = text(&site.bursar("logs step").stdout);
    assert!(log.contains("step.jan:2:5: stopped: budget spent (ops 5,000 of 5,000) in `main`"), "{log}");
    assert!(log.contains("spent: ops 5,000"), "{log}");
}

#[test]
fn a_program_that_is_cancelled_as_a_job_runs_what_it_deferred() {
    let site = site(
        "",
        "func main() do\n    defer print(\"deferred\")\n    print(\"up\")\n    print(channel(0).recv())\nend\n",
    );
    let run = site.start("run jobs.toml");
    until(Duration::from_secs(60), "the program is up", || text(&site.bursar("logs step").stdout).contains("up\n"));
    assert_code(&site.bursar("pause step"), 0);
    assert_code(&site.bursar("resume step"), 0);
    assert_code(&site.bursar("cancel step"), 0);
    assert_eq!(run.wait().0, Some(1));
    assert_eq!(site.job("step").state, State::Cancelled);
    assert!(text(&site.bursar("logs step").stdout).contains("deferred"));
}

#[test]
fn a_program_that_is_wrong_or_takes_other_arguments_is_refused_before_any_job_runs() {
    for (job, program, part) in [
        ("", "func main() do\n    prnt(1)\nend\n", "step.jan:2:5"),
        (
            "",
            "func main(n: i64) do\n    print(n)\nend\n",
            "takes arguments: i64; given: none; write them as `args = […]` in the job",
        ),
        (
            "args = ['x']",
            "func main(n: i64) do\n    print(n)\nend\n",
            "invalid value 'x' for `args`: it is neither a number from",
        ),
        ("", "func helper() do end\n", "has no function `main`"),
        ("", "{.profile: sovereign, needs: spawn.}\nfunc main() do end\n", "grant it with `tasks = N` in the job"),
    ] {
        let site = site(&format!("{job}\n[job.other]\nrun = 'echo ran > ran'"), program);
        for command in ["check jobs.toml", "run jobs.toml"] {
            let output = site.bursar(command);
            assert_code(&output, 3);
            let said = text(&output.stderr);
            assert!(said.contains(part), "{command}: {said}");
            assert!(said.contains("job `step`: ") || part.starts_with("step.jan"), "{command}: {said}");
        }
        assert!(!site.path("ran").exists());
    }
    let site = site("", "func main() do end\n");
    assert_code(&site.bursar("check jobs.toml"), 0);
    fs::remove_file(site.path("step.jan")).unwrap();
    let output = site.bursar("check jobs.toml");
    assert_code(&output, 3);
    let said = text(&output.stderr);
    assert!(
        said.contains("name a Janus program in `exec` of job `step`") && !said.contains("standard input"),
        "{said}"
    );
}
