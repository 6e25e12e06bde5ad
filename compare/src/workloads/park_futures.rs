//! A million futures that are parked. 2 workers, a process for each side.
//!
//! Bars: not more bytes for a task than tokio, and 250. *Bare*: all pending on one gate. Both sides spawn the same future; the gate's
//! list of wakers is allocated and touched before the measurement, so it counts for neither.
//! *Waiting*: as a user writes them, async blocks that wait for something of the library: ours for a value of a channel, tokio's for a `Notify`, which takes least
//! there (its `watch` takes as much, a receiver of `async-channel` more). What waits is in lists of the library, which count.
//! Handles are dropped on both sides.

use crate::Failure;
use crate::measure::Plan;
use crate::memory::in_child;
use crate::table::{Bar, LIMIT, Row};

const PROGRAM: &str = "parked_futures";
pub const NAME: &str = "park-futures";

const BYTES_MAX: f64 = 250.0;

pub fn run(plan: &Plan) -> Result<Vec<Row>, Failure> {
    let count = plan.pick(1_000_000, 200_000);
    let bytes = |side| -> Result<f64, Failure> {
        plan.step(side);
        Ok(in_child(PROGRAM, side, count)?.resident_bytes as f64 / count as f64)
    };
    let bare = [bytes("ours")?, bytes("tokio")?];
    let waiting = [bytes("ours-waiting")?, bytes("tokio-waiting")?];
    Ok(vec![
        Row::new(NAME, "tokio, bare", bare, "B/task", Bar::Times(1.0)),
        Row::new(NAME, "tokio, waiting", waiting, "B/task", Bar::Times(1.0)),
        Row::new(NAME, LIMIT, [waiting[0], BYTES_MAX], "B/task", Bar::AtMost),
    ])
}
