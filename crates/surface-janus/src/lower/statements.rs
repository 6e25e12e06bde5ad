//! Lowers statements.
//!
//! Room: decisions.

use super::build::{Builder, Loop};
use crate::check::tree::{Block, Case, ExprKind, Pattern, Piece, Statement, StatementKind};
use crate::ir::{self, Arithmetic, BlockId, Comparison, End, Op, Reg, Type};

impl<'a> Builder<'a> {
    pub(super) fn block(&mut self, block: &'a Block) {
        let around = self.innermost();
        let nursery = block.owns_nursery.then(|| self.begin_nursery());
        self.nurseries.push(nursery);
        for statement in &block.statements {
            if !self.is_open() || self.is_too_large() {
                break; // behind a `return`
            }
            let mark = self.mark();
            self.line_of(&statement.at);
            self.statement(statement);
            self.release(mark);
        }
        self.leave_to(around);
        self.nurseries.pop();
        self.close_to(around);
    }

    fn statement(&mut self, statement: &'a Statement) {
        match &statement.kind {
            StatementKind::Set(local, value) => self.expression_into(value, Reg(*local as u32)),
            StatementKind::Expr(expr) => self.effect(expr),
            StatementKind::Print(pieces) => {
                let pieces = pieces
                    .iter()
                    .map(|piece| match piece {
                        Piece::Text(text) => ir::Piece::Text(text.clone()),
                        Piece::Value(value) => ir::Piece::Value(self.expression(value)),
                    })
                    .collect();
                self.line_of(&statement.at);
                self.emit(Op::Print(pieces));
            }
            StatementKind::If { condition, then, otherwise } => {
                let condition = self.expression(condition);
                let (yes, no, after) = (self.new_block(), self.new_block(), self.new_block());
                self.seal(End::Branch(condition, yes, no));
                self.arm(yes, then, after);
                self.arm(no, otherwise, after);
                self.start_if_reached(after);
            }
            StatementKind::While { condition, body } => {
                let (header, latch, after) = (self.new_block(), self.new_block(), self.new_block());
                self.jump(header);
                self.start(header);
                if matches!(condition.kind, ExprKind::Bool(true)) {
                    self.split();
                } else {
                    let condition = self.expression(condition);
                    let inside = self.new_block();
                    self.seal(End::Branch(condition, inside, after));
                    self.reached.insert(after);
                    self.start(inside);
                }
                self.loop_body(body, latch, after);
                if self.start_if_reached(latch) {
                    self.line_of(&statement.at);
                    self.jump(header);
                }
                self.start_if_reached(after);
            }
            StatementKind::Range { local, from, to, inclusive, body } => {
                let index = Reg(*local as u32);
                self.expression_into(from, index);
                let limit = self.temporary(Type::I64);
                self.expression_into(to, limit);
                self.line_of(&statement.at);
                self.range(index, limit, *inclusive, body);
            }
            StatementKind::Drain { local, channel, body } => {
                let channel = self.expression(channel);
                let some = self.temporary(Type::Bool);
                let (header, inside) = (self.new_block(), self.new_block());
                let (latch, after) = (self.new_block(), self.new_block());
                self.jump(header);
                self.start(header);
                self.line_of(&statement.at);
                self.emit(Op::ChannelNext(Reg(*local as u32), some, channel));
                self.seal(End::Branch(some, inside, after));
                self.reached.insert(after);
                self.start(inside);
                self.loop_body(body, latch, after);
                if self.start_if_reached(latch) {
                    self.line_of(&statement.at);
                    self.jump(header);
                }
                self.start_if_reached(after);
            }
            StatementKind::Match { value, arms, otherwise } => {
                let value = self.expression(value);
                let after = self.new_block();
                for (patterns, body) in arms {
                    let (found, next) = (self.new_block(), self.new_block());
                    self.compare(value, patterns, found, next);
                    self.arm(found, body, after);
                    self.start(next);
                }
                self.block(otherwise);
                self.jump_reaching(after);
                self.start_if_reached(after);
            }
            StatementKind::Return(value) => {
                let value = value.as_ref().map(|value| self.kept(value));
                self.leave_by(None, End::Return(value));
            }
            StatementKind::Break => {
                let Some(Loop { break_to, around, .. }) = self.loops.last() else { return };
                let (to, around) = (*break_to, *around);
                self.reached.insert(to);
                self.leave_by(around, End::Jump(to));
            }
            StatementKind::Continue => {
                let Some(Loop { continue_to, around, .. }) = self.loops.last() else { return };
                let (to, around) = (*continue_to, *around);
                self.reached.insert(to);
                self.leave_by(around, End::Jump(to));
            }
            StatementKind::Defer(body) => self.defer(body),
            StatementKind::Yield => self.emit(Op::Yield),
            StatementKind::Select { cases, timeout, default } => {
                let timeout = timeout.as_ref().map(|(time, body)| (self.expression(time), body));
                self.select(cases, timeout, default.as_ref(), statement);
            }
            StatementKind::Block(block) => self.block(block),
        }
    }

    /// Cleans up to what is around `stop`, and ends the block.
    fn leave_by(&mut self, stop: Option<super::cleanup::Node>, end: End) {
        let before = self.innermost();
        self.leave_to(stop);
        self.seal(end);
        self.back_to(before);
    }

    /// One of several ways, which meet again in `after`.
    fn arm(&mut self, block: BlockId, body: &'a Block, after: BlockId) {
        self.start(block);
        self.block(body);
        self.jump_reaching(after);
    }

    fn jump_reaching(&mut self, to: BlockId) {
        if self.is_open() {
            self.reached.insert(to);
            self.jump(to);
        }
    }

    /// False if control does not get there.
    fn start_if_reached(&mut self, block: BlockId) -> bool {
        let is_reached = self.reached.remove(&block);
        if is_reached {
            self.start(block);
        }
        is_reached
    }

    fn loop_body(&mut self, body: &'a Block, latch: BlockId, after: BlockId) {
        self.loops.push(Loop { break_to: after, continue_to: latch, around: self.innermost() });
        self.block(body);
        self.loops.pop();
        self.jump_reaching(latch);
    }

    /// From `index` on, up to `limit`. An iteration costs the same whether the limit is part of it or not, and the largest number is no special case.
    fn range(&mut self, index: Reg, limit: Reg, inclusive: bool, body: &'a Block) {
        let (more, one) = (self.temporary(Type::Bool), self.temporary(Type::I64));
        self.emit(Op::Const(one, 1));
        let comparison = if inclusive { Comparison::Le } else { Comparison::Lt };
        self.emit(Op::Compare(comparison, more, index, limit));
        let (header, inside) = (self.new_block(), self.new_block());
        let (latch, after) = (self.new_block(), self.new_block());
        self.jump(header);
        self.start(header);
        self.seal(End::Branch(more, inside, after));
        self.reached.insert(after);
        self.start(inside);
        self.loop_body(body, latch, after);
        if self.start_if_reached(latch) {
            if inclusive {
                let (step, back) = (self.new_block(), self.new_block());
                self.emit(Op::Compare(Comparison::Lt, more, index, limit));
                self.seal(End::Branch(more, step, back));
                self.start(step);
                self.emit(Op::Arithmetic(Arithmetic::Add, index, index, one));
                self.jump(back);
                self.start(back);
            } else {
                self.emit(Op::Arithmetic(Arithmetic::Add, index, index, one));
                self.emit(Op::Compare(Comparison::Lt, more, index, limit));
            }
            self.jump(header);
        }
        self.start_if_reached(after);
    }

    /// Goes to `found` if one of the patterns has the value, else to `next`.
    fn compare(&mut self, value: Reg, patterns: &[Pattern], found: BlockId, next: BlockId) {
        for (at, Pattern { from, to }) in patterns.iter().enumerate() {
            let mark = self.mark();
            let otherwise = if at + 1 == patterns.len() { next } else { self.new_block() };
            let is_bool = self.type_of_register(value) == Type::Bool;
            let (bound, result) =
                (self.temporary(if is_bool { Type::Bool } else { Type::I64 }), self.temporary(Type::Bool));
            if is_bool {
                self.emit(Op::ConstBool(bound, *from != 0));
            } else {
                self.emit(Op::Const(bound, *from));
            }
            if from == to {
                self.emit(Op::Compare(Comparison::Eq, result, value, bound));
            } else {
                let above = self.new_block();
                self.emit(Op::Compare(Comparison::Ge, result, value, bound));
                self.seal(End::Branch(result, above, otherwise));
                self.start(above);
                self.emit(Op::Const(bound, *to));
                self.emit(Op::Compare(Comparison::Le, result, value, bound));
            }
            self.seal(End::Branch(result, found, otherwise));
            if otherwise != next {
                self.start(otherwise);
            }
            self.release(mark);
        }
    }

    fn select(
        &mut self,
        cases: &'a [Case],
        timeout: Option<(Reg, &'a Block)>,
        default: Option<&'a Block>,
        statement: &Statement,
    ) {
        let operands: Vec<_> = cases
            .iter()
            .map(|case| (self.expression(&case.channel), case.sent.as_ref().map(|sent| self.expression(sent))))
            .collect();
        let (chosen, value) = (self.temporary(Type::I64), self.temporary(Type::I64));
        self.line_of(&statement.at);
        self.emit(Op::SelectBegin);
        for (channel, sent) in operands {
            self.emit(match sent {
                Some(sent) => Op::SelectSend(channel, sent),
                None => Op::SelectRecv(channel),
            });
        }
        if let Some((time, _)) = timeout {
            self.emit(Op::SelectTimeout(time));
        } else if default.is_some() {
            self.emit(Op::SelectDefault);
        }
        self.emit(Op::SelectWait(chosen, value));
        let mut ways: Vec<(Option<u32>, &'a Block)> =
            cases.iter().map(|case| (case.local.map(|local| local as u32), &case.body)).collect();
        ways.extend(timeout.map(|(_, body)| (None, body)));
        ways.extend(default.map(|body| (None, body)));
        let after = self.new_block();
        for (number, (local, body)) in ways.iter().enumerate() {
            let is_last = number + 1 == ways.len();
            let next = self.new_block();
            if !is_last {
                let found = self.new_block();
                let mark = self.mark();
                let pattern = Pattern { from: number as i64, to: number as i64 };
                self.compare(chosen, &[pattern], found, next);
                self.release(mark);
                self.start(found);
            }
            if let Some(local) = local {
                self.emit(Op::Copy(Reg(*local), value));
            }
            self.block(body);
            self.jump_reaching(after);
            if !is_last {
                self.start(next);
            }
        }
        self.start_if_reached(after);
    }
}
