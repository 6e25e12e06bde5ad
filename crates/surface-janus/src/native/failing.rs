//! What can fail: helpers, checks and calls.
//!
//! Room: decisions.
//!
//! # Invariants
//! 1. The variable `left` has what may be owed more before a check is due, as the account of the task would say it.
//! 2. At the `on_error` of a block the error of the function is pending.
//!
//! # Why they hold
//! 1. It is passed to functions and returned by them; written for helpers that pay, and read after them.
//! 2. Helpers add an error before they return `FAILED`, and what code finds itself it tells a helper. A call that failed has left its error. If the function was failing before, that is
//!    known here, and the helper keeps the first error.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::I64;
use cranelift_codegen::ir::{Block, FuncRef, InstBuilder, Value};
use cranelift_module::{FuncId, Module};

use super::compile::Bug;
use super::helpers::{Help, LEFT_OFFSET, OUT_OFFSETS, STACK, STATUS_OFFSET, Site};
use super::translate::{Fault, Translator};
use super::unit::LEFT_ABORTED;
use crate::ir::{Callee, Op, Reg, writes};
use crate::task::call_bytes;

impl Translator<'_, '_, '_> {
    // ---- helpers ----

    /// Where the instruction stands that is translated.
    pub(super) fn site(&mut self) -> i64 {
        let (block, at) = self.at;
        let is_failing = self.is_failing[block];
        let site = Site { function: self.number as u32, block: block as u32, at: at as u32, is_failing };
        self.context.sites.push(site);
        (self.context.sites.len() - 1) as i64
    }

    pub(super) fn function(&mut self, id: FuncId) -> FuncRef {
        let (module, build) = (&mut self.context.module, &mut self.build);
        *self.functions.entry(id).or_insert_with(|| module.declare_func_in_func(id, build.func))
    }

    /// Calls a helper that does not pay. Returns its status.
    pub(super) fn help(&mut self, help: Help, site: i64, a: Value, b: Value) -> Value {
        let site = self.constant(site);
        if let Some((_, id)) = self.context.unit.cold.iter().find(|(cold, _)| *cold == help) {
            let helper = self.function(*id);
            self.build.ins().call(helper, &[self.task, site, a]);
            return self.load(STATUS_OFFSET);
        }
        let helper = self.function(self.context.unit.helpers[help as usize]);
        let call = self.build.ins().call(helper, &[self.task, site, a, b]);
        self.build.inst_results(call)[0]
    }

    /// The same, where it cannot fail.
    pub(super) fn help_surely(&mut self, help: Help, a: Value, b: Value) -> Value {
        self.help(help, 0, a, b)
    }

    /// Calls a helper that can fail, and goes on if it does not. Returns its status.
    pub(super) fn try_help(&mut self, help: Help, a: Value, b: Value) -> Value {
        let site = self.site();
        if help.pays() {
            let left = self.build.use_var(self.left);
            if !self.is_planted(Bug::OwesUnsaid) || help != Help::Print {
                self.store(LEFT_OFFSET, left);
            }
        }
        let status = self.help(help, site, a, b);
        if help.pays() {
            let left = self.load(LEFT_OFFSET);
            self.build.def_var(self.left, left);
        }
        let next = self.build.create_block();
        let failed = self.failed();
        let is_failed = self.build.ins().icmp_imm_s(IntCC::SignedLessThan, status, 0);
        self.build.ins().brif(is_failed, failed, &[status.into()], next, &[]);
        self.build.seal_block(next);
        self.build.switch_to_block(next);
        status
    }

    /// The same with the value that it returns.
    pub(super) fn try_value(&mut self, help: Help, a: Value, b: Value) -> Value {
        self.try_help(help, a, b);
        self.load(OUT_OFFSETS[0])
    }

    // ---- failing ----

    /// Where a failure of the block goes.
    pub(super) fn handler(&self) -> Block {
        self.function.blocks[self.at.0].on_error.map_or(self.raise, |target| self.begin(target))
    }

    /// Where a status goes that says that something failed.
    pub(super) fn failed(&mut self) -> Block {
        if let Some(failed) = self.failed {
            return failed;
        }
        let failed = self.build.create_block();
        self.build.append_block_param(failed, I64);
        self.build.set_cold_block(failed);
        self.failed = Some(failed);
        failed
    }

    /// Where an error of this kind goes that code finds at this instruction.
    pub(super) fn fault(&mut self, kind: i64) -> Block {
        let (block, at) = self.at;
        let line = self.function.blocks[block].code[at].line;
        let known = self.faults.iter().find(|(fault, _)| (fault.kind, fault.line) == (kind, line));
        if let Some((_, block)) = known {
            return *block;
        }
        let site = self.site();
        let target = self.build.create_block();
        self.build.set_cold_block(target);
        self.faults.push((Fault { kind, line, site }, target));
        target
    }

    /// Fails if `condition`, else goes on.
    pub(super) fn fail_if(&mut self, condition: Value, kind: i64) {
        let target = self.fault(kind);
        let next = self.build.create_block();
        self.build.ins().brif(condition, target, &[], next, &[]);
        self.build.seal_block(next);
        self.build.switch_to_block(next);
    }

    /// Gives back the handles of the frame.
    pub(super) fn leave(&mut self) {
        if let Some(base) = self.base {
            self.help_surely(Help::Leave, base, base);
        }
    }

    // ---- checks and calls ----

    pub(super) fn check(&mut self) {
        let left = self.build.use_var(self.left);
        let least = if self.is_planted(Bug::ChecksLate) { 0 } else { 1 };
        let is_due = self.build.ins().icmp_imm_s(IntCC::SignedLessThan, left, least);
        let (due, next) = (self.build.create_block(), self.build.create_block());
        self.build.set_cold_block(due);
        self.build.ins().brif(is_due, due, &[], next, &[]);
        self.build.seal_block(due);
        self.build.switch_to_block(due);
        self.pay();
        self.build.ins().jump(next, &[]);
        self.build.seal_block(next);
        self.build.switch_to_block(next);
    }

    /// Pays, in a cold block.
    fn pay(&mut self) {
        let none = self.constant(0);
        self.try_help(Help::Check, none, none);
        if let Some(paid) = self.build.current_block() {
            self.build.set_cold_block(paid);
        }
    }

    pub(super) fn call(&mut self, to: Option<Reg>, callee: &Callee) {
        let number = callee.function.0 as usize;
        let stack = self.stack_for(number);
        let left = self.build.use_var(self.left);
        let mut arguments = vec![self.task, left, stack];
        for argument in &callee.arguments {
            let value = self.get(*argument);
            arguments.push(value);
        }
        let called = self.function(self.context.unit.parts[number].call);
        let call = self.build.ins().call(called, &arguments);
        let (value, left) = match self.build.inst_results(call) {
            [value, left] => (*value, *left),
            _ => unreachable!("a call returns two values"),
        };
        let (cold, next) = (self.build.create_block(), self.build.create_block());
        self.build.set_cold_block(cold);
        let operations = self.pays_at_once();
        // What failed has nothing left, so one comparison answers for both.
        let left_then = match operations {
            Some(operations) => self.build.ins().iadd_imm_s(left, -operations),
            None => left,
        };
        self.build.def_var(self.left, left_then);
        let is_failed_or_due = self.build.ins().icmp_imm_s(IntCC::SignedLessThan, left_then, 1);
        self.build.ins().brif(is_failed_or_due, cold, &[], next, &[]);
        self.build.seal_block(cold);
        self.build.switch_to_block(cold);
        match operations {
            Some(_) => self.failed_or_due(to, (value, left), next),
            None => self.call_failed(left),
        }
        self.build.seal_block(next);
        self.build.switch_to_block(next);
        if let Some(to) = to {
            self.set(to, value);
        }
    }

    /// What is left of the stack for a function that is called, if that is enough. One call of a block is enough for those that need no more.
    fn stack_for(&mut self, number: usize) -> Value {
        let mut bytes = call_bytes(&self.context.program.functions[number]) as i64;
        if self.is_planted(Bug::CallsTakeLess) {
            bytes -= 8;
        }
        let stack = self.build.ins().iadd_imm_s(self.stack, -bytes);
        if bytes > self.stack_seen {
            let overflows = self.build.ins().icmp_imm_s(IntCC::SignedLessThan, stack, 0);
            self.fail_if(overflows, STACK);
            self.stack_seen = if self.is_planted(Bug::LooksOnce) { i64::MAX } else { bytes };
        }
        stack
    }

    /// How many operations are counted and checked soon behind the call that is translated; none if something in between can fail or be seen. They are done with the call.
    fn pays_at_once(&mut self) -> Option<i64> {
        if self.context.settings.is_unchecked || self.is_planted(Bug::ChecksLate) {
            return None;
        }
        let (function, at, constants) = (self.function, self.at, self.constants.clone());
        let (block, call) = at;
        let code = &function.blocks[block].code;
        let mut next = call + 1;
        while code.get(next).is_some_and(|inst| self.is_temporary((block, next), &inst.op)) {
            next += 1;
        }
        (self.at, self.constants) = (at, constants);
        let [Op::BudgetDecrement(operations), Op::BudgetCheck] = [&code.get(next)?.op, &code.get(next + 1)?.op] else {
            return None;
        };
        self.paid_at = Some((block, next));
        Some((*operations).into())
    }

    /// Whether an instruction cannot fail, and only its block sees what it writes. Those between it and the current one were looked at before.
    fn is_temporary(&mut self, at: (usize, usize), op: &Op) -> bool {
        self.at = at;
        let mut is_temporary = self.cannot_fail(op);
        writes(op, |reg| {
            is_temporary &= self.only_read_in[reg.0 as usize] == Some(at.0);
            self.constants.remove(&reg);
        });
        if let Op::Const(to, value) = op {
            self.constants.insert(*to, *value);
        }
        is_temporary
    }

    /// A cold block behind a call: it failed, or a check is due.
    fn failed_or_due(&mut self, to: Option<Reg>, (value, left): (Value, Value), next: Block) {
        let (failed, due) = (self.build.create_block(), self.build.create_block());
        for block in [failed, due] {
            self.build.set_cold_block(block);
        }
        let is_failed = self.build.ins().icmp_imm_s(IntCC::SignedLessThan, left, 1);
        self.build.ins().brif(is_failed, failed, &[], due, &[]);
        self.build.seal_block(failed);
        self.build.seal_block(due);
        self.build.switch_to_block(failed);
        self.call_failed(left);
        self.build.switch_to_block(due);
        let (at, constants) = (self.at, self.constants.clone());
        if let Some(to) = to {
            self.set(to, value);
        }
        let (block, decrement) = self.paid_at.expect("a check that is done here has a place");
        self.at = (block, decrement + 1);
        self.pay();
        self.build.ins().jump(next, &[]);
        (self.at, self.constants) = (at, constants);
    }

    /// The function that was called failed, or a panic ended it.
    pub(super) fn call_failed(&mut self, said: Value) {
        let handled = self.build.create_block();
        self.build.set_cold_block(handled);
        let is_aborted = self.build.ins().icmp_imm_s(IntCC::Equal, said, LEFT_ABORTED);
        self.build.ins().brif(is_aborted, self.abort, &[], handled, &[]);
        self.build.seal_block(handled);
        self.build.switch_to_block(handled);
        let left = self.load(LEFT_OFFSET);
        self.build.def_var(self.left, left);
        if self.is_failing[self.at.0] && !self.is_planted(Bug::KeepsLastError) {
            let none = self.constant(0);
            self.help_surely(Help::Discard, none, none);
        }
        let handler = self.handler();
        self.build.ins().jump(handler, &[]);
    }
}
