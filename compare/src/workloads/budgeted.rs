//! Tight loops with `#[budgeted]` and without, from the same text.
//!
//! Bar: 1.1 × without, in the worst of three loops that do next to nothing in a turn. One waits for a multiplication; one is nothing but branches, of which
//! a check is one more; one compares with memory.
//!
//! Loops that count through a range and only compute are checked once in a stretch of turns, not in every turn: the first two are such. What the branches lose they lose to
//! the place and shape of the same few instructions, not to checks.
//!
//! For orientation: Collatz as usually written, which compiles to a conditional move; and a vectorised sum, where a loop that counts its turns cannot take eight
//! at once.
//!
//! # Why there are copies
//! Where the linker happens to put a loop of five instructions changes its time by a fifth, on either side. So every loop is there several times, at several
//! places. A row shows the mean of the places, each in its best round: what to expect of an arbitrary place. Functions are aligned, so copies of one would all
//! have their loops at the same place: each shifts its own by some bytes more.

use std::array;
use std::hint::black_box;

use crate::Failure;
use crate::measure::{Plan, Side};
use crate::table::{Bar, Row};

pub const NAME: &str = "budgeted";
const COPIES: usize = 6;
const SIDES: usize = 2 * COPIES;

/// Each function twice, from the same text. `COPY` is in the result, or the compiler would make one function of all copies.
macro_rules! twins {
    ($($function:item)*) => {
        mod without { use crate::measure::shift; $($function)* }
        #[bursar::budgeted]
        mod with { use crate::measure::shift; $($function)* }
    };
}

twins! {
    /// Every turn waits for the one before. The shift keeps the compiler from merging turns.
    #[inline(never)]
    pub fn chain<const COPY: u64>(turns: usize, _: &[u32]) -> u64 {
        shift::<COPY>();
        let mut x = COPY;
        for _ in 0..turns {
            x = (x ^ (x >> 29)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        }
        x
    }

    /// Steps of the Collatz sequences of one number after the other, in one loop of branches.
    #[inline(never)]
    pub fn collatz<const COPY: u64>(turns: usize, _: &[u32]) -> u64 {
        shift::<COPY>();
        let (mut n, mut start, mut longest) = (1_u64, COPY, 0_u64);
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
        longest ^ COPY
    }

    #[inline(never)]
    pub fn steps<const COPY: u64>(turns: usize, _: &[u32]) -> u64 {
        shift::<COPY>();
        let (mut start, mut steps, mut longest) = (COPY, 0, 0);
        while steps < turns {
            let (mut n, before) = (start, steps);
            while n != 1 {
                n = if n & 1 == 0 { n >> 1 } else { 3 * n + 1 };
                steps += 1;
            }
            longest = longest.max(steps - before);
            start += 1;
        }
        longest as u64 ^ start
    }

    /// What is added depends on the sum so far, so the loop is not vectorised.
    #[inline(never)]
    #[allow(clippy::needless_range_loop)] // by index, as it is often written
    pub fn slice<const COPY: u64>(turns: usize, items: &[u32]) -> u64 {
        shift::<COPY>();
        let (mut sum, mut left) = (COPY, turns);
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
    pub fn vector<const COPY: u64>(turns: usize, items: &[u32]) -> u64 {
        shift::<COPY>();
        let (mut sum, mut left) = (COPY as u32, turns);
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

macro_rules! copies {
    ($name:ident) => {{
        use {with::$name as with, without::$name as without};
        let with: [Loop; COPIES] = [with::<1>, with::<2>, with::<3>, with::<4>, with::<5>, with::<6>];
        let without: [Loop; COPIES] =
            [without::<1>, without::<2>, without::<3>, without::<4>, without::<5>, without::<6>];
        [with, without]
    }};
}

/// What the loops read: fits the first cache, so that memory hides nothing.
const ITEMS: usize = 4096;

/// Nanoseconds of one turn, with and without.
fn measure(plan: &Plan, [with, without]: [[Loop; COPIES]; 2]) -> Result<[f64; 2], Failure> {
    let turns = plan.pick(2_000_000, 1_000_000);
    let runtime = bursar::Runtime::builder().workers(1).build()?;
    let items: Vec<u32> = (0..ITEMS as u32).map(|i| i.wrapping_mul(2_654_435_761)).collect();
    // In a task, where a check has a nursery to ask.
    let once = |function: Loop| runtime.run(|| function(black_box(turns), black_box(&items)));
    for (with, without) in with.into_iter().zip(without) {
        if once(with)? != once(without)? {
            return Err("a loop has another result with `#[budgeted]`".into());
        }
    }
    // They alternate, so that a slow moment hits both.
    let sides: [Side<'_>; SIDES] = array::from_fn(|i| {
        let (name, functions) = if i % 2 == 0 { ("with", with) } else { ("without", without) };
        let function = functions[i / 2];
        Side::new(name, move || {
            black_box(once(function)?);
            Ok(())
        })
    });
    let times = plan.best_of(turns, sides)?;
    let mean = |first: usize| times.iter().skip(first).step_by(2).sum::<f64>() / COPIES as f64;
    Ok([mean(0), mean(1)])
}

pub fn run(plan: &Plan) -> Result<Vec<Row>, Failure> {
    let mut judged = [
        ("without, hash chain", measure(plan, copies!(chain))?),
        ("without, branches", measure(plan, copies!(collatz))?),
        ("without, slice", measure(plan, copies!(slice))?),
    ];
    // The worst first: the bar is its.
    judged.sort_by(|(_, a), (_, b)| (b[0] / b[1]).total_cmp(&(a[0] / a[1])));
    let open = [
        ("without, collatz steps", measure(plan, copies!(steps))?),
        ("without, vectorised", measure(plan, copies!(vector))?),
    ];
    let rows = judged.iter().chain(&open).enumerate().map(|(place, (peer, figures))| {
        let bar = if place == 0 { Bar::Times(1.1) } else { Bar::Open };
        Row::new(NAME, *peer, *figures, "ns/turn", bar)
    });
    Ok(rows.collect())
}
