//! Two workers over one, on a tree of `join`s with some 30 µs of arithmetic in each leaf.
//!
//! Bar: 1.9. More is better here. Rayon's own figure stands beside it: if that is low too,
//! the machine was busy.

use std::hint::black_box;

use crate::Failure;
use crate::measure::{Plan, Side};
use crate::table::{Bar, LIMIT, Row};
use crate::workloads::peers;

pub const NAME: &str = "scale";
const SPEEDUP_MIN: f64 = 1.9;

/// Some 30 µs of registers only. Each step waits for the one before: the shift keeps the
/// compiler from multiplying several steps into one.
fn leaf(seed: u64) -> u64 {
    (0..15_000).fold(black_box(seed), |x, _| (x ^ (x >> 29)).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

fn ours(depth: u32, seed: u64) -> u64 {
    if depth == 0 {
        return leaf(seed);
    }
    let (a, b) = bursar::join(|| ours(depth - 1, 2 * seed), || ours(depth - 1, 2 * seed + 1));
    a ^ b
}

fn with_rayon(depth: u32, seed: u64) -> u64 {
    if depth == 0 {
        return leaf(seed);
    }
    let (a, b) = rayon::join(|| with_rayon(depth - 1, 2 * seed), || with_rayon(depth - 1, 2 * seed + 1));
    a ^ b
}

pub fn run(plan: &Plan) -> Result<Vec<Row>, Failure> {
    let depth = plan.pick(12, 11) as u32;
    let runtime = |workers| bursar::Runtime::builder().workers(workers).build();
    let (ours_one, ours_two) = (runtime(1)?, runtime(2)?);
    let (rayon_one, rayon_two) = (peers::rayon(1)?, peers::rayon(2)?);
    let by_ours = |runtime: &bursar::Runtime| -> Result<(), Failure> {
        black_box(runtime.run(|| ours(depth, 1))?);
        Ok(())
    };
    let by_rayon = |pool: &rayon::ThreadPool| -> Result<(), Failure> {
        black_box(pool.install(|| with_rayon(depth, 1)));
        Ok(())
    };
    let [ours_one, ours_two, rayon_one, rayon_two] = plan.best_of(
        1 << depth,
        [
            Side::new("ours, 1 worker", || by_ours(&ours_one)),
            Side::new("ours, 2 workers", || by_ours(&ours_two)),
            Side::new("rayon, 1 worker", || by_rayon(&rayon_one)),
            Side::new("rayon, 2 workers", || by_rayon(&rayon_two)),
        ],
    )?;
    let (ours, rayon) = (ours_one / ours_two, rayon_one / rayon_two);
    Ok(vec![
        Row::new(NAME, LIMIT, [ours, SPEEDUP_MIN], "× faster", Bar::AtLeast),
        Row::new(NAME, "rayon", [ours, rayon], "× faster", Bar::Open),
    ])
}
