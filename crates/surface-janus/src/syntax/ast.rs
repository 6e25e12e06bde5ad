//! The tree of a program as it is written: names are texts, types are names.
//!
//! Room: values.

use surface_text::Span;

/// A name and where it is written.
#[derive(Clone, Debug)]
pub(crate) struct Name {
    pub(crate) text: String,
    pub(crate) at: Span,
}

/// A whole file.
#[derive(Clone, Debug, Default)]
pub(crate) struct File {
    pub(crate) pragmas: Vec<Pragma>,
    pub(crate) functions: Vec<Function>,
}

/// `key: value` of `{.key: value.}`.
#[derive(Clone, Debug)]
pub(crate) struct Pragma {
    pub(crate) key: Name,
    pub(crate) value: Name,
}

#[derive(Clone, Debug)]
pub(crate) struct Function {
    pub(crate) name: Name,
    pub(crate) is_async: bool,
    /// Each with its type.
    pub(crate) parameters: Vec<(Name, Name)>,
    pub(crate) result: Option<Name>,
    pub(crate) body: Block,
    /// Its `end`.
    pub(crate) end: Span,
}

pub(crate) type Block = Vec<Statement>;

#[derive(Clone, Debug)]
pub(crate) struct Statement {
    pub(crate) kind: StatementKind,
    /// Its first word.
    pub(crate) at: Span,
}

#[derive(Clone, Debug)]
pub(crate) enum StatementKind {
    /// `let` or `var`, with a type if one is written.
    Bind {
        name: Name,
        is_var: bool,
        ty: Option<Name>,
        value: Expr,
    },
    Assign {
        name: Name,
        value: Expr,
    },
    Expr(Expr),
    If {
        condition: Expr,
        then: Block,
        otherwise: Block,
    },
    While {
        condition: Expr,
        body: Block,
    },
    /// `for name in from..to`.
    Range {
        name: Name,
        from: Expr,
        to: Expr,
        inclusive: bool,
        body: Block,
    },
    /// `for name in channel`.
    Drain {
        name: Name,
        channel: Expr,
        body: Block,
    },
    Match {
        value: Expr,
        arms: Vec<Arm>,
    },
    Return(Option<Expr>),
    Break,
    Continue,
    Defer(Block),
    Nursery(Block),
    Yield,
    Select {
        cases: Vec<Case>,
        timeout: Option<(Expr, Block)>,
        default: Option<Block>,
    },
    Block(Block),
}

#[derive(Clone, Debug)]
pub(crate) struct Arm {
    pub(crate) patterns: Vec<Pattern>,
    pub(crate) body: Block,
    pub(crate) at: Span,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pattern {
    Int(i64),
    /// Both ends are part of it.
    Span(i64, i64),
    Bool(bool),
    /// `_`.
    Any,
}

#[derive(Clone, Debug)]
pub(crate) struct Case {
    /// The name for what was received.
    pub(crate) name: Option<Name>,
    pub(crate) channel: Expr,
    /// What is sent; none if the case receives.
    pub(crate) sent: Option<Expr>,
    pub(crate) body: Block,
}

#[derive(Clone, Debug)]
pub(crate) struct Expr {
    pub(crate) kind: ExprKind,
    pub(crate) at: Span,
}

#[derive(Clone, Debug)]
pub(crate) enum ExprKind {
    Int(i64),
    Bool(bool),
    Text(String),
    Name(String),
    Unary(Unary, Box<Expr>),
    Binary(Binary, Box<Expr>, Box<Expr>),
    And(Box<Expr>, Box<Expr>),
    Or(Box<Expr>, Box<Expr>),
    Call(Name, Vec<Expr>),
    /// `channel.operation(…)`.
    Method(Box<Expr>, Name, Vec<Expr>),
    Spawn(Name, Vec<Expr>),
    Await(Box<Expr>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unary {
    Negate,
    Not,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Binary {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
}
