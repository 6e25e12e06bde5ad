//! Models of `src/roster.rs`.

use super::*;

struct Source {
    line: Line<u32>,
    listing: Listing,
}

const NUMBER: u64 = 3;

/// A source that was used up, and is still on the roster.
fn used_up() -> (&'static Roster<Source>, Arc<Source>, &'static Idle) {
    let (roster, idle) = (leak(Roster::default()), leak(Idle::new()));
    let source = Arc::new(Source { line: Line::default(), listing: Listing::default() });
    idle.published_with(|| roster.note(&source.listing, NUMBER, &source));
    (roster, source, idle)
}

/// One look of a thief.
fn look(roster: &Roster<Source>) -> Option<u32> {
    let (number, source) = roster.after(0)?;
    let item = source.line.pop_oldest();
    if item.is_none() {
        roster.take_off(&source.listing, number, || source.line.is_empty());
    }
    item
}

#[test]
fn a_source_with_something_in_it_is_on_the_roster() {
    check(|| {
        let (roster, source, idle) = used_up();
        let thief = thread::spawn(move || look(roster));
        source.line.push(1);
        idle.published_with(|| roster.note(&source.listing, NUMBER, &source));
        let stolen = thief.join().unwrap();
        let found = stolen.or_else(|| look(roster));
        assert_eq!(found, Some(1), "no thief finds it any more");
        assert_eq!((look(roster), roster.len()), (None, 0));
    });
}

#[test]
fn a_source_that_was_held_is_found_again() {
    check(|| {
        let (roster, source, idle) = used_up();
        let held = source.clone();
        let holder = thread::spawn(move || {
            roster.hold(NUMBER);
            roster.put_back(NUMBER, held);
        });
        source.line.push(1);
        idle.published_with(|| roster.note(&source.listing, NUMBER, &source));
        holder.join().unwrap();
        assert_eq!(look(roster), Some(1));
    });
}
