//! Where Rust calls machine code, and machine code calls Rust.
//!
//! Room: mechanism.
//!
//! The only file of the crate that is unsafe.
//!
//! # Invariants
//! 1. Machine code is called only while its memory is there, with the arguments that it was made for.
//! 2. A [`Task`] is lent to code and to helpers in turns: while one uses it, the other waits for it to return.
//! 3. Nothing unwinds out of a helper.
//! 4. A nursery is used only between its begin and its end.
//!
//! # Why they hold
//! 1. A [`Memory`] frees its code when it is dropped, and every [`Task`] borrows the program that owns it. Types of code are made here from functions with the signatures that `unit` gives them.
//! 2. Code gets a pointer that is made from `&mut Task`, and the caller does not touch the task before the call returns. A helper is called by code alone, with that pointer.
//! 3. A helper runs inside `catch_unwind`, and does nothing outside of it that could unwind.
//! 4. [`OpenNurseries`] has one only while the closure runs that has the reference to it.

use std::mem::transmute;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr::NonNull;
use std::sync::{Mutex, PoisonError};

use cranelift_codegen::ir::types::I64;
use cranelift_codegen::ir::{AbiParam, Signature};
use cranelift_codegen::isa::CallConv;
use cranelift_jit::JITModule;
use cranelift_module::{FuncId, Module};
use sched_tasks::Nursery;

use super::helpers::{Helper, Task};

/// Begins a task: its state, its arguments, what is left of the stack. Returns 0, [`FAILED`] or [`ABORTED`].
#[derive(Clone, Copy)]
pub(crate) struct Entry(unsafe extern "C" fn(*mut Task<'_>, *const i64, i64) -> i64);

/// Goes on inside a nursery: the state, the frame, the point. Returns where the nursery ends, or [`ABORTED`].
#[derive(Clone, Copy)]
pub(crate) struct Inside(unsafe extern "C" fn(*mut Task<'_>, i64, i64) -> i64);

/// What a helper, or code, returns that failed: the error is pending.
pub(super) const FAILED: i64 = -1;
/// What a helper, or code, returns that panicked: nothing more is run, and the panic goes on where code was called.
pub(super) const ABORTED: i64 = -2;

/// The memory of machine code.
pub(crate) struct Memory(Mutex<Option<JITModule>>);

impl Memory {
    /// Of a module; what it has for code is given back with this.
    pub(super) fn of(module: JITModule) -> Self {
        Self(Mutex::new(Some(module)))
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        let module = self.0.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(module) = module {
            // SAFETY: a task that runs code borrows the `Native` that owns this, so none does; and the pointers to the code go with that.
            unsafe { module.free_memory() };
        }
    }
}

/// The signature of an [`Entry`], or of an [`Inside`].
pub(super) fn signature(convention: CallConv) -> Signature {
    let mut signature = Signature::new(convention);
    signature.params = vec![AbiParam::new(I64); 3];
    signature.returns = vec![AbiParam::new(I64)];
    signature
}

/// Machine code that can be called, and the memory it is in.
pub(super) struct Linked {
    pub(super) entries: Vec<Option<Entry>>,
    pub(super) insides: Vec<Option<Inside>>,
    pub(super) memory: Memory,
}

/// Makes the code of a module callable.
///
/// # Panics
/// If the module is not finalized, or a function is declared as something else.
pub(super) fn link(module: JITModule, entries: &[Option<FuncId>], insides: &[Option<FuncId>]) -> Linked {
    let wanted = signature(module.isa().default_call_conv());
    let code = |id: &FuncId| {
        assert_eq!(module.declarations().get_function_decl(*id).signature, wanted, "of an entry");
        module.get_finalized_function(*id)
    };
    let entry = |code: *const u8| {
        // SAFETY: code for the C convention of this machine, with these arguments, as its signature was just compared.
        Entry(unsafe { transmute::<*const u8, unsafe extern "C" fn(*mut Task<'_>, *const i64, i64) -> i64>(code) })
    };
    let inside = |code: *const u8| {
        // SAFETY: as above.
        Inside(unsafe { transmute::<*const u8, unsafe extern "C" fn(*mut Task<'_>, i64, i64) -> i64>(code) })
    };
    let entries = entries.iter().map(|id| id.as_ref().map(code).map(entry)).collect();
    let insides = insides.iter().map(|id| id.as_ref().map(code).map(inside)).collect();
    Linked { entries, insides, memory: Memory::of(module) }
}

impl Entry {
    pub(super) fn call(self, task: &mut Task<'_>, arguments: &[i64], stack_left: i64) -> i64 {
        // SAFETY:
        // - The code is there: `task` borrows the `Native` it belongs to.
        // - It reads as many arguments as the function has parameters; `Task::run` passes those.
        // - `task` is ours, and not touched before this returns.
        unsafe { (self.0)(task, arguments.as_ptr(), stack_left) }
    }
}

impl Inside {
    /// Called by the helper that code calls to open a nursery, with the frame that code passed to it.
    pub(super) fn call(self, task: &mut Task<'_>, frame: i64, point: i64) -> i64 {
        // SAFETY:
        // - The code is there, as for an entry.
        // - `frame` is that of the function which called the helper, and stands on the stack below us until that returns; `point` is one of it.
        unsafe { (self.0)(task, frame, point) }
    }
}

/// What machine code calls. `site` is the number of an instruction that can fail.
pub(super) type Shim = unsafe extern "C" fn(*mut Task<'_>, i64, i64, i64) -> i64;

/// Calls a helper from machine code.
///
/// # Safety
/// `task` is what the calling code was called with.
pub(super) unsafe extern "C" fn shim<H: Helper>(task: *mut Task<'_>, site: i64, a: i64, b: i64) -> i64 {
    // SAFETY: made from a `&mut Task` by the caller of the code, which does not touch it while the code runs; and the code waits for us.
    let task = unsafe { &mut *task };
    match catch_unwind(AssertUnwindSafe(|| task.help::<H>(site, a, b))) {
        Ok(status) => status,
        Err(thrown) => {
            task.thrown = Some(thrown);
            ABORTED
        }
    }
}

/// The nurseries that a task has open, the innermost last.
#[derive(Default)]
pub(super) struct OpenNurseries(Vec<NonNull<Nursery<'static, 'static>>>);

impl OpenNurseries {
    /// Runs `body`, which has come from the body of `nursery`, with that as the innermost one.
    pub(super) fn with<'a, 'scope, R>(
        task: &mut Task<'a>,
        nursery: &'scope Nursery<'scope, '_>,
        body: impl FnOnce(&mut Task<'a>) -> R,
    ) -> R {
        task.nurseries.0.push(NonNull::from(nursery).cast());
        let done = catch_unwind(AssertUnwindSafe(|| body(task)));
        task.nurseries.0.pop();
        done.unwrap_or_else(|thrown| resume_unwind(thrown))
    }

    /// Uses the innermost one; none if none is open.
    pub(super) fn innermost<R>(&self, body: impl for<'scope> FnOnce(&'scope Nursery<'scope, '_>) -> R) -> Option<R> {
        let nursery = self.0.last()?;
        // SAFETY:
        // - It is there: it was pushed by a `with` that has not returned, and that one borrows it.
        // - `body` knows nothing of `'scope`, so what it spawns borrows nothing that ends before the nursery does: only what lives for ever, and the nursery itself.
        Some(body(unsafe { nursery.as_ref() }))
    }
}
