//! A folder with a flow file, and the processes that run its parts.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use serde_json::Value;
use test_support::Broker;

/// Whatever is waited for comes within this time, also on a busy machine.
pub(crate) const LIMIT: Duration = Duration::from_secs(120);

/// A number each millisecond, from the part `here` to a file of the part `there`.
pub(crate) const FLOW: &str = r#"
[part.here]
nodes = ["clock"]
[part.there]
nodes = ["out"]

[node.clock]
kind = "every"
interval = "1ms"

[node.out]
kind = "write"
path = "out.txt"
append = true

[[edge]]
from = "clock"
to = "out"
over = "OVER/clock"
"#;

/// A broker, and a folder beside its files.
pub(crate) struct Site {
    pub(crate) broker: Broker,
    folder: PathBuf,
}

/// A flow as a process. It is killed if the test fails.
pub(crate) struct Process(Option<Child>);

impl Site {
    /// With `text` as its flow file, in which `OVER` stands for the broker.
    pub(crate) fn new(broker: Broker, text: &str) -> Self {
        let folder = broker.folder().join("site");
        fs::create_dir_all(folder.join("state")).unwrap();
        let site = Self { broker, folder };
        fs::write(site.path("flow.toml"), text.replace("OVER/", &site.broker.address(""))).unwrap();
        site
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    pub(crate) fn command(&self, words: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_bursar"));
        command.args(words.split_whitespace()).current_dir(&self.folder);
        command.env("BURSAR_STATE_DIR", self.folder.join("state")).stdin(Stdio::null());
        for secret in ["NATS_USER", "NATS_PASSWORD", "NATS_TOKEN", "NATS_CREDS", "NATS_CA"] {
            command.env_remove(secret);
        }
        command
    }

    /// Starts a part of the flow. Its events are its output.
    pub(crate) fn start(&self, part: &str) -> Process {
        let mut command = self.command(&format!("flow run flow.toml --json --part {part}"));
        Process(Some(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()))
    }

    /// Starts a part of the flow, which tells people how it is.
    pub(crate) fn start_plain(&self, part: &str) -> Process {
        let mut command = self.command(&format!("flow run flow.toml --plain --part {part}"));
        Process(Some(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()))
    }

    pub(crate) fn output(&self, words: &str) -> Output {
        self.command(words).output().unwrap()
    }

    /// How many whole lines a file has.
    pub(crate) fn lines(&self, name: &str) -> usize {
        fs::read(self.path(name)).map_or(0, |bytes| bytes.iter().filter(|byte| **byte == b'\n').count())
    }
}

impl Process {
    /// `kill -9`
    pub(crate) fn kill(mut self) {
        let mut child = self.0.take().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    pub(crate) fn id(&self) -> u32 {
        self.0.as_ref().unwrap().id()
    }

    /// Sends it a signal, as `INT`.
    pub(crate) fn signal(&self, name: &str) {
        let id = self.id().to_string();
        assert!(Command::new("kill").args([&format!("-{name}"), &id]).status().unwrap().success());
    }

    /// Waits for its end, however that is.
    pub(crate) fn output(mut self) -> Output {
        self.0.take().unwrap().wait_with_output().unwrap()
    }

    /// Waits for its end, which is a good one. Returns its last event.
    pub(crate) fn ended(self) -> Value {
        self.code(0)
    }

    /// Waits for its end with this exit code. Returns its last event.
    pub(crate) fn code(mut self, code: i32) -> Value {
        let output = self.0.take().unwrap().wait_with_output().unwrap();
        let (events, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert_eq!(output.status.code(), Some(code), "{}: {errors}\n{events}", output.status);
        serde_json::from_str(events.lines().last().unwrap()).unwrap()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// The counts of the half of an edge that is the node `node`.
pub(crate) fn link(ended: &Value, node: &str) -> Value {
    let links = ended["stats"]["links"].as_array().unwrap();
    links.iter().find(|link| link["node"] == node).unwrap_or_else(|| panic!("no {node}: {ended}")).clone()
}
