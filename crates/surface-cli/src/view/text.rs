//! Times, amounts and names as people read them.
//!
//! Room: surface, pure.

use std::time::Duration;

/// What a terminal would act on is not sent to one.
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

/// `340 ms`, `2.1 s`, `41 s`, `3 min 20 s`, `2 h 5 min`.
pub(crate) fn time(time: Duration) -> String {
    let (seconds, millis) = (time.as_secs(), time.as_millis());
    match seconds {
        0 => format!("{millis} ms"),
        1..10 => format!("{}.{} s", seconds, millis % 1000 / 100),
        10..60 => format!("{seconds} s"),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

/// A time that nobody knows exactly: `~41 s`, `~3 min`, never `~0 ms`.
pub(crate) fn about(time: Duration) -> String {
    let seconds = time.as_millis().div_ceil(1000).max(1);
    match seconds {
        1..90 => format!("~{seconds} s"),
        90..5400 => format!("~{} min", seconds.div_ceil(60)),
        _ => format!("~{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

/// `512 MB`, `3.1 GB`.
pub(crate) fn megabytes(mb: u64) -> String {
    if mb < 1000 { format!("{mb} MB") } else { format!("{}.{} GB", mb / 1000, mb % 1000 / 100) }
}

/// `3.1/8.0 GB`, `12 MB` if there is no limit.
pub(crate) fn used(mb: u64, limit_mb: u64) -> String {
    match limit_mb {
        0 => megabytes(mb),
        1..1000 => format!("{mb}/{limit_mb} MB"),
        _ => format!("{}.{}/{}", mb / 1000, mb % 1000 / 100, megabytes(limit_mb)),
    }
}

/// `1 job`, `2 jobs`.
pub(crate) fn jobs(count: usize) -> String {
    if count == 1 { "1 job".to_owned() } else { format!("{count} jobs") }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{about, clean, time, used};

    #[test]
    fn what_is_to_be_typed_is_one_word_in_any_shell() {
        let typed = ["compose", "image[8]", "a b", "it's", ""].map(super::typed);
        assert_eq!(typed, ["compose", "'image[8]'", "'a b'", r"'it'\''s'", "''"]);
    }

    #[test]
    fn times_are_as_long_as_they_are_interesting() {
        let said = [0, 340, 2_149, 41_000, 200_000, 7_500_000].map(|ms| time(Duration::from_millis(ms)));
        assert_eq!(said, ["0 ms", "340 ms", "2.1 s", "41 s", "3 min 20 s", "2 h 5 min"]);
        let guessed = [0, 40_100, 200_000, 7_500_000].map(|ms| about(Duration::from_millis(ms)));
        assert_eq!(guessed, ["~1 s", "~41 s", "~4 min", "~2 h 5 min"]);
    }

    #[test]
    fn amounts_stand_against_their_limit() {
        assert_eq!([used(3_150, 8_000), used(12, 0), used(12, 900)], ["3.1/8.0 GB", "12 MB", "12/900 MB"]);
    }

    #[test]
    fn a_name_cannot_command_the_terminal() {
        assert_eq!(clean("a\x1b[2Jb\nc"), "a\u{fffd}[2Jb\u{fffd}c");
        assert_eq!(clean("gpj.exe\u{202e}"), "gpj.exe\u{fffd}");
        assert_eq!(clean("bild[ä,😀]"), "bild[ä,😀]");
    }
}
