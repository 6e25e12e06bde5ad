//! Tokens to statements.
//!
//! Room: surface.

use super::ast::{Arm, Block, Case, Expr, ExprKind, Name, Pattern, Statement, StatementKind};
use super::parser::{Closer, Failed, Parsed, Parser};
use super::token::{Kind, Mark, Word};
use crate::limits::{ELSE_IF_MAX, SELECT_CASES_MAX};

impl Parser<'_> {
    pub(super) fn statement(&mut self) -> Parsed<Statement> {
        let at = self.at();
        let kind = match self.peek() {
            Kind::Word(Word::Let) => self.bind(false)?,
            Kind::Word(Word::Var) => self.bind(true)?,
            Kind::Word(Word::If) => self.condition()?,
            Kind::Word(Word::While) => {
                self.advance();
                let condition = self.expression()?;
                let (body, _) = self.block("a loop is `while condition do … end`")?;
                StatementKind::While { condition, body }
            }
            Kind::Word(Word::For) => self.loop_over()?,
            Kind::Word(Word::Match) => self.match_on()?,
            Kind::Word(Word::Return) => {
                self.advance();
                let is_bare = matches!(self.peek(), Kind::Newline) || self.ends_block(Closer::Brace);
                StatementKind::Return(if is_bare { None } else { Some(self.expression()?) })
            }
            Kind::Word(Word::Break) => self.alone(StatementKind::Break),
            Kind::Word(Word::Continue) => self.alone(StatementKind::Continue),
            Kind::Word(Word::Yield) => self.alone(StatementKind::Yield),
            Kind::Word(Word::Defer) => {
                self.advance();
                StatementKind::Defer(self.one_or_block("`defer close_it()` or `defer do … end`")?)
            }
            Kind::Word(Word::Nursery) => self.nursery()?,
            Kind::Word(Word::Select) => self.select()?,
            Kind::Word(Word::Do) => StatementKind::Block(self.block("a block is `do … end`")?.0),
            _ => self.expression_or_assignment()?,
        };
        Ok(Statement { kind, at })
    }

    fn alone(&mut self, kind: StatementKind) -> StatementKind {
        self.advance();
        kind
    }

    /// One statement, or a block.
    fn one_or_block(&mut self, help: &str) -> Parsed<Block> {
        if self.is_word(Word::Do) {
            return Ok(self.block(help)?.0);
        }
        Ok(vec![self.nested(|parser| parser.statement())?])
    }

    fn bind(&mut self, is_var: bool) -> Parsed<StatementKind> {
        self.advance();
        let name = self.name("the name of a variable")?;
        let ty = if self.take_mark(Mark::Colon) { Some(self.name("a type")?) } else { None };
        self.expect_mark(Mark::Assign, "a variable begins with a value: `let n = 1`")?;
        Ok(StatementKind::Bind { name, is_var, ty, value: self.expression()? })
    }

    fn expression_or_assignment(&mut self) -> Parsed<StatementKind> {
        let expr = self.expression()?;
        if !self.is_mark(Mark::Assign) {
            return Ok(StatementKind::Expr(expr));
        }
        let ExprKind::Name(text) = expr.kind else {
            self.report.add(
                &expr.at,
                "this is not a variable, and cannot be assigned to",
                "assign to the name of a `var`",
            );
            return Err(Failed);
        };
        self.advance();
        Ok(StatementKind::Assign { name: Name { text, at: expr.at }, value: self.expression()? })
    }

    /// `if`, and every `else if` behind it: a loop, so a long chain is not deep.
    fn condition(&mut self) -> Parsed<StatementKind> {
        let shape = "a condition is `if condition do … else … end`";
        let mut arms = Vec::new();
        let mut last = Vec::new();
        let open = self.at();
        loop {
            let at = self.at();
            self.advance(); // `if`
            let condition = self.expression()?;
            self.expect_word(Word::Do, shape)?;
            arms.push((condition, self.statements(Closer::End), at));
            if !self.take_word(Word::Else) {
                break;
            }
            if !self.is_word(Word::If) {
                last = self.statements(Closer::End);
                break;
            }
        }
        if !self.take_word(Word::End) {
            self.report.add(&open, "this `if` has no `end`", shape);
            return Err(Failed);
        }
        if arms.len() - 1 > ELSE_IF_MAX {
            let message = format!("more than {ELSE_IF_MAX} `else if` in a row, the limit");
            self.report.add(&open, message, "use `match`, or divide it");
            return Err(Failed);
        }
        let mut otherwise = last;
        let mut kind = None;
        for (condition, then, at) in arms.into_iter().rev() {
            if let Some((kind, at)) = kind.take() {
                otherwise = vec![Statement { kind, at }];
            }
            kind = Some((StatementKind::If { condition, then, otherwise: std::mem::take(&mut otherwise) }, at));
        }
        kind.map(|(kind, _)| kind).ok_or(Failed)
    }

    fn loop_over(&mut self) -> Parsed<StatementKind> {
        let shape = "a loop is `for i in 1..10 do … end`, `for i in 0..<n do … end` or `for value in channel do … end`";
        self.advance();
        let name = self.name("the name of the loop's variable")?;
        self.expect_word(Word::In, shape)?;
        let from = self.expression()?;
        let inclusive = match self.peek() {
            Kind::Mark(Mark::Range) => true,
            Kind::Mark(Mark::RangeBelow) => false,
            _ => {
                let (body, _) = self.block(shape)?;
                return Ok(StatementKind::Drain { name, channel: from, body });
            }
        };
        self.advance();
        let to = self.expression()?;
        let (body, _) = self.block(shape)?;
        Ok(StatementKind::Range { name, from, to, inclusive, body })
    }

    fn match_on(&mut self) -> Parsed<StatementKind> {
        let shape = "an arm is `1, 2 => statement`, `3..9 => do … end` or `_ => statement`";
        let open = self.at();
        self.advance();
        let value = self.expression()?;
        self.expect_word(Word::Do, "write `match value do`, then the arms")?;
        let mut arms = Vec::new();
        loop {
            self.skip_newlines();
            if self.take_word(Word::End) {
                return Ok(StatementKind::Match { value, arms });
            }
            if matches!(self.peek(), Kind::End | Kind::Word(Word::Func)) {
                self.report.add(&open, "this `match` has no `end`", "close it by an `end` of its own");
                return Err(Failed);
            }
            let start = self.next;
            match self.arm(shape) {
                Ok(arm) => arms.push(arm),
                Err(Failed) => self.recover(start),
            }
        }
    }

    fn arm(&mut self, shape: &str) -> Parsed<Arm> {
        let at = self.at();
        let mut patterns = vec![self.pattern(shape)?];
        while self.take_mark(Mark::Comma) {
            patterns.push(self.pattern(shape)?);
        }
        self.expect_mark(Mark::FatArrow, shape)?;
        self.skip_newlines();
        Ok(Arm { patterns, body: self.one_or_block(shape)?, at })
    }

    fn pattern(&mut self, shape: &str) -> Parsed<Pattern> {
        match self.peek() {
            Kind::Name(name) if name == "_" => {
                self.advance();
                Ok(Pattern::Any)
            }
            Kind::Word(word @ (Word::True | Word::False)) => {
                let value = *word == Word::True;
                self.advance();
                Ok(Pattern::Bool(value))
            }
            Kind::Int(_) | Kind::Mark(Mark::Minus) => {
                let from = self.integer()?;
                if self.take_mark(Mark::Range) {
                    return Ok(Pattern::Span(from, self.integer()?));
                }
                Ok(Pattern::Int(from))
            }
            _ => self.fail("a pattern", shape),
        }
    }

    /// A number with its sign.
    pub(super) fn integer(&mut self) -> Parsed<i64> {
        let start = self.at();
        let negative = self.take_mark(Mark::Minus);
        let Kind::Int(value) = *self.peek() else { return self.fail("a number", "write digits, as `42` or `-1`") };
        let at = start.start..self.advance().at.end;
        let signed = if negative { i64::try_from(-i128::from(value)) } else { i64::try_from(value) };
        signed.map_err(|_| {
            let message = format!("{value} is above {}, the largest i64", i64::MAX);
            self.report.add(&at, message, "use a smaller number");
            Failed
        })
    }

    fn nursery(&mut self) -> Parsed<StatementKind> {
        self.advance();
        if !self.is_mark(Mark::BraceOpen) {
            return Ok(StatementKind::Nursery(self.block("a nursery is `nursery do … end`")?.0));
        }
        let open = self.advance().at;
        let body = self.statements(Closer::Brace);
        if !self.take_mark(Mark::BraceClose) {
            self.report.add(&open, "this `{` has no `}`", "close the nursery with `}`");
            return Err(Failed);
        }
        Ok(StatementKind::Nursery(body))
    }

    fn select(&mut self) -> Parsed<StatementKind> {
        let shape = "a select has `case v = c.recv() do … end`, `case c.send(1) do … end`, and `timeout 100 do … end` or `default do … end`";
        let open = self.at();
        self.advance();
        self.expect_word(Word::Do, shape)?;
        let (mut cases, mut timeout, mut default) = (Vec::new(), None, None);
        loop {
            self.skip_newlines();
            let at = self.at();
            match self.peek() {
                Kind::Word(Word::End) => break,
                Kind::Word(Word::Case) => {
                    let case = self.case(shape)?;
                    if cases.len() == SELECT_CASES_MAX {
                        let message = format!("more than {SELECT_CASES_MAX} cases, the limit");
                        self.report.add(&at, message, "let several senders use one channel");
                        return Err(Failed);
                    }
                    cases.push(case);
                }
                Kind::Word(Word::Timeout) if timeout.is_none() => {
                    self.advance();
                    let milliseconds = self.expression()?;
                    timeout = Some((milliseconds, self.block(shape)?.0));
                }
                Kind::Word(Word::Default) if default.is_none() => {
                    self.advance();
                    default = Some(self.block(shape)?.0);
                }
                _ => return self.fail("`case`, `timeout`, `default` or `end`, each once but `case`,", shape),
            }
        }
        self.advance();
        if timeout.is_some() && default.is_some() {
            self.report.add(&open, "a select has `timeout` or `default`, not both", "with `default` it never waits");
        }
        if cases.is_empty() && timeout.is_none() && default.is_none() {
            self.report.add(&open, "a select without cases waits for nothing", shape);
        }
        Ok(StatementKind::Select { cases, timeout, default })
    }

    fn case(&mut self, shape: &str) -> Parsed<Case> {
        self.advance();
        let mut operation = self.expression()?;
        let mut name = None;
        if self.take_mark(Mark::Assign) {
            let ExprKind::Name(text) = operation.kind else {
                self.report.add(&operation.at, "this is not a name for what is received", shape);
                return Err(Failed);
            };
            name = Some(Name { text, at: operation.at });
            operation = self.expression()?;
        }
        let (body, _) = self.block(shape)?;
        let (channel, sent) = self.operation(operation, name.is_some(), shape)?;
        Ok(Case { name, channel, sent, body })
    }

    /// The channel of a case, and what is sent.
    fn operation(&mut self, operation: Expr, receives: bool, shape: &str) -> Parsed<(Expr, Option<Expr>)> {
        let at = operation.at.clone();
        if let ExprKind::Method(channel, method, mut arguments) = operation.kind {
            match (method.text.as_str(), arguments.len()) {
                ("recv", 0) => return Ok((*channel, None)),
                ("send", 1) if !receives => return Ok((*channel, arguments.pop())),
                _ => {}
            }
        }
        self.report.add(&at, "a case receives or sends, and nothing else", shape);
        Err(Failed)
    }
}
