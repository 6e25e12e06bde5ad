//! One failure ends a tree, in order: `cargo run -p bursar --example cancel_tree`.
//!
//! A backup copies three folders, each file by a task of its own. One file cannot be read. Everything else stops where it stands, what was begun
//! is removed by destructors, and the log is still written, under a shield.

use std::time::{Duration, Instant};

use bursar::{prelude::*, sync::Mutex};

/// A half-written file: removed unless it is kept.
struct Partial<'a> {
    name: String,
    log: &'a Mutex<Vec<String>>,
    kept: bool,
}

impl Drop for Partial<'_> {
    fn drop(&mut self) {
        let verb = if self.kept { "kept" } else { "removed" };
        self.log.lock().push(format!("{verb} {}", self.name));
    }
}

fn copy_file(name: String, log: &Mutex<Vec<String>>) -> Result<(), TaskError> {
    let mut file = Partial { name, log, kept: false };
    if file.name == "photos/2" {
        sleep(Duration::from_millis(30));
        return Err(TaskError::msg(format!("{} cannot be read", file.name)));
    }
    // The larger a file, the longer it takes.
    sleep(if file.name.ends_with('0') { Duration::from_millis(5) } else { Duration::from_secs(60) });
    file.kept = true;
    Ok(())
}

fn backup(log: &Mutex<Vec<String>>) -> Result<(), TaskError> {
    let outcome = nursery(|n| {
        for folder in ["letters", "photos", "taxes"] {
            n.task().name(folder).try_spawn(move || {
                nursery(|n| {
                    for index in 0..4 {
                        let name = format!("{folder}/{index}");
                        n.task().name(name.clone()).try_spawn(move || copy_file(name, log));
                    }
                    Ok(())
                })
            });
        }
        Ok(())
    });
    shield(|| log.lock().sort()); // even if the caller was cancelled as well
    outcome
}

fn main() {
    let log = Mutex::new(Vec::new());
    let begun = Instant::now();
    let error = backup(&log).expect_err("one file cannot be read");
    let took = begun.elapsed();

    println!("{error}\n");
    let log = log.into_inner();
    log.iter().for_each(|line| println!("  {line}"));
    println!("\nall over after {took:?}; the longest file would have taken a minute");
    assert_eq!(log.len(), 12);
    assert_eq!(log.iter().filter(|line| line.starts_with("kept")).count(), 3);
    assert!(took < Duration::from_secs(30));
}
