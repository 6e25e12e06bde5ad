//! Nodes with random behaviour, which check what comes.

use std::{
    collections::{HashMap, VecDeque},
    panic::resume_unwind,
    sync::{Arc, atomic::Ordering::SeqCst, mpsc::Sender},
    task::Waker,
    time::Duration,
};

use sched_flow::{Message, NodeError, NodeResult, Out, Policy, Produced, Source, Stage};

use super::record::Record;

/// What travels: where it comes from, and its number there. A merged one stands for all from `first` to `last`.
#[derive(Debug, Clone)]
pub(crate) struct Tag {
    pub(crate) from: usize,
    pub(crate) output: usize,
    pub(crate) first: u64,
    pub(crate) last: u64,
    /// The trace it belongs to, and when that began; nothing if it begins one.
    pub(crate) trace: Option<(u64, u64)>,
    /// So many nodes may still pass it on.
    pub(crate) hops: u32,
}

/// Merges what follows; now and then it cannot.
pub(crate) fn merge(waiting: &mut Tag, new: &Tag) -> Result<(), NodeError> {
    if new.first != waiting.last + 1 || new.first % 7 == 3 {
        return Err(NodeError::msg("these do not go together"));
    }
    waiting.last = new.last;
    Ok(())
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Hold {
    No,
    /// Until it is woken.
    Wake,
    /// Until a tick.
    Tick,
}

/// How a node behaves.
#[derive(Debug, Clone)]
pub(crate) struct Manner {
    pub(crate) outputs: usize,
    pub(crate) fail_percent: u64,
    /// Closed for so long after each message.
    pub(crate) throttle: Option<Duration>,
    pub(crate) hold: Hold,
    /// The number of new messages at a tick of its own.
    pub(crate) fresh: u32,
    pub(crate) at_end: u64,
}

struct Seen {
    next: u64,
    first: u64,
    failed: bool,
}

pub(crate) struct Relay {
    pub(crate) node: usize,
    pub(crate) manner: Manner,
    pub(crate) record: Arc<Record>,
    /// The policies of the edges that lead here.
    pub(crate) policies: HashMap<(usize, usize), Policy>,
    pub(crate) wakes: Option<Sender<Waker>>,
    pub(crate) numbers: [u64; 2],
    seen: HashMap<(usize, usize), Seen>,
    pending: VecDeque<Message<Tag>>,
    closed: bool,
    is_ended: bool,
}

impl Relay {
    pub(crate) fn new(
        node: usize,
        manner: Manner,
        record: Arc<Record>,
        policies: HashMap<(usize, usize), Policy>,
        wakes: Option<Sender<Waker>>,
    ) -> Self {
        Self {
            node,
            manner,
            record,
            policies,
            wakes,
            numbers: [0; 2],
            seen: HashMap::new(),
            pending: VecDeque::new(),
            closed: false,
            is_ended: false,
        }
    }

    fn check(&mut self, message: &Message<Tag>) {
        let tag = &message.payload;
        let name = &self.record.names[self.node];
        if self.is_ended {
            self.record.wrong(format!("{name} gets a message after its end: {tag:?}"));
        }
        if let Some((trace, at)) = tag.trace
            && (message.header.trace.0, message.header.at.nanos()) != (trace, at)
        {
            self.record.wrong(format!("{name}: {:?} has lost its trace: {tag:?}", message.header));
        }
        if message.header.trace.0 == 0 {
            self.record.wrong(format!("{name}: {tag:?} has no trace"));
        }
        let key = (tag.from, tag.output);
        let seen = self.seen.entry(key).or_insert(Seen { next: 0, first: u64::MAX, failed: false });
        let again = seen.failed && tag.first == seen.first;
        let fits = match self.policies.get(&key) {
            Some(Policy::Block | Policy::Coalesce) => tag.first == seen.next || again,
            Some(_) => tag.first >= seen.next || again,
            None => false,
        };
        if !fits {
            self.record.wrong(format!("{name} expected number {} and got {tag:?}", seen.next));
        }
        *seen = Seen { next: tag.last + 1, first: tag.first, failed: false };
    }

    /// New messages, numbered but not yet counted.
    fn make(&mut self, count: u64, trace: Option<(u64, u64)>, hops: u32) -> Vec<Tag> {
        if self.manner.outputs == 0 {
            return Vec::new();
        }
        let make = |_| {
            let output = self.record.below(self.manner.outputs as u64) as usize;
            let number = self.numbers[output];
            self.numbers[output] += 1;
            Tag { from: self.node, output, first: number, last: number, trace, hops }
        };
        (0..count).map(make).collect()
    }

    fn count(&self, tags: &[Tag]) {
        tags.iter().for_each(|tag| _ = self.record.lives[self.node].emitted[tag.output].fetch_add(1, SeqCst));
    }

    fn release(&mut self, out: &mut Out<'_, Tag>) {
        while let Some(held) = self.pending.pop_front() {
            let header = held.header;
            let tags = self.make(1, Some((header.trace.0, header.at.nanos())), held.payload.hops.saturating_sub(1));
            self.count(&tags);
            tags.into_iter().for_each(|tag| out.send_to(tag.output, Message { header, payload: tag }));
        }
    }
}

impl Stage for Relay {
    type In = Tag;
    type Out = Tag;

    fn outputs(&self) -> Vec<String> {
        ["out", "alt"].iter().take(self.manner.outputs).map(ToString::to_string).collect()
    }

    fn on_start(&mut self, out: &mut Out<'_, Tag>) -> NodeResult {
        let record = Arc::clone(&self.record);
        let _inside = record.enter(self.node, "start", 0, out.now());
        record.lives[self.node].started.fetch_add(1, SeqCst);
        record.starts.lock().unwrap().push(self.node);
        Ok(())
    }

    fn on_message(&mut self, message: Message<Tag>, out: &mut Out<'_, Tag>) -> NodeResult {
        let record = Arc::clone(&self.record);
        let _inside = record.enter(self.node, "message", message.payload.first, out.now());
        if !self.accepts() {
            record.wrong(format!("{} gets a message it does not accept", record.names[self.node]));
        }
        self.check(&message);
        let numbers = self.numbers;
        let Message { header, payload: tag } = message.clone();
        let many = [0, 1, 1, 1, 2, 3][record.below(6) as usize];
        let holds = self.manner.hold != Hold::No && tag.hops > 0;
        let count = if tag.hops == 0 || holds { 0 } else { many };
        let tags = self.make(count, Some((header.trace.0, header.at.nanos())), tag.hops.saturating_sub(1));
        tags.iter().for_each(|tag| out.emit_to(tag.output, tag.clone()));
        if record.chance(self.manner.fail_percent) {
            self.numbers = numbers;
            self.seen.get_mut(&(tag.from, tag.output)).expect("just seen").failed = true;
            if record.chance(50) {
                resume_unwind(Box::new("a bad day")); // a panic that prints nothing
            }
            return Err(NodeError::msg("a bad message"));
        }
        self.count(&tags);
        if let Some(pause) = self.manner.throttle {
            self.closed = true;
            out.tick_at(out.now() + pause);
        }
        if holds {
            self.pending.push_back(message);
            match (self.manner.hold, &self.wakes) {
                (Hold::Tick, _) => out.tick_at(out.now() + Duration::from_micros(300)),
                (_, Some(wakes)) => _ = wakes.send(out.waker()),
                (_, None) => out.waker().wake(),
            }
        }
        Ok(())
    }

    fn on_tick(&mut self, out: &mut Out<'_, Tag>) -> NodeResult {
        let record = Arc::clone(&self.record);
        let _inside = record.enter(self.node, "tick", 0, out.now());
        self.closed = false;
        if self.manner.hold == Hold::Tick {
            self.release(out);
        }
        if self.manner.fresh > 0 {
            self.manner.fresh -= 1;
            let tags = self.make(1, None, 2);
            self.count(&tags);
            tags.into_iter().for_each(|tag| out.emit_to(tag.output, tag));
        }
        Ok(())
    }

    fn on_wake(&mut self, out: &mut Out<'_, Tag>) -> NodeResult {
        let record = Arc::clone(&self.record);
        let _inside = record.enter(self.node, "wake", 0, out.now());
        if record.chance(30) {
            out.waker().wake(); // not now: once more
            return Ok(());
        }
        self.release(out);
        Ok(())
    }

    fn on_end(&mut self, out: &mut Out<'_, Tag>) -> NodeResult {
        let record = Arc::clone(&self.record);
        let _inside = record.enter(self.node, "end", 0, out.now());
        if record.lives[self.node].ended.fetch_add(1, SeqCst) != 0 {
            record.wrong(format!("{} ends twice", record.names[self.node]));
        }
        if !self.pending.is_empty() {
            record.wrong(format!("{} ends before it is done", record.names[self.node]));
        }
        self.is_ended = true;
        let tags = self.make(self.manner.at_end, None, 2);
        self.count(&tags);
        tags.into_iter().for_each(|tag| out.emit_to(tag.output, tag));
        Ok(())
    }

    fn on_stop(&mut self, out: &mut Out<'_, Tag>) -> NodeResult {
        let record = Arc::clone(&self.record);
        let _inside = record.enter(self.node, "stop", 0, out.now());
        record.lives[self.node].stopped.fetch_add(1, SeqCst);
        record.stops.lock().unwrap().push(self.node);
        Ok(())
    }

    fn accepts(&self) -> bool {
        !self.closed && self.pending.len() < 4
    }

    fn is_done(&self) -> bool {
        self.pending.is_empty()
    }
}

/// A source of numbered messages.
pub(crate) struct Spring {
    pub(crate) node: usize,
    pub(crate) left: u64,
    pub(crate) fail_percent: u64,
    pub(crate) hops: u32,
    pub(crate) number: u64,
    pub(crate) record: Arc<Record>,
}

impl Source for Spring {
    type Out = Tag;

    fn on_start(&mut self, out: &mut Out<'_, Tag>) -> NodeResult {
        let record = Arc::clone(&self.record);
        let _inside = record.enter(self.node, "start", 0, out.now());
        record.lives[self.node].started.fetch_add(1, SeqCst);
        record.starts.lock().unwrap().push(self.node);
        Ok(())
    }

    fn produce(&mut self, out: &mut Out<'_, Tag>) -> Result<Produced, NodeError> {
        let record = Arc::clone(&self.record);
        let _inside = record.enter(self.node, "produce", self.left, out.now());
        if self.left == 0 {
            return Ok(Produced::End);
        }
        match record.below(20) {
            0 => {
                out.tick_at(out.now() + Duration::from_micros(200));
                return Ok(Produced::Idle);
            }
            1 => {
                out.waker().wake(); // before it says that it has nothing
                return Ok(Produced::Idle);
            }
            2 => return Ok(Produced::More), // nothing, and not idle either
            _ => {}
        }
        let many = 1 + record.below(2);
        let number = self.number;
        for at in number..number + many {
            let tag = Tag { from: self.node, output: 0, first: at, last: at, trace: None, hops: self.hops };
            out.emit(tag);
        }
        self.left -= 1;
        if record.chance(self.fail_percent) {
            return Err(NodeError::msg("a dry well"));
        }
        self.number += many;
        record.lives[self.node].emitted[0].fetch_add(many, SeqCst);
        Ok(if self.left == 0 { Produced::End } else { Produced::More })
    }

    fn on_stop(&mut self, out: &mut Out<'_, Tag>) -> NodeResult {
        let record = Arc::clone(&self.record);
        let _inside = record.enter(self.node, "stop", 0, out.now());
        record.lives[self.node].stopped.fetch_add(1, SeqCst);
        record.stops.lock().unwrap().push(self.node);
        Ok(())
    }
}
