//! Timers by when they are due: to set, to clear and to take one costs the same for ten as for a million.
//!
//! Room: mechanism. Knows times as numbers; knows no clock, no lock, and nothing of what is timed.
//!
//! A hierarchical timing wheel. Level 0 has a slot for each of the next 64 ticks, level 1 one for each 64 of them, and so on; a timer is in the level of the highest digit, to base 64, in which
//! its time differs from the wheel's. When the wheel comes to a slot of a higher level, its timers go into the slots of the level below.
//!
//! # Invariants
//! 1. No timer is taken before it is due, and none after one that is due later. Two for the same tick are taken in the order they were set.
//! 2. A timer is taken once or cleared once. A key names one timer, also after its place has another.
//! 3. No slot before the wheel's own time has a timer.
//!
//! # Why they hold
//! 1. Timers of a lower level are due before those of a higher one, and within a level slots are in the order of time. A timer for the same tick that is set later finds the earlier one in its own slot,
//!    since the wheel has emptied every slot that it has come to into the level below; slots are lines.
//! 2. Each timer has a number of its own, and its key has it.
//! 3. The wheel's time moves to the first slot that has timers, or to a time before it.
//!
//! # Rejected
//! A heap: to clear a timer, what most timers come to, is a search or a tombstone. One thread for all timers: each is then a lock that all meet at, and a thread that wakes another.

const DIGIT_BITS: u32 = 6;
const SLOTS: usize = 1 << DIGIT_BITS;
const LEVELS: usize = u64::BITS.div_ceil(DIGIT_BITS) as usize;
/// Of a slot with more timers than this the first is not looked for: it is said to be due when the slot begins.
const SEARCHED_MAX: usize = 16;
/// So many places are kept when all are vacant.
const KEPT_MAX: usize = 4096;
const NONE: u32 = u32::MAX;

/// Timers, each with a `T`.
#[derive(Debug)]
pub(crate) struct Wheel<T> {
    now: u64,
    levels: [Level; LEVELS],
    /// Which levels have timers.
    occupied: u16,
    places: Vec<Entry<T>>,
    /// The first place without a timer.
    vacant: u32,
    next_number: u64,
}

#[derive(Debug, Clone, Copy)]
struct Level {
    /// Which slots have timers.
    occupied: u64,
    /// The first of each; they are linked in a circle.
    first: [u32; SLOTS],
}

#[derive(Debug)]
struct Entry<T> {
    due: u64,
    previous: u32,
    /// In its slot, or of those that are vacant.
    next: u32,
    number: u64,
    value: Option<T>,
}

/// Names a timer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Key {
    place: u32,
    number: u64,
}

impl<T> Wheel<T> {
    pub(crate) const fn new() -> Self {
        let level = Level { occupied: 0, first: [NONE; SLOTS] };
        Self { now: 0, levels: [level; LEVELS], occupied: 0, places: Vec::new(), vacant: NONE, next_number: 0 }
    }

    /// Sets a timer. One for a time that is over is due at once.
    ///
    /// # Panics
    /// If there are 2^32 - 1.
    pub(crate) fn set(&mut self, due: u64, value: T) -> Key {
        let due = due.max(self.now);
        let key = self.occupy(due, value);
        self.link(key.place);
        key
    }

    /// Clears a timer. `None` if it was taken or cleared.
    pub(crate) fn clear(&mut self, key: Key) -> Option<T> {
        self.places.get(key.place as usize).filter(|place| place.number == key.number && place.value.is_some())?;
        self.unlink(key.place);
        Some(self.vacate(key.place))
    }

    /// Takes the first of those that are due at `now`.
    pub(crate) fn take(&mut self, now: u64) -> Option<T> {
        loop {
            let (level, slot, begins) = self.first_slot()?;
            if begins > now {
                self.now = self.now.max(now);
                return None;
            }
            self.now = begins;
            if level == 0 {
                let place = self.levels[0].first[slot];
                self.unlink(place);
                return Some(self.vacate(place));
            }
            self.lower(level, slot);
        }
    }

    /// When to look again: no timer is due before. It is exact if few are due soon.
    pub(crate) fn next_look(&self) -> Option<u64> {
        let (level, slot, begins) = self.first_slot()?;
        let first = self.levels[level].first[slot];
        let (mut place, mut earliest) = (first, u64::MAX);
        for _ in 0..SEARCHED_MAX {
            earliest = earliest.min(self.places[place as usize].due);
            place = self.places[place as usize].next;
            if place == first {
                return Some(earliest);
            }
        }
        Some(begins)
    }

    /// Clears all.
    pub(crate) fn clear_all(&mut self) -> Vec<T> {
        let mut values = Vec::new();
        while let Some((level, slot, _)) = self.first_slot() {
            let place = self.levels[level].first[slot];
            self.unlink(place);
            values.push(self.vacate(place));
        }
        values
    }

    /// The slot that comes first of those that have timers, and the tick at which it begins.
    fn first_slot(&self) -> Option<(usize, usize, u64)> {
        if self.occupied == 0 {
            return None;
        }
        let level = self.occupied.trailing_zeros() as usize;
        let slot = self.levels[level].occupied.trailing_zeros() as usize;
        let shift = level as u32 * DIGIT_BITS;
        let above = u64::MAX.checked_shl(shift + DIGIT_BITS).unwrap_or(0);
        Some((level, slot, (self.now & above) | (slot as u64) << shift))
    }

    /// The wheel has come to this slot: its timers go into the levels below.
    fn lower(&mut self, level: usize, slot: usize) {
        let first = self.levels[level].first[slot];
        let last = self.places[first as usize].previous;
        self.empty(level, slot);
        let mut place = first;
        loop {
            let next = self.places[place as usize].next;
            self.link(place);
            if place == last {
                return;
            }
            place = next;
        }
    }

    /// In which slot a timer for this time is.
    fn slot_of(&self, due: u64) -> (usize, usize) {
        let differs = (self.now ^ due) | (SLOTS as u64 - 1);
        let level = (u64::BITS - 1 - differs.leading_zeros()) / DIGIT_BITS;
        (level as usize, (due >> (level * DIGIT_BITS)) as usize % SLOTS)
    }

    /// Puts the timer of a place at the end of its slot.
    fn link(&mut self, place: u32) {
        let (level, slot) = self.slot_of(self.places[place as usize].due);
        let first = self.levels[level].first[slot];
        let (previous, next) = if first == NONE {
            self.levels[level].first[slot] = place;
            self.levels[level].occupied |= 1 << slot;
            self.occupied |= 1 << level;
            (place, place)
        } else {
            (self.places[first as usize].previous, first)
        };
        (self.places[place as usize].previous, self.places[place as usize].next) = (previous, next);
        self.places[previous as usize].next = place;
        self.places[next as usize].previous = place;
    }

    /// Takes the timer of a place out of its slot. The slot is that of its time, since the wheel's time has changed no digit above.
    fn unlink(&mut self, place: u32) {
        let Entry { due, previous, next, .. } = self.places[place as usize];
        let (level, slot) = self.slot_of(due);
        if next == place {
            self.empty(level, slot);
            return;
        }
        self.places[previous as usize].next = next;
        self.places[next as usize].previous = previous;
        if self.levels[level].first[slot] == place {
            self.levels[level].first[slot] = next;
        }
    }

    fn empty(&mut self, level: usize, slot: usize) {
        self.levels[level].first[slot] = NONE;
        self.levels[level].occupied &= !(1 << slot);
        if self.levels[level].occupied == 0 {
            self.occupied &= !(1 << level);
        }
    }

    fn occupy(&mut self, due: u64, value: T) -> Key {
        let number = self.next_number;
        self.next_number += 1;
        let place = Entry { due, previous: NONE, next: NONE, number, value: Some(value) };
        if self.vacant == NONE {
            let end = u32::try_from(self.places.len()).ok().filter(|end| *end != NONE);
            let end = end.expect("fewer than 2^32 - 1 timers");
            self.places.push(place);
            return Key { place: end, number };
        }
        let index = self.vacant;
        let vacant = std::mem::replace(&mut self.places[index as usize], place);
        self.vacant = vacant.next;
        Key { place: index, number }
    }

    fn vacate(&mut self, place: u32) -> T {
        let entry = &mut self.places[place as usize];
        let value = entry.value.take().expect("a place in a slot has a timer");
        entry.next = self.vacant;
        self.vacant = place;
        if self.occupied == 0 && self.places.len() > KEPT_MAX {
            self.places = Vec::new(); // a burst keeps no memory for ever
            self.vacant = NONE;
        }
        value
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    #[derive(Debug, Clone)]
    enum Step {
        Set {
            after: u64,
        },
        /// One of those that were ever set.
        Clear {
            which: prop::sample::Index,
        },
        Pass {
            time: u64,
        },
    }

    /// Of every size: within a slot, across levels, centuries.
    fn time() -> impl Strategy<Value = u64> {
        prop_oneof![4 => 0..200_u64, 2 => 0..10_000_u64, 1 => (0..50_u32, 0..64_u64).prop_map(|(bits, more)| (1 << bits) + more)]
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => time().prop_map(|after| Step::Set { after }),
            2 => any::<prop::sample::Index>().prop_map(|which| Step::Clear { which }),
            2 => time().prop_map(|time| Step::Pass { time }),
        ]
    }

    proptest! {
        #[test]
        fn it_does_what_a_sorted_map_does(steps in prop::collection::vec(step(), 1..200)) {
            let (mut wheel, mut map) = (Wheel::new(), BTreeMap::new());
            let (mut now, mut keys) = (0_u64, Vec::new());
            for step in steps {
                match step {
                    Step::Set { after } => {
                        let (due, number) = (now + after, keys.len());
                        map.insert((due, number), ());
                        keys.push((wheel.set(due, number), (due, number)));
                    }
                    Step::Clear { which } if !keys.is_empty() => {
                        let (key, named) = keys[which.index(keys.len())];
                        prop_assert_eq!(wheel.clear(key), map.remove(&named).map(|()| named.1));
                    }
                    Step::Clear { .. } => {}
                    Step::Pass { time } => {
                        now += time;
                        while let Some(taken) = wheel.take(now) {
                            let ((due, number), ()) = map.pop_first().unwrap();
                            prop_assert_eq!(taken, number);
                            prop_assert!(due <= now);
                        }
                        prop_assert!(map.first_key_value().is_none_or(|((due, _), ())| *due > now));
                    }
                }
                let first = map.first_key_value().map(|((due, _), ())| *due);
                prop_assert_eq!(wheel.next_look().is_some(), first.is_some());
                prop_assert!(wheel.next_look() <= first);
                if map.len() <= SEARCHED_MAX {
                    prop_assert_eq!(wheel.next_look(), first);
                }
            }
            prop_assert_eq!(wheel.clear_all().len(), map.len());
            prop_assert_eq!(wheel.next_look(), None);
        }
    }

    #[test]
    fn a_burst_keeps_no_memory_and_an_old_key_names_nothing() {
        let mut wheel = Wheel::new();
        let keys: Vec<Key> = (0..100_000).map(|due| wheel.set(due % 1000, due)).collect();
        while wheel.take(1000).is_some() {}
        assert_eq!(wheel.places.capacity(), 0);
        let new = wheel.set(2000, 7);
        assert!(keys.into_iter().all(|key| wheel.clear(key).is_none()));
        assert_eq!(wheel.clear(new), Some(7));
    }

    #[test]
    fn the_end_of_time_is_a_time() {
        let mut wheel = Wheel::new();
        wheel.set(u64::MAX, "last");
        wheel.set(3, "first");
        assert_eq!((wheel.take(3), wheel.take(u64::MAX - 1)), (Some("first"), None));
        assert_eq!((wheel.next_look(), wheel.take(u64::MAX)), (Some(u64::MAX), Some("last")));
    }
}
