//! What an event changes in the database.
//!
//! Room: driver.
//!
//! # Invariant
//! `events` only grows. `latest` is what the newest event of each job says, plus what earlier ones of the same attempt said and
//! it does not. Both change in one transaction, so a listing need not read the events.

use rusqlite::{Connection, OptionalExtension, params};
use sched_jobs::State;

use crate::history::{Sample, learn};
use crate::stored::now_ms;
use crate::{Event, Moved, outputs};

/// Applies one event as number `n + 1`.
pub(super) fn event(db: &Connection, seq: i64, n: &mut i64, event: &Event) -> rusqlite::Result<()> {
    match event {
        Event::Moved(moved) => {
            *n += 1;
            append(db, seq, *n, moved)?;
            update_latest(db, seq, moved)?;
            if moved.state == State::Succeeded {
                remember(db, seq, moved)?;
            }
        }
        Event::Progressed { job, fraction } => {
            // Before its first move a job has no row, and no progress either.
            db.prepare_cached("UPDATE latest SET progress = ?3 WHERE run = ?1 AND job = ?2")?.execute(params![
                seq,
                job,
                fraction.clamp(0.0, 1.0)
            ])?;
        }
        Event::InForce { job, words } => {
            db.prepare_cached("UPDATE latest SET in_force = ?3 WHERE run = ?1 AND job = ?2")?
                .execute(params![seq, job, words])?;
        }
        Event::Outputs(made) => outputs::mark(db, made, now_ms() as i64)?,
        Event::RunPaused(paused) => {
            db.prepare_cached("UPDATE runs SET paused = ?2 WHERE seq = ?1")?.execute(params![seq, paused])?;
        }
    }
    Ok(())
}

fn append(db: &Connection, seq: i64, n: i64, moved: &Moved) -> rusqlite::Result<()> {
    let detail = serde_json::to_string(&moved.detail).ok().filter(|text| text != "{}");
    db.prepare_cached(
        "INSERT INTO events (run, n, job, attempt, state, at_ms, offset_us, detail)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
    )?
    .execute(params![
        seq,
        n,
        moved.job,
        moved.attempt,
        moved.state.name(),
        moved.at_ms.unwrap_or(0) as i64,
        moved.offset_us.unwrap_or(0) as i64,
        detail,
    ])?;
    Ok(())
}

/// In the update, a bare name is the old value. Within an attempt the new value wins where there is one; of times of
/// readiness and start the first stays. Another attempt starts empty.
const UPDATE_LATEST: &str = "
    INSERT INTO latest (run, job, state, attempt, ready_us, started_us, ended_us, token, pid, how, code,
                        peak_rss_kb, cpu_ms, wall_ms, waited_ms, error, demand, peak_vram_mb, in_force)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19)
    ON CONFLICT (run, job) DO UPDATE SET
        state = excluded.state,
        attempt = excluded.attempt,
        ready_us = CASE WHEN attempt = ?4 THEN coalesce(ready_us, ?5) ELSE ?5 END,
        started_us = CASE WHEN attempt = ?4 THEN coalesce(started_us, ?6) ELSE ?6 END,
        ended_us = ?7,
        token = CASE WHEN attempt = ?4 THEN coalesce(?8, token) ELSE ?8 END,
        pid = CASE WHEN attempt = ?4 THEN coalesce(?9, pid) ELSE ?9 END,
        how = CASE WHEN attempt = ?4 THEN coalesce(?10, how) ELSE ?10 END,
        code = CASE WHEN attempt = ?4 THEN coalesce(?11, code) ELSE ?11 END,
        peak_rss_kb = CASE WHEN attempt = ?4 THEN coalesce(?12, peak_rss_kb) ELSE ?12 END,
        cpu_ms = CASE WHEN attempt = ?4 THEN coalesce(?13, cpu_ms) ELSE ?13 END,
        wall_ms = CASE WHEN attempt = ?4 THEN coalesce(?14, wall_ms) ELSE ?14 END,
        waited_ms = CASE WHEN attempt = ?4 THEN coalesce(?15, waited_ms) ELSE ?15 END,
        progress = CASE WHEN attempt = ?4 THEN progress END,
        error = CASE WHEN attempt = ?4 THEN coalesce(?16, error) ELSE ?16 END,
        demand = CASE WHEN attempt = ?4 THEN coalesce(?17, demand) ELSE ?17 END,
        peak_vram_mb = CASE WHEN attempt = ?4 THEN coalesce(?18, peak_vram_mb) ELSE ?18 END,
        in_force = CASE WHEN attempt = ?4 THEN coalesce(?19, in_force) ELSE ?19 END";

fn update_latest(db: &Connection, seq: i64, moved: &Moved) -> rusqlite::Result<()> {
    let offset = moved.offset_us.unwrap_or(0) as i64;
    let detail = &moved.detail;
    let number = |value: Option<u64>| value.map(|value| value as i64);
    db.prepare_cached(UPDATE_LATEST)?.execute(params![
        seq,
        moved.job,
        moved.state.name(),
        moved.attempt,
        (moved.state == State::Ready).then_some(offset),
        (moved.state == State::Running).then_some(offset),
        moved.state.is_terminal().then_some(offset),
        detail.token,
        detail.pid,
        detail.how,
        detail.code,
        number(detail.peak_rss_kb),
        number(detail.cpu_ms),
        number(detail.wall_ms),
        number(detail.waited_ms),
        detail.error,
        detail.demand.as_ref().and_then(|demand| serde_json::to_string(demand).ok()),
        number(detail.peak_vram_mb),
        detail.in_force,
    ])?;
    Ok(())
}

/// A success without figures (a job that was up to date) is no sample.
fn remember(db: &Connection, seq: i64, moved: &Moved) -> rusqlite::Result<()> {
    let Some(wall_ms) = moved.detail.wall_ms else { return Ok(()) };
    let sample = Sample {
        peak_rss_kb: moved.detail.peak_rss_kb.unwrap_or(0),
        wall_ms,
        cpu_ms: moved.detail.cpu_ms.unwrap_or(0),
    };
    let prints: Option<(i64, Option<i64>)> = db
        .prepare_cached("SELECT print, group_print FROM jobs WHERE run = ?1 AND job = ?2")?
        .query_row(params![seq, moved.job], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let Some((print, group)) = prints else { return Ok(()) };
    let at_ms = moved.at_ms.unwrap_or(0) as i64;
    // 0 is "no fingerprint": the caller does not want it remembered.
    if print != 0 {
        learn(db, print, at_ms, sample)?;
    }
    if let Some(group) = group {
        learn(db, group, at_ms, sample)?;
    }
    Ok(())
}
