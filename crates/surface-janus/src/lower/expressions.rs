//! Lowers expressions.
//!
//! Room: decisions.
//!
//! # Invariant
//! A register that is the target of an expression is written by its last instruction alone: what it held before is there for its operands, and if one fails.

use super::build::Builder;
use super::type_of;
use crate::check::tree::{Binary, Expr, ExprKind, Operation, Type as Checked, Unary};
use crate::ir::{Arithmetic, Callee, Comparison, End, FuncId, Op, Reg, Type};

impl<'a> Builder<'a> {
    /// The register that has the value: that of a variable, or an intermediate one. A variable does not change while an expression is evaluated.
    pub(super) fn expression(&mut self, expr: &'a Expr) -> Reg {
        if let ExprKind::Local(local) = expr.kind {
            return Reg(local as u32);
        }
        let to = self.temporary(type_of(expr.ty));
        self.expression_into(expr, to);
        to
    }

    /// A register that nothing but this has: what runs before it is used may change variables.
    pub(super) fn kept(&mut self, expr: &'a Expr) -> Reg {
        let to = self.temporary(type_of(expr.ty));
        self.expression_into(expr, to);
        to
    }

    /// For the sake of its effect.
    pub(super) fn effect(&mut self, expr: &'a Expr) {
        match (expr.ty, &expr.kind) {
            (Checked::Unit, _) | (_, ExprKind::Call(..) | ExprKind::Await(_)) => self.evaluate(expr, None),
            _ => _ = self.expression(expr),
        }
    }

    pub(super) fn expression_into(&mut self, expr: &'a Expr, to: Reg) {
        self.evaluate(expr, Some(to));
    }

    fn callee(&mut self, function: usize, arguments: &'a [Expr]) -> Callee {
        let arguments = arguments.iter().map(|argument| self.expression(argument)).collect();
        Callee { function: FuncId(function as u32), arguments }
    }

    /// Without a target only calls, awaits and operations are evaluated.
    fn evaluate(&mut self, expr: &'a Expr, target: Option<Reg>) {
        let to = target.unwrap_or(Reg(u32::MAX));
        let op = match &expr.kind {
            ExprKind::Int(value) => Op::Const(to, *value),
            ExprKind::Bool(value) => Op::ConstBool(to, *value),
            ExprKind::Local(local) => Op::Copy(to, Reg(*local as u32)),
            ExprKind::Unary(operator, operand) => {
                let operand = self.expression(operand);
                match operator {
                    Unary::Negate => Op::Neg(to, operand),
                    Unary::Not => Op::Not(to, operand),
                }
            }
            ExprKind::Binary(operator, left, right) => {
                let (left, right) = (self.expression(left), self.expression(right));
                binary(*operator, to, left, right)
            }
            ExprKind::And(left, right) => return self.short_circuit(left, right, true, to),
            ExprKind::Or(left, right) => return self.short_circuit(left, right, false, to),
            ExprKind::Call(function, arguments) => Op::Call(target, self.callee(*function, arguments)),
            ExprKind::Spawn(function, arguments) => Op::Spawn(to, self.callee(*function, arguments)),
            ExprKind::Start(function, arguments) => Op::AsyncCall(to, self.callee(*function, arguments)),
            ExprKind::Await(task) => Op::Await(target, self.expression(task)),
            ExprKind::Channel(capacity) => Op::ChannelCreate(to, self.expression(capacity)),
            ExprKind::Operation(operation, channel, arguments) => {
                let channel = self.expression(channel);
                let argument = arguments.first().map(|argument| self.expression(argument)).unwrap_or(to);
                match operation {
                    Operation::Send => Op::ChannelSend(channel, argument),
                    Operation::Recv => Op::ChannelRecv(to, channel),
                    Operation::TrySend => Op::ChannelTrySend(to, channel, argument),
                    Operation::TryRecv => Op::ChannelTryRecv(to, channel, argument),
                    Operation::Close => Op::ChannelClose(channel),
                    Operation::IsClosed => Op::ChannelIsClosed(to, channel),
                    Operation::Len => Op::ChannelLen(to, channel),
                }
            }
        };
        self.line_of(&expr.at);
        self.emit(op);
    }

    /// The right operand is evaluated if the left one is `goes_on`.
    fn short_circuit(&mut self, left: &'a Expr, right: &'a Expr, goes_on: bool, to: Reg) {
        let result = self.temporary(Type::Bool);
        self.expression_into(left, result);
        let (more, after) = (self.new_block(), self.new_block());
        let (yes, no) = if goes_on { (more, after) } else { (after, more) };
        self.seal(End::Branch(result, yes, no));
        self.start(more);
        self.expression_into(right, result);
        self.jump(after);
        self.start(after);
        self.emit(Op::Copy(to, result));
    }
}

fn binary(operator: Binary, to: Reg, left: Reg, right: Reg) -> Op {
    let arithmetic = |operator| Op::Arithmetic(operator, to, left, right);
    let compare = |operator| Op::Compare(operator, to, left, right);
    match operator {
        Binary::Add => arithmetic(Arithmetic::Add),
        Binary::Subtract => arithmetic(Arithmetic::Sub),
        Binary::Multiply => arithmetic(Arithmetic::Mul),
        Binary::Divide => arithmetic(Arithmetic::Div),
        Binary::Remainder => arithmetic(Arithmetic::Rem),
        Binary::Equal => compare(Comparison::Eq),
        Binary::NotEqual => compare(Comparison::Ne),
        Binary::Less => compare(Comparison::Lt),
        Binary::LessEqual => compare(Comparison::Le),
        Binary::Greater => compare(Comparison::Gt),
        Binary::GreaterEqual => compare(Comparison::Ge),
    }
}
