//! The table itself.
//!
//! Room: surface, values only.
//!
//! # Invariant
//! No two keys of a section have the same name.

use surface_text::reference::Shape::{
    self, Combinations, Duration, Matrix, Section, Size, Text, Texts, TextsOr, Variables, Whole, Wholes, Word,
};

use super::{Field, Key, Set, set};

const fn key(field: Field<'static>, shape: Shape, without: &'static str, about: &'static str, set: Set) -> Key {
    Key { field, shape, without, about, set }
}

/// Most of anything countable: slots, licences.
pub(crate) const MOST: i64 = 1_000_000_000;
/// As many graphics cards as one scheduler hands out.
const CARDS: i64 = 64;
const NONE: &str = "none";

/// The parts of a file.
pub(crate) const TOP: &[Key] = &[
    key(
        Field::new("name", "a text", "\"render\""),
        Text,
        "the file's name without its ending",
        "what the run is called",
        Set::Part,
    ),
    key(
        Field::new("resources", "a section", "{ cpu = 4 }"),
        Section("resources"),
        "what the machine has",
        "what all jobs together may use",
        Set::Part,
    ),
    key(
        Field::new("defaults", "a section", "{ retries = 1 }"),
        Section("defaults"),
        NONE,
        "fields of every job that does not say otherwise",
        Set::Part,
    ),
    key(
        Field::new("env", "a table of variables", "{ LANG = \"C\" }"),
        Variables,
        NONE,
        "variables of every job",
        Set::Part,
    ),
    key(
        Field::new("job", "a section for each job", "{ hello = { run = \"echo hello\" } }"),
        Section("job"),
        "required",
        "the jobs: `[job.NAME]` each, and their fields below",
        Set::Part,
    ),
];

/// What all jobs together may use. Any other key names a resource of one's own, and how much there is of it.
pub(crate) const RESOURCES: &[Key] = &[
    key(
        Field::new("cpu", "a whole number of slots", "1"),
        Whole(1, MOST),
        "a slot for each CPU",
        "CPU slots: never exceeded",
        Set::Resource(set::all_cpu),
    ),
    key(
        Field::new("ram", "a size", "\"256 MB\""),
        Size,
        "the machine's less an eighth",
        "memory; 0 for no limit. A job that wants more than all of it runs alone",
        Set::Resource(set::all_ram),
    ),
    key(
        Field::new("vram", "a size", "\"6 GB\""),
        Size,
        "what each card has",
        "memory of each graphics card, and no more than the card has; where no card is known, of all together. 0 for no limit",
        Set::Resource(set::all_vram),
    ),
    key(
        Field::new("gpus", "a whole number of cards", "2"),
        Whole(0, CARDS),
        "the cards that the driver tells",
        "graphics cards: at most the first so many. Where the driver tells none, so many there are, known by their numbers from 0",
        Set::Resource(set::all_gpus),
    ),
];

/// Fields of a job alone.
pub(crate) const JOB: &[Key] = &[
    key(
        Field::new("run", "a shell line", "\"echo hello\""),
        Text,
        "`command`",
        "what is run, by a shell. `{key}` stands for a value of `foreach`, `{job}` for the job's name",
        Set::Job(set::run),
    ),
    key(
        Field::new("command", "a list of a program and its arguments", "[\"echo\", \"hello\"]"),
        Texts,
        "`run`",
        "what is run, without a shell",
        Set::Job(set::command),
    ),
    key(
        Field::new("flow", "the path of a flow file", "\"sensors.toml\""),
        Text,
        "`run`",
        "runs the graph of that file until its sources have ended; cancelled, it delivers what is on its way",
        Set::Job(set::flow),
    ),
    key(
        Field::new("needs", "a list of jobs, or \"inputs\"", "[\"other\"]"),
        TextsOr("inputs"),
        NONE,
        "jobs that must succeed before: `image` for all of a group, `image[3]` or `image[{scene}]` for one; \"inputs\" for all that make what it reads; what no job makes must be there",
        Set::Job(set::needs),
    ),
    key(
        Field::new("foreach", "a table of values", "{ scene = \"1..8\" }"),
        Matrix,
        "one job",
        "one job for each combination: a range, a list, or files as \"glob:*.png\"; at most 8 keys",
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
        "combinations besides those of `foreach`",
        Set::Job(set::include),
    ),
    key(
        Field::new("inputs", "a list of files", "[\"a.json\", \"img/*.png\"]"),
        Texts,
        NONE,
        "files, globs and folders that it reads, from where it starts; of a folder everything below it",
        Set::Job(set::inputs),
    ),
    key(
        Field::new("outputs", "a list of files", "[\"film.mp4\"]"),
        Texts,
        NONE,
        "files that must be there when it succeeds. It need not run if they are as the same command left them, and what it reads (`inputs`, and what the jobs made that it needs) is as it was when it started. Of a folder only that it is there counts",
        Set::Job(set::outputs),
    ),
];

/// Fields that a job and `[defaults]` may have. Any other key is a demand for a resource of `[resources]`.
pub(crate) const SHARED: &[Key] = &[
    key(
        Field::new("shell", "the name of a shell", "\"bash\""),
        Text,
        "sh",
        "what reads the line of `run`, with `-c`",
        Set::Shared(set::shell),
    ),
    key(
        Field::new("cpu", "a whole number of slots", "1"),
        Whole(1, MOST),
        "1",
        "CPU slots it takes",
        Set::Shared(set::cpu),
    ),
    key(
        Field::new("ram", "a size", "\"256 MB\""),
        Size,
        "what it used at most in its last successes and a tenth more, else 256 MB",
        "memory it takes",
        Set::Shared(set::ram),
    ),
    key(
        Field::new("vram", "a size", "\"6 GB\""),
        Size,
        NONE,
        "memory it takes on each of its graphics cards. Several jobs share a card as long as its memory lasts",
        Set::Shared(set::vram),
    ),
    key(
        Field::new("gpus", "a whole number of cards", "2"),
        Whole(0, CARDS),
        "1 with `vram`, else 0",
        "graphics cards it takes; without `vram` no other job is on them. It finds them in CUDA_VISIBLE_DEVICES, or for AMD in ROCR_VISIBLE_DEVICES, unless its `env` says otherwise",
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
        "attempts after the first that fails",
        Set::Shared(set::retries),
    ),
    key(
        Field::new("backoff", "a duration", "\"1s\""),
        Duration,
        "1s",
        "pause before the first retry; each time twice as long, up to 5 minutes",
        Set::Shared(set::backoff),
    ),
    key(
        Field::new("timeout", "a duration", "\"10m\""),
        Duration,
        "no limit",
        "time an attempt may take; then it is ended, and has failed. Not 0",
        Set::Shared(set::timeout),
    ),
    key(
        Field::new("grace", "a duration", "\"5s\""),
        Duration,
        "5s",
        "time between the polite request to end (TERM) and the end",
        Set::Shared(set::grace),
    ),
    key(
        Field::new("ram_limit", "a size", "\"4 GB\""),
        Size,
        "no limit",
        "memory it may really use, with all the processes it starts",
        Set::Shared(set::ram_limit),
    ),
    key(
        Field::new("over_ram", "\"kill\" or \"warn\"", "\"kill\""),
        Word(&["kill", "warn"]),
        "kill",
        "what happens above `ram_limit`: it is ended and has failed, or you are told",
        Set::Shared(set::over_ram),
    ),
    key(
        Field::new("log_limit", "a size", "\"100 MB\""),
        Size,
        "1 GB",
        "disk space that the log of an attempt may take: of a longer one the beginning and the end stay. 0 is no limit",
        Set::Shared(set::log_limit),
    ),
    key(
        Field::new("pin", "a list of CPU numbers", "[0, 1]"),
        Wholes(0, 4095),
        "any CPU",
        "CPUs it may run on, by number; at most 4096",
        Set::Shared(set::pin),
    ),
    key(
        Field::new("nice", "a whole number", "5"),
        Whole(-20, 19),
        "as bursar itself",
        "how much it gives way to other processes",
        Set::Shared(set::nice),
    ),
    key(
        Field::new("env", "a table of variables", "{ LANG = \"C\" }"),
        Variables,
        "those of `[env]`",
        "variables it gets besides ours",
        Set::Shared(set::env),
    ),
    key(
        Field::new("cwd", "a folder", "\"sub\""),
        Text,
        "the folder of the file",
        "where it starts, from the folder of the file",
        Set::Shared(set::cwd),
    ),
    key(
        Field::new("incomplete", "\"remove\" or \"keep\"", "\"remove\""),
        Word(&["remove", "keep"]),
        "remove",
        "what becomes of outputs that an attempt made which did not succeed; they are never taken for whole, and what was there before always stays; a file that another program made there meanwhile is taken for the attempt's, and is removed, too",
        Set::Shared(set::incomplete),
    ),
    key(
        Field::new("on_crash", "\"adopt\", \"restart\" or \"fail\"", "\"adopt\""),
        Word(&["adopt", "restart", "fail"]),
        "adopt",
        "what a resumed run does if bursar was killed while it ran: go on with its processes, end them and start again, or end them and fail",
        Set::Shared(set::on_crash),
    ),
];
