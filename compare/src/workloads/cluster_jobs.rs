//! A graph of 1,000 jobs of `true` in 10 layers on a Slurm cluster of three nodes. Each job needs two of the layer before it.
//!
//! Ours is `bursar run FILE --on slurm`, from its start to its end. The first peer is one shell script: a call of `sbatch` for each job, with `--dependency`, then `squeue` until its jobs are gone.
//! The second is Snakemake with its plug-in for Slurm. It starts itself again in each job, so the whole graph takes it many minutes here: it is ended at some multiple of our time, which is then
//! the least that it would have needed.
//!
//! The first round of ours and of the script is not timed; slurmctld counts its calls there.
//!
//! Bars: 1.1 times the script, half of Snakemake, two calls of slurmctld for each job.

use std::fmt::Write;
use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use crate::Failure;
use crate::cluster::{Cluster, Ended, timed};
use crate::measure::Plan;
use crate::table::{Bar, LIMIT, Row};

pub const NAME: &str = "cluster-jobs";
const LAYERS: usize = 10;
/// Calls to slurmctld for each job.
const CALLS_MAX: f64 = 2.0;
/// How long ours and the script may take.
const LIMIT_TIME: Duration = Duration::from_secs(400);
/// Snakemake is ended when it has taken so many times as long as ours, and at least so many seconds, or so many under `--quick`.
const SNAKEMAKE_TIMES: f64 = 4.0;
const SNAKEMAKE_MIN: [usize; 2] = [90, 45];

/// The jobs: so many layers, so many in each.
#[derive(Clone, Copy)]
struct Shape {
    width: usize,
}

impl Shape {
    fn count(self) -> usize {
        LAYERS * self.width
    }

    /// Layer and place of each job, a layer after the one that it needs.
    fn jobs(self) -> impl Iterator<Item = (usize, usize)> {
        (0..LAYERS).flat_map(move |layer| (0..self.width).map(move |place| (layer, place)))
    }

    /// What a job needs.
    fn needs(self, layer: usize, place: usize) -> Vec<(usize, usize)> {
        let places = [place, (place + 1) % self.width];
        layer.checked_sub(1).map_or_else(Vec::new, |before| places.map(|place| (before, place)).to_vec())
    }

    fn job_file(self) -> String {
        let mut text = String::new();
        for (layer, place) in self.jobs() {
            let needs: Vec<_> = self.needs(layer, place).iter().map(|(l, p)| format!("\"l{l}-{p}\"")).collect();
            let _ = writeln!(text, "[job.l{layer}-{place}]\nneeds = [{}]\nrun = \"true\"", needs.join(", "));
        }
        text
    }

    fn script(self, name: &str) -> String {
        let mut text = "set -e\n".to_owned();
        for (layer, place) in self.jobs() {
            let needs: String = self.needs(layer, place).iter().map(|(l, p)| format!(":$j{l}_{p}")).collect();
            let dependency = if needs.is_empty() { String::new() } else { format!("--dependency=afterok{needs} ") };
            let _ = writeln!(text, "j{layer}_{place}=$(sbatch --parsable -J {name} {dependency}--wrap true)");
        }
        text + &format!("while [ -n \"$(squeue -h -n {name} -o %i)\" ]; do sleep 0.2; done\n")
    }

    fn snakefile(self) -> String {
        format!(
            "\
WIDTH = {}

def needs(job):
    layer, place = int(job.layer), int(job.place)
    return [f\"done/{{layer - 1}}-{{at % WIDTH}}\" for at in (place, place + 1)] if layer else []

rule all:
    input: [f\"done/{}-{{place}}\" for place in range(WIDTH)]

rule job:
    input: needs
    output: touch(\"done/{{layer}}-{{place}}\")
    shell: \"true\"
",
            self.width,
            LAYERS - 1
        )
    }
}

/// A folder for one run of one side, and where its messages go.
fn folder() -> Result<(TempDir, File), Failure> {
    let folder = tempfile::tempdir()?;
    let said = File::create(folder.path().join("said"))?;
    Ok((folder, said))
}

/// The end of what a side said, for its failure.
fn said(folder: &Path) -> String {
    let text = fs::read_to_string(folder.join("said")).unwrap_or_default();
    let lines: Vec<_> = text.lines().collect();
    lines[lines.len().saturating_sub(8)..].join("\n")
}

/// Seconds of a run of ours.
fn ours(cluster: &Cluster, shape: Shape) -> Result<f64, Failure> {
    let (folder, err) = folder()?;
    fs::write(folder.path().join("graph.toml"), shape.job_file())?;
    let mut run = Command::new(&cluster.bursar);
    run.args(["run", "graph.toml", "--on", "slurm"]).current_dir(folder.path());
    run.env("SLURM_CONF", &cluster.conf).env("BURSAR_STATE_DIR", folder.path().join("state"));
    run.env("XDG_RUNTIME_DIR", folder.path()).stdout(Stdio::null()).stderr(err);
    match timed(&mut run, LIMIT_TIME)? {
        (Ended::Well, seconds) => Ok(seconds), // so each of its jobs succeeded
        (ended, _) => Err(format!("bursar ended {ended:?}: {}", said(folder.path())).into()),
    }
}

/// Seconds of a run of the script.
fn script(cluster: &Cluster, shape: Shape, round: usize) -> Result<f64, Failure> {
    let (folder, err) = folder()?;
    let name = format!("script{round}");
    fs::write(folder.path().join("graph.sh"), shape.script(&name))?;
    let mut run = Command::new("sh");
    run.arg("graph.sh").current_dir(folder.path()).env("SLURM_CONF", &cluster.conf);
    let (ended, seconds) = timed(run.stdout(Stdio::null()).stderr(err), LIMIT_TIME)?;
    let done = cluster.slurm("squeue", &["-h", "-t", "completed", "-n", &name, "-o", "%i"])?.lines().count();
    if ended != Ended::Well || done != shape.count() {
        return Err(format!("the script ended {ended:?} with {done} jobs done: {}", said(folder.path())).into());
    }
    Ok(seconds)
}

/// Seconds of a run of Snakemake, and how many jobs it did in that time.
fn snakemake(cluster: &Cluster, program: &Path, shape: Shape, limit: Duration) -> Result<(f64, usize), Failure> {
    let (folder, err) = folder()?;
    fs::write(folder.path().join("Snakefile"), shape.snakefile())?;
    // Inside a job it takes all variables of Slurm from `srun`, also the path of the configuration.
    let srun = format!("#!/bin/sh\nSLURM_CONF='{}' exec /usr/bin/srun \"$@\"\n", cluster.conf.display());
    let bin = folder.path().join("bin");
    fs::create_dir(&bin)?;
    fs::write(bin.join("srun"), srun)?;
    fs::set_permissions(bin.join("srun"), std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
    let path = std::env::var("PATH").unwrap_or_default();
    let mut run = Command::new(program);
    run.current_dir(folder.path()).env("SLURM_CONF", &cluster.conf).env("PATH", format!("{}:{path}", bin.display()));
    // As many jobs at a time as there are, and it looks at them as often as it can: by default it would wait much longer.
    run.args(["--executor", "slurm", "--jobs", "1000", "--max-jobs-per-timespan", "1000/1s", "--scheduler", "greedy"]);
    run.args(["--seconds-between-status-checks", "1", "--max-status-checks-per-second", "100"]);
    run.args([
        "--slurm-init-seconds-before-status-checks",
        "1",
        "--slurm-status-command",
        "squeue",
        "--slurm-no-account",
    ]);
    // Four on each node, as of the other sides.
    run.args(["--default-resources", "mem_mb=1000", "--latency-wait", "60"]);
    let (ended, seconds) = timed(run.stdout(Stdio::null()).stderr(err), limit)?;
    let done = fs::read_dir(folder.path().join("done")).map_or(0, Iterator::count);
    let is_whole = ended == Ended::Well && done == shape.count();
    if !is_whole && ended != Ended::Late {
        return Err(format!("Snakemake ended {ended:?} with {done} jobs done: {}", said(folder.path())).into());
    }
    cluster.settle()?; // before its folder goes
    Ok((seconds, done))
}

/// The row of Snakemake, or a line that says why there is none.
fn beside_snakemake(plan: &Plan, cluster: &Cluster, shape: Shape, ours: f64) -> Result<Option<Row>, Failure> {
    let program = match &cluster.snakemake {
        Ok(program) => program,
        Err(why) => {
            plan.done(&format!("{NAME}: not compared with Snakemake: {why}"));
            return Ok(None);
        }
    };
    let least = Duration::from_secs(plan.pick(SNAKEMAKE_MIN[0], SNAKEMAKE_MIN[1]) as u64);
    let limit = least.max(Duration::from_secs_f64(SNAKEMAKE_TIMES * ours));
    plan.step_within("Snakemake", limit + LIMIT_TIME);
    let (theirs, done) = snakemake(cluster, program, shape, limit)?;
    plan.done(&format!("{NAME}: Snakemake did {done} of {} jobs in {theirs:.1} s", shape.count()));
    let peer = match done == shape.count() {
        true => "Snakemake".to_owned(),
        false => format!("Snakemake, ended with {done} of {} done", shape.count()),
    };
    Ok(Some(Row::new(NAME, peer, [ours, theirs], "s", Bar::Times(0.5))))
}

pub fn run(plan: &Plan) -> Result<Vec<Row>, Failure> {
    let cluster = &Cluster::from_env()?;
    let shape = Shape { width: plan.pick(100, 10) };
    let (mut best, mut calls) = ([f64::INFINITY; 2], [0.0; 2]);
    for round in 0..=plan.pick(3, 1) {
        for side in 0..best.len() {
            let name = ["ours", "script"][side];
            plan.step_within(&format!("{name}, round {round}"), LIMIT_TIME * 2);
            cluster.settle()?;
            let work = || if side == 0 { ours(cluster, shape) } else { script(cluster, shape, round) };
            if round == 0 {
                calls[side] = cluster.calls(|| work().map(drop))? as f64 / shape.count() as f64;
                plan.done(&format!("{NAME}: {name}, {:.3} calls to slurmctld for each job", calls[side]));
            } else {
                let seconds = work()?;
                plan.done(&format!("{NAME}: {name}, round {round}: {seconds:.2} s"));
                best[side] = best[side].min(seconds);
            }
        }
    }
    cluster.settle()?;
    let mut rows = vec![Row::new(NAME, "a script of sbatch", best, "s", Bar::Times(1.1))];
    rows.extend(beside_snakemake(plan, cluster, shape, best[0])?);
    rows.push(Row::new(NAME, LIMIT, [calls[0], CALLS_MAX], "calls/job", Bar::AtMost));
    rows.push(Row::new(NAME, "a script of sbatch", calls, "calls/job", Bar::Open));
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_sides_have_the_same_jobs_and_needs() {
        let shape = Shape { width: 100 };
        let (file, script) = (shape.job_file(), shape.script("x"));
        assert_eq!(
            (shape.count(), file.matches("[job.").count(), script.matches("sbatch").count()),
            (1000, 1000, 1000)
        );
        assert_eq!((script.matches("afterok").count(), file.matches("\"l").count()), (900, 1800));
        assert!(file.contains("[job.l9-99]\nneeds = [\"l8-99\", \"l8-0\"]\nrun = \"true\"\n"));
        assert!(script.contains("j9_99=$(sbatch --parsable -J x --dependency=afterok:$j8_99:$j8_0 --wrap true)\n"));
        assert!(shape.snakefile().contains("done/9-{place}"));
    }
}
