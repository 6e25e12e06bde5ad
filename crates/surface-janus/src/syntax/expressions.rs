//! Tokens to expressions, by precedence climbing.
//!
//! Room: surface.
//!
//! From loose to tight: `or`, `and`, `not`, comparisons (which do not chain), `+ -`, `* / %`, `-x` and `await x`, calls.
//!
//! # Invariant
//! No tree is higher than `EXPRESSION_HEIGHT_MAX`, also that of a long sum, which leans to the left: what recurses along trees later does not overflow the stack.

use super::ast::{Binary, Expr, ExprKind, Unary};
use super::parser::{Failed, Parsed, Parser};
use super::token::{Kind, Mark, Word};
use crate::limits::EXPRESSION_HEIGHT_MAX;

/// An expression, and how high its tree is.
type Measured = (Expr, usize);

const OR: u8 = 1;
const AND: u8 = 2;
const NOT: u8 = 3;
const COMPARE: u8 = 4;
const SUM: u8 = 5;
const PRODUCT: u8 = 6;
const PREFIX: u8 = 7;

/// An operator between two operands.
#[derive(Clone, Copy)]
enum Infix {
    Or,
    And,
    Binary(Binary),
}

fn infix(kind: &Kind) -> Option<(Infix, u8)> {
    let binary = |operator, power| Some((Infix::Binary(operator), power));
    match kind {
        Kind::Word(Word::Or) => Some((Infix::Or, OR)),
        Kind::Word(Word::And) => Some((Infix::And, AND)),
        Kind::Mark(mark) => match mark {
            Mark::Equal => binary(Binary::Equal, COMPARE),
            Mark::NotEqual => binary(Binary::NotEqual, COMPARE),
            Mark::Less => binary(Binary::Less, COMPARE),
            Mark::LessEqual => binary(Binary::LessEqual, COMPARE),
            Mark::Greater => binary(Binary::Greater, COMPARE),
            Mark::GreaterEqual => binary(Binary::GreaterEqual, COMPARE),
            Mark::Plus => binary(Binary::Add, SUM),
            Mark::Minus => binary(Binary::Subtract, SUM),
            Mark::Star => binary(Binary::Multiply, PRODUCT),
            Mark::Slash => binary(Binary::Divide, PRODUCT),
            Mark::Percent => binary(Binary::Remainder, PRODUCT),
            _ => None,
        },
        _ => None,
    }
}

impl Parser<'_> {
    pub(super) fn expression(&mut self) -> Parsed<Expr> {
        Ok(self.climb(0, 0)?.0)
    }

    /// An expression of operators that bind at least as tightly as `least`, `above` levels below its root.
    fn climb(&mut self, least: u8, above: usize) -> Parsed<Measured> {
        self.measure(above)?;
        let (mut left, mut height) = self.prefix(above)?;
        while let Some((operator, power)) = infix(self.peek()) {
            if power < least {
                break;
            }
            self.advance();
            self.skip_newlines();
            let (right, right_height) = self.climb(power + 1, above + 1)?;
            height = height.max(right_height) + 1;
            self.measure(above + height)?;
            let at = left.at.start..right.at.end;
            let (a, b) = (Box::new(left), Box::new(right));
            let kind = match operator {
                Infix::Or => ExprKind::Or(a, b),
                Infix::And => ExprKind::And(a, b),
                Infix::Binary(operator) => ExprKind::Binary(operator, a, b),
            };
            left = Expr { kind, at };
            if power == COMPARE && infix(self.peek()).is_some_and(|(_, next)| next == COMPARE) {
                let at = self.at();
                self.report.add(&at, "comparisons do not chain", "write `a < b and b < c`");
                return Err(Failed);
            }
        }
        Ok((left, height))
    }

    fn measure(&mut self, height: usize) -> Parsed<()> {
        if height < EXPRESSION_HEIGHT_MAX {
            return Ok(());
        }
        let at = self.at();
        let message = format!("the expression is nested more than {EXPRESSION_HEIGHT_MAX} deep, the limit");
        self.report.add(&at, message, "give a part of it a name with `let`");
        Err(Failed)
    }

    fn prefix(&mut self, above: usize) -> Parsed<Measured> {
        let start = self.at().start;
        let (power, wrap): (u8, fn(Box<Expr>) -> ExprKind) = match self.peek() {
            Kind::Word(Word::Not) => (NOT, |operand| ExprKind::Unary(Unary::Not, operand)),
            Kind::Word(Word::Await) => (PREFIX, ExprKind::Await),
            Kind::Mark(Mark::Minus) => {
                self.advance();
                // A number with its sign is one: the smallest has no positive counterpart.
                if let Kind::Int(value) = *self.peek() {
                    let at = start..self.advance().at.end;
                    // At most 2^63, whose negative is the smallest.
                    let kind = ExprKind::Int((value as i64).wrapping_neg());
                    return self.postfix(Expr { kind, at }, above);
                }
                let (operand, height) = self.climb(PREFIX, above + 1)?;
                let at = start..operand.at.end;
                return Ok((Expr { kind: ExprKind::Unary(Unary::Negate, Box::new(operand)), at }, height + 1));
            }
            _ => return self.primary(above),
        };
        self.advance();
        let (operand, height) = self.climb(power, above + 1)?;
        let at = start..operand.at.end;
        Ok((Expr { kind: wrap(Box::new(operand)), at }, height + 1))
    }

    fn primary(&mut self, above: usize) -> Parsed<Measured> {
        let at = self.at();
        let kind = match self.peek() {
            Kind::Int(_) => ExprKind::Int(self.integer()?),
            Kind::Text(text) => ExprKind::Text(text.clone()),
            Kind::Word(Word::True) => ExprKind::Bool(true),
            Kind::Word(Word::False) => ExprKind::Bool(false),
            Kind::Word(Word::Spawn) => return self.spawn(above),
            Kind::Mark(Mark::Open) => {
                self.advance();
                let (inner, height) = self.climb(0, above + 1)?;
                self.expect_mark(Mark::Close, "every `(` is closed by a `)`")?;
                return self.postfix_of((inner, height), above);
            }
            Kind::Name(_) => {
                let name = self.name("a name")?;
                if !self.take_mark(Mark::Open) {
                    let kind = ExprKind::Name(name.text);
                    return self.postfix(Expr { kind, at }, above);
                }
                let (arguments, height) = self.arguments(above)?;
                let at = at.start..self.end_of_last();
                let kind = ExprKind::Call(name, arguments);
                return self.postfix_of((Expr { kind, at }, height + 1), above);
            }
            _ => return self.fail("an expression", "write a number, a name, a call or `(…)`"),
        };
        if !matches!(kind, ExprKind::Int(_)) {
            self.advance();
        }
        self.postfix(Expr { kind, at }, above)
    }

    fn spawn(&mut self, above: usize) -> Parsed<Measured> {
        let start = self.advance().at.start;
        let shape = "write `spawn f(x)`: a call of a function is spawned";
        let name = self.name("the function to spawn")?;
        self.expect_mark(Mark::Open, shape)?;
        let (arguments, height) = self.arguments(above)?;
        let at = start..self.end_of_last();
        Ok((Expr { kind: ExprKind::Spawn(name, arguments), at }, height + 1))
    }

    /// Up to the closing parenthesis; the highest tree among them.
    fn arguments(&mut self, above: usize) -> Parsed<(Vec<Expr>, usize)> {
        let (mut found, mut highest) = (Vec::new(), 0);
        while !self.take_mark(Mark::Close) {
            let (argument, height) = self.climb(0, above + 1)?;
            highest = highest.max(height);
            found.push(argument);
            if *self.peek() != Kind::Mark(Mark::Close) {
                self.expect_mark(Mark::Comma, "arguments are separated by `,` and end with `)`")?;
            }
        }
        Ok((found, highest))
    }

    fn postfix(&mut self, expr: Expr, above: usize) -> Parsed<Measured> {
        self.postfix_of((expr, 1), above)
    }

    /// Calls of operations: `channel.send(1)`.
    fn postfix_of(&mut self, (mut expr, mut height): Measured, above: usize) -> Parsed<Measured> {
        while self.take_mark(Mark::Dot) {
            let method = self.name("the operation of the channel")?;
            self.expect_mark(Mark::Open, "an operation is called: `c.recv()`, `c.send(1)`")?;
            let (arguments, highest) = self.arguments(above)?;
            height = height.max(highest) + 1;
            self.measure(above + height)?;
            let at = expr.at.start..self.end_of_last();
            expr = Expr { kind: ExprKind::Method(Box::new(expr), method, arguments), at };
        }
        Ok((expr, height))
    }
}
