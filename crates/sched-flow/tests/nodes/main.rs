//! Stock nodes, each driven alone by the harness.

mod ends;
mod harness;
mod memory;
mod outside;
mod pace;
mod shape;
mod whole;

use std::time::Duration;

use sched_flow::Time;

const MS: Duration = Duration::from_millis(1);

/// So many milliseconds after the start.
fn ms(ms: u32) -> Time {
    Time::START + MS * ms
}
