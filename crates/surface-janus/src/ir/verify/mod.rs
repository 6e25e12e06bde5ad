//! Whether a module may run.
//!
//! Room: decisions.
//!
//! | file | what holds then |
//! |---|---|
//! | `shape` | numbers name what is there, types fit, a task is made of a function that may be one |
//! | `graph` | which edges go back: every circle has one |
//! | `flow` | a register is written before it is read; nurseries begin and end in pairs on every way, also when something fails; a function fails or returns, not both |
//! | `budget` | every circle and every call checks the budget, and what is owed is exact wherever it can be seen |
//!
//! # Invariant
//! A [`Verified`] module runs without a wrong register, without a task that is not waited for, and without a loop that no budget stops.

mod budget;
mod flow;
mod graph;
mod shape;

use std::collections::HashSet;
use std::fmt;

#[cfg(feature = "native")]
pub(crate) use flow::{reads, writes};
pub(crate) use graph::{back_edges, successors};

use super::{Function, Module};
use crate::limits::{FUNCTIONS_MAX, INSTRUCTIONS_MAX, PARAMETERS_MAX, REGISTERS_MAX};

/// A module that was verified, and cannot be changed any more.
#[derive(Clone, Debug, PartialEq)]
pub struct Verified(Module);

impl Verified {
    /// The module.
    pub fn module(&self) -> &Module {
        &self.0
    }
}

/// Why a module may not run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The function, and the block and the instruction in it; the block's end is behind its last instruction.
    pub at: Option<(String, u32, usize)>,
    /// What is wrong.
    pub what: String,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.at {
            Some((function, block, at)) => write!(f, "@{function}, bb{block}, instruction {at}: {}", self.what),
            None => f.write_str(&self.what),
        }
    }
}

impl std::error::Error for Refused {}

/// What is wrong with a function, where: a block, and an instruction.
struct Wrong {
    block: usize,
    inst: usize,
    what: String,
}

type Checked<T = ()> = Result<T, Wrong>;

fn wrong<T>(block: usize, inst: usize, what: impl Into<String>) -> Checked<T> {
    Err(Wrong { block, inst, what: what.into() })
}

/// Registers times blocks of a function: the memory that verifying it takes, in bits.
const BITS_MAX: usize = 1 << 29;

/// Checks a module.
///
/// # Errors
/// The first thing that is wrong.
pub fn verify(module: Module) -> Result<Verified, Refused> {
    let of_module = |what: String| Err(Refused { at: None, what });
    if module.functions.len() > FUNCTIONS_MAX {
        return of_module(format!("more than {FUNCTIONS_MAX} functions, the limit"));
    }
    let mut names = HashSet::new();
    for function in &module.functions {
        if !names.insert(function.name.as_str()) {
            return of_module(format!("there are two functions @{}", function.name));
        }
        check(&module, function).map_err(|wrong| Refused {
            at: Some((function.name.clone(), wrong.block as u32, wrong.inst)),
            what: wrong.what,
        })?;
    }
    Ok(Verified(module))
}

fn check(module: &Module, function: &Function) -> Checked {
    let instructions: usize = function.blocks.iter().map(|block| block.code.len() + 1).sum();
    let limits = [
        (function.parameters, PARAMETERS_MAX, "parameters"),
        (function.registers.len(), REGISTERS_MAX, "registers"),
        (instructions, INSTRUCTIONS_MAX, "instructions"),
        (function.registers.len().saturating_mul(function.blocks.len()), BITS_MAX, "registers times blocks"),
    ];
    for (count, most, what) in limits {
        if count > most {
            return wrong(0, 0, format!("{count} {what}, more than {most}, the limit"));
        }
    }
    shape::check(module, function)?;
    let order = graph::order(function);
    flow::check(function, &order)?;
    budget::check(function, &order)
}
