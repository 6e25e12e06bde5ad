//! Runs on a real Slurm cluster, with real kills. `cargo xtask test cluster` starts the cluster and runs these tests; alone they are ignored.
//!
//! # The law
//! Each job's effect, a line in a file, is there exactly once, or the run says that the job failed. No run hangs.

mod arrays;
mod errors;
mod kills;
mod lab;
mod rest;
mod runs;
