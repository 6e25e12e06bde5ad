//! What budget checks cost: programs of the other rows, with decrements and checks and without, from the same text.
//!
//! Bar: 1.15 × without, in the worst of them.

use bursar::Runtime;
use surface_janus::{Host, Options};

use crate::Failure;
use crate::measure::{Plan, Side};
use crate::table::{Bar, Row};
use crate::workloads::janus::{Subject, call};
use crate::workloads::{janus_fib, janus_loops, janus_primes};

pub const NAME: &str = "janus-checks";

fn measure(plan: &Plan, subject: &Subject, n: usize) -> Result<[f64; 2], Failure> {
    let runtime = Runtime::builder().workers(1).build()?;
    let host = Host::new();
    let (with, without) = (subject.program(&Options::new())?, subject.program(&Options::new().unchecked())?);
    let n = n as i64;
    plan.best_of(
        1_000_000,
        [
            Side::new("with", || call(&runtime, &with, &host, n).map(|_| ())),
            Side::new("without", || call(&runtime, &without, &host, n).map(|_| ())),
        ],
    )
}

pub fn run(plan: &Plan) -> Result<Vec<Row>, Failure> {
    let mut judged = [
        ("without, calls", measure(plan, &janus_fib::SUBJECT, plan.pick(30, 27))?),
        ("without, divisions", measure(plan, &janus_primes::SUBJECT, plan.pick(100_000, 50_000))?),
        ("without, nested loops", measure(plan, &janus_loops::SUBJECT, plan.pick(2_000, 1_000))?),
    ];
    // The worst first: the bar is its.
    judged.sort_by(|(_, a), (_, b)| (b[0] / b[1]).total_cmp(&(a[0] / a[1])));
    let rows = judged.iter().enumerate().map(|(place, (peer, figures))| {
        let bar = if place == 0 { Bar::Times(1.15) } else { Bar::Open };
        Row::new(NAME, *peer, *figures, "ms", bar)
    });
    Ok(rows.collect())
}
