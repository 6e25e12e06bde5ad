//! Which functions of machine code there are for the functions of a program, and how they call each other.
//!
//! Room: values.
//!
//! | function | takes | returns |
//! |---|---|---|
//! | the call | the task, what is left to be owed, what is left of the stack, the parameters | the value, what is left to be owed |
//! | the body, of one that opens nurseries | the task, what is left to be owed, its frame, the point where it goes on | the same; or where a nursery ends |
//! | the entry, of one that can be a task | the task, the arguments in memory, what is left of the stack | 0, `FAILED` or `ABORTED` |
//! | the inside, of one that opens nurseries | the task, its frame, the point | where the nursery ends, or `ABORTED` |
//!
//! | a cold helper | the task, the site, a value | nothing: its status is in the task |
//!
//! The first two, and the last, are called by code alone. What they leave of the budget is above 0, or says how they failed: the error is pending, or a panic is kept.

use cranelift_codegen::ir::types::I64;
use cranelift_codegen::ir::{AbiParam, Signature};
use cranelift_codegen::isa::CallConv;
use cranelift_jit::JITModule;
use cranelift_module::{FuncId, Linkage, Module, ModuleError};

use super::helpers::Help;
use super::raw;
use crate::ir::{self, Op, Tenancy};

type Declared<T> = Result<T, Box<ModuleError>>;

/// What is left of the budget, in a function that failed.
pub(super) const LEFT_FAILED: i64 = 0;
/// What is left of the budget, in a function that a panic ended.
pub(super) const LEFT_ABORTED: i64 = -1;

/// The functions of machine code for one function.
pub(super) struct Parts {
    pub(super) call: FuncId,
    pub(super) body: Option<FuncId>,
    pub(super) entry: Option<FuncId>,
    pub(super) inside: Option<FuncId>,
}

/// All that are declared.
pub(super) struct Unit {
    pub(super) parts: Vec<Parts>,
    pub(super) helpers: Vec<FuncId>,
    /// Helpers that are called from cold blocks alone, through functions that keep all registers: what is not called mostly is not to cost registers where it is not called.
    pub(super) cold: Vec<(Help, FuncId)>,
}

/// The helpers that are called from cold blocks alone.
const COLD: [Help; 2] = [Help::Check, Help::Fault];

impl Unit {
    pub(super) fn declare(module: &mut JITModule, program: &ir::Module) -> Declared<Self> {
        let convention = module.isa().default_call_conv();
        let helper = signature(convention, 4, 1);
        let helpers = Help::ALL
            .iter()
            .map(|(_, name, _)| module.declare_function(name, Linkage::Import, &helper).map_err(Box::new));
        let helpers = helpers.collect::<Declared<_>>()?;
        let kept = signature(CallConv::PreserveAll, 3, 0);
        let declare = |help: Help| {
            let name = format!("{help:?}.cold");
            module.declare_function(&name, Linkage::Local, &kept).map(|id| (help, id)).map_err(Box::new)
        };
        let cold = COLD.map(declare).into_iter().collect::<Declared<_>>()?;
        let outer = raw::signature(convention);
        let mut parts = Vec::with_capacity(program.functions.len());
        for (number, function) in program.functions.iter().enumerate() {
            let mut declare = |what: &str, signature: &Signature| {
                module.declare_function(&format!("{number}{what}"), Linkage::Local, signature).map_err(Box::new)
            };
            let nests = opens_nurseries(function);
            let is_task = function.tenancy == Tenancy::CpuParallel;
            let body = signature(convention, 4, 2);
            parts.push(Parts {
                call: declare("", &signature(convention, 3 + function.parameters, 2))?,
                body: nests.then(|| declare(".body", &body)).transpose()?,
                entry: is_task.then(|| declare(".entry", &outer)).transpose()?,
                inside: nests.then(|| declare(".inside", &outer)).transpose()?,
            });
        }
        Ok(Self { parts, helpers, cold })
    }
}

fn signature(convention: CallConv, params: usize, returns: usize) -> Signature {
    let mut signature = Signature::new(convention);
    signature.params = vec![AbiParam::new(I64); params];
    signature.returns = vec![AbiParam::new(I64); returns];
    signature
}

/// Whether a function opens nurseries itself.
pub(super) fn opens_nurseries(function: &ir::Function) -> bool {
    let mut code = function.blocks.iter().flat_map(|block| &block.code);
    code.any(|inst| matches!(inst.op, Op::NurseryBegin(_)))
}
