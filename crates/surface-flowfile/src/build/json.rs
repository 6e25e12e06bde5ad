//! Parses JSON so that numbers keep their spelling.
//!
//! Room: surface.
//!
//! The JSON library keeps the digits of a number, but spells each exponent its own way: `1E3` and `1e3` become `1e+3`.
//! So the spelling is put back after reading, if a text has such a number. All other texts cost one scan of their bytes.

use serde_json::{Number, Value};

/// Parses a JSON text.
///
/// # Errors
/// If the text is not JSON.
pub(crate) fn read(text: &str) -> Result<Value, serde_json::Error> {
    let mut message = serde_json::from_str(text)?;
    if may_have_exponents(text) {
        let mut spellings = Spellings { rest: text };
        respell(&mut message, &mut spellings);
    }
    Ok(message)
}

fn may_have_exponents(text: &str) -> bool {
    text.as_bytes().windows(2).any(|pair| pair[0].is_ascii_digit() && matches!(pair[1], b'e' | b'E'))
}

/// Gives numbers the spelling they have in the text. Both are in the same order, but an object that names a field
/// twice loses a number; so a spelling is used only for a number of the same value.
fn respell(value: &mut Value, spellings: &mut Spellings<'_>) {
    match value {
        Value::Number(number) => {
            let read = number.as_str();
            if let Some(spelling) = spellings.find(|spelling| is_spelling_of(spelling, read))
                && spelling != read
            {
                // The only constructor of the library that keeps the spelling. The text is a number: the library has parsed it.
                *number = Number::from_string_unchecked(spelling.to_owned());
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| respell(item, spellings)),
        Value::Object(fields) => fields.values_mut().for_each(|field| respell(field, spellings)),
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}

/// Whether the library reads `spelling` as `read`: the same but for the case and the plus of the exponent.
fn is_spelling_of(spelling: &str, read: &str) -> bool {
    match (spelling.split_once(['e', 'E']), read.split_once('e')) {
        (Some((digits, exponent)), Some((read_digits, read_exponent))) => {
            digits == read_digits && exponent.trim_start_matches('+') == read_exponent.trim_start_matches('+')
        }
        _ => spelling == read,
    }
}

/// The numbers of a JSON text, as they are written.
struct Spellings<'t> {
    rest: &'t str,
}

impl<'t> Iterator for Spellings<'t> {
    type Item = &'t str;

    fn next(&mut self) -> Option<&'t str> {
        loop {
            let at = self.rest.find(|c: char| c == '"' || c == '-' || c.is_ascii_digit())?;
            let token = &self.rest[at..];
            if let Some(inside) = token.strip_prefix('"') {
                self.rest = after_string(inside);
                continue;
            }
            let end =
                token.find(|c: char| !matches!(c, '0'..='9' | '+' | '-' | '.' | 'e' | 'E')).unwrap_or(token.len());
            let (number, rest) = token.split_at(end);
            self.rest = rest;
            return Some(number);
        }
    }
}

/// The text after a string; `inside` begins after its first quote.
fn after_string(inside: &str) -> &str {
    let mut bytes = inside.bytes().enumerate();
    while let Some((at, byte)) = bytes.next() {
        match byte {
            b'"' => return &inside[at + 1..],
            b'\\' => _ = bytes.next(),
            _ => {}
        }
    }
    ""
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_their_spelling() {
        for text in [
            "1e3",
            "1E3",
            "1e+3",
            "1E-3",
            "-1.50E+03",
            "[1e3,1E3,1e+3,\"2e5 \\\" 3e5\",-0,1.0]",
            r#"{"7e1":"7e1","b":{"c":[1E9,true,1e9]},"d":12345678901234567890123e1}"#,
        ] {
            assert_eq!(read(text).unwrap().to_string(), text);
        }
    }

    #[test]
    fn a_field_that_is_named_twice_has_its_last_value() {
        assert_eq!(read(r#"{"a":1e3,"b":2E4,"a":5}"#).unwrap()["a"], 5);
        assert_eq!(read(r#"{"a":1E3,"a":2E3}"#).unwrap().to_string(), r#"{"a":2E3}"#);
    }

    #[test]
    fn numbers_are_worth_the_same_in_each_spelling() {
        assert_eq!(read("1E3").unwrap().as_f64(), Some(1000.0));
        assert!(read("1E").is_err() && read("\"1e3").is_err());
    }
}
