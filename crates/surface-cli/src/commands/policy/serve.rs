//! `bursar policy serve`: publishes a file, and every change of it.
//!
//! Room: driver.
//!
//! # Invariant
//! Only what passed the checks of a receiver is published: the service has a receiver of its own, and is its first program.

use std::fs::DirBuilder;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering::SeqCst};
use std::time::{Duration, Instant};

use bursar::policy::{Machine, PolicySet};
use clap::Args;
use policy_admission::service::{Decision, Event, Receiver, Refusal, Silence};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use surface_policyfile::{PolicyFile, Problems};
use surface_text::amounts::counted;

use super::counter::Counter;
use super::log_file::LogFile;
use super::publisher::Publisher;
use super::watch::{Signature, Watch};
use super::{Socket, Target, beside};
use crate::control::{PolicyLine, PolicyRecord, open_at};
use crate::exit::{Exit, Failure, say};
use crate::out::now_ms;
use crate::problems::invalid;

/// Programs that are served at a time, with those that report.
const PROGRAMS_MAX: usize = 128;
/// A heartbeat, and a look at the file.
const HEARTBEAT: Duration = Duration::from_secs(1);

/// Options of `bursar policy serve`.
#[derive(Debug, Clone, Args)]
pub(super) struct Options {
    /// The policy file, TOML or JSON
    file: PathBuf,
    #[command(flatten)]
    socket: Socket,
    /// Continue behind this epoch
    #[arg(long, value_name = "N", default_value_t = 0)]
    after: u64,
    #[command(flatten)]
    target: Target,
}

/// `bursar policy serve`
pub(super) fn run(options: &Options) -> Result<u8, Failure> {
    let socket = options.socket.path()?;
    let machine = options.target.machine();
    // The signature first: a change while it is read is seen later.
    let signature = Signature::of(&options.file);
    let file = super::check::load(&options.file, &machine).map_err(|problems| invalid(&problems))?;
    if let (None, Some(folder)) = (&options.socket.socket, socket.parent()) {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
        made.map_err(|error| Failure::broken(format!("cannot make {}: {error}", folder.display())))?;
    }
    let broken = |error: std::io::Error| Failure::broken(error.to_string());
    let signals = Signals::listen().map_err(broken)?;
    let mut service = Service {
        file: options.file.clone(),
        counter: Counter::open(beside(&socket, ".epoch"), options.after).map_err(|error| match error.kind() {
            ErrorKind::InvalidInput => Failure::usage(error.to_string()),
            _ => broken(error),
        })?,
        receiver: Receiver::new(machine, Silence::default()),
        machine,
        began: Instant::now(),
    };
    let about = PolicyLine {
        pid: std::process::id(),
        socket: socket.display().to_string(),
        file: options.file.display().to_string(),
        ..PolicyLine::default()
    };
    // What is refused here was not refused by `load`, so it is about numbers.
    let number = service
        .offer(file.set().clone())?
        .map_err(|refusal| Failure::broken(format!("the first epoch is refused: {refusal}; {}", refusal.way_out())))?;
    let log = LogFile::open(beside(&socket, ".log")).map_err(|error| say!("policy: there is no log: {error}")).ok();
    let publisher = Arc::new(Publisher::new(about, service.receiver.handle().epoch(), log));
    // Only now: no program sees a service without an epoch. A second service fails here.
    let served = open_at(&socket, PROGRAMS_MAX, publisher.clone()).map_err(broken)?;
    say!("policy: {} is in force; programs listen at {}", service.receiver.handle().epoch(), socket.display());
    warn(&file);
    publisher.record(&service.note("start", Some(number), "accepted", String::new()));
    let signal = service.serve(&publisher, &signals, signature);
    publisher.record(&service.note("stop", None, "gone", String::new()));
    publisher.close();
    drop(served);
    say!("policy: ended; programs continue with epoch {}", service.receiver.handle().epoch().number());
    Ok(if signal == SIGINT { Exit::Interrupted as u8 } else { 0 })
}

fn warn(file: &PolicyFile) {
    for warning in file.warnings().iter().flatten() {
        say!("policy: warning: {warning}");
    }
}

struct Service {
    file: PathBuf,
    counter: Counter,
    receiver: Receiver,
    machine: Machine,
    began: Instant,
}

impl Service {
    /// Offers a policy to our own receiver, under the next number.
    fn offer(&mut self, set: PolicySet) -> Result<Result<u64, Refusal>, Failure> {
        let number =
            self.counter.next().map_err(|error| Failure::broken(format!("no number for an epoch: {error}")))?;
        let now = u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        Ok(match self.receiver.take(now, Event::Proposed { number, set }) {
            Decision::Refused { reason, .. } => Err(reason),
            _ => Ok(number),
        })
    }

    fn note(&self, heard: &str, number: Option<u64>, verdict: &str, reason: String) -> PolicyRecord {
        PolicyRecord {
            at_ms: now_ms(),
            who: "service".to_owned(),
            pid: std::process::id(),
            heard: heard.to_owned(),
            number,
            verdict: verdict.to_owned(),
            in_force: self.receiver.handle().epoch().number(),
            reason,
            repeated: 0,
        }
    }

    /// Until a signal ends it, which is returned.
    fn serve(&mut self, publisher: &Publisher, signals: &Signals, signature: Option<Signature>) -> i32 {
        let mut watch = Watch::new(&self.file, signature);
        let mut beat_at = Instant::now() + HEARTBEAT;
        loop {
            signals.wait(&watch, beat_at.saturating_duration_since(Instant::now()));
            let signal = signals.take();
            if matches!(signal, SIGINT | SIGTERM) {
                return signal;
            }
            let is_beat = Instant::now() >= beat_at;
            let is_whole = watch.take_notices() || signal == SIGHUP;
            if (is_beat || is_whole)
                && let Some(now) = watch.look(is_whole)
            {
                self.reload(publisher, &mut watch, now);
            }
            if is_beat {
                publisher.beat();
                beat_at = Instant::now() + HEARTBEAT;
            }
        }
    }

    /// Reads the file again: the next epoch, or a problem that changes nothing.
    fn reload(&mut self, publisher: &Publisher, watch: &mut Watch, signature: Option<Signature>) {
        let loaded = super::check::load(&self.file, &self.machine);
        if !watch.taken(signature) {
            return; // it is being written
        }
        let file = match loaded {
            Ok(file) => file,
            Err(problems) => return self.refuse(publisher, &problems),
        };
        publisher.problem(None);
        if *file.set() == *self.receiver.handle().epoch().set() {
            return; // comments, or the same again
        }
        match self.offer(file.set().clone()) {
            Ok(Ok(number)) => {
                let epoch = self.receiver.handle().epoch();
                say!("policy: {epoch} is in force");
                warn(&file);
                publisher.publish(epoch);
                publisher.record(&self.note("file", Some(number), "accepted", String::new()));
            }
            Ok(Err(refusal)) => {
                let why = format!("{refusal}; {}", refusal.way_out());
                // Too quick: the next look takes it.
                if matches!(refusal, Refusal::TooFast { .. }) {
                    watch.forget();
                }
                publisher.problem(Some(why.clone()));
                publisher.record(&self.note("file", None, "refused", why));
            }
            Err(failure) => {
                watch.forget();
                say!("policy: {failure}");
                publisher.problem(Some(failure.to_string()));
                publisher.record(&self.note("file", None, "refused", failure.to_string()));
            }
        }
    }

    fn refuse(&self, publisher: &Publisher, problems: &Problems) {
        let epoch = self.receiver.handle().epoch().number();
        let first = problems.iter().next().map(ToString::to_string).unwrap_or_default();
        let count = counted(problems.len(), "problem");
        let _ = write!(crate::streams::stderr().lock(), "{}", problems.pretty(console::colors_enabled_stderr()));
        say!("policy: the file has {count}; epoch {epoch} stays in force");
        publisher.problem(Some(format!("{count}: {first}")));
        publisher.record(&self.note("file", None, "refused", format!("{count}: {first}")));
    }
}

/// Signals, as something that can be waited for.
struct Signals {
    wakes: UnixStream,
    last: Arc<AtomicI32>,
}

impl Signals {
    fn listen() -> std::io::Result<Signals> {
        let (wakes, mut wake) = UnixStream::pair()?;
        wakes.set_nonblocking(true)?;
        let last = Arc::new(AtomicI32::new(0));
        let ours = last.clone();
        crate::signals::listen(&[SIGINT, SIGTERM, SIGHUP], move |signal| {
            // An end is not forgotten for a SIGHUP that comes after it.
            let _ = ours.fetch_update(SeqCst, SeqCst, |before| (before == 0 || signal != SIGHUP).then_some(signal));
            wake.write_all(&[0]).is_ok()
        })?;
        Ok(Signals { wakes, last })
    }

    /// The last signal, once.
    fn take(&self) -> i32 {
        while matches!((&self.wakes).read(&mut [0; 64]), Ok(1..)) {}
        self.last.swap(0, SeqCst)
    }

    /// Waits for a signal, a notice, or the end of a time.
    fn wait(&self, watch: &Watch, most: Duration) {
        let time = Timespec { tv_sec: most.as_secs() as i64, tv_nsec: i64::from(most.subsec_nanos()) };
        let mut polled = vec![PollFd::from_borrowed_fd(self.wakes.as_fd(), PollFlags::IN)];
        polled.extend(watch.notices().map(|notices| PollFd::from_borrowed_fd(notices, PollFlags::IN)));
        let _ = poll(&mut polled, Some(&time)); // interrupted: the loop goes round
    }
}
