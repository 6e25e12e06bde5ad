//! Stands in for the facade and writes down every check. `#[budgeted(crate = …)]` leads here.

use std::cell::RefCell;

thread_local!(static ENTRIES: RefCell<Vec<Entry>> = const { RefCell::new(Vec::new()) });

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Entry {
    Enter(Option<u32>),
    Tick,
    Await,
    Leave,
}

fn write(entry: Entry) {
    ENTRIES.with_borrow_mut(|entries| entries.push(entry));
}

/// What `work` wrote.
pub(crate) fn of<R>(work: impl FnOnce() -> R) -> Vec<Entry> {
    ENTRIES.take();
    work();
    ENTRIES.take()
}

/// How often `work` entered, ticked, awaited and left.
pub(crate) fn counts_of<R>(work: impl FnOnce() -> R) -> [usize; 4] {
    let entries = of(work);
    let count = |is: fn(&Entry) -> bool| entries.iter().filter(|entry| is(entry)).count();
    [
        count(|entry| matches!(entry, Entry::Enter(_))),
        count(|entry| *entry == Entry::Tick),
        count(|entry| *entry == Entry::Await),
        count(|entry| *entry == Entry::Leave),
    ]
}

#[allow(non_snake_case)]
pub(crate) mod __budget {
    use std::ops::Range;

    use super::{Entry, write};

    pub(crate) struct Fuel(());

    impl Fuel {
        pub(crate) fn enter() -> Self {
            write(Entry::Enter(None));
            Self(())
        }

        pub(crate) fn enter_every(interval: u32) -> Self {
            write(Entry::Enter(Some(interval)));
            Self(())
        }

        pub(crate) fn tick(&mut self) {
            write(Entry::Tick);
        }

        /// In chunks of one iteration, each of which is a tick.
        pub(crate) fn chunks<T: Clone>(range: Range<T>, _: &mut Self) -> impl Iterator<Item = Range<T>>
        where
            Range<T>: Iterator<Item = T>,
        {
            let mut rest = range;
            std::iter::from_fn(move || {
                let start = rest.start.clone();
                rest.next()?;
                write(Entry::Tick);
                Some(start..rest.start.clone())
            })
        }

        pub(crate) fn awaiting<F>(future: F, _: &mut Self) -> F {
            write(Entry::Await);
            future
        }
    }

    impl Drop for Fuel {
        fn drop(&mut self) {
            write(Entry::Leave);
        }
    }
}
