//! What is on a terminal, frame by frame: as much of a terminal as the live display uses.

use std::time::Duration;

/// How a character looks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Style {
    pub(super) is_bold: bool,
    pub(super) is_dim: bool,
    /// 1 red, 2 green, 3 yellow, 4 blue, 5 magenta, 6 cyan.
    pub(super) colour: Option<u8>,
}

/// Characters side by side that look the same.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Run {
    pub(super) style: Style,
    pub(super) text: String,
}

type Line = Vec<Run>;

/// The screen from one moment on.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Frame {
    pub(super) at: Duration,
    pub(super) lines: Vec<Line>,
}

impl Frame {
    pub(super) fn text(&self) -> String {
        let line = |line: &Line| line.iter().map(|run| run.text.as_str()).collect::<String>();
        self.lines.iter().map(line).collect::<Vec<_>>().join("\n")
    }

    /// The text without numbers, units and bars: frames of one shape show the same moment of a run.
    fn shape(&self) -> String {
        let is_amount = |word: &str| {
            ["µs", "ms", "s", "MB", "GB"].contains(&word)
                || word.chars().all(|c| c.is_ascii_digit() || "./~█░".contains(c))
        };
        let words = |line: &str| line.split_whitespace().filter(|word| !is_amount(word)).collect::<Vec<_>>().join(" ");
        self.text().lines().map(words).collect::<Vec<_>>().join("\n")
    }
}

/// The frames of what a program wrote, piece by piece. A frame ends where the next one begins to draw over it.
pub(super) fn frames(written: &[(Duration, String)]) -> Vec<Frame> {
    let mut screen = Screen::default();
    let mut frames: Vec<Frame> = Vec::new();
    let mut begun = Duration::ZERO;
    for (at, text) in written {
        let mut rest = text.chars();
        while let Some(c) = rest.next() {
            if c != '\x1b' {
                if !screen.is_drawing {
                    (screen.is_drawing, begun) = (true, *at);
                }
                screen.put(c);
                continue;
            }
            let code: String = code(&mut rest);
            if code.ends_with(['A', 'J']) && screen.is_drawing {
                frames.push(Frame { at: begun, lines: screen.lines.clone() });
                screen.is_drawing = false;
            }
            screen.control(&code);
        }
    }
    frames.push(Frame { at: begun, lines: screen.lines });
    frames
}

/// What is shown for less is chance: two jobs that end together end one after the other.
const PASSING: Duration = Duration::from_millis(250);

/// One frame of each shape, in order: a display that only counts on is one frame, and a passing one is none.
pub(super) fn distinct(frames: Vec<Frame>) -> Vec<Frame> {
    let merged = merge(frames);
    let ends: Vec<Option<Duration>> = merged.iter().skip(1).map(|next| Some(next.at)).chain([None]).collect();
    let stays = |(frame, end): (Frame, Option<Duration>)| {
        let is_passing = end.is_some_and(|end| end.saturating_sub(frame.at) < PASSING);
        (!is_passing).then_some(frame)
    };
    merge(merged.into_iter().zip(ends).filter_map(stays).collect())
}

/// Frames of one shape in a row become one, which begins as the first and shows what the last does.
fn merge(frames: Vec<Frame>) -> Vec<Frame> {
    let mut kept: Vec<Frame> = Vec::new();
    for frame in frames.into_iter().filter(|frame| !frame.lines.is_empty()) {
        match kept.last_mut() {
            Some(last) if last.shape() == frame.shape() => last.lines = frame.lines,
            _ => kept.push(frame),
        }
    }
    kept
}

/// `[2A`, without its escape character.
fn code(rest: &mut std::str::Chars<'_>) -> String {
    let mut code = String::new();
    for c in rest.by_ref() {
        code.push(c);
        if c.is_ascii_alphabetic() {
            break;
        }
    }
    code
}

#[derive(Default)]
struct Screen {
    lines: Vec<Line>,
    row: usize,
    style: Style,
    /// Something was written since the last frame ended.
    is_drawing: bool,
}

impl Screen {
    fn put(&mut self, c: char) {
        match c {
            '\r' => {}
            '\n' => self.row += 1,
            c => {
                if self.lines.len() <= self.row {
                    self.lines.resize(self.row + 1, Line::new());
                }
                let line = &mut self.lines[self.row];
                match line.last_mut() {
                    Some(run) if run.style == self.style => run.text.push(c),
                    _ => line.push(Run { style: self.style, text: c.into() }),
                }
            }
        }
    }

    fn control(&mut self, code: &str) {
        let numbers = code.trim_matches(|c: char| !c.is_ascii_digit() && c != ';');
        match code.chars().last() {
            Some('A') => self.row = self.row.saturating_sub(numbers.parse().unwrap_or(1)),
            Some('J') => self.lines.truncate(self.row),
            Some('m') => numbers.split(';').for_each(|number| self.look(number.parse().unwrap_or(0))),
            _ => {}
        }
    }

    fn look(&mut self, number: u8) {
        match number {
            0 => self.style = Style::default(),
            1 => self.style.is_bold = true,
            2 => self.style.is_dim = true,
            31..=36 => self.style.colour = Some(number - 30),
            39 => self.style.colour = None,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(pieces: &[(u64, &str)]) -> Vec<(Duration, String)> {
        pieces.iter().map(|(ms, text)| (Duration::from_millis(*ms), (*text).to_owned())).collect()
    }

    #[test]
    fn a_frame_ends_where_the_next_draws_over_it() {
        let frames = frames(&written(&[
            (0, "\x1b[J one\r\n two 1 s\r\n"),
            (500, "\r\x1b[2A\x1b[Jsaid\r\n o"), // in two pieces
            (501, "ne\r\n two 2 s\r\n"),
        ]));
        let texts: Vec<_> = frames.iter().map(|frame| (frame.at.as_millis(), frame.text())).collect();
        assert_eq!(texts, [(0, " one\n two 1 s".to_owned()), (500, "said\n one\n two 2 s".to_owned())]);
    }

    #[test]
    fn frames_that_only_count_on_are_one_with_the_last_numbers() {
        let frames = distinct(frames(&written(&[
            (0, "\x1b[Ja ░ 1 ms\n"),
            (500, "\x1b[1A\x1b[Ja █ 20.5 s\n"),
            (900, "\x1b[1A\x1b[Jb\n"),
        ])));
        let texts: Vec<_> = frames.iter().map(|frame| (frame.at.as_millis(), frame.text())).collect();
        assert_eq!(texts, [(0, "a █ 20.5 s".to_owned()), (900, "b".to_owned())]);
    }

    #[test]
    fn a_frame_that_passes_quickly_is_left_out() {
        let pieces =
            [(0, "\x1b[Ja\n"), (500, "\x1b[1A\x1b[Jb\n"), (600, "\x1b[1A\x1b[Ja\n"), (900, "\x1b[1A\x1b[Jc\n")];
        let frames = distinct(frames(&written(&pieces)));
        let texts: Vec<_> = frames.iter().map(|frame| (frame.at.as_millis(), frame.text())).collect();
        assert_eq!(texts, [(0, "a".to_owned()), (900, "c".to_owned())]);
    }

    #[test]
    fn colours_begin_and_end() {
        let frames = frames(&written(&[(0, "\x1b[Ja\x1b[31mb\x1b[0mc\x1b[2;1md\x1b[0m\n")]));
        let red = Style { colour: Some(1), ..Style::default() };
        let faint = Style { is_bold: true, is_dim: true, colour: None };
        let styles: Vec<_> = frames[0].lines[0].iter().map(|run| (run.text.as_str(), run.style)).collect();
        assert_eq!(styles, [("a", Style::default()), ("b", red), ("c", Style::default()), ("d", faint)]);
    }
}
