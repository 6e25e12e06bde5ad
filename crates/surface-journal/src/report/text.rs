//! Dates for people, and text that cannot break out of the page.
//!
//! Room: surface.
//!
//! # Invariant
//! Nothing that comes from a job file reaches the page except through `escape` or `script_json`.

use std::fmt::Write;

/// Safe in text and in quoted attributes.
pub(super) fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            // Terminal colours and the like; a tab or a new line is text.
            other if other.is_control() && !matches!(other, '\n' | '\t') => safe.push('\u{fffd}'),
            other => safe.push(other),
        }
    }
    safe
}

/// JSON that cannot end the `<script>` that it is in.
pub(super) fn script_json(value: &serde_json::Value) -> String {
    value.to_string().replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
}

/// At most `most` characters.
pub(super) fn short(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// As in `2026-11-16T03:30:00Z`.
pub(super) fn date(ms: u64) -> String {
    let (days, seconds) = (ms / 86_400_000, ms / 1_000 % 86_400);
    // Howard Hinnant's `civil_from_days`: years begin in March, so a leap day is the last of its year.
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let march = (5 * day + 2) / 153;
    let day = day - (153 * march + 2) / 5 + 1;
    let month = if march < 10 { march + 3 } else { march - 9 };
    let year = year + era * 400 + u64::from(month <= 2);
    let mut text = String::new();
    let _ = write!(
        text,
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z",
        seconds / 3600,
        seconds / 60 % 60,
        seconds % 60
    );
    text
}

#[cfg(test)]
mod tests {
    use super::{date, escape, script_json, short};

    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(date(0), "1970-01-01T00:00:00Z");
        assert_eq!(date(951_827_696_000), "2000-02-29T12:34:56Z");
        assert_eq!(date(4_107_542_399_000), "2100-02-28T23:59:59Z");
        assert_eq!(date(4_107_542_400_000), "2100-03-01T00:00:00Z");
    }

    #[test]
    fn a_long_text_is_cut_at_a_character() {
        assert_eq!(short("äöü", 2), "äö…");
        assert_eq!(short("äöü", 3), "äöü");
    }

    #[test]
    fn text_stays_text() {
        assert_eq!(escape("<b a='\"'>&\u{1b}\n"), "&lt;b a=&#39;&quot;&#39;&gt;&amp;\u{fffd}\n");
        let value = serde_json::json!("</script><!--");
        let json = script_json(&value);
        assert!(!json.contains('<'));
        assert_eq!(serde_json::from_str::<serde_json::Value>(&json).unwrap(), value);
    }
}
