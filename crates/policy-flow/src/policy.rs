//! What an edge does when it is full, and which band it is in.
//!
//! Room: values.

use core::fmt;

/// What an edge does with a message when it is full.
///
/// [`Coalesce`](Policy::Coalesce) needs a function that merges two messages: `Connect::coalesce`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Policy {
    /// The producer waits, and takes no input meanwhile. Nothing is lost.
    #[default]
    Block,
    /// The new message is dropped.
    Drop,
    /// The oldest message makes room: the edge keeps the newest.
    Latest,
    /// The new message is merged into the newest in the queue.
    Coalesce,
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Policy::Block => "block",
            Policy::Drop => "drop",
            Policy::Latest => "latest",
            Policy::Coalesce => "coalesce",
        })
    }
}

/// What happened to a message that was put on an edge. For several edges of one output it is the result that comes last in this list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[must_use = "the message may be gone, or still wait for room"]
#[non_exhaustive]
pub enum PutResult {
    /// It waits in the queue.
    Ok,
    /// It became part of the newest one in the queue.
    Coalesced,
    /// It waits in the queue, in place of the oldest one, which is gone.
    Replaced,
    /// The edge is full; the message stays with the producer, which waits for room.
    Blocked,
    /// The edge was full, and the message is gone.
    Dropped,
    /// The consumer has ended, or there is none, and the message is gone.
    Closed,
}

/// The priority class of an edge. When all bands are busy they share turns, 4:2:1 by default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Band {
    /// Control messages. At most one turn of another band begins before such a message has its own, on any number of workers.
    Control,
    /// More turns than normal.
    High,
    /// Everything else.
    Normal,
}

impl Band {
    /// All of them, the highest first.
    pub const ALL: [Band; 3] = [Band::Control, Band::High, Band::Normal];

    /// From this priority on an edge is in the control band.
    pub const CONTROL_FROM: i32 = 100;
    /// From this priority on an edge is in the high band.
    pub const HIGH_FROM: i32 = 10;

    /// The band of a priority.
    ///
    /// ```
    /// use bursar::flow::Band;
    ///
    /// assert_eq!(Band::of(0), Band::Normal);
    /// assert_eq!(Band::of(10), Band::High);
    /// assert_eq!(Band::of(100), Band::Control);
    /// ```
    pub const fn of(priority: i32) -> Band {
        if priority >= Self::CONTROL_FROM {
            Band::Control
        } else if priority >= Self::HIGH_FROM {
            Band::High
        } else {
            Band::Normal
        }
    }

    /// The lowest priority of this band, or 0.
    pub const fn priority(self) -> i32 {
        match self {
            Band::Control => Self::CONTROL_FROM,
            Band::High => Self::HIGH_FROM,
            Band::Normal => 0,
        }
    }
}

impl fmt::Display for Band {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Band::Control => "control",
            Band::High => "high",
            Band::Normal => "normal",
        })
    }
}
