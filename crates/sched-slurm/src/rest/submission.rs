//! A submission, as slurmrestd takes it.
//!
//! Room: surface.
//!
//! # Invariant
//! What `sbatch` hands to a job by itself, a job gets from slurmrestd, too: the environment, the folder and the umask of this program.
//!
//! # Rejected
//! - `argv` for the arguments of the script of an array: slurmrestd 22.05 crashes when it frees it. The script sets them.
//! - `"requeue": false`: it means *yes*, whatever the value is. `no_requeue` is the other name.
//! - `test_only`: it is taken, and the job is submitted.

use std::path::Path;

use serde_json::{Map, Value, json};

use crate::request::{Description, Terms};
use crate::script::quoted;

/// What a job has of the process that submits it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Inherited {
    /// Variables. Those of Slurm are not handed on: they are of the job that this program may run in, and one is a token.
    pub environment: Vec<(String, String)>,
    /// The folder.
    pub folder: String,
    /// The umask, in octal digits, if it is known.
    pub umask: Option<String>,
}

impl Inherited {
    /// Of these variables, those that a job may have.
    pub fn filter(variables: impl Iterator<Item = (String, String)>) -> Vec<(String, String)> {
        variables.filter(|(name, _)| !name.starts_with("SLURM_")).collect()
    }
}

/// The body of a request to submit. `script` is the text of the script, called with `arguments`; `options` go before everything else.
pub fn body(
    description: &Description,
    options: &Map<String, Value>,
    script: &str,
    arguments: &[String],
    inherited: Inherited,
) -> Value {
    let Description { name, comment, output, array, terms } = description;
    let mut job = of_terms(terms);
    let mut add = |name: &str, value: Value| job.insert(name.to_owned(), value);
    add("name", json!(name));
    add("comment", json!(comment));
    // A job that Slurm starts again would find no permit; so it is not to try.
    add("no_requeue", json!(true));
    add("open_mode", json!("append"));
    add("standard_output", json!(output));
    if let Some(tasks) = array {
        add("array", json!(tasks));
    }
    let mut environment: Map<String, Value> =
        inherited.environment.into_iter().map(|(name, value)| (name, json!(value))).collect();
    // An empty one is refused.
    environment.entry("PATH").or_insert_with(|| json!("/usr/local/bin:/usr/bin:/bin"));
    add("environment", environment.into());
    add("current_working_directory", json!(inherited.folder));
    if let Some(umask) = inherited.umask {
        add("umask", json!(umask));
    }
    job.extend(options.clone());
    json!({ "job": job, "script": called_with(script, arguments) })
}

/// The properties that decide where and when a job may run.
fn of_terms(terms: &Terms) -> Map<String, Value> {
    let list = |of: &[String]| (!of.is_empty()).then(|| json!(of.join(",")));
    let properties = [
        ("cpus_per_task", Some(json!(terms.cpus_per_task))),
        ("partition", terms.partition.as_ref().map(|name| json!(name))),
        ("account", terms.account.as_ref().map(|name| json!(name))),
        ("qos", terms.qos.as_ref().map(|name| json!(name))),
        ("constraints", terms.constraint.as_ref().map(|features| json!(features))),
        ("tasks", terms.tasks.map(|tasks| json!(tasks))),
        ("nodes", terms.nodes.map(|nodes| json!(nodes))),
        ("memory_per_node", terms.memory_mib.map(|memory| json!(memory))),
        ("nice", terms.nice.map(|nice| json!(nice))),
        ("time_limit", terms.time_minutes.map(|minutes| json!(minutes))),
        ("gres", list(&terms.gres)),
        ("licenses", list(&terms.licenses)),
    ];
    properties.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}

/// A script that behaves as if it were called with these arguments.
fn called_with(script: &str, arguments: &[String]) -> String {
    if arguments.is_empty() {
        return script.to_owned();
    }
    let arguments: Vec<String> = arguments.iter().map(|argument| quoted(argument)).collect();
    let (first, rest) = script.split_once('\n').unwrap_or((script, ""));
    format!("{first}\nset -- {}\n{rest}", arguments.join(" "))
}

/// What this process would hand to a job.
pub fn inherited() -> Inherited {
    let text = |variable: (std::ffi::OsString, std::ffi::OsString)| {
        Some((variable.0.into_string().ok()?, variable.1.into_string().ok()?)) // JSON has no other bytes
    };
    Inherited {
        environment: Inherited::filter(std::env::vars_os().filter_map(text)),
        folder: std::env::current_dir().unwrap_or_else(|_| Path::new("/").to_owned()).display().to_string(),
        umask: std::fs::read_to_string("/proc/self/status").ok().and_then(|status| umask_of(&status)),
    }
}

fn umask_of(status: &str) -> Option<String> {
    Some(status.lines().find_map(|line| line.strip_prefix("Umask:"))?.trim().to_owned())
}
