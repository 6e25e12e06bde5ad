use std::{fs::File, hint::black_box};

use test_support::{alone, proc_count, resident_bytes};

#[test]
fn memory_files_and_threads_of_this_process_are_counted() {
    if !alone("memory::memory_files_and_threads_of_this_process_are_counted") {
        return; // other tests would count, too
    }
    let before = resident_bytes();
    let touched = black_box(vec![1_u8; 64 << 20]);
    let grown = resident_bytes().saturating_sub(before);
    assert!((60 << 20..80 << 20).contains(&grown), "{grown} bytes for {}", touched.len());
    let files = proc_count("fd");
    let _file = File::open("/proc/self/status").unwrap();
    assert_eq!(proc_count("fd"), files + 1);
    assert!(proc_count("task") >= 1 && proc_count("maps") > 5);
}
