//! A row of the comparison: the figures, the bar, the verdict.

use std::borrow::Cow;
use std::fmt::Write;

/// What a row must reach.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bar {
    /// Ours is at most this many times theirs.
    Times(f64),
    /// Ours is at most theirs divided by this.
    Part(u32),
    /// Theirs is a fixed limit, and ours does not pass it.
    AtMost,
    /// Theirs is a fixed limit, and ours stays below it.
    Below,
    /// Theirs is a fixed limit, and ours reaches it.
    AtLeast,
    /// None: the row is for orientation.
    Open,
}

/// One comparison.
#[derive(Clone, Debug)]
pub struct Row {
    workload: &'static str,
    peer: Cow<'static, str>,
    ours: f64,
    theirs: f64,
    unit: &'static str,
    bar: Bar,
}

/// The peer of a row that compares with a fixed limit.
pub const LIMIT: &str = "bar";

impl Row {
    pub fn new(
        workload: &'static str,
        peer: impl Into<Cow<'static, str>>,
        [ours, theirs]: [f64; 2],
        unit: &'static str,
        bar: Bar,
    ) -> Self {
        Self { workload, peer: peer.into(), ours, theirs, unit, bar }
    }

    /// How many times theirs ours is. Nothing is 0 times anything, even a limit of nothing.
    pub fn ratio(&self) -> f64 {
        if self.ours == 0.0 { 0.0 } else { self.ours / self.theirs }
    }

    /// Whether the bar is met; `None` if there is none.
    pub fn met(&self) -> Option<bool> {
        match self.bar {
            Bar::Times(times) => Some(self.ours <= self.theirs * times),
            Bar::Part(part) => Some(self.ours <= self.theirs / f64::from(part)),
            Bar::AtMost => Some(self.ours <= self.theirs),
            Bar::Below => Some(self.ours < self.theirs),
            Bar::AtLeast => Some(self.ours >= self.theirs),
            Bar::Open => None,
        }
    }

    /// The row as one line of JSON. Names and units hold neither quotes nor backslashes, as
    /// `workloads::tests::names_need_no_escape` checks for names; units are literals.
    pub fn json(&self) -> String {
        format!(
            r#"{{"workload":"{}","peer":"{}","ours":{},"theirs":{},"unit":"{}","ratio":{}}}"#,
            self.workload,
            self.peer,
            rounded(self.ours),
            rounded(self.theirs),
            self.unit,
            rounded(self.ratio()),
        )
    }

    fn cells(&self) -> [String; 8] {
        let verdict = match self.met() {
            Some(true) => "met",
            Some(false) => "NOT MET",
            None => "",
        };
        [
            self.workload.to_owned(),
            self.peer.to_string(),
            figure(self.ours),
            figure(self.theirs),
            self.unit.to_owned(),
            format!("{:.3}", self.ratio()),
            self.bar_text(),
            verdict.to_owned(),
        ]
    }

    fn bar_text(&self) -> String {
        match self.bar {
            // Two digits where one would say something else.
            Bar::Times(times) if (times * 10.0 - (times * 10.0).round()).abs() > 0.01 => format!("≤ {times:.2} ×"),
            Bar::Times(times) => format!("≤ {times:.1} ×"),
            Bar::Part(part) => format!("≤ 1/{part}"),
            Bar::AtMost => format!("≤ {}", self.theirs),
            Bar::Below => format!("< {}", self.theirs),
            Bar::AtLeast => format!("≥ {}", self.theirs),
            Bar::Open => String::new(),
        }
    }
}

/// JSON has no infinity, and the 17th digit is noise.
fn rounded(value: f64) -> f64 {
    if value.is_finite() { (value * 1e4).round() / 1e4 } else { -1.0 }
}

/// Three digits that mean something.
fn figure(value: f64) -> String {
    match value {
        value if value >= 99.95 => format!("{value:.0}"),
        value if value >= 9.995 => format!("{value:.1}"),
        value => format!("{value:.2}"),
    }
}

const TITLES: [&str; 8] = ["workload", "peer", "ours", "theirs", "unit", "ours/theirs", "bar", "verdict"];
const NUMBERS: [bool; 8] = [false, false, true, true, false, true, false, false];

/// The table, columns aligned, one line for each row.
pub fn render(rows: &[Row]) -> String {
    let mut lines = vec![TITLES.map(str::to_owned)];
    lines.extend(rows.iter().map(Row::cells));
    let widths: [usize; 8] =
        std::array::from_fn(|column| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0));
    let mut text = String::new();
    for line in &lines {
        let mut out = String::new();
        for (column, cell) in line.iter().enumerate() {
            let width = widths[column];
            let padded = if NUMBERS[column] { format!("{cell:>width$}") } else { format!("{cell:<width$}") };
            write!(out, "{padded}  ").expect("a String takes everything");
        }
        text.push_str(out.trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(ours: f64, theirs: f64, bar: Bar) -> Row {
        Row::new("yield", "may", [ours, theirs], "ns/yield", bar)
    }

    #[test]
    fn a_bar_is_met_at_its_edge_and_missed_past_it() {
        assert_eq!(row(10.0, 30.0, Bar::Part(3)).met(), Some(true));
        assert_eq!(row(10.1, 30.0, Bar::Part(3)).met(), Some(false));
        assert_eq!(row(13.0, 10.0, Bar::Times(1.3)).met(), Some(true));
        assert_eq!(row(13.1, 10.0, Bar::Times(1.3)).met(), Some(false));
        assert_eq!(row(64.0, 64.0, Bar::AtMost).met(), Some(true));
        assert_eq!(row(65.0, 64.0, Bar::AtMost).met(), Some(false));
        assert_eq!(row(10.0, 10.0, Bar::Below).met(), Some(false));
        assert_eq!(row(1.9, 1.9, Bar::AtLeast).met(), Some(true));
        assert_eq!(row(1.89, 1.9, Bar::AtLeast).met(), Some(false));
        assert_eq!(row(1.0, 1.0, Bar::Open).met(), None);
    }

    #[test]
    fn a_figure_that_is_not_a_number_misses_every_bar() {
        for bar in [Bar::Times(1.0), Bar::Part(3), Bar::AtMost, Bar::Below, Bar::AtLeast] {
            assert_eq!(row(f64::NAN, 1.0, bar).met(), Some(false), "{bar:?}");
        }
    }

    #[test]
    fn a_limit_of_nothing_is_met_by_nothing_only() {
        let (none, some) = (row(0.0, 0.0, Bar::AtMost), row(0.1, 0.0, Bar::AtMost));
        assert_eq!((none.met(), none.ratio()), (Some(true), 0.0));
        assert_eq!(some.met(), Some(false));
        assert!(some.json().ends_with(r#""ratio":-1}"#), "JSON knows no infinity");
    }

    #[test]
    fn json_has_the_six_keys_in_order() {
        assert_eq!(
            row(7.5, 30.0, Bar::Part(3)).json(),
            r#"{"workload":"yield","peer":"may","ours":7.5,"theirs":30,"unit":"ns/yield","ratio":0.25}"#
        );
    }

    #[test]
    fn a_bar_is_shown_with_the_digits_it_has() {
        let shown = |times| row(1.0, 1.0, Bar::Times(times)).bar_text();
        assert_eq!(
            [1.0, 0.5, 1.1, 1.15, 1.0 / 0.9].map(shown),
            ["≤ 1.0 ×", "≤ 0.5 ×", "≤ 1.1 ×", "≤ 1.15 ×", "≤ 1.11 ×"]
        );
    }

    #[test]
    fn columns_line_up() {
        let text = render(&[row(7.5, 30.0, Bar::Part(3)), row(123.4, 1.0, Bar::Times(1.0))]);
        assert_eq!(
            text,
            "\
workload  peer  ours  theirs  unit      ours/theirs  bar      verdict
yield     may   7.50    30.0  ns/yield        0.250  ≤ 1/3    met
yield     may    123    1.00  ns/yield      123.400  ≤ 1.0 ×  NOT MET
"
        );
    }
}
