//! A nursery with one child, opened and closed in a loop, on a worker. 2 workers.
//!
//! Bar: 3 × rayon's scope, which can neither be cancelled nor fail.

use std::hint::black_box;

use crate::Failure;
use crate::measure::{Plan, Side};
use crate::table::{Bar, Row};
use crate::workloads::peers;

pub const NAME: &str = "nursery";

fn ours(runtime: &bursar::Runtime, rounds: usize) -> Result<(), Failure> {
    runtime.run(|| {
        for round in 0..rounds {
            bursar::nursery(|n| {
                n.spawn(|| black_box(round));
                Ok(())
            })?;
        }
        Ok::<_, bursar::TaskError>(())
    })??;
    Ok(())
}

fn with_rayon(pool: &rayon::ThreadPool, rounds: usize) {
    pool.install(|| {
        for round in 0..rounds {
            rayon::scope(|scope| {
                scope.spawn(|_| {
                    black_box(round);
                });
            });
        }
    });
}

pub fn run(plan: &Plan) -> Result<Vec<Row>, Failure> {
    let rounds = plan.pick(300_000, 50_000);
    let runtime = bursar::Runtime::builder().workers(2).build()?;
    let pool = peers::rayon(2)?;
    let [ours, rayon] = plan.best_of(
        rounds,
        [
            Side::new("ours", || ours(&runtime, rounds)),
            Side::new("rayon", || {
                with_rayon(&pool, rounds);
                Ok(())
            }),
        ],
    )?;
    Ok(vec![Row::new(NAME, "rayon scope", [ours, rayon], "ns/nursery", Bar::Times(3.0))])
}
