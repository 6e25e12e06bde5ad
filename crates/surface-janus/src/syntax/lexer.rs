//! Characters to tokens.
//!
//! Room: surface.
//!
//! # Invariant
//! Every character is part of a token, of a comment, a space, or reported. The last token is `End`, and there is only one.
//!
//! Inside parentheses a line may end anywhere, so `Newline` is not a token there.

use surface_text::{Report, Span};

use super::token::{Kind, Mark, Token, Word};
use crate::limits::NAME_BYTES_MAX;

/// All tokens of a text.
pub(super) fn tokens(text: &str, report: &mut Report) -> Vec<Token> {
    let mut lexer = Lexer { text, at: 0, parentheses: 0, found: Vec::new(), report };
    while lexer.step() {}
    let end = text.len();
    lexer.push(Kind::Newline, end..end);
    lexer.found.push(Token { kind: Kind::End, at: end..end });
    lexer.found
}

struct Lexer<'a, 'r> {
    text: &'a str,
    at: usize,
    parentheses: usize,
    found: Vec<Token>,
    report: &'r mut Report,
}

impl Lexer<'_, '_> {
    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn push(&mut self, kind: Kind, at: Span) {
        self.found.push(Token { kind, at });
    }

    /// Takes as many bytes as `is_part` likes, and gives back where they are.
    fn take_while(&mut self, is_part: impl Fn(char) -> bool) -> Span {
        let start = self.at;
        let length = self.rest().find(|c| !is_part(c)).unwrap_or(self.rest().len());
        self.at += length;
        start..self.at
    }

    /// False at the end of the text.
    fn step(&mut self) -> bool {
        let Some(next) = self.rest().chars().next() else { return false };
        match next {
            '\n' | ';' => {
                let at = self.at..self.at + 1;
                self.at += 1;
                // A parenthesis that was never closed does not swallow the statements behind it.
                if next == '\n' && self.parentheses > 0 && begins_statement(self.rest()) {
                    self.parentheses = 0;
                }
                if self.parentheses == 0 {
                    self.push(Kind::Newline, at);
                } else if next == ';' {
                    self.report.add(&at, "`;` inside parentheses", "close the parenthesis before the statement ends");
                }
            }
            ' ' | '\t' | '\r' => self.at += 1,
            '/' if self.rest().starts_with("//") => _ = self.take_while(|c| c != '\n'),
            '"' => self.text_literal(),
            '0'..='9' => self.number(),
            'a'..='z' | 'A'..='Z' | '_' => self.name(),
            other => self.mark(other),
        }
        true
    }

    fn name(&mut self) {
        let at = self.take_while(|c| c.is_ascii_alphanumeric() || c == '_');
        let name = &self.text[at.clone()];
        let word = Word::ALL.iter().find(|(_, text)| *text == name);
        if name.len() > NAME_BYTES_MAX {
            let message = format!("the name `{}` has more than {NAME_BYTES_MAX} letters, the limit", short(name));
            self.report.add(&at, message, "name it shorter");
        }
        let kind = word.map_or_else(|| Kind::Name(name.to_owned()), |(word, _)| Kind::Word(*word));
        self.push(kind, at);
    }

    fn number(&mut self) {
        let at = self.take_while(|c| c.is_ascii_alphanumeric() || c == '_');
        let written = self.text[at.clone()].replace('_', "");
        let value = match written.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16),
            None => written.parse(),
        };
        match value {
            Ok(value) if value <= 1 << 63 => self.push(Kind::Int(value), at),
            _ => {
                let help = format!("write digits, or 0x and hexadecimal digits, up to {}", i64::MAX);
                self.report.add(&at, format!("`{}` is not a number of 64 bits", short(&self.text[at.clone()])), help);
                self.push(Kind::Int(0), at);
            }
        }
    }

    /// From quote to quote, in one line.
    fn text_literal(&mut self) {
        let start = self.at;
        self.at += 1;
        let mut value = String::new();
        loop {
            let Some(next) = self.rest().chars().next().filter(|c| *c != '\n') else {
                let at = start..self.at;
                self.report.add(&at, "the text has no end", "close it with `\"` in the same line");
                break;
            };
            let from = self.at;
            self.at += next.len_utf8();
            match next {
                '"' => break,
                '\\' => match self.rest().chars().next() {
                    Some(escaped @ ('"' | '\\' | 'n' | 't')) => {
                        self.at += 1;
                        value.push(match escaped {
                            'n' => '\n',
                            't' => '\t',
                            other => other,
                        });
                    }
                    _ => self.report.add(
                        &(from..self.at),
                        "`\\` begins no escape that there is",
                        "write `\\n`, `\\t`, `\\\"` or `\\\\`",
                    ),
                },
                other => value.push(other),
            }
        }
        self.push(Kind::Text(value), start..self.at);
    }

    fn mark(&mut self, next: char) {
        let found = Mark::ALL.iter().find(|(_, text)| self.rest().starts_with(text));
        let Some(&(mark, text)) = found else {
            let at = self.at..self.at + next.len_utf8();
            self.at = at.end;
            let help = match next {
                '!' => "write `not`, or `!=` to compare",
                '&' => "write `and`",
                '|' => "write `or`",
                '\'' => "a text stands between `\"`",
                '#' => "a comment begins with `//`",
                _ => "remove it; names have letters, digits and `_`",
            };
            // What cannot be seen is named.
            let escaped = next.escape_debug().to_string();
            let shown = if escaped.starts_with("\\u") { escaped } else { next.to_string() };
            return self.report.add(&at, format!("`{shown}` means nothing here"), help);
        };
        let at = self.at..self.at + text.len();
        self.at = at.end;
        match mark {
            Mark::Open => self.parentheses += 1,
            Mark::Close => self.parentheses = self.parentheses.saturating_sub(1),
            _ => {}
        }
        self.push(Kind::Mark(mark), at);
    }
}

/// Whether the text begins with a word that no expression has.
fn begins_statement(text: &str) -> bool {
    let text = text.trim_start_matches([' ', '\t']);
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len());
    let in_expressions = [Word::And, Word::Or, Word::Not, Word::True, Word::False, Word::Await, Word::Spawn];
    let word = Word::ALL.iter().find(|(_, name)| *name == &text[..end]);
    word.is_some_and(|(word, _)| !in_expressions.contains(word))
}

/// The beginning of what may be very long.
pub(super) fn short(text: &str) -> String {
    match text.char_indices().nth(40) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
