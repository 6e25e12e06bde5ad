//! Ten thousand trivial commands on two keepers, to be compared with `seq 10000 | xargs -P2 -n1 /bin/true`.
//!
//! Budget: 1.15 × of that. `cargo run --release -p mech-process --example many -- [COMMANDS] [KEEPERS]`

#![forbid(unsafe_code)]

use std::io;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use mech_process::{How, KeeperProgram, Keepers, Launch, Report};

fn main() -> io::Result<()> {
    if std::env::args().nth(1).as_deref() == Some("keep") {
        mech_process::keeper::main();
    }
    let number = |at, other| std::env::args().nth(at).and_then(|text| text.parse().ok()).unwrap_or(other);
    let (commands, at_once): (usize, usize) = (number(1, 10_000), number(2, 2));
    for round in 0..3 {
        let theirs = xargs(commands, at_once)?;
        let ours = keepers(commands, at_once)?;
        let ratio = ours.as_secs_f64() / theirs.as_secs_f64();
        println!("round {round}: xargs {theirs:.2?}, keepers {ours:.2?}: {ratio:.2} x");
    }
    Ok(())
}

fn xargs(commands: usize, at_once: usize) -> io::Result<Duration> {
    let start = Instant::now();
    let script = format!("seq {commands} | xargs -P{at_once} -n1 /bin/true");
    let status = Command::new("sh").args(["-c", &script]).stdin(Stdio::null()).status()?;
    assert!(status.success(), "xargs failed: {status}");
    Ok(start.elapsed())
}

fn keepers(commands: usize, at_once: usize) -> io::Result<Duration> {
    let home = std::env::temp_dir().join(format!("bursar-many-{}", std::process::id()));
    let start = Instant::now();
    let keepers = Arc::new(Keepers::new(KeeperProgram::this_one(["keep"]), &home)?);
    let left = Arc::new(AtomicUsize::new(commands));
    let (sender, reported) = channel();
    for _ in 0..at_once {
        next(&Arc::downgrade(&keepers), &left, &sender);
    }
    drop(sender);
    reported.iter().for_each(drop);
    let took = start.elapsed();
    drop(keepers);
    std::fs::remove_dir(&home)?;
    Ok(took)
}

/// Each end starts the next command, on the pool's thread.
fn next(keepers: &Weak<Keepers>, left: &Arc<AtomicUsize>, sender: &Sender<()>) {
    let number = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
    let (Some(pool), Ok(number)) = (keepers.upgrade(), number) else { return };
    let (keepers, left, sender) = (keepers.clone(), Arc::clone(left), sender.clone());
    let launch = Launch::new(format!("t{number}"), ["/bin/true"], "/dev/null");
    let listen = Box::new(move |report| {
        if let Report::Ended(end) = report {
            // A listener's panic stays with it, so this must end the program: a command that failed is quick, and flatters us.
            if end.how != How::Exit(0) {
                eprintln!("{}: {}", end.token, end.how);
                std::process::exit(1);
            }
            next(&keepers, &left, &sender);
        }
    });
    pool.start(launch, listen).expect("a keeper can be started");
}
