//! Flows in several processes, over a real broker that is killed. Without `nats-server` each test says that it was not run.
//!
//! Those that take long are ignored by default: `cargo test -p bursar-cli --test nats -- --include-ignored`.

mod ends;
mod lost;
mod numbers;
mod outages;
mod refusals;
mod site;
