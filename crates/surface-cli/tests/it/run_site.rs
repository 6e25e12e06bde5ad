//! A place for the tests of `bursar run`: a folder with a job file, and a state directory of its own.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use surface_journal::{Filter, JobRow, Journal, RunRow, State};
use test_support::{in_time, until};

/// A folder with a job file `jobs.toml`, and a state directory beside it.
pub(crate) struct Site {
    dir: tempfile::TempDir,
}

impl Site {
    pub(crate) fn new(jobs: &str) -> Site {
        let site = Site { dir: tempfile::tempdir().expect("there is a temporary directory") };
        fs::create_dir(site.dir.path().join("work")).unwrap();
        fs::create_dir(site.temporary()).unwrap();
        site.write(jobs);
        site
    }

    pub(crate) fn write(&self, jobs: &str) {
        fs::write(self.path("jobs.toml"), jobs).unwrap();
    }

    /// A file in the folder of the jobs.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join("work").join(name)
    }

    /// The folder for temporary files.
    pub(crate) fn temporary(&self) -> PathBuf {
        self.dir.path().join("tmp")
    }

    pub(crate) fn state_dir(&self) -> PathBuf {
        self.dir.path().join("state")
    }

    pub(crate) fn command<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> Command {
        let mut command = self.within(super::bursar(&[]));
        command.args(args);
        command
    }

    /// A program that is started here, and finds `bursar` in its path.
    pub(crate) fn within(&self, mut command: Command) -> Command {
        let folder = Path::new(env!("CARGO_BIN_EXE_bursar")).parent().unwrap();
        command.env("PATH", format!("{}:{}", folder.display(), std::env::var("PATH").unwrap()));
        command.current_dir(self.path("")).env("BURSAR_STATE_DIR", self.state_dir());
        // Its own budget file and sockets, too: other tests run at the same time.
        command.env("XDG_RUNTIME_DIR", self.dir.path()).env("TMPDIR", self.temporary());
        for name in ["CPU_SLOTS", "RAM_MB_SOFT", "VRAM_MB_SOFT", "WORKERS"] {
            command.env_remove(format!("BURSAR_SCHED_{name}"));
        }
        command
    }

    /// Runs `bursar` with these words, split at spaces, and waits for it.
    pub(crate) fn bursar(&self, words: &str) -> Output {
        self.command(words.split_whitespace()).output().expect("the command was built with this test")
    }

    /// Starts `bursar` and does not wait.
    pub(crate) fn start(&self, words: &str) -> Started {
        self.start_command(self.command(words.split_whitespace()))
    }

    /// Starts a command of this place and does not wait.
    pub(crate) fn start_command(&self, mut command: Command) -> Started {
        // The output is not read while it runs, and a full pipe would stop it.
        let log = fs::File::create(self.dir.path().join("output")).unwrap();
        command.stdout(log.try_clone().unwrap()).stderr(log);
        Started {
            child: command.spawn().expect("the command was built with this test"),
            output: self.dir.path().join("output"),
        }
    }

    /// What the jobs wrote into a file, in lines.
    pub(crate) fn lines(&self, name: &str) -> Vec<String> {
        fs::read_to_string(self.path(name)).unwrap_or_default().lines().map(str::to_owned).collect()
    }

    /// A pipe by which a job tells us that it is so far: it says `echo word > NAME`.
    pub(crate) fn fifo(&self, name: &str) -> Fifo {
        let path = self.path(name);
        assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
        Fifo(path)
    }

    /// Waits until no job runs any more whose run was killed.
    pub(crate) fn until_no_job_runs(&self) {
        let journal = self.journal();
        let runs = || {
            let homes = journal.runs(Filter::default()).unwrap().into_iter().map(|run| journal.folder(&run.id));
            homes.map(|folder| mech_process::Keepers::inspect(&folder.join("keepers")).unwrap().alive).sum::<usize>()
        };
        until(LONG_ENOUGH, "no job runs any more", || runs() == 0);
    }

    pub(crate) fn journal(&self) -> Journal {
        Journal::open(&self.state_dir()).unwrap_or_else(|error| panic!("{error}"))
    }

    pub(crate) fn newest(&self) -> RunRow {
        self.journal().runs(Filter::default()).unwrap().swap_remove(0)
    }

    /// The jobs of the newest run, as the journal has them.
    pub(crate) fn jobs(&self) -> Vec<JobRow> {
        self.journal().jobs(&self.newest().id).unwrap()
    }

    pub(crate) fn job(&self, name: &str) -> JobRow {
        let jobs = self.jobs();
        jobs.into_iter().find(|job| job.name == name).unwrap_or_else(|| panic!("there is no job {name}"))
    }

    pub(crate) fn states(&self) -> Vec<(String, State)> {
        self.jobs().into_iter().map(|job| (job.name, job.state)).collect()
    }
}

/// A test that failed leaves no job behind.
impl Drop for Site {
    fn drop(&mut self) {
        if thread::panicking() {
            let _ = self.command(["cancel", "latest", "--now"]).output();
        }
    }
}

/// A pipe that a job writes to.
pub(crate) struct Fifo(PathBuf);

impl Fifo {
    /// One that is there already.
    pub(crate) fn at(path: PathBuf) -> Fifo {
        Fifo(path)
    }

    /// Waits until a job has written, and returns what it wrote.
    pub(crate) fn wait(&self) -> String {
        // Opening waits for a writer.
        let path = self.0.clone();
        in_time(LONG_ENOUGH, "a job to write to the FIFO", move || fs::read_to_string(path)).unwrap().trim().to_owned()
    }

    /// Lets a job continue that reads from the FIFO. Waits until it does.
    pub(crate) fn answer(&self) {
        let path = self.0.clone();
        in_time(LONG_ENOUGH, "a job to listen", move || fs::write(path, "go\n")).unwrap();
    }
}

/// Far longer than anything takes that happens at all.
const LONG_ENOUGH: Duration = Duration::from_secs(120);

/// A `bursar` that runs.
pub(crate) struct Started {
    pub(crate) child: Child,
    output: PathBuf,
}

impl Started {
    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, signal).unwrap();
    }

    /// Waits for its end; gives its code and everything it said.
    pub(crate) fn wait(self) -> (Option<i32>, String) {
        self.wait_at_most(LONG_ENOUGH)
    }

    /// The same, with a limit of its own.
    pub(crate) fn wait_at_most(mut self, limit: Duration) -> (Option<i32>, String) {
        let until = Instant::now() + limit;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return (status.code(), self.said());
            }
            if Instant::now() > until {
                let _ = self.child.kill();
                panic!("it does not end; it said:\n{}", self.said());
            }
            thread::sleep(Duration::from_millis(2));
        }
    }

    /// Waits until it has said something.
    pub(crate) fn until_it_says(&self, what: &str) {
        let until = Instant::now() + LONG_ENOUGH;
        while !self.said().contains(what) {
            assert!(Instant::now() < until, "it does not say `{what}`; it said:\n{}", self.said());
            thread::sleep(Duration::from_millis(2));
        }
    }

    pub(crate) fn said(&self) -> String {
        fs::read_to_string(&self.output).unwrap_or_default()
    }

    /// `kill -9`.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        if thread::panicking() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// Whether a process is there and has not ended.
pub(crate) fn is_alive(pid: &str) -> bool {
    let stat = fs::read_to_string(Path::new("/proc").join(pid.trim()).join("stat")).unwrap_or_default();
    stat.rsplit(") ").next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with('Z'))
}

/// Asserts the code of an end, showing what was said.
#[track_caller]
pub(crate) fn assert_code(output: &Output, code: i32) {
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "it said:\n{said}");
}
