//! More runs than there are slots.

use surface_neighbours::{RUNS_MAX, join};

use crate::{Folder, bare, settings, use_slots};

#[test]
fn one_run_too_many_starts_nothing_until_another_ends() {
    let folder = Folder::new();
    // A process may have 1,024 files open, so one run stands for all the others: its record under many names.
    let mut first = bare(folder.path());
    use_slots(&mut first, 1);
    let record = std::fs::read(folder.file()).unwrap();
    assert_eq!(record.len(), 1024);
    let mut all = record.clone();
    for id in 1..RUNS_MAX as u64 {
        all.extend(renamed(&record, id));
    }
    std::fs::write(folder.file(), &all).unwrap();
    let mut late = bare(folder.path());
    assert!(use_slots(&mut late, 0).cpu_slots > 1_000_000, "there is no slot for it");
    assert_eq!(std::fs::read(folder.file()).unwrap(), all, "and it changed nothing");
    drop(first);
    assert_eq!(use_slots(&mut late, 0).cpu_slots, RUNS_MAX as u64 - 1);
}

/// The same record with another id.
fn renamed(record: &[u8], id: u64) -> Vec<u8> {
    let mut words: Vec<u64> =
        record.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().expect("eight bytes"))).collect();
    words[2] = id;
    let sum = words.iter().enumerate().filter(|(at, _)| *at != 1).fold(0x9E37_79B9_7F4A_7C15, |sum: u64, (_, word)| {
        let mixed = (sum ^ word).wrapping_mul(0x9FB2_1C65_1E98_DF25);
        mixed ^ (mixed >> 29)
    });
    words[1] = sum;
    words.into_iter().flat_map(u64::to_le_bytes).collect()
}

#[test]
fn of_runs_that_join_at_once_none_removes_the_socket_of_another() {
    let folder = Folder::new();
    let start = std::sync::Barrier::new(4);
    for round in 0..100 {
        let joined: Vec<_> = std::thread::scope(|s| {
            let joining: Vec<_> = (0..4)
                .map(|_| {
                    s.spawn(|| {
                        start.wait();
                        join(settings(folder.path(), 4)).unwrap()
                    })
                })
                .collect();
            joining.into_iter().map(|joining| joining.join().unwrap()).collect()
        });
        let names = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name());
        let sockets = names.filter(|name| name.to_string_lossy().starts_with("notify-")).count();
        assert_eq!(sockets, joined.len(), "round {round}: a run without a socket is never notified");
    }
}
