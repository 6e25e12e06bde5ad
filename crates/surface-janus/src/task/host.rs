//! What all tasks of a run share.
//!
//! Room: state.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use sched_tasks::{Cap, CapSpawn};

use super::fault::Fault;

/// What a program has spent: the sums over all its tasks that have ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Spent {
    /// Loop iterations, calls, prints (one for each 64 bytes of a line), channels, spawns and operations of channels.
    pub ops: u64,
    /// Bytes of channels, all that were ever made.
    pub memory: u64,
    /// Tasks that were started.
    pub spawns: u64,
    /// Sends, receives and selects, also those that only tried.
    pub channel_ops: u64,
    /// Calls of the operating system. No operation of the language makes one.
    pub syscalls: u64,
}

impl fmt::Display for Spent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { ops, memory, spawns, channel_ops, syscalls } = self;
        write!(f, "{ops} ops, {memory} bytes, {spawns} spawns, {channel_ops} channel ops, {syscalls} syscalls")
    }
}

/// A line that `print` prints.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Printed<'a> {
    /// Without the end of the line.
    pub text: &'a str,
    /// What the task that prints had spent before.
    pub spent: Spent,
    /// The line of the source.
    pub line: u32,
}

type Output = Arc<dyn Fn(&Printed<'_>) + Send + Sync>;

/// What runs the code of a program. What it prints, what it spends and how it ends is the same in each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Engine {
    /// Machine code, made when the program runs for the first time. The interpreter, if the crate was built without the feature `native`, for a processor that is not known, and for programs that are too large.
    #[default]
    Native,
    /// Step by step: the reference.
    Interpreter,
}

/// Where a program runs: what becomes of its output, and the limits that no budget has. One for each run: it adds up what the program spends.
///
/// ```
/// use std::sync::{Arc, Mutex};
/// use surface_janus::{Host, Program};
///
/// let lines = Arc::new(Mutex::new(Vec::new()));
/// let seen = lines.clone();
/// let host = Host::new().output(move |line| seen.lock().unwrap().push(line.text.to_owned()));
/// let program = Program::compile("func main() do print(6 * 7) end").unwrap();
/// bursar::nursery(|n| program.spawn_on(&host, n, "main", &[])?.join())?;
/// assert_eq!(*lines.lock().unwrap(), ["42"]);
/// assert_eq!(host.spent().ops, 1);
/// # Ok::<(), bursar::TaskError>(())
/// ```
#[derive(Clone)]
pub struct Host {
    settings: Settings,
    state: Arc<State>,
}

#[derive(Clone)]
struct Settings {
    output: Output,
    stack_bytes: u64,
    memory_bytes: u64,
    yield_interval: Option<u32>,
    may_spawn: bool,
    engine: Engine,
}

#[derive(Default)]
struct State {
    memory: AtomicU64,
    spent: Sums,
    fault: Mutex<Option<Fault>>,
}

/// What tasks have spent that ended. Tasks end by the million each second, on all workers: no lock, and nothing is touched that does not change.
#[derive(Default)]
struct Sums {
    ops: AtomicU64,
    memory: AtomicU64,
    spawns: AtomicU64,
    channel_ops: AtomicU64,
    syscalls: AtomicU64,
}

impl Sums {
    fn each<'a>(&'a self, spent: &'a mut Spent) -> [(&'a AtomicU64, &'a mut u64); 5] {
        [
            (&self.ops, &mut spent.ops),
            (&self.memory, &mut spent.memory),
            (&self.spawns, &mut spent.spawns),
            (&self.channel_ops, &mut spent.channel_ops),
            (&self.syscalls, &mut spent.syscalls),
        ]
    }
}

impl Default for Host {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Host").field("spent", &self.spent()).field("fault", &self.fault()).finish_non_exhaustive()
    }
}

impl Host {
    /// Prints to standard output; 128 KiB of stack for each task, 64 MiB for channels.
    pub fn new() -> Self {
        let settings = Settings {
            output: Arc::new(|line| println!("{}", line.text)),
            stack_bytes: 128 << 10,
            memory_bytes: 64 << 20,
            yield_interval: None,
            may_spawn: false,
            engine: Engine::default(),
        };
        Self { settings, state: Arc::default() }
    }

    /// A host that is like this one but for a setting, and on which nothing has run.
    fn with(mut self, change: impl FnOnce(&mut Settings)) -> Self {
        change(&mut self.settings);
        self.state = Arc::default();
        self
    }

    /// What becomes of a line that is printed. It is called by the task that prints.
    pub fn output(self, output: impl Fn(&Printed<'_>) + Send + Sync + 'static) -> Self {
        self.with(|settings| settings.output = Arc::new(output))
    }

    /// Lets programs of `:sovereign` start tasks. Who says so shows the capability; give it to the nursery that they run in, too: that counts their tasks.
    pub fn grant_spawn(self, _: &Cap<CapSpawn>) -> Self {
        self.with(|settings| settings.may_spawn = true)
    }

    /// How much stack the calls of a task may take. A call takes 64 bytes, and 8 for each register of the function's IR, whatever engine runs it.
    pub fn stack_bytes(self, bytes: u64) -> Self {
        self.with(|settings| settings.stack_bytes = bytes)
    }

    /// How much memory the channels of a run may take in all: 64 bytes each, and 8 for each value they can hold. It is not given back.
    pub fn memory_bytes(self, bytes: u64) -> Self {
        self.with(|settings| settings.memory_bytes = bytes)
    }

    /// How many operations a task does at most between two checks, instead of what its profile says.
    pub fn yield_interval(self, operations: u32) -> Self {
        self.with(|settings| settings.yield_interval = Some(operations.max(1)))
    }

    /// What runs the code.
    pub fn engine(self, engine: Engine) -> Self {
        self.with(|settings| settings.engine = engine)
    }

    /// What was spent by tasks that have ended.
    pub fn spent(&self) -> Spent {
        let mut spent = Spent::default();
        self.state.spent.each(&mut spent).into_iter().for_each(|(sum, field)| *field = sum.load(Relaxed));
        spent
    }

    /// The first error of the program that was noted, with its line; also that of a budget.
    pub fn fault(&self) -> Option<Fault> {
        self.state.fault.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether programs of `:sovereign` may start tasks.
    pub(crate) fn may_spawn(&self) -> bool {
        self.settings.may_spawn
    }

    pub(crate) fn wanted_engine(&self) -> Engine {
        self.settings.engine
    }

    pub(super) fn print(&self, line: &Printed<'_>) {
        (self.settings.output)(line);
    }

    pub(crate) fn stack_limit(&self) -> u64 {
        self.settings.stack_bytes
    }

    pub(super) fn interval(&self, usual: u32) -> u64 {
        self.settings.yield_interval.unwrap_or(usual).max(1).into()
    }

    pub(super) fn add(&self, spent: &Spent) {
        let mut spent = *spent;
        for (sum, more) in self.state.spent.each(&mut spent) {
            if *more > 0 {
                sum.fetch_add(*more, Relaxed);
            }
        }
    }

    pub(super) fn note(&self, fault: &Fault) {
        self.state.fault.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_with(|| fault.clone());
    }

    /// Takes memory, or says what the limit is.
    pub(super) fn take_memory(&self, bytes: u64) -> Result<(), u64> {
        let limit = self.settings.memory_bytes;
        let add = |taken: u64| taken.checked_add(bytes).filter(|taken| *taken <= limit);
        self.state.memory.fetch_update(Relaxed, Relaxed, add).map(|_| ()).map_err(|_| limit)
    }
}
