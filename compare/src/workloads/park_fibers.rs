//! A million guarded fibers, all blocked on one channel. 2 workers, a process for each side.
//!
//! Bars: 5.5 KiB resident each, 64 memory mappings in all, and they all wake and finish.
//! A fiber that blocks has touched one page of its stack: 4 KiB. The rest is for us.
//!
//! May maps every stack and its guard separately and dies near 32,000 fibers, at the
//! kernel's limit of 65,530 mappings; it is measured below that, for orientation.

use crate::Failure;
use crate::measure::Plan;
use crate::memory::in_child;
use crate::parked::Parked;
use crate::table::{Bar, LIMIT, Row};

const PROGRAM: &str = "parked_fibers";
pub const NAME: &str = "park-fibers";
const MAY_FIBERS: usize = 20_000;
const RESIDENT_KIB_MAX: f64 = 5.5;
const MAPPINGS_MAX: f64 = 64.0;

pub fn run(plan: &Plan) -> Result<Vec<Row>, Failure> {
    let count = plan.pick(1_000_000, 100_000);
    plan.step("ours");
    let ours = in_child(PROGRAM, "ours", count)?;
    plan.step("may");
    let may = in_child(PROGRAM, "may", MAY_FIBERS)?;
    let kib = |parked: Parked, count| parked.resident_bytes as f64 / 1024.0 / count as f64;
    let (ours_kib, may_kib) = (kib(ours, count), kib(may, MAY_FIBERS));
    let mappings = [ours.mappings as f64, MAPPINGS_MAX];
    Ok(vec![
        Row::new(NAME, LIMIT, [ours_kib, RESIDENT_KIB_MAX], "KiB/fiber", Bar::AtMost),
        Row::new(NAME, LIMIT, mappings, "mappings", Bar::AtMost),
        Row::new(NAME, "may, 20000 fibers", [ours_kib, may_kib], "KiB/fiber", Bar::Open),
    ])
}
