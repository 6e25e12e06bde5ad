//! Each instruction, as CLIF.
//!
//! Room: decisions.

use cranelift_codegen::ir::InstBuilder;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::I64;

use super::compile::Bug;
use super::helpers::{Help, OUT_OFFSETS};
use super::translate::{RegisterSlot, Translator};
use crate::ir::{Comparison, Op, Piece, Reg};

impl Translator<'_, '_, '_> {
    pub(super) fn op(&mut self, op: &Op) {
        match op {
            Op::Const(to, value) => {
                let known = self.constant(*value);
                self.set(*to, known);
                self.constants.insert(*to, *value);
            }
            Op::ConstBool(to, value) => {
                let value = self.constant((*value).into());
                self.set(*to, value);
            }
            Op::Copy(to, from) => {
                let value = self.get(*from);
                if let RegisterSlot::Handle(_) = self.slots[to.0 as usize] {
                    let to = self.get(*to);
                    self.help_surely(Help::Copy, to, value);
                    return;
                }
                let known = self.constants.get(from).copied();
                self.set(*to, value);
                self.constants.extend(known.map(|value| (*to, value)));
            }
            Op::Not(to, from) => {
                let value = self.get(*from);
                let value = self.build.ins().icmp_imm_s(IntCC::Equal, value, 0);
                let value = self.build.ins().uextend(I64, value);
                self.set(*to, value);
            }
            Op::Compare(operator, to, a, b) => {
                let (a, b) = (self.get(*a), self.get(*b));
                let value = self.build.ins().icmp(condition(*operator), a, b);
                let value = self.build.ins().uextend(I64, value);
                self.set(*to, value);
            }
            Op::Neg(to, from) => self.negate(*to, *from),
            Op::Arithmetic(operator, to, a, b) => self.arithmetic(*operator, *to, *a, *b),
            Op::Call(to, callee) => self.call(*to, callee),
            Op::BudgetDecrement(_) if self.paid_at == Some(self.at) && !self.is_planted(Bug::PaysTwice) => {}
            Op::BudgetCheck if self.paid_at.is_some_and(|(block, at)| (block, at + 1) == self.at) => {}
            Op::BudgetDecrement(operations) if !self.context.settings.is_unchecked => {
                let left = self.build.use_var(self.left);
                let left = self.build.ins().iadd_imm_s(left, -i64::from(*operations));
                self.build.def_var(self.left, left);
            }
            Op::BudgetCheck if !self.context.settings.is_unchecked => self.check(),
            Op::BudgetDecrement(_) | Op::BudgetCheck => {}
            Op::Print(pieces) => {
                for piece in pieces {
                    if let Piece::Value(value) = piece {
                        let value = self.get(*value);
                        self.help_surely(Help::Push, value, value);
                    }
                }
                self.observe(Help::Print, None, None);
            }
            Op::Yield => self.observe(Help::Yield, None, None),
            Op::NurseryBegin(_) => self.nursery_begin(),
            Op::NurseryEnd(_) => self.nursery_end(),
            Op::TaskCreate(to, callee) => {
                for argument in &callee.arguments {
                    let value = self.get(*argument);
                    self.help_surely(Help::Push, value, value);
                }
                self.observe(Help::Create, Some(*to), None);
            }
            Op::TaskJoin(to, task) => {
                let task = self.get(*task);
                let value = self.try_value(Help::Join, task, task);
                if let Some(to) = to {
                    self.set(*to, value);
                }
            }
            Op::ChannelCreate(to, capacity) => self.observe(Help::ChannelCreate, Some(*to), Some(*capacity)),
            Op::ChannelSend(channel, value) => self.observe(Help::Send, Some(*channel), Some(*value)),
            Op::ChannelRecv(to, channel) => self.ask(*to, Help::Receive, *channel, None),
            Op::ChannelNext(to, some, channel) => {
                let channel = self.get(*channel);
                let value = self.try_value(Help::Next, channel, channel);
                let is_some = self.load(OUT_OFFSETS[1]);
                self.set(*to, value);
                self.set(*some, is_some);
            }
            Op::ChannelTrySend(to, channel, value) => self.ask(*to, Help::TrySend, *channel, Some(*value)),
            Op::ChannelTryRecv(to, channel, otherwise) => self.ask(*to, Help::TryReceive, *channel, Some(*otherwise)),
            Op::ChannelClose(channel) => self.observe(Help::Close, Some(*channel), None),
            Op::ChannelIsClosed(to, channel) => self.ask(*to, Help::IsClosed, *channel, None),
            Op::ChannelLen(to, channel) => self.ask(*to, Help::Length, *channel, None),
            Op::SelectBegin => {
                let none = self.constant(0);
                self.help_surely(Help::SelectBegin, none, none);
            }
            Op::SelectRecv(channel) => {
                let channel = self.get(*channel);
                self.help_surely(Help::SelectReceive, channel, channel);
            }
            Op::SelectSend(channel, value) => {
                let (channel, value) = (self.get(*channel), self.get(*value));
                self.help_surely(Help::SelectSend, channel, value);
            }
            Op::SelectTimeout(time) => self.observe(Help::SelectTimeout, Some(*time), None),
            Op::SelectDefault => {
                let none = self.constant(0);
                self.help_surely(Help::SelectDefault, none, none);
            }
            Op::SelectWait(case, value) => {
                let none = self.constant(0);
                let number = self.try_value(Help::SelectWait, none, none);
                let received = self.load(OUT_OFFSETS[1]);
                self.set(*case, number);
                self.set(*value, received);
            }
            Op::Spawn(..) | Op::AsyncCall(..) | Op::Await(..) => unreachable!("the verifier refuses them"),
        }
    }

    /// A helper that can fail, with the values of registers.
    pub(super) fn observe(&mut self, help: Help, a: Option<Reg>, b: Option<Reg>) {
        let a = a.map(|a| self.get(a));
        let b = b.map(|b| self.get(b));
        let none = match (a, b) {
            (Some(_), Some(_)) => None,
            _ => Some(self.constant(0)),
        };
        if let (Some(a), Some(b)) = (a.or(none), b.or(none)) {
            self.try_help(help, a, b);
        }
    }

    /// The same, with a result.
    pub(super) fn ask(&mut self, to: Reg, help: Help, channel: Reg, value: Option<Reg>) {
        let channel = self.get(channel);
        let value = value.map_or(channel, |value| self.get(value));
        let result = self.try_value(help, channel, value);
        self.set(to, result);
    }
}

fn condition(operator: Comparison) -> IntCC {
    match operator {
        Comparison::Eq => IntCC::Equal,
        Comparison::Ne => IntCC::NotEqual,
        Comparison::Lt => IntCC::SignedLessThan,
        Comparison::Le => IntCC::SignedLessThanOrEqual,
        Comparison::Gt => IntCC::SignedGreaterThan,
        Comparison::Ge => IntCC::SignedGreaterThanOrEqual,
    }
}
