//! References to jobs: by number, or by name.
//!
//! Room: values.

use alloc::boxed::Box;
use alloc::string::String;
use core::fmt;

/// A submitted job. Numbers rise in the order of submission.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct JobId(pub(crate) u32);

impl JobId {
    /// The job with that number: for workflows whose jobs need each other by number.
    #[inline]
    pub const fn from_index(index: u32) -> Self {
        Self(index)
    }

    /// The number: 0 for the first submitted job.
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.0)
    }
}

/// A job that another one needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Needed {
    /// By what `submit` returned.
    Id(JobId),
    /// By name.
    Name(Box<str>),
}

impl fmt::Display for Needed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Needed::Id(id) => id.fmt(f),
            Needed::Name(name) => f.write_str(name),
        }
    }
}

impl From<JobId> for Needed {
    #[inline]
    fn from(id: JobId) -> Self {
        Needed::Id(id)
    }
}

impl From<&JobId> for Needed {
    #[inline]
    fn from(id: &JobId) -> Self {
        Needed::Id(*id)
    }
}

impl From<&str> for Needed {
    #[inline]
    fn from(name: &str) -> Self {
        Needed::Name(name.into())
    }
}

impl From<String> for Needed {
    #[inline]
    fn from(name: String) -> Self {
        Needed::Name(name.into())
    }
}

impl From<&String> for Needed {
    #[inline]
    fn from(name: &String) -> Self {
        Needed::Name(name.as_str().into())
    }
}
