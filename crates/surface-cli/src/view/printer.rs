//! Messages, lines and frames of an active run or flow, from any thread.
//!
//! Room: driver.
//!
//! # Invariants
//! - What is printed is never torn by the live area, nor the area by it: one thread writes to the terminal.
//! - Everything that was printed before `finish` is shown when `finish` returns, in its order.
//!
//! # Why they hold
//! With a live area, lines go into one list, which the thread takes whole and prints above the next frame. If the list is long, callers
//! that print wait until it is taken. The thread reads `closing` under the lock of the list, so it takes what came before.

use std::io::{self, ErrorKind, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::Mode;
use super::paint::Screen;
use super::text::clean;
use crate::control::event::{Event, Subject};
use crate::exit::say;
use crate::streams::{Blocking, stdout};

/// Lines that may wait to be printed above the live area.
const LINES_MAX: usize = 4096;
/// A terminal that takes nothing for this long is given up.
const WRITE_TIMEOUT: Duration = Duration::from_secs(5);

/// What the user selected, and a note beside the counters.
#[derive(Debug, Clone, Default)]
pub(crate) struct Shown {
    /// The row that keys are about, if there are keys.
    pub(crate) selected: Option<usize>,
    pub(crate) shows_keys: bool,
    /// A note about the whole: draining, paused.
    pub(crate) note: Option<String>,
    /// The shell has written below the last frame: the next one is drawn where the cursor is.
    pub(crate) is_moved: bool,
}

#[derive(Debug, Default)]
struct PrinterState {
    /// Lines to print above the frame.
    above: Vec<String>,
    /// Messages for programs, and their times: written by the thread that watches, since a reader may be slow.
    messages: Vec<(Duration, String)>,
    shown: Shown,
    needs_redraw: bool,
    is_closing: bool,
    /// The thread is gone: lines are not taken any more.
    is_gone: bool,
}

#[derive(Default)]
struct Shared {
    state: Mutex<PrinterState>,
    /// Notified when something is to be drawn now, and when lines were taken.
    changed: Condvar,
    /// Why a line could not be written to standard output; after that none is.
    cut: Mutex<Option<io::Error>>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, PrinterState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn cut(&self) -> MutexGuard<'_, Option<io::Error>> {
        self.cut.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Prints messages and changes what is shown, from any thread.
#[derive(Clone)]
pub(crate) struct Printer {
    shared: Arc<Shared>,
    pub(super) mode: Mode,
    of: Arc<Subject>,
    began: Instant,
}

impl Printer {
    pub(crate) fn new(mode: Mode, of: Subject) -> Printer {
        Printer { shared: Arc::default(), mode, of: Arc::new(of), began: Instant::now() }
    }

    /// The id of the run or flow.
    pub(super) fn id(&self) -> &str {
        self.of.id()
    }

    /// Prints one message: above the frame, as an event, or on stderr. Does not wait for a reader.
    pub(crate) fn say(&self, line: &str) {
        let mut state = self.shared.lock();
        match self.mode {
            Mode::Live if !state.is_closing => state.above.push(format!("bursar: {}", clean(line))),
            Mode::Json if !state.is_closing => {
                state.messages.push((self.began.elapsed(), line.to_owned()));
                state.needs_redraw = true;
                self.shared.changed.notify_all();
            }
            _ => {
                drop(state);
                say!("bursar: {line}");
            }
        }
    }

    /// Emits messages as events.
    pub(super) fn emit_messages(&self) {
        let messages = std::mem::take(&mut self.shared.lock().messages);
        for (at, text) in messages {
            let _ = self.emit(Event { text: Some(&text), ..Event::new(at, "said") }); // reported at the end
        }
    }

    /// Lines above the frame, as they are.
    pub(super) fn show(&self, lines: impl IntoIterator<Item = String>) {
        self.shared.lock().above.extend(lines);
    }

    /// What a node prints.
    ///
    /// # Errors
    /// If the line cannot be written.
    pub(crate) fn print(&self, text: &str) -> io::Result<()> {
        match self.mode {
            Mode::Live => self.print_above(text),
            Mode::Json => text.lines().try_for_each(|line| {
                self.emit(Event { text: Some(line), ..Event::new(self.began.elapsed(), "printed") })
            }),
            Mode::Plain | Mode::Quiet => {
                let mut out = stdout().lock();
                out.write_all(text.as_bytes())?;
                out.flush()
            }
        }
    }

    fn print_above(&self, text: &str) -> io::Result<()> {
        let mut state = self.shared.lock();
        let until = Instant::now() + WRITE_TIMEOUT;
        while state.above.len() >= LINES_MAX && !state.is_gone {
            state.needs_redraw = true;
            self.shared.changed.notify_all();
            let left = until.saturating_duration_since(Instant::now());
            state = self.shared.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
            if left.is_zero() {
                return Err(io::Error::new(ErrorKind::TimedOut, "the terminal does not take lines"));
            }
        }
        if state.is_gone {
            return Err(ErrorKind::BrokenPipe.into());
        }
        state.above.extend(text.lines().map(clean));
        Ok(())
    }

    /// An event for programs.
    ///
    /// # Errors
    /// As [`line`](Self::line).
    pub(super) fn emit(&self, event: Event<'_>) -> io::Result<()> {
        self.line(&Event { of: Some(&self.of), ..event }.json())
    }

    /// A line on standard output. After one that could not be written none is: the reader may be gone, and a list with holes is worse than one that ends.
    ///
    /// # Errors
    /// If it is not written.
    pub(super) fn line(&self, line: &str) -> io::Result<()> {
        let same = |error: &io::Error| error.raw_os_error().map_or(error.kind().into(), io::Error::from_raw_os_error);
        let mut cut = self.shared.cut();
        if let Some(error) = &*cut {
            return Err(same(error));
        }
        let mut out = stdout().lock();
        writeln!(out, "{line}").and_then(|()| out.flush()).inspect_err(|error| *cut = Some(same(error)))
    }

    /// Changes what is shown, and shows it now.
    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut Shown) -> T) -> T {
        let mut state = self.shared.lock();
        let changed = change(&mut state.shown);
        state.needs_redraw = true;
        self.shared.changed.notify_all();
        changed
    }

    pub(super) fn is_closing(&self) -> bool {
        self.shared.lock().is_closing
    }

    /// Whether lines wait to be printed above the frame.
    pub(super) fn has_lines(&self) -> bool {
        !self.shared.lock().above.is_empty()
    }

    /// Waits until something is to be done. True: the end.
    pub(super) fn wait(&self, pause: Duration) -> bool {
        let is_calm = |state: &mut PrinterState| !state.is_closing && !state.needs_redraw;
        let rested = self.shared.changed.wait_timeout_while(self.shared.lock(), pause, is_calm);
        let mut state = rested.unwrap_or_else(PoisonError::into_inner).0;
        state.needs_redraw = false;
        state.is_closing
    }

    /// Prints the lines that wait, and draws a frame below, for the given width and height.
    pub(super) fn draw(
        &self,
        screen: &mut Screen<Blocking<io::Stdout>>,
        frame: impl FnOnce(Shown, usize, usize) -> Vec<String>,
    ) {
        let (height, columns) = console::Term::stdout().size();
        let (width, height) = (columns.saturating_sub(1).max(20).into(), height.saturating_sub(1).max(2).into());
        let (above, shown) = {
            let mut state = self.shared.lock();
            if std::mem::take(&mut state.shown.is_moved) {
                *screen = Screen::new(stdout());
            }
            (std::mem::take(&mut state.above), state.shown.clone())
        };
        self.shared.changed.notify_all(); // a caller may wait for room
        screen.draw(&above, frame(shown, width, height), columns.into());
    }
}

/// An active display, until `finish` is called with the result.
#[must_use = "dropping it ends the display"]
pub(crate) struct Display<E> {
    printer: Printer,
    ended: Arc<Mutex<Option<E>>>,
    thread: Option<JoinHandle<()>>,
}

/// When the thread is gone, also by a panic, no caller waits for it.
struct GoneGuard(Printer);

impl Drop for GoneGuard {
    fn drop(&mut self) {
        self.0.shared.lock().is_gone = true;
        self.0.shared.changed.notify_all();
    }
}

impl<E: Send + 'static> Display<E> {
    /// Starts a thread that runs `watch` until the printer is closing; `watch` may then ask for the result.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub(super) fn start(
        printer: &Printer,
        watch: impl FnOnce(&dyn Fn() -> Option<E>) + Send + 'static,
    ) -> io::Result<Display<E>> {
        let ended = Arc::<Mutex<Option<E>>>::default();
        let (taken, gone) = (Arc::clone(&ended), GoneGuard(printer.clone()));
        let thread = std::thread::Builder::new().name("view".into()).spawn(move || {
            let _gone = gone;
            watch(&|| taken.lock().unwrap_or_else(PoisonError::into_inner).take());
        })?;
        Ok(Display { printer: printer.clone(), ended, thread: Some(thread) })
    }
}

impl<E> Display<E> {
    /// The printer, for other threads.
    pub(crate) fn printer(&self) -> Printer {
        self.printer.clone()
    }

    /// Shows the end, and returns when everything has been shown. Gives the reason if events that a program reads could not be written.
    pub(crate) fn finish(self, ended: E) -> Option<io::Error> {
        let printer = self.printer.clone();
        *self.ended.lock().unwrap_or_else(PoisonError::into_inner) = Some(ended);
        drop(self);
        // The reader may have closed the pipe.
        let unwritten = printer.shared.cut().take().filter(|error| error.kind() != ErrorKind::BrokenPipe);
        unwritten.filter(|_| printer.mode == Mode::Json)
    }
}

impl<E> Drop for Display<E> {
    fn drop(&mut self) {
        self.printer.shared.lock().is_closing = true;
        self.printer.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // its panic has been printed
        }
    }
}
