//! Counts what our chain allocates: `flow_allocations MESSAGES [WORKERS]` prints `<bytes> <allocations>`.
//!
//! Not for people: the workload `flow-memory` starts it. A program of its own, because counting costs two atomic
//! operations an allocation, which would fall on the peers too, and harder on those that allocate more.

#[path = "../chain.rs"]
mod chain;

use std::alloc::System;
use std::env;
use std::error::Error;

use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static COUNTED: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = env::args().skip(1);
    let count = args.next().ok_or("how many messages?")?.parse()?;
    let workers = args.next().map(|workers| workers.parse()).transpose()?;
    let region = Region::new(COUNTED);
    let sum = chain::ours(count, workers)?;
    let change = region.change();
    chain::check(count, sum)?;
    println!("{} {}", change.bytes_allocated, change.allocations + change.reallocations);
    Ok(())
}
