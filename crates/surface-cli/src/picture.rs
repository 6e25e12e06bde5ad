//! Where a picture is written: to a file, or to standard output.
//!
//! Room: surface.

use std::path::{Path, PathBuf};

use clap::Args;

use crate::exit::{Exit, Failure};
use crate::out::print;

/// The format of a picture, and its output file.
#[derive(Debug, Clone, Args)]
pub(crate) struct Picture {
    /// For Graphviz: `… --dot | dot -Tpdf` [the default]
    #[arg(long, group = "kind")]
    dot: bool,
    /// For a browser
    #[arg(long, group = "kind")]
    svg: bool,
    /// For a terminal
    #[arg(long, group = "kind")]
    text: bool,
    /// Output file; `x.svg` and `x.txt` also choose the format
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

impl Picture {
    /// Draws it in the chosen format, and writes it.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(crate) fn draw(
        &self,
        dot: impl FnOnce() -> String,
        svg: impl FnOnce() -> String,
        text: impl FnOnce() -> String,
    ) -> Result<Exit, Failure> {
        let ending = self.output.as_ref().and_then(|path| path.extension()).and_then(|ending| ending.to_str());
        let said = self.dot || self.svg || self.text;
        let picture = match ending {
            _ if self.svg => svg(),
            _ if self.text => text(),
            Some("svg") if !said => svg(),
            Some("txt") if !said => text(),
            _ => dot(),
        };
        deliver(&picture, self.output.as_deref())?;
        Ok(Exit::Success)
    }
}

/// Writes a file, or prints.
///
/// # Errors
/// If it cannot be written.
pub(crate) fn deliver(text: &str, to: Option<&Path>) -> Result<(), Failure> {
    match to {
        Some(path) if path != Path::new("-") => std::fs::write(path, text).map_err(|error| {
            Failure::broken(format!("cannot write {}: {error}; name a file in a folder that is there", path.display()))
        }),
        _ => print(text),
    }
}
