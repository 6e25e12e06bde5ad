//! What a command may ask of the system's scheduler: a class, a weight, a reservation.
//!
//! Room: values. Knows what can be asked for; knows nothing of how it is done.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// How the system treats a command and everything it starts.
///
/// ```
/// use mech_process::Class;
///
/// assert_eq!("batch".parse(), Ok(Class::Batch));
/// assert_eq!(Class::Idle.name(), "idle");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Class {
    /// As the client itself: nothing is changed.
    Normal,
    /// It waits for little: short time slices, a higher share where permitted, its reads and writes first.
    Latency,
    /// It computes for long, and gives way to everything that a person waits for: `SCHED_BATCH`, nice 10, its reads and writes last.
    Batch,
    /// It gets what no other process wants: `SCHED_IDLE`, nice 19, reads and writes only on an idle disk.
    Idle,
}

impl Class {
    /// All of them.
    pub const ALL: [Class; 4] = [Class::Normal, Class::Latency, Class::Batch, Class::Idle];

    /// In one lower-case word.
    pub const fn name(self) -> &'static str {
        match self {
            Class::Normal => "normal",
            Class::Latency => "latency",
            Class::Batch => "batch",
            Class::Idle => "idle",
        }
    }

    /// The niceness that it asks for.
    pub(crate) const fn nice(self) -> Option<i32> {
        match self {
            Class::Normal => None,
            Class::Latency => Some(-10),
            Class::Batch => Some(10),
            Class::Idle => Some(19),
        }
    }

    /// The time slice that it asks for; Linux 6.12 and later have one for each thread of a fair policy.
    ///
    /// Rejected: slices of 20 ms and more for `batch`. They switch less, but something interactive beside eight of them was up to 700 ms late.
    pub(crate) const fn slice(self) -> Option<Duration> {
        match self {
            Class::Latency => Some(Duration::from_micros(500)),
            // A thread with a shorter slice that wakes up preempts one with a longer slice at once, and the usual is 1.4 to 2.8 ms.
            Class::Batch => Some(Duration::from_millis(3)),
            Class::Normal | Class::Idle => None,
        }
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A word that is no class.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownClass(pub String);

impl fmt::Display for UnknownClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is no class; the classes are `normal`, `latency`, `batch` and `idle`", self.0)
    }
}

impl std::error::Error for UnknownClass {}

impl FromStr for Class {
    type Err = UnknownClass;

    fn from_str(text: &str) -> Result<Class, UnknownClass> {
        Class::ALL.into_iter().find(|class| class.name() == text).ok_or_else(|| UnknownClass(text.to_owned()))
    }
}

/// CPU time that is reserved for a command: `budget` in every `period`, each time within `deadline`.
///
/// It is the command's first thread that has it, by `SCHED_DEADLINE`. Linux does not let such a thread pass its reservation on, so other threads and
/// processes that it starts run as if it had none. Where `SCHED_DEADLINE` is refused, `SCHED_FIFO` is the next best: it holds for everything that the command
/// starts, and nothing enforces the budget. Where that is refused, too, [`Class::Latency`] is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reservation {
    /// CPU time in each period.
    pub budget: Duration,
    /// How soon after the beginning of a period it has had its budget.
    pub deadline: Duration,
    /// How often.
    pub period: Duration,
}

impl Reservation {
    /// `budget` in every `period`, at any time within it.
    ///
    /// ```
    /// use mech_process::Reservation;
    /// use std::time::Duration;
    ///
    /// let every_10_ms = Reservation::new(Duration::from_millis(2), Duration::from_millis(10));
    /// assert_eq!(every_10_ms.deadline, every_10_ms.period);
    /// ```
    pub const fn new(budget: Duration, period: Duration) -> Reservation {
        Reservation { budget, deadline: period, period }
    }
}

/// The weight of a command that does not ask for one.
pub(crate) const WEIGHT_DEFAULT: u32 = 100;

/// The niceness that comes nearest to a weight: a step of 1 is a factor of 1.25.
pub(crate) fn nice_of_weight(weight: u32) -> i32 {
    let steps = (f64::from(weight.max(1)) / f64::from(WEIGHT_DEFAULT)).ln() / 1.25_f64.ln();
    (-steps.round() as i32).clamp(-20, 19)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn twice_the_weight_is_three_steps_of_niceness() {
        let of = |weights: [u32; 5]| weights.map(nice_of_weight);
        assert_eq!(of([100, 200, 50, 1, 10_000]), [0, -3, 3, 19, -20]);
    }

    #[test]
    fn a_word_that_is_no_class_is_answered_with_those_there_are() {
        let error = "fast".parse::<Class>().unwrap_err().to_string();
        assert_eq!(error, "`fast` is no class; the classes are `normal`, `latency`, `batch` and `idle`");
    }
}
