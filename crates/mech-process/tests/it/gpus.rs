//! Graphics cards, told by a stand-in for the driver's library.

use std::env;
use std::path::Path;
use std::process::Command;

use mech_process::machine::{gpu_memory_of_processes, gpus};

use crate::bench::Bench;

/// Says in a child that it is one: the library is looked for once in a process, and must be there when it starts.
const INSIDE: &str = "GPUS_TEST_INSIDE";

/// Makes the stand-in, under the name that the real one has.
fn stand_in(folder: &Path) {
    let compiler = env::var_os("BURSAR_TEST_CC").unwrap_or_else(|| "cc".into());
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/nvml/nvml.c");
    let made = Command::new(compiler)
        .args(["-shared", "-fPIC", "-o"])
        .arg(folder.join("libnvidia-ml.so.1"))
        .arg(source)
        .status();
    assert!(made.expect("start the C compiler").success());
}

/// Runs the test again in a child that finds a driver with these cards; true in the parent.
fn passed_with(test: &str, cards: &str, more: &[(&str, &Path)]) -> bool {
    if env::var_os(INSIDE).is_some() {
        return false;
    }
    let folder = tempfile::tempdir().unwrap();
    stand_in(folder.path());
    let mut child = Command::new(env::current_exe().unwrap());
    child.args(["--exact", test, "--nocapture"]).env(INSIDE, cards).env("FAKE_NVML", cards);
    child.env("LD_LIBRARY_PATH", folder.path()).envs(more.iter().copied());
    let output = child.output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && told.contains("1 passed"), "{told}{}", String::from_utf8_lossy(&output.stderr));
    true
}

#[test]
fn cards_are_those_that_the_driver_tells_with_their_memory() {
    for cards in
        ["", "8192:512", "8192:0,24576:1000", "80000:1,80000:2,80000:3,80000:4,80000:5,80000:6,80000:7,80000:8"]
    {
        if passed_with("gpus::cards_are_those_that_the_driver_tells_with_their_memory", cards, &[]) {
            continue;
        }
        // The driver is told MiB, as cards are sold; we tell MB.
        let figures = |card: &str| {
            let (total, used) = card.split_once(':').unwrap();
            let bytes = |mib: &str| mib.parse::<u64>().unwrap() << 20;
            (bytes(total) / 1_000_000, bytes(used).div_ceil(1_000_000))
        };
        let cards = env::var(INSIDE).unwrap();
        let expected: Vec<_> = cards.split(',').filter(|card| !card.is_empty()).map(figures).collect();
        let told: Vec<_> = gpus().iter().map(|gpu| (gpu.total_mb, gpu.used_mb)).collect();
        assert_eq!(told, expected);
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
