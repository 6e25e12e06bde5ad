//! Models of `src/permit_cache.rs`.

use super::*;

/// Where permits come from, and how many are in use. The counts are RMWs, which loom gives the newest value.
struct Permits {
    permit_cache: PermitCache<u32>,
    keep: u64,
    /// Taken and not given back.
    out: AtomicU32,
    /// In use, counted after the permit was taken and until before its use ended: never more than really are.
    in_use: AtomicU32,
}

impl Permits {
    fn new(keep: u64) -> &'static Self {
        leak(Self { permit_cache: PermitCache::new(0), keep, out: AtomicU32::new(0), in_use: AtomicU32::new(0) })
    }

    fn begin(&self, want: u32) -> u32 {
        let got = match self.permit_cache.reuse(want.into()) {
            Some(spare) => u32::try_from(spare).unwrap(),
            None => {
                self.out.fetch_add(want, Relaxed);
                self.permit_cache.add(self.keep, |pile| *pile += want);
                want
            }
        };
        self.in_use.fetch_add(got, Relaxed);
        got
    }

    fn end(&self, uses: u32) {
        self.in_use.fetch_sub(uses, Relaxed);
        let given = self.permit_cache.ended(uses.into(), |pile, count| {
            let count = u32::try_from(count).unwrap();
            *pile = pile.checked_sub(count).expect("more is spare than there is");
            assert!(*pile >= self.in_use.fetch_add(0, Relaxed), "a permit in use was given back");
            count
        });
        self.out.fetch_sub(given.unwrap_or(0), Relaxed);
    }

    /// All users are done.
    fn close(&self) {
        let spare = self.permit_cache.reuse(u64::MAX).unwrap_or(0);
        let pile = self.permit_cache.close(|pile| std::mem::take(pile));
        assert_eq!(self.in_use.load(Relaxed), 0);
        assert_eq!((u64::from(pile), pile), (spare, self.out.load(Relaxed)), "a permit was lost");
        assert!(spare <= self.keep, "{spare} were left, and {} may be", self.keep);
    }
}

#[test]
fn a_permit_in_use_is_not_given_back_and_none_is_lost() {
    // One permit is kept or none, of one or two at a time: ends meet ends, and ends meet beginnings.
    for (keep, first, second) in [(0, 1, 1), (1, 1, 1), (1, 2, 1), (2, 2, 1)] {
        check(move || {
            let permits = Permits::new(keep);
            let early = permits.begin(first);
            let other = thread::spawn(move || {
                let got = permits.begin(second);
                permits.end(got);
            });
            permits.end(early);
            let late = permits.begin(1);
            permits.end(late);
            other.join().unwrap();
            permits.close();
        });
    }
    // Two end while a third begins.
    check(|| {
        let permits = Permits::new(1);
        let early = permits.begin(2);
        let enders = [early / 2; 2].map(|uses| thread::spawn(move || permits.end(uses)));
        permits.begin(1);
        enders.into_iter().for_each(|ender| ender.join().unwrap());
        permits.end(1);
        permits.close();
    });
}

#[test]
fn a_reused_permit_has_seen_its_last_use_end() {
    check(|| {
        let permit_cache: &PermitCache<u32> = leak(PermitCache::new(0));
        let used = leak(Parcel::new(0));
        permit_cache.add(1, |pile| *pile += 1);
        let user = thread::spawn(move || {
            used.put(1);
            assert_eq!(permit_cache.ended(1, |_, _| ()), None, "one may be kept");
        });
        if permit_cache.reuse(1).is_some() {
            assert_eq!(used.take(), 1, "two users have one permit");
        }
        user.join().unwrap();
    });
}
