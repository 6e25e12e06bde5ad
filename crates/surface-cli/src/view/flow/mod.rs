//! The display of an active flow.
//!
//! Room: surface.
//!
//! [`rates`] computes rates, [`frame`] draws the live area, [`lines`] writes lines for everything else: all pure. [`watch`] feeds them.

mod frame;
mod lines;
mod links;
mod rates;
#[cfg(test)]
mod tests;
mod watch;

use bursar::flow::Handle;

pub(crate) use self::frame::{FrameContext, frame};
pub(crate) use self::lines::Ended;
pub(crate) use self::links::lines as links;
pub(crate) use self::rates::Rates;
use self::watch::Watcher;
use super::printer::{Display, Printer};

/// Begins to show a flow.
///
/// # Errors
/// If the thread cannot be started.
pub(crate) fn start(handle: Handle, printer: &Printer) -> std::io::Result<Display<Ended>> {
    let watcher = Watcher::new(handle, printer.clone());
    watcher.open(); // here, so that nothing is printed before it
    Display::start(printer, move |ended| watcher.watch(ended))
}
