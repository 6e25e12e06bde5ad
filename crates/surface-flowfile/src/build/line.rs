//! Converts lines to messages, and back.
//!
//! Room: surface.
//!
//! Bytes are cut into lines by `bursar::flow::Lines`.
//!
//! # Invariant
//! The messages do not depend on how bytes are split into reads. A line that is not a message is an error with its bytes.

use std::convert::Infallible;

use bursar::flow::{Line, Lines, NodeError};
use serde_json::Value;

use super::json;
use crate::action::{Format, Reading};

/// The message of a line, or why there is none.
pub(crate) type Item = Result<Value, NodeError>;

/// Converts bytes to messages.
pub(crate) struct Messages {
    reading: Reading,
    lines: Lines,
}

impl Messages {
    pub(crate) fn new(reading: Reading) -> Self {
        Self { reading, lines: Lines::at_most(reading.longest_line) }
    }

    /// The messages whose lines end in these bytes.
    pub(crate) fn feed(&mut self, bytes: &[u8], items: &mut Vec<Item>) {
        let Ok(()) = self.lines.feed(bytes, &mut taker(self.reading, items));
    }

    /// Whether the last line has no line end yet.
    pub(crate) fn has_rest(&self) -> bool {
        !self.lines.rest().is_empty()
    }

    /// The error for a last line that may be incomplete.
    pub(crate) fn cut_off(&self) -> NodeError {
        let rest = self.lines.rest();
        let shown: String = String::from_utf8_lossy(rest).chars().take(60).collect();
        let why = format!("its last line has no end, and the program failed, so the line may be incomplete: `{shown}`");
        NodeError::msg(why).with_record(rest)
    }

    /// The last message, whose line may have no line end.
    pub(crate) fn end(&mut self, items: &mut Vec<Item>) {
        let Ok(()) = self.lines.finish(&mut taker(self.reading, items));
    }
}

/// Converts lines to messages.
fn taker(reading: Reading, items: &mut Vec<Item>) -> impl FnMut(Result<Line, NodeError>) -> Result<(), Infallible> {
    move |line| {
        items.extend(line.map_or_else(|error| Some(Err(error)), |line| message(line, reading)));
        Ok(())
    }
}

/// The message of a line; `None` if the line is empty and the format is JSON.
pub(crate) fn message(line: Line, reading: Reading) -> Option<Item> {
    let number = line.number;
    let text = match line.text(reading.not_utf8) {
        Ok(text) => text,
        Err(error) => return Some(Err(error)),
    };
    match reading.format {
        Format::Lines => Some(Ok(Value::String(text))),
        Format::Json if text.trim_ascii().is_empty() => None,
        Format::Json => Some(json::read(&text).map_err(|error| {
            let shown: String = text.chars().take(60).collect();
            // The library counts lines within the text, which is one line.
            let (said, column) = (error.to_string(), error.column());
            let said = said.strip_suffix(&format!(" at line 1 column {column}")).unwrap_or(&said);
            let why = format!(
                "`{shown}` is not JSON: {said} at line {number} column {column}; write JSON, or `format = \"lines\"`"
            );
            NodeError::msg(why).with_record(text)
        })),
    }
}

/// A message as a line, with its line end. A text with line ends in it stays one line only as JSON.
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

    fn read(reading: Reading, pieces: &[&[u8]]) -> Vec<Result<Value, String>> {
        let (mut messages, mut items) = (Messages::new(reading), Vec::new());
        pieces.iter().for_each(|piece| messages.feed(piece, &mut items));
        messages.end(&mut items);
        items.into_iter().map(|item| item.map_err(|error| error.to_string())).collect()
    }

    #[test]
    fn messages_are_the_same_however_bytes_are_cut() {
        let whole = "one\ntwo\r\n\nthrée".as_bytes();
        let wanted = read(Reading::default(), &[whole]);
        assert_eq!(wanted, [Ok(json!("one")), Ok(json!("two")), Ok(json!("")), Ok(json!("thrée"))]);
        for cut in 0..whole.len() {
            assert_eq!(read(Reading::default(), &[&whole[..cut], &whole[cut..]]), wanted, "{cut}");
        }
    }

    #[test]
    fn a_line_of_json_is_its_value_and_an_empty_one_is_nothing() {
        let reading = Reading { format: Format::Json, ..Reading::default() };
        let items = read(reading, &[b"{\"a\":1}\n\n  \n[2]\nnonsense\n3"]);
        assert_eq!(items.len(), 4);
        assert_eq!(items[0], Ok(json!({ "a": 1 })));
        assert_eq!(items[3], Ok(json!(3)));
        let error = items[2].clone().unwrap_err();
        assert!(error.starts_with("`nonsense` is not JSON: "), "{error}");
    }

    #[test]
    fn a_line_that_is_no_text_is_an_error_or_is_replaced() {
        let bytes = b"a\n\xff\nb\n";
        let items = read(Reading::default(), &[bytes]);
        assert!(items[1].as_ref().is_err_and(|why| why.starts_with("line 2 is no UTF-8 text")), "{items:?}");
        assert_eq!(items[2], Ok(json!("b")));
        let replaced = Reading { not_utf8: bursar::flow::NotUtf8::Replace, ..Reading::default() };
        assert_eq!(read(replaced, &[bytes])[1], Ok(json!("\u{fffd}")));
    }

    #[test]
    fn a_text_is_written_as_it_is_or_as_json() {
        assert_eq!(written(&json!("a\"b"), Format::Lines), "a\"b\n");
        assert_eq!(written(&json!("a\nb"), Format::Json), "\"a\\nb\"\n");
        assert_eq!(written(&json!({ "x": 1.5 }), Format::Lines), "{\"x\":1.5}\n");
    }
}
