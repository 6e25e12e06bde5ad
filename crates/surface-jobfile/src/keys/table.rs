//! The table itself.
//!
//! Room: values.
//!
//! # Invariant
//! No two keys of a section have the same name.

use surface_text::reference::Shape::{
    self, Combinations, Duration, List, Matrix, Section, Size, Text, Texts, TextsOr, Variables, Whole, Wholes, Word,
};

use super::{Field, Key, Set, set};

const fn key(field: Field<'static>, shape: Shape, without: &'static str, about: &'static str, set: Set) -> Key {
    Key { field, shape, without, about, set }
}

/// Limit of anything countable: slots, licences.
pub(crate) const MOST: i64 = 1_000_000_000;
/// The limit of graphics cards of one scheduler.
const CARDS: i64 = 64;
/// Limit of what a budget counts.
const OPERATIONS: i64 = 1_000_000_000_000_000;
const NONE: &str = "none";

/// The parts of a file.
pub(crate) const TOP: &[Key] = &[
    key(
        Field::new("name", "a text", "\"render\""),
        Text,
        "the name of the file without its extension",
        "name of the run",
        Set::Part,
    ),
    key(
        Field::new("resources", "a section", "{ cpu = 4 }"),
        Section("resources"),
        "those of the machine",
        "limits for all jobs together",
        Set::Part,
    ),
    key(Field::new("run", "a section", "{ on = \"slurm\" }"), Section("run"), NONE, "how the run is made", Set::Part),
    key(
        Field::new("slurm", "a section", "{ partition = \"gpu\" }"),
        Section("slurm"),
        "what Slurm does without options",
        "how jobs go to a Slurm cluster",
        Set::Part,
    ),
    key(
        Field::new("defaults", "a section", "{ retries = 1 }"),
        Section("defaults"),
        NONE,
        "defaults for the fields of all jobs",
        Set::Part,
    ),
    key(
        Field::new("env", "a table of variables", "{ LANG = \"C\" }"),
        Variables,
        NONE,
        "environment variables of all jobs",
        Set::Part,
    ),
    key(
        Field::new("job", "a section for each job", "{ hello = { run = \"echo hello\" } }"),
        Section("job"),
        "required",
        "the jobs, each in a section `[job.NAME]`",
        Set::Part,
    ),
];

/// Limits for all jobs together. Any other key defines a named resource and its amount.
pub(crate) const RESOURCES: &[Key] = &[
    key(
        Field::new("cpu", "a whole number of slots", "1"),
        Whole(1, MOST),
        "one slot for each CPU",
        "CPU slots; a hard limit",
        Set::Resource(set::all_cpu),
    ),
    key(
        Field::new("ram", "a size", "\"256 MB\""),
        Size,
        "that of the machine less an eighth",
        "memory; 0 for no limit. A job that needs more than this runs alone",
        Set::Resource(set::all_ram),
    ),
    key(
        Field::new("vram", "a size", "\"6 GB\""),
        Size,
        "what each card has",
        "memory of each graphics card, at most what the card has; if no card is known, of all cards together. 0 for no limit",
        Set::Resource(set::all_vram),
    ),
    key(
        Field::new("gpus", "a whole number of cards", "2"),
        Whole(0, CARDS),
        "the cards that the driver reports",
        "number of graphics cards that may be used, from the first. If the driver reports none, this many are assumed, numbered from 0",
        Set::Resource(set::all_gpus),
    ),
];

/// How the run is made.
pub(crate) const RUN: &[Key] = &[key(
    Field::new("on", "\"local\" or \"slurm\"", "\"slurm\""),
    Word(&["local", "slurm"]),
    "local",
    "where jobs run: on this machine, or on the nodes of a Slurm cluster; --on of the command line goes before it",
    Set::Run(set::all_on),
)];

/// How jobs go to Slurm.
pub(crate) const SLURM: &[Key] = &[
    key(
        Field::new("rest", "\"unix:/PATH\" or \"http://HOST:PORT\"", "\"unix:/run/slurmrestd.sock\""),
        Text,
        "the commands sbatch, squeue, scontrol, scancel and sinfo",
        "where slurmrestd listens, if jobs are to go through it; SLURM_JWT has the token of SLURM_USER_NAME",
        Set::Slurm(set::slurm_rest),
    ),
    key(
        Field::new("partition", "a text", "\"gpu\""),
        Text,
        "that of the cluster",
        "the partition: `--partition` of sbatch",
        Set::Slurm(set::slurm_text),
    ),
    key(
        Field::new("account", "a text", "\"film\""),
        Text,
        "that of the user",
        "the account that pays: `--account`",
        Set::Slurm(set::slurm_text),
    ),
    key(
        Field::new("qos", "a text", "\"long\""),
        Text,
        "that of the account",
        "the quality of service: `--qos`",
        Set::Slurm(set::slurm_text),
    ),
    key(
        Field::new("constraint", "a text", "\"a100\""),
        Text,
        NONE,
        "features that a node must have: `--constraint`",
        Set::Slurm(set::slurm_text),
    ),
    key(
        Field::new("options", "a list of options", "[\"--exclusive\"]"),
        Texts,
        NONE,
        "further options of sbatch, for every job",
        Set::Slurm(set::slurm_texts),
    ),
    key(
        Field::new("vram", "\"gpu\", or \"gres:\" and a name", "\"gres:vram\""),
        Text,
        "\"gres:vram\" if the cluster has that resource, else \"gpu\"",
        "how `vram` of a job is asked for: as a generic resource that counts MiB, or as whole graphics cards",
        Set::Slurm(set::slurm_vram),
    ),
    key(
        Field::new("modules", "a list of modules", "[\"cuda/12\"]"),
        Texts,
        NONE,
        "environment modules that every job loads",
        Set::Slurm(set::slurm_texts),
    ),
    key(
        Field::new("prologue", "shell lines", "\"ulimit -c 0\""),
        Text,
        NONE,
        "shell lines that run before each command, on its node",
        Set::Slurm(set::slurm_text),
    ),
    key(
        Field::new("window", "a whole number of jobs", "500"),
        Whole(1, MOST),
        "1000",
        "how many jobs may be with Slurm at a time; the others wait here",
        Set::Slurm(set::slurm_window),
    ),
    key(
        Field::new("resources", "a table of resources", "{ licence = \"license:renderer\" }"),
        Variables,
        "bursar counts them",
        "what resources of `[resources]` are called in Slurm: `license:NAME` or `gres:NAME`. Then Slurm counts them, too",
        Set::Slurm(set::slurm_resources),
    ),
];

/// Fields of a job alone.
pub(crate) const JOB: &[Key] = &[
    key(
        Field::new("run", "a shell line", "\"echo hello\""),
        Text,
        "none; one of `run`, `command`, `flow` and `exec` is required",
        "a command line for a shell. `{key}` stands for a value of `foreach`, `{job}` for the name of the job",
        Set::Job(set::run),
    ),
    key(
        Field::new("command", "a list of a program and its arguments", "[\"echo\", \"hello\"]"),
        Texts,
        "`run`",
        "a program and its arguments, run without a shell",
        Set::Job(set::command),
    ),
    key(
        Field::new("flow", "the path of a flow file", "\"sensors.toml\""),
        Text,
        "`run`",
        "runs the graph of that flow file until its sources have ended; if it is cancelled, messages on their way are delivered first",
        Set::Job(set::flow),
    ),
    key(
        Field::new("exec", "the path of a Janus program", "\"step.jan\""),
        Text,
        "`run`",
        "runs that program as `bursar exec` does; its budget is spent by each attempt anew, and a budget that is spent is a failure",
        Set::Job(set::exec),
    ),
    key(
        Field::new("args", "a list of numbers, true and false", "[20, true, \"{job}\"]"),
        List,
        NONE,
        "with `exec`: the arguments of its `main`; a text may have placeholders",
        Set::Job(set::args),
    ),
    key(
        Field::new("ops", "a whole number", "1000000"),
        Whole(1, OPERATIONS),
        "no limit",
        "with `exec`: operations that the program may do: iterations, calls, prints, spawns, operations of channels",
        Set::Job(set::exec_limit),
    ),
    key(
        Field::new("spawns", "a whole number", "100"),
        Whole(0, OPERATIONS),
        "no limit",
        "with `exec`: tasks that the program may start in all",
        Set::Job(set::exec_limit),
    ),
    key(
        Field::new("channel_ops", "a whole number", "1000"),
        Whole(0, OPERATIONS),
        "no limit",
        "with `exec`: sends, receives and selects that the program may do",
        Set::Job(set::exec_limit),
    ),
    key(
        Field::new("tasks", "a whole number", "50"),
        Whole(1, u32::MAX as i64),
        "no limit",
        "with `exec`: tasks that the program may have at a time; grants a program of profile `sovereign` to start tasks at all. Else, on Slurm: tasks of a parallel job (`--ntasks`), which its command starts with `srun`",
        Set::Job(set::exec_limit),
    ),
    key(
        Field::new("nodes", "a whole number of nodes", "4"),
        Whole(1, 1_000_000),
        "1",
        "on Slurm: nodes of a parallel job (`--nodes`)",
        Set::Job(set::nodes),
    ),
    key(
        Field::new("on", "\"local\" or \"slurm\"", "\"local\""),
        Word(&["local", "slurm"]),
        "that of `[run]`",
        "where it runs: on this machine, or on a node of a Slurm cluster",
        Set::Job(set::on),
    ),
    key(
        Field::new("needs", "a list of jobs, or \"inputs\"", "[\"other\"]"),
        TextsOr("inputs"),
        NONE,
        "jobs that must succeed first: `image` for all of a group, `image[3]` or `image[{scene}]` for one; \"inputs\" for all jobs that make its inputs; an input that no job makes must exist",
        Set::Job(set::needs),
    ),
    key(
        Field::new("foreach", "a table of values", "{ scene = \"1..8\" }"),
        Matrix,
        "one job",
        "one job for each combination of values: ranges, lists, or files as \"glob:*.png\"; at most 8 keys",
        Set::Job(set::foreach),
    ),
    key(
        Field::new("exclude", "a list of combinations", "[{ scene = \"3\" }]"),
        Combinations,
        NONE,
        "combinations that are left out",
        Set::Job(set::exclude),
    ),
    key(
        Field::new("include", "a list of combinations", "[{ scene = \"9\" }]"),
        Combinations,
        NONE,
        "combinations in addition to those of `foreach`",
        Set::Job(set::include),
    ),
    key(
        Field::new("inputs", "a list of files", "[\"a.json\", \"img/*.png\"]"),
        Texts,
        NONE,
        "files, globs and folders that it reads, relative to its `cwd`; a folder stands for everything in it",
        Set::Job(set::inputs),
    ),
    key(
        Field::new("outputs", "a list of files", "[\"film.mp4\"]"),
        Texts,
        NONE,
        "files that must exist when it succeeds. The job is skipped if they are as the same command left them, and what it reads (`inputs`, and the outputs of jobs that it needs) has not changed since it started. Of a folder only its existence is checked",
        Set::Job(set::outputs),
    ),
    key(
        Field::new("budget", "a duration", "\"2ms\""),
        Duration,
        NONE,
        "CPU time that is reserved for it in each period: SCHED_DEADLINE for its first thread (what that starts is ordinary), else SCHED_FIFO for all of it, else as class latency. Needs `period` or `deadline`; not with `class`, `weight` or `nice`",
        Set::Job(set::budget),
    ),
    key(
        Field::new("period", "a duration", "\"10ms\""),
        Duration,
        "its `deadline`",
        "how often it gets its `budget`: 100us to 4s",
        Set::Job(set::period),
    ),
    key(
        Field::new("deadline", "a duration", "\"5ms\""),
        Duration,
        "its `period`",
        "how soon in each period it has had its `budget`; at most the `period`",
        Set::Job(set::deadline),
    ),
];

/// Fields that a job and `[defaults]` may have. Any other key is a demand for a resource of `[resources]`.
pub(crate) const SHARED: &[Key] = &[
    key(
        Field::new("shell", "the name of a shell", "\"bash\""),
        Text,
        "sh",
        "the shell that runs the line of `run`, with `-c`",
        Set::Shared(set::shell),
    ),
    key(
        Field::new("cpu", "a whole number of slots", "1"),
        Whole(1, MOST),
        "1",
        "CPU slots that it takes",
        Set::Shared(set::cpu),
    ),
    key(
        Field::new("ram", "a size", "\"256 MB\""),
        Size,
        "its peak in its last successes plus a tenth, else 256 MB",
        "memory that it takes",
        Set::Shared(set::ram),
    ),
    key(
        Field::new("vram", "a size", "\"6 GB\""),
        Size,
        NONE,
        "memory that it takes on each of its graphics cards. Several jobs share a card while its memory lasts",
        Set::Shared(set::vram),
    ),
    key(
        Field::new("gpus", "a whole number of cards", "2"),
        Whole(0, CARDS),
        "1 with `vram`, else 0",
        "graphics cards that it takes; without `vram` no other job uses them. CUDA_VISIBLE_DEVICES (for AMD: ROCR_VISIBLE_DEVICES) names them, unless its `env` sets that variable",
        Set::Shared(set::gpus),
    ),
    key(
        Field::new("priority", "a whole number", "10"),
        Whole(i32::MIN as i64, i32::MAX as i64),
        "0",
        "higher goes first; waiting raises it by 1 every half second",
        Set::Shared(set::priority),
    ),
    key(
        Field::new("retries", "a whole number", "2"),
        Whole(0, 1_000),
        "0",
        "how often a failed attempt is repeated",
        Set::Shared(set::retries),
    ),
    key(
        Field::new("backoff", "a duration", "\"1s\""),
        Duration,
        "1s",
        "pause before the first retry; it doubles each time, up to 5 minutes",
        Set::Shared(set::backoff),
    ),
    key(
        Field::new("timeout", "a duration", "\"10m\""),
        Duration,
        "no limit",
        "time limit of an attempt; after that it is killed, and has failed. Not 0",
        Set::Shared(set::timeout),
    ),
    key(
        Field::new("grace", "a duration", "\"5s\""),
        Duration,
        "5s",
        "time between SIGTERM and SIGKILL when it is stopped",
        Set::Shared(set::grace),
    ),
    key(
        Field::new("ram_limit", "a size", "\"4 GB\""),
        Size,
        "no limit",
        "limit of the memory it really uses, with all processes it starts",
        Set::Shared(set::ram_limit),
    ),
    key(
        Field::new("over_ram", "\"kill\" or \"warn\"", "\"kill\""),
        Word(&["kill", "warn"]),
        "kill",
        "what happens above `ram_limit`: it is killed and has failed, or a warning is printed",
        Set::Shared(set::over_ram),
    ),
    key(
        Field::new("log_limit", "a size", "\"100 MB\""),
        Size,
        "1 GB",
        "limit of the disk space for the log of an attempt: of a longer log the beginning and the end are kept. 0 for no limit",
        Set::Shared(set::log_limit),
    ),
    key(
        Field::new("class", "\"batch\", \"idle\", \"latency\" or \"normal\"", "\"batch\""),
        Word(&["batch", "idle", "latency", "normal"]),
        "batch for a run that was started at a terminal, else normal; see --class",
        "how the system treats it and all it starts. batch: it gives way to what a person waits for (SCHED_BATCH, nice 10, I/O last). idle: it gets what no other process wants (SCHED_IDLE, nice 19, I/O idle). latency: it waits for little (short slices, nice -10 where permitted, I/O first). normal: as bursar itself",
        Set::Shared(set::class),
    ),
    key(
        Field::new("weight", "a whole number", "200"),
        Whole(1, 10_000),
        "100, that of every other",
        "its share of CPU time beside others: with 200 twice as much as with 100. A control group (cpu.weight, or cpu.shares) where one can be made, else the nearest nice value",
        Set::Shared(set::weight),
    ),
    key(
        Field::new("cpus", "a list of CPU numbers", "[0, 1]"),
        Wholes(0, 4095),
        "any CPU",
        "CPUs that it may run on, by number; at most 4096. Its affinity, and a cpuset where a control group can be made",
        Set::Shared(set::cpus),
    ),
    key(
        Field::new("nice", "a whole number", "5"),
        Whole(-20, 19),
        "that of its class",
        "its nice value: a higher one yields to other processes. One that is not permitted is an error",
        Set::Shared(set::nice),
    ),
    key(
        Field::new("env", "a table of variables", "{ LANG = \"C\" }"),
        Variables,
        "those of `[env]`",
        "environment variables, in addition to those of bursar",
        Set::Shared(set::env),
    ),
    key(
        Field::new("cwd", "a folder", "\"sub\""),
        Text,
        "the folder of the file",
        "the folder it starts in, relative to the folder of the file",
        Set::Shared(set::cwd),
    ),
    key(
        Field::new("incomplete", "\"remove\" or \"keep\"", "\"remove\""),
        Word(&["remove", "keep"]),
        "remove",
        "what happens to outputs of an attempt that did not succeed: they are removed, or kept. They never count as complete. Files that existed before always stay. A file that another program made there meanwhile counts as the attempt's, and is removed, too",
        Set::Shared(set::incomplete),
    ),
    key(
        Field::new("on_crash", "\"adopt\", \"restart\" or \"fail\"", "\"adopt\""),
        Word(&["adopt", "restart", "fail"]),
        "adopt",
        "what a resumed run does if bursar was killed while the job ran: adopt its processes, kill them and start again, or kill them and fail",
        Set::Shared(set::on_crash),
    ),
];
