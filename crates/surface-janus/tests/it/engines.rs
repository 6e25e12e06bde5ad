//! Programs by chance do the same however their checks are merged, and the same again under the same seed.

use std::sync::{Arc, Mutex};

use bursar::{Budget, NurseryOptions, Runtime};
use surface_janus::generate::{self, Kind};
use surface_janus::{Host, Options, Spent};

use crate::common::compile_with;

/// What was printed, with what its task had spent; how it ended; what was spent in all; and the trace of the run.
#[derive(Debug, PartialEq)]
struct Seen {
    lines: Vec<(String, Spent)>,
    ended: String,
    spent: Spent,
    trace: u64,
}

fn seen(source: &str, options: &Options, seed: u64) -> Seen {
    let budget = Budget::ops(1_000_000).spawns(10_000).channel_ops(100_000);
    seen_within(source, options, seed, budget)
}

fn seen_within(source: &str, options: &Options, seed: u64, budget: Budget) -> Seen {
    let program = compile_with(source, options);
    let lines = Arc::new(Mutex::new(Vec::new()));
    let into = lines.clone();
    let host = Host::new().output(move |line| into.lock().unwrap().push((line.text.to_owned(), line.spent)));
    let runtime = Runtime::builder().workers(2).seeded(seed).build().unwrap();
    let outcome = runtime.run(|| program.run_main(&[], &host, NurseryOptions::new().task_budget(budget))).unwrap();
    let ended = match outcome.result {
        Ok(value) => value.to_string(),
        Err(failure) => failure.fault.map_or_else(|| failure.error.to_string(), |fault| fault.to_string()),
    };
    let lines = lines.lock().unwrap().clone();
    Seen { lines, ended, spent: outcome.spent, trace: runtime.trace().hash() }
}

#[test]
fn the_same_seed_gives_the_same_run_of_a_concurrent_program() {
    for seed in 0..60 {
        let source = generate::program(seed, Kind::Concurrent);
        let first = seen(&source, &Options::new(), seed);
        assert_eq!(first, seen(&source, &Options::new(), seed), "program {seed}\n{source}");
    }
}

#[test]
fn merged_checks_spend_the_same_at_every_line_of_every_task() {
    let mut spawns = 0;
    for seed in 0..200 {
        let source = generate::program(seed, Kind::Concurrent);
        let mut merged = seen(&source, &Options::new(), seed);
        let mut unmerged = seen(&source, &Options::new().unmerged(), seed);
        if merged.ended.contains(" in `") || unmerged.ended.contains(" in `") {
            // Something fails, and what is cancelled by that depends on the order of things.
            assert_eq!(merged.ended.contains(" in `"), unmerged.ended.contains(" in `"), "program {seed}\n{source}");
            continue;
        }
        // The order of lines may differ: it is the scheduler's.
        merged.lines.sort_by_key(|(text, spent)| (text.clone(), spent.ops));
        unmerged.lines.sort_by_key(|(text, spent)| (text.clone(), spent.ops));
        assert_eq!((merged.lines, merged.ended), (unmerged.lines, unmerged.ended), "program {seed}\n{source}");
        assert_eq!(merged.spent, unmerged.spent, "program {seed}\n{source}");
        spawns += merged.spent.spawns;
    }
    assert!(spawns > 50, "{spawns}");
}

#[test]
fn merged_checks_stop_a_task_at_the_same_operation() {
    // Behind a channel that was made, two operations are merged into one check.
    let source = "func f(n: i64) -> i64 do
    return n + 1
end
func main() -> i64 do
    defer print(\"deferred\")
    var sum = 0
    for i in 1..4 do
        let c = channel(1)
        sum = sum + f(i)
        c.send(sum)
        let d = channel(2)
        print(i, sum, c.recv())
    end
    return sum
end
";
    let (mut stopped, whole) = (0, seen(source, &Options::new(), 1).spent.ops);
    for ops in 1..=whole + 2 {
        let budget = Budget::ops(ops).channel_ops(1_000);
        let merged = seen_within(source, &Options::new(), 1, budget);
        let unmerged = seen_within(source, &Options::new().unmerged(), 1, budget);
        assert_eq!((&merged.lines, merged.spent), (&unmerged.lines, unmerged.spent), "{ops} operations");
        let is_stopped = merged.ended.contains("OpsBudgetExhausted");
        assert_eq!(is_stopped, ops < whole, "{ops} operations: {merged:?}");
        if is_stopped {
            stopped += 1;
            assert_eq!(merged.spent.ops, ops, "all of it is spent");
        }
    }
    assert!(stopped > 20, "{stopped}");
}
