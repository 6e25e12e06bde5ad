//! Bytes to lines, lines to messages, and back.
//!
//! Room: surface, pure.
//!
//! # Invariant
//! However bytes are cut, the same lines come of them; and no more than [`LINE`] bytes of a line are ever held.

use serde_json::Value;

use crate::action::Format;

/// The longest line that becomes a message.
pub(crate) const LINE: usize = 1 << 20;

/// What a line became.
pub(crate) type Item = Result<Value, String>;

/// Cuts bytes into lines.
pub(crate) struct Lines {
    format: Format,
    /// The beginning of a line whose end has not come.
    rest: Vec<u8>,
    /// The line is too long; the rest of it is left out.
    skipping: bool,
}

impl Lines {
    pub(crate) fn new(format: Format) -> Self {
        Self { format, rest: Vec::new(), skipping: false }
    }

    /// The lines that end in these bytes.
    pub(crate) fn feed(&mut self, mut bytes: &[u8], items: &mut Vec<Item>) {
        while let Some(end) = bytes.iter().position(|&byte| byte == b'\n') {
            let (line, tail) = (&bytes[..end], &bytes[end + 1..]);
            self.grow(line);
            self.finish(items);
            bytes = tail;
        }
        self.grow(bytes);
    }

    /// The last line, which may have no end.
    pub(crate) fn end(&mut self, items: &mut Vec<Item>) {
        if !self.rest.is_empty() || self.skipping {
            self.finish(items);
        }
    }

    fn grow(&mut self, bytes: &[u8]) {
        if self.skipping || self.rest.len() + bytes.len() > LINE {
            self.skipping = true;
            self.rest = Vec::new();
        } else {
            self.rest.extend_from_slice(bytes);
        }
    }

    fn finish(&mut self, items: &mut Vec<Item>) {
        if std::mem::take(&mut self.skipping) {
            items.push(Err(format!(
                "a line is longer than the {LINE} bytes a message may have; cut it, or send it in parts"
            )));
            return;
        }
        let line = self.rest.strip_suffix(b"\r").unwrap_or(&self.rest);
        items.extend(message(line, self.format));
        self.rest.clear();
    }
}

/// What a line says; nothing, if it is empty and JSON was wanted.
fn message(line: &[u8], format: Format) -> Option<Item> {
    match format {
        Format::Lines => Some(Ok(Value::String(String::from_utf8_lossy(line).into_owned()))),
        Format::Json if line.iter().all(u8::is_ascii_whitespace) => None,
        Format::Json => Some(serde_json::from_slice(line).map_err(|error| {
            let shown: String = String::from_utf8_lossy(line).chars().take(60).collect();
            format!("`{shown}` is no JSON: {error}; write JSON, or `format = \"lines\"`")
        })),
    }
}

/// A message as a line, with its end. A text that has lines of its own stays one line only as JSON.
pub(crate) fn written(message: &Value, format: Format) -> String {
    let mut line = match (message, format) {
        (Value::String(text), Format::Lines) => text.clone(),
        (value, _) => value.to_string(),
    };
    line.push('\n');
    line
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn lines(format: Format, pieces: &[&[u8]]) -> Vec<Item> {
        let (mut lines, mut items) = (Lines::new(format), Vec::new());
        pieces.iter().for_each(|piece| lines.feed(piece, &mut items));
        lines.end(&mut items);
        items
    }

    #[test]
    fn lines_are_the_same_however_bytes_are_cut() {
        let whole = "one\ntwo\r\n\nthrée".as_bytes();
        let wanted = lines(Format::Lines, &[whole]);
        assert_eq!(wanted, [Ok(json!("one")), Ok(json!("two")), Ok(json!("")), Ok(json!("thrée"))]);
        for cut in 0..whole.len() {
            assert_eq!(lines(Format::Lines, &[&whole[..cut], &whole[cut..]]), wanted, "{cut}");
        }
    }

    #[test]
    fn a_line_of_json_is_its_value_and_an_empty_one_is_nothing() {
        let items = lines(Format::Json, &[b"{\"a\":1}\n\n  \n[2]\nnonsense\n3"]);
        assert_eq!(items.len(), 4);
        assert_eq!(items[0], Ok(json!({ "a": 1 })));
        assert_eq!(items[3], Ok(json!(3)));
        let error = items[2].clone().unwrap_err();
        assert!(error.starts_with("`nonsense` is no JSON: "), "{error}");
    }

    #[test]
    fn a_line_that_is_too_long_is_told_and_the_next_is_read() {
        let long = vec![b'x'; LINE + 1];
        let items = lines(Format::Lines, &[&long, b"more\nnext\n"]);
        assert_eq!(items.len(), 2);
        assert!(items[0].as_ref().unwrap_err().contains("longer than the 1048576 bytes"));
        assert_eq!(items[1], Ok(json!("next")));
        let fits = lines(Format::Lines, &[&long[1..], b"\n"]);
        assert!(fits[0].is_ok());
    }

    #[test]
    fn a_text_is_written_as_it_is_or_as_json() {
        assert_eq!(written(&json!("a\"b"), Format::Lines), "a\"b\n");
        assert_eq!(written(&json!("a\nb"), Format::Json), "\"a\\nb\"\n");
        assert_eq!(written(&json!({ "x": 1.5 }), Format::Lines), "{\"x\":1.5}\n");
    }
}
