//! Times, sizes and counts as people read them.
//!
//! Room: surface.
//!
//! Pure: no clock, no file, no thread.
//! [`units`](crate::units) has how people write them.
//!
//! # Invariant
//! No time and no size is shown as more than it is: omitted digits are cut off, not rounded. Except [`about`], which is an estimate, and
//! [`latency`], which is a statistic.

use std::time::Duration;

/// `850 µs`, `340 ms`, `2.1 s`, `41 s`, `3 min 20 s`, `2 h 5 min`, `3 d 7 h`: for times that grow while they are shown.
pub fn time(time: Duration) -> String {
    let (seconds, millis) = (time.as_secs(), time.as_millis());
    match seconds {
        0 if millis == 0 && !time.is_zero() => format!("{} µs", time.as_micros()),
        0 => format!("{millis} ms"),
        1..10 => format!("{}.{} s", seconds, millis % 1000 / 100),
        10..60 => format!("{seconds} s"),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        3600..86_400 => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds % 86_400 / 3600),
    }
}

/// The same with one more decimal, `1.5 ms`, `12.5 s`: for times that are compared after the end.
pub fn measured(measured: Duration) -> String {
    match measured.as_micros() {
        0 => "0".to_owned(),
        us @ 1_000..10_000 => format!("{}.{} ms", us / 1_000, us % 1_000 / 100),
        us @ 10_000_000..60_000_000 => format!("{}.{} s", us / 1_000_000, us % 1_000_000 / 100_000),
        _ => time(measured),
    }
}

/// An estimated time: `~41 s`, `~3 min`, never `~0 ms`.
pub fn about(time: Duration) -> String {
    let seconds = time.as_millis().div_ceil(1000).max(1);
    match seconds {
        1..90 => format!("~{seconds} s"),
        90..5400 => format!("~{} min", seconds.div_ceil(60)),
        _ => format!("~{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

/// `just now`, `5 min ago`, `3 h ago`, `12 days ago`.
pub fn ago(time: Duration) -> String {
    match time.as_secs() {
        0..5 => "just now".to_owned(),
        seconds @ 5..90 => format!("{seconds} s ago"),
        seconds @ 90..5400 => format!("{} min ago", seconds / 60),
        seconds @ 5400..172_800 => format!("{} h ago", seconds / 3600),
        seconds => format!("{} days ago", seconds / 86_400),
    }
}

/// `340 ns`, `1.2 µs`, `51 µs`, `5.1 ms`, `1.2 s`; from microseconds.
pub fn latency(micros: f64) -> String {
    let (number, unit) = match micros {
        micros if micros < 1.0 => return format!("{:.0} ns", micros * 1e3),
        micros if micros < 999.5 => (micros, "µs"),
        micros if micros < 999_500.0 => (micros / 1e3, "ms"),
        micros => (micros / 1e6, "s"),
    };
    if number < 9.95 { format!("{number:.1} {unit}") } else { format!("{number:.0} {unit}") }
}

/// `512 MB`, `3.1 GB`.
pub fn megabytes(mb: u64) -> String {
    if mb < 1000 { format!("{mb} MB") } else { format!("{}.{} GB", mb / 1000, mb % 1000 / 100) }
}

/// `512 kB`, `1.5 MB`, `20 MB`, `3.1 GB`.
pub fn kilobytes(kb: u64) -> String {
    match kb {
        0..1_000 => format!("{kb} kB"),
        1_000..10_000 => format!("{}.{} MB", kb / 1_000, kb % 1_000 / 100),
        _ => megabytes(kb / 1_000),
    }
}

/// `17 bytes`, `512 kB`, `1.5 MB`, `3.1 GB`.
pub fn bytes(bytes: u64) -> String {
    if bytes < 1_000 { format!("{bytes} bytes") } else { kilobytes(bytes / 1_000) }
}

/// `3.1/8.0 GB`, `12 MB` if there is no limit.
pub fn used(mb: u64, limit_mb: u64) -> String {
    match limit_mb {
        0 => megabytes(mb),
        1..1000 => format!("{mb}/{limit_mb} MB"),
        _ => format!("{}.{}/{}", mb / 1000, mb % 1000 / 100, megabytes(limit_mb)),
    }
}

/// `6000` as `6 GB`, `1611` as `1611 MB`: exactly, as in a file.
pub fn exact_megabytes(mb: u64) -> String {
    if mb >= 1_000 && mb.is_multiple_of(1_000) {
        format!("{} GB", mb / 1_000)
    } else if mb >= 1_000 && mb.is_multiple_of(100) {
        megabytes(mb)
    } else {
        format!("{mb} MB")
    }
}

/// `12,034`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `1 edge`, `2 edges`, `12,034 edges`.
pub fn counted(number: usize, what: &str) -> String {
    format!("{} {what}{}", grouped(number as u64), if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_as_long_as_they_are_interesting() {
        let said = [0, 340, 2_149, 41_900, 200_000, 7_500_000, 90_000_000].map(|ms| time(Duration::from_millis(ms)));
        assert_eq!(said, ["0 ms", "340 ms", "2.1 s", "41 s", "3 min 20 s", "2 h 5 min", "1 d 1 h"]);
        assert_eq!(time(Duration::from_micros(850)), "850 µs", "something is not nothing");
        let guessed = [0, 40_100, 200_000, 7_500_000].map(|ms| about(Duration::from_millis(ms)));
        assert_eq!(guessed, ["~1 s", "~41 s", "~4 min", "~2 h 5 min"]);
        let past = [4, 89, 300, 3 * 3600, 12 * 86_400].map(|seconds| ago(Duration::from_secs(seconds)));
        assert_eq!(past, ["just now", "89 s ago", "5 min ago", "3 h ago", "12 days ago"]);
    }

    #[test]
    fn a_measured_time_has_a_tenth_more_and_is_otherwise_the_same() {
        let said = [0, 7, 1_500, 15_000, 1_500_000, 12_590_000].map(|us| measured(Duration::from_micros(us)));
        assert_eq!(said, ["0", "7 µs", "1.5 ms", "15 ms", "1.5 s", "12.5 s"]);
        for seconds in [61, 3_660, 90_000] {
            assert_eq!(measured(Duration::from_secs(seconds)), time(Duration::from_secs(seconds)));
        }
        let said = [0.34, 1.23, 51.0, 5_100.0, 1_200_000.0].map(latency);
        assert_eq!(said, ["340 ns", "1.2 µs", "51 µs", "5.1 ms", "1.2 s"]);
    }

    #[test]
    fn counts_are_grouped_and_have_a_plural() {
        assert_eq!([0, 999, 12_034, 1_000_000].map(grouped), ["0", "999", "12,034", "1,000,000"]);
        assert_eq!([0, 1, 2_000].map(|number| counted(number, "edge")), ["0 edges", "1 edge", "2,000 edges"]);
    }

    #[test]
    fn sizes_have_the_unit_that_fits() {
        assert_eq!([512, 3_150, 16_000].map(megabytes), ["512 MB", "3.1 GB", "16.0 GB"]);
        assert_eq!([0, 999, 1_500, 20_000, 4_000_000].map(kilobytes), ["0 kB", "999 kB", "1.5 MB", "20 MB", "4.0 GB"]);
        assert_eq!([0, 999, 512_000, 2_500_000].map(bytes), ["0 bytes", "999 bytes", "512 kB", "2.5 MB"]);
        assert_eq!([6_000, 1_611, 1_600, 12].map(exact_megabytes), ["6 GB", "1611 MB", "1.6 GB", "12 MB"]);
        assert_eq!([used(3_150, 8_000), used(12, 0), used(12, 900)], ["3.1/8.0 GB", "12 MB", "12/900 MB"]);
    }
}
