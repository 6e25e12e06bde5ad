//! The keeper's loop: its client, those who come later, and its tree.
//!
//! Room: mechanism. The only place in a keeper that waits.
//!
//! # Invariant
//! There is at most one client; a second is sent away while the first lives. A keeper without client and command is gone.
//!
//! # Why it holds
//! A client's death closes its socket before anybody can learn of it, and the loop looks at the client before it accepts another.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt::socket_peercred;

use super::{spawn, tree::Tree};
use crate::launch::{End, How, Launch, Stdin};
use crate::record::Record;
use crate::wire::{Link, Reply, Request};
use std::time::Duration;

/// A client that does not listen is not told of usage any more.
const CHATTER_BYTES_MAX: usize = 64 << 10;

pub(super) struct Server {
    id: String,
    client: Option<Link>,
    listener: UnixListener,
    record: Record,
    tree: Option<Tree>,
    bye: bool,
}

impl Server {
    pub(super) fn new(id: String, client: Link, listener: UnixListener, record: Record) -> Server {
        Server { id, client: Some(client), listener, record, tree: None, bye: false }
    }

    /// Until there is neither client nor command.
    pub(super) fn serve(&mut self) {
        while self.client.is_some() || self.tree.is_some() {
            let ready = self.wait();
            if ready.client {
                self.hear();
            }
            if ready.newcomer {
                self.greet();
            }
            self.step();
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
        let timeout = wakes_at.map(|at| at.saturating_duration_since(now)).map(|left| Timespec {
            tv_sec: left.as_secs().try_into().unwrap_or(i64::MAX),
            tv_nsec: left.subsec_nanos().into(),
        });
        let mut fds = vec![PollFd::new(&self.listener, PollFlags::IN)];
        if let Some(client) = &self.client {
            let out = if client.out.waits() { PollFlags::OUT } else { PollFlags::empty() };
            fds.push(PollFd::new(&client.stream, PollFlags::IN | out));
        }
        if let Some(watched) = self.tree.as_ref().and_then(Tree::watched) {
            fds.push(PollFd::new(watched, PollFlags::IN));
        }
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) => Ready {
                newcomer: !fds[0].revents().is_empty(),
                client: self.client.is_some()
                    && fds[1].revents().intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR),
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
                Ok(Some(Request::Start { run, fresh, launch })) => {
                    let stdin = (launch.stdin == Stdin::Client).then(|| client.come.take_fd());
                    self.start(run, fresh, *launch, stdin.flatten());
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
            (Request::Bye, _) => self.bye = true,
            // Meant for a command that has ended meanwhile; or a start, which goes another way.
            (_, _) => {}
        }
        self.tell(tell);
    }

    fn start(&mut self, run: u64, fresh: bool, launch: Launch, stdin: Option<OwnedFd>) {
        if self.tree.is_some() {
            // A pool never does that; the one that runs goes on.
            let why = format!("keeper {} already runs a command", self.id);
            return self.tell(vec![Reply::Warning(format!("{why}; {:?} was not started", launch.token))]);
        }
        if fresh {
            let _ = self.record.clear();
        }
        self.record.starts(&launch.token);
        match spawn::spawn(&launch, &self.id, stdin) {
            Ok(leader) => self.tree = Some(Tree::new(&self.id, run, launch, leader, Instant::now())),
            Err(why) => self.end(&End {
                token: launch.token,
                how: How::CouldNotStart(why),
                peak_rss_kb: 0,
                cpu: Duration::ZERO,
                wall: Duration::ZERO,
            }),
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
        if let Err(error) = self.record.add(end, self.client.is_none()) {
            let what =
                "the end of this command could not be recorded, so it would be lost if this program were killed now";
            self.tell(vec![Reply::Warning(format!("{what}: {error}"))]);
        }
        self.tell(vec![Reply::Ended(end.clone())]);
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
        let Ok((stream, _)) = self.listener.accept() else { return };
        let mut link = Link::new(stream);
        if let Some(client) = &self.client {
            let client = socket_peercred(&client.stream).map_or(0, |peer| peer.pid.as_raw_pid());
            let _ = link.out.put(&Reply::Busy { client });
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
