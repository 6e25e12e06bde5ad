//! Decisions and texts of `sched-slurm`, its executor over a cluster that a test plays, and slurmrestd over real sockets.

mod arrays;
mod decisions;
mod executor;
mod fake;
mod nodes;
mod pauses;
mod play;
mod rest;
mod scripts;
mod server;
mod texts;
