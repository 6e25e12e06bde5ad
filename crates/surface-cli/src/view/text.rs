//! Names, counts, times and sizes as people read them.
//!
//! Room: surface, pure.

pub(crate) use surface_text::amounts::{about, megabytes, time, used};

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

/// `1 job`, `2 jobs`.
pub(crate) fn jobs(count: usize) -> String {
    if count == 1 { "1 job".to_owned() } else { format!("{count} jobs") }
}

#[cfg(test)]
mod tests {
    use super::clean;

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
