//! Every public operation, called with ever less stack left: it works, or its task unwinds; and afterwards the runtime works as before.
//!
//! Each operation has a process of its own and a time limit, so that one that hangs or ends the process is named. In steps of 64 bytes when asked by
//! `cargo xtask test depths`; otherwise in larger ones.

mod operations;

use std::{
    env,
    hint::black_box,
    process::{Command, ExitCode, Stdio},
    time::{Duration, Instant},
};

use sched_tasks::{Reason, Runtime, block_on, channel, nursery, sleep, sleep_async};

/// With less left nothing of the runtime is called any more: the frames of the caller itself, and of a call that looks how much is left, need so much.
pub(crate) const LEAST_BYTES: usize = if cfg!(debug_assertions) { 8 << 10 } else { 2 << 10 };

/// With more left everything works.
const MOST_BYTES: usize = if cfg!(debug_assertions) { 112 << 10 } else { 56 << 10 };

/// How long one operation may take, at all depths.
const LIMIT: Duration = Duration::from_secs(120);

/// Something that is prepared with all the stack there is, and done with little.
pub(crate) type Operation = Box<dyn FnMut() + Send>;

fn main() -> ExitCode {
    let args: Vec<String> = env::args().skip(1).collect();
    if args.iter().any(|arg| arg == "--list") {
        if !args.iter().any(|arg| arg == "--ignored") {
            println!("every_operation_works_or_unwinds_at_every_depth: test");
        }
        return ExitCode::SUCCESS;
    }
    let step: usize =
        env::var("DEPTHS_STEP").ok().map_or(1024 + 64, |step| step.parse().expect("DEPTHS_STEP is a number"));
    if let Ok(name) = env::var("DEPTHS_OPERATION") {
        descend(&name, step);
        return ExitCode::SUCCESS;
    }
    let begun = Instant::now();
    let mut failed = Vec::new();
    for (name, _) in operations::ALL {
        if let Err(why) = in_its_own_process(name, step) {
            println!("FAILED {name}: {why}");
            failed.push(*name);
        }
    }
    let count = operations::ALL.len();
    println!(
        "test result: {}. {} passed; {} failed; steps of {step} bytes from {LEAST_BYTES} to {MOST_BYTES}; {:.1} s",
        if failed.is_empty() { "ok" } else { "FAILED" },
        count - failed.len(),
        failed.len(),
        begun.elapsed().as_secs_f64(),
    );
    if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn in_its_own_process(name: &str, step: usize) -> Result<(), String> {
    let me = env::current_exe().map_err(|error| error.to_string())?;
    let mut child = Command::new(me)
        .env("DEPTHS_OPERATION", name)
        .env("DEPTHS_STEP", step.to_string())
        .stdout(Stdio::inherit())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| error.to_string())?;
    let begun = Instant::now();
    loop {
        match child.try_wait().map_err(|error| error.to_string())? {
            Some(status) if status.success() => return Ok(()),
            Some(status) => {
                let mut told = String::new();
                let _ = std::io::Read::read_to_string(&mut child.stderr.take().expect("piped"), &mut told);
                let lines: Vec<&str> = told.lines().filter(|line| !line.is_empty()).collect();
                let last = lines[lines.len().saturating_sub(6)..].join(" | ");
                return Err(format!("{status}: {last}"));
            }
            None if begun.elapsed() > LIMIT => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("hangs: not over after {LIMIT:?}"));
            }
            None => std::thread::sleep(Duration::from_millis(2)), // a child's end is no event we could wait for beside a limit
        }
    }
}

/// Does the operation at every depth, and looks after each that the runtime works.
fn descend(name: &str, step: usize) {
    let (_, prepare) = operations::ALL.iter().find(|(known, _)| *known == name).expect("an operation of this name");
    let runtime = Runtime::builder().workers(2).stack_bytes(256 << 10).build().expect("a runtime");
    let (mut worked, mut unwound, mut lowest) = (0, 0, MOST_BYTES);
    for left in (LEAST_BYTES..MOST_BYTES).step_by(step).rev() {
        eprintln!("{left} bytes left");
        let outcome = runtime.nursery(|n| {
            n.spawn(|| {
                let mut operation = prepare();
                at_depth(left, &mut operation);
            })
            .join()
        });
        match outcome {
            Ok(()) => {
                worked += 1;
                lowest = left;
            }
            Err(error) if matches!(error.reason(), Reason::StackOverflow { .. }) => unwound += 1,
            Err(error) => panic!("with {left} bytes left: {error}"),
        }
        check(&runtime);
    }
    assert!(worked > 0, "it worked at no depth");
    println!("{name:<40} worked {worked:>4}, unwound {unwound:>4}, works down to {lowest:>6} bytes");
}

/// Calls `f` when no more than `left` bytes of stack are left.
#[inline(never)]
fn at_depth(left: usize, f: &mut dyn FnMut()) {
    let now = mech_fiber::remaining_bytes().expect("a task has a stack of its own");
    if now > left + (16 << 10) {
        let pad = black_box([0_u8; 4096]);
        at_depth(left, f);
        black_box(&pad);
    } else if now > left {
        let pad = black_box([0_u8; 8]);
        small_steps(left, f);
        black_box(&pad);
    } else {
        f();
    }
}

#[inline(never)]
fn small_steps(left: usize, f: &mut dyn FnMut()) {
    if mech_fiber::has_room(left) {
        small_steps(left, f);
        black_box(left);
    } else {
        f();
    }
}

/// The runtime does what it did before: it starts tasks, wakes them, and its clock goes.
fn check(runtime: &Runtime) {
    let sum = runtime.run(|| {
        nursery(|n| {
            let (tx, rx) = channel(1);
            n.spawn(move || tx.send(1));
            let slept = n.spawn(|| {
                sleep(Duration::from_micros(10));
                block_on(sleep_async(Duration::from_micros(10)));
                2
            });
            Ok(rx.recv()? + slept.join()?)
        })
    });
    assert_eq!(sum.expect("the runtime works").expect("its tasks work"), 3);
}
