//! Undoing what a client may have inherited: children that nobody may wait for.
//!
//! Room: mechanism. Knows one signal.
//!
//! # Invariant
//! In a keeper a child that has ended waits to be reaped.
//!
//! # Why it holds
//! The kernel throws away the children of a process that ignores SIGCHLD, and with them how they ended. That is inherited through exec,
//! so a client started by such a program hands it on. A keeper therefore asks for the default before its first child.

/// A write over the size a file may have fails, and does not end the process. For tests of a full disk.
#[cfg(test)]
pub(crate) fn ignore_file_size_signal() {
    // SAFETY: SIG_IGN is a valid disposition of SIGXFSZ, and this crate installs no handler for it.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}

/// Makes ended children wait for [`reap`](super::reap). To be called before there are other threads or children.
pub(crate) fn keep_ended_children() {
    // SAFETY: SIG_DFL is a valid disposition of SIGCHLD, and no handler of ours is replaced: this crate installs none.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
}
