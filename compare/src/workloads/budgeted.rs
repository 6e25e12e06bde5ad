//! Tight loops with `#[budgeted]` and without, from the same text.
//!
//! Bar: 1.1 × without, in the worst of three loops that do next to nothing in a turn: one waits for a multiplication, one for a branch, one for memory
//! and a branch. The vectorised sum is for orientation, and no fair fight: a loop that counts its turns cannot take eight at once.

use std::hint::black_box;

use crate::Failure;
use crate::measure::{Plan, Side};
use crate::table::{Bar, Row};

pub const NAME: &str = "budgeted";

/// Each function twice, from the same text.
macro_rules! twins {
    ($($function:item)*) => {
        mod without { $($function)* }
        #[bursar::budgeted]
        mod with { $($function)* }
    };
}

twins! {
    /// Every turn waits for the one before. The shift keeps the compiler from merging turns.
    #[inline(never)]
    pub fn chain(turns: usize, _: &[u32]) -> u64 {
        let mut x = turns as u64;
        for _ in 0..turns {
            x = (x ^ (x >> 29)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        }
        x
    }

    /// Steps of the Collatz sequences of 1, 2, 3 and so on: nobody can guess the branches.
    #[inline(never)]
    pub fn collatz(turns: usize, _: &[u32]) -> u64 {
        let (mut n, mut start, mut longest) = (1_u64, 1_u64, 0_u64);
        for _ in 0..turns {
            if n == 1 {
                start += 1;
                n = start;
            } else if n & 1 == 0 {
                n >>= 1;
            } else {
                n = 3 * n + 1;
                longest = longest.max(n);
            }
        }
        longest
    }

    /// What is added depends on the sum so far, so the loop is not vectorised.
    #[inline(never)]
    #[allow(clippy::needless_range_loop)] // by index, as it is often written
    pub fn slice(turns: usize, items: &[u32]) -> u64 {
        let (mut sum, mut left) = (0_u64, turns);
        while left > 0 {
            let some = left.min(items.len());
            for i in 0..some {
                let item = u64::from(items[i]);
                if item > (sum & 0xffff_ffff) {
                    sum += item;
                } else {
                    sum ^= item << 1;
                }
            }
            left -= some;
        }
        sum
    }

    #[inline(never)]
    pub fn vector(turns: usize, items: &[u32]) -> u64 {
        let mut sum = 0_u32;
        let mut left = turns;
        while left > 0 {
            let some = left.min(items.len());
            for item in &items[..some] {
                sum = sum.wrapping_add(*item);
            }
            left -= some;
        }
        u64::from(sum)
    }
}

type Loop = fn(usize, &[u32]) -> u64;

/// What the loops read: fits the first cache, so that memory hides nothing.
const ITEMS: usize = 4096;

pub fn run(plan: &Plan) -> Result<Vec<Row>, Failure> {
    let turns = plan.pick(20_000_000, 4_000_000);
    let runtime = bursar::Runtime::builder().workers(1).build()?;
    let items: Vec<u32> = (0..ITEMS as u32).map(|i| i.wrapping_mul(2_654_435_761)).collect();
    let measure = |with: Loop, without: Loop| -> Result<[f64; 2], Failure> {
        let once = |function: Loop| runtime.run(|| function(black_box(turns), black_box(&items)));
        if once(with)? != once(without)? {
            return Err("a loop has another result with `#[budgeted]`".into());
        }
        // In a task, where a check has a nursery to ask.
        let side = |function: Loop| {
            move || {
                black_box(once(function)?);
                Ok(())
            }
        };
        plan.best_of(turns, [Side::new("with", side(with)), Side::new("without", side(without))])
    };
    let mut judged = [
        ("without, hash chain", measure(with::chain, without::chain)?),
        ("without, collatz", measure(with::collatz, without::collatz)?),
        ("without, slice", measure(with::slice, without::slice)?),
    ];
    judged.sort_by(|(_, a), (_, b)| (b[0] / b[1]).total_cmp(&(a[0] / a[1])));
    let vector = measure(with::vector, without::vector)?;
    let rows = judged.iter().enumerate().map(|(rank, (peer, figures))| {
        let bar = if rank == 0 { Bar::Times(1.1) } else { Bar::Open };
        Row::new(NAME, peer, *figures, "ns/turn", bar)
    });
    Ok(rows.chain([Row::new(NAME, "without, vectorised", vector, "ns/turn", Bar::Open)]).collect())
}
