//! Models of `src/line.rs`.

use super::*;

/// The owner takes the newest, a thief the oldest, while another item comes.
#[test]
fn an_item_of_a_line_is_taken_once() {
    check(|| {
        let line: &Line<Box<Parcel>> = leak(Line::default());
        line.push(Box::new(Parcel::new(1)));
        let thief = thread::spawn(move || line.pop_oldest().map(|parcel| parcel.take()));
        let parcel = Box::new(Parcel::new(0));
        parcel.put(2);
        line.push(parcel);
        let mut taken: Vec<_> = line.pop_newest().map(|parcel| parcel.take()).into_iter().collect();
        taken.extend(thief.join().unwrap());
        taken.extend(std::iter::from_fn(|| line.pop_oldest()).map(|parcel| parcel.take()));
        taken.sort_unstable();
        assert_eq!((taken.as_slice(), line.len()), (&[1, 2][..], 0));
    });
}

/// An owner takes back what it pushed last, or a thief has it.
#[test]
fn what_is_taken_back_was_not_stolen() {
    check(|| {
        let line: &Line<u32> = leak(Line::default());
        line.push(7);
        let thief = thread::spawn(move || line.pop_oldest());
        let mark = line.mark();
        let taken_back = line.pop_newest_if(|item| *item == 7);
        assert!(line.has_passed(mark));
        assert_ne!(taken_back.is_some(), thief.join().unwrap().is_some());
    });
}

/// Some are picked out of the line while a thief takes the oldest.
#[test]
fn what_is_picked_out_of_a_line_is_not_taken_by_another() {
    check(|| {
        let line: &Line<u32> = leak(Line::default());
        (1..4).for_each(|item| line.push(item));
        let thief = thread::spawn(move || line.pop_oldest());
        let mut taken = line.extract(|item| *item != 2);
        taken.extend(thief.join().unwrap());
        taken.extend(line.pop_newest());
        taken.sort_unstable();
        assert_eq!((taken.as_slice(), line.len()), (&[1, 2, 3][..], 0));
    });
}
