//! What one thread can see of each part, and what many real threads do to it. Interleavings are in `tests/loom/`.
#![cfg(not(loom))]

mod deque;
mod queues;
mod tally;
mod waking;
