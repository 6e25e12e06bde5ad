//! What a message costs in memory, and whether more of them cost more: the chain of `flow-chain`, 10^3 to 10^6 messages.
//!
//! Each count runs in a process of its own whose allocator counts. A graph allocates when it is built and its edges when they
//! fill up, so it is the *difference* of two counts, both large enough to have filled everything, that says what a message
//! allocates.
//!
//! Bars: a message allocates nothing, but for a queue that grows late, which may happen a few times in all on one thread and more often on 2 workers; a hop of the largest run costs at most 1.5 × one of
//! a run a hundredth its size. The smallest pays for building the graph, so its row is for orientation.

use std::env;
use std::process::Command;

use crate::Failure;
use crate::chain;
use crate::measure::{Plan, Side};
use crate::table::{Bar, LIMIT, Row};
use crate::workloads::flow_chain::HOPS;

pub const NAME: &str = "flow-memory";
const GROWTH_MAX: f64 = 1.5;
/// On 2 workers, how full an edge ever gets, and so how far its queue grows, is a matter of timing: less than a byte for each message.
const BYTES_BELOW: f64 = 1.0;
const TIMES_BELOW: f64 = 0.01;
/// On one thread a turn that the machine interrupts is cut short, and an edge may then have to grow once more: a few allocations in a million messages.
const ALONE_BYTES_BELOW: f64 = 0.1;
const ALONE_TIMES_BELOW: f64 = 0.001;

/// What a run allocated.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Allocated {
    bytes: u64,
    times: u64,
}

/// A run of so many messages in the program that counts.
fn allocated(count: usize, workers: Option<usize>) -> Result<Allocated, Failure> {
    let program = env::current_exe()?.with_file_name("flow_allocations");
    let mut command = Command::new(&program);
    command.arg(count.to_string()).args(workers.map(|workers| workers.to_string()));
    let output = command.output().map_err(|error| {
        format!("cannot start {}: {error}; `cargo xtask compare` builds it", program.file_name().unwrap().display())
    })?;
    if !output.status.success() {
        return Err(format!("{count} messages: {}", String::from_utf8_lossy(&output.stderr).trim()).into());
    }
    parse(&String::from_utf8(output.stdout)?)
}

fn parse(told: &str) -> Result<Allocated, Failure> {
    let (bytes, times) =
        told.trim().split_once(' ').ok_or_else(|| format!("expected `<bytes> <allocations>`, got {told:?}"))?;
    Ok(Allocated { bytes: bytes.parse()?, times: times.parse()? })
}

/// Bytes and allocations for each message of those that `more` had and `fewer` had not.
fn per_message(fewer: Allocated, more: Allocated, messages: usize) -> [f64; 2] {
    let each = |more: u64, fewer: u64| more.saturating_sub(fewer) as f64 / messages as f64;
    [each(more.bytes, fewer.bytes), each(more.times, fewer.times)]
}

pub fn run(plan: &Plan) -> Result<Vec<Row>, Failure> {
    let (few, many) = (100_000, 1_000_000);
    let grown = |workers| -> Result<[f64; 2], Failure> {
        Ok(per_message(allocated(few, workers)?, allocated(many, workers)?, many - few))
    };
    plan.step("ours, counted");
    let [bytes, times] = grown(None)?;
    plan.step("ours, counted, 2 workers");
    let [bytes_both, times_both] = grown(Some(2))?;
    let mut rows = vec![
        Row::new(NAME, LIMIT, [bytes, ALONE_BYTES_BELOW], "B/message", Bar::Below),
        Row::new(NAME, LIMIT, [times, ALONE_TIMES_BELOW], "allocations/message", Bar::Below),
        Row::new(NAME, LIMIT, [bytes_both, BYTES_BELOW], "B/message, 2 workers", Bar::Below),
        Row::new(NAME, LIMIT, [times_both, TIMES_BELOW], "allocations/message, 2 workers", Bar::Below),
    ];

    let side = |name, count: usize| {
        Side::new(name, move || {
            // As many runs as make up the largest: all sides send the same number of messages, and take turns.
            for _ in 0..many / count {
                chain::check(count as u64, chain::ours(count as u64, None)?)?;
            }
            Ok(())
        })
    };
    let [smallest, small, large, largest] = plan.best_of(
        many * HOPS,
        [
            side("ours, 10^3", many / 1000),
            side("ours, 10^4", many / 100),
            side("ours, 10^5", many / 10),
            side("ours, 10^6", many),
        ],
    )?;
    rows.extend([
        Row::new(NAME, "ours, 10^3 messages", [largest, smallest], "ns/hop", Bar::Open),
        Row::new(NAME, "ours, 10^4 messages", [largest, small], "ns/hop", Bar::Times(GROWTH_MAX)),
        Row::new(NAME, "ours, 10^5 messages", [largest, large], "ns/hop", Bar::Open),
    ]);
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_child_prints_the_parent_reads() {
        assert_eq!(parse("4600 12\n").expect("it parses"), Allocated { bytes: 4600, times: 12 });
        assert!(parse("").is_err());
    }

    #[test]
    fn only_what_grows_with_the_messages_counts() {
        let (few, many) = (Allocated { bytes: 1000, times: 10 }, Allocated { bytes: 9000, times: 110 });
        assert_eq!(per_message(few, many, 100), [80.0, 1.0]);
        assert_eq!(per_message(many, many, 100), [0.0, 0.0]);
    }
}
