//! A checked tree becomes QTJIR.
//!
//! Room: decisions. Knows trees and blocks; knows nothing of budgets, which `passes` put in.
//!
//! | file | one idea |
//! |---|---|
//! | `build` | blocks and registers under construction |
//! | `cleanup` | what runs when a block is left, on every way out of it |
//! | `statements`, `expressions` | one after the other, into the current block |

mod build;
mod cleanup;
mod expressions;
mod statements;

use surface_text::Span;

use self::build::Builder;
use crate::check::tree::{self, Scalar, Tree};
use crate::ir::{End, Function, Module, Tenancy, Type};
use crate::limits::{INSTRUCTIONS_MAX, REGISTERS_MAX};

/// A function that is too large, and where it is.
pub(crate) struct TooLarge {
    pub(crate) at: Span,
    pub(crate) what: String,
}

/// Lowers all functions; `text` is for the numbers of lines.
pub(crate) fn lower(tree: &Tree, text: &str) -> Result<Module, Vec<TooLarge>> {
    let lines = Lines::of(text);
    let mut too_large = Vec::new();
    let mut functions = Vec::with_capacity(tree.functions.len());
    for function in &tree.functions {
        match lower_function(function, &lines) {
            Ok(function) => functions.push(function),
            Err(error) => too_large.push(error),
        }
    }
    if too_large.is_empty() { Ok(Module { functions }) } else { Err(too_large) }
}

fn lower_function(function: &tree::Function, lines: &Lines) -> Result<Function, TooLarge> {
    let mut builder = Builder::new(function, lines);
    builder.block(&function.body);
    builder.line_of(&function.end);
    // The checker knows that only a function without a result gets here.
    builder.seal(End::Return(None));
    builder.cleanups_after_failing();
    let too_large = |most: usize, what: &str| {
        let what = format!("`{}` has more than {most} {what}, the limit", function.name);
        TooLarge { at: function.at.clone(), what }
    };
    if builder.is_too_large() {
        return Err(too_large(INSTRUCTIONS_MAX, "instructions"));
    }
    let (registers, blocks) = builder.finish();
    if registers.len() > REGISTERS_MAX {
        return Err(too_large(REGISTERS_MAX, "variables and intermediate values"));
    }
    Ok(Function {
        name: function.name.clone(),
        tenancy: if function.is_task { Tenancy::CpuParallel } else { Tenancy::CpuSerial },
        is_async: function.is_async,
        parameters: function.parameters,
        registers,
        result: scalar(function.result),
        blocks,
    })
}

fn scalar(scalar: Scalar) -> Type {
    match scalar {
        Scalar::Unit => Type::Unit,
        Scalar::I64 => Type::I64,
        Scalar::Bool => Type::Bool,
    }
}

fn type_of(ty: tree::Type) -> Type {
    match ty {
        tree::Type::Unit => Type::Unit,
        tree::Type::I64 => Type::I64,
        tree::Type::Bool => Type::Bool,
        tree::Type::Chan => Type::Chan,
        tree::Type::Task(Scalar::Unit) => Type::TaskUnit,
        tree::Type::Task(Scalar::I64) => Type::TaskI64,
        tree::Type::Task(Scalar::Bool) => Type::TaskBool,
    }
}

/// Where the lines of a text begin.
pub(crate) struct Lines(Vec<usize>);

impl Lines {
    fn of(text: &str) -> Self {
        let starts = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at + 1);
        Self(std::iter::once(0).chain(starts).collect())
    }

    /// From 1.
    fn number(&self, at: usize) -> u32 {
        self.0.partition_point(|start| *start <= at) as u32
    }
}
