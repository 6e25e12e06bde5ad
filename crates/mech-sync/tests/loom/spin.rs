//! Models of `src/spin.rs`.

use super::*;

#[test]
fn the_lock_excludes() {
    check(|| {
        let lock: &SpinLock<u32> = leak(SpinLock::new(0));
        let count_twice = move || {
            for _ in 0..2 {
                *lock.lock() += 1;
            }
        };
        let other = thread::spawn(count_twice);
        count_twice();
        other.join().unwrap();
        assert_eq!(*lock.lock(), 4);
    });
}
