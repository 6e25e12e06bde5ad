//! How a run ends: its outcome, with the counts of its jobs.
//!
//! Room: driver.

use rusqlite::{Connection, params};

use crate::stored::state;
use crate::{Counts, Outcome, history, outputs};

/// Records the outcome of a run.
pub(crate) fn end(db: &Connection, seq: i64, outcome: Outcome, at_ms: u64) -> rusqlite::Result<()> {
    let jobs: u32 = db.query_row("SELECT jobs FROM runs WHERE seq = ?1", [seq], |row| row.get(0))?;
    let counts = serde_json::to_string(&counts(db, seq, jobs)?).ok();
    db.execute(
        "UPDATE runs SET outcome = ?2, ended_ms = ?3, paused = 0, counts = ?4 WHERE seq = ?1",
        params![seq, outcome.name(), at_ms as i64, counts],
    )?;
    history::forget(db)?;
    outputs::forget(db)
}

/// How many jobs of a run are in each state. Jobs without a record are queued.
pub(crate) fn counts(db: &Connection, seq: i64, jobs: u32) -> rusqlite::Result<Counts> {
    let mut counts = Counts { queued: jobs, ..Counts::default() };
    let mut statement = db.prepare_cached("SELECT state, count(*) FROM latest WHERE run = ?1 GROUP BY state")?;
    let mut rows = statement.query([seq])?;
    while let Some(row) = rows.next()? {
        let many: u32 = row.get(1)?;
        counts.queued = counts.queued.saturating_sub(many);
        *counts.of_mut(state(row, 0)?) += many;
    }
    Ok(counts)
}
