//! Operators that fail instead of wrapping.
//!
//! Room: decisions.
//!
//! # Invariant
//! Nothing here traps: a division gets operands for which the machine has a result.
//!
//! # Why it holds
//! A divisor 0, and the smallest number by -1, are sorted out before.
//!
//! # Why it looks as it does
//! What is below something else can be one more: so loops count without a look. What was compared with a constant has room for another, mostly. With a constant an overflow shows in the order of operand and result: one comparison. Numbers that fit into 32 bits are divided as such on x86-64, where a division of 64 bits
//! takes several times as long on most processors; compilers of other languages do the same.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{I32, I64};
use cranelift_codegen::ir::{InstBuilder, Value};

use super::compile::Bug;
use super::helpers::{DIVISION_BY_ZERO, OVERFLOW};
use super::translate::Translator;
use crate::ir::{Arithmetic, Reg};

impl Translator<'_, '_, '_> {
    pub(super) fn negate(&mut self, to: Reg, from: Reg) {
        let value = self.get(from);
        let least = self.constant(i64::MIN);
        let overflows = self.build.ins().icmp(IntCC::Equal, value, least);
        self.fail_if(overflows, OVERFLOW);
        let value = self.build.ins().ineg(value);
        self.set(to, value);
    }

    pub(super) fn arithmetic(&mut self, operator: Arithmetic, to: Reg, a: Reg, b: Reg) {
        let (known_a, known_b) = (self.constants.get(&a).copied(), self.constants.get(&b).copied());
        let fits = self.fits(operator, (a, known_a), (b, known_b));
        let (a, b) = (self.get(a), self.get(b));
        let value = match (operator, known_a, known_b) {
            (Arithmetic::Add, ..) if fits => self.build.ins().iadd(a, b),
            (Arithmetic::Sub, ..) if fits => self.build.ins().isub(a, b),
            (Arithmetic::Add, _, Some(known)) => self.add_constant(a, known),
            (Arithmetic::Add, Some(known), _) => self.add_constant(b, known),
            (Arithmetic::Sub, _, Some(known)) => self.subtract_constant(a, known),
            (Arithmetic::Add, ..) => {
                let (sum, overflows) = self.build.ins().sadd_overflow(a, b);
                self.fail_if(overflows, OVERFLOW);
                sum
            }
            (Arithmetic::Sub, ..) => {
                let (difference, overflows) = self.build.ins().ssub_overflow(a, b);
                self.fail_if(overflows, OVERFLOW);
                difference
            }
            (Arithmetic::Mul, ..) => {
                let (product, overflows) = self.build.ins().smul_overflow(a, b);
                self.fail_if(overflows, OVERFLOW);
                product
            }
            (Arithmetic::Div | Arithmetic::Rem, _, Some(known)) if known != 0 && known != -1 => {
                self.divided(operator, a, b)
            }
            (Arithmetic::Div | Arithmetic::Rem, ..) => self.divide(operator, a, b),
        };
        self.set(to, value);
    }

    /// Whether a sum or difference with a constant is known to fit.
    pub(super) fn fits(
        &self,
        operator: Arithmetic,
        (a, known_a): (Reg, Option<i64>),
        (b, known_b): (Reg, Option<i64>),
    ) -> bool {
        let (reg, known) = match (operator, known_a, known_b) {
            (Arithmetic::Add | Arithmetic::Sub, _, Some(known)) => (a, known),
            (Arithmetic::Add, Some(known), None) => (b, known),
            _ => return false,
        };
        if operator == Arithmetic::Add && known == 1 && self.is_below_another(reg) {
            return true;
        }
        let bounds = self.bounds(reg);
        let limits = [*bounds.start(), *bounds.end()];
        limits.iter().all(|limit| match operator {
            Arithmetic::Sub => limit.checked_sub(known).is_some(),
            _ => limit.checked_add(known).is_some(),
        })
    }

    fn add_constant(&mut self, a: Value, known: i64) -> Value {
        let sum = self.build.ins().iadd_imm_s(a, known);
        let order = if known < 0 { IntCC::SignedGreaterThan } else { IntCC::SignedLessThan };
        let overflows = self.build.ins().icmp(order, sum, a);
        self.fail_if(overflows, OVERFLOW);
        sum
    }

    fn subtract_constant(&mut self, a: Value, known: i64) -> Value {
        let difference = self.build.ins().iadd_imm_s(a, known.wrapping_neg());
        let order = if known < 0 { IntCC::SignedLessThan } else { IntCC::SignedGreaterThan };
        let overflows = self.build.ins().icmp(order, difference, a);
        if !self.is_planted(Bug::WrapsAround) {
            self.fail_if(overflows, OVERFLOW);
        }
        difference
    }

    /// For a divisor that is neither 0 nor -1.
    fn divided(&mut self, operator: Arithmetic, a: Value, b: Value) -> Value {
        match operator {
            Arithmetic::Rem => self.build.ins().srem(a, b),
            _ => self.build.ins().sdiv(a, b),
        }
    }

    fn divide(&mut self, operator: Arithmetic, a: Value, b: Value) -> Value {
        let is_zero = self.build.ins().icmp_imm_s(IntCC::Equal, b, 0);
        self.fail_if(is_zero, DIVISION_BY_ZERO);
        let done = self.build.create_block();
        let value = self.build.append_block_param(done, I64);
        if cfg!(target_arch = "x86_64") {
            let (small, large) = (self.build.create_block(), self.build.create_block());
            let both = self.build.ins().bor(a, b);
            let high = self.build.ins().ushr_imm_u(both, 32);
            self.build.ins().brif(high, large, &[], small, &[]);
            self.build.seal_block(small);
            self.build.seal_block(large);
            self.build.switch_to_block(small);
            let (low_a, low_b) = (self.build.ins().ireduce(I32, a), self.build.ins().ireduce(I32, b));
            let low = match operator {
                Arithmetic::Rem => self.build.ins().urem(low_a, low_b),
                _ => self.build.ins().udiv(low_a, low_b),
            };
            let quotient = self.build.ins().uextend(I64, low);
            self.build.ins().jump(done, &[quotient.into()]);
            self.build.switch_to_block(large);
        }
        let (negating, dividing) = (self.build.create_block(), self.build.create_block());
        self.build.set_cold_block(negating);
        let is_minus_one = self.build.ins().icmp_imm_s(IntCC::Equal, b, -1);
        self.build.ins().brif(is_minus_one, negating, &[], dividing, &[]);
        self.build.seal_block(negating);
        self.build.seal_block(dividing);
        self.build.switch_to_block(dividing);
        let quotient = self.divided(operator, a, b);
        self.build.ins().jump(done, &[quotient.into()]);
        self.build.switch_to_block(negating);
        let quotient = match operator {
            Arithmetic::Rem => self.constant(0), // that of the smallest number fits, too
            _ => {
                let least = self.constant(i64::MIN);
                let overflows = self.build.ins().icmp(IntCC::Equal, a, least);
                self.fail_if(overflows, OVERFLOW);
                self.build.ins().ineg(a)
            }
        };
        self.build.ins().jump(done, &[quotient.into()]);
        self.build.seal_block(done);
        self.build.switch_to_block(done);
        value
    }
}
