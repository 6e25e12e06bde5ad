//! The tree of a program that was checked: names are numbers, every expression has a type.
//!
//! Room: values.
//!
//! # Invariant
//! A tree is made by `check` alone, and only of a program without problems: lowering it cannot fail, but for its size.

use surface_text::Span;

pub(crate) use crate::syntax::ast::{Binary, Unary};

/// What an expression gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Type {
    Unit,
    I64,
    Bool,
    Chan,
    /// A task, and what awaiting it gives.
    Task(Scalar),
}

/// What a function returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scalar {
    Unit,
    I64,
    Bool,
}

impl From<Scalar> for Type {
    fn from(scalar: Scalar) -> Self {
        match scalar {
            Scalar::Unit => Type::Unit,
            Scalar::I64 => Type::I64,
            Scalar::Bool => Type::Bool,
        }
    }
}

impl Type {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Type::Unit => "nothing",
            Type::I64 => "i64",
            Type::Bool => "bool",
            Type::Chan => "chan",
            Type::Task(_) => "a task",
        }
    }
}

/// The number of a variable in its function.
pub(crate) type Local = usize;
/// The number of a function in its program.
pub(crate) type FunctionId = usize;

#[derive(Clone, Debug)]
pub(crate) struct Tree {
    pub(crate) functions: Vec<Function>,
}

#[derive(Clone, Debug)]
pub(crate) struct Function {
    pub(crate) name: String,
    pub(crate) is_async: bool,
    /// It may be a task: it is `main`, `async`, or spawned somewhere.
    pub(crate) is_task: bool,
    /// How many of the first variables are parameters.
    pub(crate) parameters: usize,
    pub(crate) locals: Vec<Type>,
    pub(crate) result: Scalar,
    pub(crate) body: Block,
    pub(crate) at: Span,
    pub(crate) end: Span,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Block {
    pub(crate) statements: Vec<Statement>,
    /// It is a nursery, or calls async functions outside of any: these tasks end with the block.
    pub(crate) owns_nursery: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Statement {
    pub(crate) kind: StatementKind,
    pub(crate) at: Span,
}

#[derive(Clone, Debug)]
pub(crate) enum StatementKind {
    /// `let`, `var` and `=` alike.
    Set(Local, Expr),
    Expr(Expr),
    Print(Vec<Piece>),
    If {
        condition: Expr,
        then: Block,
        otherwise: Block,
    },
    While {
        condition: Expr,
        body: Block,
    },
    Range {
        local: Local,
        from: Expr,
        to: Expr,
        inclusive: bool,
        body: Block,
    },
    Drain {
        local: Local,
        channel: Expr,
        body: Block,
    },
    Match {
        value: Expr,
        arms: Vec<(Vec<Pattern>, Block)>,
        otherwise: Block,
    },
    Return(Option<Expr>),
    Break,
    Continue,
    Defer(Block),
    Yield,
    Select {
        cases: Vec<Case>,
        timeout: Option<(Expr, Block)>,
        default: Option<Block>,
    },
    Block(Block),
}

/// Both ends are part of it; a bool is 0 or 1.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pattern {
    pub(crate) from: i64,
    pub(crate) to: i64,
}

#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) local: Option<Local>,
    pub(crate) channel: Expr,
    pub(crate) sent: Option<Expr>,
    pub(crate) body: Block,
}

#[derive(Clone, Debug)]
pub(crate) enum Piece {
    Text(String),
    Value(Expr),
}

#[derive(Clone, Debug)]
pub(crate) struct Expr {
    pub(crate) kind: ExprKind,
    pub(crate) ty: Type,
    pub(crate) at: Span,
}

#[derive(Clone, Debug)]
pub(crate) enum ExprKind {
    Int(i64),
    Bool(bool),
    Local(Local),
    Unary(Unary, Box<Expr>),
    Binary(Binary, Box<Expr>, Box<Expr>),
    And(Box<Expr>, Box<Expr>),
    Or(Box<Expr>, Box<Expr>),
    Call(FunctionId, Vec<Expr>),
    Spawn(FunctionId, Vec<Expr>),
    /// A call of an async function: a task.
    Start(FunctionId, Vec<Expr>),
    Await(Box<Expr>),
    Channel(Box<Expr>),
    Operation(Operation, Box<Expr>, Vec<Expr>),
}

/// What can be done with a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Send,
    Recv,
    TrySend,
    TryRecv,
    Close,
    IsClosed,
    Len,
}

impl Operation {
    /// Each with its name, its number of arguments, and what it gives.
    pub(crate) const ALL: [(Operation, &'static str, usize, Type); 7] = [
        (Operation::Send, "send", 1, Type::Unit),
        (Operation::Recv, "recv", 0, Type::I64),
        (Operation::TrySend, "try_send", 1, Type::Bool),
        (Operation::TryRecv, "try_recv", 1, Type::I64),
        (Operation::Close, "close", 0, Type::Unit),
        (Operation::IsClosed, "is_closed", 0, Type::Bool),
        (Operation::Len, "len", 0, Type::I64),
    ];
}
