//! Very many commands leave nothing behind.

use std::fs;
use std::sync::mpsc::channel;
use std::time::Duration;

use mech_process::{How, Launch, Report};

use crate::bench::{Bench, until};

fn open_files(pid: i32) -> usize {
    fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count()
}

fn keepers(bench: &Bench) -> Vec<i32> {
    let home = bench.home().canonicalize().unwrap();
    let home = home.to_str().unwrap().to_owned();
    let pids = fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid: &i32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(&home)
    })
    .collect()
}

fn children(pid: i32) -> String {
    fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default()
}

#[test]
fn thousands_of_commands_leak_no_files_zombies_or_groups() {
    let bench = Bench::new();
    let run = |count: usize, pause: bool| {
        let (sender, reported) = channel();
        for at in 0..count {
            let sender = sender.clone();
            let listen = Box::new(move |report| {
                if let Report::Ended(end) = report {
                    sender.send(end).unwrap();
                }
            });
            let launch = Launch::new(format!("t{at}"), ["/bin/true"], "/dev/null");
            let handle = bench.keepers.start(launch, listen).unwrap();
            if pause {
                handle.pause();
                handle.resume();
            }
            if at >= 1 {
                assert_eq!(reported.recv_timeout(Duration::from_secs(60)).unwrap().how, How::Exit(0));
            }
        }
        assert_eq!(reported.recv_timeout(Duration::from_secs(60)).unwrap().how, How::Exit(0));
    };
    run(10, true);
    let pids = keepers(&bench);
    assert_eq!(pids.len(), bench.keepers.count());
    let before: Vec<_> = pids.iter().map(|&pid| open_files(pid)).collect();
    run(3000, false);
    run(100, true);
    assert_eq!(keepers(&bench), pids, "no more keepers than commands at once");
    assert_eq!(pids.iter().map(|&pid| open_files(pid)).collect::<Vec<_>>(), before);
    for &pid in &pids {
        assert_eq!(children(pid), "", "keeper {pid} has reaped all");
    }
    assert_eq!(bench.groups(), 0);
    drop(bench);
    until("all keepers are gone", || pids.iter().all(|pid| !fs::exists(format!("/proc/{pid}")).unwrap()));
}
