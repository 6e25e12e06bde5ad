//! A graph of jobs within CPU slots, memory, video memory and named resources.
//!
//! Room: scheduler. `state.rs` moves a job from state to state, `decide/` says what runs next (no clock, no thread), `drive/`
//! has the threads and clocks.
#![forbid(unsafe_code)]

mod state;

pub use state::{Event, IllegalMove, State};
