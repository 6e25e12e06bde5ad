//! Programs by chance do the same in both engines: output, what was spent at each line, result, error with its line, total, and the trace of a seeded run.
//!
//! Room: tests.
//!
//! The ordinary test compares 300 programs. `JANUS_PROGRAMS=10000 cargo test --release -p bursar-surface-janus differential` compares as many as it says. A failure names the number of the program, which makes it again.
//!
//! The test can fail: `every_planted_bug_is_found` plants bugs in the code that is made, one after the other.

use std::fmt::Write;
use std::sync::{Arc, Mutex};

use sched_tasks::{Budget, NurseryOptions, Runtime};

use super::compile::Bug;
use crate::generate::{self, Kind};
use crate::task::{Engine, Host, Spent};
use crate::{Options, Program};

/// What can be seen of a run.
#[derive(Clone, Debug, PartialEq)]
struct Seen {
    /// Each line with what its task had spent, and where it stands.
    lines: Vec<(String, Spent, u32)>,
    ended: String,
    spent: Spent,
    trace: u64,
}

/// Where and how a program runs.
#[derive(Clone, Copy, Debug)]
struct Setting {
    seed: u64,
    ops: u64,
    spawns: u64,
    stack_bytes: u64,
    interval: u32,
}

fn seen(program: &Program, engine: Engine, setting: Setting) -> Seen {
    let lines = Arc::new(Mutex::new(Vec::new()));
    let into = lines.clone();
    let host = Host::new()
        .engine(engine)
        .stack_bytes(setting.stack_bytes)
        .yield_interval(setting.interval)
        .output(move |line| into.lock().unwrap().push((line.text.to_owned(), line.spent, line.line)));
    let runtime = Runtime::builder().workers(2).seeded(setting.seed).build().unwrap();
    let budget = Budget::ops(setting.ops).spawns(setting.spawns).channel_ops(setting.ops);
    let outcome = runtime.run(|| program.run_main(&[], &host, NurseryOptions::new().task_budget(budget))).unwrap();
    let mut ended = String::new();
    match &outcome.result {
        Ok(value) => _ = write!(ended, "{value}"),
        Err(failure) => _ = write!(ended, "{:?}; {}", failure.fault, failure.error),
    }
    let lines = lines.lock().unwrap().clone();
    Seen { lines, ended, spent: outcome.spent, trace: runtime.trace().hash() }
}

/// The program of a number, and how it is run to its end.
fn program(number: u64) -> (String, Setting) {
    let kind = [Kind::Sequential, Kind::Concurrent, Kind::Tasks][(number % 3) as usize];
    let interval = [1024, 1, 7, 64][(number / 3 % 4) as usize];
    let whole = Setting { seed: number, ops: 1_000_000, spawns: 10_000, stack_bytes: 128 << 10, interval };
    (generate::program(number, kind), whole)
}

/// Ways to run it that stop it in between: out of budget, which what it spends as a whole gives, and with little stack.
fn stopped(number: u64, whole: Setting, spent: Spent) -> [Setting; 3] {
    [
        Setting { ops: (spent.ops * (1 + number % 5) / 6).max(1), ..whole },
        Setting { ops: 1 + number % 7, spawns: spent.spawns / 2, ..whole },
        Setting { stack_bytes: 200 + number * 13 % 500, ..whole },
    ]
}

/// The first difference between the engines in a program, if there is one.
fn difference(number: u64, planted: Option<Bug>) -> Option<String> {
    let (source, whole) = program(number);
    let program = Program::compile_with(&source, &Options::new()).unwrap().planted(planted);
    assert_eq!(program.prepare(), Engine::Native, "program {number}\n{source}");
    let compare = |setting: &Setting| {
        let wanted = seen(&program, Engine::Interpreter, *setting);
        let native = seen(&program, Engine::Native, *setting);
        let differs = native != wanted;
        let text = || {
            format!("program {number}, {setting:?}\n{native:#?}\n is to be\n{wanted:#?}\n{source}\n{}", program.ir())
        };
        (differs.then(text), wanted)
    };
    let (found, wanted) = compare(&whole);
    found.or_else(|| stopped(number, whole, wanted.spent).iter().find_map(|setting| compare(setting).0))
}

fn count() -> u64 {
    std::env::var("JANUS_PROGRAMS").ok().and_then(|count| count.parse().ok()).unwrap_or(300)
}

#[test]
fn the_engines_agree_on_every_program() {
    for number in 0..count() {
        if let Some(difference) = difference(number, None) {
            panic!("{difference}");
        }
    }
}

#[test]
fn the_programs_are_not_all_alike() {
    let (mut faults, mut refused, mut overflows, mut spawns, mut lines) = (0, 0, 0, 0, 0);
    for number in 0..100 {
        let (source, whole) = program(number);
        let program = Program::compile(&source).unwrap();
        let all = seen(&program, Engine::Interpreter, whole);
        for setting in stopped(number, whole, all.spent).into_iter().chain([whole]) {
            let seen = seen(&program, Engine::Interpreter, setting);
            faults += usize::from(seen.ended.contains("Overflow") || seen.ended.contains("DivisionByZero"));
            refused += usize::from(seen.ended.contains("Exhausted"));
            overflows += usize::from(seen.ended.contains("Stack"));
            spawns += seen.spent.spawns;
            lines += seen.lines.len();
        }
    }
    assert!(
        faults > 10 && refused > 50 && overflows > 10 && spawns > 50 && lines > 300,
        "{faults} {refused} {overflows} {spawns} {lines}"
    );
}

#[test]
fn every_planted_bug_is_found() {
    for bug in Bug::ALL {
        assert!((0..count()).any(|number| difference(number, Some(*bug)).is_some()), "{bug:?} is not found");
    }
}

#[test]
fn a_call_that_needs_more_stack_than_the_one_before_it_looks_for_itself() {
    let source = "
func small(n: i64) -> i64 do
    return n
end
func large(n: i64) -> i64 do
    let a = n * 2
    let b = a * 3
    let c = a * b
    return a + b * (c - n)
end
func main() do
    print(small(1) + large(2) + small(3))
end
";
    let differs = |planted: Option<Bug>| {
        let program = Program::compile(source).unwrap().planted(planted);
        assert_eq!(program.prepare(), Engine::Native);
        (0..1_000).step_by(8).any(|stack_bytes| {
            let setting = Setting { seed: 1, ops: 1_000, spawns: 0, stack_bytes, interval: 64 };
            seen(&program, Engine::Native, setting) != seen(&program, Engine::Interpreter, setting)
        })
    };
    assert!(!differs(None));
    assert!(differs(Some(Bug::LooksOnce)), "the planted bug is not found");
}
