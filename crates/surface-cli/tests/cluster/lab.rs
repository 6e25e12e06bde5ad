//! The cluster, and a folder to run in.

use std::collections::HashMap;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{JoinHandle, sleep};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// No run of these tests takes longer.
pub(crate) const LONG: Duration = Duration::from_secs(240);

/// One test at a time: they kill parts of the one cluster.
static ALONE: Mutex<()> = Mutex::new(());

/// Who jobs of slurmrestd belong to: a user that every Debian has. It refuses root.
pub(crate) const USER: &str = "games";

pub(crate) struct Lab {
    pub(crate) folder: TempDir,
    cluster: PathBuf,
    /// Whether this program runs as that user, too.
    as_user: bool,
    _alone: MutexGuard<'static, ()>,
}

impl Lab {
    pub(crate) fn new(jobs: &str) -> Self {
        Self::of(jobs, false)
    }

    /// One in which everything belongs to [`USER`].
    pub(crate) fn of_user(jobs: &str) -> Self {
        Self::of(jobs, true)
    }

    fn of(jobs: &str, as_user: bool) -> Self {
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let cluster = std::env::var_os("BURSAR_CLUSTER_DIR").map(PathBuf::from);
        let cluster = cluster.expect("BURSAR_CLUSTER_DIR names the cluster: run `cargo xtask test cluster`");
        let lab = Self { folder: tempfile::tempdir().unwrap(), cluster, as_user, _alone: alone };
        lab.write("jobs.toml", jobs);
        if as_user {
            let owned = Command::new("chown").args(["-R", USER]).arg(lab.folder.path()).status();
            assert!(owned.unwrap().success());
        }
        lab.start_missing();
        lab.wait_until_idle();
        lab
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a file; `FOLDER` in it stands for the folder.
    pub(crate) fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text.replace("FOLDER", &self.folder.path().display().to_string())).unwrap();
    }

    fn with_env(&self, mut command: Command) -> Command {
        command.env("SLURM_CONF", self.cluster.join("slurm.conf"));
        command.env("BURSAR_STATE_DIR", self.path("state")).env("XDG_RUNTIME_DIR", self.folder.path());
        command.current_dir(self.folder.path()).stdin(Stdio::null());
        command
    }

    /// Starts it. It is killed when the result is dropped.
    pub(crate) fn start(&self, args: &[&str]) -> Run {
        Run(self.bursar(args).spawn().unwrap())
    }

    pub(crate) fn bursar(&self, args: &[&str]) -> Command {
        let program = env!("CARGO_BIN_EXE_bursar");
        let command = if self.as_user { as_user(program) } else { Command::new(program) };
        let mut command = self.with_env(command);
        command.args(args).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Runs it to its end.
    pub(crate) fn run(&self, args: &[&str]) -> Output {
        let mut run = self.start(args);
        let (out, err) = (reader(run.0.stdout.take()), reader(run.0.stderr.take()));
        let status = self.ended(&mut run);
        let read = |reader: JoinHandle<Vec<u8>>| reader.join().unwrap();
        Output { status, stdout: read(out), stderr: read(err) }
    }

    /// A command of Slurm; what it printed.
    pub(crate) fn slurm(&self, program: &str, args: &[&str]) -> String {
        let output = self.with_env(Command::new(program)).args(args).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// How often each effect is there.
    pub(crate) fn effects(&self) -> HashMap<String, usize> {
        let mut counts = HashMap::new();
        for line in fs::read_to_string(self.path("effects")).unwrap_or_default().lines() {
            *counts.entry(line.to_owned()).or_default() += 1;
        }
        counts
    }

    /// All these effects are there once.
    pub(crate) fn each_once(&self, names: impl IntoIterator<Item = String>) {
        let effects = self.effects();
        for name in names {
            assert_eq!(effects.get(&name), Some(&1), "effect {name}\n{}", self.show());
        }
        assert!(effects.values().all(|count| *count == 1), "{effects:?}\n{}", self.show());
    }

    /// No effect is there twice, and one that is not there belongs to a job that failed or was cancelled.
    pub(crate) fn each_once_or_said(&self, names: impl IntoIterator<Item = String>) {
        let (effects, shown) = (self.effects(), self.show());
        for name in names {
            let count = effects.get(&name).copied().unwrap_or(0);
            let line = shown.lines().find(|line| line.split_whitespace().next() == Some(&name)).unwrap_or_default();
            let has_failed = line.contains(" failed ") || line.contains(" cancelled ");
            assert!(count == 1 || (count == 0 && has_failed), "effect {name} is there {count} times: {line}\n{shown}");
        }
    }

    /// Waits until that is so.
    pub(crate) fn until(&self, what: &str, is_so: impl Fn() -> bool) {
        let began = Instant::now();
        while !is_so() {
            assert!(began.elapsed() < LONG / 4, "{what}: it never did\n{}", self.show());
            sleep(Duration::from_millis(50));
        }
    }

    pub(crate) fn show(&self) -> String {
        String::from_utf8_lossy(&self.run(&["show", "latest"]).stdout).into_owned()
    }

    // ---- the cluster ----

    fn pid_of(&self, daemon: &str) -> Option<String> {
        let pid = fs::read_to_string(self.cluster.join("run").join(format!("{daemon}.pid"))).ok()?.trim().to_owned();
        let line = fs::read(Path::new("/proc").join(&pid).join("cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(&self.cluster.display().to_string()).then_some(pid)
    }

    /// Kills a daemon with -9.
    pub(crate) fn kill(&self, daemon: &str) {
        if let Some(pid) = self.pid_of(daemon) {
            assert!(Command::new("kill").args(["-KILL", &pid]).status().unwrap().success());
            while self.pid_of(daemon).is_some() {
                sleep(Duration::from_millis(5));
            }
        }
    }

    /// Starts what does not run.
    pub(crate) fn start_missing(&self) {
        let conf = self.cluster.join("slurm.conf");
        if self.pid_of("slurmctld").is_none() {
            assert!(Command::new("slurmctld").arg("-f").arg(&conf).output().unwrap().status.success());
        }
        for node in ["n1", "n2", "n3"] {
            if self.pid_of(&format!("slurmd.{node}")).is_none() {
                let started = Command::new("slurmd").args(["-N", node, "-f"]).arg(&conf).output().unwrap();
                assert!(started.status.success(), "{started:?}");
            }
        }
    }

    pub(crate) fn restart_controller(&self) {
        self.kill("slurmctld");
        self.start_missing();
    }

    /// Changes the configuration for as long as the result lives.
    pub(crate) fn with_conf(&self, from: &str, to: &str) -> Conf<'_> {
        let path = self.cluster.join("slurm.conf");
        let before = fs::read_to_string(&path).unwrap();
        fs::write(&path, before.replace(from, to)).unwrap();
        self.restart_controller();
        Conf { lab: self, path, before }
    }

    /// Starts slurmrestd on a socket in the folder, as a user whose connections alone it takes. It is killed when the result is dropped.
    pub(crate) fn slurmrestd(&self) -> Run {
        let socket = self.path("rest.sock");
        let _ = fs::remove_file(&socket); // of one that was killed
        let log = fs::File::create(self.cluster.join("log/slurmrestd.log")).unwrap();
        let mut command = self.with_env(as_user("slurmrestd"));
        command.args(["-a", "rest_auth/local", "-s", "openapi/v0.0.38,openapi/v0.0.37"]);
        // Set, also to nothing, it would want tokens.
        command.env_remove("SLURM_JWT").arg(format!("unix:{}", socket.display())).stdout(Stdio::null()).stderr(log);
        let run = Run(command.spawn().unwrap());
        self.until("slurmrestd listens", || socket.exists());
        run
    }

    fn cancel_all(&self) {
        self.slurm("scancel", &["--me"]);
        self.slurm("scancel", &[&format!("--user={USER}")]);
    }

    pub(crate) fn wait_until_idle(&self) {
        let began = Instant::now();
        self.cancel_all();
        loop {
            let idle = self.slurm("sinfo", &["-h", "-N", "-o", "%T"]);
            if idle.lines().filter(|state| *state == "idle").count() == 3 {
                return;
            }
            assert!(began.elapsed() < LONG, "nodes are {idle}");
            self.resume_nodes(&idle);
            sleep(Duration::from_millis(200));
        }
    }

    /// What an administrator does: a controller that forgot jobs gives their ids away, and then takes nodes out of use that still run them.
    fn resume_nodes(&self, states: &str) {
        if states.contains("down") || states.contains("drain") {
            self.slurm("scontrol", &["update", "nodename=n1,n2,n3", "state=resume"]);
        }
    }

    /// Waits for the end of a run. One that hangs is a failure.
    pub(crate) fn ended(&self, run: &mut Run) -> ExitStatus {
        let (began, mut looked) = (Instant::now(), Instant::now());
        loop {
            if let Some(status) = run.0.try_wait().unwrap() {
                return status;
            }
            if looked.elapsed() > Duration::from_secs(1) {
                self.resume_nodes(&self.slurm("sinfo", &["-h", "-N", "-o", "%T"]));
                looked = Instant::now();
            }
            if began.elapsed() > LONG {
                run.kill();
                panic!("the run hangs:\n{}\n{}", self.show(), self.slurm("squeue", &[]));
            }
            sleep(Duration::from_millis(10));
        }
    }
}

/// Whatever a test leaves: nothing of it runs on, also if it failed.
impl Drop for Lab {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            return; // the next one waits until the cluster is idle
        }
        self.start_missing();
        self.cancel_all();
        let began = Instant::now();
        while !self.slurm("squeue", &["-h"]).is_empty() && began.elapsed() < LONG / 4 {
            sleep(Duration::from_millis(100));
        }
    }
}

/// A program as [`USER`].
fn as_user(program: &str) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--reuid", USER, "--regid", USER, "--clear-groups", program]);
    command
}

/// A process that ends with its test.
pub(crate) struct Run(pub(crate) Child);

impl Run {
    pub(crate) fn kill(&mut self) {
        let _ = self.0.kill(); // it may have ended
        let _ = self.0.wait();
    }

    pub(crate) fn signal(&self, name: &str) {
        assert!(Command::new("kill").args([name, &self.0.id().to_string()]).status().unwrap().success());
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        self.kill();
    }
}

pub(crate) fn reader(stream: Option<impl Read + Send + 'static>) -> JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = stream.expect("it is piped").read_to_end(&mut bytes); // what was read until then
        bytes
    })
}

pub(crate) struct Conf<'a> {
    lab: &'a Lab,
    path: PathBuf,
    before: String,
}

impl Drop for Conf<'_> {
    fn drop(&mut self) {
        fs::write(&self.path, &self.before).unwrap();
        self.lab.restart_controller();
    }
}

pub(crate) fn text(output: &Output) -> String {
    [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes)).concat()
}
