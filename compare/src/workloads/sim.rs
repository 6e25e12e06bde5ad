//! Events of a simulated machine of 64 CPUs on one core: 256 threads that run and sleep, with the laws looked at after every event.
//!
//! Bar: at most 200 ns an event, which is 5 million a second. What the laws cost is shown beside it.

use proof_sim::{Machine, Program, Step};

use crate::Failure;
use crate::measure::{Plan, Side};
use crate::table::{Bar, LIMIT, Row};

pub const NAME: &str = "sim";

const CPUS: u32 = 64;
const THREADS: u32 = 256;

/// A machine that has run for a while: every CPU is busy, and threads have moved.
fn machine() -> Machine {
    let mut machine = Machine::new(CPUS, 7);
    let process = machine.process("all");
    for number in 0..THREADS {
        machine
            .thread(&format!("t{number}"), process)
            .runs(Program::forever(vec![Step::RunBetween(100_000, 2_000_000), Step::SleepBetween(10_000, 3_000_000)]));
    }
    machine
}

pub fn run(plan: &Plan) -> Result<Vec<Row>, Failure> {
    let time = plan.pick(500_000_000, 200_000_000) as u64;
    // The seed decides how many events that is: the same in each round.
    let events = machine().run_for(time).events;
    let check = |seen: u64| {
        if seen == events { Ok(()) } else { Err(Failure::from(format!("{seen} events instead of {events}"))) }
    };
    let [with, without] = plan.best_of(
        events as usize,
        [
            Side::new("ours, laws looked at", || check(machine().run_for(time).events)),
            Side::new("ours, laws not looked at", || check(machine().without_laws().run_for(time).events)),
        ],
    )?;
    Ok(vec![
        Row::new(NAME, LIMIT, [with, 200.0], "ns", Bar::AtMost),
        Row::new(NAME, "without laws", [with, without], "ns", Bar::Open),
    ])
}
