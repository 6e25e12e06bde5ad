//! Memory of an island: there beforehand, and given back.
//!
//! Room: values.
//!
//! # Invariant
//! All of it is there when the island is admitted; what buffers hold together is at most that.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use mech_cpu::{Arena, Locked, NoRoom};

use crate::error::IslandError;

/// The memory of an island.
#[derive(Debug)]
pub(crate) struct Memory(Arc<Arena>);

impl Memory {
    /// So many bytes, in whole pages.
    pub(crate) fn new(island: &str, bytes: u64) -> Result<Self, IslandError> {
        let refused = |error: std::io::Error| IslandError::System {
            island: island.to_owned(),
            what: "memory",
            error: error.to_string(),
        };
        Arena::new(bytes).map(Self).map_err(refused)
    }

    pub(crate) fn buffer<T: Copy + Default>(&self, island: &str, len: usize) -> Result<Buffer<T>, IslandError> {
        let island = || island.to_owned();
        Locked::new(&self.0, len).map(Buffer).map_err(|refused| match refused {
            NoRoom::Bytes { wanted, free } => {
                IslandError::NoMemory { island: island(), wanted: wanted as u64, left: free as u64 }
            }
            NoRoom::Alignment { wanted, page } => IslandError::System {
                island: island(),
                what: "memory",
                error: format!("values aligned to {wanted} bytes do not fit into pages of {page}"),
            },
        })
    }
}

/// Values in memory that was touched beforehand, and is locked where the system permits: to use them causes no page fault.
/// Made by [`AdmittedIsland::buffer`](crate::AdmittedIsland::buffer).
pub struct Buffer<T>(Locked<T>);

impl<T> Buffer<T> {
    /// Whether the system keeps it in memory. If not (`ulimit -l`), it was only touched.
    pub fn is_locked(&self) -> bool {
        self.0.is_locked()
    }
}

impl<T> Deref for Buffer<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.0
    }
}

impl<T> DerefMut for Buffer<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.0
    }
}

impl<T: fmt::Debug> fmt::Debug for Buffer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
