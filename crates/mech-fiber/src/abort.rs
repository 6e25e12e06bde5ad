//! Ends the process with one line that names the fiber that ran out of stack.
//!
//! Room: mechanism. Knows how to write from a signal handler, without allocating or locking; knows nothing of tasks.

use std::fmt::{self, Write};

use crate::header::Header;

/// A text of bounded length that needs no allocator; what does not fit is cut off.
pub(crate) struct Line {
    bytes: [u8; 1024],
    length: usize,
}

impl Line {
    pub(crate) fn new() -> Self {
        Self { bytes: [0; 1024], length: 0 }
    }

    fn text(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

impl Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = &mut self.bytes[self.length..];
        let length = text.len().min(room.len());
        room[..length].copy_from_slice(&text.as_bytes()[..length]);
        self.length += length;
        Ok(())
    }
}

/// Ends the process with one line that names the fiber that ran out of stack. Allocates nothing: it runs in a
/// signal handler.
#[cold]
pub(crate) fn abort(header: &Header, instruction: usize, who: Line, reason: &str) -> ! {
    let mut line = Line::new();
    let bytes = header.stack_bytes();
    let _ = line.write_str("\nbursar: ");
    let _ = match str::from_utf8(who.text()) {
        Ok("") | Err(_) => write!(line, "the fiber on stack {}", header.index),
        Ok(who) => line.write_str(who),
    };
    let _ = writeln!(
        line,
        " overflowed its stack (`stack_bytes` = {bytes}, instruction {instruction:#x}); the process \
         ends because {reason}; raise `stack_bytes` or bound the recursion"
    );
    // SAFETY: async-signal-safe calls; the buffer is alive.
    unsafe {
        libc::write(2, line.bytes.as_ptr().cast(), line.length);
        libc::abort()
    }
}
