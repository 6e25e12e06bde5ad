//! The validation gates of the CPU scheduler, on a simulated machine on which every law is checked at every event.

mod chaos;
mod contexts;
mod fair;
mod leases;

/// Milliseconds.
fn ms(count: u64) -> u64 {
    count * 1_000_000
}

/// Microseconds.
fn us(count: u64) -> u64 {
    count * 1_000
}
