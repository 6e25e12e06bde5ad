//! What texts of Slurm mean for a call that failed. Commands print them, and slurmrestd quotes them.
//!
//! Room: surface.
//!
//! # Invariant
//! A text that may pass, or that does not say whether the call was done, is never read as a refusal: what is refused has failed for good.

use super::cluster::CallError;

/// Texts that mean: not now, or not known. A token that has expired, or munge while it restarts, says nothing about the job.
const UNANSWERED: [&str; 9] = [
    "Unable to contact",
    "Socket timed out",
    "Zero Bytes were transmitted",
    "Connection refused",
    "connect failure",
    "Communication connection failure",
    "backup controller",
    "Slurm controller",
    "authentication error",
];

/// Texts that mean: there is no room in the queue.
const FULL: [&str; 5] = [
    "temporarily un", // unable, unavailable
    "sleeping and retrying",
    "submit limit",
    "SubmitJobLimit",
    "MaxSubmit",
];

/// Whether a text says that there is no room in the queue.
pub(super) fn is_full(text: &str) -> bool {
    FULL.iter().any(|known| text.contains(known))
}

/// What a failed call means whose whole text is `text`, and `why` the part for people.
pub(super) fn error_of(text: &str, why: String) -> CallError {
    if is_full(text) {
        CallError::Full(why)
    } else if UNANSWERED.iter().any(|known| text.contains(known)) {
        CallError::Unanswered(why)
    } else {
        CallError::Refused(why)
    }
}
