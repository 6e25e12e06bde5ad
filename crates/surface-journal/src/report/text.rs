//! Numbers and times for people, and text that cannot break out of the page.
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

/// JSON that cannot end the `<script>` it stands in.
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

/// As in `850 µs`, `12.5 s`, `3 h 07 min`.
pub(super) fn time(us: u64) -> String {
    let ms = us as f64 / 1e3;
    let s = us / 1_000_000;
    match us {
        0 => "0".into(),
        1..1_000 => format!("{us} µs"),
        1_000..10_000 => format!("{ms:.1} ms"),
        10_000..1_000_000 => format!("{ms:.0} ms"),
        1_000_000..60_000_000 => format!("{:.1} s", ms / 1e3),
        60_000_000..3_600_000_000 => format!("{} min {:02} s", s / 60, s % 60),
        3_600_000_000..86_400_000_000 => format!("{} h {:02} min", s / 3600, s / 60 % 60),
        _ => format!("{} d {:02} h", s / 86_400, s / 3600 % 24),
    }
}

/// As in `512 kB`, `1.5 GB`: the units of job files.
pub(super) fn memory(kb: u64) -> String {
    let units = ["kB", "MB", "GB", "TB", "PB"];
    let mut amount = kb as f64;
    let mut unit = 0;
    while amount >= 1000.0 && unit + 1 < units.len() {
        amount /= 1000.0;
        unit += 1;
    }
    let places = usize::from(amount < 10.0 && unit > 0);
    format!("{amount:.places$} {}", units[unit])
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
    use super::{date, escape, memory, script_json, short, time};

    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(date(0), "1970-01-01T00:00:00Z");
        assert_eq!(date(951_827_696_000), "2000-02-29T12:34:56Z");
        assert_eq!(date(4_107_542_399_000), "2100-02-28T23:59:59Z");
        assert_eq!(date(4_107_542_400_000), "2100-03-01T00:00:00Z");
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!(
            [0, 7, 1_500, 15_000, 1_500_000, 61_000_000, 3_660_000_000, 90_000_000_000].map(time),
            ["0", "7 µs", "1.5 ms", "15 ms", "1.5 s", "1 min 01 s", "1 h 01 min", "1 d 01 h"]
        );
        assert_eq!([0, 999, 1_500, 20_000, 4_000_000].map(memory), ["0 kB", "999 kB", "1.5 MB", "20 MB", "4.0 GB"]);
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
