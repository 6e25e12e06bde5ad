//! How values are stored in the database: paths, times, numbers and states.
//!
//! Room: surface.

use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use rusqlite::Row;
use rusqlite::types::{Value, ValueRef};
use sched_jobs::State;

pub(crate) fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

/// Text if it is text, so that people can read the database; bytes otherwise, so that the path still works.
pub(crate) fn path_out(path: &Path) -> Value {
    match path.to_str() {
        Some(text) => Value::Text(text.to_owned()),
        None => Value::Blob(path.as_os_str().as_bytes().to_vec()),
    }
}

pub(crate) fn path_in(value: ValueRef<'_>) -> Option<PathBuf> {
    let bytes = value.as_bytes_or_null().ok().flatten()?;
    Some(PathBuf::from(std::ffi::OsString::from_vec(bytes.to_vec())))
}

/// Our numbers are below 2^63; SQLite has no others.
pub(crate) fn unsigned(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<u64>> {
    Ok(row.get::<_, Option<i64>>(column)?.map(|number| number as u64))
}

pub(crate) fn state(row: &Row<'_>, column: usize) -> rusqlite::Result<State> {
    let name = row.get_ref(column)?.as_str()?;
    State::from_name(name).ok_or_else(|| {
        rusqlite::Error::FromSqlConversionFailure(
            column,
            rusqlite::types::Type::Text,
            format!("no state of a job is called `{name}`").into(),
        )
    })
}
