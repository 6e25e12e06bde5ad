//! Programs, from their text to what they print and spend.

mod cancelled;
mod common;
mod engines;
mod guide;
mod hostile;
mod ir;
mod limits;
mod native;
mod problems;
mod programs;
