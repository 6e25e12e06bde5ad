//! What a person, a file or a program sees of a flow while it goes on.
//!
//! Room: surface. Looks and prints; the flow is held up only by a reader of its output who does not read, as any program is.
//!
//! # Invariants
//! - What nodes print is never torn by the live area, nor the area by them: one thread writes to the terminal.
//! - Everything that was printed or said before `finish` is shown when `finish` returns, in its order.
//!
//! # Why they hold
//! With a live area, lines go into one list, which the thread takes whole and prints above the next frame. A list that has grown long keeps
//! those who print waiting until it is taken. The thread sees `closing` under the lock of the list, so it takes what came before.
//!
//! [`rates`] says how fast, [`frame`] is the live area, [`tell`] the lines for everything else: all pure. [`watch`] feeds them.

pub(crate) mod frame;
pub(crate) mod rates;
pub(crate) mod table;
pub(crate) mod tell;
#[cfg(test)]
mod tests;
mod watch;
pub(crate) mod words;

use std::io::{self, IsTerminal, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bursar::flow::Handle;

use self::tell::{Ended, Told};
use self::watch::Watcher;

/// Lines that may wait to be printed above the live area.
const LINES_MAX: usize = 4096;
/// A terminal that takes nothing for so long is given up on.
const STUCK: Duration = Duration::from_secs(5);

/// How a flow is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// A terminal, drawn again and again.
    Live,
    /// What nodes print goes to stdout, lines about the flow to stderr.
    Plain,
    /// An object for each event; see [`tell`].
    Json,
}

impl Mode {
    /// What was asked for, else what suits where the output goes.
    pub(crate) fn choose(json: bool, plain: bool) -> Mode {
        let can_draw = io::stdout().is_terminal() && std::env::var_os("TERM").is_none_or(|term| term != "dumb");
        match (json, plain) {
            (true, _) => Mode::Json,
            (_, true) => Mode::Plain,
            _ if can_draw => Mode::Live,
            _ => Mode::Plain,
        }
    }
}

/// What is printed and chosen while a flow goes on.
#[derive(Debug, Default)]
pub(crate) struct Desktop {
    /// Lines to print above the frame.
    above: Vec<String>,
    /// The edge that keys are about, if there are keys.
    pub(crate) selected: Option<usize>,
    pub(crate) shows_keys: bool,
    /// A word about the whole: draining, paused.
    pub(crate) note: Option<String>,
    /// The shell has written below the last frame: the next one is drawn where the cursor is.
    pub(crate) is_moved: bool,
    is_urgent: bool,
    is_closing: bool,
    /// Nobody takes lines any more.
    is_gone: bool,
}

#[derive(Default)]
struct Shared {
    desktop: Mutex<Desktop>,
    /// Rings when something is to be drawn now, and when lines were taken.
    rings: Condvar,
    /// Why events that a program reads could not be written.
    unwritten: Mutex<Option<io::Error>>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Desktop> {
        self.desktop.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A way to say something to whoever watches, and to change what is shown, from any thread.
#[derive(Clone)]
pub(crate) struct Voice {
    shared: Arc<Shared>,
    mode: Mode,
    began: Instant,
}

impl Voice {
    pub(crate) fn new(mode: Mode) -> Voice {
        Voice { shared: Arc::default(), mode, began: Instant::now() }
    }

    /// Says one line about the flow: above what is drawn, or on stderr if nothing is.
    pub(crate) fn say(&self, line: &str) {
        match self.mode {
            Mode::Live => {
                let mut desktop = self.shared.lock();
                if !desktop.is_closing {
                    desktop.above.push(format!("bursar: {}", crate::view::text::clean(line)));
                    return;
                }
                drop(desktop);
                let _ = writeln!(io::stderr(), "bursar: {line}"); // nobody may be there to read it
            }
            Mode::Json => {
                let _ = self.tell(|told| told.text = Some(line), "said");
            }
            Mode::Plain => {
                let _ = writeln!(io::stderr(), "bursar: {line}");
            }
        }
    }

    /// What a node prints.
    ///
    /// # Errors
    /// If nobody takes it.
    pub(crate) fn print(&self, text: &str) -> io::Result<()> {
        match self.mode {
            Mode::Live => self.print_above(text),
            Mode::Json => text.lines().try_for_each(|line| self.tell(|told| told.text = Some(line), "printed")),
            Mode::Plain => {
                let mut out = io::stdout().lock();
                out.write_all(text.as_bytes())?;
                out.flush()
            }
        }
    }

    fn print_above(&self, text: &str) -> io::Result<()> {
        let mut desktop = self.shared.lock();
        let until = Instant::now() + STUCK;
        while desktop.above.len() >= LINES_MAX && !desktop.is_gone {
            desktop.is_urgent = true;
            self.shared.rings.notify_all();
            let left = until.saturating_duration_since(Instant::now());
            desktop = self.shared.rings.wait_timeout(desktop, left).unwrap_or_else(PoisonError::into_inner).0;
            if left.is_zero() {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "the terminal takes no lines"));
            }
        }
        if desktop.is_gone {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        desktop.above.extend(text.lines().map(crate::view::text::clean));
        Ok(())
    }

    fn tell<'a>(&self, fill: impl FnOnce(&mut Told<'a>), event: &'static str) -> io::Result<()> {
        let mut told = Told::new(self.began.elapsed(), event);
        fill(&mut told);
        self.write(&told)
    }

    fn write(&self, told: &Told<'_>) -> io::Result<()> {
        let mut out = io::stdout().lock();
        writeln!(out, "{}", told.json()).and_then(|()| out.flush()).inspect_err(|error| {
            // Whoever read it may have had enough.
            if error.kind() != io::ErrorKind::BrokenPipe {
                let same = error.raw_os_error().map_or_else(|| error.kind().into(), io::Error::from_raw_os_error);
                *self.shared.unwritten.lock().unwrap_or_else(PoisonError::into_inner) = Some(same);
            }
        })
    }

    /// Changes what is shown, and shows it now.
    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut Desktop) -> T) -> T {
        let mut desktop = self.shared.lock();
        let changed = change(&mut desktop);
        desktop.is_urgent = true;
        self.shared.rings.notify_all();
        changed
    }
}

/// A display that is on.
#[must_use = "a display that is dropped goes off"]
pub(crate) struct View {
    shared: Arc<Shared>,
    ended: Arc<Mutex<Option<Ended>>>,
    thread: Option<JoinHandle<()>>,
}

/// Begins to show the flow `id`.
///
/// # Errors
/// If there is no thread to be had.
pub(crate) fn start(id: &str, handle: Handle, voice: &Voice) -> io::Result<View> {
    let shared = Arc::clone(&voice.shared);
    let ended = Arc::<Mutex<Option<Ended>>>::default();
    let watcher = Watcher::new(id.to_owned(), handle, voice.clone(), Arc::clone(&ended));
    watcher.open(); // here, so that nothing is told before it
    let thread = std::thread::Builder::new().name("flow-view".into()).spawn(move || watcher.watch())?;
    Ok(View { shared, ended, thread: Some(thread) })
}

impl View {
    /// Shows the end, and returns when everything has been shown. Gives the reason if events that a program reads could not be written.
    pub(crate) fn finish(self, ended: Ended) -> Option<io::Error> {
        let shared = Arc::clone(&self.shared);
        *self.ended.lock().unwrap_or_else(PoisonError::into_inner) = Some(ended);
        drop(self);
        shared.unwritten.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Drop for View {
    fn drop(&mut self) {
        self.shared.lock().is_closing = true;
        self.shared.rings.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // its panic has been printed
        }
    }
}
