//! Models of `src/counts.rs`.

use super::*;

/// A gate inside another, and the line of one worker behind both.
struct Tree {
    counts: Counts,
    inner: Gates,
    outer: Gates,
    line: Line<u32>,
}

impl Tree {
    fn new() -> &'static Self {
        leak(Self { counts: Counts::new(1), inner: Gates::new(1), outer: Gates::new(1), line: Line::default() })
    }

    fn gates(&self) -> impl Iterator<Item = &Gates> + Clone {
        [&self.inner, &self.outer].into_iter()
    }

    fn push(&self, item: u32) {
        self.counts.push(0, self.gates(), &self.line, item);
    }

    fn pop(&self) -> Option<u32> {
        let item = self.line.pop_oldest()?;
        self.counts.taken(0, self.gates(), 1);
        Some(item)
    }

    fn close_inner(&self) {
        self.inner.close(&self.counts, [&self.outer].into_iter());
    }

    fn open_inner(&self) {
        let _ = self.inner.open(&self.counts, [&self.outer].into_iter());
    }

    fn close_outer(&self) {
        self.outer.close(&self.counts, [].into_iter());
    }

    fn open_outer(&self) {
        let _ = self.outer.open(&self.counts, [].into_iter());
    }
}

#[test]
fn what_is_behind_no_closed_gate_is_counted_exactly() {
    let closings: [fn(&Tree); 2] = [Tree::close_inner, Tree::close_outer];
    let openings: [fn(&Tree); 2] = [Tree::open_inner, Tree::open_outer];
    for (close, open) in closings.into_iter().zip(openings) {
        check(move || {
            let tree = Tree::new();
            tree.push(1);
            let pusher = thread::spawn(move || {
                tree.push(2);
                tree.pop()
            });
            close(tree);
            let behind = pusher.join().unwrap();
            assert_eq!((behind, tree.counts.of(0)), (Some(1), 0), "the gate is closed");
            let popper = thread::spawn(move || tree.pop());
            open(tree);
            assert_eq!((popper.join().unwrap(), tree.counts.of(0)), (Some(2), 0), "all were taken");
        });
    }
}

#[test]
fn gates_inside_each_other_close_and_open_in_any_order() {
    check(|| {
        let tree = Tree::new();
        tree.push(1);
        let other = thread::spawn(move || {
            tree.close_outer();
            tree.open_outer();
        });
        tree.close_inner();
        tree.open_inner();
        other.join().unwrap();
        assert_eq!(tree.counts.of(0), 1);
        assert_eq!((tree.pop(), tree.counts.of(0)), (Some(1), 0));
    });
}

#[test]
fn an_item_that_is_counted_is_taken_once() {
    check(|| {
        let tree = Tree::new();
        let thief = thread::spawn(move || tree.pop());
        tree.push(1);
        let taken = tree.pop();
        assert_ne!(taken.is_some(), thief.join().unwrap().is_some());
        assert_eq!(tree.counts.of(0), 0);
    });
}

/// The line of a worker that does not look; another sleeps, and looks only at the count.
#[test]
fn a_counted_item_wakes_a_worker() {
    check(|| {
        let (idle, inbox, tree) = (leak(Idle::new()), leak(Inbox::for_thread()), Tree::new());
        let worker = thread::spawn(move || {
            loop {
                if let Some(item) = tree.pop() {
                    return item;
                }
                idle.fall_asleep(inbox, false, true);
                if tree.counts.any(|worker| worker == 0) {
                    thread::yield_now(); // it is counted, and about to be pushed
                } else {
                    inbox.sleep(None);
                }
                if idle.stay_awake(inbox) {
                    idle.end_search(|| true);
                }
            }
        });
        tree.push(5);
        idle.published();
        assert_eq!(worker.join().unwrap(), 5);
    });
}
