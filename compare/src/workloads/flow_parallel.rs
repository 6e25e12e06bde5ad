//! The chain of `flow-chain` on 2 workers.
//!
//! What a second core can do for ten nodes in a row: the same nodes, edges and check. The threads of both sides outlive a round.
//!
//! Bar: 1/2 of tokio. A further row says what the second worker is worth to ours.

use crate::Failure;
use crate::chain;
use crate::measure::{Plan, Side};
use crate::table::{Bar, Row};
use crate::workloads::flow_chain::{HOPS, with_tokio};
use crate::workloads::peers;

pub const NAME: &str = "flow-parallel";

pub fn run(plan: &Plan) -> Result<Vec<Row>, Failure> {
    let messages = plan.pick(1_000_000, 100_000);
    let count = messages as u64;
    let tokio = peers::tokio(2)?;
    let [ours, alone, tokio] = plan.best_of(
        messages * HOPS,
        [
            Side::new("ours", || chain::check(count, chain::ours(count, Some(2))?)),
            Side::new("ours, 1 thread", || chain::check(count, chain::ours(count, None)?)),
            Side::new("tokio", || chain::check(count, peers::run_tokio(&tokio, with_tokio::sum(count))?)),
        ],
    )?;
    Ok(vec![
        Row::new(NAME, "tokio", [ours, tokio], "ns/hop", Bar::Part(2)),
        Row::new(NAME, "ours, 1 thread", [ours, alone], "ns/hop", Bar::Open),
    ])
}
