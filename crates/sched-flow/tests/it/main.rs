//! Flows as users run them: every test on both drivers.

mod asks;
mod basics;
mod breaks;
mod fails;
mod general;
mod held;
mod lives;
mod random;
mod receipts;
mod shares;
mod storms;
mod tasks;
mod wrongs;
