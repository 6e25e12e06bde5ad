//! Options of `sbatch`: those that a submission becomes, and those that a site may add.
//!
//! Room: surface.
//!
//! Pure: it only writes text.

use crate::error::SlurmError;
use crate::request::{Description, Terms};

/// Options of `sbatch` that `[slurm]` cannot have: their long and short names, and what to do instead.
const RESERVED: &[(&str, &str, &str)] = &[
    ("--test-only", "", "with it nothing is submitted; to see what would run, use `bursar run --dry-run`"),
    ("--wrap", "", "the command of a job is its `run`"),
    ("--array", "-a", "use `foreach` in the job"),
    ("--dependency", "-d", "use `needs` in the job"),
    ("--job-name", "-J", "bursar finds its jobs by name and comment"),
    ("--comment", "", "bursar finds its jobs by name and comment"),
    ("--output", "-o", "`bursar logs` shows what a job prints"),
    ("--error", "-e", "`bursar logs` shows what a job prints"),
    ("--open-mode", "", "`bursar logs` shows what a job prints"),
    ("--parsable", "", "bursar sets it"),
    ("--quiet", "-Q", "bursar reads what `sbatch` prints"),
    ("--requeue", "", "use `retries` in the job"),
    ("--wait", "-W", "bursar waits for its jobs itself"),
    ("--clusters", "-M", "start bursar with SLURM_CONF of that cluster"),
    ("--help", "-h", "with it nothing is submitted"),
    ("--usage", "", "with it nothing is submitted"),
    ("--version", "-V", "with it nothing is submitted"),
];

/// The first of these options that `[slurm]` cannot have, and what to do instead.
pub fn reserved(options: &[String]) -> Option<(&str, &'static str)> {
    options.iter().find_map(|option| {
        let name = option.split('=').next().unwrap_or_default();
        let is = |long: &str, short: &str| {
            let abbreviates = name.len() > 4 && name.starts_with("--") && long.starts_with(name); // as `getopt` takes them
            name == long || abbreviates || (!short.is_empty() && !name.starts_with("--") && name.starts_with(short))
        };
        RESERVED.iter().find(|(long, short, _)| is(long, short)).map(|(.., instead)| (option.as_str(), *instead))
    })
}

/// Refuses options that `[slurm]` cannot have, whatever way jobs are submitted.
///
/// # Errors
/// For the first of them.
pub fn check(options: &[String]) -> Result<(), SlurmError> {
    match reserved(options) {
        Some((option, instead)) => Err(SlurmError::Option { option: option.to_owned(), instead }),
        None => Ok(()),
    }
}

/// All options for a submission.
pub fn options(description: &Description) -> Vec<String> {
    let Description { name, comment, output, array, terms } = description;
    let mut options = vec![
        "--parsable".to_owned(),
        // A job that Slurm starts again would find no permit; so it is not to try.
        "--no-requeue".to_owned(),
        format!("--job-name={name}"),
        format!("--comment={comment}"),
        "--open-mode=append".to_owned(),
        format!("--output={output}"),
    ];
    options.extend(array.iter().map(|tasks| format!("--array={tasks}")));
    options.extend(of_terms(terms));
    options
}

/// The options that decide where and when a job may run.
pub fn of_terms(terms: &Terms) -> Vec<String> {
    let mut options = vec![format!("--cpus-per-task={}", terms.cpus_per_task)];
    let mut add = |name: &str, value: Option<String>| options.extend(value.map(|value| format!("--{name}={value}")));
    add("partition", terms.partition.clone());
    add("account", terms.account.clone());
    add("qos", terms.qos.clone());
    add("constraint", terms.constraint.clone());
    add("ntasks", terms.tasks.map(|tasks| tasks.to_string()));
    add("nodes", terms.nodes.map(|nodes| nodes.to_string()));
    add("mem", terms.memory_mib.map(|memory| format!("{memory}M")));
    add("nice", terms.nice.map(|nice| nice.to_string()));
    add("time", terms.time_minutes.map(|minutes| minutes.to_string()));
    add("gres", (!terms.gres.is_empty()).then(|| terms.gres.join(",")));
    add("licenses", (!terms.licenses.is_empty()).then(|| terms.licenses.join(",")));
    options
}

/// The last thing that a command of Slurm says, without its name. Where its help is says nothing about what is wrong.
pub fn last_words(text: &str, program: &str) -> String {
    let lines = text.lines().rev().map(str::trim);
    let line =
        lines.filter(|line| !line.is_empty()).find(|line| !line.starts_with("Try \"")).unwrap_or("it says nothing");
    let line = line.strip_prefix(&format!("{program}: ")).unwrap_or(line);
    line.strip_prefix("error: ").unwrap_or(line).to_owned()
}
