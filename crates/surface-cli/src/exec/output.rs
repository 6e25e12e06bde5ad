//! The output of a program.
//!
//! Room: driver.
//!
//! # Invariant
//! A line is written whole; after one that could not be written none is.

use std::io::{IsTerminal, Write};
use std::sync::{Mutex, PoisonError};

use crate::streams::{stderr, stdout};

/// Where the lines of a program go.
pub(super) struct Output {
    to_stderr: bool,
    /// A program that is not trusted must not command the terminal.
    is_cleaned: bool,
    failure: Mutex<Option<std::io::Error>>,
}

impl Output {
    pub(super) fn new(to_stderr: bool) -> Output {
        let is_terminal = if to_stderr { std::io::stderr().is_terminal() } else { std::io::stdout().is_terminal() };
        Output { to_stderr, is_cleaned: is_terminal, failure: Mutex::default() }
    }

    /// False if it could not be written; nothing is written after that.
    pub(super) fn line(&self, text: &str) -> bool {
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        if failure.is_some() {
            return false;
        }
        let mut line = if self.is_cleaned { surface_text::clean_lines(text).into_owned() } else { text.to_owned() };
        line.push('\n');
        let written = match self.to_stderr {
            true => stderr().lock().write_all(line.as_bytes()),
            false => stdout().lock().write_all(line.as_bytes()),
        };
        *failure = written.err();
        failure.is_none()
    }

    /// Why a line could not be written, if one could not.
    pub(super) fn failed(&self) -> Option<std::io::Error> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}
