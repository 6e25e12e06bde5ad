//! Resetting a signal disposition that a keeper may have inherited: SIGCHLD ignored.
//!
//! Room: mechanism.
//!
//! # Invariant
//! In a keeper an ended child stays a zombie until it is reaped.
//!
//! # Why it holds
//! If a process ignores SIGCHLD, the kernel discards its ended children together with their exit status. The disposition is inherited through exec,
//! so a client that was started by such a program passes it on. A keeper therefore sets the default before its first child.

/// Makes a write over the file size limit fail, instead of killing the process. For tests of a full disk.
#[cfg(test)]
pub(crate) fn ignore_file_size_signal() {
    // SAFETY: SIG_IGN is a valid disposition of SIGXFSZ, and this crate installs no handler for it.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}

/// Keeps ended children for [`reap`](super::reap). To be called before there are other threads or children.
pub(crate) fn keep_ended_children() {
    // SAFETY: SIG_DFL is a valid disposition of SIGCHLD, and no handler of ours is replaced: this crate installs none.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
}
