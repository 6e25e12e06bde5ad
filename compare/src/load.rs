//! A server of each side in this process, and one client for all of them in another, over loopback.
//!
//! # Invariant
//! Every side serves the same client: the same requests, over as many connections, for the same time.
//!
//! # Why another process
//! The client is written on tokio and has a thread of its own. In a process of its own it shares neither allocator nor reactor with the server, and the CPU time of this process is the server's.

use std::env;
use std::fs;
use std::io::Read;
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::measure::percentile;
use crate::{Failure, watchdog};

/// The argument with which this program is started as the client.
pub const CLIENT: &str = "client";

/// What is asked.
pub const ECHO: &[u8] = &[b'x'; 64];
pub const HTTP: &[u8] = b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n";

/// What a client does, as its arguments say it.
#[derive(Clone, Copy, Debug)]
pub struct Client {
    pub address: SocketAddr,
    pub is_http: bool,
    pub connections: usize,
    pub time: Duration,
}

/// What came of it.
#[derive(Clone, Copy, Debug)]
pub struct Served {
    pub per_second: f64,
    pub p99_us: f64,
    /// CPU time of the server for one request.
    pub cpu_us: f64,
    /// How often a thread of the server slept, for one request.
    pub switches: f64,
}

impl Served {
    /// What is better of each: noise only ever adds.
    pub fn best(self, other: Self) -> Self {
        Self {
            per_second: self.per_second.max(other.per_second),
            p99_us: self.p99_us.min(other.p99_us),
            cpu_us: self.cpu_us.min(other.cpu_us),
            switches: self.switches.min(other.switches),
        }
    }
}

impl Client {
    fn args(&self) -> [String; 5] {
        let kind = if self.is_http { "http" } else { "echo" };
        [
            format!("--{CLIENT}"),
            self.address.to_string(),
            kind.to_owned(),
            self.connections.to_string(),
            self.time.as_millis().to_string(),
        ]
    }

    pub fn parse([address, kind, connections, millis]: [&str; 4]) -> Result<Self, Failure> {
        Ok(Self {
            address: address.parse()?,
            is_http: kind == "http",
            connections: connections.parse()?,
            time: Duration::from_millis(millis.parse()?),
        })
    }

    /// What such a process does: its line for standard output.
    pub fn run(self) -> Result<String, Failure> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (count, mut times, elapsed) = runtime.block_on(self.ask())?;
        if times.is_empty() {
            return Err("no request was answered".into());
        }
        Ok(format!("{} {}", count as f64 / elapsed.as_secs_f64(), percentile(&mut times, 99)))
    }

    async fn ask(self) -> Result<(usize, Vec<f64>, Duration), Failure> {
        let mut streams = Vec::new();
        for _ in 0..self.connections {
            let mut stream = tokio::net::TcpStream::connect(self.address).await?;
            stream.set_nodelay(true)?;
            let length = self.first(&mut stream).await?; // all are connected and warm before it counts
            streams.push((stream, length));
        }
        let (begun, request) = (Instant::now(), self.request());
        let mut tasks = tokio::task::JoinSet::new();
        for (mut stream, length) in streams {
            tasks.spawn(async move {
                let (mut times, mut answer) = (Vec::new(), vec![0; length]);
                loop {
                    let asked = Instant::now();
                    if asked - begun >= self.time {
                        return Ok::<_, std::io::Error>(times);
                    }
                    stream.write_all(request).await?;
                    stream.read_exact(&mut answer).await?;
                    times.push(asked.elapsed().as_secs_f64() * 1e6);
                }
            });
        }
        let mut times = Vec::new();
        while let Some(done) = tasks.join_next().await {
            times.extend(done??);
        }
        Ok((times.len(), times, begun.elapsed()))
    }

    fn request(&self) -> &'static [u8] {
        if self.is_http { HTTP } else { ECHO }
    }

    /// One request; says how long an answer is.
    async fn first(&self, stream: &mut tokio::net::TcpStream) -> Result<usize, Failure> {
        stream.write_all(self.request()).await?;
        let mut answer = Vec::new();
        loop {
            if stream.read_buf(&mut answer).await? == 0 {
                return Err("the server closed a connection".into());
            }
            let is_whole = if self.is_http { answer.ends_with(BODY) } else { answer.len() == ECHO.len() };
            if is_whole {
                return Ok(answer.len());
            }
        }
    }
}

/// The body of every answer.
pub const BODY: &[u8] = b"Hello, world!";

/// Has a client ask this process, which serves at its address.
pub fn ask(client: Client) -> Result<Served, Failure> {
    watchdog::enter(format!("{} connections", client.connections), client.time + watchdog::ROUND);
    let (cpu, switches) = (cpu_time(), voluntary_switches()?);
    let mut child = Command::new(env::current_exe()?).args(client.args()).stdout(Stdio::piped()).spawn()?;
    let mut said = String::new();
    child.stdout.take().ok_or("no output")?.read_to_string(&mut said)?;
    if !child.wait()?.success() {
        return Err("the client failed".into());
    }
    let (per_second, p99) = said.trim().split_once(' ').ok_or_else(|| format!("the client said {said:?}"))?;
    let (per_second, p99_us): (f64, f64) = (per_second.parse()?, p99.parse()?);
    let count = per_second * client.time.as_secs_f64();
    let each = |total: f64| total / count;
    Ok(Served {
        per_second,
        p99_us,
        cpu_us: each((cpu_time() - cpu).as_secs_f64() * 1e6),
        switches: each(voluntary_switches()?.saturating_sub(switches) as f64),
    })
}

pub fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Of all threads of this process.
fn voluntary_switches() -> Result<u64, Failure> {
    let mut sum = 0;
    for thread in fs::read_dir("/proc/self/task")? {
        // A thread may end meanwhile.
        let status = fs::read_to_string(thread?.path().join("status")).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        sum += line.and_then(|count| count.trim().parse::<u64>().ok()).unwrap_or(0);
    }
    Ok(sum)
}
