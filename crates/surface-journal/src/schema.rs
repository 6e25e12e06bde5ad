//! The schema of the database, and its migrations.
//!
//! Room: driver.
//!
//! # Invariant
//! A database is at one of the versions in `STEPS`, completely: each step and its new number are one transaction. We never
//! open one of a newer version, and never one of another program.
//!
//! A step is never edited once released; a change of shape is a further step.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rusqlite::{Connection, ErrorCode, OpenFlags, TransactionBehavior};
use tempfile::TempDir;

use crate::JournalError;

/// "Burs": SQLite keeps it in the file's header, so that we know our own.
const APPLICATION: i32 = 0x4275_7273;

/// How long one process waits for another before it fails. Inserting a million jobs takes some ten seconds.
const BUSY_TIMEOUT: Duration = Duration::from_secs(30);

/// From version n to n + 1.
const STEPS: &[&str] = &[
    // 1. `jobs` is what was asked for and never changes; `latest` is the current state and is written at every move, so it is narrow.
    "CREATE TABLE runs (
        seq INTEGER PRIMARY KEY AUTOINCREMENT,
        id TEXT NOT NULL UNIQUE,
        name TEXT NOT NULL,
        file,
        cwd NOT NULL,
        pid INTEGER NOT NULL,
        pid_start INTEGER,
        boot TEXT,
        began_ms INTEGER NOT NULL,
        ended_ms INTEGER,
        outcome TEXT,
        paused INTEGER NOT NULL DEFAULT 0,
        jobs INTEGER NOT NULL,
        counts TEXT,
        synced INTEGER NOT NULL DEFAULT 0
    );
    CREATE TABLE plans (run INTEGER PRIMARY KEY, plan TEXT NOT NULL);
    CREATE TABLE jobs (
        run INTEGER NOT NULL,
        job INTEGER NOT NULL,
        name TEXT NOT NULL,
        grp TEXT NOT NULL,
        command TEXT NOT NULL,
        print INTEGER NOT NULL,
        group_print INTEGER,
        cpu_slots INTEGER NOT NULL,
        ram_mb INTEGER NOT NULL,
        vram_mb INTEGER NOT NULL,
        named TEXT,
        PRIMARY KEY (run, job)
    ) WITHOUT ROWID;
    CREATE TABLE latest (
        run INTEGER NOT NULL,
        job INTEGER NOT NULL,
        state TEXT NOT NULL,
        attempt INTEGER NOT NULL,
        ready_us INTEGER,
        started_us INTEGER,
        ended_us INTEGER,
        token TEXT,
        pid INTEGER,
        how TEXT,
        code INTEGER,
        peak_rss_kb INTEGER,
        cpu_ms INTEGER,
        wall_ms INTEGER,
        waited_ms INTEGER,
        progress REAL,
        error TEXT,
        demand TEXT,
        PRIMARY KEY (run, job)
    ) WITHOUT ROWID;
    CREATE TABLE events (
        run INTEGER NOT NULL,
        n INTEGER NOT NULL,
        job INTEGER NOT NULL,
        attempt INTEGER NOT NULL,
        state TEXT NOT NULL,
        at_ms INTEGER NOT NULL,
        offset_us INTEGER NOT NULL,
        detail TEXT,
        PRIMARY KEY (run, n)
    ) WITHOUT ROWID;
    CREATE TABLE history (
        print INTEGER PRIMARY KEY,
        at_ms INTEGER NOT NULL,
        runs INTEGER NOT NULL,
        samples BLOB NOT NULL
    );",
    // 2. Files that jobs make, and whether they are complete; the peak of video memory, beside that of main memory.
    "CREATE TABLE outputs (
        path PRIMARY KEY,
        print INTEGER NOT NULL,
        whole INTEGER NOT NULL,
        size INTEGER,
        changed_ns INTEGER,
        at_ms INTEGER NOT NULL
    ) WITHOUT ROWID;
    ALTER TABLE latest ADD COLUMN peak_vram_mb INTEGER;",
    // 3. A hash of what the job that made a file had read.
    "ALTER TABLE outputs ADD COLUMN inputs INTEGER;",
    // 4. What the system had in force for a command, in words.
    "ALTER TABLE latest ADD COLUMN in_force TEXT;",
];

/// Opens the database and brings it to the present version.
pub(crate) fn open(file: &Path) -> Result<Connection, JournalError> {
    open_with(file, STEPS)
}

/// A file that looks like that of another program may be one that another process is just creating: it is checked again for this long.
const RECHECK_TIMEOUT: Duration = Duration::from_millis(500);

fn open_with(file: &Path, steps: &[&str]) -> Result<Connection, JournalError> {
    let begun = Instant::now();
    loop {
        match try_open(file, steps) {
            Err(JournalError::Foreign { .. }) if begun.elapsed() < RECHECK_TIMEOUT => {
                std::thread::sleep(Duration::from_millis(10));
            }
            other => return other,
        }
    }
}

fn try_open(file: &Path, steps: &[&str]) -> Result<Connection, JournalError> {
    let failed = |error| JournalError::sqlite(file, error);
    let mut connection = Connection::open(file).map_err(failed)?;
    connection.busy_timeout(BUSY_TIMEOUT).map_err(failed)?;
    // Before anything is written: a file that is not ours stays as it is. In one transaction: another process may be creating the database just now, and half of
    // what it did would look like the database of another program.
    let look = connection.unchecked_transaction().map_err(failed)?;
    check_owner(&look, file, steps.len())?;
    drop(look);
    go_wal(&connection, file)?;
    // Safe against a crash of this process at once; a `Writer` syncs when it needs to.
    connection.pragma_update(None, "synchronous", "NORMAL").map_err(failed)?;
    // After a run of many jobs the log is truncated.
    connection.pragma_update(None, "journal_size_limit", 16 << 20).map_err(failed)?;
    connection.set_prepared_statement_cache_capacity(32);
    migrate(&mut connection, file, steps)?;
    Ok(connection)
}

/// Opens a database that cannot be written, as it is now.
///
/// SQLite itself writes beside a database that it reads, to know of other writers. Where it cannot, the file is read as one that
/// does not change; and if there is a log beside it that was not yet taken over, both are copied.
pub(crate) fn open_to_read(file: &Path) -> Result<(Connection, Option<TempDir>), JournalError> {
    let failed = |error| JournalError::sqlite(file, error);
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let wal = PathBuf::from(format!("{}-wal", file.display()));
    let has_log = fs::metadata(&wal).is_ok_and(|about| about.len() > 0);
    let plain = Connection::open_with_flags(file, flags).and_then(|db| {
        db.query_row("SELECT count(*) FROM sqlite_master", [], |row| row.get::<_, i64>(0))?;
        Ok(db)
    });
    let (connection, copy) = match plain {
        Ok(connection) => (connection, None),
        Err(_) if !has_log => {
            let uri = format!("file:{}?immutable=1", escaped(file));
            (Connection::open_with_flags(uri, flags).map_err(failed)?, None)
        }
        Err(_) => {
            let copy = tempfile::tempdir().map_err(JournalError::io("make", &std::env::temp_dir()))?;
            let to = copy.path().join("journal.db");
            fs::copy(file, &to).map_err(JournalError::io("read", file))?;
            fs::copy(&wal, copy.path().join("journal.db-wal")).map_err(JournalError::io("read", &wal))?;
            (Connection::open(&to).map_err(failed)?, Some(copy))
        }
    };
    connection.busy_timeout(BUSY_TIMEOUT).map_err(failed)?;
    match check_owner(&connection, file, STEPS.len())? {
        version if version == STEPS.len() => Ok((connection, copy)),
        _ => Err(JournalError::Older { file: file.to_owned() }),
    }
}

/// A path as SQLite reads it in a URI.
fn escaped(path: &Path) -> String {
    use std::fmt::Write;
    let mut text = String::new();
    for &byte in path.as_os_str().as_bytes() {
        match byte {
            b'/' | b'-' | b'_' | b'.' | b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => text.push(char::from(byte)),
            _ => write!(text, "%{byte:02X}").expect("a text takes everything"),
        }
    }
    text
}

/// Our version of the file; 0 for an empty one.
fn check_owner(connection: &Connection, file: &Path, known: usize) -> Result<usize, JournalError> {
    let failed = |error| JournalError::sqlite(file, error);
    let number = |sql| connection.query_row(sql, [], |row| row.get::<_, i64>(0)).map_err(failed);
    let version = number("PRAGMA user_version")?;
    let owner = number("PRAGMA application_id")?;
    let tables = number("SELECT count(*) FROM sqlite_master")?;
    if owner != i64::from(APPLICATION) && (owner != 0 || tables != 0 || version != 0) {
        return Err(JournalError::Foreign { file: file.to_owned() });
    }
    match usize::try_from(version) {
        Ok(version) if version <= known => Ok(version),
        _ => Err(JournalError::Newer {
            file: file.to_owned(),
            found: u32::try_from(version).unwrap_or(u32::MAX),
            known: u32::try_from(known).unwrap_or(u32::MAX),
        }),
    }
}

/// The change to WAL needs the file alone for a moment, and SQLite does not wait for that by itself.
fn go_wal(connection: &Connection, file: &Path) -> Result<(), JournalError> {
    let begun = Instant::now();
    loop {
        match connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get::<_, String>(0)) {
            Ok(_) => return Ok(()),
            Err(error)
                if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) && begun.elapsed() < BUSY_TIMEOUT =>
            {
                std::thread::sleep(Duration::from_millis(2));
            }
            Err(error) => return Err(JournalError::sqlite(file, error)),
        }
    }
}

fn migrate(connection: &mut Connection, file: &Path, steps: &[&str]) -> Result<(), JournalError> {
    let failed = |error| JournalError::sqlite(file, error);
    if check_owner(connection, file, steps.len())? == steps.len() {
        return Ok(()); // the usual case takes no lock
    }
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed)?;
    // Again, under the lock: another process may have been quicker.
    let version = check_owner(&transaction, file, steps.len())?;
    for step in &steps[version..] {
        transaction.execute_batch(step).map_err(failed)?;
    }
    transaction.pragma_update(None, "application_id", APPLICATION).map_err(failed)?;
    transaction.pragma_update(None, "user_version", steps.len() as i64).map_err(failed)?;
    transaction.commit().map_err(failed)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::open_with;
    use crate::JournalError;

    const ONE: &str = "CREATE TABLE a (x INTEGER); INSERT INTO a VALUES (7);";
    const TWO: &str = "ALTER TABLE a ADD COLUMN y INTEGER NOT NULL DEFAULT 3;";
    const BAD: &str = "INSERT INTO a VALUES (9); CREATE NONSENSE;";

    fn file(name: &str) -> PathBuf {
        let dir = std::env::temp_dir().join(format!("bursar-schema-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir_all(&dir).unwrap();
        dir.join("journal.db")
    }

    #[test]
    fn an_older_database_is_brought_forward_with_what_is_in_it() {
        let file = file("forward");
        drop(open_with(&file, &[ONE]).unwrap());
        let connection = open_with(&file, &[ONE, TWO]).unwrap();
        let row: (i64, i64) =
            connection.query_row("SELECT x, y FROM a", [], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
        assert_eq!(row, (7, 3));
        drop(connection);
        let error = open_with(&file, &[ONE]).unwrap_err();
        assert!(matches!(error, JournalError::Newer { found: 2, known: 1, .. }), "{error}");
    }

    #[test]
    fn a_step_that_fails_leaves_the_older_version_whole() {
        let file = file("fails");
        drop(open_with(&file, &[ONE]).unwrap());
        open_with(&file, &[ONE, BAD]).unwrap_err();
        let connection = open_with(&file, &[ONE]).unwrap();
        let rows: i64 = connection.query_row("SELECT count(*) FROM a", [], |row| row.get(0)).unwrap();
        assert_eq!(rows, 1, "half of a step is in the database");
    }

    #[test]
    fn a_database_of_another_program_is_left_alone() {
        let file = file("foreign");
        rusqlite::Connection::open(&file).unwrap().execute_batch("CREATE TABLE theirs (x)").unwrap();
        let before = std::fs::read(&file).unwrap();
        let error = open_with(&file, &[ONE]).unwrap_err();
        assert!(matches!(error, JournalError::Foreign { .. }), "{error}");
        assert_eq!(std::fs::read(&file).unwrap(), before);
    }
}
