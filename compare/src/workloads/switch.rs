//! A bare switch: enter a fiber, come back. No scheduler.
//!
//! Bar: 1.3 × corosensei, which does the switch for both. The rest is what our fiber adds:
//! the words that travel, and the current-fiber bookkeeping. Nothing is read from the result:
//! the compiler cannot look into a switch, and hiding the result from it would cost both
//! sides 0.7 ns and flatter the ratio. Both loops are there at several places, as in `budgeted`.

use std::array;

use crate::Failure;
use crate::measure::{Plan, Side, shift};
use crate::table::{Bar, Row};

pub const NAME: &str = "switch";

mod ours {
    use super::*;
    use mech_fiber::{Fiber, Slab, SlabOptions, suspend};

    pub fn endless<const COPY: u64>() -> Result<Fiber, Failure> {
        let slab = Slab::reserve(SlabOptions::default())?;
        Ok(Fiber::new(slab.take()?, |_| {
            shift::<COPY>();
            loop {
                suspend(0);
            }
        }))
    }

    #[inline(never)]
    pub fn pairs<const COPY: u64>(fiber: &mut Fiber, count: usize) {
        shift::<COPY>();
        for _ in 0..count {
            let _ = fiber.resume_from_defaults(0); // as the scheduler does
        }
    }
}

mod bare {
    use super::*;
    use corosensei::Coroutine;

    pub fn endless<const COPY: u64>() -> Coroutine<usize, usize, usize> {
        Coroutine::new(|yielder, _| {
            shift::<COPY>();
            loop {
                yielder.suspend(0);
            }
        })
    }

    #[inline(never)]
    pub fn pairs<const COPY: u64>(coroutine: &mut Coroutine<usize, usize, usize>, count: usize) {
        shift::<COPY>();
        for _ in 0..count {
            let _ = coroutine.resume(0);
        }
    }
}

/// Nanoseconds of a pair, ours and theirs, at one place.
fn at_place<const COPY: u64>(plan: &Plan) -> Result<[f64; 2], Failure> {
    let count = plan.pick(4_000_000, 1_000_000);
    let (mut fiber, mut coroutine) = (ours::endless::<COPY>()?, bare::endless::<COPY>());
    let best = plan.best_of(
        count,
        [
            Side::new("ours", || {
                ours::pairs::<COPY>(&mut fiber, count);
                Ok(())
            }),
            Side::new("corosensei", || {
                bare::pairs::<COPY>(&mut coroutine, count);
                Ok(())
            }),
        ],
    )?;
    std::mem::forget(coroutine); // built without unwinding, it cannot be dropped in the middle
    Ok(best)
}

pub fn run(plan: &Plan) -> Result<Vec<Row>, Failure> {
    let places = [at_place::<1>, at_place::<2>, at_place::<3>, at_place::<4>, at_place::<5>, at_place::<6>]
        .map(|place| place(plan));
    let mut sums = [0.0; 2];
    for place in places {
        let figures = place?;
        sums = array::from_fn(|side| sums[side] + figures[side]);
    }
    let means = sums.map(|sum| sum / 6.0);
    Ok(vec![Row::new(NAME, "corosensei", means, "ns/pair", Bar::Times(1.3))])
}
