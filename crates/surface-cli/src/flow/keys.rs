//! Keys of the terminal, handled as they are pressed.
//!
//! Room: driver.
//!
//! # Invariant
//! However the process ends, except by SIGKILL, the terminal is restored: [`Raw`] restores it when it is dropped, also by a panic.
//!
//! Only line mode and echo are switched off; Ctrl-C and Ctrl-Z stay signals.

use std::fs::File;
use std::io::{self, IsTerminal};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::thread::JoinHandle;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcgetpgrp, tcsetattr};

/// The action of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Key {
    /// Stop at once.
    Kill,
    /// Deliver messages on their way, and stop.
    Drain,
    /// Pause the sources, or resume them.
    Pause,
    Up,
    Down,
    /// Double the capacity of the chosen edge.
    Larger,
    /// Halve it.
    Smaller,
    /// Its next band.
    Band,
    Help,
}

/// Bytes of a terminal become keys.
#[derive(Debug, Default)]
pub(crate) struct Parser {
    escaped: Escaped,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Escaped {
    #[default]
    No,
    /// After ESC.
    Begun,
    /// After `ESC [` or `ESC O`.
    Sequence,
}

impl Parser {
    pub(crate) fn take(&mut self, byte: u8) -> Option<Key> {
        match (self.escaped, byte) {
            (_, 0x1b) => self.escaped = Escaped::Begun,
            (Escaped::Begun, b'[' | b'O') => self.escaped = Escaped::Sequence,
            (Escaped::Sequence, b'0'..=b'9' | b';') => {}
            (Escaped::Sequence, end) => {
                self.escaped = Escaped::No;
                return match end {
                    b'A' => Some(Key::Up),
                    b'B' => Some(Key::Down),
                    _ => None,
                };
            }
            // Alt and a letter, or ESC and then a letter: not the kill switch.
            (Escaped::Begun, _) => self.escaped = Escaped::No,
            (Escaped::No, byte) => {
                return Some(match byte {
                    b'k' | b'K' => Key::Kill,
                    b'q' | b'Q' => Key::Drain,
                    b' ' => Key::Pause,
                    b'+' | b'=' => Key::Larger,
                    b'-' | b'_' => Key::Smaller,
                    b'p' | b'P' => Key::Band,
                    b'?' | b'h' => Key::Help,
                    _ => return None,
                });
            }
        }
        None
    }
}

/// A terminal that gives keys as they are pressed.
#[derive(Debug)]
pub(crate) struct Raw {
    terminal: OwnedFd,
    before: Termios,
}

impl Raw {
    /// `None` if it is not a terminal, or not ours to change: we run in the background.
    fn begin(terminal: OwnedFd) -> io::Result<Option<Raw>> {
        if !terminal.is_terminal() {
            return Ok(None);
        }
        // If the terminal controls another session, or none, there is no foreground group to ask for.
        let is_behind = tcgetpgrp(&terminal).is_ok_and(|front| front != rustix::process::getpgrp());
        if is_behind {
            return Ok(None);
        }
        let raw = Raw { before: tcgetattr(&terminal)?, terminal };
        raw.again()?;
        Ok(Some(raw))
    }

    /// Switches line mode and echo off; again after the process was stopped and continued.
    ///
    /// # Errors
    /// If the terminal is gone.
    pub(crate) fn again(&self) -> io::Result<()> {
        let mut modes = self.before.clone();
        modes.local_modes -= LocalModes::ICANON | LocalModes::ECHO;
        modes.special_codes[SpecialCodeIndex::VMIN] = 1;
        modes.special_codes[SpecialCodeIndex::VTIME] = 0;
        Ok(tcsetattr(&self.terminal, OptionalActions::Now, &modes)?)
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        let _ = tcsetattr(&self.terminal, OptionalActions::Now, &self.before); // the terminal may be gone
    }
}

/// Where keys are read: stdin, or if that is not a terminal, the terminal of our session.
fn keyboard() -> io::Result<OwnedFd> {
    let stdin = io::stdin();
    if stdin.is_terminal() {
        return stdin.as_fd().try_clone_to_owned();
    }
    let tty = File::options().read(true).write(true).open("/dev/tty");
    // Without a terminal there are no keys, and stdin shows that, too.
    tty.map(OwnedFd::from).or_else(|_| stdin.as_fd().try_clone_to_owned())
}

/// Reads keys. Dropping it restores the terminal.
#[must_use = "dropping it stops reading keys"]
pub(crate) struct Keys {
    raw: Option<Arc<Raw>>,
    /// Closed, it ends the thread.
    wake: Option<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl Keys {
    /// Reports each key that is pressed from now on. `None` if there is no terminal.
    ///
    /// # Errors
    /// If the terminal cannot be changed.
    pub(crate) fn listen(report: impl Fn(Key) + Send + 'static) -> io::Result<Option<Keys>> {
        let keyboard = keyboard()?;
        let ours = keyboard.try_clone()?;
        let Some(raw) = Raw::begin(keyboard)? else { return Ok(None) };
        let (woken, wake) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
        let thread = std::thread::Builder::new().name("flow-keys".into()).spawn(move || read(&ours, &woken, report))?;
        Ok(Some(Keys { raw: Some(Arc::new(raw)), wake: Some(wake), thread: Some(thread) }))
    }

    /// The terminal, to switch its mode again.
    pub(crate) fn raw(&self) -> Option<std::sync::Weak<Raw>> {
        self.raw.as_ref().map(Arc::downgrade)
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        self.raw = None;
        self.wake = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn read(keyboard: &OwnedFd, woken: &OwnedFd, report: impl Fn(Key)) {
    let mut parser = Parser::default();
    loop {
        let mut ready = [PollFd::new(keyboard, PollFlags::IN), PollFd::new(woken, PollFlags::IN)];
        match poll(&mut ready, None) {
            Err(Errno::INTR) => continue,
            Err(_) => return,
            Ok(_) if !ready[1].revents().is_empty() => return,
            Ok(_) => {}
        }
        let mut bytes = [0; 64];
        match rustix::io::read(keyboard, &mut bytes) {
            Err(Errno::INTR) => {}
            Ok(0) | Err(_) => return,
            Ok(count) => bytes[..count].iter().filter_map(|byte| parser.take(*byte)).for_each(&report),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    use rustix::termios::{LocalModes, tcgetattr};

    use super::{Key, Parser, Raw};

    fn keys(bytes: &[u8]) -> Vec<Key> {
        let mut parser = Parser::default();
        bytes.iter().filter_map(|byte| parser.take(*byte)).collect()
    }

    #[test]
    fn keys_are_letters_signs_and_arrows() {
        assert_eq!(
            keys(b"kq +-p?"),
            [Key::Kill, Key::Drain, Key::Pause, Key::Larger, Key::Smaller, Key::Band, Key::Help]
        );
        assert_eq!(keys(b"\x1b[A\x1b[B\x1bOA\x1b[1;5B"), [Key::Up, Key::Down, Key::Up, Key::Down]);
    }

    #[test]
    fn no_other_key_stops_anything() {
        assert_eq!(keys(b"\x1b[C\x1b[3~\x1bkxyz\r\n\x1b"), []);
    }

    #[test]
    fn a_panic_puts_the_terminal_back() {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap();
        let slave = File::options().read(true).write(true).open(name.to_str().unwrap()).unwrap();
        let modes = || tcgetattr(&slave).unwrap().local_modes;
        let before = modes();
        assert!(before.contains(LocalModes::ICANON | LocalModes::ECHO));
        let broken = catch_unwind(AssertUnwindSafe(|| {
            let _raw = Raw::begin(slave.try_clone().unwrap().into()).unwrap().expect("it is a terminal");
            assert_eq!(modes(), before - (LocalModes::ICANON | LocalModes::ECHO));
            panic!("on purpose");
        }));
        assert!(broken.is_err());
        assert_eq!(modes(), before);
    }

    #[test]
    fn what_is_no_terminal_has_no_keys() {
        let file = File::open("/dev/null").unwrap();
        assert!(Raw::begin(file.into()).unwrap().is_none());
    }
}
