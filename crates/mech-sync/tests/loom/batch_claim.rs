//! Models of `src/batch_claim.rs`.

use super::*;

#[test]
fn everything_is_begun_or_taken_back_once() {
    check(|| {
        let batch_claim = leak(BatchClaim::new());
        let effects = [leak(Parcel::new(0)), leak(Parcel::new(0)), leak(Parcel::new(0))];
        batch_claim.begin(3);
        let owner = thread::spawn(move || {
            let mut begun = 0;
            loop {
                effects[begun].put(1);
                begun += 1;
                if !batch_claim.claim_next() {
                    break begun;
                }
            }
        });
        let counted = batch_claim.stop().expect("no other thread stops it");
        assert!((1..=3).contains(&counted));
        // All but the last that was begun are done, and their effects are here.
        for effect in &effects[..counted - 1] {
            assert_eq!(effect.take(), 1, "an effect is missing");
        }
        assert_eq!(owner.join().unwrap(), counted, "one was begun and taken back, or neither");
        assert_eq!(batch_claim.stop(), None);
    });
}
