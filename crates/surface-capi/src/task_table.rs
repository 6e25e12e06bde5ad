//! The tasks of a nursery by number, and waiting for one.
//!
//! Room: surface. Knows numbers and codes; knows nothing of handles.
//!
//! # Invariants
//! 1. The number of a task says for ever how it ended. What is kept for that is one entry for each task that has not ended, and for each that ended with another code than 0.
//! 2. Nothing that may let another task run is done under the lock: it is one of the standard library, and the other task may want it.
//!
//! # Why they hold
//! 1. Numbers are given out in order, so one that was given out and has no entry belongs to a task that returned 0. Entries of ended tasks are settled when they are waited for, or when the entries have doubled
//!    since that was done last; between that, those are kept whose tasks ended meanwhile.
//! 2. A spawn comes before its entry, and is counted meanwhile. One that waits takes the handle of the task out of its entry, and puts it back, also if it is cancelled.

use std::{
    collections::{HashMap, VecDeque},
    ffi::c_void,
    hash::{BuildHasherDefault, Hasher},
    sync::{Mutex, MutexGuard, PoisonError},
};

use sched_tasks::{OpenNursery, OpenTask, Receiver, Sender, TaskId, shield, try_channel, yield_now};

use crate::{
    c_task,
    codes::{JANUS_INVALID_ARGUMENT, Refusal, code_of},
    tasks::{Function, JanusTask, Reserve, TaskOptions, body},
    words::text_of,
};

/// The tasks of a nursery.
#[derive(Default)]
pub(crate) struct Tasks(Mutex<Entries>);

#[derive(Default)]
struct Entries {
    /// How many numbers were given out. The last of `recent` has this one.
    issued: u64,
    recent: VecDeque<Entry>,
    /// Those before, as far as they did not return 0.
    older: HashMap<JanusTask, Entry, BuildHasherDefault<Spread>>,
    /// So many recent ones, and those that have ended are settled.
    settle_at: usize,
    /// How many spawns have not come to their entry: their tasks may run already.
    starting: usize,
}

enum Entry {
    Started(OpenTask<()>),
    /// One waits for it and has it meanwhile. Others that wait share a channel, which is closed when that one is done.
    Awaited(TaskId, Option<Done>),
    Succeeded,
    Failed(i64, String),
}

type Done = (Sender<()>, Receiver<()>);

/// Where a task stands, for one that waits for it.
enum Look {
    /// It returned 0.
    Ended,
    Mine(OpenTask<()>),
    Others(Receiver<()>),
    NeedsChannel,
}

const SETTLE_AT_LEAST: usize = 128;

impl Tasks {
    fn lock(&self) -> MutexGuard<'_, Entries> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn start(
        &self,
        nursery: &OpenNursery,
        function: Function,
        arg: *mut c_void,
        options: TaskOptions,
        reserve: Option<Reserve>,
    ) -> Result<JanusTask, Refusal> {
        let starts = Starts::begin(self);
        let task = c_task::spawn(nursery, options, body(function, arg, reserve))?;
        let mut entries = self.lock();
        if entries.recent.len() >= entries.settle_at.max(SETTLE_AT_LEAST) {
            entries.settle();
        }
        entries.issued += 1;
        entries.recent.push_back(Entry::Started(task));
        entries.starting -= 1;
        std::mem::forget(starts); // it was just counted
        Ok(entries.issued)
    }

    /// Waits for a task, and returns its code. Its owner waits also if it was cancelled, since the task was as well: what the task returns is known soon.
    pub(crate) fn wait(&self, number: JanusTask, is_owner: bool) -> Result<i64, Refusal> {
        let mut spare = None;
        loop {
            match self.look(number, &mut spare)? {
                Look::Ended => return Ok(0),
                Look::Mine(task) => {
                    let mut waits = Waits { tasks: self, number, task: Some(task) };
                    let task = waits.task.as_mut().expect("it is put back last");
                    if is_owner { shield(|| task.wait()) } else { task.wait() }
                }
                Look::Others(done) => _ = if is_owner { shield(|| done.recv()) } else { done.recv() },
                Look::NeedsChannel => spare = Some(try_channel(1)?), // not made under the lock
            }
        }
    }

    /// Looks where a task stands. If it runs and no other waits for it, the caller gets its handle.
    fn look(&self, number: JanusTask, spare: &mut Option<Done>) -> Result<Look, Refusal> {
        let mut entries = self.lock();
        let issued = entries.issued;
        if number == 0 || number > issued {
            return Err(Refusal::new(
                JANUS_INVALID_ARGUMENT,
                format!("{number} is no task of this nursery, which has started {issued}; pass what a spawn returned"),
            ));
        }
        entries.settle_one(number);
        let Some(entry) = entries.of(number) else { return Ok(Look::Ended) };
        let id = entry.id();
        match entry {
            Entry::Succeeded => Ok(Look::Ended),
            Entry::Failed(code, text) => Err(Refusal { code: *code, text: text.clone() }),
            Entry::Awaited(_, Some((_, done))) => Ok(Look::Others(done.clone())),
            Entry::Awaited(_, others) => {
                *others = spare.take();
                Ok(others.as_ref().map_or(Look::NeedsChannel, |(_, done)| Look::Others(done.clone())))
            }
            Entry::Started(_) => {
                let awaited = Entry::Awaited(id.expect("it has not ended"), None);
                match std::mem::replace(entry, awaited) {
                    Entry::Started(task) => Ok(Look::Mine(task)),
                    _ => unreachable!("it was just seen"),
                }
            }
        }
    }

    /// By which number the nursery knows a task of the runtime. None: it may be about to get one.
    fn find(&self, id: TaskId) -> Option<JanusTask> {
        let entries = self.lock();
        let first = entries.first_recent();
        let recent = entries.recent.iter().zip(first..).map(|(entry, number)| (number, entry));
        let mut all = recent.chain(entries.older.iter().map(|(number, entry)| (*number, entry)));
        let found = all.find(|(_, entry)| entry.id() == Some(id)).map(|(number, _)| number);
        found.or((entries.starting == 0).then_some(0))
    }

    /// By which number the nursery knows a task of the runtime; 0 if it has ended.
    pub(crate) fn number_of(&self, id: TaskId) -> JanusTask {
        loop {
            match self.find(id) {
                Some(number) => return number,
                None => yield_now(), // another task or thread is in the middle of a spawn
            }
        }
    }
}

/// A spawn that has not come to its entry, and will not if this is dropped.
struct Starts<'a>(&'a Tasks);

impl<'a> Starts<'a> {
    fn begin(tasks: &'a Tasks) -> Self {
        tasks.lock().starting += 1;
        Self(tasks)
    }
}

impl Drop for Starts<'_> {
    fn drop(&mut self) {
        self.0.lock().starting -= 1;
    }
}

/// Has the handle of a task while it waits, and puts it back, also if it is cancelled.
struct Waits<'a> {
    tasks: &'a Tasks,
    number: JanusTask,
    task: Option<OpenTask<()>>,
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        let mut entries = self.tasks.lock();
        let before = match (entries.of(self.number), self.task.take()) {
            (Some(entry), Some(task)) => std::mem::replace(entry, Entry::Started(task)),
            _ => unreachable!("one that waits has the entry and the task"),
        };
        drop(entries);
        drop(before); // wakes the others: not under the lock
    }
}

impl Entry {
    /// Which task of the runtime it is, if it may not have ended.
    fn id(&self) -> Option<TaskId> {
        match self {
            Entry::Started(task) => Some(task.label().id),
            Entry::Awaited(id, _) => Some(*id),
            Entry::Succeeded | Entry::Failed(..) => None,
        }
    }

    /// What is left to be known of it.
    fn settled(self) -> Self {
        match self {
            Entry::Started(task) => match task.try_join() {
                Ok(Ok(())) => Entry::Succeeded,
                Ok(Err(error)) => Entry::Failed(code_of(&error), text_of(&error)),
                Err(running) => Entry::Started(running),
            },
            entry => entry,
        }
    }
}

impl Entries {
    /// The number of the first recent one.
    fn first_recent(&self) -> JanusTask {
        self.issued + 1 - self.recent.len() as u64
    }

    /// None: it returned 0.
    fn of(&mut self, number: JanusTask) -> Option<&mut Entry> {
        match number.checked_sub(self.first_recent()) {
            Some(place) => self.recent.get_mut(usize::try_from(place).ok()?),
            None => self.older.get_mut(&number),
        }
    }

    /// Notes how a task ended, if it has.
    fn settle_one(&mut self, number: JanusTask) {
        if let Some(entry) = self.of(number) {
            let settled = std::mem::replace(entry, Entry::Succeeded).settled();
            *entry = settled;
        }
        while matches!(self.recent.front(), Some(Entry::Succeeded)) {
            self.recent.pop_front();
        }
    }

    /// Lets go of those that have ended.
    #[cold]
    fn settle(&mut self) {
        let mut left = 0;
        for entry in &mut self.recent {
            let settled = std::mem::replace(entry, Entry::Succeeded).settled();
            left += usize::from(!matches!(settled, Entry::Succeeded));
            *entry = settled;
        }
        self.older.retain(|_, entry| {
            let settled = std::mem::replace(entry, Entry::Succeeded).settled();
            *entry = settled;
            !matches!(entry, Entry::Succeeded)
        });
        if left <= self.recent.len() / 2 {
            let first = self.first_recent();
            let kept = self.recent.drain(..).zip(first..).filter(|(entry, _)| !matches!(entry, Entry::Succeeded));
            self.older.extend(kept.map(|(entry, number)| (number, entry)));
        } // else most of them run: to move them would cost more than to look again later
        self.settle_at = 2 * (self.recent.len() + self.older.len());
    }
}

/// Consecutive numbers, spread by one multiplication.
#[derive(Default)]
struct Spread(u64);

impl Hasher for Spread {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64((*byte).into()));
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(26);
    }
}
