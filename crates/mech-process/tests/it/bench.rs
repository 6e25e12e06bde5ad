//! A pool in a directory of its own, and checks that do not rely on the pool.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use mech_process::{End, Handle, KeeperProgram, Keepers, Launch, Report};
use tempfile::TempDir;

/// Far longer than anything here takes, also on a busy machine.
pub(crate) const LONG: Duration = Duration::from_secs(60);

pub(crate) const KEEPER: &str = env!("CARGO_BIN_EXE_mech-process-keeper");

pub(crate) struct Bench {
    pub(crate) dir: TempDir,
    pub(crate) keepers: Keepers,
}

/// A command, and what was reported of it.
pub(crate) struct Running {
    pub(crate) handle: Handle,
    pub(crate) reports: Receiver<Report>,
}

impl Bench {
    pub(crate) fn new() -> Bench {
        Bench::with(KeeperProgram { program: KEEPER.into(), args: vec!["keep".into()] })
    }

    /// Keepers that do not use all that the system offers: `v2`, or `all`, is what they do without.
    pub(crate) fn without_groups(which: &str) -> Bench {
        let args = [&format!("BURSAR_NO_CGROUPS={which}"), KEEPER, "keep"].map(Into::into).to_vec();
        Bench::with(KeeperProgram { program: "env".into(), args })
    }

    pub(crate) fn with(program: KeeperProgram) -> Bench {
        let dir = tempfile::tempdir().unwrap();
        let keepers = Keepers::new(program, &dir.path().join("home")).unwrap();
        Bench { dir, keepers }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.path("home")
    }

    /// A script that runs in the bench's directory. Its processes are recognised by `TREE`.
    pub(crate) fn script(&self, text: &str) -> Launch {
        let mut launch = Launch::new("job", ["sh", "-c", text], self.path("log"));
        launch.cwd = Some(self.dir.path().to_owned());
        launch.env.push(("TREE".into(), self.dir.path().into()));
        launch
    }

    pub(crate) fn start(&self, launch: Launch) -> Running {
        let (sender, reports) = channel();
        let handle = self.keepers.start(launch, Box::new(move |report| drop(sender.send(report)))).unwrap();
        Running { handle, reports }
    }

    pub(crate) fn run(&self, text: &str) -> End {
        self.start(self.script(text)).end()
    }

    /// Processes of our scripts that live, by their environment, not by their parents.
    pub(crate) fn left(&self) -> Vec<i32> {
        marked(&format!("TREE={}", self.dir.path().display()))
    }

    /// Control groups of our keepers, wherever they are mounted.
    pub(crate) fn groups(&self) -> usize {
        let names = fs::read_dir(self.home()).unwrap().flatten().map(|entry| entry.path());
        let ids = names.filter(|path| path.extension().is_some_and(|end| end == "ends"));
        let wanted: Vec<_> = ids.map(|path| format!("bursar-{}", path.file_stem().unwrap().display())).collect();
        count(Path::new("/sys/fs/cgroup"), &wanted, 6)
    }

    pub(crate) fn wait_for(&self, name: &str) {
        until(&format!("the script makes {name}"), || self.path(name).exists());
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.path("log")).unwrap_or_default()
    }
}

impl Running {
    pub(crate) fn next(&self) -> Report {
        self.reports.recv_timeout(LONG).expect("a report comes")
    }

    pub(crate) fn wait_for(&self, wanted: &Report) {
        while self.next() != *wanted {}
    }

    pub(crate) fn end(&self) -> End {
        loop {
            if let Report::Ended(end) = self.next() {
                assert!(self.reports.recv_timeout(LONG).is_err(), "nothing comes after the end");
                return end;
            }
        }
    }
}

/// Waits for a condition that no report announces.
#[track_caller]
pub(crate) fn until(what: &str, done: impl FnMut() -> bool) {
    test_support::until(LONG, what, done);
}

pub(crate) fn marked(variable: &str) -> Vec<i32> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|pid: &i32| {
            let environ = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environ.split(|&byte| byte == 0).any(|one| one == variable.as_bytes())
        })
        .collect()
}

pub(crate) fn read(path: impl AsRef<Path>) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

fn count(dir: &Path, wanted: &[String], depth: u32) -> usize {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let dirs = entries.filter(|entry| depth > 0 && entry.file_type().is_ok_and(|kind| kind.is_dir()));
    dirs.map(|entry| {
        let is_one = wanted.iter().any(|name| entry.file_name().to_str() == Some(name));
        usize::from(is_one) + count(&entry.path(), wanted, depth - 1)
    })
    .sum()
}
