//! Models of `src/deque.rs`.

use super::*;

/// Pushes parcels 1..=`count` in `0..count`, behind the deque's back still in reach of the test.
fn parcels(count: u32) -> Vec<&'static Parcel> {
    (0..count).map(|_| leak(Parcel::new(0))).collect()
}

fn push(deque: &Deque<Parcel>, parcel: &'static Parcel, value: u32) {
    parcel.put(value);
    deque.push(std::ptr::from_ref(parcel).cast_mut());
}

fn open(item: *mut Parcel) -> u32 {
    // SAFETY: every item pushed here is a leaked parcel.
    let value = unsafe { item.as_ref() }.expect("no item is null").take();
    assert_ne!(value, 0, "an item was taken twice");
    value
}

fn steal(stealer: &Stealer<Parcel>, times: u32) -> Vec<u32> {
    (0..times)
        .filter_map(|_| match stealer.steal() {
            Steal::Taken(item) => Some(open(item)),
            Steal::Empty | Steal::Lost => None,
        })
        .collect()
}

fn drain(deque: &Deque<Parcel>) -> Vec<u32> {
    std::iter::from_fn(|| deque.pop()).map(open).collect()
}

fn assert_all(count: u32, mut taken: Vec<u32>) {
    taken.sort_unstable();
    assert_eq!(taken, (1..=count).collect::<Vec<_>>(), "every item is taken once");
}

#[test]
fn the_last_item_is_taken_once() {
    // One item: owner and thief race for it by CAS.
    check(|| {
        let (deque, parcels) = (Deque::new(), parcels(1));
        push(&deque, parcels[0], 1);
        let stealer = deque.stealer();
        let thief = thread::spawn(move || steal(&stealer, 1));
        let mut taken = drain(&deque);
        taken.extend(thief.join().unwrap());
        assert_all(1, taken);
    });
    // Two items: the owner takes the newest without a CAS, because it believes the oldest still there.
    check(|| {
        let (deque, parcels) = (Deque::new(), parcels(2));
        push(&deque, parcels[0], 1);
        push(&deque, parcels[1], 2);
        let stealer = deque.stealer();
        let thief = thread::spawn(move || steal(&stealer, 2));
        let mut taken = drain(&deque);
        taken.extend(thief.join().unwrap());
        assert_all(2, taken);
    });
}

#[test]
fn thieves_share_with_the_owner() {
    check(|| {
        let (deque, parcels) = (Deque::new(), parcels(2));
        push(&deque, parcels[0], 1);
        push(&deque, parcels[1], 2);
        let thieves = [deque.stealer(), deque.stealer()].map(|s| thread::spawn(move || steal(&s, 1)));
        let mut taken: Vec<_> = deque.pop_oldest().map(open).into_iter().collect();
        taken.extend(deque.pop().map(open));
        for thief in thieves {
            taken.extend(thief.join().unwrap());
        }
        taken.extend(drain(&deque));
        assert_all(2, taken);
    });
}

#[test]
fn a_thief_sees_what_it_steals() {
    check(|| {
        let (deque, parcels) = (Deque::new(), parcels(2));
        let stealer = deque.stealer();
        let thief = thread::spawn(move || steal(&stealer, 1));
        push(&deque, parcels[0], 1);
        push(&deque, parcels[1], 2);
        let mut taken: Vec<_> = deque.pop().map(open).into_iter().collect(); // lowers `bottom` over the first
        taken.extend(thief.join().unwrap());
        taken.extend(drain(&deque));
        assert_all(2, taken);
    });
}

#[test]
fn a_steal_survives_growth() {
    // Two slots: the third item moves all of them to a larger buffer.
    check(|| {
        let (deque, parcels) = (Deque::new(), parcels(3));
        push(&deque, parcels[0], 1);
        push(&deque, parcels[1], 2);
        let stealer = deque.stealer();
        let thief = thread::spawn(move || steal(&stealer, 2));
        push(&deque, parcels[2], 3);
        let mut taken = drain(&deque);
        taken.extend(thief.join().unwrap());
        assert_all(3, taken);
    });
}
