//! Graphics cards, reported by a fake of the driver's library.

use std::env;
use std::path::Path;

use mech_process::machine::{gpu_memory_of_processes, gpus};
use test_support::{alone_with, c_library, is_alone};

use crate::bench::Bench;

/// Runs the test again in a child that finds a driver with these cards; true in the parent.
fn passed_with(test: &str, cards: &str, more: &[(&str, &Path)]) -> bool {
    if is_alone() {
        return false;
    }
    let folder = tempfile::tempdir().unwrap();
    // Under the name of the real library. A process loads it once, so it must exist before the process starts.
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/nvml/nvml.c");
    c_library(&source, &folder.path().join("libnvidia-ml.so.1"));
    let mut environment = vec![("FAKE_NVML", cards), ("LD_LIBRARY_PATH", folder.path().to_str().unwrap())];
    environment.extend(more.iter().map(|(name, path)| (*name, path.to_str().unwrap())));
    !alone_with(test, &environment)
}

#[test]
fn cards_are_those_that_the_driver_reports_with_their_memory() {
    for cards in
        ["", "8192:512", "8192:0,24576:1000", "80000:1,80000:2,80000:3,80000:4,80000:5,80000:6,80000:7,80000:8"]
    {
        if passed_with("gpus::cards_are_those_that_the_driver_reports_with_their_memory", cards, &[]) {
            continue;
        }
        // The driver reports MiB; we report MB.
        let figures = |card: &str| {
            let (total, used) = card.split_once(':').unwrap();
            let bytes = |mib: &str| mib.parse::<u64>().unwrap() << 20;
            (bytes(total) / 1_000_000, bytes(used).div_ceil(1_000_000))
        };
        let cards = env::var("FAKE_NVML").unwrap();
        let expected: Vec<_> = cards.split(',').filter(|card| !card.is_empty()).map(figures).collect();
        let reported: Vec<_> = gpus().iter().map(|gpu| (gpu.total_mb, gpu.used_mb)).collect();
        assert_eq!(reported, expected);
        for (at, gpu) in gpus().iter().enumerate() {
            assert_eq!((gpu.index as usize, gpu.id.clone()), (at, format!("GPU-fake-{at}")));
        }
        return;
    }
}

#[test]
fn what_processes_use_of_cards_is_counted_for_the_tree_they_are_in() {
    let folder = tempfile::tempdir().unwrap();
    let list = folder.path().join("processes");
    let test = "gpus::what_processes_use_of_cards_is_counted_for_the_tree_they_are_in";
    if passed_with(test, "8192:0,8192:0", &[("FAKE_NVML_PROCESSES", &list)]) {
        return;
    }
    let list = env::var_os("FAKE_NVML_PROCESSES").unwrap();
    let bench = Bench::new();
    // The second process has lost its parent, and is below the keeper.
    let running = bench.start(bench.script("mkfifo go; (read x < go & echo $! > left); echo up > up; read x < go"));
    let pid = loop {
        if let mech_process::Report::Started { pid } = running.next() {
            break pid;
        }
    };
    bench.wait_for("up");
    let left: i32 = crate::bench::read(bench.path("left")).trim().parse().unwrap();
    let other = std::process::id();
    std::fs::write(&list, format!("0 {pid} 1000\n1 {pid} 500\n1 {left} 200\n0 {other} 4000\n")).unwrap();
    let used = gpu_memory_of_processes();
    assert_eq!(used.get(&pid), Some(&(1_049 + 525)), "on both cards together: {used:?}");
    assert_eq!(running.handle.sum_of(&used), 1_049 + 525 + 210);
    running.handle.cancel(std::time::Duration::ZERO);
    running.end();
}
