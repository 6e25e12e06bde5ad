//! A TCP server that sends back what it gets, on one worker: fibers, futures, and tokio on one thread. The client is another process.
//!
//! Bars: as many requests as tokio at 1, 64, 256 and 1,000 connections, no more CPU time for each, and no longer in 99 of 100.

use crate::Failure;
use crate::measure::Plan;
use crate::table::Row;
use crate::workloads::serve::{Server, rows};

pub const NAME: &str = "echo";

pub fn run(plan: &Plan) -> Result<Vec<Row>, Failure> {
    rows(plan, NAME, false, &[Server::Fibers, Server::Futures])
}
