//! Whose turn it is, and what a full edge does.
//!
//! Room: policy. No clock, no thread, no lock; no code of a user, but for the `Clone` of what is put on several edges. Time and reports come in, [`Turn`]s go out of a
//! [`Core`]; a [`Queue`] says what becomes of a message on a full edge. `sched-flow` drives both on fibers; a simulator can drive them as well, since the same
//! calls give the same answers.
//!
//! `state.rs` moves a node from state to state, `decide/` gives turns, `queue.rs` keeps what waits on an edge. The other files are the values that go in and come out.
//!
//! ```
//! use policy_flow::{Band, Core, EdgeFacts, Log, NodeFacts, Outcome, Pick, Produced, Time, Work};
//!
//! // A source and what it feeds.
//! let node = |group| NodeFacts { source: group == 0, cadence: None, batch: 8, band: Band::Normal, group };
//! let edge = EdgeFacts { from: 0, to: 1, band: Band::Normal, steers: false, loose: false };
//! let mut core = Core::new(vec![node(0), node(1)], vec![edge], &[0, 1], [4, 2, 1]);
//! for node in [0, 1] {
//!     core.started(node, &Outcome::default(), &Log::default(), Time::START);
//! }
//!
//! let Pick::Turn(turn) = core.pick(Time::START) else { panic!("the source may be asked") };
//! assert_eq!((turn.node, turn.work), (0, Work::Produce));
//! let outcome = Outcome { produced: Some(Produced::End), ..Outcome::default() };
//! core.report(turn, &outcome, &Log { filled: vec![0], ..Log::default() }); // edge 0 has something now
//!
//! let Pick::Turn(turn) = core.pick(Time::START) else { panic!("the edge has something") };
//! assert_eq!((turn.node, turn.work), (1, Work::Serve(0)));
//! # core.report(turn, &Outcome::default(), &Log::default());
//! ```
#![cfg_attr(not(test), no_std)] // tests may look at a clock
#![forbid(unsafe_code)]

extern crate alloc;

mod counts;
mod decide;
mod policy;
mod queue;
mod state;
mod time;
mod why;

pub use counts::{Histogram, NodeCounts};
pub use decide::{Also, Core, EdgeFacts, Log, NodeCore, NodeFacts, Outcome, Phase, Pick, Produced, Turn, Work};
pub use policy::{Band, Policy, PutResult};
pub use queue::{Counts, Merging, Queue, Settled};
pub use state::{Event, IllegalMove, NodeState};
pub use time::Time;
pub use why::{Full, Waits, Why};
