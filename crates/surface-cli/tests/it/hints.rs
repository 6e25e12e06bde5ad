//! What a message suggests works: each command that it names is typed as it stands there.

use std::collections::BTreeSet;
use std::fs;
use std::process::{Command, Output};

use rustix::process::Signal;

use super::run_site::{Site, assert_code};
use super::text;

/// The commands that a text names: in backquotes, or at the end of a line. `bursar run FILE` is none, since something has to be put in.
fn suggested(said: &str) -> BTreeSet<String> {
    let quoted = said.split('`').skip(1).step_by(2).map(str::to_owned);
    let last = said.lines().filter_map(|line| line.rsplit_once(": bursar ")).map(|(_, rest)| format!("bursar {rest}"));
    let has_gap = |line: &str| line.split(' ').any(|word| word.len() > 1 && word.chars().all(char::is_uppercase));
    quoted.chain(last).filter(|line| line.starts_with("bursar ") && !has_gap(line)).collect()
}

/// Types a line into a shell.
fn type_in(site: &Site, line: &str) -> Output {
    let direct = site.command::<&str>([]);
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("bursar() {{ \"$0\" \"$@\"; }}\n{line}")]).arg(direct.get_program());
    shell.current_dir(site.path(""));
    for (name, value) in direct.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    shell.output().unwrap()
}

fn all(output: &Output) -> String {
    text(&output.stdout) + &text(&output.stderr)
}

/// Types everything that a text names; it must name something with these words.
#[track_caller]
fn all_work(site: &Site, said: &str, words: &str) {
    let lines = suggested(said);
    assert!(lines.iter().any(|line| line.contains(words)), "`{words}` is not among {lines:?} of:\n{said}");
    // The resume comes last: a run without a journal is removed after its success.
    let (last, first): (Vec<_>, Vec<_>) = lines.iter().partition(|line| line.starts_with("bursar run "));
    for line in first.into_iter().chain(last) {
        let output = type_in(site, line);
        assert_eq!(output.status.code(), Some(0), "`{line}` said:\n{}It was suggested by:\n{said}", all(&output));
    }
}

/// The name of a job that must be quoted, and that does not fail when it is tried again.
const FIXABLE: &str =
    "[job.bad]\nforeach = { v = [\"it's $HOME\"] }\nrun = '[ -e fixed ]'\n[job.next]\nneeds = ['bad']\nrun = 'true'\n";

const HOW: [&str; 4] = ["", " -q", " --no-journal", " -q --no-journal"];

#[test]
fn what_a_run_suggests_that_failed_works() {
    for how in HOW {
        let site = Site::new(FIXABLE);
        let output = site.bursar(&format!("run jobs.toml{how}"));
        assert_code(&output, 1);
        let mut said = all(&output);
        for words in ["show latest", "why bad", "logs next", "run --resume latest"] {
            said += &all(&site.bursar(words));
        }
        assert!(!said.contains("`-f` waits for it"), "what was cancelled does not start any more: {said}");
        fs::write(site.path("fixed"), "").unwrap();
        all_work(&site, &said, "--retry-failed");
    }
}

#[test]
fn what_a_run_suggests_that_succeeded_works_or_nothing_is_suggested() {
    for how in HOW {
        let site = Site::new("[job.good]\nrun = 'true'\n");
        let output = site.bursar(&format!("run jobs.toml{how}"));
        assert_code(&output, 0);
        let said = all(&output);
        match how {
            "" => all_work(&site, &said, "bursar report r-"),
            _ => assert_eq!(suggested(&said), BTreeSet::new(), "{how}: {said}"),
        }
    }
}

#[test]
fn what_a_run_suggests_that_was_interrupted_works() {
    for how in HOW {
        let site = Site::new("[job.long]\nrun = '[ -e fixed ] || (echo up > fifo; exec sleep 600)'\n");
        let fifo = site.fifo("fifo");
        let run = site.start(&format!("run jobs.toml{how}"));
        fifo.wait();
        run.signal(Signal::INT);
        let (code, mut said) = run.wait();
        assert_eq!(code, Some(130), "{said}");
        for words in ["show latest", "why long", "pause latest"] {
            said += &all(&site.bursar(words));
        }
        fs::write(site.path("fixed"), "").unwrap();
        all_work(&site, &said, "bursar run --resume");
    }
}

#[test]
fn what_a_resumed_run_suggests_whose_file_was_changed_takes_the_new_plan() {
    let file = "[job.a]\nrun = 'echo begun > begun; read line < gate'\n[job.b]\nneeds = ['a']\nrun = 'touch old'\n";
    let site = Site::new(file);
    let (begun, gate) = (site.fifo("begun"), site.fifo("gate"));
    let run = site.start("run jobs.toml");
    begun.wait();
    run.kill();
    site.write("[job.b]\nrun = 'touch new'\n");
    gate.answer();
    let output = site.bursar("run --resume");
    assert_code(&output, 0);
    assert!(site.path("old").exists() && !site.path("new").exists());
    all_work(&site, &text(&output.stderr), "jobs.toml");
    assert!(site.path("new").exists());
}

#[test]
fn what_is_suggested_where_the_state_folder_cannot_be_used_works() {
    const OTHER: u32 = 65_534;
    let no_folder = |site: &Site| fs::write(site.state_dir(), "").unwrap();
    let of_another = |site: &Site| {
        fs::create_dir(site.state_dir()).unwrap();
        std::os::unix::fs::chown(site.state_dir(), Some(OTHER), None).unwrap();
    };
    let mut spoils: Vec<&dyn Fn(&Site)> = vec![&no_folder];
    if rustix::process::geteuid().is_root() {
        spoils.push(&of_another); // only root can give a folder to another user
    }
    for spoil in spoils {
        let site = Site::new("[job.a]\nrun = 'echo ran >> ran'\n");
        spoil(&site);
        let output = site.bursar("run jobs.toml");
        assert_code(&output, 1);
        let said = text(&output.stderr);
        assert!(said.contains(&site.state_dir().display().to_string()), "{said}");
        assert!(said.contains("set BURSAR_STATE_DIR to ") && said.contains("use --no-journal"), "{said}");
        assert_code(&site.bursar("run jobs.toml --no-journal"), 0);
        let elsewhere = site.temporary().join("state");
        assert_code(&site.command(["run", "jobs.toml"]).env("BURSAR_STATE_DIR", elsewhere).output().unwrap(), 0);
        assert_eq!(site.lines("ran").len(), 2);
    }
}

#[test]
fn a_folder_for_sharing_of_another_user_is_named_with_its_owner_and_a_way_out_that_works() {
    if !rustix::process::geteuid().is_root() {
        return eprintln!("SKIPPED: only root can give a folder to another user");
    }
    let site = Site::new("[job.a]\nrun = 'true'\n");
    let mut squatted = site.command(["run", "jobs.toml"]);
    let (theirs, ours) = (site.temporary().join("theirs"), site.temporary().join("ours"));
    fs::create_dir_all(theirs.join("bursar")).unwrap();
    fs::create_dir(&ours).unwrap();
    std::os::unix::fs::chown(theirs.join("bursar"), Some(65_534), None).unwrap();
    let output = squatted.env("XDG_RUNTIME_DIR", &theirs).output().unwrap();
    assert_code(&output, 0);
    let said = text(&output.stderr);
    let whose = format!("{} belongs to user 65534, not to user 0, so it is not used", theirs.join("bursar").display());
    assert!(said.contains(&whose), "{said}");
    assert!(
        said.contains("ask that user or an administrator to remove it, or set XDG_RUNTIME_DIR to a folder"),
        "{said}"
    );
    let output = squatted.env("XDG_RUNTIME_DIR", &ours).output().unwrap();
    assert_code(&output, 0);
    assert_eq!(text(&output.stderr), "");
}
