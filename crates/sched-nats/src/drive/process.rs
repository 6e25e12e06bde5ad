//! Which process holds an end of an edge, and whether it is gone for certain.
//!
//! Room: driver. Knows `/proc`; knows nothing of brokers.
//!
//! # Invariant
//! A process is gone only if this machine says so: the kernel that ran it, in its namespace of process ids, knows no such process any more. Of a process elsewhere nothing is known.
//!
//! # Rejected
//! The process id alone: it is given again, and other machines and containers have the same ones. So the boot, the namespace and the start of the process are compared, too.

use std::fs;

use serde_json::{Value, json};

/// A process of some machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Process {
    host: String,
    pid: u64,
    /// The boot of the machine and the namespace of process ids; empty where the system does not say.
    machine: String,
    /// When it was started, in ticks of the machine.
    started: u64,
}

impl Process {
    /// This one.
    pub(crate) fn this() -> Self {
        let pid = u64::from(std::process::id());
        let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim().to_owned();
        Self { host, pid, machine: machine().unwrap_or_default(), started: started(pid).unwrap_or(0) }
    }

    /// Whether it has ended for certain.
    pub(crate) fn is_gone(&self) -> bool {
        // Where processes of others are hidden, one that is not seen may be there.
        let sees_all = || started(1).is_some();
        let is_here = !self.machine.is_empty() && machine().as_ref() == Some(&self.machine);
        is_here && sees_all() && started(self.pid) != Some(self.started)
    }

    /// Whether it runs on this machine for certain.
    pub(crate) fn is_here(&self) -> bool {
        !self.machine.is_empty() && machine().as_ref() == Some(&self.machine) && started(self.pid) == Some(self.started)
    }

    /// As a value of JSON.
    pub(crate) fn to_json(&self) -> Value {
        json!({ "host": self.host, "process": self.pid, "machine": self.machine, "started": self.started })
    }

    /// Reads it again. All that may use the broker may have written it: it decides no more than who waits.
    pub(crate) fn from_json(value: &Value) -> Option<Self> {
        let text = |key: &str| value[key].as_str().map(str::to_owned);
        let host = text("host")?.chars().filter(|c| c.is_ascii_graphic()).take(64).collect();
        let (pid, started) = (value["process"].as_u64()?, value["started"].as_u64()?);
        Some(Self { host, pid, machine: text("machine")?, started })
    }

    /// For people: `process 4711 on robot`.
    pub(crate) fn said(&self) -> String {
        match self.host.as_str() {
            "" => format!("process {}", self.pid),
            host => format!("process {} on {host}", self.pid),
        }
    }
}

/// The boot of this machine, and our namespace of process ids.
fn machine() -> Option<String> {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let namespace = fs::read_link("/proc/self/ns/pid").ok()?;
    Some(format!("{} {}", boot.trim(), namespace.display()))
}

/// When a process was started. None if there is none, or it is dead and only not yet waited for.
fn started(pid: u64) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name of the program may hold anything, also `)`.
    let mut fields = text.rsplit_once(')')?.1.split_ascii_whitespace();
    let state = fields.next()?;
    // The 22nd of all; the state is the third.
    let started = fields.nth(18)?.parse().ok()?;
    (!matches!(state, "Z" | "X")).then_some(started)
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    fn of(pid: u32) -> Process {
        let pid = u64::from(pid);
        Process { pid, started: started(pid).unwrap(), ..Process::this() }
    }

    #[test]
    fn a_process_is_gone_when_it_is_dead_and_not_before() {
        let mut child = Command::new("sleep").arg("60").stdin(Stdio::null()).spawn().unwrap();
        let process = of(child.id());
        assert!(!process.is_gone() && process.is_here());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(process.is_gone() && !process.is_here());
        assert!(!Process::this().is_gone());
    }

    #[test]
    fn another_process_with_its_number_is_not_it() {
        let later = Process { started: Process::this().started + 1, ..Process::this() };
        assert!(later.is_gone());
    }

    #[test]
    fn of_a_process_elsewhere_nothing_is_known() {
        let elsewhere = Process { machine: "another boot".to_owned(), started: 1, ..Process::this() };
        assert!(!elsewhere.is_gone() && !elsewhere.is_here());
        let unknown = Process { machine: String::new(), started: 1, ..Process::this() };
        assert!(!unknown.is_gone() && !unknown.is_here());
    }

    #[test]
    fn it_is_read_as_it_was_written_and_shows_no_control_characters() {
        let this = Process::this();
        assert_eq!(Process::from_json(&this.to_json()), Some(this));
        assert_eq!(Process::from_json(&json!({ "process": "x" })), None);
        let odd = json!({ "host": "a\u{1b}[31m", "process": 7, "machine": "", "started": 1 });
        assert_eq!(Process::from_json(&odd).unwrap().said(), "process 7 on a[31m");
    }
}
