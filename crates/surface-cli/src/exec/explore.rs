//! `--explore`: one run for each seed, until one fails.
//!
//! Room: driver.
//!
//! # Invariant
//! The seed that is named fails again, with the same exit code, when it is run alone with the command that is printed.
//!
//! # Why it holds
//! Runs have nothing in common but the runtime, and a seed that is set again begins it anew.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

use surface_text::amounts::counted;

use super::Options;
use super::ending::How;
use super::run::{once, runtime};
use super::source::Source;
use super::stop::Stop;
use super::{name, replay, report};
use crate::exit::{Exit, Failure, say};
use crate::out::print;

/// Runs the program under each seed.
pub(super) fn explore(options: &Options, source: &Source, seeds: Range<u64>) -> Result<u8, Failure> {
    let stop = Arc::new(Stop::default());
    let listener = stop.listen()?;
    let runtime = runtime(options, seeds.start)?;
    let (mut runs, mut different) = (0_usize, HashSet::new());
    for seed in seeds {
        runtime.reseed(seed);
        let ended = once(options, source, &runtime, &stop, |_| ());
        if matches!(ended.how, How::Interrupted(_)) {
            say!("{}: interrupted after {}", name(options), counted(runs, "seed"));
            return Ok(ended.code());
        }
        runs += 1;
        different.insert(runtime.trace().hash());
        if report::is_failure(&ended) {
            listener.close();
            if let Some(line) = report::line(options, source, &ended) {
                say!("{line}");
            }
            say!("{}", report::spent(options, &ended));
            say!("seed {seed} fails, after {} that did not", counted(runs - 1, "seed"));
            say!("replay: {}", replay::command(options, seed));
            return Ok(ended.code());
        }
    }
    listener.close();
    let (runs, different) = (counted(runs, "seed"), counted(different.len(), "different run"));
    print(&format!("{}: none of {runs} fails; {different}\n", name(options)))?;
    Ok(Exit::Success as u8)
}
