//! A bare switch: enter a fiber, come back. No scheduler.
//!
//! Bar: 1.3 × corosensei, which does the switch for both. The rest is what our fiber adds:
//! the words that travel, and the current-fiber bookkeeping. Nothing is read from the result:
//! the compiler cannot look into a switch, and hiding the result from it would cost both
//! sides 0.7 ns and flatter the ratio.

use crate::Failure;
use crate::measure::{Plan, Side};
use crate::table::{Bar, Row};

pub const NAME: &str = "switch";

mod ours {
    use super::*;
    use mech_fiber::{Fiber, Slab, SlabOptions, suspend};

    pub fn endless() -> Result<Fiber, Failure> {
        let slab = Slab::reserve(SlabOptions::default())?;
        Ok(Fiber::new(slab.take()?, |_| {
            loop {
                suspend(0);
            }
        }))
    }

    pub fn pairs(fiber: &mut Fiber, count: usize) {
        for _ in 0..count {
            let _ = fiber.resume_from_defaults(0); // as the scheduler does
        }
    }
}

mod bare {
    use corosensei::Coroutine;

    pub fn endless() -> Coroutine<usize, usize, usize> {
        Coroutine::new(|yielder, _| {
            loop {
                yielder.suspend(0);
            }
        })
    }

    pub fn pairs(coroutine: &mut Coroutine<usize, usize, usize>, count: usize) {
        for _ in 0..count {
            let _ = coroutine.resume(0);
        }
    }
}

pub fn run(plan: &Plan) -> Result<Vec<Row>, Failure> {
    let count = plan.pick(20_000_000, 5_000_000);
    let (mut fiber, mut coroutine) = (ours::endless()?, bare::endless());
    let best = plan.best_of(
        count,
        [
            Side::new("ours", || {
                ours::pairs(&mut fiber, count);
                Ok(())
            }),
            Side::new("corosensei", || {
                bare::pairs(&mut coroutine, count);
                Ok(())
            }),
        ],
    )?;
    std::mem::forget(coroutine); // built without unwinding, it cannot be dropped in the middle
    Ok(vec![Row::new(NAME, "corosensei", best, "ns/pair", Bar::Times(1.3))])
}
