//! The table itself.
//!
//! Room: values.
//!
//! # Invariant
//! No two keys of a section have the same name.

use surface_text::reference::Shape::{self, Duration, Flag, Text, Texts, Whole, Wholes, Word};

use super::{Field, Key, Set, set};
use crate::draft::{Context, File, Lease, Process, Ring, Session, Thread};

const fn key<T>(
    field: Field<'static>,
    shape: Shape,
    without: &'static str,
    about: &'static str,
    set: Set<T>,
) -> Key<T> {
    Key { field, shape, without, about, set }
}

/// The sections of a file, each with a name behind its point: `[thread.hog]`.
pub(crate) const PARTS: &[&str] = &["session", "process", "context", "ring", "thread", "lease"];

/// Keys at the top.
pub(crate) const FILE: &[Key<File>] = &[
    key(
        Field::new("name", "a text", "\"hogs\""),
        Text,
        "the name of the file without its extension",
        "name of the workload",
        set::file_name,
    ),
    key(
        Field::new("cpus", "a whole number of CPUs", "4"),
        Whole(1, 256),
        "1",
        "CPUs of the machine; `--cpus` replaces it",
        set::file_cpus,
    ),
    key(
        Field::new("for", "a time", "\"2s\""),
        Duration,
        "1s",
        "time that is simulated; `--for` replaces it",
        set::file_time,
    ),
    key(
        Field::new("seed", "a whole number", "7"),
        Whole(0, i64::MAX),
        "0",
        "decides what is random; `--seed` replaces it",
        set::file_seed,
    ),
    key(
        Field::new("interrupt", "a time", "\"2us\""),
        Duration,
        "2us",
        "time that an interrupt takes from one CPU to another",
        set::file_interrupt,
    ),
];

/// Keys of a session.
pub(crate) const SESSION: &[Key<Session>] = &[key(
    Field::new("ends", "a time", "\"500ms\""),
    Duration,
    "never",
    "when it is closed: its processes end, its contexts and leases are revoked",
    set::session_ends,
)];

/// Keys of a process.
pub(crate) const PROCESS: &[Key<Process>] = &[
    key(
        Field::new("context", "the name of a context", "\"shared\""),
        Text,
        "none",
        "context of threads that have none of their own",
        set::process_context,
    ),
    key(
        Field::new("session", "the name of a session", "\"login\""),
        Text,
        "none",
        "session with which it ends",
        set::process_session,
    ),
    key(
        Field::new("ends", "a time", "\"500ms\""),
        Duration,
        "never",
        "when it ends, with its threads and leases",
        set::process_ends,
    ),
];

/// Keys of a scheduling context.
pub(crate) const CONTEXT: &[Key<Context>] = &[
    key(
        Field::new("budget", "a time", "\"300us\""),
        Duration,
        "required",
        "CPU time in each period",
        set::context_budget,
    ),
    key(
        Field::new("period", "a time", "\"5ms\""),
        Duration,
        "required",
        "time after which what was used comes back",
        set::context_period,
    ),
    key(
        Field::new("deadline", "a time", "\"4ms\""),
        Duration,
        "the period",
        "time after a refill by which it should be served; the earliest goes first",
        set::context_deadline,
    ),
    key(
        Field::new("criticality", "a whole number", "9"),
        Whole(0, 255),
        "0",
        "of equal deadlines the more critical goes first",
        set::context_criticality,
    ),
    key(
        Field::new("cpus", "a list of CPUs", "[0]"),
        Wholes(0, 255),
        "all",
        "where its threads may run",
        set::context_cpus,
    ),
    key(
        Field::new("overrun", "\"throttle\", \"demote\" or \"stop\"", "\"demote\""),
        Word(&["throttle", "demote", "stop"]),
        "throttle",
        "what a thread does whose context is depleted: it waits for the next refill, goes on by its weight, or stops for good",
        set::context_overrun,
    ),
    key(
        Field::new("session", "the name of a session", "\"login\""),
        Text,
        "none",
        "session with which it is revoked",
        set::context_session,
    ),
    key(Field::new("ends", "a time", "\"500ms\""), Duration, "never", "when it is revoked", set::context_ends),
];

/// Keys of a thread.
pub(crate) const THREAD: &[Key<Thread>] = &[
    key(
        Field::new("does", "a list of steps", "[\"run 1ms\", \"sleep 9ms\"]"),
        Texts,
        "required",
        "its steps: `run TIME`, `sleep TIME`, `call THREAD`, `receive`, `reply`, `poll RING`, `yield`, `exit`. A TIME may be random: `1ms..4ms`",
        set::thread_does,
    ),
    key(
        Field::new("once", "a flag", "true"),
        Flag,
        "false",
        "the steps once, and then the end; else again and again",
        set::thread_once,
    ),
    key(
        Field::new("count", "a whole number", "8"),
        Whole(1, 10_000),
        "1",
        "so many threads that are alike",
        set::thread_count,
    ),
    key(
        Field::new("process", "the name of a process", "\"batch\""),
        Text,
        "a process `main`",
        "its process",
        set::thread_process,
    ),
    key(
        Field::new("weight", "a whole number", "2048"),
        Whole(1, 1 << 20),
        "1024",
        "its share among threads without a context",
        set::thread_weight,
    ),
    key(
        Field::new("latency", "\"sensitive\", \"normal\" or \"batch\"", "\"sensitive\""),
        Word(&["sensitive", "normal", "batch"]),
        "normal",
        "how soon it would like to be served: slices of 0.75, 3 or 12 ms. A smaller one is served sooner, and is not more",
        set::thread_latency,
    ),
    key(
        Field::new("class", "\"fair\", \"idle\" or \"reserved\"", "\"idle\""),
        Word(&["fair", "idle", "reserved"]),
        "fair",
        "its class while no context is in force: idle runs in gaps, reserved does not run without a context",
        set::thread_class,
    ),
    key(Field::new("cpus", "a list of CPUs", "[0]"), Wholes(0, 255), "all", "where it may run", set::thread_cpus),
    key(
        Field::new("context", "the name of a context", "\"shared\""),
        Text,
        "that of its process",
        "the context it runs by",
        set::thread_context,
    ),
    key(Field::new("starts", "a time", "\"10ms\""), Duration, "0", "when it starts", set::thread_starts),
    key(
        Field::new("deadline", "a time", "\"4ms\""),
        Duration,
        "none",
        "time after a wake by which it should sleep, receive or reply again; misses are counted, nothing else",
        set::thread_deadline,
    ),
    key(
        Field::new("wait_limit", "a time", "\"4ms\""),
        Duration,
        "none",
        "a longer wait for a CPU after a wake breaks a law: the run ends with exit code 1 and its seed",
        set::thread_wait_limit,
    ),
];

/// Keys of an isolation lease.
pub(crate) const LEASE: &[Key<Lease>] = &[
    key(
        Field::new("process", "the name of a process", "\"batch\""),
        Text,
        "required",
        "its owner: no other process runs there",
        set::lease_process,
    ),
    key(
        Field::new("cpus", "a list of CPUs", "[1]"),
        Wholes(0, 255),
        "required",
        "which CPUs; at least one is left for the others",
        set::lease_cpus,
    ),
    key(
        Field::new("context", "the name of a context", "\"shared\""),
        Text,
        "required",
        "what its time is charged to",
        set::lease_context,
    ),
    key(
        Field::new("ring", "the name of a ring", "\"requests\""),
        Text,
        "none",
        "the ring that is polled there, by one thread that runs by that context",
        set::lease_ring,
    ),
    key(
        Field::new("revocation", "a time", "\"50us\""),
        Duration,
        "50us",
        "time within which its CPUs are given back",
        set::lease_revocation,
    ),
    key(Field::new("starts", "a time", "\"100ms\""), Duration, "0", "when it is activated", set::lease_starts),
    key(Field::new("ends", "a time", "\"500ms\""), Duration, "never", "when it is revoked", set::lease_ends),
];

/// Keys of a ring.
pub(crate) const RING: &[Key<Ring>] = &[
    key(
        Field::new("every", "a time, or two", "\"500us..2ms\""),
        Text,
        "required",
        "time from request to request",
        set::ring_every,
    ),
    key(
        Field::new("cost", "a time, or two", "\"50us\""),
        Text,
        "required",
        "CPU time that a request takes",
        set::ring_cost,
    ),
    key(
        Field::new("deadline", "a time", "\"1ms\""),
        Duration,
        "none",
        "time by which a request should have been served; it is counted, and grants no CPU time",
        set::ring_deadline,
    ),
    key(
        Field::new("late", "\"serve\" or \"drop\"", "\"drop\""),
        Word(&["serve", "drop"]),
        "serve",
        "what becomes of a request that is taken after its deadline",
        set::ring_late,
    ),
    key(
        Field::new("capacity", "a whole number", "64"),
        Whole(1, 100_000),
        "64",
        "requests that wait at most; more are dropped",
        set::ring_capacity,
    ),
    key(
        Field::new("interval", "a time", "\"10us\""),
        Duration,
        "10us",
        "time that a look at an empty ring takes, while it is polled",
        set::ring_interval,
    ),
];
