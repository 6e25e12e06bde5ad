//! QTJIR as text.
//!
//! Room: surface.
//!
//! # Invariant
//! What is printed is read back by `parse` as the same module.
//!
//! ```text
//! func @double(%0: i64) -> i64 CPU_Serial {
//!   %1: i64
//! bb0:
//!   %1 = add %0, %0 !2
//!   return %1 !2
//! }
//! ```
//! A number behind `!` is the line of the source. `bb1 on_error bb2:` names where control goes when an instruction of the block fails.

use std::fmt::{self, Write};

use super::{Arithmetic, Block, Comparison, End, Function, Inst, Module, Op, Piece, Tenancy};

impl Arithmetic {
    pub(super) const ALL: [(Arithmetic, &str); 5] = [
        (Arithmetic::Add, "add"),
        (Arithmetic::Sub, "sub"),
        (Arithmetic::Mul, "mul"),
        (Arithmetic::Div, "div"),
        (Arithmetic::Rem, "rem"),
    ];
}

impl Comparison {
    pub(super) const ALL: [(Comparison, &str); 6] = [
        (Comparison::Eq, "eq"),
        (Comparison::Ne, "ne"),
        (Comparison::Lt, "lt"),
        (Comparison::Le, "le"),
        (Comparison::Gt, "gt"),
        (Comparison::Ge, "ge"),
    ];
}

impl Tenancy {
    pub(super) const ALL: [(Tenancy, &str); 2] =
        [(Tenancy::CpuSerial, "CPU_Serial"), (Tenancy::CpuParallel, "CPU_Parallel")];
}

impl fmt::Display for Module {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, function) in self.functions.iter().enumerate() {
            if at > 0 {
                f.write_char('\n')?;
            }
            self.function(function, f)?;
        }
        Ok(())
    }
}

impl Module {
    fn function(&self, function: &Function, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if function.is_async { "async func" } else { "func" };
        write!(f, "{kind} @{}(", function.name)?;
        for (at, ty) in function.registers.iter().take(function.parameters).enumerate() {
            write!(f, "{}%{at}: {}", if at == 0 { "" } else { ", " }, ty.name())?;
        }
        let tenancy = Tenancy::ALL[function.tenancy as usize].1;
        writeln!(f, ") -> {} {tenancy} {{", function.result.name())?;
        for (at, ty) in function.registers.iter().enumerate().skip(function.parameters) {
            writeln!(f, "  %{at}: {}", ty.name())?;
        }
        for (at, block) in function.blocks.iter().enumerate() {
            self.block(at, block, f)?;
        }
        f.write_str("}\n")
    }

    fn block(&self, at: usize, block: &Block, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match block.on_error {
            None => writeln!(f, "bb{at}:")?,
            Some(target) => writeln!(f, "bb{at} on_error bb{}:", target.0)?,
        }
        for Inst { op, line } in &block.code {
            f.write_str("  ")?;
            self.op(op, f)?;
            end_of_line(*line, f)?;
        }
        f.write_str("  ")?;
        match &block.end {
            End::Jump(to) => write!(f, "jump bb{}", to.0)?,
            End::Branch(on, then, otherwise) => write!(f, "branch %{}, bb{}, bb{}", on.0, then.0, otherwise.0)?,
            End::Return(None) => f.write_str("return")?,
            End::Return(Some(value)) => write!(f, "return %{}", value.0)?,
            End::Raise => f.write_str("raise")?,
        }
        end_of_line(block.end_line, f)
    }

    fn op(&self, op: &Op, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match op {
            Op::Const(to, value) => write!(f, "%{} = const {value}", to.0),
            Op::ConstBool(to, value) => write!(f, "%{} = const {value}", to.0),
            Op::Copy(to, from) => write!(f, "%{} = copy %{}", to.0, from.0),
            Op::Neg(to, from) => write!(f, "%{} = neg %{}", to.0, from.0),
            Op::Not(to, from) => write!(f, "%{} = not %{}", to.0, from.0),
            Op::Arithmetic(operator, to, a, b) => {
                write!(f, "%{} = {} %{}, %{}", to.0, Arithmetic::ALL[*operator as usize].1, a.0, b.0)
            }
            Op::Compare(operator, to, a, b) => {
                write!(f, "%{} = {} %{}, %{}", to.0, Comparison::ALL[*operator as usize].1, a.0, b.0)
            }
            Op::Call(to, callee) => {
                if let Some(to) = to {
                    write!(f, "%{} = ", to.0)?;
                }
                f.write_str("call ")?;
                callee.write(self, f)
            }
            Op::Print(pieces) => {
                f.write_str("print")?;
                for (at, piece) in pieces.iter().enumerate() {
                    f.write_str(if at == 0 { " " } else { ", " })?;
                    match piece {
                        Piece::Text(text) => quoted(text, f)?,
                        Piece::Value(value) => write!(f, "%{}", value.0)?,
                    }
                }
                Ok(())
            }
            Op::BudgetCheck => f.write_str("budget_check"),
            Op::BudgetDecrement(ops) => write!(f, "budget_decrement {ops}"),
            Op::Yield => f.write_str("yield"),
            Op::NurseryBegin(number) => write!(f, "nursery_begin {number}"),
            Op::NurseryEnd(number) => write!(f, "nursery_end {number}"),
            Op::Spawn(to, callee) => self.task(to.0, "spawn", callee, f),
            Op::AsyncCall(to, callee) => self.task(to.0, "async_call", callee, f),
            Op::TaskCreate(to, callee) => self.task(to.0, "task_create", callee, f),
            Op::Await(to, task) => wait(to.map(|to| to.0), "await", task.0, f),
            Op::TaskJoin(to, task) => wait(to.map(|to| to.0), "task_join", task.0, f),
            Op::ChannelCreate(to, capacity) => write!(f, "%{} = channel_create %{}", to.0, capacity.0),
            Op::ChannelSend(channel, value) => write!(f, "channel_send %{}, %{}", channel.0, value.0),
            Op::ChannelRecv(to, channel) => write!(f, "%{} = channel_recv %{}", to.0, channel.0),
            Op::ChannelNext(to, some, channel) => {
                write!(f, "%{}, %{} = channel_next %{}", to.0, some.0, channel.0)
            }
            Op::ChannelTrySend(to, channel, value) => {
                write!(f, "%{} = channel_try_send %{}, %{}", to.0, channel.0, value.0)
            }
            Op::ChannelTryRecv(to, channel, otherwise) => {
                write!(f, "%{} = channel_try_recv %{}, %{}", to.0, channel.0, otherwise.0)
            }
            Op::ChannelClose(channel) => write!(f, "channel_close %{}", channel.0),
            Op::ChannelIsClosed(to, channel) => write!(f, "%{} = channel_is_closed %{}", to.0, channel.0),
            Op::ChannelLen(to, channel) => write!(f, "%{} = channel_len %{}", to.0, channel.0),
            Op::SelectBegin => f.write_str("select_begin"),
            Op::SelectRecv(channel) => write!(f, "select_recv %{}", channel.0),
            Op::SelectSend(channel, value) => write!(f, "select_send %{}, %{}", channel.0, value.0),
            Op::SelectTimeout(time) => write!(f, "select_timeout %{}", time.0),
            Op::SelectDefault => f.write_str("select_default"),
            Op::SelectWait(case, value) => write!(f, "%{}, %{} = select_wait", case.0, value.0),
        }
    }

    fn task(&self, to: u32, word: &str, callee: &super::Callee, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "%{to} = {word} ")?;
        callee.write(self, f)
    }
}

fn wait(to: Option<u32>, word: &str, task: u32, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    if let Some(to) = to {
        write!(f, "%{to} = ")?;
    }
    write!(f, "{word} %{task}")
}

fn end_of_line(line: u32, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    if line > 0 {
        write!(f, " !{line}")?;
    }
    f.write_char('\n')
}

fn quoted(text: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.write_char('"')?;
    for c in text.chars() {
        match c {
            '"' => f.write_str("\\\"")?,
            '\\' => f.write_str("\\\\")?,
            '\n' => f.write_str("\\n")?,
            '\r' => f.write_str("\\r")?,
            '\t' => f.write_str("\\t")?,
            other => f.write_char(other)?,
        }
    }
    f.write_char('"')
}
