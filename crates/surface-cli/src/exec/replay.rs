//! The command that shows a seeded run again.
//!
//! Room: surface.

use super::Options;
use crate::view::text::{clean, typed};

/// A command line that runs the same again: everything that can change what happens is in it.
pub(super) fn command(options: &Options, seed: u64) -> String {
    let mut command = format!("bursar exec {} --seed {seed}", clean(&typed(&options.file.to_string_lossy())));
    for value in &options.args {
        command += &format!(" --arg {value}");
    }
    if let Some(profile) = options.profile {
        command += &format!(" --profile {}", profile.name());
    }
    let numbers = [
        ("ops", options.ops),
        ("memory", options.memory),
        ("spawns", options.spawns),
        ("channel-ops", options.channel_ops),
        ("tasks", options.tasks.map(u64::from)),
        ("stack", options.stack),
        ("workers", options.workers.map(u64::from)),
    ];
    for (name, value) in numbers {
        if let Some(value) = value {
            command += &format!(" --{name} {value}");
        }
    }
    if let Some(millis) = options.timeout {
        command += &format!(" --timeout {millis}ms");
    }
    command
}
