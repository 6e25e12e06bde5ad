//! What users call: compile a program, run it.
//!
//! Room: interface.

use std::error::Error;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use sched_tasks::{Nursery, NurseryOptions, Task, TaskError, nursery_with};
use surface_text::units::clip;
use surface_text::{Problems, Report, source};

use crate::check::{self, Profile};
use crate::interp::Interpreter;
use crate::ir::{self, Module, Refused, Tenancy, Type, Verified};
use crate::limits::SOURCE_BYTES_MAX;
#[cfg(feature = "native")]
use crate::native::{self, Making, Native, NativeEngine};
use crate::task::{Argument, Code, Engine, Execute, Fault, Host, Run, Spent, run_task};
use crate::{lower, passes, syntax};

/// Some editors begin a file with it; it is no part of the text.
const BYTE_ORDER_MARK: char = '\u{feff}';

/// How a program is compiled.
#[derive(Clone, Debug)]
pub struct Options {
    name: Arc<str>,
    profile: Option<Profile>,
    merges: bool,
    /// Whether there are checks in machine code.
    checks: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { name: "main.jan".into(), profile: None, merges: true, checks: true }
    }
}

impl Options {
    /// As the program says.
    pub fn new() -> Self {
        Self::default()
    }

    /// The name of the source, for messages.
    pub fn name(mut self, name: impl Into<Arc<str>>) -> Self {
        self.name = name.into();
        self
    }

    /// The profile, whatever the program says.
    pub fn profile(mut self, profile: Profile) -> Self {
        self.profile = Some(profile);
        self
    }

    /// Leaves checks and decrements out of machine code, which then can hog, and spends too little. To measure what they cost.
    #[doc(hidden)]
    pub fn unchecked(mut self) -> Self {
        self.checks = false;
        self
    }

    /// Leaves every budget check where it was put. What is spent is the same; for tests.
    pub fn unmerged(mut self) -> Self {
        self.merges = false;
        self
    }
}

/// A value that a function is called with, or returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    /// Nothing.
    Unit,
    /// An `i64`.
    Int(i64),
    /// A `bool`.
    Bool(bool),
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Unit => f.write_str("()"),
            Value::Int(value) => value.fmt(f),
            Value::Bool(value) => value.fmt(f),
        }
    }
}

/// A compiled program. Cheap to clone.
///
/// ```
/// use surface_janus::{Program, Value};
///
/// let program = Program::compile("
///     async func double(n: i64) -> i64 do
///         return n * 2
///     end
///
///     func main() -> i64 do
///         return await double(21)
///     end
/// ").unwrap();
/// let value = bursar::nursery(|n| program.spawn(n, "main", &[])?.join())?;
/// assert_eq!(value, Value::Int(42));
/// # Ok::<(), bursar::TaskError>(())
/// ```
#[derive(Clone)]
pub struct Program {
    pub(crate) shared: Arc<Shared>,
    profile: Profile,
    needs_spawn: bool,
}

/// What clones of a program share.
pub(crate) struct Shared {
    code: Arc<Code>,
    #[cfg(feature = "native")]
    settings: native::Settings,
    /// Made when the program first runs.
    #[cfg(feature = "native")]
    pub(crate) native: Arc<Making>,
}

#[cfg(feature = "native")]
impl Drop for Shared {
    fn drop(&mut self) {
        self.native.give_up();
    }
}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let functions = self.ir().functions.iter().map(|function| &function.name);
        f.debug_struct("Program")
            .field("profile", &self.profile)
            .field("functions", &functions.collect::<Vec<_>>())
            .finish()
    }
}

impl Program {
    /// Compiles a source.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn compile(source: &str) -> Result<Self, Problems> {
        Self::compile_with(source, &Options::new())
    }

    /// Reads a file and compiles it.
    ///
    /// # Errors
    /// Everything that is wrong with it, or why it cannot be read.
    pub fn load(path: &Path, options: &Options) -> Result<Self, Problems> {
        let (bytes, _) = source::read(path, SOURCE_BYTES_MAX, "name a file with a Janus program, such as hello.jan")?;
        Self::compile_bytes(&bytes, &options.clone().name(path.display().to_string()))
    }

    /// As [`compile_with`](Self::compile_with), for bytes of any origin.
    ///
    /// # Errors
    /// Everything that is wrong with them.
    pub fn compile_bytes(bytes: &[u8], options: &Options) -> Result<Self, Problems> {
        let text = std::str::from_utf8(bytes).map_err(|error| {
            let mut report = Report::default();
            let at = error.valid_up_to();
            report.add(&(at..at + 1), "the source is not UTF-8", "save it as UTF-8");
            report.finish(&options.name, bytes)
        })?;
        Self::compile_with(text, options)
    }

    /// As [`compile`](Self::compile), as `options` say.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn compile_with(source: &str, options: &Options) -> Result<Self, Problems> {
        if source.len() > SOURCE_BYTES_MAX {
            let message = format!("has more than {SOURCE_BYTES_MAX} bytes, the limit");
            return Err(Problems::of_file(&options.name, message, "divide the program into several"));
        }
        let source = source.strip_prefix(BYTE_ORDER_MARK).unwrap_or(source);
        let mut report = Report::default();
        let file = syntax::parse(source, &mut report);
        // Half a tree has problems of its own, which are none.
        let checked = if report.is_empty() { check::check(&file, options.profile, &mut report) } else { None };
        let Some((tree, profile, needs_spawn)) = checked else {
            return Err(report.finish(&options.name, source.as_bytes()));
        };
        let module = lower::lower(&tree, source).map_err(|too_large| {
            for function in too_large {
                report.add(&function.at, function.what, "divide the function into several");
            }
            report.finish(&options.name, source.as_bytes())
        })?;
        match compiled(module, options.merges) {
            Ok(program) => Ok(Self::of(program, options, profile, needs_spawn)),
            Err(refused) => Err(Problems::of_file(
                &options.name,
                format!("the compiler made something wrong of it: {refused}"),
                "this is a bug of the compiler, please report it",
            )),
        }
    }

    /// A program of QTJIR that was verified. Its profile is `:service`.
    pub fn from_ir(program: Verified, name: impl Into<Arc<str>>) -> Self {
        Self::of(program, &Options::new().name(name), Profile::Service, false)
    }

    fn of(program: Verified, options: &Options, profile: Profile, needs_spawn: bool) -> Self {
        let code = Arc::new(Code::new(program, options.name.clone(), profile.yield_interval()));
        let shared = Shared {
            code,
            #[cfg(feature = "native")]
            settings: native::Settings { is_unchecked: !options.checks, planted: None },
            #[cfg(feature = "native")]
            native: Arc::default(),
        };
        Self { shared: Arc::new(shared), profile, needs_spawn }
    }

    /// The same program, with a bug in its machine code.
    #[cfg(all(test, feature = "native"))]
    pub(crate) fn planted(self, planted: Option<native::Bug>) -> Self {
        let settings = native::Settings { planted, ..self.shared.settings };
        let shared = Shared { code: self.shared.code.clone(), settings, native: Arc::default() };
        Self { shared: Arc::new(shared), ..self }
    }

    /// Makes machine code of it now, and not when it first runs. Returns what runs it on a [`Host`] that says nothing else.
    ///
    /// A caller that is cancelled does not wait for it, here and in [`spawn`](Self::spawn): a program of many thousand functions takes seconds.
    pub fn prepare(&self) -> Engine {
        #[cfg(feature = "native")]
        if self.native().is_some() {
            return Engine::Native;
        }
        Engine::Interpreter
    }

    /// What Cranelift makes machine code of, as text; none if the program is interpreted.
    pub fn clif(&self) -> Option<String> {
        #[cfg(feature = "native")]
        return native::clif(&self.shared.code);
        #[cfg(not(feature = "native"))]
        None
    }

    #[cfg(feature = "native")]
    pub(crate) fn native(&self) -> Option<Arc<Native>> {
        self.shared.native.wait(&self.shared.code, self.shared.settings)
    }

    /// What runs it on a host.
    fn engine(&self, host: &Host) -> Arc<dyn Execute> {
        let native = if host.wanted_engine() == Engine::Native { self.native_engine(host) } else { None };
        native.unwrap_or_else(|| Arc::new(Interpreter))
    }

    #[cfg(feature = "native")]
    fn native_engine(&self, host: &Host) -> Option<Arc<dyn Execute>> {
        let native = self.native()?;
        Some(Arc::new(NativeEngine::new(native, host.stack_limit())))
    }

    #[cfg(not(feature = "native"))]
    fn native_engine(&self, _: &Host) -> Option<Arc<dyn Execute>> {
        None
    }

    /// What it was compiled to.
    pub fn ir(&self) -> &Module {
        self.shared.code.program.module()
    }

    /// Its profile.
    pub fn profile(&self) -> Profile {
        self.profile
    }

    /// Whether it says `needs: spawn`. In `:sovereign` it runs only on a host that was [granted](Host::grant_spawn) that.
    pub fn needs_spawn(&self) -> bool {
        self.needs_spawn
    }

    /// Whether a function can be started with these arguments.
    ///
    /// # Errors
    /// Why [`spawn`](Self::spawn) would refuse it, whatever the host grants.
    pub fn accepts(&self, function: &str, arguments: &[Value]) -> Result<(), CallError> {
        self.call(function, arguments).map(drop)
    }

    /// Starts a function as a task of a nursery, under its budgets and capabilities. Its output goes to standard output.
    ///
    /// # Errors
    /// If there is no such function, it cannot be a task, or the arguments are not its own. What happens to the task is said by the task.
    #[track_caller]
    pub fn spawn<'scope>(
        &self,
        nursery: &'scope Nursery<'scope, '_>,
        function: &str,
        arguments: &[Value],
    ) -> Result<Task<'scope, Value>, CallError> {
        self.spawn_on(&Host::new(), nursery, function, arguments)
    }

    /// As [`spawn`](Self::spawn), on a host.
    ///
    /// # Errors
    /// As there.
    #[track_caller]
    pub fn spawn_on<'scope>(
        &self,
        host: &Host,
        nursery: &'scope Nursery<'scope, '_>,
        function: &str,
        arguments: &[Value],
    ) -> Result<Task<'scope, Value>, CallError> {
        if self.profile == Profile::Sovereign && self.needs_spawn && !host.may_spawn() {
            return Err(CallError::NeedsSpawn);
        }
        let (number, arguments) = self.call(function, arguments)?;
        let run = Run { code: self.shared.code.clone(), host: host.clone(), engine: self.engine(host) };
        let result = self.ir().functions[number].result;
        let stack_bytes = run.engine.stack_bytes(number);
        let options = nursery.task().name(function);
        let options = if stack_bytes > 0 { options.stack_bytes(stack_bytes) } else { options };
        Ok(options.try_spawn(move || {
            let value = run_task(&Arc::new(run), number, arguments)?;
            Ok(match result {
                Type::I64 => Value::Int(value),
                Type::Bool => Value::Bool(value != 0),
                _ => Value::Unit,
            })
        }))
    }

    /// Runs `main` in a nursery of its own, and waits for it.
    pub fn run_main(&self, arguments: &[Value], host: &Host, nursery: NurseryOptions) -> Outcome {
        _ = self.engine(host); // made before a deadline counts
        let result = nursery_with(nursery, |n| self.spawn_on(host, n, "main", arguments)?.join());
        let result = result.map_err(|error| Failure { fault: fault_of(&error).or_else(|| host.fault()), error });
        Outcome { result, spent: host.spent() }
    }

    fn call(&self, name: &str, arguments: &[Value]) -> Result<(usize, Vec<Argument>), CallError> {
        let functions = &self.ir().functions;
        let found = functions.iter().position(|function| function.name == name);
        let Some(number) = found else {
            let known = functions.iter().map(|function| function.name.as_str());
            let near = surface_text::did_you_mean(name, known);
            return Err(CallError::NoFunction { name: name.into(), near });
        };
        let function = &functions[number];
        if function.tenancy != Tenancy::CpuParallel {
            return Err(CallError::NotATask { name: name.into() });
        }
        let wanted = &function.registers[..function.parameters];
        let fits = |(value, ty): (&Value, &Type)| match (value, ty) {
            (Value::Int(value), Type::I64) => Some(Argument::Int(*value)),
            (Value::Bool(value), Type::Bool) => Some(Argument::Int((*value).into())),
            _ => None,
        };
        let given: Option<Vec<_>> = arguments.iter().zip(wanted).map(fits).collect();
        match given.filter(|_| wanted.len() == arguments.len()) {
            Some(arguments) => Ok((number, arguments)),
            None => {
                let wanted: Vec<_> = wanted.iter().map(|ty| ty.name()).collect();
                Err(CallError::Arguments { name: name.into(), wanted: wanted.join(", "), given: arguments.len() })
            }
        }
    }
}

/// The passes, in their order.
fn compiled(mut module: Module, merges: bool) -> Result<Verified, Refused> {
    passes::asynchronous(&mut module);
    passes::fuse(&mut module);
    passes::yield_checks(&mut module);
    if merges {
        passes::merge_checks(&mut module);
    }
    ir::verify(module)
}

/// The error of the program in the error of a task.
fn fault_of(error: &TaskError) -> Option<Fault> {
    error.downcast_ref::<Fault>().cloned()
}

/// How a program ended.
#[derive(Debug)]
#[non_exhaustive]
pub struct Outcome {
    /// What `main` returned.
    pub result: Result<Value, Failure>,
    /// What the tasks of the program spent.
    pub spent: Spent,
}

/// Why a program did not succeed.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Failure {
    /// The error of its task.
    pub error: TaskError,
    /// What the program did when it failed first, with the line; none if it was cancelled from outside, or never began.
    pub fault: Option<Fault>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.fault {
            Some(fault) => fault.fmt(f),
            None => self.error.fmt(f),
        }
    }
}

impl Error for Failure {}

/// Why a function cannot be called from outside.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum CallError {
    /// There is none of this name.
    NoFunction {
        /// The name.
        name: String,
        /// "did you mean …?"
        near: Option<String>,
    },
    /// It is neither `main` nor async, and is spawned nowhere.
    NotATask {
        /// The name.
        name: String,
    },
    /// The program is of `:sovereign` and starts tasks, and its host was granted no `CapSpawn`.
    NeedsSpawn,
    /// Others than it takes.
    Arguments {
        /// The name.
        name: String,
        /// The types that it takes.
        wanted: String,
        /// How many there were.
        given: usize,
    },
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CallError::NoFunction { name, near: Some(near) } => {
                write!(f, "the program has no function `{}`; {near}", clip(name))
            }
            CallError::NoFunction { name, near: None } => {
                let kind = if name == "main" { "func" } else { "async func" };
                write!(f, "the program has no function `{0}`; write `{kind} {0}() do … end`", clip(name))
            }
            CallError::NotATask { name } => {
                write!(
                    f,
                    "`{name}` is called by other functions alone; declare it `async func {name}` to start it as a task"
                )
            }
            CallError::NeedsSpawn => f.write_str(
                "the program needs to spawn, and profile `:sovereign` takes a capability for that; grant one with `Host::grant_spawn`",
            ),
            CallError::Arguments { name, wanted, given } => {
                write!(f, "`{name}` takes ({wanted}), and got {given} arguments, or others than these")
            }
        }
    }
}

impl Error for CallError {}
