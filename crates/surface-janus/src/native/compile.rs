//! CLIF to machine code, within limits.
//!
//! Room: driver.
//!
//! # Invariants
//! 1. Every program is compiled, or interpreted: nothing here fails, and what it takes is bounded.
//! 2. What is inlined does, spends and fails as it did.
//!
//! # Why they hold
//! 1. A program above a limit is not begun. Cranelift runs on a thread of its own, with a stack of its own, since a task's is too small for it. An error or a panic there means that the program is interpreted.
//! 2. Functions are inlined as CLIF, where everything is said already: what is owed and what is left of the stack are values, and lines are numbers of sites.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

use cranelift_codegen::control::ControlPlane;
use cranelift_codegen::inline::{Inline, InlineCommand};
use cranelift_codegen::ir as clif;
use cranelift_codegen::isa::TargetIsa;
use cranelift_codegen::settings::{self, Configurable};
use cranelift_frontend::FunctionBuilderContext;
use cranelift_jit::{ArenaMemoryProvider, JITBuilder, JITModule};
use cranelift_module::{FuncId, Module, ModuleReloc, default_libcall_names};

use super::helpers::{Help, Site};
use super::nurseries;
use super::raw::{Entry, Inside, Linked, Memory, link};
use super::stack::{Frames, Needs};
use super::translate::Context;
use super::unit::Unit;
use crate::ir::Inst;
use crate::limits::{NATIVE_FUNCTION_MAX, NATIVE_INSTRUCTIONS_MAX, NATIVE_SPILLS_MAX};
use crate::task::Code;

/// How code is made.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Settings {
    /// Without decrements and checks, to measure what they cost.
    pub(crate) is_unchecked: bool,
    /// A bug, for a test that has to find it.
    pub(crate) planted: Option<Bug>,
}

/// Bugs that `differential` plants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(test), allow(dead_code))]
pub(crate) enum Bug {
    /// What is owed is not written before a line is printed.
    OwesUnsaid,
    /// A check comes one operation late.
    ChecksLate,
    /// A call takes less of the stack than the host counts.
    CallsTakeLess,
    /// An error while a function is failing replaces the first.
    KeepsLastError,
    /// A subtraction wraps.
    WrapsAround,
    /// What is owed for the turns of a loop is forgotten if the loop fails.
    TurnsUnpaid,
    /// What was paid with a call is paid again.
    PaysTwice,
    /// A call that has enough stack lets all others of its block have it. Programs by chance hardly ever stop between two calls of a line.
    LooksOnce,
    /// The compiler does not come to its end.
    NeverReady,
}

#[cfg(test)]
impl Bug {
    pub(super) const ALL: &[Bug] = &[
        Bug::OwesUnsaid,
        Bug::ChecksLate,
        Bug::CallsTakeLess,
        Bug::KeepsLastError,
        Bug::WrapsAround,
        Bug::TurnsUnpaid,
        Bug::PaysTwice,
    ];
}

/// A program as machine code.
pub(crate) struct Native {
    pub(super) code: Arc<Code>,
    pub(super) sites: Vec<Site>,
    pub(super) entries: Vec<Option<Entry>>,
    pub(super) insides: Vec<Option<Inside>>,
    pub(super) stack: Needs,
    /// Dropped last.
    _memory: Memory,
}

/// The stack of the thread that compiles.
pub(super) const COMPILER_STACK_BYTES: usize = 16 << 20;
/// A thread more is worth it for so many functions.
const FUNCTIONS_A_THREAD: usize = 64;
/// Addresses for code: what is not used is never taken. It bounds how far calls go, which have 31 bits for that.
const CODE_BYTES: usize = 256 << 20;
/// Instructions of CLIF outside cold blocks, in a function that is inlined.
const INLINED_MAX: usize = 80;
/// How many instructions a function may get by inlining.
const GROWTH_MAX: usize = 1_500;

impl Native {
    /// The instruction of a site.
    pub(super) fn instruction(&self, site: i64) -> &Inst {
        let Site { function, block, at, .. } = self.sites[site as usize];
        &self.code.function(function as usize).blocks[block as usize].code[at as usize]
    }
}

/// Whether a program becomes machine code at all.
pub(super) fn is_within_limits(code: &Code) -> bool {
    let mut total = 0;
    for function in &code.program.module().functions {
        let instructions: usize = function.blocks.iter().map(|block| block.code.len() + 1).sum();
        let (points, _) = nurseries::points(function);
        total += instructions;
        let spills = (points - 1).saturating_mul(function.registers.len());
        if instructions > NATIVE_FUNCTION_MAX || spills > NATIVE_SPILLS_MAX {
            return false;
        }
    }
    total <= NATIVE_INSTRUCTIONS_MAX
}

/// A function of CLIF, and whether it is the call of a function of the program.
struct Made {
    id: FuncId,
    number: usize,
    part: Part,
    function: clif::Function,
}

#[derive(Clone, Copy, PartialEq)]
enum Part {
    Call,
    Body,
    Entry,
    Inside,
    Cold,
}

impl Part {
    fn name(self) -> &'static str {
        match self {
            Part::Call => "",
            Part::Body => ", the body",
            Part::Entry => ", as a task",
            Part::Inside => ", inside a nursery",
            Part::Cold => "",
        }
    }
}

fn module() -> Result<JITModule, Box<dyn std::error::Error>> {
    let mut flags = settings::builder();
    for (name, value) in [
        ("opt_level", "speed"),
        ("is_pic", "false"),
        ("use_colocated_libcalls", "false"),
        // What the verifier of CLIF would find are bugs of ours: tests look for them.
        ("enable_verifier", if cfg!(debug_assertions) { "true" } else { "false" }),
        // Code leaves nothing to unwind, and its stack was proven.
        ("unwind_info", "false"),
        ("enable_probestack", "false"),
    ] {
        flags.set(name, value)?;
    }
    let isa = cranelift_native::builder()?.finish(settings::Flags::new(flags))?;
    let mut builder = JITBuilder::with_isa(isa, default_libcall_names());
    builder.memory_provider(Box::new(ArenaMemoryProvider::new_with_size(CODE_BYTES)?));
    builder.symbols(Help::ALL.iter().map(|(_, name, shim)| (*name, *shim as *const u8)));
    Ok(JITModule::new(builder))
}

/// Why compiling stops.
const UNWANTED: &str = "the program is gone";

/// Translates all functions. Returns what was made, and the sites.
fn translate(
    module: &mut JITModule,
    unit: &Unit,
    code: &Code,
    settings: Settings,
    is_unwanted: &AtomicBool,
) -> Result<(Vec<Made>, Vec<Site>), &'static str> {
    let program = code.program.module();
    let mut sites = Vec::new();
    let mut made = Vec::new();
    let mut reused = FunctionBuilderContext::new();
    let mut context = Context { module, unit, program, settings, sites: &mut sites };
    for (help, id) in &unit.cold {
        let function = nurseries::cold(&mut context, &mut reused, *help, *id);
        made.push(Made { id: *id, number: 0, part: Part::Cold, function });
    }
    for (number, parts) in unit.parts.iter().enumerate() {
        if is_unwanted.load(Relaxed) {
            return Err(UNWANTED);
        }
        let mut add = |id, part, function| made.push(Made { id, number, part, function });
        add(parts.call, Part::Call, nurseries::call(&mut context, &mut reused, number));
        if let (Some(body), Some(inside)) = (parts.body, parts.inside) {
            add(body, Part::Body, nurseries::body(&mut context, &mut reused, number, body));
            add(inside, Part::Inside, nurseries::inside(&mut context, &mut reused, body, inside));
        }
        if let Some(entry) = parts.entry {
            add(entry, Part::Entry, nurseries::entry(&mut context, &mut reused, number, entry));
        }
    }
    Ok((made, sites))
}

/// Compiles a program, unless it is gone before that is done.
pub(super) fn compile(
    code: Arc<Code>,
    settings: Settings,
    is_unwanted: &AtomicBool,
) -> Result<Native, Box<dyn std::error::Error>> {
    let mut module = module()?;
    match define(&mut module, &code, settings, is_unwanted) {
        Ok(Defined { sites, entries, insides, stack }) => {
            let Linked { entries, insides, memory } = link(module, &entries, &insides);
            Ok(Native { code, sites, entries, insides, stack, _memory: memory })
        }
        Err(error) => {
            drop(Memory::of(module));
            Err(error)
        }
    }
}

/// What is known of a program when its code is in the module.
struct Defined {
    sites: Vec<Site>,
    entries: Vec<Option<FuncId>>,
    insides: Vec<Option<FuncId>>,
    stack: Needs,
}

fn define(
    module: &mut JITModule,
    code: &Code,
    settings: Settings,
    is_unwanted: &AtomicBool,
) -> Result<Defined, Box<dyn std::error::Error>> {
    #[cfg(test)]
    while settings.planted == Some(Bug::NeverReady) && !is_unwanted.load(Relaxed) {
        thread::yield_now();
    }
    let program = code.program.module();
    let unit = Unit::declare(module, program)?;
    let (made, sites) = translate(module, &unit, code, settings, is_unwanted)?;
    let mut frames = vec![Frames::default(); program.functions.len()];
    let finished = finish(module.isa(), made, is_unwanted)?;
    for Finished { id, number, part, code, alignment, relocations, frame_bytes } in finished {
        module.define_function_bytes(id, alignment, &code, &relocations)?;
        match part {
            Part::Call => frames[number].call += frame_bytes,
            Part::Body => {
                frames[number].call += frame_bytes;
                frames[number].inside += frame_bytes;
            }
            Part::Inside => frames[number].inside += frame_bytes,
            // One for each task at a time; what is kept below has room for it.
            Part::Entry | Part::Cold => {}
        }
    }
    module.finalize_definitions()?;
    let entries = unit.parts.iter().map(|parts| parts.entry).collect();
    let insides = unit.parts.iter().map(|parts| parts.inside).collect();
    Ok(Defined { sites, entries, insides, stack: Needs::of(program, &frames) })
}

/// Machine code of a function, before it is put into memory.
struct Finished {
    id: FuncId,
    number: usize,
    part: Part,
    code: Vec<u8>,
    alignment: u64,
    relocations: Vec<ModuleReloc>,
    frame_bytes: u64,
}

/// Makes machine code of functions, on several threads if there are many.
fn finish(isa: &dyn TargetIsa, made: Vec<Made>, is_unwanted: &AtomicBool) -> Result<Vec<Finished>, String> {
    let small = small(&made);
    let most = thread::available_parallelism().map_or(1, usize::from);
    let threads = most.min(made.len().div_ceil(FUNCTIONS_A_THREAD)).max(1);
    let mut shares: Vec<Vec<Made>> = (0..threads).map(|_| Vec::new()).collect();
    made.into_iter().enumerate().for_each(|(at, made)| shares[at % threads].push(made));
    let finish_share = |share: Vec<Made>| {
        let mut context = cranelift_codegen::Context::new();
        let finish_one = |made| match is_unwanted.load(Relaxed) {
            true => Err(UNWANTED.to_owned()),
            false => finish_one(isa, &mut context, made, &small),
        };
        share.into_iter().map(finish_one).collect::<Result<Vec<_>, _>>()
    };
    let own = shares.swap_remove(0);
    thread::scope(|scope| {
        let compiler = || thread::Builder::new().name("janus-compiler".into()).stack_size(COMPILER_STACK_BYTES);
        let others = shares.into_iter().map(|share| compiler().spawn_scoped(scope, || finish_share(share)));
        let others: Vec<_> = others.collect::<Result<_, _>>().map_err(|error| error.to_string())?;
        let mut finished = finish_share(own)?;
        for other in others {
            finished.extend(other.join().map_err(|_| "Cranelift panicked")??);
        }
        Ok(finished)
    })
}

fn finish_one(
    isa: &dyn TargetIsa,
    context: &mut cranelift_codegen::Context,
    Made { id, number, part, function }: Made,
    small: &HashMap<u32, clif::Function>,
) -> Result<Finished, String> {
    context.clear();
    context.func = function;
    if matches!(part, Part::Call | Part::Body) {
        context.inline(Inliner { small, left: GROWTH_MAX }).map_err(|error| error.to_string())?;
    }
    let compiled = context.compile(isa, &mut ControlPlane::default()).map_err(|error| error.inner.to_string())?;
    let (code, alignment) = (compiled.code_buffer().to_vec(), u64::from(compiled.buffer.alignment));
    // With the return address, and where the frame pointer is kept.
    let layout = compiled.buffer.frame_layout().ok_or("Cranelift does not say how large a frame is")?;
    let frame_bytes = u64::from(layout.frame_to_fp_offset) + 16;
    let relocations = compiled.buffer.relocs().to_vec();
    let relocations = relocations.iter().map(|reloc| ModuleReloc::from_mach_reloc(reloc, &context.func, id)).collect();
    Ok(Finished { id, number, part, code, alignment, relocations, frame_bytes })
}

/// Functions that are inlined where they are called: small ones without nurseries.
fn small(made: &[Made]) -> HashMap<u32, clif::Function> {
    let bodies: Vec<usize> = made.iter().filter(|made| made.part == Part::Body).map(|made| made.number).collect();
    let is_small = |made: &&Made| {
        made.part == Part::Call
            && hot_instructions(&made.function) <= INLINED_MAX
            && bodies.binary_search(&made.number).is_err()
    };
    made.iter().filter(is_small).map(|made| (made.id.as_u32(), made.function.clone())).collect()
}

/// Instructions outside cold blocks.
fn hot_instructions(function: &clif::Function) -> usize {
    let hot = function.layout.blocks().filter(|block| !function.layout.is_cold(*block));
    hot.map(|block| function.layout.block_insts(block).count()).sum()
}

/// Inlines small functions, one level deep: a recursion as well.
struct Inliner<'a> {
    small: &'a HashMap<u32, clif::Function>,
    left: usize,
}

impl Inline for Inliner<'_> {
    fn inline(
        &mut self,
        caller: &clif::Function,
        _: clif::Inst,
        _: clif::Opcode,
        callee: clif::FuncRef,
        _: &[clif::Value],
    ) -> InlineCommand<'_> {
        let clif::ExternalName::User(name) = caller.dfg.ext_funcs[callee].name else { return InlineCommand::KeepCall };
        let name = &caller.params.user_named_funcs()[name];
        let Some(function) = self.small.get(&name.index) else { return InlineCommand::KeepCall };
        match self.left.checked_sub(function.dfg.num_insts()) {
            Some(left) => self.left = left,
            None => return InlineCommand::KeepCall,
        }
        InlineCommand::Inline { callee: Cow::Borrowed(function), visit_callee: false }
    }
}

/// The CLIF of a program as text, before Cranelift changes it; none if the program is interpreted.
pub(crate) fn clif(code: &Code) -> Option<String> {
    if !is_within_limits(code) {
        return None;
    }
    let mut module = module().ok()?;
    let unit = Unit::declare(&mut module, code.program.module()).ok()?;
    let mut text = String::new();
    for (number, (_, name, _)) in Help::ALL.iter().enumerate() {
        _ = writeln!(text, "; u0:{} {name}", unit.helpers[number].as_u32());
    }
    let (made, _) = translate(&mut module, &unit, code, Settings::default(), &AtomicBool::new(false)).ok()?;
    for Made { number, part, function, .. } in &made {
        match part {
            Part::Cold => _ = write!(text, "\n; a helper that keeps all registers\n{function}"),
            _ => _ = write!(text, "\n; @{}{}\n{function}", code.names[*number], part.name()),
        }
    }
    drop(Memory::of(module));
    Some(text)
}
