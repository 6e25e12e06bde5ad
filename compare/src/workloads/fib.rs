//! fib(30) by `join`, without a cutoff: nothing but the cost of fork-join. 2 workers.
//!
//! Bar: 1.5 × rayon.

use crate::Failure;
use crate::measure::{Plan, Side};
use crate::table::{Bar, Row};
use crate::workloads::peers;

pub const NAME: &str = "fib";

fn ours(n: u32) -> u64 {
    if n < 2 {
        return u64::from(n);
    }
    let (a, b) = bursar::join(|| ours(n - 1), || ours(n - 2));
    a + b
}

fn with_rayon(n: u32) -> u64 {
    if n < 2 {
        return u64::from(n);
    }
    let (a, b) = rayon::join(|| with_rayon(n - 1), || with_rayon(n - 2));
    a + b
}

fn plain(n: u32) -> u64 {
    let (mut a, mut b) = (0, 1);
    for _ in 0..n {
        (a, b) = (b, a + b);
    }
    a
}

fn check(n: u32, result: u64) -> Result<(), Failure> {
    let expected = plain(n);
    if result == expected {
        return Ok(());
    }
    Err(format!("fib({n}) is {expected}, not {result}").into())
}

pub fn run(plan: &Plan) -> Result<Vec<Row>, Failure> {
    let n = plan.pick(30, 27) as u32;
    // Every call but the leaves joins: one join fewer than there are leaves.
    let joins = plain(n + 1) as usize - 1;
    let runtime = bursar::Runtime::builder().workers(2).build()?;
    let rayon = peers::rayon(2)?;
    let best = plan.best_of(
        joins,
        [
            Side::new("ours", || check(n, runtime.run(|| ours(n))?)),
            Side::new("rayon", || check(n, rayon.install(|| with_rayon(n)))),
        ],
    )?;
    Ok(vec![Row::new(NAME, "rayon", best, "ns/join", Bar::Times(1.5))])
}
