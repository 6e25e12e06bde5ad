//! The promises of the crate, kept by real processes.

mod bench;
mod ending;
mod gpus;
mod many;
mod measuring;
mod pausing;
mod starting;
mod surviving;
