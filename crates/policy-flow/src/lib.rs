//! Which node of a flow has the next turn, and what a full edge does.
//!
//! Room: decisions. Knows values; knows nothing of clocks, threads and locks.
//!
//! A [`Core`] takes times and reports and gives [`Turn`]s. A [`Queue`] decides what happens to a message on a full edge. The only user code that runs here is the `Clone` of a message that is put on several
//! edges. `sched-flow` drives both on fibers. A simulator can drive them as well: the same calls give the same answers.
//!
//! `state.rs` moves a node from state to state, `decide/` gives turns, `queue.rs` holds the messages of an edge. The other files are the values that go in and come out.
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
#![cfg_attr(not(test), no_std)] // tests may read a clock
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
pub use decide::{Core, EdgeFacts, ExtraEdges, Log, NodeCore, NodeFacts, Outcome, Phase, Pick, Produced, Turn, Work};
pub use policy::{Band, Policy, PutResult};
pub use queue::{Counts, Merging, Queue, Settled};
pub use state::{Event, IllegalMove, NodeState};
pub use time::Time;
pub use why::{Full, Waits, Why};
