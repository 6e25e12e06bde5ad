//! Which task ran out of stack, and whether its frames may be skipped.
//!
//! Room: mechanism. Knows what ran; how a lost task ends is `drive/overflow_cleanup.rs`.
//!
//! # Invariant
//! Frames are skipped only on the stack of a task that borrows nothing, or of a runtime whose builder vouched for all its tasks.
//!
//! # Why it holds
//! A task survives an overflow only if `OwnedTaskBuilder` made it, which takes `'static` closures. Its frames then lend to one another, to tasks it
//! started, to threads, and to values of its thread. The stack is kept for ever with all that was moved onto it; its tasks are waited for (`overflow_cleanup.rs`);
//! its locals are leaked (`Strand::abandon`); its thread, whose thread-locals a frame may have lent on, never ends (`Worker::main`). A future's
//! memory is kept, too: it was pinned. A task that never ran, or whose result was not taken, drops what it has in its own memory; there nothing survives. A foreign waker
//! runs in the middle of an operation, which has others to wake after it; nothing survives there, either. The second half of a `join` borrows from the first, so it survives nothing. The workers of a seeded runtime
//! share a thread that is not ours to keep, so nothing survives there.

use std::fmt::Write;

use mech_fiber::OnOverflow;

use crate::kernel::{current, strand::Strand};

/// Answers for the tasks of this crate, from now on.
pub(crate) fn install_hook() {
    // SAFETY:
    // - `on_overflow` reads what only this thread writes, and it writes to `line` alone.
    // - It says `Leave` where the invariant above allows it.
    unsafe { mech_fiber::set_overflow_hook(on_overflow) };
}

/// Runs in a signal handler.
fn on_overflow(line: &mut dyn Write) -> OnOverflow {
    let Some(strand) = current::peek() else { return OnOverflow::EndProcess("it belongs to no task") };
    let Some(running) = strand.running.get() else {
        let _ = line.write_str("a fiber of the runtime");
        return OnOverflow::EndProcess("it ran no task");
    };
    let task = running.task();
    let details = task.details();
    let name = task.name().task();
    let _ = write!(line, "task {}", task.id());
    if let Some(name) = details.and_then(|details| details.name.as_ref()) {
        let _ = write!(line, " `{name}`");
    }
    if let Some((_, site)) = name {
        let _ = write!(line, " (spawned at {site})");
    }
    let shared = strand.shared();
    let vouched = shared.is_some_and(|shared| shared.skips_frames);
    let owns_all = details.is_some_and(|details| details.survives_overflow) && running.is_whole();
    let keeps_thread = shared.is_some_and(|shared| shared.seeded.is_none());
    if strand.is_unwinding() {
        OnOverflow::EndProcess("it was unwinding")
    } else if strand.drops_in_place.get() {
        OnOverflow::EndProcess("a destructor ran on a value that cannot be kept")
    } else if strand.turn.is_in_waker() {
        OnOverflow::EndProcess("it ran a waker in the middle of an operation of the runtime")
    } else if vouched || owns_all && keeps_thread {
        OnOverflow::Leave
    } else {
        OnOverflow::EndProcess("frames that others may borrow from cannot be skipped")
    }
}

impl Strand {
    /// Leaks what the task had of its own: the frames that were skipped may have lent it on.
    pub(crate) fn leak_locals(&self) {
        std::mem::forget(self.locals.take());
        self.traces.has_locals().set(false);
    }
}
