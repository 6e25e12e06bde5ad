//! No holder gets more than was granted. Interleavings are in `tests/loom/`.
#![cfg(not(loom))]

mod audit;
mod authority_model;
mod counting_model;
mod errors;
mod handles;
mod permits;
mod threads;
mod uses;
