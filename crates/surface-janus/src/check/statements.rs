//! Checks statements.
//!
//! Room: decisions.

use surface_text::Span;

use super::tree::{self, Case, Pattern, Scalar, Statement, StatementKind, Type};
use super::{Checker, variable_type};
use crate::syntax::ast::{self, StatementKind as Written};

impl Checker<'_> {
    /// None if anything in it is wrong.
    pub(super) fn block(&mut self, block: &ast::Block) -> Option<tree::Block> {
        self.scopes.open();
        self.owners.push(false);
        let checked: Vec<_> = block.iter().map(|statement| self.statement(statement)).collect();
        let owns_nursery = self.owners.pop().unwrap_or_default();
        self.scopes.close();
        Some(tree::Block { statements: checked.into_iter().collect::<Option<_>>()?, owns_nursery })
    }

    fn statement(&mut self, statement: &ast::Statement) -> Option<Statement> {
        let at = statement.at.clone();
        let kind = match &statement.kind {
            Written::Bind { name, is_var, ty, value } => {
                let value = self.value(value);
                let wanted = ty.as_ref().map(|ty| variable_type(ty, self.report));
                let given = value.as_ref().map(|value| value.ty);
                if let (Some(wanted), Some(value)) = (wanted, &value) {
                    self.expect(value, wanted);
                }
                if *is_var && matches!(given, Some(Type::Task(_))) {
                    self.report.add(
                        &name.at,
                        "a task cannot be in a `var`",
                        "write `let`: a task belongs to its nursery",
                    );
                }
                // Also if the value is wrong, so that the name is known.
                let local = self.declare(name, wanted.or(given).unwrap_or(Type::I64), *is_var);
                StatementKind::Set(local, value?)
            }
            Written::Assign { name, value } => {
                let value = self.value(value);
                let (local, ty) = self.assigned(name)?;
                let value = value?;
                self.expect(&value, ty);
                StatementKind::Set(local, value)
            }
            Written::Expr(expr) => self.expression_statement(expr)?,
            Written::If { condition, then, otherwise } => {
                let condition = self.condition(condition);
                let (then, otherwise) = (self.block(then), self.block(otherwise));
                StatementKind::If { condition: condition?, then: then?, otherwise: otherwise? }
            }
            Written::While { condition, body } => {
                let condition = self.condition(condition);
                let body = self.loop_body(body, |_| ());
                StatementKind::While { condition: condition?, body: body?.1 }
            }
            Written::Range { name, from, to, inclusive, body } => {
                let (from, to) = (self.typed(from, Type::I64), self.typed(to, Type::I64));
                let (local, body) = self.loop_body(body, |checker| checker.declare(name, Type::I64, false))?;
                StatementKind::Range { local, from: from?, to: to?, inclusive: *inclusive, body }
            }
            Written::Drain { name, channel, body } => {
                let channel = self.typed(channel, Type::Chan);
                let (local, body) = self.loop_body(body, |checker| checker.declare(name, Type::I64, false))?;
                StatementKind::Drain { local, channel: channel?, body }
            }
            Written::Match { value, arms } => self.match_on(value, arms, &at)?,
            Written::Return(value) => self.return_from(value.as_ref(), &at)?,
            Written::Break => self.leave_loop("break", StatementKind::Break, &at),
            Written::Continue => self.leave_loop("continue", StatementKind::Continue, &at),
            Written::Defer(body) => StatementKind::Defer(self.defer(body, &at)?),
            Written::Nursery(body) => {
                self.refuse_in_core(&at, "a nursery");
                if self.in_defer {
                    self.refuse_in_defer(&at, "a nursery");
                }
                self.nurseries += 1;
                let body = self.block(body);
                self.nurseries -= 1;
                StatementKind::Block(tree::Block { owns_nursery: true, ..body? })
            }
            Written::Yield => {
                self.refuse_in_core(&at, "`yield`");
                StatementKind::Yield
            }
            Written::Select { cases, timeout, default } => self.select(cases, timeout, default, &at)?,
            Written::Block(body) => StatementKind::Block(self.block(body)?),
        };
        Some(Statement { kind, at })
    }

    fn condition(&mut self, expr: &ast::Expr) -> Option<tree::Expr> {
        self.typed(expr, Type::Bool)
    }

    /// A loop's body, in which `declare` declares its variable.
    fn loop_body<T>(&mut self, body: &ast::Block, declare: impl FnOnce(&mut Self) -> T) -> Option<(T, tree::Block)> {
        self.scopes.open();
        let declared = declare(self);
        self.loops += 1;
        let body = self.block(body);
        self.loops -= 1;
        self.scopes.close();
        Some((declared, body?))
    }

    fn leave_loop(&mut self, word: &str, kind: StatementKind, at: &Span) -> StatementKind {
        if self.loops == 0 {
            let help =
                if self.in_defer { "a `defer` cannot leave what it belongs to" } else { "remove it, or use `return`" };
            self.report.add(at, format!("`{word}` outside a loop"), help);
        }
        kind
    }

    fn return_from(&mut self, value: Option<&ast::Expr>, at: &Span) -> Option<StatementKind> {
        let result = self.signatures.all[self.id].result;
        let value = value.map(|value| self.value(value));
        if self.in_defer {
            self.refuse_in_defer(at, "`return`");
        }
        let value = match value {
            Some(value) => Some(value?),
            None => None,
        };
        match (&value, result) {
            (Some(value), Scalar::Unit) => {
                let help = "write `-> i64` after its parameters, or `return` alone";
                self.report.add(&value.at, "the function returns nothing", help);
            }
            (Some(value), result) => self.expect(value, result.into()),
            (None, Scalar::Unit) => {}
            (None, result) => {
                let message = format!("the function returns {}", Type::from(result).name());
                self.report.add(at, message, "write the value behind `return`");
            }
        }
        Some(StatementKind::Return(value))
    }

    fn defer(&mut self, body: &ast::Block, at: &Span) -> Option<tree::Block> {
        if self.in_defer {
            self.refuse_in_defer(at, "another `defer`");
        }
        let loops = std::mem::replace(&mut self.loops, 0);
        let was_in_defer = std::mem::replace(&mut self.in_defer, true);
        let body = self.block(body);
        self.in_defer = was_in_defer;
        self.loops = loops;
        body
    }

    pub(super) fn refuse_in_defer(&mut self, at: &Span, what: &str) {
        let help = "a `defer` runs when its block has ended, and its tasks with it: it starts none, and does not leave";
        self.report.add(at, format!("{what} in a `defer`"), help);
    }

    fn match_on(&mut self, value: &ast::Expr, arms: &[ast::Arm], at: &Span) -> Option<StatementKind> {
        let value = self.value(value);
        let ty = value.as_ref().map(|value| value.ty);
        if let Some(value) = value.as_ref().filter(|value| !matches!(value.ty, Type::I64 | Type::Bool)) {
            let message = format!("{} cannot be matched", value.ty.name());
            self.report.add(&value.at, message, "match an `i64` or a `bool`");
            return None;
        }
        let mut checked = Vec::new();
        let mut otherwise = None;
        let mut seen = [false; 2];
        for arm in arms {
            if otherwise.is_some() {
                self.report.add(&arm.at, "no value gets to this arm", "move it before `_`, or remove it");
            }
            let patterns = self.patterns(arm, ty, &mut seen);
            let body = self.block(&arm.body);
            match patterns {
                None => {}
                Some(patterns) if patterns.is_empty() => otherwise = Some(body),
                Some(patterns) => checked.push((patterns, body)),
            }
        }
        let arms: Option<Vec<_>> = checked.into_iter().map(|(patterns, body)| Some((patterns, body?))).collect();
        let mut arms = arms?;
        let otherwise = match otherwise {
            Some(body) => body?,
            // Both are there: the last takes what is left.
            None if ty == Some(Type::Bool) && seen == [true; 2] => arms.pop().map(|(_, body)| body).unwrap_or_default(),
            None => {
                let help = "add an arm `_ => …` for all other values";
                self.report.add(at, "the `match` does not say what becomes of every value", help);
                return None;
            }
        };
        Some(StatementKind::Match { value: value?, arms, otherwise })
    }

    /// The patterns of an arm; none at all for `_`.
    fn patterns(&mut self, arm: &ast::Arm, ty: Option<Type>, seen: &mut [bool; 2]) -> Option<Vec<Pattern>> {
        let mut found = Vec::new();
        let mut is_any = false;
        for pattern in &arm.patterns {
            let (of, from, to) = match *pattern {
                ast::Pattern::Any => {
                    is_any = true;
                    continue;
                }
                ast::Pattern::Int(value) => (Type::I64, value, value),
                ast::Pattern::Span(from, to) => (Type::I64, from, to),
                ast::Pattern::Bool(value) => {
                    seen[usize::from(value)] = true;
                    (Type::Bool, value.into(), value.into())
                }
            };
            if ty.is_some_and(|ty| ty != of) {
                let message = format!("the pattern is {}, the value is not", of.name());
                self.report.add(&arm.at, message, "compare values of one type");
                return None;
            }
            if from > to {
                self.report.add(&arm.at, format!("{from}..{to} has no value"), "write the smaller number first");
                return None;
            }
            found.push(Pattern { from, to });
        }
        Some(if is_any { Vec::new() } else { found })
    }

    fn select(
        &mut self,
        cases: &[ast::Case],
        timeout: &Option<(ast::Expr, ast::Block)>,
        default: &Option<ast::Block>,
        at: &Span,
    ) -> Option<StatementKind> {
        self.refuse_in_core(at, "`select`");
        let cases: Vec<_> = cases
            .iter()
            .map(|case| {
                let channel = self.typed(&case.channel, Type::Chan);
                let sent = case.sent.as_ref().map(|sent| self.typed(sent, Type::I64));
                self.scopes.open();
                let local = case.name.as_ref().map(|name| self.declare(name, Type::I64, false));
                let body = self.block(&case.body);
                self.scopes.close();
                let sent = match sent {
                    Some(sent) => Some(sent?),
                    None => None,
                };
                Some(Case { local, channel: channel?, sent, body: body? })
            })
            .collect();
        let timeout = timeout.as_ref().map(|(time, body)| (self.typed(time, Type::I64), self.block(body)));
        let default = default.as_ref().map(|body| self.block(body));
        let timeout = match timeout {
            Some((time, body)) => Some((time?, body?)),
            None => None,
        };
        let default = match default {
            Some(body) => Some(body?),
            None => None,
        };
        Some(StatementKind::Select { cases: cases.into_iter().collect::<Option<_>>()?, timeout, default })
    }
}

/// Whether no way through a block reaches its end.
pub(super) fn always_leaves(block: &ast::Block) -> bool {
    block.iter().any(|statement| match &statement.kind {
        Written::Return(_) | Written::Break | Written::Continue => true,
        Written::If { then, otherwise, .. } => always_leaves(then) && always_leaves(otherwise),
        Written::While { condition, body } => matches!(condition.kind, ast::ExprKind::Bool(true)) && !breaks(body),
        Written::Match { arms, .. } => arms.iter().all(|arm| always_leaves(&arm.body)),
        Written::Nursery(body) | Written::Block(body) => always_leaves(body),
        Written::Select { cases, timeout, default } => {
            cases.iter().all(|case| always_leaves(&case.body))
                && timeout.as_ref().is_none_or(|(_, body)| always_leaves(body))
                && default.as_ref().is_none_or(always_leaves)
        }
        _ => false,
    })
}

/// Whether a block has a `break` for the loop it is the body of.
fn breaks(block: &ast::Block) -> bool {
    block.iter().any(|statement| match &statement.kind {
        Written::Break => true,
        Written::If { then, otherwise, .. } => breaks(then) || breaks(otherwise),
        Written::Match { arms, .. } => arms.iter().any(|arm| breaks(&arm.body)),
        Written::Nursery(body) | Written::Block(body) => breaks(body),
        Written::Select { cases, timeout, default } => {
            cases.iter().any(|case| breaks(&case.body))
                || timeout.as_ref().is_some_and(|(_, body)| breaks(body))
                || default.as_ref().is_some_and(breaks)
        }
        _ => false,
    })
}
