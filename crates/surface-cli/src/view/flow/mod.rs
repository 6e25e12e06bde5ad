//! A flow while it goes on.
//!
//! [`rates`] says how fast, [`frame`] is the live area, [`tell`] the lines for everything else: all pure. [`watch`] feeds them.

mod frame;
mod rates;
mod tell;
#[cfg(test)]
mod tests;
mod watch;

use bursar::flow::Handle;

pub(crate) use self::frame::{Around, frame};
pub(crate) use self::rates::Rates;
pub(crate) use self::tell::Ended;
use self::watch::Watcher;
use super::voice::{Display, Voice};

/// Begins to show a flow.
///
/// # Errors
/// If there is no thread to be had.
pub(crate) fn start(handle: Handle, voice: &Voice) -> std::io::Result<Display<Ended>> {
    let watcher = Watcher::new(handle, voice.clone());
    watcher.open(); // here, so that nothing is told before it
    Display::start(voice, move |ended| watcher.watch(ended))
}
