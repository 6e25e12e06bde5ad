//! Text from files and other programs, made safe to show.
//!
//! Room: surface.
//!
//! Pure: no clock, no file, no thread.
//!
//! # Invariant
//! A terminal only shows what comes out of [`clean`]; nothing in it controls the terminal.

use std::borrow::Cow;

/// Control characters, and characters that change the direction of text: a name must not look like another.
fn is_harmful(c: char) -> bool {
    c.is_control() || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn clean_but(text: &str, is_kept: impl Fn(char) -> bool) -> Cow<'_, str> {
    let is_out = |c: char| is_harmful(c) && !is_kept(c);
    if text.contains(is_out) {
        text.chars().map(|c| if is_out(c) { '\u{fffd}' } else { c }).collect()
    } else {
        Cow::Borrowed(text)
    }
}

/// The text without characters that a terminal would act on.
///
/// ```
/// assert_eq!(surface_text::clean("a\x1b[2Jb\nc"), "a\u{fffd}[2Jb\u{fffd}c");
/// assert_eq!(surface_text::clean("gpj.exe\u{202e}"), "gpj.exe\u{fffd}");
/// assert_eq!(surface_text::clean("bild[ä,😀]"), "bild[ä,😀]");
/// ```
pub fn clean(text: &str) -> Cow<'_, str> {
    clean_but(text, |_| false)
}

/// The same for a text that may have several lines, and tabs.
///
/// ```
/// assert_eq!(surface_text::clean_lines("a\x1b[2Jb\n\tc"), "a\u{fffd}[2Jb\n\tc");
/// ```
pub fn clean_lines(text: &str) -> Cow<'_, str> {
    clean_but(text, |c| matches!(c, '\n' | '\t'))
}

/// The text with `*` for each byte between `://` and `@`, where a user and a password stand: what shows a part of a file must not show these. Lengths and lines stay.
///
/// ```
/// use surface_text::without_logins;
///
/// assert_eq!(*without_logins(br#"over = "nats://me:p/w@host:4222/imu", at = "a@b""#), *br#"over = "nats://******@host:4222/imu", at = "a@b""#);
/// assert_eq!(*without_logins(b"nats://host/a nats://u@h"), *b"nats://host/a nats://*@h");
/// ```
pub fn without_logins(text: &[u8]) -> Cow<'_, [u8]> {
    const SCHEME_END: &[u8] = b"://";
    let mut shown = Cow::Borrowed(text);
    let mut from = 0;
    while let Some(at) = text[from..].windows(SCHEME_END.len()).position(|bytes| bytes == SCHEME_END) {
        let start = from + at + SCHEME_END.len();
        let ends = |byte: &u8| byte.is_ascii_whitespace() || matches!(byte, b'"' | b'\'' | b'<' | b'>');
        let end = text[start..].iter().position(ends).map_or(text.len(), |length| start + length);
        // The last one: a password may have more of them.
        if let Some(length) = text[start..end].iter().rposition(|byte| *byte == b'@') {
            shown.to_mut()[start..start + length].fill(b'*');
        }
        from = end;
    }
    shown
}
