//! No room: the writer says so, and promises nothing any more.

use std::path::Path;
use std::process::Command;
use std::sync::mpsc;

use surface_journal::{Detail, Journal, JournalError, Moved, Options, Outcome, State, Status};

use crate::temp::{Temp, run_of};

/// Writes until it fails; then looks what is there.
fn fill(journal: &Journal, options: Options) {
    let run = journal.begin(run_of(10)).unwrap();
    let writer = journal.writer_with(&run, options).unwrap();
    let (report, told) = mpsc::channel();
    let tell_again = report.clone();
    writer.on_error(move |error| report.send(error).unwrap());
    let mut promised = 0;
    let error = loop {
        let detail = Detail { error: Some("x".repeat(3_000)), ..Detail::default() };
        let number = writer.record(Moved::new(number_of(promised), 1, State::Failed).with(detail));
        match writer.flush() {
            Ok(()) => promised = number,
            Err(error) => break error,
        }
        assert!(promised < 5_000, "the disk never got full");
    };
    assert!(matches!(error, JournalError::Full { .. }), "{error}");
    assert!(matches!(told.recv().unwrap(), JournalError::Full { .. }));
    writer.on_error(move |error| tell_again.send(error).unwrap());
    assert!(matches!(told.try_recv(), Ok(JournalError::Full { .. })), "one that comes late is told at once");
    assert!(promised > 0);
    assert_eq!(writer.flushed(), promised, "the failed event counts as durable");
    // It stays so, whatever comes: the events after a lost one must not look safe.
    for _ in 0..300 {
        writer.record(Moved::new(0, 2, State::Ready));
    }
    assert!(matches!(writer.flush(), Err(JournalError::Full { .. })));
    assert!(matches!(writer.commit(), Err(JournalError::Full { .. })));
    assert!(matches!(writer.error(), Some(JournalError::Full { .. })));
    assert_eq!(writer.flushed(), promised);
    assert!(matches!(writer.finish(Outcome::Succeeded), Err(JournalError::Full { .. })));
    assert_eq!(journal.events(run.id()).unwrap().len() as u64, promised);
    assert!(!matches!(journal.run(run.id()).unwrap().status, Status::Succeeded));
}

fn number_of(promised: u64) -> u32 {
    u32::try_from(promised % 10).unwrap()
}

#[test]
fn a_full_disk_is_never_called_durable() {
    let temp = Temp::new();
    let mut options = Options::default();
    options.database_bytes_max = Some(1 << 20);
    fill(&temp.journal(), options);
}

/// A real one, where the system lets us mount it.
#[test]
fn a_full_tmpfs_is_never_called_durable() {
    struct Mounted<'a>(&'a Path);
    impl Drop for Mounted<'_> {
        fn drop(&mut self) {
            let _ = Command::new("umount").arg("-l").arg(self.0).status();
        }
    }
    let temp = Temp::new();
    std::fs::create_dir_all(temp.path()).unwrap();
    let mount = Command::new("mount").args(["-t", "tmpfs", "-o", "size=2m", "none"]).arg(temp.path()).output();
    if !mount.is_ok_and(|output| output.status.success()) {
        eprintln!("SKIPPED: no right to mount a tmpfs here; `a_full_disk_is_never_called_durable` stands in for it");
        return;
    }
    let mounted = Mounted(temp.path());
    fill(&temp.journal(), Options::default());
    drop(mounted);
}

#[test]
fn a_caller_that_waits_for_room_is_released_when_the_writer_fails() {
    let temp = Temp::new();
    let journal = temp.journal();
    let run = journal.begin(run_of(1)).unwrap();
    let mut options = Options::default();
    options.database_bytes_max = Some(1 << 20);
    options.queue_events = 4;
    let writer = journal.writer_with(&run, options).unwrap();
    let detail = Detail { error: Some("x".repeat(4_000)), ..Detail::default() };
    // Far more than there is room for, in the queue and in the file: this loop ends only if no caller waits for ever.
    for _ in 0..2_000 {
        writer.record(Moved::new(0, 1, State::Failed).with(detail.clone()));
    }
    assert!(matches!(writer.flush(), Err(JournalError::Full { .. })));
}
