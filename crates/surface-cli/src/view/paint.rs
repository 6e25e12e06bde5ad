//! Colours, and the only code that writes to the terminal.
//!
//! Room: driver.
//!
//! # Invariant
//! A frame is overwritten by the next frame and by nothing else: lines above scroll away as if they had been printed.
//!
//! # Why it holds
//! [`Screen`] knows how many rows its last frame took, also if the terminal has become narrower since, goes up by as many, and clears
//! from there. A frame is one write, so nothing comes between.

use std::io::Write;

/// Colours, or none.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Paint(pub(crate) bool);

impl Paint {
    fn with(self, code: &str, text: &str) -> String {
        if self.0 { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }

    pub(crate) fn red(self, text: &str) -> String {
        self.with("31", text)
    }

    pub(crate) fn green(self, text: &str) -> String {
        self.with("32", text)
    }

    pub(crate) fn yellow(self, text: &str) -> String {
        self.with("33", text)
    }

    pub(crate) fn dim(self, text: &str) -> String {
        self.with("2", text)
    }
}

/// The part at the bottom of a terminal that is redrawn.
pub(crate) struct Screen<W> {
    out: W,
    last: Vec<String>,
    is_gone: bool,
}

impl<W: Write> Screen<W> {
    pub(crate) fn new(out: W) -> Screen<W> {
        Screen { out, last: Vec::new(), is_gone: false }
    }

    /// Prints `above`, then draws `frame` below it, over the last one. Does nothing if that changes nothing.
    pub(crate) fn draw(&mut self, above: &[String], frame: Vec<String>, width: usize) {
        if self.is_gone || (above.is_empty() && frame == self.last) {
            return;
        }
        let rows: usize = self.last.iter().map(|line| rows(line, width)).sum();
        let mut text = String::new();
        if rows > 0 {
            text.push_str(&format!("\r\x1b[{rows}A"));
        }
        text.push_str("\x1b[J");
        for line in above.iter().chain(&frame) {
            text.push_str(line);
            text.push('\n');
        }
        // A closed terminal must not end the run.
        self.is_gone = self.out.write_all(text.as_bytes()).and_then(|()| self.out.flush()).is_err();
        self.last = frame;
    }
}

/// Cuts lines to a width.
pub(crate) fn cut(lines: &mut [String], width: usize) {
    for line in lines {
        *line = console::truncate_str(line, width.max(1), "…").into_owned();
    }
}

fn rows(line: &str, width: usize) -> usize {
    console::measure_text_width(line).div_ceil(width.max(1)).max(1)
}

#[cfg(test)]
mod tests {
    use super::Screen;

    #[test]
    fn a_frame_is_drawn_over_the_last_and_only_if_it_differs() {
        let mut out = Vec::new();
        let mut screen = Screen::new(&mut out);
        screen.draw(&[], vec!["one".into(), "two".into()], 80);
        screen.draw(&[], vec!["one".into(), "two".into()], 80);
        screen.draw(&["said".into()], vec!["three".into()], 80);
        assert_eq!(String::from_utf8(out).unwrap(), "\x1b[Jone\ntwo\n\r\x1b[2A\x1b[Jsaid\nthree\n");
    }

    #[test]
    fn a_terminal_that_became_narrower_has_wrapped_the_last_frame() {
        let mut out = Vec::new();
        let mut screen = Screen::new(&mut out);
        screen.draw(&[], vec!["x".repeat(80)], 80);
        screen.draw(&[], vec!["y".into()], 30);
        assert!(String::from_utf8(out).unwrap().contains("\x1b[3A"), "80 columns are three rows of 30");
    }
}
