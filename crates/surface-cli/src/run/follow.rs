//! The output of a command, passed on as it is written to its log.
//!
//! # Invariant
//! When [`Following::finish`] returns, everything that was in the log has been passed on.
//!
//! # Why it holds
//! The thread reads to the end of the file after it was told that nothing more comes. Until then it waits in the kernel, for the
//! file to change or for that word: no polling.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::thread::JoinHandle;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};

/// A log that is being passed on.
pub(crate) struct Following {
    done: OwnedFd,
    thread: JoinHandle<()>,
}

/// Passes on to `to` what is written to `log`, which is made if it is not there, from its beginning.
pub(crate) fn follow(log: &Path, to: impl Write + Send + 'static) -> io::Result<Following> {
    let file = File::options().create(true).append(true).read(true).open(log)?;
    let watch = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
    inotify::add_watch(&watch, log, WatchFlags::MODIFY)?;
    let (is_done, done) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    let thread = std::thread::Builder::new()
        .name("bursar-follow".to_owned())
        .spawn(move || pass_on(file, to, &watch, &is_done))?;
    Ok(Following { done, thread })
}

impl Following {
    /// Nothing more comes: passes on the rest.
    pub(crate) fn finish(self) {
        drop(self.done); // the other end of the pipe sees it
        let _ = self.thread.join();
    }
}

fn pass_on(mut file: File, mut out: impl Write, watch: &OwnedFd, is_done: &OwnedFd) {
    let mut buffer = vec![0; 64 << 10];
    let mut over = false;
    loop {
        loop {
            match file.read(&mut buffer) {
                Ok(0) => break,
                // Who listens no longer loses nothing: the log has it.
                Ok(count) if out.write_all(&buffer[..count]).and_then(|()| out.flush()).is_err() => return,
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return,
            }
        }
        if over {
            return;
        }
        let mut ready = [PollFd::new(watch, PollFlags::IN), PollFd::new(is_done, PollFlags::IN)];
        if poll(&mut ready, None).is_err() {
            continue; // a signal
        }
        over = !ready[1].revents().is_empty();
        while rustix::io::read(watch.as_fd(), &mut buffer).is_ok_and(|count| count > 0) {}
    }
}
