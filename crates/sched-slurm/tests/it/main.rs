//! Decisions and texts of `sched-slurm`, and its executor over a cluster that a test plays.

mod decisions;
mod executor;
mod fake;
mod scripts;
mod texts;
