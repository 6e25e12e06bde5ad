//! Why a run cannot share its budget.
//!
//! Room: values.

use core::fmt;
use std::io;
use std::path::PathBuf;

use crate::NAMED_MAX;

/// Why a run cannot share its budget with others.
#[derive(Debug)]
#[non_exhaustive]
pub enum JoinError {
    /// The folder of the budget file cannot be created or opened.
    Folder {
        /// Which.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// The folder of the budget file belongs to another user.
    NotOurs {
        /// Which.
        path: PathBuf,
        /// Its owner.
        owner: u32,
        /// The current user.
        user: u32,
    },
    /// Something in the folder cannot be used.
    File {
        /// What.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// More named resources than can be shared.
    TooManyNames {
        /// How many.
        names: usize,
    },
}

impl fmt::Display for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder { path, error } => {
                write!(f, "cannot use {}: {error}; set XDG_RUNTIME_DIR to a folder of your own", path.display())
            }
            Self::NotOurs { path, owner, user } => write!(
                f,
                "{} belongs to user {owner}, not to user {user}, so it is not used; ask that user or an administrator to remove it, \
                 or set XDG_RUNTIME_DIR to a folder of your own",
                path.display()
            ),
            Self::File { path, error } => {
                write!(f, "cannot use {}: {error}; remove it, and it is created again", path.display())
            }
            Self::TooManyNames { names } => {
                write!(
                    f,
                    "{names} named resources and graphics cards, but runs share at most {NAMED_MAX}; declare fewer"
                )
            }
        }
    }
}

impl std::error::Error for JoinError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Folder { error, .. } | Self::File { error, .. } => Some(error),
            _ => None,
        }
    }
}
