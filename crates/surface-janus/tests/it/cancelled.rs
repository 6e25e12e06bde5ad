//! What a task that was cancelled has spent.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bursar::{Budget, NurseryOptions, Runtime};
use surface_janus::{Engine, Host, Program, Spent};

use crate::common::compile;

/// What was printed last, with what had been spent by then, and what was spent in all, of a seeded run with a deadline.
fn stopped(program: &Program, engine: Engine, interval: u32, budget: Option<Budget>) -> (Option<(String, u64)>, Spent) {
    let runtime = Runtime::builder().workers(2).seeded(7).build().unwrap();
    runtime.run(|| stopped_here(program, engine, interval, budget, Duration::from_micros(500))).unwrap()
}

/// The same, wherever the caller runs.
fn stopped_here(
    program: &Program,
    engine: Engine,
    interval: u32,
    budget: Option<Budget>,
    after: Duration,
) -> (Option<(String, u64)>, Spent) {
    let last = Arc::new(Mutex::new(None));
    let seen = last.clone();
    let host = Host::new().engine(engine).yield_interval(interval).output(move |line| {
        *seen.lock().unwrap() = Some((line.text.to_owned(), line.spent.ops));
    });
    let mut options = NurseryOptions::new().timeout(after);
    if let Some(budget) = budget {
        options = options.task_budget(budget);
    }
    let outcome = program.run_main(&[], &host, options);
    assert!(outcome.result.is_err());
    let last = last.lock().unwrap().clone();
    (last, outcome.spent)
}

const ENGINES: [Engine; 2] = [Engine::Native, Engine::Interpreter];
const INTERVALS: [u32; 4] = [1, 7, 1024, 100_000];

#[test]
fn a_clean_up_that_never_ends_has_spent_all_that_clean_ups_may() {
    for hog in [
        "while true do end",
        "while true do c.try_recv(0) end",
        "while true do print(1) end",
        "while true do c.try_recv(0) end end; defer do while true do end",
        "for i in 1..9999 do end; while true do c.close() end",
    ] {
        let program = compile(&format!(
            "func main() do
                let c = channel(0)
                defer do {hog} end
                c.recv()
            end"
        ));
        for engine in ENGINES {
            for interval in INTERVALS {
                for budget in [None, Some(Budget::ops(1_000_000).channel_ops(1_000_000))] {
                    let (_, spent) = stopped(&program, engine, interval, budget);
                    assert_eq!(spent.ops, 1 + 10_000, "{hog}: {engine:?}, {interval}, {budget:?}");
                }
            }
        }
    }
}

#[test]
fn a_clean_up_within_its_limit_spends_what_it_does() {
    let program = compile(
        "func main() do
            let c = channel(0)
            defer do
                for i in 1..9998 do end
                c.is_closed()
                c.try_recv(0)
                print(1)
            end
            c.recv()
        end",
    );
    for engine in ENGINES {
        for interval in INTERVALS {
            let (last, spent) = stopped(&program, engine, interval, None);
            assert_eq!((last, spent.ops), (Some(("1".to_owned(), 10_001)), 10_001), "{engine:?}, {interval}");
        }
    }
}

#[test]
fn a_loop_that_is_cancelled_has_spent_what_it_did() {
    let program = compile(
        "func main() do
            var n = 0
            defer print(n)
            while true do
                n = n + 1
            end
        end",
    );
    for engine in ENGINES {
        for interval in &INTERVALS {
            for budget in [None, Some(Budget::ops(100_000_000))] {
                // The deadline comes while the loop runs, and is found where it pays.
                let (last, spent) = stopped_here(&program, engine, *interval, budget, Duration::from_millis(20));
                let (text, by_then) = last.unwrap();
                let done: u64 = text.parse().unwrap();
                assert!(done > 0);
                assert_eq!((by_then, spent.ops), (done + 1, done + 1), "{engine:?}, {interval}, {budget:?}");
            }
        }
    }
}
