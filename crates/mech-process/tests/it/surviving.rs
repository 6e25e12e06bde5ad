//! Clients and keepers that are killed.

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;
use std::time::Duration;

use mech_process::{End, How, Keepers, MARK, Recovered, Report, Survivor};

use rustix::process::{Pid, Signal, kill_process};

use crate::bench::{Bench, KEEPER, LONG, until};

/// A client that is killed when it has said `word`.
fn killed_client(bench: &Bench, word: &str, token: &str, script: &str) {
    let mut client = client(bench, token, script);
    let lines = BufReader::new(client.stdout.take().unwrap()).lines();
    assert!(lines.map_while(Result::ok).any(|line| line == word));
    client.kill().unwrap();
    client.wait().unwrap();
}

fn client(bench: &Bench, token: &str, script: &str) -> Child {
    client_command(bench, token, script).spawn().unwrap()
}

fn client_command(bench: &Bench, token: &str, script: &str) -> Command {
    let mut command = Command::new(KEEPER);
    command
        .arg("client")
        .arg(bench.home())
        .arg(bench.path("log"))
        .args([token, "sh", "-c", script])
        .env("TREE", bench.dir.path())
        .current_dir(bench.dir.path())
        .stdout(Stdio::piped());
    command
}

fn recover(home: &Path) -> (Vec<Survivor>, Vec<End>) {
    let (mut running, mut ended) = (Vec::new(), Vec::new());
    for one in Keepers::recover(home).unwrap() {
        match one {
            Recovered::Running(survivor) => running.push(survivor),
            Recovered::Ended(end) => ended.push(end),
        }
    }
    (running, ended)
}

fn is_empty(home: &Path) -> bool {
    fs::read_dir(home).unwrap().count() == 0
}

#[test]
fn a_command_outlives_its_client_and_is_taken_over() {
    let bench = Bench::new();
    killed_client(&bench, "started", "t1", "while ! test -e stop; do sleep 0.01; done; echo done; exit 9");
    let (mut running, ended) = recover(&bench.home());
    assert_eq!((running.len(), ended.len()), (1, 0));
    let survivor = running.pop().unwrap();
    assert_eq!(survivor.token(), "t1");
    assert!(bench.left().contains(&survivor.pid()));
    let (sender, reports) = channel();
    let handle = bench.keepers.adopt(survivor, Box::new(move |report| drop(sender.send(report)))).unwrap();
    handle.pause();
    while reports.recv_timeout(LONG).unwrap() != Report::Paused {}
    handle.resume();
    while reports.recv_timeout(LONG).unwrap() != Report::Resumed {}
    fs::write(bench.path("stop"), "").unwrap();
    let end = loop {
        if let Report::Ended(end) = reports.recv_timeout(LONG).unwrap() {
            break end;
        }
    };
    assert_eq!((end.token.as_str(), end.how), ("t1", How::Exit(9)));
    assert_eq!(bench.log(), "done\n");
    // The keeper is one of ours now.
    assert_eq!(bench.run("true").how, How::Exit(0));
    assert_eq!(bench.keepers.count(), 1);
}

#[test]
fn an_end_that_came_after_the_client_was_killed_is_found_until_it_is_forgotten() {
    let bench = Bench::new();
    killed_client(&bench, "started", "t1", "while ! test -e stop; do sleep 0.01; done; exit 4");
    fs::write(bench.path("stop"), "").unwrap();
    until("the tree is gone", || bench.left().is_empty());
    for _ in 0..2 {
        let (running, ended) = recover(&bench.home());
        assert!(running.is_empty());
        assert_eq!(ended.len(), 1);
        assert_eq!((ended[0].token.as_str(), &ended[0].how), ("t1", &How::Exit(4)));
    }
    Keepers::forget(&bench.home(), ["t1"]).unwrap();
    assert!(is_empty(&bench.home()));
    assert!(Keepers::recover(&bench.home()).unwrap().is_empty());
}

#[test]
fn an_end_that_was_reported_but_perhaps_not_made_durable_is_found() {
    let bench = Bench::new();
    killed_client(&bench, "ended", "t1", "exit 4");
    let (running, ended) = recover(&bench.home());
    assert_eq!((running.len(), ended.len()), (0, 1));
    assert_eq!(ended[0].how, How::Exit(4));
}

#[test]
fn killed_at_any_moment_a_command_is_running_or_ended_exactly_once() {
    let bench = Bench::new();
    for round in 0..40 {
        let token = format!("t{round}");
        let mut client = client(&bench, &token, "echo x >> effect; sleep 0.01");
        // From before the keeper lives until after the end.
        std::thread::sleep(Duration::from_micros(round * 700));
        client.kill().unwrap();
        client.wait().unwrap();
        let (running, ended) = recover(&bench.home());
        let survivors = running.iter().map(Survivor::token);
        let tokens: Vec<_> = survivors.chain(ended.iter().map(|end| end.token.as_str())).map(String::from).collect();
        assert!(tokens.is_empty() || tokens == [token.clone()], "round {round}: {tokens:?}");
        let began = !tokens.is_empty();
        for survivor in running {
            let (sender, reported) = channel();
            let listen = Box::new(move |report| drop(sender.send(report)));
            bench.keepers.adopt(survivor, listen).unwrap();
            let end =
                reported.into_iter().find_map(|report| if let Report::Ended(end) = report { Some(end) } else { None });
            assert_eq!(end.unwrap().how, How::Exit(0), "round {round}");
        }
        Keepers::forget(&bench.home(), [token.as_str()]).unwrap();
        until("the tree is gone", || bench.left().iter().all(|pid| is_keeper(*pid)));
        let effects = fs::read_to_string(bench.path("effect")).unwrap_or_default().lines().count();
        assert_eq!(effects, usize::from(began), "round {round}: {tokens:?}");
        let _ = fs::remove_file(bench.path("effect"));
    }
}

/// Keepers inherit the mark of the test from their client.
fn is_keeper(pid: i32) -> bool {
    fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default().windows(6).any(|part| part == b"\0keep\0")
}

#[test]
fn ends_are_held_until_they_are_settled() {
    let bench = Bench::new();
    bench.keepers.hold_ends();
    let run = |token: &str| {
        let mut launch = bench.script("true");
        launch.token = token.into();
        bench.start(launch).end();
    };
    let recorded = || {
        let file = fs::read_dir(bench.home()).unwrap().flatten().map(|entry| entry.path());
        let text =
            fs::read_to_string(file.into_iter().find(|path| path.extension().unwrap() == "ends").unwrap()).unwrap();
        text.lines().filter(|line| serde_json::from_str::<End>(line).is_ok()).count()
    };
    run("a");
    run("b");
    assert_eq!(recorded(), 2);
    bench.keepers.settle("a");
    run("c");
    assert_eq!(recorded(), 3, "b is not settled");
    bench.keepers.settle("b");
    bench.keepers.settle("c");
    run("d");
    assert_eq!(recorded(), 1);
    let Bench { dir, keepers } = bench;
    drop(keepers);
    let (running, ended) = recover(&dir.path().join("home"));
    assert_eq!((running.len(), ended.len()), (0, 1));
    assert_eq!(ended[0].token, "d");
}

#[test]
fn ends_that_were_held_for_a_killed_client_are_settled_by_the_next() {
    let bench = Bench::new();
    bench.keepers.hold_ends();
    killed_client(&bench, "started", "t1", "while ! test -e stop; do sleep 0.01; done");
    let (mut running, _) = recover(&bench.home());
    let (sender, reported) = channel();
    let listen = Box::new(move |report| drop(sender.send(report)));
    bench.keepers.adopt(running.pop().unwrap(), listen).unwrap();
    fs::write(bench.path("stop"), "").unwrap();
    assert!(reported.iter().any(|report| matches!(report, Report::Ended(_))));
    bench.keepers.settle("t1");
    drop(bench.keepers);
    // The keeper is not our child, so the pool did not wait for its exit.
    until("a settled end leaves nothing", || is_empty(&bench.dir.path().join("home")));
}

#[test]
fn a_keeper_with_a_living_client_is_not_taken_over() {
    let bench = Bench::new();
    let running = bench.start(bench.script("echo up > up; while ! test -e stop; do sleep 0.01; done"));
    bench.wait_for("up");
    assert!(Keepers::recover(&bench.home()).unwrap().is_empty());
    fs::write(bench.path("stop"), "").unwrap();
    assert_eq!(running.end().how, How::Exit(0));
}

#[test]
fn if_a_keeper_is_killed_its_tree_is_killed_too() {
    let bench = Bench::new();
    let text = "setsid sh -c 'echo up > up; while :; do sleep 0.05; done' & env -i PATH=$PATH sleep 1000 & sleep 1000";
    let running = bench.start(bench.script(text));
    bench.wait_for("up");
    let Report::Started { pid } = running.next() else { panic!("not started") };
    let environ = fs::read(format!("/proc/{pid}/environ")).unwrap();
    let mark = environ.split(|&byte| byte == 0).find(|one| one.starts_with(MARK.as_bytes())).unwrap();
    kill_parent_of(pid);
    assert_eq!(running.end().how, How::KeeperLost);
    assert_eq!(crate::bench::marked(std::str::from_utf8(mark).unwrap()), [0; 0]);
    assert_eq!(bench.left(), [0; 0]);
    assert_eq!(bench.run("true").how, How::Exit(0), "a new keeper takes its place");
}

#[test]
fn if_a_keeper_is_killed_its_frozen_tree_does_not_stay_frozen_for_ever() {
    let bench = Bench::new();
    let running = bench.start(bench.script("sleep 1000 & sleep 1000"));
    let Report::Started { pid } = running.next() else { panic!("not started") };
    running.handle.pause();
    running.wait_for(&Report::Paused);
    kill_parent_of(pid);
    assert_eq!(running.end().how, How::KeeperLost);
    assert_eq!(bench.left(), [0; 0]);
    assert_eq!(bench.groups(), 0);
}

/// The parent of a command's first process is its keeper.
fn kill_parent_of(pid: i32) {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let keeper = stat.rsplit(')').next().unwrap().split(' ').nth(2).unwrap().parse().unwrap();
    let keeper = rustix::process::Pid::from_raw(keeper).unwrap();
    rustix::process::kill_process(keeper, rustix::process::Signal::KILL).unwrap();
}

#[test]
fn the_socket_and_the_home_are_for_their_owner_only() {
    use std::os::unix::fs::PermissionsExt;
    let bench = Bench::new();
    bench.run("true");
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&bench.home()), 0o700);
    for entry in fs::read_dir(bench.home()).unwrap() {
        assert_eq!(mode(&entry.unwrap().path()), 0o600);
    }
}

/// The first process of the only command. It is found by its environment, which is readable only after the exec.
fn leader_of(bench: &Bench) -> i32 {
    let seen = || bench.left().into_iter().find(|pid| !is_keeper(*pid));
    test_support::until_some(Duration::from_secs(60), "the command is seen", seen)
}

/// The keeper of a command: its parent process.
fn keeper_of(pid: i32) -> Pid {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let parent = stat.rsplit(") ").next().unwrap().split(' ').nth(1).unwrap();
    Pid::from_raw(parent.parse().unwrap()).unwrap()
}

#[test]
fn a_stopped_keeper_is_continued_and_not_treated_as_lost() {
    let bench = Bench::new();
    killed_client(&bench, "started", "t1", "echo x >> effect; while ! test -e stop; do sleep 0.01; done; exit 4");
    let leader = leader_of(&bench);
    let keeper = keeper_of(leader);
    kill_process(keeper, Signal::STOP).unwrap();
    let (running, ended) = recover(&bench.home());
    assert_eq!((running.len(), ended.len()), (1, 0), "it is there, and was not lost");
    drop(running);
    // Also if it ends meanwhile.
    kill_process(keeper, Signal::STOP).unwrap();
    fs::write(bench.path("stop"), "").unwrap();
    until("the command has ended", || !Path::new(&format!("/proc/{leader}")).exists() || is_zombie(leader));
    let found = (0..500).find_map(|_| {
        let (running, mut ended) = recover(&bench.home());
        assert!(running.len() + ended.len() == 1, "{running:?} {ended:?}");
        ended.pop()
    });
    assert_eq!(found.unwrap().how, How::Exit(4));
    assert_eq!(fs::read_to_string(bench.path("effect")).unwrap().lines().count(), 1);
}

#[test]
fn a_keeper_that_was_stopped_before_it_listened_runs_its_requests_when_continued() {
    let bench = Bench::new();
    let mut client = client_command(&bench, "t1", "echo x >> effect; exit 4").env("STOP_FIRST", "1").spawn().unwrap();
    until("its keeper has stopped", || bench.left().into_iter().any(|pid| is_keeper(pid) && is_stopped(pid)));
    client.kill().unwrap();
    client.wait().unwrap();
    let found = (0..500).find_map(|_| recover(&bench.home()).1.pop());
    // Whether the client had sent the command is a race; a command that was sent runs once.
    let effects = fs::read_to_string(bench.path("effect")).unwrap_or_default().lines().count();
    assert_eq!(found.map(|end| end.how), (effects == 1).then_some(How::Exit(4)));
    assert!(effects <= 1, "{effects} effects");
    until("nothing is left", || bench.left().is_empty());
}

#[test]
fn a_stopped_keeper_is_continued_together_with_the_command_it_is_starting() {
    let bench = Bench::new();
    killed_client(&bench, "started", "t1", "while ! test -e stop; do sleep 0.01; done; exit 4");
    let leader = leader_of(&bench);
    let keeper = keeper_of(leader);
    let line = fs::read(format!("/proc/{}/cmdline", keeper.as_raw_pid())).unwrap();
    let id = line.split(|byte| *byte == 0).rev().nth(1).unwrap();
    // Between fork and exec, a command is called as its keeper is.
    let mut starting =
        Command::new("sh").args(["-c", "kill -STOP $$; exit 7"]).arg(OsStr::from_bytes(id)).spawn().unwrap();
    until("it has stopped", || is_stopped(starting.id().cast_signed()));
    kill_process(keeper, Signal::STOP).unwrap();
    assert_eq!(recover(&bench.home()).0.len(), 1);
    until("it goes on", || starting.try_wait().unwrap().is_some());
    assert_eq!(starting.wait().unwrap().code(), Some(7));
    fs::write(bench.path("stop"), "").unwrap();
    until("nothing is left", || bench.left().is_empty());
}

#[test]
fn a_command_that_was_lost_with_client_and_keeper_is_reported_as_lost_until_it_is_forgotten() {
    let bench = Bench::new();
    killed_client(&bench, "started", "t1", "while ! test -e stop; do sleep 0.01; done");
    let leader = leader_of(&bench);
    kill_process(keeper_of(leader), Signal::KILL).unwrap();
    for _ in 0..2 {
        let (running, ended) = recover(&bench.home());
        let reported: Vec<_> = ended.iter().map(|end| (end.token.as_str(), &end.how)).collect();
        assert_eq!((running.len(), reported), (0, vec![("t1", &How::KeeperLost)]));
        assert_eq!(bench.left(), [0; 0]);
    }
    Keepers::forget(&bench.home(), ["t1"]).unwrap();
    assert!(is_empty(&bench.home()));
}

#[test]
fn a_command_that_outlives_client_and_keeper_is_seen_and_left_alone_until_it_is_wanted() {
    let bench = Bench::new();
    killed_client(&bench, "started", "t1", "echo $$ > pid; echo up > up; exec sleep 1000");
    bench.wait_for("up");
    let pid: i32 = fs::read_to_string(bench.path("pid")).unwrap().trim().parse().unwrap();
    let keeper = keeper_of(pid);
    kill_process(keeper, Signal::KILL).unwrap();
    until("the keeper is gone", || is_zombie(keeper.as_raw_pid()));
    for _ in 0..2 {
        let seen = Keepers::inspect(&bench.home()).unwrap();
        assert_eq!((seen.alive, seen.running.len(), seen.lost.len()), (0, 0, 0));
        assert_eq!(seen.orphaned, ["t1"]);
        assert!(seen.is_busy() && !is_zombie(pid));
        assert!(Keepers::recover_some(&bench.home(), |token| token != "t1").unwrap().is_empty());
    }
    let ended = Keepers::recover_some(&bench.home(), |token| token == "t1").unwrap();
    assert!(matches!(&ended[..], [Recovered::Ended(End { how: How::KeeperLost, .. })]), "{ended:?}");
    assert_eq!(bench.left(), [0; 0]);
    let seen = Keepers::inspect(&bench.home()).unwrap();
    assert_eq!((seen.orphaned.len(), seen.lost, seen.alive), (0, vec!["t1".to_owned()], 0));
}

fn is_stopped(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('T'))
}

fn is_zombie(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(") ").next().is_none_or(|rest| rest.starts_with('Z') || rest.is_empty())
}

#[test]
fn a_live_keeper_that_never_answers_is_an_error_that_names_it() {
    let bench = Bench::new();
    let ends = bench.home().join("mute.ends");
    fs::create_dir_all(bench.home()).unwrap();
    // A keeper is alive while its record is locked; this one has no socket.
    let file = fs::File::create(&ends).unwrap();
    file.lock().unwrap();
    let error = Keepers::recover(&bench.home()).unwrap_err();
    assert!(error.to_string().contains("keeper mute is alive and does not answer"), "{error}");
    drop(file);
    assert!(Keepers::recover(&bench.home()).unwrap().is_empty());
}

#[test]
fn an_end_that_a_keeper_recorded_and_could_not_report_is_reported() {
    let bench = Bench::new();
    let running = bench.start(bench.script("while ! test -e stop; do sleep 0.01; done; exit 5"));
    let pid = loop {
        if let Report::Started { pid } = running.reports.recv_timeout(LONG).unwrap() {
            break pid;
        }
    };
    let keeper = keeper_of(pid);
    // A stopped keeper reports nothing; the test writes into its file what it would have recorded before it was killed.
    kill_process(keeper, Signal::STOP).unwrap();
    let record = fs::read_dir(bench.home()).unwrap().map(|entry| entry.unwrap().path());
    let record = record.into_iter().find(|path| path.extension().is_some_and(|end| end == "ends")).unwrap();
    let end = End {
        token: "job".into(),
        how: How::Exit(4),
        peak_rss_kb: 1,
        cpu: Duration::ZERO,
        wall: Duration::ZERO,
        in_force: None,
    };
    fs::write(&record, serde_json::to_string(&end).unwrap() + "\n").unwrap();
    kill_process(keeper, Signal::KILL).unwrap();
    assert_eq!(running.end().how, How::Exit(4));
}

#[test]
fn a_command_of_an_ephemeral_pool_is_killed_with_its_client_also_if_it_left_its_session_and_ignores_term() {
    let bench = Bench::new();
    let script = "setsid sh -c 'trap \"\" TERM HUP; touch away; while :; do sleep 0.01; done' & trap '' TERM; wait";
    let mut command = Command::new(KEEPER);
    command.args(["client", ""]).arg(bench.path("log")).args(["t1", "sh", "-c", script]);
    command.env("TREE", bench.dir.path()).current_dir(bench.dir.path()).stdout(Stdio::piped());
    let mut client = command.spawn().unwrap();
    bench.wait_for("away");
    assert!(bench.left().len() >= 4, "client, keeper, and two shells: {:?}", bench.left());
    client.kill().unwrap();
    client.wait().unwrap();
    until("the tree and its keeper are gone", || bench.left().is_empty());
    assert!(is_empty(&bench.home()), "it has no files");
}

#[test]
fn a_client_that_is_gone_before_it_could_be_told_of_the_start_leaves_no_command() {
    let bench = Bench::new();
    let launch = bench.script("sleep 1000");
    let start =
        serde_json::json!({ "Start": { "run": 1, "fresh": true, "given": [false, false, false], "launch": launch } });
    let start = serde_json::to_vec(&start).unwrap();
    let (mut ours, theirs) = UnixStream::pair().unwrap();
    ours.write_all(&u32::try_from(start.len()).unwrap().to_le_bytes()).unwrap();
    ours.write_all(&start).unwrap();
    drop(ours); // the keeper can read the request, and cannot answer it
    let mut keeper = Command::new(KEEPER);
    keeper.args(["keep", "", "one"]).stdin(OwnedFd::from(theirs)).stdout(Stdio::null());
    let mut keeper = keeper.spawn().unwrap();
    until("the keeper exits", || keeper.try_wait().unwrap().is_some());
    assert!(bench.left().is_empty(), "{:?}", bench.left());
}
