//! Numbers that name something, and types that fit.
//!
//! Room: decisions.

use super::{Checked, wrong};
use crate::ir::{Callee, Comparison, End, Function, Module, Op, Piece, Reg, Tenancy, Type};
use crate::limits::SELECT_CASES_MAX;

pub(super) fn check(module: &Module, function: &Function) -> Checked {
    if function.blocks.is_empty() {
        return wrong(0, 0, "the function has no block");
    }
    if function.parameters > function.registers.len() {
        return wrong(0, 0, "a parameter is a register, and there are fewer");
    }
    if function.result.task().is_none() {
        return wrong(0, 0, format!("a function cannot return {}", function.result.name()));
    }
    if function.registers.contains(&Type::Unit) {
        return wrong(0, 0, "a register has a value, and `unit` is none");
    }
    if function.registers[..function.parameters].iter().any(|ty| ty.awaited().is_some()) {
        return wrong(0, 0, "a task stays with the function that started it");
    }
    for (number, block) in function.blocks.iter().enumerate() {
        let mut open_select = None;
        for (at, inst) in block.code.iter().enumerate() {
            let shape = Shape { module, function, block: number, at };
            shape.op(&inst.op)?;
            shape.select(&inst.op, &mut open_select)?;
        }
        let shape = Shape { module, function, block: number, at: block.code.len() };
        if open_select.is_some() {
            return shape.wrong("a select ends in the block it begins in");
        }
        shape.end(&block.end)?;
        if let Some(target) = block.on_error {
            shape.target(target.0)?;
        }
    }
    Ok(())
}

/// What is checked, and where.
struct Shape<'a> {
    module: &'a Module,
    function: &'a Function,
    block: usize,
    at: usize,
}

/// What a select has so far.
struct OpenSelect {
    cases: usize,
    /// It has its `timeout` or `default`.
    is_limited: bool,
}

impl Shape<'_> {
    fn wrong<T>(&self, what: impl Into<String>) -> Checked<T> {
        wrong(self.block, self.at, what)
    }

    fn target(&self, block: u32) -> Checked {
        match self.function.blocks.len() {
            count if (block as usize) < count => Ok(()),
            count => self.wrong(format!("there is no block bb{block}, but {count} blocks")),
        }
    }

    fn type_of(&self, reg: Reg) -> Checked<Type> {
        match self.function.registers.get(reg.0 as usize) {
            Some(ty) => Ok(*ty),
            None => self.wrong(format!("there is no register %{}", reg.0)),
        }
    }

    fn is(&self, reg: Reg, ty: Type) -> Checked {
        match self.type_of(reg)? {
            found if found == ty => Ok(()),
            found => self.wrong(format!("%{} is {}, where {} is needed", reg.0, found.name(), ty.name())),
        }
    }

    fn all(&self, registers: &[(Reg, Type)]) -> Checked {
        registers.iter().try_for_each(|(reg, ty)| self.is(*reg, *ty))
    }

    /// A result that is there unless it is `unit`.
    fn result(&self, to: Option<Reg>, ty: Type) -> Checked {
        match (to, ty) {
            (None, _) => Ok(()),
            (Some(_), Type::Unit) => self.wrong("there is no result to keep"),
            (Some(to), ty) => self.is(to, ty),
        }
    }

    fn callee(&self, callee: &Callee) -> Checked<&Function> {
        let Some(function) = self.module.functions.get(callee.function.0 as usize) else {
            return self.wrong(format!("there is no function of number {}", callee.function.0));
        };
        let wanted = &function.registers[..function.parameters.min(function.registers.len())];
        if wanted.len() != callee.arguments.len() {
            let (want, have) = (wanted.len(), callee.arguments.len());
            return self.wrong(format!("@{} takes {want} arguments, here are {have}", function.name));
        }
        callee.arguments.iter().zip(wanted).try_for_each(|(argument, ty)| self.is(*argument, *ty))?;
        Ok(function)
    }

    fn op(&self, op: &Op) -> Checked {
        use Type::{Bool, Chan, I64};
        match op {
            Op::Const(to, _) => self.is(*to, I64),
            Op::ConstBool(to, _) => self.is(*to, Bool),
            Op::Copy(to, from) => self.is(*to, self.type_of(*from)?),
            Op::Neg(to, from) => self.all(&[(*to, I64), (*from, I64)]),
            Op::Not(to, from) => self.all(&[(*to, Bool), (*from, Bool)]),
            Op::Arithmetic(_, to, a, b) => self.all(&[(*to, I64), (*a, I64), (*b, I64)]),
            Op::Compare(operator, to, a, b) => {
                let of_bools = self.type_of(*a)? == Bool && matches!(operator, Comparison::Eq | Comparison::Ne);
                let ty = if of_bools { Bool } else { I64 };
                self.all(&[(*to, Bool), (*a, ty), (*b, ty)])
            }
            Op::Call(to, callee) => {
                let result = self.callee(callee)?.result;
                self.result(*to, result)
            }
            Op::Print(pieces) => pieces.iter().try_for_each(|piece| match piece {
                Piece::Text(_) => Ok(()),
                Piece::Value(value) => match self.type_of(*value)? {
                    I64 | Bool => Ok(()),
                    other => self.wrong(format!("{} cannot be printed", other.name())),
                },
            }),
            Op::BudgetCheck | Op::Yield | Op::NurseryBegin(_) | Op::NurseryEnd(_) => Ok(()),
            Op::BudgetDecrement(0) => self.wrong("nothing is not owed"),
            Op::BudgetDecrement(_) => Ok(()),
            Op::Spawn(..) | Op::AsyncCall(..) | Op::Await(..) => {
                self.wrong("this is a form of the source, which `passes::asynchronous` lowers")
            }
            Op::TaskCreate(to, callee) => {
                let function = self.callee(callee)?;
                if function.tenancy != Tenancy::CpuParallel {
                    return self.wrong(format!("@{} is CPU_Serial; a task is CPU_Parallel", function.name));
                }
                match function.result.task() {
                    Some(task) => self.is(*to, task),
                    None => self.wrong(format!("@{} returns what no task can", function.name)),
                }
            }
            Op::TaskJoin(to, task) => match self.type_of(*task)?.awaited() {
                Some(result) => self.result(*to, result),
                None => self.wrong(format!("%{} is no task", task.0)),
            },
            Op::ChannelCreate(to, capacity) => self.all(&[(*to, Chan), (*capacity, I64)]),
            Op::ChannelSend(channel, value) | Op::SelectSend(channel, value) => {
                self.all(&[(*channel, Chan), (*value, I64)])
            }
            Op::ChannelRecv(to, channel) | Op::ChannelLen(to, channel) => self.all(&[(*to, I64), (*channel, Chan)]),
            Op::ChannelNext(to, some, channel) => {
                if to == some {
                    return self.wrong(format!("%{} cannot take both results", to.0));
                }
                self.all(&[(*to, I64), (*some, Bool), (*channel, Chan)])
            }
            Op::ChannelTrySend(to, channel, value) => self.all(&[(*to, Bool), (*channel, Chan), (*value, I64)]),
            Op::ChannelTryRecv(to, channel, other) => self.all(&[(*to, I64), (*channel, Chan), (*other, I64)]),
            Op::ChannelClose(channel) | Op::SelectRecv(channel) => self.is(*channel, Chan),
            Op::ChannelIsClosed(to, channel) => self.all(&[(*to, Bool), (*channel, Chan)]),
            Op::SelectBegin | Op::SelectDefault => Ok(()),
            Op::SelectTimeout(time) => self.is(*time, I64),
            Op::SelectWait(case, value) => {
                if case == value {
                    return self.wrong(format!("%{} cannot take both results", case.0));
                }
                self.all(&[(*case, I64), (*value, I64)])
            }
        }
    }

    /// A select is a run of instructions: its begin, its cases, its limit, its wait.
    fn select(&self, op: &Op, open: &mut Option<OpenSelect>) -> Checked {
        match (op, open.as_mut()) {
            (Op::SelectBegin, None) => *open = Some(OpenSelect { cases: 0, is_limited: false }),
            (Op::SelectRecv(_) | Op::SelectSend(..), Some(select)) if !select.is_limited => {
                select.cases += 1;
                if select.cases > SELECT_CASES_MAX {
                    return self.wrong(format!("more than {SELECT_CASES_MAX} cases, the limit"));
                }
            }
            (Op::SelectTimeout(_) | Op::SelectDefault, Some(select)) if !select.is_limited => select.is_limited = true,
            (Op::SelectWait(..), Some(select)) if select.cases > 0 || select.is_limited => *open = None,
            (Op::SelectWait(..), Some(_)) => return self.wrong("a select without cases waits for nothing"),
            (_, Some(_)) => {
                return self.wrong("only cases, then a limit, stand between the begin of a select and its wait");
            }
            (
                Op::SelectRecv(_) | Op::SelectSend(..) | Op::SelectTimeout(_) | Op::SelectDefault | Op::SelectWait(..),
                None,
            ) => return self.wrong("no select has begun"),
            (_, None) => {}
        }
        Ok(())
    }

    fn end(&self, end: &End) -> Checked {
        match end {
            End::Jump(to) => self.target(to.0),
            End::Branch(on, then, otherwise) => {
                self.is(*on, Type::Bool)?;
                self.target(then.0)?;
                self.target(otherwise.0)
            }
            End::Return(Some(value)) => self.is(*value, self.function.result),
            End::Return(None) if self.function.result == Type::Unit => Ok(()),
            End::Return(None) => self.wrong(format!("the function returns {}", self.function.result.name())),
            End::Raise => Ok(()),
        }
    }
}
