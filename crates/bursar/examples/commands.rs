//! Commands as a DAG: `cargo run -p bursar --example commands`
//!
//! Four commands of a shell, two of them at the same time. Each runs below a *keeper*, a small process that supervises the whole process tree of its command: it is measured, paused and ended as
//! one, and goes on if this program is killed. This program is its own keeper: see the first lines of `main`.

use std::{error::Error, fs, path::Path, sync::Arc, time::Duration};

use bursar::jobs::{
    Job, Jobs,
    process::{Class, Command, CommandEnd, KeeperProgram, Keepers, News, Processes, keeper_main},
};

/// The first argument of a keeper.
const KEEP: &str = "keep";

fn main() -> Result<(), Box<dyn Error>> {
    if std::env::args().nth(1).as_deref() == Some(KEEP) {
        keeper_main(); // this process is a keeper; it does not return
    }
    let folder = std::env::temp_dir().join(format!("bursar-commands-{}", std::process::id()));
    fs::create_dir_all(&folder)?;
    let outcome = run(&folder);
    fs::remove_dir_all(&folder)?;
    outcome
}

fn run(folder: &Path) -> Result<(), Box<dyn Error>> {
    let keepers = Keepers::new(KeeperProgram::this_one([KEEP]), &folder.join("keepers"))?;
    let logs = folder.to_owned();
    let processes = Processes::new(
        keepers,
        format!("run-{}", std::process::id()), // no other process has this name for its commands
        Box::new(move |attempt| logs.join(format!("{}-{}.log", attempt.job.index(), attempt.attempt))),
        Box::new(|attempt, news| {
            if let News::Warning(text) = news {
                eprintln!("job {}: {text}", attempt.job.index());
            }
        }),
    );
    let settled = processes.clone();
    let jobs = Jobs::builder()
        .cpu_slots(2)
        .observe(move |event, facts| {
            // How a command ended, and what it used.
            if let Some(CommandEnd { end, .. }) = facts.measured(event.job) {
                println!("{:<6} {} after {} ms of CPU time", facts.name(event.job), end.how, end.cpu.as_millis());
                settled.settle(&end.token); // its keeper need not remember it
            }
        })
        .build();

    let shell = |name: &str, script: &str| {
        let mut command = Command::new(["sh", "-c", script]);
        command.cwd = Some(folder.to_owned());
        command.limits.wall = Some(Duration::from_secs(60));
        command.limits.class = Some(Class::Batch); // it gives way to what a person waits for
        Job::new(name).execute(processes.clone(), Arc::new(command))
    };
    jobs.submit_all([
        shell("fetch", "printf 'pear\\nfig\\napple\\nfig\\n' > fruit"),
        shell("sort", "sort fruit > sorted").needs("fetch"),
        shell("count", "wc -l < fruit > count").needs("fetch"),
        shell("report", "echo $(cat count) fruits: $(uniq sorted) > report").needs_all(["sort", "count"]).retries(2),
    ])?;
    println!("{}", jobs.why("report")?);
    let done = jobs.wait()?;
    print!("{} jobs: {}", done.succeeded, fs::read_to_string(folder.join("report"))?);
    Ok(())
}
