//! Runs that have ended: listed, shown, asked about. And the lines of a run without a terminal.

use crate::run_site::{Site, assert_code};
use crate::{json_lines, run, text};

const ONE_FAILS: &str = r#"
[resources]
cpu = 1
[job.good]
priority = 3
run = "echo fine"
[job.bad]
priority = 2
run = "echo first line; echo the reason >&2; exit 3"
[job.lost]
needs = ["bad"]
run = "true"
[job.many]
foreach = { n = "1..2" }
run = "true {n}"
"#;

/// Digits of times, and of the run's name, are not what a test is about.
fn without_times(text: &str, run: &str) -> Vec<String> {
    let mut lines = Vec::new();
    for line in text.replace(run, "RUN").lines() {
        let line = match line.split_once("  ").filter(|(at, _)| at.trim().is_empty()) {
            Some(_) => line.trim_start().split_once("  ").map_or(line, |(_, rest)| rest),
            None => line,
        };
        let mut out = String::new();
        for word in line.split(' ') {
            let is_time = word.chars().all(|c| c.is_ascii_digit() || c == '.') && !word.is_empty();
            out.push_str(if is_time { "N" } else { word });
            out.push(' ');
        }
        lines.push(out.trim_end().replace("N ms", "TIME").replace("N s", "TIME"));
    }
    lines
}

#[test]
fn a_run_without_a_terminal_prints_a_line_for_what_matters() {
    let site = Site::new(ONE_FAILS);
    let output = site.bursar("run jobs.toml");
    assert_code(&output, 1);
    let id = site.newest().id;
    let log = site.journal().folder(&id).join("logs/1.1.log");
    assert_eq!(
        without_times(&text(&output.stdout), id.as_str()),
        [
            "run RUN: jobs, N jobs".to_owned(),
            "started   good".to_owned(),
            "done      good: TIME".to_owned(),
            "started   bad".to_owned(),
            format!("failed    bad: exited with N; TIME; log {}", log.display())
                .replace(id.as_str(), "RUN")
                .replace("with 3", "with N")
                .replace("with N;", "with 3;"),
            "  │ first line".to_owned(),
            "  │ the reason".to_owned(),
            "cancelled lost: [3004] `bad`, which it needs, failed".to_owned(),
            "started   many[1]".to_owned(),
            "done      many[1]: TIME".to_owned(),
            "started   many[2]".to_owned(),
            "done      many[2]: TIME".to_owned(),
            "N failed, N cancelled, N done in TIME · run RUN · retry: bursar run --resume RUN --retry-failed"
                .to_owned(),
        ]
    );
}

/// Another user than root, or ourselves.
fn plain_user() -> u32 {
    const OTHER_USER: u32 = 65_534;
    let me = rustix::process::geteuid();
    if me.is_root() { OTHER_USER } else { me.as_raw() }
}

/// Gives a folder with all that is in it to `user`, who may only read it.
fn make_read_only(folder: &std::path::Path, user: u32) {
    use std::os::unix::fs::PermissionsExt;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            make_read_only(&path, user);
        } else {
            std::os::unix::fs::chown(&path, Some(user), None).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o400)).unwrap();
        }
    }
    std::os::unix::fs::chown(folder, Some(user), None).unwrap();
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o500)).unwrap();
}

#[test]
fn a_state_folder_that_may_not_be_written_can_still_be_read() {
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::process::CommandExt;
    let site = Site::new("[job.good]\nrun = 'echo hello'\n[job.bad]\nrun = 'echo up > fifo; exec sleep 600'\n");
    let fifo = site.fifo("fifo");
    let run = site.start("run jobs.toml --cpu 1");
    fifo.wait();
    let mut held = Some(site.journal()); // while it is open, the log of the database stays
    while site.job("good").state != surface_journal::State::Succeeded {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    run.kill();
    let id = site.newest().id;
    let beside = |ending: &str| site.state_dir().join(format!("journal.db-{ending}"));
    // As it is in use; with a log that is not yet taken over; with none.
    for case in 0..3 {
        make_writable(&site.state_dir());
        match case {
            0 => assert!(beside("wal").metadata().unwrap().len() > 0),
            1 => std::fs::remove_file(beside("shm")).unwrap(),
            _ => {
                drop(held.take());
                drop(site.journal()); // takes the log over, and is the last to close
                assert!(!beside("wal").exists() && !beside("shm").exists());
            }
        }
        let user = plain_user();
        make_read_only(&site.state_dir(), user);
        std::fs::set_permissions(site.path("..").as_path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        std::fs::set_permissions(site.temporary(), std::fs::Permissions::from_mode(0o777)).unwrap();
        for (words, part) in [
            ("runs", "interrupted"),
            ("show latest", "succeeded"),
            ("logs good", "hello"),
            ("why good", "it succeeded"),
            ("ps", ""),
        ] {
            let output = site.command(words.split(' ')).uid(user).output().unwrap();
            assert_code(&output, 0);
            assert!(text(&output.stdout).contains(part), "{words}: {}", text(&output.stdout));
        }
        let output = site.command(["run", "--resume", id.as_str()]).uid(user).output().unwrap();
        assert_code(&output, 1);
        let said = text(&output.stderr);
        assert!(said.contains("cannot") && said.contains(&site.state_dir().display().to_string()), "{said}");
    }
    make_writable(&site.state_dir());
    assert_code(&site.bursar("cancel bad"), 0);
}

fn make_writable(folder: &std::path::Path) {
    use std::os::unix::fs::PermissionsExt;
    let me = rustix::process::geteuid().as_raw();
    std::os::unix::fs::chown(folder, Some(me), None).unwrap();
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o700)).unwrap();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            make_writable(&path);
        } else {
            std::os::unix::fs::chown(&path, Some(me), None).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        }
    }
}

#[test]
fn many_jobs_that_never_started_are_one_line_when_they_are_cancelled() {
    let site = Site::new(
        "[job.first]\nrun = 'echo up > fifo; exec sleep 600'\n\
         [job.many]\nforeach = { n = '1..50' }\nneeds = ['first']\nrun = 'true'\n",
    );
    let fifo = site.fifo("fifo");
    let run = site.start("run jobs.toml");
    fifo.wait();
    run.signal(rustix::process::Signal::INT);
    let (code, said) = run.wait();
    assert_eq!(code, Some(130), "{said}");
    let cancelled: Vec<&str> = said.lines().filter(|line| line.contains("  cancelled ")).collect();
    assert!(cancelled.len() <= 2, "{said}");
    assert!(said.contains("50 jobs that had not started (many[1], many[2], many[3] and 47 more)"), "{said}");
}

#[test]
fn a_run_prints_every_event_as_json() {
    let site = Site::new(ONE_FAILS);
    let output = site.bursar("run jobs.toml --json");
    assert_code(&output, 1);
    let events = json_lines(&text(&output.stdout));
    assert_eq!(events[0]["event"], "run_started");
    assert_eq!(events[0]["jobs"], 5);
    let failed = events.iter().find(|event| event["event"] == "failed").unwrap();
    assert_eq!((failed["job"].as_str(), failed["error"].as_str()), (Some("bad"), Some("exited with 3")));
    assert!(std::path::Path::new(failed["log"].as_str().unwrap()).exists());
    let last = events.last().unwrap();
    assert_eq!((last["event"].as_str(), last["outcome"].as_str()), (Some("run_ended"), Some("failed")));
    assert_eq!((&last["succeeded"], &last["failed"], &last["cancelled"]), (&3.into(), &1.into(), &1.into()));
}

#[test]
fn a_quiet_run_says_only_what_failed() {
    let site = Site::new(ONE_FAILS);
    let output = site.bursar("run jobs.toml --quiet");
    assert_code(&output, 1);
    assert_eq!(text(&output.stdout), "");
    let error = text(&output.stderr);
    assert!(error.contains("✗ bad failed after") && error.contains("│ the reason"), "{error}");
    assert!(!error.contains("good"), "{error}");
}

#[test]
fn a_run_that_has_ended_is_listed_shown_and_explained() {
    let site = Site::new(ONE_FAILS);
    assert_code(&site.bursar("run jobs.toml"), 1);
    let id = site.newest().id;
    let runs = site.bursar("runs");
    assert_code(&runs, 0);
    let list = text(&runs.stdout);
    let cells: Vec<&str> = list.lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!(cells[..4], [id.as_str(), "jobs", "failed", "3/5"], "{list}");
    assert!(text(&site.bursar("runs --status succeeded").stderr).contains("no such runs"));
    let json: serde_json::Value = serde_json::from_slice(&site.bursar("runs --json").stdout).unwrap();
    assert_eq!((json[0]["id"].as_str(), json[0]["status"].as_str()), (Some(id.as_str()), Some("failed")));

    let shown = text(&site.bursar("show --failed").stdout);
    for part in ["5 jobs: 3 succeeded, 1 failed, 1 cancelled", "exited with 3", "lost", "--retry-failed"] {
        assert!(shown.contains(part), "`{part}` is missing from:\n{shown}");
    }
    assert!(!shown.contains("good"), "{shown}");
    let json: serde_json::Value = serde_json::from_slice(&site.bursar("show latest --json").stdout).unwrap();
    assert_eq!(json["list"][1]["state"], "failed");

    let why = text(&site.bursar("why bad").stdout);
    assert!(why.starts_with("bad does not wait: it failed: exited with 3."), "{why}");
    assert!(text(&site.bursar("why good").stdout).starts_with("good does not wait: it succeeded in "));
    assert_eq!(text(&site.bursar("why many").stdout).lines().count(), 2, "a group is all its jobs");
    assert_eq!(text(&site.bursar("logs bad").stdout), "first line\nthe reason\n");
    assert_eq!(text(&site.bursar("logs bad -n 1").stdout), "the reason\n");
    let path = text(&site.bursar("logs bad --path").stdout);
    assert!(path.ends_with("logs/1.1.log\n"), "{path}");
    let retry = site.bursar(&format!("retry {id}"));
    assert_code(&retry, 1);
    let error = text(&retry.stderr);
    assert!(error.contains(&format!("`bursar run --resume {id} --retry-failed`")), "{error}");
}

#[test]
fn what_is_not_there_is_answered_with_code_4_and_a_way_out() {
    let site = Site::new(ONE_FAILS);
    for (words, parts) in [
        ("show r-zzzz", ["there is no run `r-zzzz`", "latest"]),
        ("show latest", ["there is no run `latest`", "id"]),
        ("why absent", ["has a job `absent`", "bursar show RUN"]),
        ("pause", ["no run is active", "bursar run FILE"]),
        ("cancel absent", ["has a job `absent`", "bursar ps"]),
        ("report", ["there is no run `latest`", "id"]),
    ] {
        let output = site.bursar(words);
        assert_code(&output, 4);
        let error = text(&output.stderr);
        assert!(error.starts_with("bursar: ") && parts.iter().all(|part| error.contains(part)), "`{words}`: {error}");
    }
    assert_code(&site.bursar("run jobs.toml"), 1);
    let near = site.bursar("why goo --run latest");
    assert_code(&near, 4);
    assert!(text(&near.stderr).contains("did you mean `good`?"), "{}", text(&near.stderr));
}

#[test]
fn arguments_that_make_no_sense_are_answered_with_code_2() {
    let site = Site::new(ONE_FAILS);
    for words in
        ["pause a b c", "cancel", "retry x --subtree", "logs", "graph", "completions tcsh", "runs --status odd"]
    {
        let code = site.bursar(words).status.code();
        // Without a run there is nothing to cancel, which is another thing.
        assert_eq!(code, Some(if words == "cancel" { 4 } else { 2 }), "`{words}`");
    }
}

#[test]
fn shells_get_their_completions() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = text(&run(&["completions", shell]).stdout);
        assert!(script.contains("bursar") && script.contains("pause"), "{shell}: {script}");
    }
}

/// Every amount of memory in a text.
fn amounts(text: &str) -> Vec<String> {
    let words: Vec<&str> = text.split(|c: char| c.is_whitespace() || ",;:()".contains(c)).collect();
    let pairs = words.windows(2).filter(|pair| ["MB", "GB", "MiB", "GiB"].contains(&pair[1]));
    pairs.map(|pair| pair.join(" ")).collect()
}

#[test]
fn four_hundred_megabytes_are_four_hundred_megabytes_in_every_table() {
    let site = Site::new(
        "[resources]\ncpu = 2\nram = '400 MB'\n[job.first]\nram = '400 MB'\nrun = 'echo up > fifo; read x < gate'\n\
         [job.second]\nram = '400 MB'\nram_limit = '400 MB'\nrun = 'head -c 900000000 /dev/zero | tail'\n",
    );
    let (fifo, gate) = (site.fifo("fifo"), site.fifo("gate"));
    let is_so = |what: &str, said: &str| {
        let amounts = amounts(said);
        let is_right = |amount: &String| ["0 MB", "400 MB"].contains(&amount.as_str());
        assert!(
            amounts.iter().any(|amount| amount == "400 MB") && amounts.iter().all(is_right),
            "{what}: {amounts:?}\n{said}"
        );
    };
    let dry = text(&site.bursar("run jobs.toml --dry-run").stdout);
    is_so("dry run", dry.rsplit_once(", vram").expect(&dry).0);
    let run = site.start("run jobs.toml");
    fifo.wait();
    is_so("why", &text(&site.bursar("why second").stdout));
    gate.answer();
    let (code, said) = run.wait();
    assert_eq!(code, Some(1), "{said}");
    let failed = said.lines().find(|line| line.contains("failed    second")).unwrap();
    is_so("limit", failed.split_once("its limit is ").expect(failed).1);
    // The page has the figures by themselves, among them those of the limits: CPU slots, RAM, VRAM.
    let page = text(&site.bursar("report latest -o -").stdout);
    assert!(page.contains("\"limits\":[2,400,"), "{page}");
}
