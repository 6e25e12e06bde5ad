//! How commands start, and the message when they cannot.

use std::ffi::OsString;
use std::fs;
use std::io::{Read, Write, pipe};
use std::os::unix::ffi::OsStringExt;
use std::sync::mpsc::channel;

use mech_process::{How, KeeperProgram, Keepers, Launch, Report, Streams};

use crate::bench::{Bench, KEEPER, LONG};

fn why(how: How) -> String {
    match how {
        How::CouldNotStart(why) => why,
        other => panic!("{other:?}"),
    }
}

#[test]
fn exit_codes_and_signals_are_distinguished() {
    let bench = Bench::new();
    assert_eq!(bench.run("exit 0").how, How::Exit(0));
    assert_eq!(bench.run("exit 143").how, How::Exit(143));
    assert_eq!(bench.run("kill -TERM $$").how, How::Signal(15));
}

#[test]
fn reports_come_in_order_and_name_the_first_process() {
    let bench = Bench::new();
    let running = bench.start(bench.script("echo $$"));
    let Report::Started { pid } = running.next() else { panic!("not started first") };
    running.end();
    assert_eq!(bench.log().trim(), pid.to_string());
}

#[test]
fn both_streams_are_in_the_log_in_the_order_they_were_written() {
    let bench = Bench::new();
    bench.run("echo one; echo two >&2; echo three");
    bench.run("echo four");
    assert_eq!(bench.log(), "one\ntwo\nthree\nfour\n");
}

#[test]
fn a_program_that_is_not_found_is_named_with_the_path_that_was_searched() {
    let bench = Bench::new();
    let mut launch = Launch::new("job", ["no-such-program"], bench.path("log"));
    launch.env.push(("PATH".into(), "/bin:/nowhere".into()));
    let why = why(bench.start(launch).end().how);
    assert!(why.contains("\"no-such-program\"") && why.contains("PATH (/bin:/nowhere)"), "{why}");
}

#[test]
fn the_message_says_what_is_missing_directory_file_log_or_execute_permission() {
    let bench = Bench::new();
    let start = |launch: Launch| why(bench.start(launch).end().how);
    let mut launch = bench.script("true");
    launch.cwd = Some(bench.path("nowhere"));
    assert!(start(launch).contains("nowhere does not exist"));
    assert!(start(Launch::new("job", ["./nowhere"], bench.path("log"))).contains("no such file"));
    assert!(start(Launch::new("job", ["true"], bench.path("no/log"))).contains("cannot write the log"));
    assert!(start(Launch::new("job", Vec::<String>::new(), bench.path("log"))).contains("empty"));
    fs::write(bench.path("plain"), "echo").unwrap();
    assert!(start(Launch::new("job", [bench.path("plain")], bench.path("log"))).contains("chmod +x"));
    let mut launch = bench.script("true");
    launch.limits.cpus = Some(vec![100_000]);
    assert!(start(launch).contains("CPU 100000"));
    // The keeper still works.
    assert_eq!(bench.run("true").how, How::Exit(0));
    assert_eq!(bench.keepers.count(), 1);
}

#[test]
fn arguments_and_variables_arrive_byte_for_byte() {
    let bench = Bench::new();
    let odd = OsString::from_vec(b"a\xff\xfe\n\"\x01".to_vec());
    let mut launch = bench.script("printf %s \"$1$ODD\"");
    launch.argv.extend(["sh".into(), odd.clone()]);
    launch.env.push(("ODD".into(), odd.clone()));
    bench.start(launch).end();
    let log = fs::read(bench.path("log")).unwrap();
    assert_eq!(log, [odd.clone().into_vec(), odd.into_vec()].concat());
}

#[test]
fn an_empty_environment_holds_only_the_mark() {
    let bench = Bench::new();
    let mut launch = Launch::new("job", ["/usr/bin/env"], bench.path("log"));
    launch.clear_env = true;
    launch.env.push(("ONE".into(), "1".into()));
    bench.start(launch).end();
    let log = bench.log();
    let mut names: Vec<_> = log.lines().map(|line| line.split('=').next().unwrap()).collect();
    names.sort_unstable();
    assert_eq!(names, [mech_process::MARK, "ONE"]);
}

#[test]
fn cpus_and_niceness_are_the_commands_and_not_its_keepers() {
    let bench = Bench::new();
    let mut launch = bench.script("nice; grep Cpus_allowed_list /proc/self/status");
    launch.limits.nice = Some(7);
    launch.limits.cpus = Some(vec![0]);
    bench.start(launch).end();
    let log = bench.log();
    let lines: Vec<_> = log.lines().collect();
    assert_eq!(lines, ["7", "Cpus_allowed_list:\t0"]);
    fs::remove_file(bench.path("log")).unwrap();
    bench.run("nice");
    let mine = std::process::Command::new("nice").output().unwrap().stdout;
    assert_eq!(bench.log(), String::from_utf8_lossy(&mine));
}

#[test]
fn a_listener_starts_the_next_command_on_the_keeper_that_just_became_idle() {
    use std::sync::{Arc, mpsc::channel};
    let Bench { dir, keepers } = Bench::new();
    let keepers = Arc::new(keepers);
    let (ends, ended) = channel();
    fn next(
        keepers: &Arc<mech_process::Keepers>,
        log: std::path::PathBuf,
        left: u32,
        sender: std::sync::mpsc::Sender<u32>,
    ) {
        let again = Arc::downgrade(keepers);
        let listen = Box::new(move |report| {
            if let Report::Ended(end) = report {
                assert_eq!(end.how, How::Exit(0));
                sender.send(left).unwrap();
                if let (Some(keepers), 1..) = (again.upgrade(), left) {
                    next(&keepers, log.clone(), left - 1, sender.clone());
                }
            }
        });
        keepers.start(Launch::new(format!("job-{left}"), ["true"], "/dev/null"), listen).unwrap();
    }
    next(&keepers, dir.path().join("log"), 20, ends);
    assert_eq!(ended.iter().take(21).collect::<Vec<_>>(), (0..=20).rev().collect::<Vec<_>>());
    assert_eq!(keepers.count(), 1);
}

#[test]
fn a_listener_that_panics_does_not_harm_others() {
    let bench = Bench::new();
    bench.keepers.start(bench.script("true"), Box::new(|report| panic!("on purpose: {report:?}"))).unwrap();
    for _ in 0..3 {
        assert_eq!(bench.run("true").how, How::Exit(0));
    }
}

#[test]
fn a_command_inherits_nothing_of_its_keeper_nor_the_clients_session() {
    let bench = Bench::new();
    bench.run("ls -l /proc/self/fd");
    let files = bench.log();
    assert!(files.contains("/log") && files.contains("/dev/null"), "{files}");
    for ours in ["socket:", "anon_inode:", ".ends"] {
        assert!(!files.contains(ours), "{files}");
    }
    let stat = fs::read_to_string("/proc/self/stat").unwrap();
    let session = stat.rsplit(')').next().unwrap().split(' ').nth(4).unwrap();
    fs::remove_file(bench.path("log")).unwrap();
    bench.run("cut -d' ' -f6 /proc/self/stat");
    assert_ne!(bench.log().trim(), session);
}

#[test]
fn a_client_that_inherited_an_ignored_sigchld_still_gets_exit_codes() {
    let args = ["--ignore-signal=CHLD", crate::bench::KEEPER, "keep"].map(Into::into).to_vec();
    let bench = Bench::with(mech_process::KeeperProgram { program: "env".into(), args });
    assert_eq!(bench.run("exit 6").how, How::Exit(6));
}

#[test]
fn streams_that_are_given_are_the_commands_own_and_end_with_it() {
    let bench = Bench::new();
    let (program, args) = (KEEPER.into(), vec!["keep".into()]);
    let ephemeral = Keepers::ephemeral(KeeperProgram { program, args }).unwrap();
    // The second start is on a keeper that was used before.
    for keepers in [&bench.keepers, &ephemeral, &ephemeral] {
        let (stdin, mut to) = pipe().unwrap();
        let (mut from, stdout) = pipe().unwrap();
        let (mut errors, stderr) = pipe().unwrap();
        let streams = Streams { stdin: Some(stdin.into()), stdout: Some(stdout.into()), stderr: Some(stderr.into()) };
        let (tell, reports) = channel();
        let launch = bench.script("read a; echo got $a; echo bad >&2; exit 3");
        keepers.start_with(launch, streams, Box::new(move |report| drop(tell.send(report)))).unwrap();
        assert!(matches!(reports.recv_timeout(LONG).unwrap(), Report::Started { .. }));
        to.write_all(b"it\n").unwrap();
        let (mut said, mut told) = (String::new(), String::new());
        from.read_to_string(&mut said).unwrap(); // which ends only if no other process holds the pipe
        errors.read_to_string(&mut told).unwrap();
        assert_eq!((said.as_str(), told.as_str()), ("got it\n", "bad\n"));
        let end = reports.iter().find_map(|report| if let Report::Ended(end) = report { Some(end) } else { None });
        assert_eq!(end.unwrap().how, How::Exit(3));
    }
    assert_eq!((bench.keepers.count(), ephemeral.count()), (1, 1));
    assert!(!bench.path("log").exists(), "all its streams were given");
}

#[test]
fn a_process_that_was_started_as_a_keeper_makes_no_keepers_and_its_command_may() {
    let bench = Bench::new();
    let log = bench.path("log");
    let client = std::process::Command::new(KEEPER)
        .args(["client", "", log.to_str().unwrap(), "token", "true"])
        .env("BURSAR_KEEPER_START", "as a pool sets it")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&client.stderr);
    assert!(!client.status.success() && said.contains("call `keeper_main()` first"), "{said}");
    // A command is no keeper: a run may be started inside a job.
    assert_eq!(bench.run("test -z \"$BURSAR_KEEPER_START\" && test -n \"$BURSAR_KEEPER\"").how, How::Exit(0));
}
