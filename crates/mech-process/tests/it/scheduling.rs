//! Classes, weights, CPUs and reservations: what the system says is in force, for the command, for what it starts, and for its keeper.

use std::fs;
use std::process::Command;
use std::time::Duration;

use mech_process::{
    Class, InForce, IoPriority, KeeperProgram, Keepers, Launch, Limits, Policy, Recovered, Report, Reservation,
    Setting, procfs,
};

use crate::bench::{Bench, KEEPER, Running, until};

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// A script that waits to be cancelled, after it has started a process that does the same.
fn waiting(bench: &Bench, limits: Limits) -> Launch {
    let mut launch = bench.script("sleep 1000 & echo $! > child; wait");
    launch.limits = limits;
    launch
}

/// Starts it, and waits until its child runs: the leader, what was reported, and the child.
fn started(bench: &Bench, running: &Running) -> (i32, InForce, i32) {
    let Report::Started { pid } = running.next() else { panic!("not started first") };
    let Report::InForce(in_force) = running.next() else { panic!("what is in force comes second") };
    let child = || fs::read_to_string(bench.path("child")).unwrap_or_default().trim().parse::<i32>().ok();
    until("the script has a child that runs its own program", || {
        child()
            .is_some_and(|child| fs::read_to_string(format!("/proc/{child}/comm")).is_ok_and(|name| name == "sleep\n"))
    });
    (pid, *in_force, child().unwrap())
}

/// Field of `/proc/PID/stat`, counted as its manual page does.
fn stat(pid: i32, field: usize) -> i64 {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    text.rsplit(") ").next().unwrap().split(' ').nth(field - 3).unwrap().trim().parse().unwrap()
}

/// The niceness of these tests, which keepers have, too.
fn mine() -> i64 {
    stat(std::process::id().cast_signed(), NICE)
}

const NICE: usize = 19;
const RT_PRIORITY: usize = 40;
const POLICY: usize = 41;

fn autogroups_divide() -> bool {
    let is_on = fs::read_to_string("/proc/sys/kernel/sched_autogroup_enabled").is_ok_and(|text| text.trim() == "1");
    is_on && fs::read_to_string("/proc/self/cgroup").is_ok_and(|text| text.lines().any(|line| line.ends_with(":cpu:/")))
}

#[test]
fn a_batch_command_and_what_it_starts_are_batch_and_its_keeper_is_not() {
    let bench = Bench::new();
    let running = bench.start(waiting(&bench, Limits { class: Some(Class::Batch), ..Limits::default() }));
    let (pid, said, child) = started(&bench, &running);
    for one in [pid, child] {
        assert_eq!((stat(one, POLICY), stat(one, NICE)), (3, 10), "SCHED_BATCH and nice 10 of {one}");
        assert_eq!(InForce::of(one).unwrap().io, IoPriority::BestEffort(7));
    }
    if let Ok(output) = Command::new("ionice").args(["-p", &child.to_string()]).output() {
        assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "best-effort: prio 7");
    }
    let keeper = procfs::one(pid).unwrap().parent;
    assert_eq!((stat(keeper, POLICY), stat(keeper, NICE)), (0, mine()), "the keeper must answer");
    assert_eq!((said.policy, said.nice, said.io), (Policy::Batch, 10, IoPriority::BestEffort(7)));
    if autogroups_divide() {
        let group = |pid: i32| fs::read_to_string(format!("/proc/{pid}/autogroup")).unwrap();
        until("its autogroup is nice, too", || group(child).trim().ends_with("nice 10"));
        assert!(group(keeper).trim().ends_with("nice 0"), "{}", group(keeper));
    }
    running.handle.cancel(Duration::ZERO);
    let end = running.end();
    assert_eq!(end.in_force.unwrap().policy, Policy::Batch);
    // The keeper is used again, and a command without a class has none of it.
    fs::remove_file(bench.path("log")).ok();
    bench.run("cut -d' ' -f19,41 /proc/self/stat");
    assert_eq!((bench.log().trim(), bench.keepers.count()), (format!("{} 0", mine()).as_str(), 1));
}

#[test]
fn an_idle_command_has_what_no_other_process_wants() {
    let bench = Bench::new();
    let running = bench.start(waiting(&bench, Limits { class: Some(Class::Idle), ..Limits::default() }));
    let (pid, said, child) = started(&bench, &running);
    for one in [pid, child] {
        assert_eq!((stat(one, POLICY), InForce::of(one).unwrap().io), (5, IoPriority::Idle));
    }
    assert_eq!((said.policy, said.nice), (Policy::Idle, 19));
    running.handle.cancel(Duration::ZERO);
    running.end();
}

#[test]
fn what_is_in_force_is_read_again_when_it_is_asked_for_and_stays_through_a_pause() {
    let bench = Bench::new();
    let running = bench.start(waiting(&bench, Limits { class: Some(Class::Batch), ..Limits::default() }));
    let (pid, ..) = started(&bench, &running);
    running.handle.pause();
    running.wait_for(&Report::Paused);
    assert_eq!(running.handle.in_force().unwrap().nice, 10);
    running.handle.resume();
    running.wait_for(&Report::Resumed);
    assert_eq!(running.handle.in_force().unwrap().policy, Policy::Batch);
    // A person changes it.
    assert!(Command::new("renice").args(["-n", "13", "-p", &pid.to_string()]).output().unwrap().status.success());
    assert_eq!(running.handle.in_force().unwrap().nice, 13);
    running.handle.cancel(Duration::ZERO);
    running.end();
    assert_eq!(running.handle.in_force(), None);
}

#[test]
fn a_weight_is_a_control_group_where_one_can_be_made_and_nothing_is_left_of_it() {
    let bench = Bench::new();
    let weight = Limits { weight: Some(200), ..Limits::default() };
    let running = bench.start(waiting(&bench, weight.clone()));
    let (pid, said, child) = started(&bench, &running);
    match &said.weight {
        Some(group) => {
            assert!(["2048", "200"].contains(&group.value.as_str()), "{group}");
            assert_eq!(fs::read_to_string(&group.file).unwrap().trim(), group.value);
            let groups = |pid: i32| fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap();
            let name = group.file.parent().unwrap().file_name().unwrap().to_str().unwrap().to_owned();
            assert!(groups(pid).contains(&name) && groups(child).contains(&name), "{}", groups(child));
            let keeper = procfs::one(pid).unwrap().parent;
            assert!(!groups(keeper).contains(&name), "the keeper is not in it");
            assert!(said.words(&weight).unwrap().starts_with("weight 200: cpu."), "{:?}", said.words(&weight));
            // A pause moves it to no other group of this hierarchy.
            running.handle.pause();
            running.wait_for(&Report::Paused);
            assert_eq!(running.handle.in_force().unwrap().weight.as_ref(), Some(group));
            running.handle.cancel(Duration::ZERO);
            running.end();
            assert!(!group.file.exists(), "the group is gone with its command");
        }
        None => {
            assert!(said.refused.iter().any(|one| one.setting == Setting::Weight), "{said:?}");
            running.handle.cancel(Duration::ZERO);
            running.end();
        }
    }
    assert_eq!(bench.groups(), 0);
}

#[test]
fn without_control_groups_a_weight_becomes_the_nearest_niceness() {
    let bench = Bench::without_groups("all");
    let light = Limits { weight: Some(50), class: Some(Class::Batch), ..Limits::default() };
    let running = bench.start(waiting(&bench, light.clone()));
    let (pid, said, _) = started(&bench, &running);
    assert_eq!((stat(pid, POLICY), stat(pid, NICE)), (3, 13));
    let words = said.words(&light).unwrap();
    let expected = "weight 50: a control group is refused (BURSAR_NO_CGROUPS is set), uses nice 13";
    assert!(words.contains(expected), "{words}");
    running.handle.cancel(Duration::ZERO);
    running.end();
}

#[test]
fn cpus_are_an_affinity_that_the_command_cannot_leave_where_there_are_cpusets() {
    let bench = Bench::new();
    let first = Limits { cpus: Some(vec![0]), ..Limits::default() };
    let running = bench.start(waiting(&bench, first.clone()));
    let (_, said, child) = started(&bench, &running);
    assert_eq!((said.cpus.as_slice(), InForce::of(child).unwrap().cpus.as_slice()), (&[0][..], &[0][..]));
    if let Some(group) = &said.cpuset {
        assert_eq!(group.value, "0");
        // It may ask for all CPUs, and gets those of its group.
        let _ = Command::new("taskset").args(["-p", "ffff", &child.to_string()]).output();
        assert_eq!(InForce::of(child).unwrap().cpus, [0]);
    }
    running.handle.cancel(Duration::ZERO);
    running.end();
    assert_eq!(bench.groups(), 0);
}

fn every_10_ms(budget_ms: u64) -> Limits {
    let reservation = Reservation::new(Duration::from_millis(budget_ms), Duration::from_millis(10));
    Limits { reservation: Some(reservation), ..Limits::default() }
}

#[test]
fn a_reservation_is_that_of_the_first_thread_and_what_it_starts_is_ordinary() {
    let bench = Bench::new();
    let running = bench.start(waiting(&bench, every_10_ms(1)));
    let (pid, said, child) = started(&bench, &running);
    match said.policy {
        Policy::Deadline { budget, deadline, period } => {
            let ms = Duration::from_millis;
            assert_eq!((budget, deadline, period), (ms(1), ms(10), ms(10)));
            assert_eq!((stat(pid, POLICY), stat(child, POLICY)), (6, 0));
            assert!(said.words(&every_10_ms(1)).unwrap().contains("for its first thread alone"));
        }
        Policy::Fifo(priority) => {
            assert_eq!((stat(pid, POLICY), stat(child, RT_PRIORITY)), (1, i64::from(priority)));
        }
        _ => assert!(!is_root() || said.refused.len() >= 2, "{said:?}"),
    }
    let keeper = procfs::one(pid).unwrap().parent;
    assert_eq!(stat(keeper, POLICY), 0);
    running.handle.cancel(Duration::ZERO);
    running.end();
}

#[test]
fn a_reservation_on_some_cpus_is_the_next_best_because_the_system_refuses_it() {
    if !is_root() || mech_process::machine::online_cpus().len() < 2 {
        return;
    }
    let bench = Bench::without_groups("all");
    let asked = Limits { cpus: Some(vec![0]), ..every_10_ms(1) };
    let running = bench.start(waiting(&bench, asked.clone()));
    let (pid, said, child) = started(&bench, &running);
    let words = said.words(&asked).unwrap();
    assert_eq!(said.policy, Policy::Fifo(10), "{words}");
    assert_eq!((stat(pid, RT_PRIORITY), stat(child, RT_PRIORITY)), (10, 10));
    assert!(words.contains("SCHED_DEADLINE is refused (EPERM"), "{words}");
    assert!(words.contains("uses SCHED_FIFO 10 for all it starts"), "{words}");
    running.handle.cancel(Duration::ZERO);
    running.end();
}

/// Keepers that may not raise anything.
fn without_rights() -> Option<Bench> {
    let args = ["--bounding-set=-sys_nice", KEEPER, "keep"].map(Into::into).to_vec();
    let can = is_root() && Command::new("setpriv").arg("--version").output().is_ok();
    can.then(|| Bench::with(KeeperProgram { program: "setpriv".into(), args }))
}

#[test]
fn what_is_not_permitted_falls_to_the_next_best_and_says_so() {
    let Some(bench) = without_rights() else { return };
    let latency = Limits { class: Some(Class::Latency), ..Limits::default() };
    let running = bench.start(waiting(&bench, latency.clone()));
    let (pid, said, _) = started(&bench, &running);
    let words = said.words(&latency).unwrap();
    assert_eq!((stat(pid, POLICY), stat(pid, NICE)), (0, mine()), "{words}");
    assert!(words.contains("nice -10 is refused (E"), "{words}");
    running.handle.cancel(Duration::ZERO);
    running.end();

    fs::remove_file(bench.path("child")).unwrap();
    let running = bench.start(waiting(&bench, every_10_ms(1)));
    let (pid, said, _) = started(&bench, &running);
    let words = said.words(&every_10_ms(1)).unwrap();
    assert_eq!(stat(pid, POLICY), 0, "{words}");
    for what in [
        "SCHED_DEADLINE is refused (EPERM",
        "SCHED_FIFO is refused (EPERM",
        &format!("uses SCHED_OTHER, nice {}", mine()),
    ] {
        assert!(words.contains(what), "{words}");
    }
    running.handle.cancel(Duration::ZERO);
    running.end();
    // A number that a user wrote is not replaced by another.
    let mut launch = bench.script("true");
    launch.limits.nice = Some(-5);
    let why = bench.start(launch).end().how.to_string();
    assert!(why.contains("cannot set niceness -5") && why.contains("only root may go below "), "{why}");
}

#[test]
fn a_command_that_cannot_start_is_not_blamed_on_its_reservation() {
    let bench = Bench::new();
    let mut launch = Launch::new("job", ["no-such-program"], bench.path("log"));
    launch.limits = every_10_ms(1);
    let end = bench.start(launch).end();
    assert!(end.how.to_string().contains("no such program in PATH"), "{:?}", end.how);
}

#[test]
fn a_command_that_cannot_start_leaves_no_control_group() {
    let bench = Bench::new();
    for cpu in [0, 100_000] {
        let mut launch = Launch::new("job", ["no-such-program"], bench.path("log"));
        launch.limits = Limits { cpus: Some(vec![cpu]), weight: Some(200), ..Limits::default() };
        bench.start(launch).end();
        assert_eq!(bench.groups(), 0, "CPU {cpu}");
    }
}

#[test]
fn who_adopts_a_command_sees_what_is_in_force() {
    let bench = Bench::new();
    let log = bench.path("log");
    let home = bench.home();
    // A client that is killed leaves a batch command behind.
    let mut client = Command::new(KEEPER)
        .args(["client", home.to_str().unwrap(), log.to_str().unwrap(), "token", "sleep", "1000"])
        .env("CLASS", "batch")
        .spawn()
        .unwrap();
    let running = || Keepers::inspect(&home).unwrap().running.len() == 1;
    until("it runs", running);
    client.kill().unwrap();
    client.wait().unwrap();
    let mut survivor = None;
    until("its keeper is free", || {
        let mut found = Keepers::recover(&home).unwrap();
        survivor = found.pop().and_then(|one| if let Recovered::Running(one) = one { Some(one) } else { None });
        survivor.is_some()
    });
    let (sender, reports) = std::sync::mpsc::channel();
    let listener = Box::new(move |report| drop(sender.send(report)));
    let handle = bench.keepers.adopt(survivor.unwrap(), listener).unwrap();
    let now = handle.in_force().unwrap();
    assert_eq!((now.policy, now.nice), (Policy::Batch, 10));
    handle.cancel(Duration::ZERO);
    let end = Running { handle, reports }.end();
    assert_eq!(end.in_force.unwrap().policy, Policy::Batch);
}
