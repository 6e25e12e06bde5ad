//! What a simulated thread does.
//!
//! Room: values.

use policy_cpu::Nanos;
use vocab::SplitMix64;

/// One thing a thread does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Computes for so long.
    Run(Nanos),
    /// Computes for a random time from the first to the second.
    RunBetween(Nanos, Nanos),
    /// Waits for so long.
    Sleep(Nanos),
    /// Waits for a random time from the first to the second.
    SleepBetween(Nanos, Nanos),
    /// Calls the thread of that number and waits for its reply.
    Call(u32),
    /// Waits for a call.
    Receive,
    /// Replies to the call it serves, and waits for the next.
    Reply,
    /// Lets others go first.
    Yield,
    /// Serves a request of the ring of that number, if there is one. If there is none it looks again soon where the ring is polled, and else waits for one.
    Poll(u32),
    /// Ends.
    Exit,
}

impl Step {
    /// How long it takes.
    pub(crate) fn length(self, dice: &mut SplitMix64) -> Nanos {
        match self {
            Step::Run(time) | Step::Sleep(time) => time,
            Step::RunBetween(from, to) | Step::SleepBetween(from, to) => between((from, to), dice),
            _ => 0,
        }
    }
}

/// A random time from the first to the second.
pub(crate) fn between((from, to): (Nanos, Nanos), dice: &mut SplitMix64) -> Nanos {
    if from == to { from } else { from + dice.next_u64() % (to - from + 1) }
}

/// Steps, once or again and again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    pub(crate) steps: Vec<Step>,
    pub(crate) again: bool,
}

impl Program {
    /// The steps once, and then the end.
    pub fn once(steps: Vec<Step>) -> Self {
        Program { steps, again: false }
    }

    /// The steps again and again.
    pub fn forever(steps: Vec<Step>) -> Self {
        assert!(
            steps.iter().any(|step| !matches!(step, Step::Yield | Step::Run(0) | Step::Sleep(0))),
            "a program that takes no time never lets time pass"
        );
        Program { steps, again: true }
    }

    /// A server: waits for a call, computes for so long, replies; again and again.
    pub fn server(time: Nanos) -> Self {
        Program { steps: vec![Step::Receive, Step::Run(time), Step::Reply], again: true }
    }

    pub(crate) fn step(&self, at: usize) -> Step {
        match self.steps.get(at) {
            Some(step) => *step,
            None if self.again && !self.steps.is_empty() => self.steps[at % self.steps.len()],
            None => Step::Exit,
        }
    }
}
