//! A real NATS server in a folder of its own: started, killed and started again by tests.
//!
//! Room: tests.
//!
//! # Invariant
//! Only this machine reaches it (loopback), no other server is touched, and it is gone when the value is dropped, also by a failed test.

use std::env;
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::until;

/// A broker, running or killed. Its files outlive its process.
pub struct Broker {
    folder: PathBuf,
    port: u16,
    /// Further lines of its configuration.
    config: String,
    child: Option<Child>,
}

static NUMBER: AtomicU32 = AtomicU32::new(0);

/// Where `nats-server` is, if it is installed. If not, says so.
pub fn nats_server() -> Option<PathBuf> {
    let mut folders: Vec<PathBuf> =
        env::var_os("PATH").map(|path| env::split_paths(&path).collect()).unwrap_or_default();
    folders.extend(["/usr/sbin", "/usr/local/bin"].map(PathBuf::from));
    let found = folders.into_iter().map(|folder| folder.join("nats-server")).find(|program| program.is_file());
    if found.is_none() {
        eprintln!("NOT RUN: this test needs `nats-server`, which is not installed; `apt-get install nats-server`");
    }
    found
}

impl Broker {
    /// With JetStream and without a login; None, after saying so, if no server is installed.
    pub fn start() -> Option<Self> {
        Self::with("jetstream { store_dir: \"STORE\" }\n")
    }

    /// With a configuration of its own, in which `STORE` is replaced by a folder.
    pub fn with(config: &str) -> Option<Self> {
        nats_server()?;
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let folder = env::temp_dir().join(format!("bursar-broker-{}-{number}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(folder.join("store")).expect("a folder for the broker");
        let config = config.replace("STORE", &folder.join("store").display().to_string());
        // The port is free now, and given back before the server takes it.
        let free = TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("a free port");
        let mut broker = Self { folder, port: free.port(), config, child: None };
        broker.restart();
        Some(broker)
    }

    /// `nats://127.0.0.1:PORT/SUBJECT`
    pub fn address(&self, subject: &str) -> String {
        format!("nats://127.0.0.1:{}/{subject}", self.port)
    }

    /// Its port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// A folder for files of the test, removed with the broker.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Starts it again, with the files it left, and waits until it answers.
    ///
    /// # Panics
    /// If it does not start.
    pub fn restart(&mut self) {
        self.kill();
        let file = self.folder.join("nats.conf");
        let own = format!("host: 127.0.0.1\nport: {}\n{}", self.port, self.config);
        fs::write(&file, own).expect("a configuration for the broker");
        let log = fs::File::options().create(true).append(true).open(self.folder.join("log")).expect("a log");
        let program = nats_server().expect("checked before");
        let mut command = Command::new(program);
        command.arg("-c").arg(&file).stdin(Stdio::null()).stdout(log.try_clone().expect("a log")).stderr(log);
        self.child = Some(command.spawn().expect("nats-server starts"));
        until(Duration::from_secs(20), "nats-server answers", || self.answers());
    }

    /// What it is configured with from its next start on; as in [`with`](Self::with).
    pub fn configure(&mut self, config: &str) {
        self.config = config.replace("STORE", &self.folder.join("store").display().to_string());
    }

    /// Kills it, and removes all that it kept.
    pub fn erase(&mut self) {
        self.kill();
        let _ = fs::remove_dir_all(self.folder.join("store"));
    }

    /// Ends it as a power cut ends a program: nothing is written any more.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Sends it a signal, as `STOP`.
    ///
    /// # Panics
    /// If it is away.
    pub fn signal(&self, name: &str) {
        let id = self.child.as_ref().expect("it runs").id().to_string();
        assert!(Command::new("kill").args([&format!("-{name}"), &id]).status().expect("kill").success());
    }

    /// What it logged.
    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.join("log")).unwrap_or_default()
    }

    /// It greets each client, and answers a ping when it has read its files.
    fn answers(&self) -> bool {
        let asked = || {
            let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
            stream.set_read_timeout(Some(Duration::from_millis(500)))?;
            let mut greeting = [0; 5];
            stream.read_exact(&mut greeting)?;
            stream.write_all(b"PING\r\n")?;
            Ok::<bool, std::io::Error>(&greeting == b"INFO ")
        };
        asked().unwrap_or(false)
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        self.kill();
        let _ = fs::remove_dir_all(&self.folder);
    }
}
