//! No holder gets more than was granted. Interleavings are in `tests/loom/`.
#![cfg(not(loom))]

mod audit;
mod authority_model;
mod counting_model;
mod errors;
mod handles;
mod permits;
mod policy_checks;
mod policy_model;
mod policy_receiver;
mod threads;
mod uses;
