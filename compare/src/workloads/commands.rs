//! 10,000 commands that do nothing, two at a time: `bursar run`, with its journal, beside `xargs -P2`. And the size of that program.
//!
//! Every side starts the same program, without a shell. Timed from the start of the process to its end. What a run leaves, a log of each command, is deleted after the last round: a file system without
//! a journal of its own passes over what was deleted lately, one by one, wherever it makes a file (ext4: half of the time of the next rounds).
//!
//! Bars: 1.1 × xargs in the worst of five rounds; 15 MB without debug information.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::Failure;
use crate::cluster::{Ended, timed, xtask_sets};
use crate::measure::Plan;
use crate::table::{Bar, LIMIT, Row};

pub const NAME: &str = "commands";
const AT_ONCE: &str = "2";
const SIZE_MB_MAX: f64 = 15.0;
const LIMIT_TIME: Duration = Duration::from_secs(120);

fn job_file(commands: usize) -> String {
    format!(
        "[resources]\ncpu = {AT_ONCE}\n\n[job.each]\nforeach = {{ n = \"1..{commands}\" }}\ncommand = [\"/bin/true\"]\n"
    )
}

/// Seconds from its start to its end.
fn seconds(command: &mut Command) -> Result<f64, Failure> {
    match timed(command.stdout(Stdio::null()), LIMIT_TIME)? {
        (Ended::Well, seconds) => Ok(seconds),
        (ended, seconds) => {
            Err(format!("{} ended {ended:?} after {seconds:.1} s", command.get_program().display()).into())
        }
    }
}

fn ours(program: &Path, folder: &Path, round: usize, commands: usize) -> Result<f64, Failure> {
    let run = folder.join(round.to_string());
    fs::create_dir(&run)?;
    let file = run.join("commands.toml");
    fs::write(&file, job_file(commands))?;
    let said = fs::File::create(folder.join("said"))?;
    let took =
        seconds(Command::new(program).arg("run").arg(&file).current_dir(&run).env("XDG_STATE_HOME", &run).stderr(said));
    Ok(took.map_err(|error| format!("{error}: {}", fs::read_to_string(folder.join("said")).unwrap_or_default()))?)
}

fn xargs(commands: usize) -> Result<f64, Failure> {
    seconds(Command::new("sh").args(["-c", &format!("seq {commands} | xargs -P{AT_ONCE} -n1 /bin/true")]))
}

/// The size of the program as it is installed, in MB.
fn stripped_mb(program: &Path, folder: &Path) -> Result<f64, Failure> {
    let stripped = folder.join("stripped");
    let status = Command::new("objcopy").arg("--strip-all").arg(program).arg(&stripped).status();
    match status {
        Ok(status) if status.success() => Ok(fs::metadata(stripped)?.len() as f64 / 1e6),
        Ok(status) => Err(format!("objcopy: {status}").into()),
        Err(error) => Err(format!("cannot start objcopy: {error}; on Debian it is in `binutils`").into()),
    }
}

pub fn run(plan: &Plan) -> Result<Vec<Row>, Failure> {
    let program = xtask_sets("COMPARE_BURSAR", NAME)?;
    let (program, folder) = (Path::new(&program), tempfile::tempdir()?);
    let commands = plan.pick(10_000, 1_000);
    let mut rounds = Vec::new();
    for round in 0..plan.pick(5, 2) {
        plan.step_within(&format!("ours, round {round}"), LIMIT_TIME * 2);
        let ours = ours(program, folder.path(), round, commands)?;
        plan.step_within(&format!("xargs, round {round}"), LIMIT_TIME * 2);
        rounds.push([ours, xargs(commands)?].map(|seconds| seconds * 1e6 / commands as f64));
    }
    rounds.sort_unstable_by(|left, right| (left[0] / left[1]).total_cmp(&(right[0] / right[1])));
    let (best, worst) = (rounds[0], rounds[rounds.len() - 1]);
    Ok(vec![
        Row::new(NAME, "xargs, worst round", worst, "µs/command", Bar::Times(1.1)),
        Row::new(NAME, "xargs, best round", best, "µs/command", Bar::Open),
        Row::new(NAME, LIMIT, [stripped_mb(program, folder.path())?, SIZE_MB_MAX], "MB, stripped", Bar::AtMost),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn xargs_runs_all_of_them() {
        assert!(xargs(10).expect("xargs is everywhere") > 0.0);
    }

    #[test]
    fn a_program_that_fails_is_no_measurement() {
        let failed = ours(Path::new("/bin/false"), tempfile::tempdir().expect("a folder").path(), 0, 1);
        assert!(failed.expect_err("it fails").to_string().contains("/bin/false ended Badly"));
    }
}
