//! A pack: the messages of a flow that travel as one message of NATS.
//!
//! Room: values.
//!
//! # Format
//! `BRF1`, then in little endian: session (8 bytes), number of the first message (8), count (4), flags (1; bit 0: the stream ends after it). Then each message: kind (1), trace (8), length (4), bytes.
//! If messages of the session were lost before it, it begins with `BRF2`, and after the flags it says how many (8), and that they have lower numbers than this one (8).
//!
//! # Invariant
//! Any bytes are read, or refused: no panic, and no memory beyond theirs.

use sched_flow::{Header, Kind, TraceId};

use crate::decide::lost::Lost;

const MAGIC: &[u8; 4] = b"BRF1";
const MAGIC_LOST: &[u8; 4] = b"BRF2";
/// What a head takes besides if messages were lost before it.
pub(crate) const LOST: usize = 16;
/// The longest head.
pub(crate) const HEAD: usize = 25 + LOST;
/// What the headers of a pack take at most, which count as its bytes: two names of packs, and the names of the headers.
pub(crate) const HEADERS: usize = 192;
/// What a message takes besides its own bytes.
pub(crate) const EACH: usize = 13;

/// A message as it travels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Item {
    pub(crate) kind: Kind,
    pub(crate) trace: TraceId,
    pub(crate) bytes: Vec<u8>,
}

impl Item {
    pub(crate) fn new(header: Header, bytes: Vec<u8>) -> Self {
        Self { kind: header.kind, trace: header.trace, bytes }
    }

    /// Its bytes in a pack.
    pub(crate) fn size(&self) -> usize {
        EACH + self.bytes.len()
    }
}

/// What a pack is, without its messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) session: u64,
    pub(crate) first: u64,
    pub(crate) count: u32,
    pub(crate) ends: bool,
    pub(crate) lost: Lost,
}

impl Head {
    /// Its bytes.
    pub(crate) fn size(&self) -> usize {
        if self.lost.messages > 0 { HEAD } else { HEAD - LOST }
    }
}

/// The bytes of a pack.
pub(crate) fn write(head: Head, items: &[Item]) -> Vec<u8> {
    debug_assert_eq!(head.count as usize, items.len());
    let mut bytes = Vec::with_capacity(head.size() + items.iter().map(Item::size).sum::<usize>());
    bytes.extend_from_slice(if head.lost.messages > 0 { MAGIC_LOST } else { MAGIC });
    bytes.extend_from_slice(&head.session.to_le_bytes());
    bytes.extend_from_slice(&head.first.to_le_bytes());
    bytes.extend_from_slice(&head.count.to_le_bytes());
    bytes.push(u8::from(head.ends));
    if head.lost.messages > 0 {
        bytes.extend_from_slice(&head.lost.messages.to_le_bytes());
        bytes.extend_from_slice(&head.lost.before.to_le_bytes());
    }
    for item in items {
        bytes.push(match item.kind {
            Kind::Control => 1,
            Kind::Error => 2,
            _ => 0,
        });
        bytes.extend_from_slice(&item.trace.0.to_le_bytes());
        // A message is smaller than what the broker takes, which is far below 4 GiB.
        bytes.extend_from_slice(&u32::try_from(item.bytes.len()).unwrap_or(u32::MAX).to_le_bytes());
        bytes.extend_from_slice(&item.bytes);
    }
    bytes
}

/// The same messages, after so many were lost.
pub(crate) fn after(bytes: &[u8], lost: Lost) -> Vec<u8> {
    let Some((head, items)) = read(bytes) else { return bytes.to_vec() }; // we wrote it
    write(Head { lost, ..head }, &items)
}

/// The same messages in packs of `limit` bytes at most, but for messages that are larger alone.
pub(crate) fn split(bytes: &[u8], limit: usize) -> Vec<(Head, Vec<u8>)> {
    let Some((head, items)) = read(bytes) else { return Vec::new() }; // we wrote it
    if bytes.len() <= limit || items.len() < 2 {
        return vec![(head, bytes.to_vec())];
    }
    let (mut packs, mut first, mut begin, mut size) = (Vec::new(), head.first, 0, HEAD);
    let mut push = |items: &[Item]| {
        let head = Head { first, count: items.len() as u32, ..head };
        first += items.len() as u64;
        packs.push((head, write(head, items)));
    };
    for (at, item) in items.iter().enumerate() {
        if at > begin && size + item.size() > limit {
            push(&items[begin..at]);
            (begin, size) = (at, HEAD);
        }
        size += item.size();
    }
    push(&items[begin..]);
    packs
}

/// Reads a pack. None if these are not the bytes of one.
pub(crate) fn read(bytes: &[u8]) -> Option<(Head, Vec<Item>)> {
    let (magic, mut rest) = bytes.split_first_chunk::<4>()?;
    if ![MAGIC, MAGIC_LOST].contains(&magic) {
        return None;
    }
    let mut head = Head {
        session: u64::from_le_bytes(take(&mut rest)?),
        first: u64::from_le_bytes(take(&mut rest)?),
        count: u32::from_le_bytes(take(&mut rest)?),
        ends: take::<1>(&mut rest)? == [1],
        lost: Lost::default(),
    };
    if magic == MAGIC_LOST {
        let messages = u64::from_le_bytes(take(&mut rest)?);
        head.lost = Lost { messages, before: u64::from_le_bytes(take(&mut rest)?) };
        // No more can be lost than have lower numbers.
        if messages == 0 || messages >= head.lost.before || head.lost.before > head.first {
            return None;
        }
    }
    head.first.checked_add(u64::from(head.count))?;
    // A count may lie; the bytes do not.
    let mut items = Vec::with_capacity((head.count as usize).min(rest.len() / EACH));
    for _ in 0..head.count {
        let kind = match take::<1>(&mut rest)? {
            [0] => Kind::Data,
            [1] => Kind::Control,
            [2] => Kind::Error,
            _ => return None,
        };
        let trace = TraceId(u64::from_le_bytes(take(&mut rest)?));
        let length = u32::from_le_bytes(take(&mut rest)?) as usize;
        let (bytes, after) = rest.split_at_checked(length)?;
        rest = after;
        items.push(Item { kind, trace, bytes: bytes.to_vec() });
    }
    rest.is_empty().then_some((head, items))
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, after) = rest.split_first_chunk::<N>()?;
    *rest = after;
    Some(*taken)
}

/// The name of a pack, by which the broker knows duplicates (`Nats-Msg-Id`).
pub(crate) fn name(session: u64, first: u64) -> String {
    format!("{session:016x}.{first}")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_pack_is_read_as_it_was_written(
            session: u64, first in 0..u64::MAX / 2, ends: bool, lost in 0..3_u64,
            payloads in proptest::collection::vec((0..3_u8, any::<u64>(), proptest::collection::vec(any::<u8>(), 0..40)), 0..20)
        ) {
            let kind = |kind| [Kind::Data, Kind::Control, Kind::Error][usize::from(kind)];
            let items: Vec<Item> = payloads.into_iter().map(|(k, trace, bytes)| Item { kind: kind(k), trace: TraceId(trace), bytes }).collect();
            let lost = if lost > 0 && first > lost { Lost { messages: lost, before: first } } else { Lost::default() };
            let head = Head { session, first, count: items.len() as u32, ends, lost };
            let bytes = write(head, &items);
            prop_assert_eq!(bytes.len(), head.size() + items.iter().map(Item::size).sum::<usize>());
            prop_assert_eq!(read(&bytes), Some((head, items)));
            prop_assert_eq!(read(&after(&bytes, Lost::default())).map(|(head, _)| head), Some(Head { lost: Lost::default(), ..head }));
            for cut in 0..bytes.len() {
                prop_assert_eq!(read(&bytes[..cut]), None);
            }
        }

        #[test]
        fn what_is_split_has_the_same_messages_in_order(
            first in 1..u64::MAX / 2, limit in 0..400_usize,
            payloads in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..60), 1..20)
        ) {
            let items: Vec<Item> = payloads.into_iter().map(|bytes| Item { kind: Kind::Data, trace: TraceId(1), bytes }).collect();
            let head = Head { session: 3, first, count: items.len() as u32, ends: false, lost: Lost::default() };
            let (mut next, mut all) = (first, Vec::new());
            for (part, bytes) in split(&write(head, &items), limit) {
                let (read, items) = read(&bytes).unwrap();
                prop_assert_eq!(read, part);
                prop_assert_eq!((read.session, read.first), (3, next));
                prop_assert!(bytes.len() <= limit || items.len() == 1);
                next += items.len() as u64;
                all.extend(items);
            }
            prop_assert_eq!(all, items);
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = read(&bytes);
            let _ = read(&[&MAGIC[..], &bytes].concat());
            let _ = read(&[&MAGIC_LOST[..], &bytes].concat());
        }
    }
}
