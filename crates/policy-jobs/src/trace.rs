//! The trace id of a part of a graph, as in logs of several programs.
//!
//! Room: values.

use alloc::string::String;
use core::fmt;
use core::str::FromStr;

/// The id of a part of a graph in logs and traces: 128 bits, as in W3C Trace Context and OpenTelemetry, written as 32 hexadecimal digits.
///
/// ```
/// use policy_jobs::TraceId;
///
/// let id: TraceId = "4bf92f3577b34da6a3ce929d0e0e4736".parse()?;
/// assert_eq!(id.to_string(), "4bf92f3577b34da6a3ce929d0e0e4736");
/// assert_eq!(TraceId::from_u128(id.as_u128()), Some(id));
/// # Ok::<(), policy_jobs::BadTraceId>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TraceId {
    // Not one number: its alignment would make every event larger.
    high: u64,
    low: u64,
}

impl TraceId {
    /// The id of jobs without a part. It is never returned to users.
    pub(crate) const NONE: TraceId = TraceId { high: 0, low: 0 };

    /// The id with that number; `None` for 0.
    pub const fn from_u128(number: u128) -> Option<Self> {
        if number == 0 { None } else { Some(Self { high: (number >> 64) as u64, low: number as u64 }) }
    }

    /// As a number, which is not 0.
    pub const fn as_u128(self) -> u128 {
        (self.high as u128) << 64 | self.low as u128
    }

    pub(crate) fn given(self) -> Option<Self> {
        Some(self).filter(|id| *id != Self::NONE)
    }
}

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}{:016x}", self.high, self.low)
    }
}

impl fmt::Debug for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TraceId({self})")
    }
}

impl FromStr for TraceId {
    type Err = BadTraceId;

    fn from_str(text: &str) -> Result<Self, BadTraceId> {
        let is_hex = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let number = is_hex.then(|| u128::from_str_radix(text, 16).ok()).flatten();
        number.and_then(Self::from_u128).ok_or_else(|| BadTraceId { text: text.chars().take(40).collect() })
    }
}

/// A text that is not a [`TraceId`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct BadTraceId {
    /// The text, cut if it is long.
    pub text: String,
}

impl fmt::Display for BadTraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is not a trace id; give 32 hexadecimal digits that are not all 0", self.text)
    }
}

impl core::error::Error for BadTraceId {}
