//! Which standard streams were open when the process began.
//!
//! Room: mechanism.
//!
//! The standard library opens `/dev/null` in place of a stream that is closed, before `main`: from then on output that goes nowhere looks as if it were written. So it is looked at before that.

use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

/// One bit for each of the streams 0 to 2 that was closed.
static CLOSED: AtomicU8 = AtomicU8::new(0);

// SAFETY: the system calls what this section has before `main`, on the only thread there is, as C functions. This one needs nothing of the standard library: it makes three system calls and sets a number.
#[used]
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;

extern "C" fn look() {
    for stream in 0..3 {
        // SAFETY: asks for the flags of a number; if it is no open file, it fails.
        if unsafe { libc::fcntl(stream, libc::F_GETFD) } == -1 {
            CLOSED.fetch_or(1 << stream, Relaxed);
        }
    }
}

/// Whether standard input (0), output (1) or error (2) was closed when the process began.
pub fn stream_was_closed(stream: i32) -> bool {
    (0..3).contains(&stream) && CLOSED.load(Relaxed) >> stream & 1 == 1
}
