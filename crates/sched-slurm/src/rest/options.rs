//! Further options of `sbatch` as properties of a job of slurmrestd.
//!
//! Room: surface.
//!
//! # Invariant
//! An option either has its whole effect, or it is refused before anything is submitted.
//!
//! # Why it holds
//! Only options of the table are taken. Left out are those that slurmrestd takes and drops (`--distribution`), whose effect is a variable that `sbatch` sets for `srun`
//! (`--hint`, `--cpu-freq`, `--gpu-bind`, `--profile`), and one that crashes slurmrestd 22.05 (`--batch`).

use serde_json::{Map, Value, json};

use self::Shape::{Flag, Number, Text, TextOr};
use crate::error::SlurmError;

/// What a property takes.
#[derive(Debug, Clone, Copy)]
enum Shape {
    /// The value of the option as it is.
    Text,
    /// A whole number.
    Number,
    /// `true`; the option has no value.
    Flag,
    /// The value of the option, or this if it has none.
    TextOr(&'static str),
}

/// Long and short name of an option, the property, and what it takes.
type Entry = (&'static str, Option<char>, &'static str, Shape);

const OPTIONS: &[Entry] = &[
    ("account", Some('A'), "account", Text),
    ("bb", None, "burst_buffer", Text),
    ("begin", Some('b'), "begin_time", Text),
    ("chdir", Some('D'), "current_working_directory", Text),
    ("constraint", Some('C'), "constraints", Text),
    ("core-spec", Some('S'), "core_specification", Number),
    ("cores-per-socket", None, "cores_per_socket", Number),
    ("cpus-per-gpu", None, "cpus_per_gpu", Number),
    ("cpus-per-task", Some('c'), "cpus_per_task", Number),
    ("deadline", None, "deadline", Text),
    ("exclude", Some('x'), "exclude_nodes", Text),
    ("exclusive", None, "exclusive", TextOr("exclusive")),
    ("gpus", Some('G'), "gpus", Text),
    ("gpus-per-node", None, "gpus_per_node", Text),
    ("gpus-per-socket", None, "gpus_per_socket", Text),
    ("gpus-per-task", None, "gpus_per_task", Text),
    ("gres", None, "gres", Text),
    ("gres-flags", None, "gres_flags", Text),
    ("hold", Some('H'), "hold", Flag),
    ("input", Some('i'), "standard_input", Text),
    ("licenses", Some('L'), "licenses", Text),
    ("mail-type", None, "mail_type", Text),
    ("mail-user", None, "mail_user", Text),
    ("mem", None, "memory_per_node", Text),
    ("mem-per-cpu", None, "memory_per_cpu", Text),
    ("mem-per-gpu", None, "memory_per_gpu", Text),
    ("mincpus", None, "minimum_cpus_per_node", Number),
    ("nice", None, "nice", Number),
    ("nodelist", Some('w'), "nodelist", Text),
    ("nodes", Some('N'), "nodes", Text),
    ("ntasks", Some('n'), "tasks", Number),
    ("ntasks-per-core", None, "tasks_per_core", Number),
    ("ntasks-per-node", None, "tasks_per_node", Number),
    ("ntasks-per-socket", None, "tasks_per_socket", Number),
    ("partition", Some('p'), "partition", Text),
    ("prefer", None, "prefer", Text),
    ("priority", None, "priority", Number),
    ("qos", Some('q'), "qos", Text),
    ("reservation", None, "reservation", Text),
    ("sockets-per-node", None, "sockets_per_node", Number),
    ("spread-job", None, "spread_job", Flag),
    ("thread-spec", None, "thread_specification", Number),
    ("threads-per-core", None, "threads_per_core", Number),
    ("time", Some('t'), "time_limit", Text),
    ("time-min", None, "time_minimum", Text),
    ("tmp", None, "temporary_disk_per_node", Text),
    ("use-min-nodes", None, "minimum_nodes", Flag),
    ("wait-all-nodes", None, "wait_all_nodes", Number),
    ("wckey", None, "wckey", Text),
];

const UNKNOWN: &str = "slurmrestd has no such property that bursar knows; take it out, or leave out `rest` in [slurm]: then jobs go through `sbatch`";

/// The properties that these options are.
///
/// # Errors
/// For the first that is none, or whose value is not one.
pub fn properties(options: &[String]) -> Result<Map<String, Value>, SlurmError> {
    let mut properties = Map::new();
    let mut words = options.iter().map(String::as_str).peekable();
    while let Some(option) = words.next() {
        let refused = |instead| SlurmError::Option { option: option.to_owned(), instead };
        let (entry, mut value) = find(option).ok_or_else(|| refused(instead_of(option)))?;
        let (.., property, shape) = entry;
        // As on a command line, the value may be the next word.
        if value.is_none() && matches!(shape, Text | Number) {
            value = words.next_if(|word| !word.starts_with('-'));
        }
        let value = match (shape, value) {
            (Text | TextOr(_), Some(value)) => json!(value),
            (TextOr(value), None) => json!(value),
            (Number, Some(value)) => json!(value.parse::<i64>().map_err(|_| refused("it takes a whole number"))?),
            (Flag, None) => json!(true),
            (Flag, Some(_)) => return Err(refused("it takes no value")),
            (Text | Number, None) => return Err(refused("it takes a value, as `--name=value`")),
        };
        properties.insert((*property).to_owned(), value);
    }
    Ok(properties)
}

/// The entry of an option, and its value if that is in the same word.
fn find(option: &str) -> Option<(&'static Entry, Option<&str>)> {
    if let Some(long) = option.strip_prefix("--") {
        let (name, value) = long.split_once('=').map_or((long, None), |(name, value)| (name, Some(value)));
        return Some((OPTIONS.iter().find(|(long, ..)| *long == name)?, value));
    }
    let mut letters = option.strip_prefix('-')?.chars();
    let letter = letters.next()?;
    let entry = OPTIONS.iter().find(|(_, short, ..)| *short == Some(letter))?;
    Some((entry, Some(letters.as_str()).filter(|value| !value.is_empty())))
}

fn instead_of(option: &str) -> &'static str {
    match option.split('=').next().unwrap_or_default() {
        "--export" | "--export-file" | "--get-user-env" => {
            "slurmrestd gets the variables of bursar; set others in `env`"
        }
        "--requeue" | "--no-requeue" => "bursar sets it",
        _ => UNKNOWN,
    }
}
