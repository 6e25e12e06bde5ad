//! The keeper's loop: its client, those who come later, and its tree.
//!
//! Room: mechanism. The only place in a keeper that waits.
//!
//! # Invariant
//! There is at most one client; a second is sent away while the first lives. A keeper without client and command is gone, unless it knows an end
//! that it could not record: then it stays, tries again, and tells those who come. A keeper that no second client can reach (it has no socket) runs no command without its client.
//!
//! # Why it holds
//! A client's death closes its socket before anybody can learn of it, and the loop looks at the client before it accepts another.
//! A keeper without a socket kills the command of a client that is gone before it waits again, however it learnt of that: by reading or by writing.
//! An end that is not recorded is in `unrecorded` until a write succeeds or the client says that it knows it, and the loop goes on so long.

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

/// A client that does not listen is not told of usage any more.
const CHATTER_BYTES_MAX: usize = 64 << 10;

/// After so long a full disk may have room again.
const RECORD_AGAIN: Duration = Duration::from_millis(200);

pub(super) struct Server {
    id: String,
    client: Option<Link>,
    /// None: the pool is ephemeral, and the command ends with the client.
    listener: Option<UnixListener>,
    record: Record,
    tree: Option<Tree>,
    bye: bool,
    /// Ends that the record does not have, and when to try again.
    unrecorded: Vec<End>,
    record_at: Instant,
}

impl Server {
    pub(super) fn new(id: String, client: Link, listener: Option<UnixListener>, record: Record) -> Server {
        let (unrecorded, record_at) = (Vec::new(), Instant::now());
        Server { id, client: Some(client), listener, record, tree: None, bye: false, unrecorded, record_at }
    }

    /// Until there is neither client nor command, and nothing that only we know.
    pub(super) fn serve(&mut self) {
        while self.client.is_some() || self.tree.is_some() || !self.unrecorded.is_empty() {
            self.end_with_client();
            let ready = self.wait();
            if ready.client {
                self.hear();
            }
            if ready.newcomer {
                self.greet();
            }
            self.step();
            if Instant::now() >= self.record_at {
                let _ = self.record_again(); // else once more, a little later
            }
            self.send();
        }
        if self.bye {
            let _ = self.record.clear();
        } else {
            self.record.sync(); // who asks for these ends may come after a power loss
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
            let out = if client.out.waits() { PollFlags::OUT } else { PollFlags::empty() };
            fds.push(PollFd::new(&client.stream, PollFlags::IN | out));
        }
        let listens_at = fds.len();
        fds.extend(self.listener.as_ref().map(|listener| PollFd::new(listener, PollFlags::IN)));
        if let Some(watched) = self.tree.as_ref().and_then(Tree::watched) {
            fds.push(PollFd::new(watched, PollFlags::IN));
        }
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) => Ready {
                newcomer: self.listener.is_some() && !fds[listens_at].revents().is_empty(),
                client: self.client.is_some()
                    && fds[0].revents().intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR),
            },
            Err(_) => Ready { newcomer: false, client: false }, // a signal
        }
    }

    fn hear(&mut self) {
        let Some(client) = &mut self.client else { return };
        let mut there = client.come.fill(&client.stream).unwrap_or(false);
        loop {
            let Some(client) = &mut self.client else { return };
            match client.come.next() {
                Ok(Some(Request::Start { run, fresh, given, launch })) => {
                    let [stdin, stdout, stderr] = given.map(|given| given.then(|| client.come.take_fd()).flatten());
                    let streams = Streams { stdin, stdout, stderr };
                    self.start(run, fresh, *launch, given, streams);
                }
                Ok(Some(request)) => self.obey(request),
                Ok(None) => break,
                Err(_) => {
                    there = false; // nobody we could understand
                    break;
                }
            }
        }
        if !there {
            self.client = None;
        }
    }

    fn obey(&mut self, request: Request) {
        let now = Instant::now();
        let mut tell = Vec::new();
        match (request, &mut self.tree) {
            (Request::Pause { run }, Some(tree)) if tree.run == run => tree.pause(now, &mut tell),
            (Request::Resume { run }, Some(tree)) if tree.run == run => tree.resume(now, &mut tell),
            (Request::Cancel { run, grace }, Some(tree)) if tree.run == run => tree.cancel(grace, now),
            (Request::Bye, _) => {
                self.bye = true;
                self.unrecorded.clear();
            }
            // Meant for a command that has ended meanwhile; or a start, which goes another way.
            (_, _) => {}
        }
        self.tell(tell);
    }

    fn start(&mut self, run: u64, fresh: bool, launch: Launch, given: [bool; 3], streams: Streams) {
        if self.tree.is_some() {
            // A pool never does that; the one that runs goes on.
            let why = format!("keeper {} already runs a command", self.id);
            return self.tell(vec![Reply::Warning(format!("{why}; {:?} was not started", launch.token))]);
        }
        if fresh {
            let _ = self.record.clear();
            self.unrecorded.clear();
        }
        self.record.starts(&launch.token);
        // Taken first: a short command may have ended by the time this thread runs again.
        let started = Instant::now();
        // The system may be out of descriptors, and drop those of a message.
        let all_came = if streams.given() == given {
            Ok(())
        } else {
            Err("its standard streams were lost on the way to its keeper")
        };
        match all_came.map_err(str::to_owned).and_then(|()| spawn::spawn(&launch, &self.id, streams)) {
            Ok(leader) => {
                let tree = Tree::new(&self.id, run, launch, leader, [started, Instant::now()]);
                self.tree = Some(if self.listener.is_some() { tree } else { tree.ephemeral() });
            }
            Err(why) => self.end(&End {
                token: launch.token,
                how: How::CouldNotStart(why),
                peak_rss_kb: 0,
                cpu: Duration::ZERO,
                wall: Duration::ZERO,
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
        let mut tell = Vec::new();
        let end = tree.step(Instant::now(), &mut tell);
        self.tell(tell);
        if let Some(end) = end {
            self.tree = None;
            self.end(&end);
        }
    }

    /// First the record, then the report.
    fn end(&mut self, end: &End) {
        self.unrecorded.push(end.clone());
        if let Err(error) = self.record_again() {
            let what = "the end of this command could not be recorded; its keeper knows it and tries again";
            self.tell(vec![Reply::Warning(format!("{what}: {error}"))]);
        }
        if self.client.is_none() {
            self.record.sync(); // no client could hear of it before the power goes
        }
        self.tell(vec![Reply::Ended(end.clone())]);
    }

    /// Records what could not be recorded, in its order.
    fn record_again(&mut self) -> io::Result<()> {
        while let Some(end) = self.unrecorded.first() {
            if let Err(error) = self.record.add(end) {
                self.record_at = Instant::now() + RECORD_AGAIN;
                return Err(error);
            }
            self.unrecorded.remove(0);
        }
        Ok(())
    }

    fn tell(&mut self, replies: Vec<Reply>) {
        let Some(client) = &mut self.client else { return };
        for reply in replies {
            let is_chatter = matches!(reply, Reply::Usage { .. });
            if !is_chatter || client.out.len() < CHATTER_BYTES_MAX {
                let _ = client.out.put(&reply); // too long to send: nothing that we say is
            }
        }
    }

    fn send(&mut self) {
        if let Some(client) = &mut self.client
            && client.out.waits()
            && client.out.flush(&client.stream).is_err()
        {
            self.client = None;
        }
    }

    fn greet(&mut self) {
        let Some(Ok((stream, _))) = self.listener.as_ref().map(UnixListener::accept) else { return };
        let mut link = Link::new(stream);
        if let Some(client) = &self.client {
            let client = socket_peercred(&client.stream).map_or(0, |peer| peer.pid.as_raw_pid());
            let _ = link.out.put(&Reply::Busy { client });
            let _: io::Result<bool> = link.out.flush(&link.stream);
            return;
        }
        // Who went on without knowing these ends would run their commands again.
        if let Err(error) = self.record_again() {
            let _ = link.out.put(&Reply::Unrecorded { why: error.to_string() });
            let _: io::Result<bool> = link.out.flush(&link.stream);
            return;
        }
        let alive = self.tree.as_mut().map(|tree| tree.alive(Instant::now()));
        let _ = link.out.put(&Reply::Hello(alive));
        self.client = Some(link);
    }
}

struct Ready {
    client: bool,
    newcomer: bool,
}
