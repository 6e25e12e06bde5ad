//! QTJIR: a program as a graph of basic blocks. What an engine runs, and the definition of what a program does.
//!
//! Room: values.
//!
//! A function has registers with types, of which the first are its parameters. A block is a list of instructions without branches, and an end. Control enters
//! a function at block 0.
//!
//! # Failing
//! An instruction that [can fail](Op::can_fail) and does goes to the block's `on_error`, and the function is *failing*: its error is pending. A failing function runs what has to
//! be run (nurseries end, `defer`s run) and ends with `raise`, which fails the call in its caller, or the task. If something fails while it is failing, that goes to
//! its `on_error` too, and the first error stays. In a block without `on_error` the function ends at once, as by `raise`.
//!
//! # What it costs
//! An instruction has a static cost ([before](Op::cost) or [after](Op::cost_after) it), and so has going back to a block that begins a loop: one operation each. `budget_decrement n` counts `n` operations as owed. `budget_check` pays what
//! is owed, and lets others run, if that is as much as the yield interval, or as what is left of the budget. Before an [observable](Op::is_observable) instruction everything owed is paid. Spawns and
//! operations of channels are charged by the task runtime, when they are done.
//!
//! # Invariant
//! Engines run a [`Module`] only as [`Verified`], which `verify` alone makes, and it cannot be changed.

mod parse;
mod print;
mod verify;

use std::fmt;

pub use parse::parse;
pub use verify::{Refused, Verified, verify};
pub(crate) use verify::{back_edges, successors};
#[cfg(feature = "native")]
pub(crate) use verify::{reads, writes};

/// The type of a register, or of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// No value; never that of a register.
    Unit,
    /// 64 bits, with a sign.
    I64,
    /// `false` or `true`.
    Bool,
    /// A channel of `I64`.
    Chan,
    /// A task that returns nothing.
    TaskUnit,
    /// A task that returns an `I64`.
    TaskI64,
    /// A task that returns a `Bool`.
    TaskBool,
}

impl Type {
    /// All types, with their names.
    pub const ALL: [(Type, &'static str); 7] = [
        (Type::Unit, "unit"),
        (Type::I64, "i64"),
        (Type::Bool, "bool"),
        (Type::Chan, "chan"),
        (Type::TaskUnit, "task.unit"),
        (Type::TaskI64, "task.i64"),
        (Type::TaskBool, "task.bool"),
    ];

    /// Its name in the text form.
    pub fn name(self) -> &'static str {
        Self::ALL[self as usize].1
    }

    /// A task that returns this; none for what no function returns.
    pub fn task(self) -> Option<Type> {
        match self {
            Type::Unit => Some(Type::TaskUnit),
            Type::I64 => Some(Type::TaskI64),
            Type::Bool => Some(Type::TaskBool),
            _ => None,
        }
    }

    /// What awaiting a task of this type gives; none if it is no task.
    pub fn awaited(self) -> Option<Type> {
        match self {
            Type::TaskUnit => Some(Type::Unit),
            Type::TaskI64 => Some(Type::I64),
            Type::TaskBool => Some(Type::Bool),
            _ => None,
        }
    }
}

/// A register of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Reg(pub u32);

/// A block of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockId(pub u32);

/// A function of a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FuncId(pub u32);

/// A program.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Module {
    /// By number.
    pub functions: Vec<Function>,
}

/// Who may run a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tenancy {
    /// Its caller alone.
    CpuSerial,
    /// Also a task of its own: `CPU_Parallel` of the specification.
    CpuParallel,
}

/// A function.
#[derive(Clone, Debug, PartialEq)]
pub struct Function {
    /// Unique in its module.
    pub name: String,
    /// Whether it can be a task.
    pub tenancy: Tenancy,
    /// Whether a call of it in the source is a task.
    pub is_async: bool,
    /// How many of the first registers are parameters.
    pub parameters: usize,
    /// The type of each register.
    pub registers: Vec<Type>,
    /// What it returns: `Unit`, `I64` or `Bool`.
    pub result: Type,
    /// By number; control enters at the first.
    pub blocks: Vec<Block>,
}

/// A basic block.
#[derive(Clone, Debug, PartialEq)]
pub struct Block {
    /// Where control goes when an instruction fails; none: the function ends at once.
    pub on_error: Option<BlockId>,
    /// In order.
    pub code: Vec<Inst>,
    /// What follows.
    pub end: End,
    /// The line of the source that `end` comes from; 0 if none.
    pub end_line: u32,
}

/// An instruction, and the line of the source that it comes from; 0 if none.
#[derive(Clone, Debug, PartialEq)]
pub struct Inst {
    /// What is done.
    pub op: Op,
    /// From 1.
    pub line: u32,
}

/// How a block ends.
#[derive(Clone, Debug, PartialEq)]
pub enum End {
    /// Goes to a block.
    Jump(BlockId),
    /// Goes to the first if the register is true, else to the second.
    Branch(Reg, BlockId, BlockId),
    /// Ends the function, with a value unless it returns nothing.
    Return(Option<Reg>),
    /// Ends the function with its pending error.
    Raise,
}

/// An operator of two `I64` that gives an `I64`, and fails if that does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Arithmetic {
    Add,
    Sub,
    Mul,
    /// Towards zero; fails for a divisor 0.
    Div,
    /// With the sign of the dividend; fails for a divisor 0.
    Rem,
}

/// A comparison of two registers of one type: `Eq` and `Ne` also of `Bool`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Comparison {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}

/// A part of what `print` prints.
#[derive(Clone, Debug, PartialEq)]
pub enum Piece {
    /// As it is.
    Text(String),
    /// An `I64` or a `Bool`.
    Value(Reg),
}

/// A call: the function, and a register for each parameter.
#[derive(Clone, Debug, PartialEq)]
pub struct Callee {
    /// Which function.
    pub function: FuncId,
    /// In the order of the parameters.
    pub arguments: Vec<Reg>,
}

/// What an instruction does. A register on the left of `=` in the text form is written, `to` is its name here.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    /// An `I64`.
    Const(Reg, i64),
    /// A `Bool`.
    ConstBool(Reg, bool),
    /// `to`, and what is copied.
    Copy(Reg, Reg),
    /// Of an `I64`; fails for the smallest.
    Neg(Reg, Reg),
    /// Of a `Bool`.
    Not(Reg, Reg),
    /// `to`, and two operands.
    Arithmetic(Arithmetic, Reg, Reg, Reg),
    /// `to`, and two operands.
    Compare(Comparison, Reg, Reg, Reg),
    /// Calls a function, and goes on when it has returned.
    Call(Option<Reg>, Callee),
    /// A line of output: the pieces, a space between two.
    Print(Vec<Piece>),

    /// Pays what is owed if that is due, and then lets others run.
    BudgetCheck,
    /// So many operations more are owed.
    BudgetDecrement(u32),
    /// Lets others run. Costs nothing.
    Yield,

    /// Opens a nursery. The number is that of its end.
    NurseryBegin(u32),
    /// Waits until all tasks of the nursery have ended; fails if one has failed. If the function is failing, it cancels them first.
    NurseryEnd(u32),
    /// Starts a task in the innermost open nursery: the form of the source. `passes::asynchronous` makes a `TaskCreate` of it.
    Spawn(Reg, Callee),
    /// Calls an async function: the same.
    AsyncCall(Reg, Callee),
    /// Waits for a task: the form of the source. `passes::asynchronous` makes a `TaskJoin` of it.
    Await(Option<Reg>, Reg),
    /// Starts a task in the innermost open nursery, with a share of its budget.
    TaskCreate(Reg, Callee),
    /// Waits for a task and takes its result; fails if it has failed.
    TaskJoin(Option<Reg>, Reg),

    /// A channel that holds so many values; fails if the capacity is negative or above `CHANNEL_CAPACITY_MAX`.
    ChannelCreate(Reg, Reg),
    /// To the channel, the value; waits for room, fails if it is closed.
    ChannelSend(Reg, Reg),
    /// `to`, from the channel; waits for a value, fails if it is closed and empty.
    ChannelRecv(Reg, Reg),
    /// The value, whether there was one, from the channel: waits, and gives 0 and `false` if it is closed and empty.
    ChannelNext(Reg, Reg, Reg),
    /// Whether it was sent, to the channel, the value. Does not wait.
    ChannelTrySend(Reg, Reg, Reg),
    /// `to`, from the channel, what else. Does not wait.
    ChannelTryRecv(Reg, Reg, Reg),
    /// Closes the channel.
    ChannelClose(Reg),
    /// `to`, of the channel.
    ChannelIsClosed(Reg, Reg),
    /// `to`, of the channel: how many values wait in it.
    ChannelLen(Reg, Reg),

    /// Begins a select; cases follow, then `SelectWait`, all in one block.
    SelectBegin,
    /// A case: receives from the channel.
    SelectRecv(Reg),
    /// A case: to the channel, the value.
    SelectSend(Reg, Reg),
    /// So many milliseconds; fails if negative.
    SelectTimeout(Reg),
    /// Does not wait.
    SelectDefault,
    /// The number of the case that was done, counting cases, the timeout and the default in their order from 0; and what it received, or 0. Fails if the channel of
    /// that case is closed.
    SelectWait(Reg, Reg),
}

impl Op {
    /// Operations that are owed when it begins.
    pub fn cost(&self) -> u32 {
        match self {
            Op::Call(..) | Op::Print(_) => 1,
            _ => 0,
        }
    }

    /// Operations that are owed when it has succeeded: those of what takes memory.
    pub fn cost_after(&self) -> u32 {
        match self {
            Op::ChannelCreate(..) => 1,
            _ => 0,
        }
    }

    /// Whether a `budget_check` stands before it: at calls, prints, and operations of channels and tasks.
    pub fn is_checked(&self) -> bool {
        matches!(
            self,
            Op::Call(..)
                | Op::Print(_)
                | Op::Spawn(..)
                | Op::AsyncCall(..)
                | Op::TaskCreate(..)
                | Op::ChannelSend(..)
                | Op::ChannelRecv(..)
                | Op::ChannelNext(..)
                | Op::ChannelTrySend(..)
                | Op::ChannelTryRecv(..)
                | Op::SelectBegin
        )
    }

    /// Whether others can see that it was done. Everything owed is paid before.
    pub fn is_observable(&self) -> bool {
        match self {
            Op::Const(..)
            | Op::ConstBool(..)
            | Op::Copy(..)
            | Op::Neg(..)
            | Op::Not(..)
            | Op::Arithmetic(..)
            | Op::Compare(..)
            | Op::Call(..)
            | Op::BudgetCheck
            | Op::BudgetDecrement(_)
            | Op::SelectBegin
            | Op::SelectRecv(_)
            | Op::SelectSend(..)
            | Op::SelectTimeout(_)
            | Op::SelectDefault => false,
            Op::Print(_)
            | Op::Yield
            | Op::NurseryBegin(_)
            | Op::NurseryEnd(_)
            | Op::Spawn(..)
            | Op::AsyncCall(..)
            | Op::Await(..)
            | Op::TaskCreate(..)
            | Op::TaskJoin(..)
            | Op::ChannelCreate(..)
            | Op::ChannelSend(..)
            | Op::ChannelRecv(..)
            | Op::ChannelNext(..)
            | Op::ChannelTrySend(..)
            | Op::ChannelTryRecv(..)
            | Op::ChannelClose(_)
            | Op::ChannelIsClosed(..)
            | Op::ChannelLen(..)
            | Op::SelectWait(..) => true,
        }
    }

    /// Whether what is owed has to be exact when it begins: others see it, it may fail, or it leads to what does.
    pub fn is_barrier(&self) -> bool {
        self.can_fail() && *self != Op::BudgetCheck
    }

    /// Whether it can fail. What is observable pays, and paying can.
    pub fn can_fail(&self) -> bool {
        match self {
            Op::Neg(..) | Op::Arithmetic(..) | Op::Call(..) | Op::BudgetCheck | Op::SelectTimeout(_) => true,
            other => other.is_observable(),
        }
    }
}

impl Callee {
    fn write(&self, module: &Module, f: &mut impl fmt::Write) -> fmt::Result {
        let name = module.functions.get(self.function.0 as usize).map_or("?", |function| function.name.as_str());
        write!(f, "@{name}(")?;
        for (at, argument) in self.arguments.iter().enumerate() {
            write!(f, "{}%{}", if at == 0 { "" } else { ", " }, argument.0)?;
        }
        f.write_char(')')
    }
}
