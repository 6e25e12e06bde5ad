//! Every interleaving of threads that use capabilities and threads that revoke them, as far as two preemptions go.
//!
//! ```text
//! RUSTFLAGS="--cfg loom" cargo test --release -p policy-admission --test loom
//! ```
//!
//! Each model is a sentence that `src/node.rs` or `src/arena.rs` claims in its header; it uses what users use. That a model can fail at all
//! is shown by `tests/planted.rs`, which breaks the code on purpose.
//!
//! What the models note down is relaxed: nothing orders it but what they are about. What they count is RMWs, which loom gives the newest value.
#![cfg(loom)]

use std::sync::Arc;

use loom::{
    sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::*},
    thread,
};
use policy_admission::{Cap, CapError, CapExecutor, CapSpawn, Delegation, Grant, Lease, Ledger, TaskPermits};

/// Checks `model` under every schedule with few preemptions: two, unless `LOOM_MAX_PREEMPTIONS` says otherwise.
fn check(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound.get_or_insert(2);
    builder.check(model);
}

/// A root, and below it one for each of `limits`.
fn tree<const LEAVES: usize>(root: u64, limits: [u64; LEAVES]) -> (Cap<CapSpawn>, [Cap<CapSpawn>; LEAVES]) {
    let terms = |max| Grant::new(CapSpawn::new().max_tasks(max)).delegation(Delegation::Allowed);
    let root = Ledger::with_audit(4).grant(terms(root));
    let leaves = limits.map(|max| root.attenuate(terms(max)).unwrap());
    (root, leaves)
}

#[test]
fn no_limit_is_exceeded_by_takers_at_once() {
    // Two or three leaves that could each take all that the root has, and two users of one leaf.
    for (root, users) in [(2, vec![(0, 2), (1, 2)]), (1, vec![(0, 1), (1, 1), (1, 1)]), (3, vec![(0, 2), (0, 2)])] {
        check(move || {
            let (cap, leaves) = tree(root, [2, 2]);
            let held = Arc::new(AtomicU64::new(0));
            let users: Vec<_> = users
                .iter()
                .map(|&(leaf, want)| {
                    let (lease, held) = (leaves[leaf].lease(), held.clone());
                    let most = root.min(if users.iter().all(|user| user.0 == leaf) { 2 } else { root });
                    thread::spawn(move || match lease.take_tasks(want) {
                        Ok(permits) => {
                            let out = held.fetch_add(permits.count(), Relaxed) + permits.count();
                            assert!(out <= most, "{out} are held of {most}");
                            held.fetch_sub(permits.count(), Relaxed);
                        }
                        Err(CapError::TaskLimitExceeded { limit, in_use }) => assert_eq!(limit, in_use),
                        Err(other) => panic!("{other}"),
                    })
                })
                .collect();
            users.into_iter().for_each(|user| user.join().unwrap());
            let left = [&cap, &leaves[0], &leaves[1]].map(Cap::tasks_in_use);
            assert_eq!(left, [0; 3], "something did not come back");
        });
    }
}

#[test]
fn each_counter_has_exactly_what_was_answered() {
    check(|| {
        let (root, leaves) = tree(3, [2, 2]);
        let [one, other] = leaves.each_ref().map(|leaf| {
            let lease = leaf.lease();
            thread::spawn(move || {
                let permits = lease.take_tasks(2).ok();
                // No other thread counts on this leaf.
                assert_eq!(lease.tasks_in_use(), permits.as_ref().map_or(0, TaskPermits::count));
                permits
            })
        });
        let granted = [one.join().unwrap(), other.join().unwrap()];
        let sum: u64 = granted.iter().flatten().map(TaskPermits::count).sum();
        assert_eq!((sum, root.tasks_in_use()), (3, 3), "what one did not get, the other did");
        drop(granted);
        assert_eq!([&root, &leaves[0], &leaves[1]].map(Cap::tasks_in_use), [0; 3]);
    });
    // All or nothing: a taker that gets a part gives it back.
    check(|| {
        let root = Ledger::with_audit(4).grant(CapExecutor::new().max_workers(3));
        let leaves = [(); 2].map(|()| root.attenuate(CapExecutor::new().max_workers(2)).unwrap());
        let [one, other] = leaves.each_ref().map(|leaf| {
            let lease: Lease<CapExecutor> = leaf.lease();
            thread::spawn(move || {
                let permit = lease.open_executor(2, 0).ok();
                assert_eq!(lease.threads_in_use().0, if permit.is_some() { 2 } else { 0 });
                permit
            })
        });
        let granted = [one.join().unwrap(), other.join().unwrap()];
        let open = granted.iter().flatten().count() as u64;
        assert!(open <= 1);
        assert_eq!(root.lease().threads_in_use().0, 2 * open);
        drop(granted);
        assert_eq!(root.lease().threads_in_use(), (0, 0));
    });
}

#[test]
fn what_is_taken_again_is_used_no_more() {
    // One permit, so its holder is alone.
    check(|| {
        let (root, leaves) = tree(1, [1]);
        let uses = Arc::new(AtomicU32::new(0));
        let users = [leaves[0].lease(), root.lease()].map(|lease| {
            let uses = uses.clone();
            thread::spawn(move || {
                if let Ok(permits) = lease.take_tasks(1) {
                    assert_eq!(uses.load(Relaxed) % 2, 0, "what was given back is still used");
                    uses.store(1, Relaxed);
                    uses.store(2, Relaxed);
                    drop(permits);
                }
            })
        });
        users.into_iter().for_each(|user| user.join().unwrap());
        assert_eq!(root.tasks_in_use(), 0);
    });
}

#[test]
fn nothing_is_granted_after_a_revocation_is_seen() {
    check(|| {
        let (root, [leaf]) = tree(2, [2]);
        let (told, reason) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)));
        let user = {
            let (lease, told, reason) = (leaf.lease(), told.clone(), reason.clone());
            thread::spawn(move || {
                let too_late = told.load(Acquire);
                let first = lease.take_tasks(1);
                assert!(!(too_late && first.is_ok()), "granted after the revocation was known");
                if first.is_err() {
                    assert_eq!(reason.load(Relaxed), 1, "a refused taker does not see why");
                }
                let second = lease.take_tasks(1);
                assert!(first.is_ok() || second.is_err(), "granted after it was refused");
                for refusal in [&first, &second].into_iter().filter_map(|taken| taken.as_ref().err()) {
                    assert_eq!(*refusal, CapError::Revoked { id: lease.id() });
                }
            })
        };
        reason.store(1, Relaxed);
        assert_eq!(leaf.revoke(), 1);
        told.store(true, Release);
        assert!(leaf.lease().take_tasks(1).is_err());
        user.join().unwrap();
        assert_eq!((leaf.tasks_in_use(), root.tasks_in_use()), (0, 0), "what was taken before did not come back");
        assert_eq!(root.lease().take_tasks(9).unwrap().count(), 2);
    });
}

#[test]
fn what_is_derived_during_a_revocation_does_not_escape() {
    check(|| {
        let (root, []) = tree(2, []);
        let root = Arc::new(root);
        let deriver = {
            let root = root.clone();
            thread::spawn(move || root.delegate().ok())
        };
        root.revoke();
        let derived = deriver.join().unwrap();
        assert!(derived.is_none_or(|cap| cap.lease().take_tasks(1).is_err()), "it outlives what it comes from");
    });
}
