//! Groups of tasks with weights on saturated workers: what each gets in a second. 2 workers, turns of 20 µs.
//!
//! The figure is the largest distance of a group from its share, in per cent of that share. No peer has groups.
//!
//! Bars: 2 % for groups of weight 1, 2 and 4 with 50 tasks each, and for a group of one task beside one of 10,000.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use bursar::prelude::*;

use crate::Failure;
use crate::measure::Plan;
use crate::table::{Bar, Row};

pub const NAME: &str = "shares";
const TURN: Duration = Duration::from_micros(20);
const OFF_BY_MAX: f64 = 2.0;

/// A group: its weight, and how many tasks it has.
type Group = (u32, usize);

/// What each group computed, in turns, while all of them were busy for `time`.
fn turns<const N: usize>(runtime: &Runtime, groups: [Group; N], time: Duration) -> Result<[u64; N], Failure> {
    let turns: [AtomicU64; N] = std::array::from_fn(|_| AtomicU64::new(0));
    let (begun, over) = (&AtomicBool::new(false), &AtomicBool::new(false));
    let all = &turns;
    runtime.run(|| {
        nursery(|n| {
            for (group, (weight, tasks)) in groups.into_iter().enumerate() {
                n.try_spawn(move || {
                    nursery_with(NurseryOptions::new().weight(weight), |n| {
                        for _ in 0..tasks {
                            n.spawn(move || {
                                while !over.load(Relaxed) {
                                    let turn = Instant::now();
                                    while turn.elapsed() < TURN {
                                        std::hint::spin_loop();
                                    }
                                    if begun.load(Relaxed) {
                                        all[group].fetch_add(1, Relaxed);
                                    }
                                    yield_now();
                                }
                            });
                        }
                        Ok(())
                    })
                });
            }
            sleep(time / 2); // until all of them have started
            begun.store(true, Relaxed);
            sleep(time);
            over.store(true, Relaxed);
            Ok(())
        })
    })??;
    Ok(turns.map(AtomicU64::into_inner))
}

/// The largest distance from a share, in per cent of it.
fn off_by<const N: usize>(turns: [u64; N], groups: [Group; N]) -> f64 {
    let all: u64 = turns.iter().sum();
    let weights: u32 = groups.iter().map(|(weight, _)| weight).sum();
    let distances = turns.iter().zip(groups).map(|(turns, (weight, _))| {
        let share = f64::from(weight) / f64::from(weights);
        (*turns as f64 / all as f64 / share - 1.0).abs() * 100.0
    });
    distances.fold(0.0, f64::max)
}

pub fn run(plan: &Plan) -> Result<Vec<Row>, Failure> {
    let time = Duration::from_millis(plan.pick(1_000, 250) as u64);
    let runtime = Runtime::builder().workers(2).build()?;
    plan.step("1:2:4");
    let weighted = [(1, 50), (2, 50), (4, 50)];
    let by_weight = off_by(turns(&runtime, weighted, time)?, weighted);
    plan.step("one against many");
    let lopsided = [(1, 1), (1, plan.pick(10_000, 1_000))];
    let by_group = off_by(turns(&runtime, lopsided, time)?, lopsided);
    Ok(vec![
        Row::new(NAME, "bar, 1:2:4", [by_weight, OFF_BY_MAX], "% off", Bar::AtMost),
        Row::new(NAME, "bar, 1 task against 10^4", [by_group, OFF_BY_MAX], "% off", Bar::AtMost),
    ])
}
