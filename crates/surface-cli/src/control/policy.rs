//! What a policy service says about itself, and what it keeps of the decisions of programs.
//!
//! Room: values.
//!
//! They are sent over sockets, kept in the log and printed as JSON: fields are added, never changed.

use serde::{Deserialize, Serialize};

/// A policy service.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct PolicyLine {
    pub(crate) pid: u32,
    pub(crate) socket: String,
    pub(crate) file: String,
    /// The number of the epoch in force.
    pub(crate) epoch: u64,
    /// For how long it has been in force.
    pub(crate) age_ms: u64,
    pub(crate) default: String,
    pub(crate) profiles: usize,
    pub(crate) rules: usize,
    /// Why the file, as it is now, is not in force.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) problem: Option<String>,
    /// Programs that listen now.
    pub(crate) listeners: usize,
    /// What programs reported last, newest first.
    pub(crate) programs: Vec<ProgramLine>,
}

/// What a program reported last.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct ProgramLine {
    pub(crate) who: String,
    pub(crate) pid: u32,
    /// The epoch that it has in force.
    pub(crate) epoch: u64,
    /// Its last decision.
    pub(crate) verdict: String,
    pub(crate) reason: String,
    pub(crate) at_ms: u64,
}

/// A decision: of a program that listens, or of the service about its own file.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct PolicyRecord {
    /// Since 1970.
    pub(crate) at_ms: u64,
    /// `service`, or the name of a program.
    pub(crate) who: String,
    pub(crate) pid: u32,
    /// What came: proposal, heartbeat, garbage, disconnection, silence; of the service also file, start, stop.
    pub(crate) heard: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) number: Option<u64>,
    /// accepted, refused, alive, stale, gone.
    pub(crate) verdict: String,
    /// The epoch in force after it.
    pub(crate) in_force: u64,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) reason: String,
    #[serde(skip_serializing_if = "is_zero")]
    pub(crate) repeated: u64,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}
