//! Helpers that the tests of several crates share.
//!
//! Room: tests.
//!
//! Only a development dependency: no crate contains it outside its tests. It has no dependency itself, so it builds wherever tests do: for a sanitizer, for
//! another architecture, for models.
//!
//! A test that hangs is ended by the test runner (`.config/nextest.toml`). The watchdog of [`for_seeds`] ends it sooner, and says which seed it was.
#![forbid(unsafe_code)]

mod alone;
mod broker;
mod c_library;
mod dice;
mod memory;
mod seeds;
mod until;
mod watchdog;

pub use alone::{all_text, alone, alone_with, is_alone, myself, output_alone, output_alone_with, text};
pub use broker::{Broker, nats_server};
pub use c_library::c_library;
pub use dice::Dice;
pub use memory::{proc_count, resident_bytes};
pub use seeds::for_seeds;
pub use until::{in_time, until, until_some};
pub use watchdog::test_timeout;
