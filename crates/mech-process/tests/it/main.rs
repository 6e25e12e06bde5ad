//! The promises of the crate, tested with real processes.

mod bench;
mod ending;
mod gpus;
mod many;
mod measuring;
mod pausing;
mod scheduling;
mod starting;
mod surviving;
