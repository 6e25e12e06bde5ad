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
//! The first two are called by code alone. What they leave of the budget is above 0, or says how they failed: the error is pending, or a panic is kept.

use cranelift_codegen::ir::types::I64;
use cranelift_codegen::ir::{AbiParam, Signature};
use cranelift_codegen::isa::CallConv;
use cranelift_jit::JITModule;
use cranelift_module::{FuncId, Linkage, Module, ModuleResult};

use super::helpers::Help;
use super::raw;
use crate::ir::{self, Op, Tenancy};

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
}

impl Unit {
    pub(super) fn declare(module: &mut JITModule, program: &ir::Module) -> ModuleResult<Self> {
        let convention = module.isa().default_call_conv();
        let helper = signature(convention, 4, 1);
        let helpers = Help::ALL.iter().map(|(_, name, _)| module.declare_function(name, Linkage::Import, &helper));
        let helpers = helpers.collect::<ModuleResult<_>>()?;
        let outer = raw::signature(convention);
        let mut parts = Vec::with_capacity(program.functions.len());
        for (number, function) in program.functions.iter().enumerate() {
            let mut declare = |what: &str, signature: &Signature| {
                module.declare_function(&format!("{number}{what}"), Linkage::Local, signature)
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
        Ok(Self { parts, helpers })
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
