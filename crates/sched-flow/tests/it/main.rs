//! Flows as users run them: every test on both drivers.

mod basics;
mod breaks;
mod lives;
mod shares;
mod support;
mod tasks;
