//! Edges over a real broker. Without `nats-server` each test says that it was not run.

mod edges;
mod ends;
mod meddling;
mod refusals;
mod speed;
