//! Models of `src/permit_cache.rs`.

use super::*;

/// Where rights come from, and who uses them. The counts are RMWs, which loom gives the newest value.
struct Market {
    permit_cache: PermitCache<u32>,
    keep: u64,
    /// Got and not given back.
    out: AtomicU32,
    /// In use, counted after the right was got and until before it ended: never more than really are.
    in_use: AtomicU32,
}

impl Market {
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
            assert!(*pile >= self.in_use.fetch_add(0, Relaxed), "a right in use was given back");
            count
        });
        self.out.fetch_sub(given.unwrap_or(0), Relaxed);
    }

    /// Everybody is done.
    fn close(&self) {
        let spare = self.permit_cache.reuse(u64::MAX).unwrap_or(0);
        let pile = self.permit_cache.close(|pile| std::mem::take(pile));
        assert_eq!(self.in_use.load(Relaxed), 0);
        assert_eq!((u64::from(pile), pile), (spare, self.out.load(Relaxed)), "a right was lost");
        assert!(spare <= self.keep, "{spare} were left, and {} may be", self.keep);
    }
}

#[test]
fn a_right_in_use_is_not_given_back_and_none_is_lost() {
    // One right is kept or none, of one or two at a time: ends meet ends, and ends meet beginnings.
    for (keep, first, second) in [(0, 1, 1), (1, 1, 1), (1, 2, 1), (2, 2, 1)] {
        check(move || {
            let market = Market::new(keep);
            let early = market.begin(first);
            let other = thread::spawn(move || {
                let got = market.begin(second);
                market.end(got);
            });
            market.end(early);
            let late = market.begin(1);
            market.end(late);
            other.join().unwrap();
            market.close();
        });
    }
    // Two end while a third begins.
    check(|| {
        let market = Market::new(1);
        let early = market.begin(2);
        let enders = [early / 2; 2].map(|uses| thread::spawn(move || market.end(uses)));
        market.begin(1);
        enders.into_iter().for_each(|ender| ender.join().unwrap());
        market.end(1);
        market.close();
    });
}

#[test]
fn who_reuses_a_right_sees_its_last_use_ended() {
    check(|| {
        let permit_cache: &PermitCache<u32> = leak(PermitCache::new(0));
        let used = leak(Parcel::new(0));
        permit_cache.add(1, |pile| *pile += 1);
        let user = thread::spawn(move || {
            used.put(1);
            assert_eq!(permit_cache.ended(1, |_, _| ()), None, "one may be kept");
        });
        if permit_cache.reuse(1).is_some() {
            assert_eq!(used.take(), 1, "two use one right");
        }
        user.join().unwrap();
    });
}
