//! Listens to a policy service, on a thread of its own.
//!
//! Room: driver.
//!
//! # Invariants
//! - No reader of the policy waits for this thread: it holds no lock that [`PolicyHandle`] takes, but for one exchange of pointers.
//! - The thread sleeps until something comes, a time of the receiver is reached, or the client is dropped. It does not poll.
//! - A service costs a bounded time, whatever it sends: the receiver limits messages in a second, and after a reason to hang up the next connection is
//!   twice as far away, up to [`BACKOFF_MAX`].

use std::fmt;
use std::io::{self, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use policy_admission::service::{Machine, PolicyHandle, PolicySet, Receiver, Record, ServiceState, Silence};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use super::intake::Intake;
use super::wire;

/// The pause before the second connection; later ones double it.
const BACKOFF_MIN: Duration = Duration::from_millis(50);
/// The longest pause.
const BACKOFF_MAX: Duration = Duration::from_secs(2);
/// A write that takes longer is given up: the service is stopped, or full.
const WRITE_TIMEOUT: Duration = Duration::from_millis(200);
/// The service is told about decisions at most this often.
const REPORT_INTERVAL: Duration = Duration::from_secs(1);

/// How a client listens.
#[derive(Debug, Clone)]
pub struct PolicyOptions {
    name: Option<String>,
    machine: Option<Machine>,
    start: Option<PolicySet>,
    silence: Silence,
}

impl Default for PolicyOptions {
    fn default() -> Self {
        PolicyOptions::new()
    }
}

impl PolicyOptions {
    /// Stale after five seconds of silence, gone after thirty; until the first epoch all work is normal.
    pub fn new() -> Self {
        PolicyOptions { name: None, machine: None, start: None, silence: Silence::default() }
    }

    /// What the operator sees in `bursar policy log`; the name of the program, unless said otherwise.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// The machine that admission is for; the one that the program runs on, unless said otherwise.
    #[must_use]
    pub fn machine(mut self, machine: Machine) -> Self {
        self.machine = Some(machine);
        self
    }

    /// What is in force until the first epoch.
    #[must_use]
    pub fn starting_with(mut self, set: PolicySet) -> Self {
        self.start = Some(set);
        self
    }

    /// After how much silence the service is stale.
    #[must_use]
    pub fn stale_after(mut self, silence: Duration) -> Self {
        self.silence.stale_after = nanos(silence);
        self
    }

    /// After how much silence the service is gone, and the connection is made anew.
    #[must_use]
    pub fn gone_after(mut self, silence: Duration) -> Self {
        self.silence.gone_after = nanos(silence);
        self
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// How a client stands.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PolicyStatus {
    /// The number of the epoch in force; 0 before the first.
    pub epoch: u64,
    /// For how long it has been in force.
    pub age: Duration,
    /// The service: alive, stale, gone, or never heard.
    pub service: ServiceState,
    /// How long ago it was heard, if it was.
    pub heard: Option<Duration>,
    /// The largest number that it has offered. Larger than `epoch`: it was refused.
    pub offered: u64,
    /// How often anything was refused.
    pub refused: u64,
    /// Why, the last time.
    pub last_refusal: Option<String>,
}

impl fmt::Display for PolicyStatus {
    /// `epoch 7 for 12.0 s; the service is stale: not heard for 6.2 s`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PolicyStatus { epoch, age, service, .. } = self;
        write!(f, "epoch {epoch} for {:.1} s; the service is {}", age.as_secs_f64(), service.name())?;
        if let (Some(heard), ServiceState::Stale | ServiceState::Gone) = (self.heard, service) {
            write!(f, ": not heard for {:.1} s", heard.as_secs_f64())?;
        }
        match &self.last_refusal {
            Some(reason) => write!(f, "; {} refused, the last time because {reason}", self.refused),
            None => Ok(()),
        }
    }
}

/// Listens to a policy service. Dropping it ends that; handles keep the last epoch.
///
/// ```no_run
/// use bursar::policy::PolicyClient;
///
/// let client = PolicyClient::connect("/run/user/1000/policy.sock")?; // returns at once, also if no service is there yet
/// let policy = client.handle();
/// println!("weight {}; {}", policy.profile("service:web").weight, client.status());
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct PolicyClient {
    shared: Arc<Shared>,
    handle: PolicyHandle,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    path: PathBuf,
    name: String,
    /// Times of the receiver count from here.
    began: Instant,
    began_ms: u64,
    intake: Mutex<Intake>,
    /// The connection, if there is one, and whether the client was dropped.
    link: Mutex<Link>,
    ended: Condvar,
}

#[derive(Default)]
struct Link {
    stream: Option<UnixStream>,
    is_over: bool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Whatever panicked left values that are whole: the receiver changes nothing before it has decided.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl PolicyClient {
    /// Listens to the service at this socket. Returns at once; if there is no service, it tries again until there is one.
    ///
    /// # Errors
    /// If the path cannot be that of a socket, or the system gives no thread.
    pub fn connect(path: impl AsRef<Path>) -> io::Result<PolicyClient> {
        PolicyClient::connect_with(path, PolicyOptions::new())
    }

    /// The same, with options.
    ///
    /// # Errors
    /// Also if the policy to start with is refused.
    pub fn connect_with(path: impl AsRef<Path>, options: PolicyOptions) -> io::Result<PolicyClient> {
        let path = path.as_ref().to_owned();
        address(&path)?;
        let PolicyOptions { name, machine, start, silence } = options;
        let machine = machine.unwrap_or_else(Machine::here);
        let receiver = match start {
            None => Receiver::new(machine, silence),
            Some(set) => Receiver::starting_with(set, machine, silence)
                .map_err(|mut refusals| io::Error::new(ErrorKind::InvalidInput, refusals.swap_remove(0)))?,
        };
        let handle = receiver.handle();
        let shared = Arc::new(Shared {
            path,
            name: name.unwrap_or_else(program),
            began: Instant::now(),
            began_ms: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64),
            intake: Mutex::new(Intake::new(receiver)),
            link: Mutex::default(),
            ended: Condvar::new(),
        });
        let ours = shared.clone();
        let thread = std::thread::Builder::new().name("bursar-policy".into()).spawn(move || listen(&ours))?;
        Ok(PolicyClient { shared, handle, thread: Some(thread) })
    }

    /// What runtimes read. It stays valid when the client is dropped, with the last epoch.
    pub fn handle(&self) -> PolicyHandle {
        self.handle.clone()
    }

    /// How it stands. May wait while a policy is being checked, unlike reads of the [handle](Self::handle).
    pub fn status(&self) -> PolicyStatus {
        let status = lock(&self.shared.intake).receiver.status(self.shared.now());
        PolicyStatus {
            epoch: status.epoch,
            age: Duration::from_nanos(status.age),
            service: status.service,
            heard: status.heard.map(Duration::from_nanos),
            offered: status.offered,
            refused: status.refused,
            last_refusal: status.last_refusal,
        }
    }

    /// What was decided, oldest first; times count from when the client was made. The newest 128 changes are kept, and the newest 128 refusals.
    pub fn log(&self) -> Vec<Record> {
        lock(&self.shared.intake).receiver.log()
    }
}

impl fmt::Debug for PolicyClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PolicyClient").field("path", &self.shared.path).field("status", &self.status()).finish()
    }
}

impl Drop for PolicyClient {
    fn drop(&mut self) {
        let mut link = lock(&self.shared.link);
        link.is_over = true;
        if let Some(stream) = link.stream.take() {
            let _ = stream.shutdown(Shutdown::Both); // wakes the thread
        }
        drop(link);
        self.shared.ended.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn now(&self) -> u64 {
        nanos(self.began.elapsed())
    }

    /// Waits, unless the client is dropped. Whether to continue.
    fn pause(&self, time: Duration) -> bool {
        let link = lock(&self.link);
        let waited = self.ended.wait_timeout_while(link, time, |link| !link.is_over);
        !waited.unwrap_or_else(PoisonError::into_inner).0.is_over
    }
}

/// How a connection ended.
#[derive(PartialEq, Eq)]
enum End {
    /// The service closed it, or is not there.
    Closed,
    /// We did: it is not worth listening to, or an epoch did not arrive.
    HungUp,
}

/// The thread.
fn listen(shared: &Shared) {
    let mut backoff = BACKOFF_MIN;
    let mut reports = Reports { next: 0, sent_at: None };
    loop {
        let mut end = End::Closed;
        if let Ok(stream) = connect(&shared.path) {
            let ours = stream.try_clone();
            let mut link = lock(&shared.link);
            if link.is_over {
                return;
            }
            link.stream = ours.ok();
            drop(link);
            let epoch = lock(&shared.intake).receiver.status(0).epoch;
            end = session(shared, &stream, &mut reports);
            lock(&shared.link).stream = None;
            let mut intake = lock(&shared.intake);
            intake.lost(shared.now());
            // A service that ended is awaited eagerly; one that brought nothing new, or was hung up on, is not.
            if end == End::Closed && intake.receiver.status(0).epoch > epoch {
                backoff = BACKOFF_MIN;
            }
        }
        if !shared.pause(backoff) {
            return;
        }
        let is_there = end == End::HungUp;
        backoff = (backoff * if is_there { 4 } else { 2 }).min(BACKOFF_MAX);
    }
}

/// One connection, until it ends.
fn session(shared: &Shared, mut stream: &UnixStream, reports: &mut Reports) -> End {
    lock(&shared.intake).connected(shared.now());
    if stream.write_all(wire::SUBSCRIBE).is_err() {
        return End::Closed;
    }
    let mut bytes = vec![0; 16 * 1024];
    loop {
        let next = lock(&shared.intake).receiver.next_tick();
        let wait = next.map(|at| Duration::from_nanos(at.saturating_sub(shared.now())).max(Duration::from_millis(1)));
        if stream.set_read_timeout(wait).is_err() {
            return End::Closed;
        }
        let read = match stream.read(&mut bytes) {
            Ok(0) => return End::Closed,
            Ok(read) => read,
            Err(error) => match error.kind() {
                ErrorKind::WouldBlock | ErrorKind::TimedOut => 0,
                ErrorKind::Interrupted => continue,
                _ => return End::Closed,
            },
        };
        let mut intake = lock(&shared.intake);
        let now = shared.now();
        let mut todo = intake.feed(now, &bytes[..read]);
        // Also when bytes came: they may be no message.
        todo.hang_up |= intake.tick(now).hang_up;
        let is_alive = intake.receiver.status(now).service == ServiceState::Alive;
        let records = if is_alive { reports.due(&intake.receiver) } else { Vec::new() };
        drop(intake);
        reports.send(shared, &records);
        if todo.hang_up || todo.ask {
            return End::HungUp;
        }
    }
}

/// What the service was told of our decisions.
struct Reports {
    /// The first record that was not sent.
    next: u64,
    sent_at: Option<Instant>,
}

impl Reports {
    /// Records that are to be sent now.
    fn due(&self, receiver: &Receiver) -> Vec<Record> {
        if self.sent_at.is_some_and(|at| at.elapsed() < REPORT_INTERVAL) {
            return Vec::new();
        }
        let mut records = receiver.log();
        records.retain(|record| record.sequence >= self.next);
        records
    }

    /// Sends records over a connection of their own, and does not wait for an answer. What is lost is lost: our own log has it.
    fn send(&mut self, shared: &Shared, records: &[Record]) {
        let Some(last) = records.last() else { return };
        self.next = last.sequence + 1;
        self.sent_at = Some(Instant::now());
        // The longest request that a service reads is 64 KiB.
        for some in records.chunks(50) {
            let Some(line) = wire::report_line(&shared.name, shared.began_ms, some) else { return };
            let Ok(mut stream) = connect(&shared.path) else { return };
            let _ = stream.write_all(line.as_bytes());
        }
    }
}

fn address(path: &Path) -> io::Result<SocketAddrUnix> {
    SocketAddrUnix::new(path).map_err(|_| {
        let message = format!("{} cannot be the path of a socket; it has at most 107 bytes", path.display());
        io::Error::new(ErrorKind::InvalidInput, message)
    })
}

/// Connects without waiting: a service that is stopped may have a full queue. Only our own user, or root, is listened to.
fn connect(path: &Path) -> io::Result<UnixStream> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    loop {
        match rustix::net::connect(&socket, &address(path)?) {
            Err(Errno::INTR) => {}
            other => break other?,
        }
    }
    let peer = rustix::net::sockopt::socket_peercred(&socket)?;
    if peer.uid != rustix::process::geteuid() && !peer.uid.is_root() {
        return Err(ErrorKind::PermissionDenied.into());
    }
    let stream = UnixStream::from(socket);
    stream.set_nonblocking(false)?;
    stream.set_write_timeout(Some(WRITE_TIMEOUT))?;
    Ok(stream)
}

fn program() -> String {
    let path = std::env::args_os().next().map(PathBuf::from);
    let name = path.as_deref().and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
    name.unwrap_or_else(|| "a program".to_owned())
}
