//! The run's side of the socket.
//!
//! Room: surface. Threads around a `Jobs`; decides nothing.
//!
//! # Invariants
//! - Whatever clients do, the scheduler is held up for at most a fifth of the time, and memory stays bounded.
//! - When [`Served`] is gone, so is the socket, and nothing of it holds the jobs or the runner any more.
//!
//! # Why they hold
//! At most [`CLIENTS`] are served, each by a thread of its own that reads lines of bounded length and gives up on a client which sends or reads
//! nothing for a while. What makes the scheduler look at many jobs goes over one [`Desk`]: it is open to one at a time, and after a look
//! that took *t* it stays closed for four times *t*. A subscriber has a queue of bounded length, and there are at most [`SUBSCRIBERS`].
//! Dropping `Served` shuts down the listener, which wakes its thread, and every stream, which wakes theirs (first for reading only, so that
//! the last answers are sent; `a_client_gets_the_answer_to_the_request_that_ended_the_run`), and waits for all that are still
//! counted; a thread that is no longer counted has let go of everything before.

use std::collections::HashMap;
use std::io::{self, BufReader, ErrorKind, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use sched_jobs::{ControlError, Event, JobStatus, Jobs, What};

use super::place;
use super::wire::{self, Answer, Happened, JobLine, Line, REQUEST_BYTES_MAX, Reply, Request, RunLine};

/// Clients at a time.
pub(crate) const CLIENTS: usize = 32;
/// Subscribers at a time: each may keep a million events waiting.
pub(crate) const SUBSCRIBERS: usize = 8;
/// A client that sends nothing for so long is hung up on.
const SILENCE: Duration = Duration::from_secs(60);
/// A client that takes nothing for so long is hung up on.
const STUCK: Duration = Duration::from_secs(5);
/// At the end, clients have so long to take their answers.
const FAREWELL: Duration = Duration::from_secs(1);
/// The desk is closed for at most so long.
const REST_MAX: Duration = Duration::from_millis(500);

/// What the one who runs the jobs does besides.
pub(crate) trait Runner: Send + Sync {
    /// Nobody who is being cancelled gets any more time.
    fn hurry(&self) {}
    /// The whole run was paused, or goes on.
    fn run_paused(&self, paused: bool) {
        let _ = paused;
    }
}

/// Nothing besides.
impl Runner for () {}

/// A socket that is served. Dropped, it is gone.
#[must_use = "a socket that is dropped is closed"]
pub(crate) struct Served {
    desk: Arc<Desk>,
    listener: UnixListener,
    socket: PathBuf,
    thread: Option<JoinHandle<()>>,
}

/// Serves the run `run` in `folder`, whose jobs are `jobs`.
///
/// # Errors
/// If the socket cannot be opened.
pub(crate) fn serve(folder: &Path, run: &str, jobs: Jobs, runner: Arc<dyn Runner>) -> io::Result<Served> {
    let listener = place::listen(folder)?;
    let desk = Arc::new(Desk {
        jobs,
        run: run.to_owned(),
        runner,
        open_from: Mutex::new(Instant::now()),
        clients: Arc::default(),
        subscribers: AtomicUsize::new(0),
        closing: AtomicBool::new(false),
    });
    let (ours, door) = (desk.clone(), listener.try_clone()?);
    let thread = std::thread::Builder::new().name("control".into()).spawn(move || accept(&ours, &door))?;
    Ok(Served { desk, listener, socket: place::socket(folder), thread: Some(thread) })
}

impl Drop for Served {
    fn drop(&mut self) {
        self.desk.closing.store(true, SeqCst);
        let _ = std::fs::remove_file(&self.socket); // if somebody else did, it is gone as well
        let _ = rustix::net::shutdown(&self.listener, rustix::net::Shutdown::Both); // wakes `accept`
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        for client in self.desk.clients.part().into_values() {
            let _ = client.thread.map(JoinHandle::join);
        }
    }
}

/// What all threads of a socket share.
struct Desk {
    jobs: Jobs,
    run: String,
    runner: Arc<dyn Runner>,
    /// When the desk is open again for whoever makes the scheduler look at many jobs.
    open_from: Mutex<Instant>,
    clients: Arc<Clients>,
    subscribers: AtomicUsize,
    closing: AtomicBool,
}

/// Apart from the desk, so that a thread can let go of the desk before it is no longer counted.
#[derive(Default)]
struct Clients {
    all: Mutex<HashMap<u64, Client>>,
    left: Condvar,
}

impl Clients {
    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Client>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn remove(&self, number: u64) {
        self.lock().remove(&number);
        self.left.notify_all();
    }

    /// Takes no more requests and lets everybody have the answer to the last one: what was asked for may be what ended the run.
    /// Gives those who did not take it in time; they are hung up on.
    fn part(&self) -> HashMap<u64, Client> {
        let all = self.lock();
        for client in all.values() {
            let _ = client.stream.shutdown(Shutdown::Read);
        }
        let waited = self.left.wait_timeout_while(all, FAREWELL, |all| !all.is_empty());
        let mut all = waited.unwrap_or_else(PoisonError::into_inner).0;
        for client in all.values() {
            let _ = client.stream.shutdown(Shutdown::Both);
        }
        std::mem::take(&mut *all)
    }
}

struct Client {
    stream: UnixStream,
    /// Put there when it has started; the client may have gone by then.
    thread: Option<JoinHandle<()>>,
}

fn accept(desk: &Arc<Desk>, listener: &UnixListener) {
    for number in 0.. {
        let stream = match listener.accept() {
            Ok((stream, _)) => stream,
            Err(_) if desk.closing.load(SeqCst) => return,
            Err(error) if error.kind() == ErrorKind::InvalidInput => return,
            // Out of descriptors, most likely: somebody else must give some back.
            Err(_) => {
                std::thread::sleep(Duration::from_millis(100));
                continue;
            }
        };
        if desk.closing.load(SeqCst) {
            return;
        }
        // A client that cannot be set up, or is not ours, is hung up on.
        let _ = welcome(desk, number, stream);
    }
}

fn welcome(desk: &Arc<Desk>, number: u64, mut stream: UnixStream) -> io::Result<()> {
    stream.set_read_timeout(Some(SILENCE))?;
    stream.set_write_timeout(Some(STUCK))?;
    if !place::is_ours(&stream)? {
        return Ok(());
    }
    let mut clients = desk.clients.lock();
    if clients.len() >= CLIENTS {
        let message = format!("{CLIENTS} clients are being served, which is the most; try again when one has gone");
        return say(&mut stream, &Reply::error("busy", message, None));
    }
    clients.insert(number, Client { stream: stream.try_clone()?, thread: None });
    let ours = desk.clone();
    let spawned = std::thread::Builder::new().name("control-client".into()).spawn(move || {
        let _ = ours.converse(&stream); // however it ended, it is over
        let _ = stream.shutdown(Shutdown::Both);
        let clients = ours.clients.clone();
        drop(ours);
        clients.remove(number);
    });
    match spawned {
        Ok(thread) => clients.get_mut(&number).map(|client| client.thread = Some(thread)),
        Err(_) => clients.remove(&number).map(drop),
    };
    Ok(())
}

fn say(stream: &mut impl Write, reply: &Reply) -> io::Result<()> {
    let mut line = serde_json::to_vec(reply)?;
    line.push(b'\n');
    stream.write_all(&line)
}

impl Desk {
    fn converse(&self, stream: &UnixStream) -> io::Result<()> {
        let mut reader = BufReader::new(stream);
        let mut writer = stream;
        let mut line = Vec::new();
        while !self.closing.load(SeqCst) {
            match wire::read_line(&mut reader, &mut line, REQUEST_BYTES_MAX)? {
                Line::Whole => {}
                Line::End => return Ok(()),
                Line::TooLong => {
                    let message = format!("the request has more than {REQUEST_BYTES_MAX} bytes, which is the most");
                    return say(&mut writer, &Reply::error("too_long", message, None));
                }
            }
            match wire::parse(&line) {
                Ok(Request::Subscribe) => return self.subscribe(writer),
                Ok(request) => {
                    let reply = self.answer(request);
                    say(&mut writer, &reply)?;
                }
                Err(refusal) => {
                    let is_stranger = refusal.kind == "wrong_version";
                    say(&mut writer, &Reply::error(&refusal.kind, refusal.message, refusal.code))?;
                    if is_stranger {
                        return Ok(());
                    }
                }
            }
        }
        Ok(())
    }

    fn answer(&self, request: Request) -> Reply {
        match self.grant(request) {
            Ok(answer) => Reply::ok(answer),
            Err(error) => {
                let kind = match &error {
                    ControlError::UnknownJob { .. } => "unknown_job",
                    ControlError::PauseTimeout { .. } => "pause_timeout",
                    _ => "not_now",
                };
                Reply::error(kind, error.to_string(), error.code())
            }
        }
    }

    fn grant(&self, request: Request) -> Result<Answer, ControlError> {
        let mut answer = Answer::default();
        match request {
            Request::Ps { all, limit } => answer.run = Some(self.look(|| self.ps(all, limit))),
            Request::Status { job } => answer.job = Some(line(self.jobs.status(job)?)),
            Request::Why { job } => {
                let why = self.look(|| self.jobs.why(job))?;
                (answer.text, answer.state) = (Some(why.to_string()), Some(why.state.name().to_owned()));
            }
            Request::Pause(target) => {
                let is_run = target.job.is_none();
                self.jobs.pause(target.into_target())?;
                if is_run {
                    self.runner.run_paused(true);
                }
            }
            Request::Resume(target) => {
                let is_run = target.job.is_none();
                self.jobs.resume(target.into_target())?;
                if is_run {
                    self.runner.run_paused(false);
                }
            }
            Request::Cancel { target, now } => {
                let target = target.into_target();
                if now {
                    // Asked first, hurried after: only what is being cancelled is hurried.
                    self.jobs.cancel(target.clone())?;
                    self.runner.hurry();
                }
                self.jobs.cancel_and_wait(target)?;
            }
            Request::Retry { job } => self.jobs.retry(job)?,
            Request::Subscribe => unreachable!("a conversation that subscribes ends as one"),
        }
        Ok(answer)
    }

    /// Lets the scheduler look at many jobs, if the desk is open.
    fn look<T>(&self, look: impl FnOnce() -> T) -> T {
        let mut open_from = self.open_from.lock().unwrap_or_else(PoisonError::into_inner);
        std::thread::sleep(open_from.saturating_duration_since(Instant::now()));
        let began = Instant::now();
        let seen = look();
        *open_from = Instant::now() + (began.elapsed() * 4).min(REST_MAX);
        seen
    }

    fn ps(&self, all: bool, limit: Option<usize>) -> RunLine {
        let limit = limit.unwrap_or(usize::MAX);
        let statuses = self.jobs.statuses();
        let counts = self.jobs.counts().into_iter().map(|(state, count)| (state.name().to_owned(), count)).collect();
        let usage = self.jobs.usage();
        let mut shown: Vec<JobStatus> =
            statuses.into_iter().filter(|status| all || !status.state.is_terminal()).collect();
        if !all {
            // Running first: who asks what goes on wants to see that.
            shown.sort_by_key(|status| match status.state {
                sched_jobs::State::Running => 0,
                sched_jobs::State::Paused => 1,
                sched_jobs::State::Ready => 2,
                _ => 3,
            });
        }
        let more = shown.len().saturating_sub(limit);
        shown.truncate(limit);
        RunLine {
            run: self.run.clone(),
            pid: std::process::id(),
            age_ms: self.jobs.now().as_millis() as u64,
            counts,
            cpu_slots: usage.cpu_slots,
            ram_mb: usage.ram_mb,
            vram_mb: usage.vram_mb,
            jobs: shown.into_iter().map(line).collect(),
            more,
        }
    }

    fn subscribe(&self, mut writer: impl Write) -> io::Result<()> {
        if self.subscribers.fetch_add(1, SeqCst) >= SUBSCRIBERS {
            self.subscribers.fetch_sub(1, SeqCst);
            let message = format!("{SUBSCRIBERS} listen to this run already, which is the most");
            return say(&mut writer, &Reply::error("busy", message, None));
        }
        let result = self.pass_on(&mut writer);
        self.subscribers.fetch_sub(1, SeqCst);
        result
    }

    fn pass_on(&self, writer: &mut impl Write) -> io::Result<()> {
        let mut events = self.jobs.events();
        say(writer, &Reply::ok(Answer::default()))?;
        let mut names: Vec<Box<str>> = Vec::new();
        loop {
            // Seen before the queue is found empty, so what happened before the end is passed on.
            let closing = self.closing.load(SeqCst);
            let pause = if closing { Duration::ZERO } else { Duration::from_millis(100) };
            let event = match events.recv_timeout(pause) {
                Some(event) => event,
                None if closing => return Ok(()),
                None => continue,
            };
            let job = event.job.index();
            if job >= names.len() {
                names = self.jobs.statuses().into_iter().map(|status| status.name.into()).collect();
            }
            let missed = Some(events.missed()).filter(|missed| *missed > 0);
            if let Some(event) = happened(&event, names.get(job).map_or("?", |name| name), missed) {
                say(writer, &Reply::event(event))?;
            }
        }
    }
}

fn line(status: JobStatus) -> JobLine {
    JobLine {
        index: status.id.index(),
        name: status.name,
        state: status.state.name().to_owned(),
        attempts: status.attempts,
        progress: status.progress,
        error: status.cause.map(|cause| cause.to_string()),
    }
}

fn happened(event: &Event, name: &str, missed: Option<u64>) -> Option<Happened> {
    let (what, attempt, progress) = match event.what {
        What::Ready => ("ready", None, None),
        What::Started { attempt } => ("started", Some(attempt), None),
        What::Progress(done) => ("progress", None, Some(done)),
        What::Paused => ("paused", None, None),
        What::Resumed => ("resumed", None, None),
        What::Retrying { attempt, .. } => ("retrying", Some(attempt), None),
        What::Succeeded => ("succeeded", None, None),
        What::Failed => ("failed", None, None),
        What::Canceled => ("canceled", None, None),
        What::Revived => ("revived", None, None),
        _ => return None,
    };
    let (job, what) = (name.to_owned(), what.to_owned());
    Some(Happened { at_ms: event.at().as_millis() as u64, job, what, attempt, progress, missed })
}
