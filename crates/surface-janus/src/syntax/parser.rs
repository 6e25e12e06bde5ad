//! Tokens to functions and blocks, by recursive descent.
//!
//! Room: surface.
//!
//! # Invariant
//! A statement that cannot be read is reported once and left out with the block it opens; what follows is read as if it were not there.
//!
//! # Why it holds
//! A failed statement skips to the end of its line. If that line opens a block, the block is skipped to its `end`, by counting and not by recursion.

use surface_text::{Report, Span};

use super::ast::{Block, File, Function, Name, Pragma};
use super::lexer;
use super::token::{Kind, Mark, Token, Word};
use crate::limits::{FUNCTIONS_MAX, NESTING_MAX, PARAMETERS_MAX};

/// It was reported.
pub(super) struct Failed;
pub(super) type Parsed<T> = Result<T, Failed>;

/// The tree of a text.
pub(crate) fn parse(text: &str, report: &mut Report) -> File {
    let tokens = lexer::tokens(text, report);
    let mut parser = Parser { tokens, next: 0, depth: 0, report };
    parser.file()
}

pub(super) struct Parser<'r> {
    tokens: Vec<Token>,
    pub(super) next: usize,
    depth: usize,
    pub(super) report: &'r mut Report,
}

/// What ends a block.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Closer {
    End,
    Brace,
}

impl Parser<'_> {
    // ---- tokens ----

    pub(super) fn peek(&self) -> &Kind {
        &self.tokens[self.next].kind
    }

    pub(super) fn at(&self) -> Span {
        self.tokens[self.next].at.clone()
    }

    pub(super) fn advance(&mut self) -> Token {
        let token = self.tokens[self.next].clone();
        // The last token is the end, and stays.
        self.next = (self.next + 1).min(self.tokens.len() - 1);
        token
    }

    /// Where the token before the next one ends.
    pub(super) fn end_of_last(&self) -> usize {
        self.tokens[self.next.saturating_sub(1)].at.end
    }

    pub(super) fn is_word(&self, word: Word) -> bool {
        *self.peek() == Kind::Word(word)
    }

    pub(super) fn is_mark(&self, mark: Mark) -> bool {
        *self.peek() == Kind::Mark(mark)
    }

    pub(super) fn take_word(&mut self, word: Word) -> bool {
        let is_there = self.is_word(word);
        if is_there {
            self.advance();
        }
        is_there
    }

    pub(super) fn take_mark(&mut self, mark: Mark) -> bool {
        let is_there = self.is_mark(mark);
        if is_there {
            self.advance();
        }
        is_there
    }

    pub(super) fn fail<T>(&mut self, wanted: &str, help: &str) -> Parsed<T> {
        let message = format!("{wanted} is missing: found {}", lexer::short(&self.peek().describe()));
        let at = self.at();
        self.report.add(&at, message, help);
        Err(Failed)
    }

    pub(super) fn expect_mark(&mut self, mark: Mark, help: &str) -> Parsed<()> {
        if self.take_mark(mark) { Ok(()) } else { self.fail(&format!("`{}`", mark.text()), help) }
    }

    pub(super) fn expect_word(&mut self, word: Word, help: &str) -> Parsed<()> {
        if self.take_word(word) { Ok(()) } else { self.fail(&format!("`{}`", word.text()), help) }
    }

    pub(super) fn name(&mut self, what: &str) -> Parsed<Name> {
        match self.peek() {
            Kind::Name(_) => {
                let Token { kind: Kind::Name(text), at } = self.advance() else { unreachable!("it was looked at") };
                Ok(Name { text, at })
            }
            Kind::Word(word) => {
                let help = format!("`{}` is a word of the language; choose another name", word.text());
                self.fail(what, &help)
            }
            _ => self.fail(what, "a name has letters, digits and `_`, and begins with a letter"),
        }
    }

    pub(super) fn skip_newlines(&mut self) {
        while *self.peek() == Kind::Newline {
            self.advance();
        }
    }

    // ---- the file ----

    fn file(&mut self) -> File {
        let mut file = File::default();
        loop {
            self.skip_newlines();
            match self.peek() {
                Kind::End => return file,
                Kind::Mark(Mark::PragmaOpen) => _ = self.pragmas(&mut file.pragmas),
                Kind::Word(Word::Func | Word::Async) => {
                    let start = self.at();
                    let Ok(function) = self.function() else {
                        self.skip_to_function();
                        continue;
                    };
                    if file.functions.len() == FUNCTIONS_MAX {
                        let message = format!("more than {FUNCTIONS_MAX} functions, the limit");
                        self.report.add(&start, message, "divide the program into several");
                        return file;
                    }
                    file.functions.push(function);
                }
                other => {
                    let message = format!("{} stands outside every function", lexer::short(&other.describe()));
                    let at = self.at();
                    self.report.add(
                        &at,
                        message,
                        "a program is a list of `func name() do … end`; the first to run is `main`",
                    );
                    self.advance();
                    self.skip_to_function();
                }
            }
        }
    }

    /// To the next line that begins a function or a pragma.
    fn skip_to_function(&mut self) {
        loop {
            let starts_line = self.next == 0 || self.tokens[self.next - 1].kind == Kind::Newline;
            match self.peek() {
                Kind::End => return,
                Kind::Word(Word::Func | Word::Async) | Kind::Mark(Mark::PragmaOpen) if starts_line => return,
                _ => _ = self.advance(),
            }
        }
    }

    fn pragmas(&mut self, found: &mut Vec<Pragma>) -> Parsed<()> {
        let help = "a pragma is `{.profile: service.}`, at the top of the file";
        self.advance();
        loop {
            let key = self.name("the name of a pragma");
            let pragma = key.and_then(|key| {
                self.expect_mark(Mark::Colon, help)?;
                // Also a word of the language.
                let value = match *self.peek() {
                    Kind::Word(word) => Name { text: word.text().into(), at: self.advance().at },
                    _ => self.name("the value of a pragma")?,
                };
                Ok(Pragma { key, value })
            });
            let Ok(pragma) = pragma else {
                self.skip_to_function();
                return Err(Failed);
            };
            found.push(pragma);
            if self.take_mark(Mark::PragmaClose) {
                return Ok(());
            }
            if self.expect_mark(Mark::Comma, help).is_err() {
                self.skip_to_function();
                return Err(Failed);
            }
        }
    }

    fn function(&mut self) -> Parsed<Function> {
        let is_async = self.take_word(Word::Async);
        self.expect_word(Word::Func, "write `async func name() do … end`")?;
        let name = self.name("the name of the function")?;
        let shape = "a function is `func name(a: i64, b: bool) -> i64 do … end`";
        self.expect_mark(Mark::Open, shape)?;
        let mut parameters = Vec::new();
        while !self.take_mark(Mark::Close) {
            let name = self.name("a parameter")?;
            self.expect_mark(Mark::Colon, "a parameter has a type: `name: i64`, `name: bool` or `name: chan`")?;
            let ty = self.name("a type")?;
            if parameters.len() == PARAMETERS_MAX {
                let message = format!("more than {PARAMETERS_MAX} parameters, the limit");
                self.report.add(&name.at, message, "pass values through a channel");
                return Err(Failed);
            }
            parameters.push((name, ty));
            if !self.is_mark(Mark::Close) {
                self.expect_mark(Mark::Comma, shape)?;
            }
        }
        let result = if self.take_mark(Mark::Arrow) { Some(self.name("the type of the result")?) } else { None };
        let (body, end) = self.block(shape)?;
        Ok(Function { name, is_async, parameters, result, body, end })
    }

    // ---- blocks ----

    /// `do … end`; also where the end is.
    pub(super) fn block(&mut self, help: &str) -> Parsed<(Block, Span)> {
        let open = self.at();
        self.expect_word(Word::Do, help)?;
        let body = self.statements(Closer::End);
        let end = self.at();
        if !self.take_word(Word::End) {
            self.report.add(&open, "this `do` has no `end`", "every `do` is closed by an `end`");
            return Err(Failed);
        }
        Ok((body, end))
    }

    pub(super) fn ends_block(&self, closer: Closer) -> bool {
        match self.peek() {
            Kind::Word(Word::End | Word::Else | Word::Case | Word::Timeout | Word::Default) | Kind::End => true,
            Kind::Mark(Mark::BraceClose) => closer == Closer::Brace,
            // A function does not begin inside another: an `end` is missing before it.
            Kind::Word(Word::Func | Word::Async) => true,
            _ => false,
        }
    }

    pub(super) fn statements(&mut self, closer: Closer) -> Block {
        let mut found = Vec::new();
        loop {
            self.skip_newlines();
            if self.ends_block(closer) {
                return found;
            }
            let start = self.next;
            let parsed = self.nested(|parser| parser.statement());
            match parsed {
                Ok(statement) => {
                    found.push(statement);
                    if *self.peek() != Kind::Newline && !self.ends_block(closer) {
                        let help = "one statement a line, or `;` between two";
                        let Err(Failed) = self.fail::<()>("the end of the statement", help) else { continue };
                        self.recover(self.next);
                    }
                }
                Err(Failed) => self.recover(start),
            }
        }
    }

    pub(super) fn nested<T>(&mut self, parse: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        if self.depth == NESTING_MAX {
            let at = self.at();
            self.report.add(
                &at,
                format!("blocks are nested more than {NESTING_MAX} deep, the limit"),
                "move the inner part into a function",
            );
            return Err(Failed);
        }
        self.depth += 1;
        let parsed = parse(self);
        self.depth -= 1;
        parsed
    }

    /// Skips the rest of a statement that began at token `start`: its line, and the block that the line opens.
    pub(super) fn recover(&mut self, start: usize) {
        let opens = [Word::If, Word::While, Word::For, Word::Match, Word::Nursery, Word::Select];
        let is_opener = matches!(self.tokens[start].kind, Kind::Word(word) if opens.contains(&word));
        let read = &self.tokens[start..self.next];
        // `if x` and no `do`: what follows is its block all the same.
        let lacks_do = is_opener && !read.iter().any(|token| token.kind == Kind::Word(Word::Do));
        // What it went on to look for in the next line is the next statement.
        let is_next_line = self.next > start && self.tokens[self.next - 1].kind == Kind::Newline;
        if is_next_line && matches!(self.peek(), Kind::Word(_)) {
            return;
        }
        let mut open = 0_usize;
        while !matches!(self.peek(), Kind::Newline | Kind::End) {
            match self.peek() {
                Kind::Word(Word::Func) => return,
                Kind::Word(Word::End) if open == 0 && self.next > start => return,
                Kind::Word(Word::Do) | Kind::Mark(Mark::BraceOpen) => open += 1,
                Kind::Word(Word::End) | Kind::Mark(Mark::BraceClose) => open = open.saturating_sub(1),
                _ => {}
            }
            self.advance();
        }
        if open == 0 && lacks_do {
            open = 1;
        }
        self.skip_blocks(open);
    }

    /// To behind the `end`s of so many blocks whose `do` is behind us.
    fn skip_blocks(&mut self, mut open: usize) {
        let mut is_else_if = false;
        while open > 0 {
            match self.peek() {
                Kind::End | Kind::Word(Word::Func) => return,
                Kind::Word(Word::Else) => {
                    self.advance();
                    is_else_if = self.is_word(Word::If);
                    continue;
                }
                Kind::Word(Word::Do) if is_else_if => is_else_if = false,
                Kind::Word(Word::Do) | Kind::Mark(Mark::BraceOpen) => open += 1,
                Kind::Word(Word::End) | Kind::Mark(Mark::BraceClose) => open -= 1,
                _ => {}
            }
            self.advance();
        }
    }
}
