//! Tokens: the words of the language.
//!
//! Room: values.

use surface_text::Span;

/// A token and where it is.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Token {
    pub(super) kind: Kind,
    pub(super) at: Span,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Kind {
    Name(String),
    /// Not yet with its sign: 2^63 is there for `-9223372036854775808`.
    Int(u64),
    Text(String),
    Word(Word),
    Mark(Mark),
    /// A line ended, or `;`.
    Newline,
    End,
}

macro_rules! spelled {
    ($(#[$doc:meta])* $name:ident { $($variant:ident = $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(super) enum $name { $($variant,)* }

        impl $name {
            pub(super) const ALL: &[($name, &str)] = &[$(($name::$variant, $text),)*];

            pub(super) fn text(self) -> &'static str {
                match self { $($name::$variant => $text,)* }
            }
        }
    };
}

spelled! {
    /// Words that cannot be names.
    Word {
        And = "and", Async = "async", Await = "await", Break = "break", Case = "case", Continue = "continue", Default = "default",
        Defer = "defer", Do = "do", Else = "else", End = "end", False = "false", For = "for", Func = "func", If = "if", In = "in",
        Let = "let", Match = "match", Not = "not", Nursery = "nursery", Or = "or", Return = "return", Select = "select",
        Spawn = "spawn", Timeout = "timeout", True = "true", Var = "var", While = "while", Yield = "yield",
    }
}

spelled! {
    /// Longer ones first: the lexer takes the first that fits.
    Mark {
        PragmaOpen = "{.", PragmaClose = ".}", RangeBelow = "..<", Range = "..", Arrow = "->", FatArrow = "=>", Equal = "==", NotEqual = "!=",
        LessEqual = "<=", GreaterEqual = ">=", Less = "<", Greater = ">", Assign = "=", Plus = "+", Minus = "-", Star = "*", Slash = "/",
        Percent = "%", Open = "(", Close = ")", BraceOpen = "{", BraceClose = "}", Comma = ",", Colon = ":", Dot = ".",
    }
}

impl Kind {
    /// As a person would name it.
    pub(super) fn describe(&self) -> String {
        match self {
            Kind::Name(name) => format!("`{name}`"),
            Kind::Int(value) => format!("`{value}`"),
            Kind::Text(_) => "a text".into(),
            Kind::Word(word) => format!("`{}`", word.text()),
            Kind::Mark(mark) => format!("`{}`", mark.text()),
            Kind::Newline => "the end of the line".into(),
            Kind::End => "the end of the file".into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{Mark, Word};

    const GUIDE: &str = include_str!("../../../../docs/janus.md");

    /// Types are names, and no words of the language.
    const TYPES: [&str; 3] = ["i64", "bool", "chan"];

    fn is_word(text: &str) -> bool {
        text.starts_with(|c: char| c.is_ascii_lowercase())
    }

    /// What stands in quotes in the grammar.
    fn quoted() -> BTreeSet<&'static str> {
        let grammar = GUIDE.split("```ebnf\n").nth(1).and_then(|rest| rest.split("\n```").next()).unwrap();
        // Up to the rules for characters: their quotes are parts of tokens.
        let rules = grammar.split("\nNAME ").next().unwrap();
        let lines = rules.lines().map(|line| line.split("(*").next().unwrap());
        lines.flat_map(|line| line.split('"').skip(1).step_by(2)).collect()
    }

    #[test]
    fn the_grammar_has_every_word_of_the_lexer_and_no_other() {
        let words: BTreeSet<&str> = Word::ALL.iter().map(|(_, text)| *text).collect();
        let in_grammar: BTreeSet<&str> =
            quoted().into_iter().filter(|text| is_word(text) && !TYPES.contains(text)).collect();
        assert_eq!(in_grammar, words);
        let listed = GUIDE.lines().find_map(|line| line.strip_prefix("Words of the language: `")).unwrap();
        assert_eq!(listed.trim_end_matches("`.").split(' ').collect::<BTreeSet<_>>(), words);
    }

    #[test]
    fn the_grammar_has_every_mark_of_the_lexer_and_no_other() {
        let marks: BTreeSet<&str> = Mark::ALL.iter().map(|(_, text)| *text).collect();
        let in_grammar: BTreeSet<&str> = quoted().into_iter().filter(|text| !is_word(text) && *text != "_").collect();
        assert_eq!(in_grammar, marks);
    }
}
