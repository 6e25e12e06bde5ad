//! The graph: jobs, their dependencies, and their names.
//!
//! Room: values.
//!
//! # Invariant
//! A job costs about 110 bytes here, ended or not. Finding a job by name, or waking one of its dependents, touches only a few of these bytes.

use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use alloc::borrow::Cow;
use core::hash::BuildHasher;
use hashbrown::{DefaultHashBuilder, HashTable, hash_table::Entry};

use crate::aging::Time;
use crate::state::State;

pub(super) const NONE: u32 = u32::MAX;

/// It was asked to pause and still runs.
pub(super) const PAUSING: u8 = 1;
/// It was asked to end and still runs.
pub(super) const CANCELLING: u8 = 2;
/// It was paused while running, was resumed, and waits for its CPU slots.
pub(super) const RESUMING: u8 = 4;
/// It has an entry in `extras`.
pub(super) const EXTRA: u8 = 8;
/// A worker has claimed it, and will run it after another job, in the same room.
pub(super) const CLAIMED: u8 = 16;
/// It runs closures on a worker of this process.
pub(super) const LOCAL: u8 = 32;
/// It belongs to a part of the graph.
pub(super) const PART: u8 = 64;

/// The time of something that has not happened.
pub(super) const NEVER: Time = Time::MAX;

#[derive(Debug)]
pub(super) struct Node {
    /// When it last became ready; or [`NEVER`].
    pub(super) ready_since: Time,
    /// When the last attempt started; or [`NEVER`].
    pub(super) started: Time,
    /// Its dependencies: a range of `edges`.
    pub(super) first_need: u32,
    pub(super) needs: u32,
    /// Its dependents: a list in `edges`.
    pub(super) first_dependent: u32,
    pub(super) unmet: u32,
    pub(super) lane: u32,
    /// Changes whenever it leaves its lane or one of its alarms becomes void.
    pub(super) stamp: u32,
    pub(super) attempt: u32,
    /// Where it runs: an index of the driver. After its end, the upper half of the time of its end.
    pub(super) slot: u32,
    /// Its index in `holding`, if it is there. After its end, the lower half of the time of its end.
    pub(super) held_at: u32,
    pub(super) state: State,
    pub(super) paused_from: State,
    pub(super) flags: u8,
}

impl Node {
    pub(super) fn is(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    pub(super) fn set(&mut self, flag: u8, on: bool) {
        if on { self.flags |= flag } else { self.flags &= !flag }
    }

    /// Sets the time of its end, in the fields `slot` and `held_at`, which an ended job does not need.
    #[inline]
    pub(super) fn set_ended(&mut self, at: Time) {
        debug_assert!(self.state.is_terminal(), "a job that has not ended needs its slot");
        (self.slot, self.held_at) = ((at >> 32) as u32, at as u32);
    }

    /// It begins another life cycle.
    pub(super) fn forget_end(&mut self) {
        (self.slot, self.held_at) = (NONE, NONE);
    }

    /// When it ended, if that was in this process.
    pub(super) fn ended(&self) -> Option<Time> {
        let at = u64::from(self.slot) << 32 | u64::from(self.held_at);
        Some(at).filter(|at| self.state.is_terminal() && *at != NEVER)
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Edge {
    /// The job that is needed.
    pub(super) need: u32,
    /// The job that needs it.
    pub(super) dependent: u32,
    /// The next dependent of `need`.
    pub(super) next: u32,
}

/// Names of jobs, in one buffer, and a table to find them.
#[derive(Debug, Default)]
pub(super) struct Names {
    text: String,
    /// Where each name ends.
    ends: Vec<u32>,
    table: HashTable<NameEntry>,
    hasher: DefaultHashBuilder,
}

/// A name in the table, with a part of its hash, so that a lookup reads no other names.
#[derive(Debug, Clone, Copy)]
struct NameEntry {
    hash: u32,
    id: u32,
}

impl NameEntry {
    /// The hash for the table. It is computed from a part of the whole hash, so the table can grow without reading names.
    fn spread(hash: u32) -> u64 {
        u64::from(hash).wrapping_mul(0x9E37_79B9_7F4A_7C15)
    }
}

/// The name of `id` in a text where names end at `ends`.
fn given<'a>(text: &'a str, ends: &[u32], id: u32) -> &'a str {
    let id = id as usize;
    let start = if id == 0 { 0 } else { ends[id - 1] as usize };
    &text[start..ends[id] as usize]
}

impl Names {
    /// The name that was given; empty if none was.
    fn given(&self, id: u32) -> &str {
        given(&self.text, &self.ends, id)
    }

    /// The name of a job; for a job without a name its number: `#17`.
    pub(super) fn get(&self, id: u32) -> Cow<'_, str> {
        match self.given(id) {
            "" => Cow::Owned(format!("#{id}")),
            name => Cow::Borrowed(name),
        }
    }

    fn hash(&self, name: &str) -> u32 {
        (self.hasher.hash_one(name) >> 32) as u32
    }

    fn find_hashed(&self, hash: u32, name: &str) -> Option<u32> {
        let is_it = |entry: &NameEntry| entry.hash == hash && self.given(entry.id) == name;
        self.table.find(NameEntry::spread(hash), is_it).map(|entry| entry.id)
    }

    pub(super) fn find(&self, name: &str) -> Option<u32> {
        self.find_hashed(self.hash(name), name).or_else(|| {
            let id: u32 = name.strip_prefix('#')?.parse().ok()?;
            Some(id).filter(|&id| (id as usize) < self.ends.len() && self.given(id).is_empty())
        })
    }

    /// Whether there is room for a name of so many bytes.
    pub(super) fn has_room(&self, bytes: usize) -> bool {
        self.text.len() + bytes <= u32::MAX as usize
    }

    /// Adds the name of the next job, empty for none; `false` if the name is in use.
    pub(super) fn add(&mut self, name: &str) -> bool {
        if name.is_empty() {
            self.ends.push(self.text.len() as u32);
            return true;
        }
        let (hash, id) = (self.hash(name), self.ends.len() as u32);
        let Self { text, ends, table, .. } = self;
        let is_it = |entry: &NameEntry| entry.hash == hash && given(text, ends, entry.id) == name;
        // One search for both questions: of a million names each costs a cache miss or two.
        let Entry::Vacant(place) = table.entry(NameEntry::spread(hash), is_it, |entry| NameEntry::spread(entry.hash))
        else {
            return false;
        };
        place.insert(NameEntry { hash, id });
        text.push_str(name);
        ends.push(text.len() as u32);
        true
    }

    /// Removes the last names, so that `count` are left.
    pub(super) fn truncate(&mut self, count: usize) {
        while self.ends.len() > count {
            let id = (self.ends.len() - 1) as u32;
            let hash = self.hash(self.given(id));
            if let Ok(entry) = self.table.find_entry(NameEntry::spread(hash), |entry| entry.id == id) {
                entry.remove();
            }
            self.ends.pop();
            self.text.truncate(self.ends.last().map_or(0, |end| *end as usize));
        }
    }

    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }
}

/// A cycle in the dependencies of a batch, if there is one. `needs(i)` are the members that `i` needs.
pub(super) fn find_cycle<'a, I: Iterator<Item = usize> + 'a>(
    count: usize,
    needs: impl Fn(usize) -> I,
) -> Option<Vec<usize>> {
    // Depth first, without recursion: a chain may have a million jobs.
    #[derive(Clone, Copy, PartialEq)]
    enum Mark {
        New,
        OnPath,
        Done,
    }
    let mut marks = vec![Mark::New; count];
    let mut path: Vec<(usize, I)> = Vec::new();
    for root in 0..count {
        if marks[root] != Mark::New {
            continue;
        }
        marks[root] = Mark::OnPath;
        path.push((root, needs(root)));
        while let Some((at, rest)) = path.last_mut() {
            match rest.next() {
                Some(next) if marks[next] == Mark::OnPath => {
                    let start = path.iter().position(|(member, _)| *member == next).expect("it is on the path");
                    return Some(path[start..].iter().map(|(member, _)| *member).collect());
                }
                Some(next) if marks[next] == Mark::New => {
                    marks[next] = Mark::OnPath;
                    path.push((next, needs(next)));
                }
                Some(_) => {}
                None => {
                    marks[*at] = Mark::Done;
                    path.pop();
                }
            }
        }
    }
    None
}
