//! Models of `src/directory.rs`.

use super::*;

#[derive(Clone)]
struct Thing(Arc<Inside>);

struct Inside {
    members: Members,
    numbers: directory::Numbers,
    key: Option<u32>,
}

impl directory::Entry for Thing {
    fn members(&self) -> &Members {
        &self.0.members
    }
}

/// A directory, and a flag that says whether there is anything in it: 0 or 1.
struct All {
    directory: Directory<u32, Thing>,
    any: AtomicU32,
}

impl All {
    fn new() -> &'static Self {
        leak(Self { directory: Directory::default(), any: AtomicU32::new(0) })
    }

    fn join(&self, key: Option<u32>) -> Thing {
        let make = |numbers| Thing(Arc::new(Inside { members: Members::new(), numbers, key }));
        self.directory.join_or_enter(key, make, || self.any.store(1, Relaxed))
    }

    fn leave(&self, thing: &Thing) {
        if thing.0.members.leave() {
            let Inside { numbers, key, .. } = &*thing.0;
            self.directory.remove(numbers.number, key.as_ref(), || self.any.store(0, Relaxed));
        }
    }
}

/// The last one goes while another comes.
#[test]
fn a_flag_says_whether_there_is_anything() {
    check(|| {
        let all = All::new();
        let old = all.join(None);
        let other = thread::spawn(move || all.leave(&old));
        let new = all.join(None);
        other.join().unwrap();
        assert_eq!((all.any.load(Relaxed), all.directory.all().len()), (1, 1));
        all.leave(&new);
        assert_eq!((all.any.load(Relaxed), all.directory.all().len()), (0, 0));
    });
}

#[test]
fn who_has_an_entry_knows_its_generation() {
    check(|| {
        let all = All::new();
        let know = move || {
            let thing = all.join(Some(1));
            assert_eq!((all.directory.generation(), all.any.load(Relaxed)), (1, 1));
            thing
        };
        let other = thread::spawn(know);
        let mine = know();
        let others = other.join().unwrap();
        assert!(Arc::ptr_eq(&mine.0, &others.0), "one key, one entry");
    });
}

/// The last member of an entry leaves while another asks for it by its key.
#[test]
fn an_entry_is_found_by_its_key_while_it_has_members() {
    check(|| {
        let all = All::new();
        let old = all.join(Some(1));
        let keeps_old = old.clone();
        let other = thread::spawn(move || all.leave(&old));
        let new = all.join(Some(1));
        assert_eq!(all.directory.all().len(), 1, "one key, one entry");
        other.join().unwrap();
        let found = all.join(Some(1));
        assert!(Arc::ptr_eq(&found.0, &new.0), "one key, one entry");
        assert_eq!(all.directory.all().len(), 1);
        let _ = keeps_old; // its number is not that of another
        all.leave(&new);
        all.leave(&found);
        assert_eq!((all.any.load(Relaxed), all.directory.all().len()), (0, 0));
    });
}
