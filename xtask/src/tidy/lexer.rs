//! Tells the code of a Rust file from its comments.
//!
//! # Invariant
//! Line `n` of the answer belongs to line `n` of the file. Code holds no comment and no
//! content of a string; a comment holds no code.
//!
//! # Rejected
//! A parser: the rules ask where a word stands, and a file that is being written does not
//! always parse.

/// One line of a file, taken apart.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Line {
    pub(super) code: String,
    pub(super) comment: String,
}

#[derive(Clone, Copy)]
enum Mode {
    Code,
    /// To the end of the line.
    LineComment,
    /// So many `/*` deep.
    BlockComment(u32),
    Text,
    /// Ends at a quote and so many `#`.
    RawText(usize),
}

/// Takes a file apart, line by line.
pub(super) fn lines(text: &str) -> Vec<Line> {
    let mut mode = Mode::Code;
    text.lines()
        .map(|line| {
            let (split, after) = split(line, mode);
            mode = after;
            split
        })
        .collect()
}

fn split(line: &str, mut mode: Mode) -> (Line, Mode) {
    let mut out = Line::default();
    let mut rest = line;
    while let Some(next) = rest.chars().next() {
        let mut step = next.len_utf8();
        match mode {
            Mode::Code => {
                if rest.starts_with("//") {
                    mode = Mode::LineComment;
                    step = 2;
                } else if rest.starts_with("/*") {
                    mode = Mode::BlockComment(1);
                    step = 2;
                } else if let Some((length, hashes)) = raw_text(rest, &out.code) {
                    mode = Mode::RawText(hashes);
                    step = length;
                } else if next == '"' {
                    mode = Mode::Text;
                } else if let Some(length) = character(rest) {
                    step = length;
                } else {
                    out.code.push(next);
                }
            }
            Mode::LineComment => out.comment.push(next),
            Mode::BlockComment(depth) => {
                if rest.starts_with("*/") {
                    mode = if depth == 1 { Mode::Code } else { Mode::BlockComment(depth - 1) };
                    step = 2;
                } else if rest.starts_with("/*") {
                    mode = Mode::BlockComment(depth + 1);
                    step = 2;
                } else {
                    out.comment.push(next);
                }
            }
            Mode::Text => match next {
                '\\' => step += rest[1..].chars().next().map_or(0, char::len_utf8),
                '"' => mode = Mode::Code,
                _ => {}
            },
            Mode::RawText(hashes) => {
                let end = format!("\"{}", "#".repeat(hashes));
                if rest.starts_with(&end) {
                    mode = Mode::Code;
                    step = end.len();
                }
            }
        }
        rest = &rest[step..];
    }
    if let Mode::LineComment = mode {
        mode = Mode::Code;
    }
    (out, mode)
}

/// `r#"` opens raw text: its length and the number of `#`. Not so in `var"`, after a letter.
fn raw_text(rest: &str, before: &str) -> Option<(usize, usize)> {
    let after = rest.strip_prefix('r')?;
    let inside_a_name = before.ends_with(|c: char| c.is_alphanumeric() || c == '_');
    if inside_a_name && !before.ends_with('b') && !before.ends_with('c') {
        return None;
    }
    let hashes = after.len() - after.trim_start_matches('#').len();
    after[hashes..].starts_with('"').then_some((hashes + 2, hashes))
}

/// `'x'` or `'\n'`: its length. A lifetime has no second quote there.
fn character(rest: &str) -> Option<usize> {
    let inner = rest.strip_prefix('\'')?;
    if let Some(escape) = inner.strip_prefix('\\') {
        let first = escape.chars().next()?.len_utf8();
        let end = escape[first..].find('\'')?;
        return Some(3 + first + end);
    }
    let length = inner.chars().next()?.len_utf8();
    inner[length..].starts_with('\'').then_some(length + 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(text: &str) -> Vec<String> {
        lines(text).into_iter().map(|line| line.code).collect()
    }

    fn comments(text: &str) -> Vec<String> {
        lines(text).into_iter().map(|line| line.comment).collect()
    }

    #[test]
    fn a_comment_is_not_code() {
        assert_eq!(code("let a = 1; // unsafe"), ["let a = 1; "]);
        assert_eq!(comments("let a = 1; // unsafe"), [" unsafe"]);
        assert_eq!(code("a /* b /* c */ d */ e"), ["a  e"]);
        assert_eq!(comments("/* one\ntwo */ three"), [" one", "two "]);
    }

    #[test]
    fn text_is_neither() {
        assert_eq!(code(r#"f("// unsafe \" still", 1)"#), ["f(, 1)"]);
        assert_eq!(code("r#\"unsafe \" // \"# + b"), [" + b"]);
        assert_eq!(code("br\"unsafe\" + b"), ["b + b"]);
        assert_eq!(code("\"one\nunsafe\" two"), ["", " two"]);
        assert_eq!(comments(r#"f("// no comment")"#), [""]);
    }

    #[test]
    fn a_quote_character_opens_no_text_and_a_lifetime_is_code() {
        assert_eq!(code(r#"f('"', b'\'', '\u{1F600}', x)"#), ["f(, b, , x)"]);
        assert_eq!(code("fn f<'a>(x: &'a str) // c"), ["fn f<'a>(x: &'a str) "]);
    }
}
