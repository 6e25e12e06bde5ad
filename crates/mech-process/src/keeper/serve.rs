//! The keeper's loop over its client, later clients, and its tree.
//!
//! Room: mechanism. Knows sockets, one tree and one record; knows nothing of other keepers.
//!
//! No other code of a keeper waits.
//!
//! # Invariant
//! There is at most one client; a second one is refused while the first is alive. A keeper without client and command exits, unless it knows an end
//! that it could not record: then it stays, retries, and says so to each client that connects. A keeper that no second client can reach (it has no socket) runs no command without its client.
//!
//! # Why it holds
//! When a client dies, its socket closes before another process can learn of the death, and the loop reads from its client before it accepts another.
//! A keeper without a socket kills the command of a client that is gone before it waits again, however it learnt of that: by reading or by writing.
//! An unrecorded end is in `unrecorded` until a write succeeds or the client says that it knows the end, and the loop runs until then.

use std::io;
use std::os::unix::net::UnixListener;
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt::socket_peercred;

use super::{spawn, tree::Tree};
use crate::launch::{End, How, Launch, Streams};
use crate::record::Record;
use crate::wire::{Link, Reply, Request};
use std::time::Duration;

/// A client that does not read gets no more usage reports once so many bytes are queued.
const USAGE_QUEUE_BYTES_MAX: usize = 64 << 10;

/// How long to wait before writing the record is tried again: a full disk may have room by then.
const RECORD_RETRY_INTERVAL: Duration = Duration::from_millis(200);

pub(super) struct Server {
    id: String,
    client: Option<Link>,
    /// None: the pool is ephemeral, and the command ends with the client.
    listener: Option<UnixListener>,
    record: Record,
    tree: Option<Tree>,
    bye: bool,
    /// Ends that are not in the record, and when to retry.
    unrecorded: Vec<End>,
    record_at: Instant,
}

impl Server {
    pub(super) fn new(id: String, client: Link, listener: Option<UnixListener>, record: Record) -> Server {
        let (unrecorded, record_at) = (Vec::new(), Instant::now());
        Server { id, client: Some(client), listener, record, tree: None, bye: false, unrecorded, record_at }
    }

    /// Runs until there is no client, no command, and no unrecorded end.
    pub(super) fn serve(&mut self) {
        while self.client.is_some() || self.tree.is_some() || !self.unrecorded.is_empty() {
            self.end_with_client();
            let ready = self.wait();
            if ready.client {
                self.read_requests();
            }
            if ready.new_client {
                self.accept();
            }
            self.step();
            if Instant::now() >= self.record_at {
                let _ = self.record_pending(); // an error is retried later
            }
            self.flush();
        }
        if self.bye {
            let _ = self.record.clear();
        } else {
            self.record.sync(); // the next client may come after a power loss
        }
        self.record.close();
    }

    fn wait(&self) -> Ready {
        let now = Instant::now();
        let wakes_at = self.tree.as_ref().and_then(|tree| tree.wakes_at(now));
        let record_at = (!self.unrecorded.is_empty()).then_some(self.record_at);
        let timeout =
            wakes_at.into_iter().chain(record_at).min().map(|at| at.saturating_duration_since(now)).map(|left| {
                Timespec { tv_sec: left.as_secs().try_into().unwrap_or(i64::MAX), tv_nsec: left.subsec_nanos().into() }
            });
        let mut fds = Vec::with_capacity(3);
        if let Some(client) = &self.client {
            let out = if client.outgoing.is_pending() { PollFlags::OUT } else { PollFlags::empty() };
            fds.push(PollFd::new(&client.stream, PollFlags::IN | out));
        }
        let listens_at = fds.len();
        fds.extend(self.listener.as_ref().map(|listener| PollFd::new(listener, PollFlags::IN)));
        if let Some(watched) = self.tree.as_ref().and_then(Tree::watched) {
            fds.push(PollFd::new(watched, PollFlags::IN));
        }
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) => Ready {
                new_client: self.listener.is_some() && !fds[listens_at].revents().is_empty(),
                client: self.client.is_some()
                    && fds[0].revents().intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR),
            },
            Err(_) => Ready { new_client: false, client: false }, // a signal
        }
    }

    fn read_requests(&mut self) {
        let Some(client) = &mut self.client else { return };
        let mut is_connected = client.incoming.fill(&client.stream).unwrap_or(false);
        loop {
            let Some(client) = &mut self.client else { return };
            match client.incoming.next() {
                Ok(Some(Request::Start { run, fresh, given, launch })) => {
                    let [stdin, stdout, stderr] = given.map(|given| given.then(|| client.incoming.take_fd()).flatten());
                    let streams = Streams { stdin, stdout, stderr };
                    self.start(run, fresh, *launch, given, streams);
                }
                Ok(Some(request)) => self.handle(request),
                Ok(None) => break,
                Err(_) => {
                    is_connected = false; // not a message of ours
                    break;
                }
            }
        }
        if !is_connected {
            self.client = None;
        }
    }

    fn handle(&mut self, request: Request) {
        let now = Instant::now();
        let mut replies = Vec::new();
        match (request, &mut self.tree) {
            (Request::Pause { run }, Some(tree)) if tree.run == run => tree.pause(now, &mut replies),
            (Request::Resume { run }, Some(tree)) if tree.run == run => tree.resume(now, &mut replies),
            (Request::Cancel { run, grace }, Some(tree)) if tree.run == run => tree.cancel(grace, now),
            (Request::Bye, _) => {
                self.bye = true;
                self.unrecorded.clear();
            }
            // For a command that has ended meanwhile; or a start, which `read_requests` handles.
            (_, _) => {}
        }
        self.send(replies);
    }

    fn start(&mut self, run: u64, fresh: bool, launch: Launch, given: [bool; 3], streams: Streams) {
        if self.tree.is_some() {
            // A pool never does that. The running command is not touched.
            let why = format!("keeper {} already runs a command", self.id);
            return self.send(vec![Reply::Warning(format!("{why}; {:?} was not started", launch.token))]);
        }
        if fresh {
            let _ = self.record.clear();
            self.unrecorded.clear();
        }
        self.record.add_start(&launch.token);
        // Read first: a short command may have ended by the time this thread runs again.
        let started = Instant::now();
        // The system may be out of descriptors, and drop those of a message.
        let all_came = if streams.given() == given {
            Ok(())
        } else {
            Err("its standard streams were lost on the way to its keeper")
        };
        match all_came.map_err(str::to_owned).and_then(|()| spawn::spawn(&launch, &self.id, streams)) {
            Ok(spawned) => {
                let tree = Tree::new(&self.id, run, launch, spawned, [started, Instant::now()]);
                self.tree = Some(if self.listener.is_some() { tree } else { tree.ephemeral() });
            }
            Err(why) => self.end(&End {
                token: launch.token,
                how: How::CouldNotStart(why),
                peak_rss_kb: 0,
                cpu: Duration::ZERO,
                wall: Duration::ZERO,
                in_force: None,
            }),
        }
    }

    /// No other client can come, so a command whose client is gone is killed.
    fn end_with_client(&mut self) {
        if let Some(tree) = &mut self.tree
            && self.client.is_none()
            && self.listener.is_none()
        {
            tree.cancel(Duration::ZERO, Instant::now());
        }
    }

    fn step(&mut self) {
        let Some(tree) = &mut self.tree else { return };
        let mut replies = Vec::new();
        let end = tree.step(Instant::now(), &mut replies);
        self.send(replies);
        if let Some(end) = end {
            self.tree = None;
            self.end(&end);
        }
    }

    /// Records the end first, then reports it.
    fn end(&mut self, end: &End) {
        self.unrecorded.push(end.clone());
        if let Err(error) = self.record_pending() {
            let what = "the end of this command could not be recorded; its keeper will retry";
            self.send(vec![Reply::Warning(format!("{what}: {error}"))]);
        }
        if self.client.is_none() {
            self.record.sync(); // no client knows it, so it must survive a power loss
        }
        self.send(vec![Reply::Ended(end.clone())]);
    }

    /// Records the unrecorded ends, in their order.
    fn record_pending(&mut self) -> io::Result<()> {
        while let Some(end) = self.unrecorded.first() {
            if let Err(error) = self.record.add_end(end) {
                self.record_at = Instant::now() + RECORD_RETRY_INTERVAL;
                return Err(error);
            }
            self.unrecorded.remove(0);
        }
        Ok(())
    }

    fn send(&mut self, replies: Vec<Reply>) {
        let Some(client) = &mut self.client else { return };
        for reply in replies {
            let is_usage = matches!(reply, Reply::Usage { .. });
            if !is_usage || client.outgoing.len() < USAGE_QUEUE_BYTES_MAX {
                let _ = client.outgoing.put(&reply); // fails only for a message that is too long, and no reply is
            }
        }
    }

    fn flush(&mut self) {
        if let Some(client) = &mut self.client
            && client.outgoing.is_pending()
            && client.outgoing.flush(&client.stream).is_err()
        {
            self.client = None;
        }
    }

    fn accept(&mut self) {
        let Some(Ok((stream, _))) = self.listener.as_ref().map(UnixListener::accept) else { return };
        let mut link = Link::new(stream);
        if let Some(client) = &self.client {
            let client = socket_peercred(&client.stream).map_or(0, |peer| peer.pid.as_raw_pid());
            let _ = link.outgoing.put(&Reply::Busy { client });
            let _: io::Result<bool> = link.outgoing.flush(&link.stream);
            return;
        }
        // A client that does not know these ends would run their commands again.
        if let Err(error) = self.record_pending() {
            let _ = link.outgoing.put(&Reply::Unrecorded { why: error.to_string() });
            let _: io::Result<bool> = link.outgoing.flush(&link.stream);
            return;
        }
        let alive = self.tree.as_mut().map(|tree| tree.alive(Instant::now()));
        let _ = link.outgoing.put(&Reply::Hello(alive));
        self.client = Some(link);
    }
}

struct Ready {
    client: bool,
    new_client: bool,
}
