//! Files that are not as they should be, and who may read those that are.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use surface_journal::{Journal, JournalError};

use crate::temp::{Temp, run_of};

#[test]
fn a_newer_journal_is_refused_and_left_alone() {
    let temp = Temp::new();
    drop(temp.journal());
    let file = temp.path().join("journal.db");
    rusqlite::Connection::open(&file).unwrap().pragma_update(None, "user_version", 99).unwrap();
    let before = fs::read(&file).unwrap();
    let error = Journal::open(temp.path()).unwrap_err();
    assert!(matches!(error, JournalError::Newer { found: 99, .. }), "{error}");
    assert!(error.to_string().contains("version 99") && error.to_string().contains("journal.db"), "{error}");
    assert_eq!(fs::read(&file).unwrap(), before);
}

#[test]
fn a_damaged_journal_is_named_and_never_deleted() {
    let temp = Temp::new();
    let journal = temp.journal();
    drop(journal.begin(run_of(2_000)).unwrap());
    drop(journal);
    let file = temp.path().join("journal.db");
    let whole = fs::read(&file).unwrap();

    // No database at all.
    fs::write(&file, b"this is a poem, not a database ".repeat(100)).unwrap();
    let error = Journal::open(temp.path()).unwrap_err();
    assert!(matches!(error, JournalError::Corrupt { .. }), "{error}");
    assert!(error.to_string().contains("Move it away"), "{error}");
    assert!(fs::read(&file).unwrap().starts_with(b"this is a poem"));

    // A hole in the middle shows when it is read.
    let mut holed = whole.clone();
    let length = holed.len();
    holed[4096..length].fill(0xa5);
    fs::write(&file, &holed).unwrap();
    let read = Journal::open(temp.path()).and_then(|journal| journal.find("latest").and_then(|id| journal.jobs(&id)));
    assert!(matches!(read, Err(JournalError::Corrupt { .. })), "{read:?}");

    // And the file itself, put back, is as good as ever.
    fs::write(&file, &whole).unwrap();
    let journal = temp.journal();
    assert_eq!(journal.jobs(&journal.find("-").unwrap()).unwrap().len(), 2_000);
}

#[test]
fn only_the_owner_may_look() {
    let temp = Temp::new();
    let journal = temp.journal();
    let run = journal.begin(run_of(1)).unwrap();
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    for folder in [temp.path(), &temp.path().join("runs"), run.folder(), run.log(0).parent().unwrap()] {
        assert_eq!(mode(folder), 0o700, "{}", folder.display());
    }
    for file in ["journal.db", "journal.db-wal", "journal.db-shm"] {
        assert_eq!(mode(&temp.path().join(file)), 0o600, "{file}");
    }
    assert_eq!(mode(&run.folder().join("lock")), 0o600);
}

#[test]
fn a_directory_that_was_there_keeps_its_mode() {
    let temp = Temp::new();
    fs::create_dir_all(temp.path()).unwrap();
    fs::set_permissions(temp.path(), fs::Permissions::from_mode(0o755)).unwrap();
    drop(temp.journal());
    assert_eq!(fs::metadata(temp.path()).unwrap().permissions().mode() & 0o777, 0o755);
}
