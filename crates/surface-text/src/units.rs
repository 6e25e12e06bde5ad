//! Sizes, durations and ranges as people write them.
//!
//! Room: surface.
//!
//! Pure: no clock, no file, no thread.
//!
//! # Invariant
//! Numbers are exact: decimals are scaled as integers, and what does not fit is refused, never wrapped or rounded down.

/// Megabytes (10^6 bytes) of `8 GB`, `512 MB`, `1.5 GiB`, or of a plain number of megabytes; part of one counts as one.
///
/// # Errors
/// What is wrong with it, to follow a "because".
pub fn megabytes(text: &str) -> Result<u64, &'static str> {
    let megabytes = sized(text, 1_000_000)?.div_ceil(1_000_000);
    u64::try_from(megabytes).ok().filter(|&mb| mb <= MAX_MB).ok_or("it is more than 1000000 TB")
}

/// Bytes of `64 KB`, `1.5 MiB`, or of a plain number of bytes.
///
/// # Errors
/// As of [`megabytes`].
pub fn bytes(text: &str) -> Result<u64, &'static str> {
    let bytes = sized(text, 1)?;
    u64::try_from(bytes).ok().filter(|&bytes| bytes <= MAX_MB * 1_000_000).ok_or("it is more than 1000000 TB")
}

/// Bytes of a number with a unit; a plain number counts `plain` bytes each.
fn sized(text: &str, plain: u128) -> Result<u128, &'static str> {
    let (number, unit) = split(text);
    let scale: u128 = match unit.to_ascii_lowercase().as_str() {
        "" => plain,
        "b" => 1,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "tb" => 1_000_000_000_000,
        "kib" => 1 << 10,
        "mib" => 1 << 20,
        "gib" => 1 << 30,
        "tib" => 1 << 40,
        _ => return Err("its unit is none of B, KB, MB, GB, TB, KiB, MiB, GiB, TiB"),
    };
    scaled(number, scale)
}

/// 10^18 bytes: more than any machine has, and far from any overflow.
pub const MAX_MB: u64 = 1_000_000_000_000;

/// Milliseconds of `10m`, `1h30m`, `1.5s`, `250ms`, or of a plain number of seconds.
///
/// # Errors
/// What is wrong with it, to follow a "because".
pub fn millis(text: &str) -> Result<u64, &'static str> {
    let unit = |unit: &str| long_unit(unit).ok_or("its unit is none of ms, s, m, h, d");
    let total = duration(text, unit)?;
    u64::try_from(total).ok().filter(|&ms| ms <= MAX_MILLIS).ok_or("it is more than 36500 days")
}

/// Microseconds of `500us`, `2ms`, `1.5s`, or of a plain number of seconds.
///
/// # Errors
/// As of [`millis`].
pub fn micros(text: &str) -> Result<u64, &'static str> {
    let unit = |unit: &str| match unit {
        "us" | "µs" => Ok(1),
        _ => long_unit(unit).map(|ms| ms * 1_000).ok_or("its unit is none of us, ms, s, m, h, d"),
    };
    let total = duration(text, unit)?;
    u64::try_from(total).ok().filter(|&us| us <= MAX_MILLIS * 1_000).ok_or("it is more than 36500 days")
}

/// Nanoseconds of `300us`, `1.5ms`, `2s`, or of a plain number of seconds.
///
/// # Errors
/// As of [`millis`].
pub fn nanos(text: &str) -> Result<u64, &'static str> {
    let unit = |unit: &str| match unit {
        "ns" => Ok(1),
        "us" | "µs" | "μs" => Ok(1_000),
        "d" => Err("its unit is none of ns, us, ms, s, m, h"),
        _ => long_unit(unit).map(|ms| ms * 1_000_000).ok_or("its unit is none of ns, us, ms, s, m, h"),
    };
    let total = duration(text, unit)?;
    u64::try_from(total).ok().filter(|&ns| ns <= MAX_NANOS).ok_or("it is more than 24 hours")
}

/// Milliseconds of a unit.
fn long_unit(unit: &str) -> Option<u128> {
    Some(match unit {
        "ms" => 1,
        "s" | "sec" => 1_000,
        "m" | "min" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    })
}

/// The sum of all numbers with their units; a plain number is seconds.
fn duration(text: &str, scale: impl Fn(&str) -> Result<u128, &'static str>) -> Result<u128, &'static str> {
    let mut rest = text.trim();
    let mut total = 0_u128;
    if rest.is_empty() {
        return Err("it is empty");
    }
    if rest.starts_with('-') {
        return Err("it is negative");
    }
    let mut parts = 0;
    while !rest.is_empty() {
        let number_end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, tail) = rest.split_at(number_end);
        let tail = tail.trim_start();
        let unit_end = tail.find(|c: char| !c.is_alphabetic()).unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(unit_end);
        let is_plain = unit.is_empty() && parts == 0 && tail.is_empty();
        total = total.saturating_add(scaled(number, scale(if is_plain { "s" } else { unit })?)?);
        rest = tail.trim_start();
        parts += 1;
    }
    Ok(total)
}

/// A day: more than any simulation takes.
const MAX_NANOS: u64 = 24 * 3_600_000_000_000;

const MAX_MILLIS: u64 = 36_500 * 86_400_000;

/// `a..b`, both ends included; as wide as written if an end starts with 0, so that `01..10` sorts.
#[derive(Clone, Copy, Debug)]
pub struct Range {
    /// The first number.
    pub first: i64,
    /// The last one.
    pub last: i64,
    /// Digits of each, with zeros before it; 0 for as many as it has.
    pub width: usize,
}

impl Range {
    /// `None` if it is not a range; else the range, or why it is a bad one.
    pub fn read(text: &str) -> Option<Result<Self, String>> {
        let (first, last) = text.split_once("..")?;
        let (first, last) = (first.trim(), last.trim_start_matches('=').trim());
        let end = |end: &str| -> Result<i64, String> {
            let digits = end.strip_prefix('-').unwrap_or(end);
            if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
                return Err(format!("`{}` is not a whole number", clip(end)));
            }
            end.parse().map_err(|_| format!("`{}` is beyond the 64 bits of a number", clip(end)))
        };
        let padded = |end: &str| end.len() > 1 && end.starts_with('0');
        Some((|| {
            let (from, to) = (end(first)?, end(last)?);
            let width = if padded(first) || padded(last) { first.len().max(last.len()) } else { 0 };
            Ok(Self { first: from, last: to, width: width.min(20) })
        })())
    }

    /// How many numbers; 0 if it runs backwards.
    #[allow(clippy::len_without_is_empty)] // how many is always asked
    pub fn len(&self) -> u128 {
        u128::try_from(i128::from(self.last) - i128::from(self.first) + 1).unwrap_or(0)
    }

    /// Each as a text.
    pub fn values(&self) -> impl Iterator<Item = String> + use<> {
        let width = self.width;
        (self.first..=self.last).map(move |value| format!("{value:0width$}"))
    }
}

/// At most 40 characters of a text, for a message.
pub fn clip(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    match line.char_indices().nth(40) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None if line.len() < text.len() => format!("{line}…"),
        None => line.to_owned(),
    }
}

fn split(text: &str) -> (&str, &str) {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.' && c != '_').unwrap_or(text.len());
    (&text[..end], text[end..].trim_start())
}

/// `number` times `scale`, rounded up.
fn scaled(number: &str, scale: u128) -> Result<u128, &'static str> {
    const NO_NUMBER: &str = "it does not start with a number";
    const TOO_LONG: &str = "it has more than 18 digits";
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    let digits = |text: &str| text.chars().filter(|&c| c != '_').collect::<String>();
    let (whole, part) = (digits(whole), digits(part));
    if whole.is_empty() || part.contains('.') || (number.contains('.') && part.is_empty()) {
        return Err(NO_NUMBER);
    }
    if whole.len() > 18 || part.len() > 18 {
        return Err(TOO_LONG);
    }
    let whole: u128 = whole.parse().map_err(|_| NO_NUMBER)?;
    let parts: u128 = if part.is_empty() { 0 } else { part.parse().map_err(|_| NO_NUMBER)? };
    Ok(whole * scale + (parts * scale).div_ceil(10_u128.pow(part.len() as u32)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_megabytes_rounded_up() {
        for (text, mb) in [
            ("8 GB", 8_000),
            ("512MB", 512),
            ("1.5 GiB", 1_611),
            ("256", 256),
            ("0", 0),
            ("1 B", 1),
            ("2 tb", 2_000_000),
            ("1_000 MB", 1_000),
            ("0.5 GB", 500),
        ] {
            assert_eq!(megabytes(text), Ok(mb), "{text}");
        }
        for text in ["", "GB", "8 G", "-1 GB", "1..2 GB", "1. GB", ".5 GB", "99999999999999999999", "9999999 TB", "_"] {
            assert!(megabytes(text).is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_in_bytes_are_exact() {
        for (text, wanted) in
            [("0", 0), ("416", 416), ("64 KB", 64_000), ("1.5KiB", 1_536), ("2 MiB", 2 << 20), ("1 B", 1)]
        {
            assert_eq!(bytes(text), Ok(wanted), "{text}");
        }
        for text in ["", "K", "8 G", "-1", "1e3", "1000001 TB"] {
            assert!(bytes(text).is_err(), "{text}");
        }
    }

    #[test]
    fn durations_are_milliseconds() {
        for (text, ms) in [
            ("10m", 600_000),
            ("1h30m", 5_400_000),
            ("1.5s", 1_500),
            ("250 ms", 250),
            ("3", 3_000),
            ("1d 1s", 86_401_000),
        ] {
            assert_eq!(millis(text), Ok(ms), "{text}");
        }
        for (text, us) in [("500us", 500), ("2ms", 2_000), ("1.5 ms", 1_500), ("1", 1_000_000), ("1ms 20us", 1_020)] {
            assert_eq!(micros(text), Ok(us), "{text}");
        }
        assert!(micros("5 ns").is_err() && millis("5us").is_err());
        for text in ["", "m", "5 weeks", "1s2", "-1s", "40000d", "1.s", "s5", "1h 3"] {
            assert!(millis(text).is_err(), "{text}");
        }
    }

    #[test]
    fn short_durations_are_nanoseconds() {
        for (text, ns) in
            [("250us", 250_000), ("1.5ms", 1_500_000), ("2s 1ms", 2_001_000_000), ("800 ns", 800), ("3", 3_000_000_000)]
        {
            assert_eq!(nanos(text), Ok(ns), "{text}");
        }
        for text in ["", "us", "5d", "1ms2", "-1s", "25h", "1.ms"] {
            assert!(nanos(text).is_err(), "{text}");
        }
    }

    #[test]
    fn ranges_include_both_ends_and_keep_their_width() {
        let values = |text: &str| Range::read(text).unwrap().unwrap().values().collect::<Vec<_>>();
        assert_eq!(values("1..3"), ["1", "2", "3"]);
        assert_eq!(values("-1..1"), ["-1", "0", "1"]);
        assert_eq!(values("08..10"), ["08", "09", "10"]);
        assert!(Range::read("abc").is_none());
        assert!(Range::read("1..x").unwrap().is_err());
        assert!(Range::read("1..99999999999999999999").unwrap().is_err());
        assert_eq!(Range::read("8..1").unwrap().unwrap().len(), 0);
        assert_eq!(Range::read(&format!("{}..{}", i64::MIN, i64::MAX)).unwrap().unwrap().len(), 1 << 64);
    }

    #[test]
    fn a_long_text_is_clipped_at_a_character() {
        assert_eq!(clip(&"ä".repeat(50)), format!("{}…", "ä".repeat(40)));
        assert_eq!(clip("one\ntwo"), "one…");
    }
}
