//! Evaluates the tree of a program as it is written, without checker, lowering and IR: what the interpreter is compared with.
//!
//! Room: tests.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use sched_tasks::{Budget, NurseryOptions, Reason};
use surface_text::Report;

use crate::generate::{self, Kind};
use crate::limits::PRINTED_BYTES;
use crate::syntax::ast::{Binary, Block, Expr, ExprKind, File, Pattern, StatementKind, Unary};
use crate::syntax::parse;
use crate::{Engine, FaultKind, Host, Options, Program, Value};

/// Why evaluating stopped.
#[derive(Clone, Debug, PartialEq)]
enum Stop {
    Overflow,
    DivisionByZero,
    /// The budget is spent.
    Spent,
}

/// How a statement ended.
enum Flow {
    Next,
    Break,
    Continue,
    Return(Option<i64>),
}

struct Evaluator<'a> {
    file: &'a File,
    /// Each line with what was spent when it was printed.
    lines: Vec<(String, u64)>,
    ops: u64,
    budget: u64,
    is_spent: bool,
}

/// The variables of a call, block by block. A bool is 0 or 1, and known by its type to no one but `print`.
type Scopes = Vec<HashMap<String, Shown>>;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Shown {
    Int(i64),
    Bool(bool),
}

impl Shown {
    fn raw(self) -> i64 {
        match self {
            Shown::Int(value) => value,
            Shown::Bool(value) => value.into(),
        }
    }
}

impl Evaluator<'_> {
    fn pay(&mut self) -> Result<(), Stop> {
        if self.ops == self.budget || self.is_spent {
            self.is_spent = true;
            return Err(Stop::Spent);
        }
        self.ops += 1;
        Ok(())
    }

    fn call(&mut self, name: &str, arguments: Vec<Shown>) -> Result<Option<Shown>, Stop> {
        self.pay()?;
        let function = self.file.functions.iter().find(|function| function.name.text == name).unwrap();
        let parameters = function.parameters.iter().map(|(name, _)| name.text.clone());
        let mut scopes = vec![parameters.zip(arguments).collect()];
        let is_bool = function.result.as_ref().is_some_and(|ty| ty.text == "bool");
        Ok(match self.block(&function.body, &mut scopes)? {
            Flow::Return(Some(value)) => Some(if is_bool { Shown::Bool(value != 0) } else { Shown::Int(value) }),
            _ => None,
        })
    }

    fn block(&mut self, block: &Block, scopes: &mut Scopes) -> Result<Flow, Stop> {
        scopes.push(HashMap::new());
        let mut deferred = Vec::new();
        let mut ended = Ok(Flow::Next);
        for statement in block {
            if let StatementKind::Defer(body) = &statement.kind {
                deferred.push(body);
                continue;
            }
            ended = self.statement(&statement.kind, scopes);
            if !matches!(ended, Ok(Flow::Next)) {
                break;
            }
        }
        while let Some(body) = deferred.pop() {
            // The first error counts.
            if let Err(stop) = self.block(body, scopes)
                && ended.is_ok()
            {
                ended = Err(stop);
            }
        }
        scopes.pop();
        ended
    }

    /// False if the loop is left.
    fn round(&mut self, body: &Block, scopes: &mut Scopes) -> Result<Option<Flow>, Stop> {
        match self.block(body, scopes)? {
            Flow::Break => return Ok(Some(Flow::Next)),
            Flow::Return(value) => return Ok(Some(Flow::Return(value))),
            Flow::Next | Flow::Continue => {}
        }
        self.pay()?;
        Ok(None)
    }

    fn statement(&mut self, statement: &StatementKind, scopes: &mut Scopes) -> Result<Flow, Stop> {
        match statement {
            StatementKind::Bind { name, value, .. } => {
                let value = self.expression(value, scopes)?;
                scopes.last_mut().unwrap().insert(name.text.clone(), value);
            }
            StatementKind::Assign { name, value } => {
                let value = self.expression(value, scopes)?;
                let scope = scopes.iter_mut().rev().find(|scope| scope.contains_key(&name.text)).unwrap();
                scope.insert(name.text.clone(), value);
            }
            StatementKind::Expr(Expr { kind: ExprKind::Call(name, arguments), .. }) if name.text == "print" => {
                let mut words = Vec::new();
                for argument in arguments {
                    words.push(match &argument.kind {
                        ExprKind::Text(text) => text.clone(),
                        _ => match self.expression(argument, scopes)? {
                            Shown::Int(value) => value.to_string(),
                            Shown::Bool(value) => value.to_string(),
                        },
                    });
                }
                let line = words.join(" ");
                for _ in 0..line.len().div_ceil(PRINTED_BYTES as usize).max(1) {
                    self.pay()?;
                }
                self.lines.push((line, self.ops));
            }
            StatementKind::Expr(Expr { kind: ExprKind::Call(name, arguments), .. }) => {
                let arguments = arguments.iter().map(|argument| self.expression(argument, scopes));
                let arguments = arguments.collect::<Result<_, _>>()?;
                self.call(&name.text, arguments)?;
            }
            StatementKind::If { condition, then, otherwise } => {
                let way = if self.expression(condition, scopes)?.raw() != 0 { then } else { otherwise };
                return self.block(way, scopes);
            }
            StatementKind::While { condition, body } => {
                while self.expression(condition, scopes)?.raw() != 0 {
                    if let Some(flow) = self.round(body, scopes)? {
                        return Ok(flow);
                    }
                }
            }
            StatementKind::Range { name, from, to, inclusive, body } => {
                let (from, to) = (self.expression(from, scopes)?.raw(), self.expression(to, scopes)?.raw());
                let to = i128::from(to) + i128::from(*inclusive);
                for index in i128::from(from)..to {
                    scopes.push(HashMap::from([(name.text.clone(), Shown::Int(index as i64))]));
                    let left = self.round(body, scopes);
                    scopes.pop();
                    if let Some(flow) = left? {
                        return Ok(flow);
                    }
                }
            }
            StatementKind::Match { value, arms } => {
                let value = self.expression(value, scopes)?.raw();
                let fits = |pattern: &Pattern| match *pattern {
                    Pattern::Any => true,
                    Pattern::Int(only) => value == only,
                    Pattern::Bool(only) => value == i64::from(only),
                    Pattern::Span(from, to) => (from..=to).contains(&value),
                };
                let arm = arms.iter().find(|arm| arm.patterns.iter().any(fits)).unwrap();
                return self.block(&arm.body, scopes);
            }
            StatementKind::Return(value) => {
                let value = value.as_ref().map(|value| self.expression(value, scopes)).transpose()?;
                return Ok(Flow::Return(value.map(Shown::raw)));
            }
            StatementKind::Break => return Ok(Flow::Break),
            StatementKind::Continue => return Ok(Flow::Continue),
            StatementKind::Block(body) => return self.block(body, scopes),
            other => panic!("{other:?} is not sequential"),
        }
        Ok(Flow::Next)
    }

    fn expression(&mut self, expr: &Expr, scopes: &mut Scopes) -> Result<Shown, Stop> {
        let overflow = |value: Option<i64>| value.map(Shown::Int).ok_or(Stop::Overflow);
        match &expr.kind {
            ExprKind::Int(value) => Ok(Shown::Int(*value)),
            ExprKind::Bool(value) => Ok(Shown::Bool(*value)),
            ExprKind::Name(name) => Ok(*scopes.iter().rev().find_map(|scope| scope.get(name)).unwrap()),
            ExprKind::Unary(Unary::Negate, operand) => overflow(self.expression(operand, scopes)?.raw().checked_neg()),
            ExprKind::Unary(Unary::Not, operand) => Ok(Shown::Bool(self.expression(operand, scopes)?.raw() == 0)),
            ExprKind::And(left, right) => match self.expression(left, scopes)?.raw() {
                0 => Ok(Shown::Bool(false)),
                _ => self.expression(right, scopes),
            },
            ExprKind::Or(left, right) => match self.expression(left, scopes)?.raw() {
                0 => self.expression(right, scopes),
                _ => Ok(Shown::Bool(true)),
            },
            ExprKind::Binary(operator, left, right) => {
                let (a, b) = (self.expression(left, scopes)?.raw(), self.expression(right, scopes)?.raw());
                match operator {
                    Binary::Add => overflow(a.checked_add(b)),
                    Binary::Subtract => overflow(a.checked_sub(b)),
                    Binary::Multiply => overflow(a.checked_mul(b)),
                    Binary::Divide | Binary::Remainder if b == 0 => Err(Stop::DivisionByZero),
                    Binary::Divide => overflow(a.checked_div(b)),
                    Binary::Remainder => Ok(Shown::Int((i128::from(a) % i128::from(b)) as i64)),
                    Binary::Equal => Ok(Shown::Bool(a == b)),
                    Binary::NotEqual => Ok(Shown::Bool(a != b)),
                    Binary::Less => Ok(Shown::Bool(a < b)),
                    Binary::LessEqual => Ok(Shown::Bool(a <= b)),
                    Binary::Greater => Ok(Shown::Bool(a > b)),
                    Binary::GreaterEqual => Ok(Shown::Bool(a >= b)),
                }
            }
            ExprKind::Call(name, arguments) => {
                let arguments = arguments.iter().map(|argument| self.expression(argument, scopes));
                let arguments = arguments.collect::<Result<_, _>>()?;
                Ok(self.call(&name.text, arguments)?.unwrap())
            }
            other => panic!("{other:?} is not sequential"),
        }
    }
}

/// What a program prints, with what was spent at each line; how it ends, and what it spent in all.
#[derive(Debug, PartialEq)]
struct Seen {
    lines: Vec<(String, u64)>,
    ended: Result<i64, Stop>,
    ops: u64,
}

fn evaluated(source: &str, budget: u64) -> Seen {
    let mut report = Report::default();
    let file = parse(source, &mut report);
    assert!(report.is_empty());
    let mut evaluator = Evaluator { file: &file, lines: Vec::new(), ops: 0, budget, is_spent: false };
    let main = file.functions.iter().find(|function| function.name.text == "main").unwrap();
    let ended = evaluator.block(&main.body, &mut Vec::new());
    let ended = ended.map(|flow| match flow {
        Flow::Return(Some(value)) => value,
        _ => 0,
    });
    // One that was refused more has spent what it had, whatever it did after.
    let ended = if evaluator.is_spent { Err(Stop::Spent) } else { ended };
    Seen { lines: evaluator.lines, ended, ops: evaluator.ops }
}

fn interpreted(source: &str, options: &Options, budget: u64, interval: u32) -> Seen {
    let program = Program::compile_with(source, options).unwrap_or_else(|problems| panic!("{problems}\n{source}"));
    let lines = Arc::new(Mutex::new(Vec::new()));
    let seen = lines.clone();
    let host = Host::new().engine(Engine::Interpreter).yield_interval(interval).output(move |line| {
        seen.lock().unwrap().push((line.text.to_owned(), line.spent.ops));
    });
    let budget = Budget::ops(budget).spawns(1_000).channel_ops(100_000);
    let outcome = program.run_main(&[], &host, NurseryOptions::new().task_budget(budget));
    let ended = match outcome.result {
        Ok(Value::Int(value)) => Ok(value),
        Ok(_) => Ok(0),
        Err(failure) => Err(match (failure.error.reason(), failure.fault.map(|fault| fault.kind)) {
            (Reason::BudgetExhausted { .. }, _) => Stop::Spent,
            (_, Some(FaultKind::Overflow)) => Stop::Overflow,
            (_, Some(FaultKind::DivisionByZero)) => Stop::DivisionByZero,
            _ => panic!("{}\n{source}", failure.error),
        }),
    };
    let lines = lines.lock().unwrap().clone();
    Seen { lines, ended, ops: outcome.spent.ops }
}

#[test]
fn the_interpreter_does_and_spends_what_the_tree_says() {
    let (mut ends, mut stopped) = ([0; 4], 0);
    for seed in 0..400 {
        let source = generate::program(seed, Kind::Sequential);
        let whole = evaluated(&source, u64::MAX);
        // All of it; and a budget that is spent somewhere in between.
        for budget in [10_000_000, whole.ops / 2, seed % 17] {
            let (budget, interval) = (budget.max(1), 1 + (seed % 7 * 11) as u32);
            let wanted = evaluated(&source, budget);
            for options in [Options::new(), Options::new().unmerged()] {
                let run = interpreted(&source, &options, budget, interval);
                assert_eq!(run, wanted, "seed {seed}, budget {budget}, interval {interval}, {options:?}\n{source}");
            }
            stopped += usize::from(wanted.ended == Err(Stop::Spent));
        }
        ends[match whole.ended {
            Ok(_) => 0,
            Err(Stop::Overflow) => 1,
            Err(Stop::DivisionByZero) => 2,
            Err(Stop::Spent) => 3,
        }] += 1;
    }
    // The programs are not all alike.
    assert!(ends[0] > 100 && ends[1] > 15 && ends[2] > 3 && ends[3] == 0, "{ends:?}");
    assert!(stopped > 100, "{stopped}");
}
