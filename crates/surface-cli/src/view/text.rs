//! Names, counts, rates, times and sizes as people read them.
//!
//! Room: surface.
//!
//! Pure: no clock, no file, no thread.

use std::time::Duration;

pub(crate) use surface_text::amounts::{about, counted, grouped, megabytes, time, used};

/// The text without characters that a terminal would act on.
pub(crate) fn clean(text: &str) -> String {
    surface_text::clean(text).into_owned()
}

/// A word as it must be typed in a shell: `compose`, `'image[8]'`.
pub(crate) fn typed(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./,:@+=%".contains(c);
    match word.chars().all(is_plain) && !word.is_empty() {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

/// When something happened, in a column of its own.
pub(crate) fn stamp(at: Duration) -> String {
    format!("{:>5}.{:03}  ", at.as_secs(), at.subsec_millis())
}

/// `a, b, c and 4 more`: at most `most` names.
pub(crate) fn listed<T, S: Into<String>>(all: &[T], most: usize, name: impl Fn(&T) -> S) -> String {
    let list = all.iter().take(most).map(|one| name(one).into()).collect::<Vec<String>>().join(", ");
    if all.len() > most { format!("{list} and {} more", all.len() - most) } else { list }
}

/// `error` or `errors`.
pub(crate) fn errors(number: u64) -> &'static str {
    if number == 1 { "error" } else { "errors" }
}

/// `12,034`; from ten million on `12.3 M`.
pub(crate) fn count(number: u64) -> String {
    if number < 10_000_000 { grouped(number) } else { scaled(number as f64) }
}

/// `0`, `3.2`, `200`, `12.3 k`, `1.2 M`.
pub(crate) fn rate(rate: f64) -> String {
    match rate {
        rate if rate < 0.05 => "0".to_owned(),
        rate if rate < 9.95 => format!("{rate:.1}"),
        rate if rate < 9_999.5 => format!("{rate:.0}"),
        rate => scaled(rate),
    }
}

fn scaled(number: f64) -> String {
    match number {
        number if number < 999_950.0 => format!("{:.1} k", number / 1e3),
        number if number < 999_950_000.0 => format!("{:.1} M", number / 1e6),
        number => format!("{:.1} G", number / 1e9),
    }
}

/// `0 %`, `37 %`, of one CPU; never `0 %` for something.
pub(crate) fn percent(part: f64) -> String {
    match part * 100.0 {
        part if part < 0.05 => "0 %".to_owned(),
        part if part < 0.95 => format!("{part:.1} %"),
        part => format!("{part:.0} %"),
    }
}

#[cfg(test)]
mod tests {
    use super::{clean, count, listed, percent, rate};

    #[test]
    fn of_many_names_some_are_listed() {
        let names = ["a", "b", "c", "d"];
        let said = [0, 1, 2, 4].map(|count| listed(&names[..count], 2, |name| *name));
        assert_eq!(said, ["", "a", "a, b", "a, b and 2 more"]);
    }

    #[test]
    fn numbers_are_as_long_as_they_are_interesting() {
        assert_eq!([9_999_999, 12_345_678].map(count), ["9,999,999", "12.3 M"]);
        assert_eq!([0.0, 3.21, 200.4, 12_345.0, 1.2e6].map(rate), ["0", "3.2", "200", "12.3 k", "1.2 M"]);
        assert_eq!([0.0, 0.001, 0.374, 2.0].map(percent), ["0 %", "0.1 %", "37 %", "200 %"]);
    }

    #[test]
    fn what_is_to_be_typed_is_one_word_in_any_shell() {
        let typed = ["compose", "image[8]", "a b", "it's", ""].map(super::typed);
        assert_eq!(typed, ["compose", "'image[8]'", "'a b'", r"'it'\''s'", "''"]);
    }

    #[test]
    fn a_name_cannot_command_the_terminal() {
        assert_eq!(clean("a\x1b[2Jb\nc"), "a\u{fffd}[2Jb\u{fffd}c");
        assert_eq!(clean("gpj.exe\u{202e}"), "gpj.exe\u{fffd}");
        assert_eq!(clean("bild[ä,😀]"), "bild[ä,😀]");
    }
}
