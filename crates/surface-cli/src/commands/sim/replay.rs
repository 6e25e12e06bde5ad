//! The command that shows a broken law again.
//!
//! Room: surface.

use surface_simfile::Options as Run;

use super::Options;

/// A command line that runs the same again. The seed is always in it, whatever the file says later.
pub(super) fn command(options: &Options, run: &Run) -> String {
    let file = crate::view::text::typed(&options.file.to_string_lossy());
    let mut command = format!("bursar sim {file} --seed {} --policy {}", run.seed, run.policy);
    if options.cpus.is_some() {
        command += &format!(" --cpus {}", run.cpus);
    }
    if options.time.is_some() {
        command += &format!(" --for {}ns", run.time);
    }
    command
}
