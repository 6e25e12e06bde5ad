//! Counts and rates as people read them.
//!
//! Room: surface, pure.

/// `12,034`.
pub(crate) fn grouped(number: u64) -> String {
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

/// `1 edge`, `2 edges`.
pub(crate) fn counted(number: usize, what: &str) -> String {
    format!("{} {what}{}", grouped(number as u64), if number == 1 { "" } else { "s" })
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
    use super::{count, grouped, percent, rate};

    #[test]
    fn numbers_are_as_long_as_they_are_interesting() {
        assert_eq!([0, 999, 12_034, 1_000_000].map(grouped), ["0", "999", "12,034", "1,000,000"]);
        assert_eq!([9_999_999, 12_345_678].map(count), ["9,999,999", "12.3 M"]);
        assert_eq!([0.0, 3.21, 200.4, 12_345.0, 1.2e6].map(rate), ["0", "3.2", "200", "12.3 k", "1.2 M"]);
        assert_eq!([0.0, 0.001, 0.374, 2.0].map(percent), ["0 %", "0.1 %", "37 %", "200 %"]);
    }
}
