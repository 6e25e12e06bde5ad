//! Act 2: as many fibers as a city has people wait at one gate.

use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::{Duration, Instant},
};

use bursar::{TaskError, channel, nursery, sleep, yield_now};
use indicatif::HumanBytes;
use serde::Serialize;

use super::{
    memory::{available_bytes, resident_bytes},
    stage::{Stage, grouped, short},
};

/// What a parked fiber takes at most, with some room; see `compare/`.
const FIBER_BYTES: u64 = 8 * 1024;

#[derive(Debug, Serialize)]
pub(crate) struct Parked {
    pub(crate) fibers: u64,
    /// Resident memory of each; none where the system does not say.
    pub(crate) bytes_each: Option<u64>,
    pub(crate) park_ms: f64,
    pub(crate) wake_ms: f64,
}

pub(crate) fn act(stage: &Stage<'_>, wanted: usize) -> Result<Option<Parked>, TaskError> {
    let about = "Each has a guarded stack of its own and blocks in `recv`. Then the gate opens for all.";
    let count = affordable(wanted as u64);
    if !stage.announce(2, &format!("{} fibers, all blocked at once", grouped(count)), about) {
        return Ok(None);
    }
    if count < wanted as u64 {
        stage.show.say(format!("    {} would take more than half of the free memory", grouped(wanted as u64)));
    }

    let (blocked, woken) = (AtomicU64::new(0), AtomicU64::new(0));
    let (gate, at_gate) = channel::<()>(1);
    let before = resident_bytes();
    let begun = Instant::now();
    let work = || {
        let (mut bytes_each, mut parked, mut opened) = (None, Duration::ZERO, Instant::now());
        nursery(|n| {
            for _ in 0..count {
                n.spawn(|| {
                    blocked.fetch_add(1, Relaxed);
                    // Nothing is ever sent: the gate opens by being dropped.
                    let _closed = at_gate.recv();
                    woken.fetch_add(1, Relaxed);
                });
            }
            while blocked.load(Relaxed) < count {
                yield_now();
            }
            parked = begun.elapsed();
            sleep(Duration::from_millis(300)); // the last one blocks, and a person reads the number
            bytes_each = resident_bytes().zip(before).map(|(now, before)| now.saturating_sub(before) / count);
            opened = Instant::now();
            drop(gate);
            Ok(())
        })?;
        Ok((bytes_each, parked, opened.elapsed()))
    };
    let bar = stage.show.bar("    {bar:46.cyan} {msg}", count);
    let outcome = stage.play(work, || {
        let standing = blocked.load(Relaxed) - woken.load(Relaxed);
        let memory = resident_bytes().map(|bytes| format!(", {} resident", HumanBytes(bytes))).unwrap_or_default();
        bar.set(standing, || format!("{} parked{memory}", grouped(standing)));
    });
    drop(bar);

    let Some((bytes_each, parked, wake)) = stage.unless_stopped(outcome)? else {
        return Ok(None);
    };
    let woken = woken.load(Relaxed);
    if woken != count {
        return Err(TaskError::msg(format!("{count} fibers were parked but {woken} woke; please report this")));
    }
    let memory =
        bytes_each.map_or_else(String::new, |bytes| format!(", {:.1} KiB of memory each", bytes as f64 / 1024.0));
    stage.conclude(format!("parked in {}{memory}; all of them woke and ended in {}", short(parked), short(wake)));
    let millis = |time: Duration| time.as_secs_f64() * 1e3;
    Ok(Some(Parked { fibers: count, bytes_each, park_ms: millis(parked), wake_ms: millis(wake) }))
}

/// As many as fit into half of the free memory.
fn affordable(wanted: u64) -> u64 {
    available_bytes().map_or(wanted, |bytes| wanted.min(bytes / 2 / FIBER_BYTES)).max(1)
}
