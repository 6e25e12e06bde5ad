//! Files that were torn, cut, filled with nonsense or removed.

use std::os::unix::fs::FileExt;

use crate::{Folder, bare, use_slots};

#[test]
fn a_file_torn_at_any_byte_is_repaired_by_the_runs_that_use_it() {
    let folder = Folder::new();
    let (mut one, mut other) = (bare(folder.path()), bare(folder.path()));
    use_slots(&mut one, 3);
    use_slots(&mut other, 2);
    let file = std::fs::File::options().read(true).write(true).open(folder.file()).unwrap();
    let bytes = file.metadata().unwrap().len();
    assert_eq!(bytes, 2048);
    for at in 0..bytes {
        let mut byte = [0];
        file.read_exact_at(&mut byte, at).unwrap();
        file.write_all_at(&[byte[0] ^ 0xFF], at).unwrap();
        let seen = use_slots(&mut one, 3).cpu_slots;
        assert_eq!(seen, if at < 1024 { 2 } else { 0 }, "byte {at}: whole records are believed, torn ones are not");
        assert_eq!(use_slots(&mut other, 2).cpu_slots, 3, "byte {at}");
        assert_eq!(use_slots(&mut one, 3).cpu_slots, 2, "byte {at}: repaired");
    }
}

#[test]
fn a_file_cut_at_any_byte_is_repaired_by_the_runs_that_use_it() {
    let folder = Folder::new();
    let (mut one, mut other) = (bare(folder.path()), bare(folder.path()));
    use_slots(&mut one, 3);
    use_slots(&mut other, 2);
    for at in (0..2048).rev() {
        std::fs::File::options().write(true).open(folder.file()).unwrap().set_len(at).unwrap();
        use_slots(&mut one, 3);
        assert_eq!(use_slots(&mut other, 2).cpu_slots, 3, "cut at {at}");
        assert_eq!(use_slots(&mut one, 3).cpu_slots, 2, "cut at {at}: repaired");
    }
}

#[test]
fn nonsense_of_any_length_is_passed_over() {
    let folder = Folder::new();
    for bytes in [1, 1023, 1024, 1025, 5000, 300_000] {
        std::fs::write(folder.file(), vec![0xA5; bytes]).unwrap();
        let (mut one, mut other) = (bare(folder.path()), bare(folder.path()));
        use_slots(&mut one, 3);
        assert_eq!(use_slots(&mut other, 2).cpu_slots, 3, "{bytes} bytes");
        assert_eq!(use_slots(&mut one, 3).cpu_slots, 2, "{bytes} bytes");
        let left = std::fs::metadata(folder.file()).unwrap().len();
        assert!(left <= 256 * 1024, "{left} of {bytes} bytes");
    }
}

#[test]
fn runs_find_each_other_again_when_the_file_was_removed() {
    let folder = Folder::new();
    let (mut one, mut other) = (bare(folder.path()), bare(folder.path()));
    use_slots(&mut one, 3);
    use_slots(&mut other, 2);
    std::fs::remove_file(folder.file()).unwrap();
    let mut third = bare(folder.path());
    use_slots(&mut one, 3);
    use_slots(&mut other, 2);
    assert_eq!(use_slots(&mut third, 1).cpu_slots, 5);
    assert_eq!(use_slots(&mut one, 3).cpu_slots, 3);
}

#[test]
fn while_another_process_holds_the_lock_nothing_starts_and_nothing_hangs() {
    use rustix::fs::{FlockOperation, flock};
    let folder = Folder::new();
    let mut one = bare(folder.path());
    use_slots(&mut one, 1);
    let file = std::fs::File::open(folder.file()).unwrap();
    flock(&file, FlockOperation::LockExclusive).unwrap();
    assert!(use_slots(&mut one, 1).cpu_slots > 1_000_000, "others seem to hold everything");
    flock(&file, FlockOperation::Unlock).unwrap();
    assert_eq!(use_slots(&mut one, 1).cpu_slots, 0);
}
