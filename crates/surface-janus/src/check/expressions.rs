//! Checks expressions.
//!
//! Room: decisions.

use surface_text::{Span, did_you_mean};

use super::tree::{Binary, Expr, ExprKind, Local, Operation, Piece, Scalar, StatementKind, Type, Unary};
use super::{BUILT_IN, Checker, Profile};
use crate::syntax::ast::{self, ExprKind as Written, Name};

impl Checker<'_> {
    /// An expression of any type but none.
    pub(super) fn value(&mut self, expr: &ast::Expr) -> Option<Expr> {
        let checked = self.expression(expr)?;
        if checked.ty == Type::Unit {
            self.report.add(&expr.at, "this gives no value", "call a function that returns one: `func f() -> i64`");
            return None;
        }
        Some(checked)
    }

    pub(super) fn typed(&mut self, expr: &ast::Expr, ty: Type) -> Option<Expr> {
        let checked = self.value(expr)?;
        self.expect(&checked, ty);
        Some(checked)
    }

    pub(super) fn expect(&mut self, expr: &Expr, ty: Type) {
        if expr.ty != ty {
            let message = format!("this is {}, where {} is needed", expr.ty.name(), ty.name());
            let help = match (expr.ty, ty) {
                (Type::I64, Type::Bool) => "compare it: `x != 0`",
                (Type::Task(_), _) => "`await` the task for its value",
                (Type::Bool, Type::I64) => "use `if` to choose a number",
                _ => "change the value, or the type",
            };
            self.report.add(&expr.at, message, help);
        }
    }

    /// A variable that is assigned to.
    pub(super) fn assigned(&mut self, name: &Name) -> Option<(Local, Type)> {
        let (local, ty, is_var) = self.variable(&name.text, &name.at)?;
        if !is_var {
            let message = format!("`{}` keeps its value", name.text);
            self.report.add(&name.at, message, format!("declare it with `var {} = …` to assign to it", name.text));
        }
        Some((local, ty))
    }

    fn variable(&mut self, name: &str, at: &Span) -> Option<(Local, Type, bool)> {
        let found = self.scopes.find(name);
        if found.is_none() && !self.report.is_full() {
            let help =
                did_you_mean(name, self.scopes.names()).unwrap_or_else(|| match self.signatures.by_name.get(name) {
                    Some(_) => format!("it is a function: call it, `{name}(…)`"),
                    None => format!("declare it before: `let {name} = …`"),
                });
            self.report.add(at, format!("there is no variable `{name}` here"), help);
        } else if found.is_none() {
            self.report.add(at, "", "");
        }
        found
    }

    /// A statement that is an expression: its effect counts.
    pub(super) fn expression_statement(&mut self, expr: &ast::Expr) -> Option<StatementKind> {
        match &expr.kind {
            Written::Call(name, arguments) if name.text == "print" => return self.print(arguments),
            Written::Call(..) | Written::Method(..) | Written::Spawn(..) | Written::Await(_) => {}
            _ => {
                self.report.add(&expr.at, "this does nothing", "give it a name with `let`, or remove it");
                return None;
            }
        }
        Some(StatementKind::Expr(self.expression(expr)?))
    }

    fn print(&mut self, arguments: &[ast::Expr]) -> Option<StatementKind> {
        let pieces: Vec<_> = arguments
            .iter()
            .map(|argument| match &argument.kind {
                Written::Text(text) => Some(Piece::Text(text.clone())),
                _ => {
                    let value = self.value(argument)?;
                    if !matches!(value.ty, Type::I64 | Type::Bool) {
                        let message = format!("{} cannot be printed", value.ty.name());
                        self.report.add(&value.at, message, "print an `i64`, a `bool` or a text");
                    }
                    Some(Piece::Value(value))
                }
            })
            .collect();
        Some(StatementKind::Print(pieces.into_iter().collect::<Option<_>>()?))
    }

    fn expression(&mut self, expr: &ast::Expr) -> Option<Expr> {
        let at = &expr.at;
        let (kind, ty) = match &expr.kind {
            Written::Int(value) => (ExprKind::Int(*value), Type::I64),
            Written::Bool(value) => (ExprKind::Bool(*value), Type::Bool),
            Written::Text(_) => {
                self.report.add(at, "a text is for `print` alone", "write `print(\"…\")`");
                return None;
            }
            Written::Name(name) => {
                let (local, ty, _) = self.variable(name, at)?;
                (ExprKind::Local(local), ty)
            }
            Written::Unary(operator, operand) => {
                let ty = if *operator == Unary::Not { Type::Bool } else { Type::I64 };
                (ExprKind::Unary(*operator, Box::new(self.typed(operand, ty)?)), ty)
            }
            Written::Binary(operator, left, right) => self.binary(*operator, left, right)?,
            Written::And(left, right) => {
                let (left, right) = (self.typed(left, Type::Bool), self.typed(right, Type::Bool));
                (ExprKind::And(Box::new(left?), Box::new(right?)), Type::Bool)
            }
            Written::Or(left, right) => {
                let (left, right) = (self.typed(left, Type::Bool), self.typed(right, Type::Bool));
                (ExprKind::Or(Box::new(left?), Box::new(right?)), Type::Bool)
            }
            Written::Call(name, arguments) => self.call(name, arguments, at)?,
            Written::Method(channel, method, arguments) => self.operation(channel, method, arguments)?,
            Written::Spawn(name, arguments) => self.spawn(name, arguments, at)?,
            Written::Await(task) => self.await_task(task, at)?,
        };
        Some(Expr { kind, ty, at: at.clone() })
    }

    fn binary(&mut self, operator: Binary, left: &ast::Expr, right: &ast::Expr) -> Option<(ExprKind, Type)> {
        use Binary as B;
        let (left, right) = match operator {
            B::Equal | B::NotEqual => {
                let (left, right) = (self.value(left), self.value(right));
                let (left, right) = (left?, right?);
                if matches!(left.ty, Type::I64 | Type::Bool) {
                    self.expect(&right, left.ty);
                } else {
                    let message = format!("{} cannot be compared", left.ty.name());
                    self.report.add(&left.at, message, "compare `i64` or `bool`");
                }
                (left, right)
            }
            _ => {
                let (left, right) = (self.typed(left, Type::I64), self.typed(right, Type::I64));
                (left?, right?)
            }
        };
        let ty = match operator {
            B::Add | B::Subtract | B::Multiply | B::Divide | B::Remainder => Type::I64,
            _ => Type::Bool,
        };
        Some((ExprKind::Binary(operator, Box::new(left), Box::new(right)), ty))
    }

    /// A function of this name, and its arguments.
    fn callee(&mut self, name: &Name, arguments: &[ast::Expr], at: &Span) -> Option<(usize, Vec<Expr>)> {
        let signatures = self.signatures;
        let Some(&id) = signatures.by_name.get(&name.text) else {
            if self.report.is_full() {
                self.report.add(&name.at, "", "");
                return None;
            }
            let known = signatures.by_name.keys().map(String::as_str).chain(BUILT_IN);
            let help =
                did_you_mean(&name.text, known).unwrap_or_else(|| format!("write `func {}() do … end`", name.text));
            self.report.add(&name.at, format!("there is no function `{}`", name.text), help);
            return None;
        };
        let wanted = &signatures.all[id].parameters;
        if wanted.len() != arguments.len() {
            let message = format!("`{}` takes {} arguments, here are {}", name.text, wanted.len(), arguments.len());
            let types: Vec<_> = wanted.iter().map(|ty| ty.name()).collect();
            self.report.add(at, message, format!("write `{}({})`", name.text, types.join(", ")));
            return None;
        }
        let checked: Vec<_> = arguments.iter().zip(wanted).map(|(argument, ty)| self.typed(argument, *ty)).collect();
        Some((id, checked.into_iter().collect::<Option<_>>()?))
    }

    fn call(&mut self, name: &Name, arguments: &[ast::Expr], at: &Span) -> Option<(ExprKind, Type)> {
        match name.text.as_str() {
            "print" => {
                self.report.add(at, "`print` gives no value", "let it stand alone");
                return None;
            }
            "channel" => return self.channel(arguments, at),
            _ => {}
        }
        let (id, arguments) = self.callee(name, arguments, at)?;
        let signature = &self.signatures.all[id];
        let result = signature.result;
        if !signature.is_async {
            return Some((ExprKind::Call(id, arguments), result.into()));
        }
        if self.in_defer {
            self.refuse_in_defer(at, "a call of an async function");
        }
        if self.nurseries == 0 {
            if !self.may_await() {
                let message = format!(
                    "N1001: `{}` is async, and no nursery waits for the task that calling it starts",
                    name.text
                );
                self.report.add(at, message, "call it in `nursery do … end`, or in an async function");
            }
            if let Some(owner) = self.owners.last_mut() {
                *owner = true;
            }
        }
        self.needs_spawn(at);
        self.spawned[id] = true;
        Some((ExprKind::Start(id, arguments), Type::Task(result)))
    }

    fn channel(&mut self, arguments: &[ast::Expr], at: &Span) -> Option<(ExprKind, Type)> {
        self.refuse_in_core(at, "a channel");
        let [capacity] = arguments else {
            let message = format!("`channel` takes one argument, here are {}", arguments.len());
            self.report.add(at, message, "write `channel(16)`: so many values wait in it");
            return None;
        };
        let capacity = self.typed(capacity, Type::I64)?;
        Some((ExprKind::Channel(Box::new(capacity)), Type::Chan))
    }

    fn operation(&mut self, channel: &ast::Expr, method: &Name, arguments: &[ast::Expr]) -> Option<(ExprKind, Type)> {
        let channel = self.typed(channel, Type::Chan);
        let Some(&(operation, name, count, ty)) = Operation::ALL.iter().find(|(_, name, ..)| *name == method.text)
        else {
            let names = Operation::ALL.map(|(_, name, ..)| name);
            let help = did_you_mean(&method.text, names).unwrap_or_else(|| format!("there are {}", names.join(", ")));
            self.report.add(&method.at, format!("a channel has no operation `{}`", method.text), help);
            return None;
        };
        if arguments.len() != count {
            let help = match operation {
                Operation::TryRecv => "write `c.try_recv(otherwise)`: what it gives if nothing is there",
                Operation::Send | Operation::TrySend => "write the value to send",
                _ => "write `()`",
            };
            let message = format!("`{name}` takes {count} arguments, here are {}", arguments.len());
            self.report.add(&method.at, message, help);
            return None;
        }
        let arguments: Vec<_> = arguments.iter().map(|argument| self.typed(argument, Type::I64)).collect();
        let arguments = arguments.into_iter().collect::<Option<_>>()?;
        Some((ExprKind::Operation(operation, Box::new(channel?), arguments), ty))
    }

    fn spawn(&mut self, name: &Name, arguments: &[ast::Expr], at: &Span) -> Option<(ExprKind, Type)> {
        self.refuse_in_core(at, "`spawn`");
        if self.in_defer {
            self.refuse_in_defer(at, "`spawn`");
        } else if self.nurseries == 0 {
            let help = "no task is left alone: put it into `nursery do … end`, which waits for it";
            self.report.add(at, "N1001: `spawn` outside a nursery", help);
        }
        self.needs_spawn(at);
        if BUILT_IN.contains(&name.text.as_str()) {
            self.report.add(&name.at, format!("`{}` cannot be spawned", name.text), "spawn a function of the program");
            return None;
        }
        let (id, arguments) = self.callee(name, arguments, at)?;
        self.spawned[id] = true;
        Some((ExprKind::Spawn(id, arguments), Type::Task(self.signatures.all[id].result)))
    }

    fn needs_spawn(&mut self, at: &Span) {
        if self.rules.profile == Profile::Sovereign && !self.rules.needs_spawn {
            let help =
                "say so at the top, `{.profile: sovereign, needs: spawn.}`; the host grants it with a `CapSpawn`";
            self.report.add(at, "N1004: a program of `:sovereign` starts a task without a capability", help);
        }
    }

    fn await_task(&mut self, task: &ast::Expr, at: &Span) -> Option<(ExprKind, Type)> {
        self.refuse_in_core(at, "`await`");
        if self.in_defer {
            self.refuse_in_defer(at, "`await`");
        } else if !self.may_await() {
            let name = &self.signatures.all[self.id].name;
            let help = format!("write `async func {name}`; `main` may await without");
            self.report.add(at, "N1002: `await` outside an async function", help);
        }
        let task = self.value(task)?;
        let Type::Task(result) = task.ty else {
            let message = format!("{} cannot be awaited", task.ty.name());
            self.report.add(&task.at, message, "await what `spawn f(x)` or a call of an async function gives");
            return None;
        };
        let ty = match result {
            Scalar::Unit => Type::Unit,
            other => other.into(),
        };
        Some((ExprKind::Await(Box::new(task)), ty))
    }
}
