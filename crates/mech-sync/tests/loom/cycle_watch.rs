//! Models of `src/cycle_watch.rs`.

use super::*;

/// What the watcher sets, and what the worker sets again.
const TAKEN: u32 = 1;
const GIVEN_BACK: u32 = 2;

#[test]
fn what_is_done_to_a_cycle_is_undone_after_it() {
    check(|| {
        let watch = leak(CycleWatch::new());
        let rank = leak(Parcel::new(GIVEN_BACK));
        let watcher = thread::spawn(move || watch.catch(1, || rank.put(TAKEN)));
        watch.begin(0);
        let was_caught = watch.end();
        if was_caught {
            rank.put(GIVEN_BACK);
        }
        assert_eq!(watcher.join().unwrap(), was_caught);
        assert_eq!(rank.peek(), GIVEN_BACK);
    });
}

#[test]
fn a_later_cycle_is_not_caught() {
    check(|| {
        let watch = leak(CycleWatch::new());
        let watcher = thread::spawn(move || watch.catch(50, || {}));
        watch.begin(0);
        let first = watch.end();
        watch.begin(100);
        assert!(!watch.end(), "it was in time");
        assert_eq!(watcher.join().unwrap(), first);
    });
}
