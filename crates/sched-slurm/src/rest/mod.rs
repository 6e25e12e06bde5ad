//! The JSON of slurmrestd.
//!
//! Room: surface.
//!
//! Pure: it makes text of what is asked, and rows of what is answered; `drive/rest.rs` carries both.
//!
//! - `submission.rs`: a submission; `options.rs`: further options of `sbatch` in it; `list.rs`: an answer that is a list; `jobs.rs`: jobs in it; `answers.rs`: other
//!   answers.

pub mod answers;
pub mod jobs;
pub mod list;
pub mod options;
pub mod submission;

/// The versions of its OpenAPI plugin whose JSON this is, the newest first. Later ones have other types for the same names.
pub const VERSIONS: [&str; 3] = ["v0.0.38", "v0.0.37", "v0.0.36"];
