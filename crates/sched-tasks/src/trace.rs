//! What happened in a seeded run, as a list that can be compared, kept in a file and replayed.
//!
//! Room: values. Knows events and choices, and how they are written and read.
//!
//! # Invariant
//! Two runs with the same events have the same hash, on any machine and in any build.
//!
//! # Why it holds
//! The hash is FNV-1a over [`Event::bytes`], numbers of fixed width in a fixed order. No address, no name, no real time is in it.

use std::{
    collections::VecDeque,
    error::Error,
    fmt::{self, Write as _},
    str::FromStr,
    time::Duration,
};

use vocab::TaskId;

use crate::chance::{Decision, Drawn};

/// What a worker did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum What {
    /// Took an unstarted task from this worker.
    Stole {
        /// From which worker.
        victim: u32,
    },
    /// Started the task, or polled the future.
    Started,
    /// Went on with the task.
    Resumed,
    /// The task let the others run first.
    Yielded,
    /// The task waits for something.
    Waited,
    /// The worker was interrupted in the middle of the task.
    Preempted,
    /// The task ended; or a future's poll did.
    Ended,
    /// The task overflowed its stack.
    Overflowed,
    /// Not a worker: time went on to here, and an alarm went off.
    Alarmed {
        /// Since the beginning of the run.
        at: Duration,
    },
}

impl What {
    fn code(self) -> (u8, u64) {
        match self {
            What::Stole { victim } => (1, u64::from(victim)),
            What::Started => (2, 0),
            What::Resumed => (3, 0),
            What::Yielded => (4, 0),
            What::Waited => (5, 0),
            What::Preempted => (6, 0),
            What::Ended => (7, 0),
            What::Overflowed => (8, 0),
            What::Alarmed { at } => (9, nanos(at)),
        }
    }

    fn of_code(code: u8, more: u64) -> Option<Self> {
        Some(match code {
            1 => What::Stole { victim: u32::try_from(more).ok()? },
            2 => What::Started,
            3 => What::Resumed,
            4 => What::Yielded,
            5 => What::Waited,
            6 => What::Preempted,
            7 => What::Ended,
            8 => What::Overflowed,
            9 => What::Alarmed { at: Duration::from_nanos(more) },
            _ => return None,
        })
    }
}

/// Some 584 years fit; what is longer is cut.
pub(crate) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// One event of a seeded run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Event {
    /// Which worker; none for the clock.
    pub worker: Option<u32>,
    /// What it did.
    pub what: What,
    /// With which task; 0 if with none.
    pub task: TaskId,
}

impl Event {
    pub(crate) fn new(worker: Option<u32>, what: What, task: Option<TaskId>) -> Self {
        Self { worker, what, task: task.unwrap_or(TaskId(0)) }
    }

    /// What is hashed: 21 bytes.
    fn bytes(&self) -> [u8; 21] {
        let mut bytes = [0; 21];
        let (code, more) = self.what.code();
        bytes[..4].copy_from_slice(&self.worker.map_or(0, |worker| worker + 1).to_le_bytes());
        bytes[4] = code;
        bytes[5..13].copy_from_slice(&self.task.0.to_le_bytes());
        bytes[13..].copy_from_slice(&more.to_le_bytes());
        bytes
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let task = self.task;
        match self.worker {
            Some(worker) => write!(f, "worker {worker}: ")?,
            None => write!(f, "clock: ")?,
        }
        match self.what {
            What::Stole { victim } => write!(f, "steals {task} from worker {victim}"),
            What::Started => write!(f, "starts {task}"),
            What::Resumed => write!(f, "goes on with {task}"),
            What::Yielded => write!(f, "{task} yields"),
            What::Waited => write!(f, "{task} waits"),
            What::Preempted => write!(f, "is interrupted in {task}"),
            What::Ended => write!(f, "{task} ends"),
            What::Overflowed => write!(f, "{task} overflows its stack"),
            What::Alarmed { at } => write!(f, "an alarm at {at:?}"),
        }
    }
}

/// What happened in a seeded run: [`Runtime::trace`](crate::Runtime::trace) has that of the last one, and
/// [`Builder::replay`](crate::Builder::replay) repeats it.
///
/// Printed, it is a list that people can read, and [`str::parse`] reads it again. [`encode`](Self::encode) says the same with numbers for the events: for files.
///
/// ```
/// use bursar::{Runtime, determinism::Trace};
///
/// let runtime = Runtime::builder().workers(3).seeded(42).build()?;
/// runtime.run(|| bursar::join(bursar::yield_now, bursar::yield_now))?;
/// let kept = runtime.trace().encode();
///
/// let trace: Trace = kept.parse().unwrap();
/// let again = Runtime::builder().replay(trace).build()?;
/// again.run(|| bursar::join(bursar::yield_now, bursar::yield_now))?;
/// assert_eq!(again.trace().hash(), runtime.trace().hash());
/// # Ok::<(), bursar::RunError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Trace {
    pub(crate) seed: u64,
    pub(crate) workers: usize,
    /// One operation in so many was interrupted, on average.
    pub(crate) one_in: u32,
    pub(crate) steps: u64,
    pub(crate) hash: u64,
    pub(crate) dropped: u64,
    pub(crate) events: Vec<Event>,
    pub(crate) decisions: Vec<Drawn>,
}

impl Trace {
    /// The seed of the run.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// How many virtual workers there were.
    pub fn workers(&self) -> usize {
        self.workers
    }

    /// How many steps they took.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// A number that stands for all events, those that were not kept included. The same on any machine.
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// The last events, oldest first. As many as [`Builder::trace_events`](crate::Builder::trace_events) allows.
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// How many events came before those that were kept.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// What was chosen, in order: with this the run can be repeated.
    pub fn decisions(&self) -> &[Drawn] {
        &self.decisions
    }

    /// All of it as text, to be read again with [`str::parse`]. Shorter than what is displayed.
    pub fn encode(&self) -> String {
        let mut text = String::new();
        self.write(&mut text, |event, text| {
            let (code, more) = event.what.code();
            let worker = event.worker.map_or(-1, i64::from);
            writeln!(text, "{worker} {code} {} {more}", event.task.0)
        })
        .expect("a string takes any text");
        text
    }

    /// Writes all of it, and a line for each event.
    fn write<W: fmt::Write>(&self, to: &mut W, line: impl Fn(&Event, &mut W) -> fmt::Result) -> fmt::Result {
        write!(
            to,
            "bursar-trace 1\nseed {}\nworkers {}\npreempt {}\nsteps {}\nhash {:016x}\ndropped {}\ndecisions",
            self.seed, self.workers, self.one_in, self.steps, self.hash, self.dropped
        )?;
        for (at, Drawn { why, among, chosen }) in self.decisions.iter().enumerate() {
            write!(to, "{}{}{among}:{chosen}", if at % 16 == 0 { '\n' } else { ' ' }, why.letter())?;
        }
        to.write_str("\nevents\n")?;
        self.events.iter().try_for_each(|event| line(event, to))
    }

    /// In short, for a reader of one run: what it was, and its events.
    pub(crate) fn story(&self) -> String {
        let Self { seed, workers, steps, hash, .. } = self;
        let decisions = self.decisions.len();
        let events = self.last_events(usize::MAX);
        format!("seed {seed}, {workers} workers, {steps} steps, {decisions} decisions, hash {hash:016x}\n{events}")
    }

    /// The last `count` events, a line each.
    pub(crate) fn last_events(&self, count: usize) -> String {
        let from = self.events.len().saturating_sub(count);
        let mut text = String::new();
        let before = self.dropped + from as u64;
        if before > 0 {
            text.push_str(&format!("  … {before} events before\n"));
        }
        for event in &self.events[from..] {
            text.push_str(&format!("  {event}\n"));
        }
        text
    }
}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, |event, f| writeln!(f, "{event}"))
    }
}

/// Why a text is not a [`Trace`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ParseTraceError {
    /// In which line, counting from 1.
    pub line: usize,
    /// What was expected there.
    pub expected: &'static str,
    /// What was there.
    pub found: String,
}

impl fmt::Display for ParseTraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { line, expected, found } = self;
        write!(
            f,
            "line {line} of the trace: {expected} expected, found {found:?}; what can be read is what `Trace` displays, or `Trace::encode` writes"
        )
    }
}

impl Error for ParseTraceError {}

/// The lines of a trace that have not been read.
struct Lines<'a> {
    lines: std::iter::Peekable<std::str::Lines<'a>>,
    line: usize,
}

impl<'a> Lines<'a> {
    fn next(&mut self) -> &'a str {
        self.line += 1;
        self.lines.next().unwrap_or_default()
    }

    fn failed(&self, expected: &'static str, found: &str) -> ParseTraceError {
        ParseTraceError { line: self.line, expected, found: found.chars().take(60).collect() }
    }

    /// The value of a line `name value`.
    fn value<T>(&mut self, name: &'static str, parse: impl Fn(&str) -> Option<T>) -> Result<T, ParseTraceError> {
        let line = self.next();
        let value = line.strip_prefix(name).and_then(|rest| parse(rest.trim()));
        value.ok_or_else(|| self.failed(name, line))
    }
}

fn parse_drawn(word: &str) -> Option<Drawn> {
    let why = Decision::of_letter(word.chars().next()?)?;
    let (among, chosen) = word.get(1..)?.split_once(':')?;
    let (among, chosen) = (among.parse().ok()?, chosen.parse().ok()?);
    (chosen < among).then(|| Drawn::new(why, among, chosen))
}

/// An event, in words or in numbers.
fn parse_event(line: &str) -> Option<Event> {
    parse_words(line).or_else(|| parse_numbers(line))
}

/// As [`Event`] is displayed.
fn parse_words(line: &str) -> Option<Event> {
    let (who, did) = line.split_once(": ")?;
    let worker = match who {
        "clock" => None,
        _ => Some(who.strip_prefix("worker ")?.parse().ok()?),
    };
    let id = |text: &str| Some(TaskId(text.strip_prefix('#')?.parse().ok()?));
    if let Some(at) = did.strip_prefix("an alarm at ") {
        return Some(Event { worker, what: What::Alarmed { at: parse_time(at)? }, task: TaskId(0) });
    }
    if let Some(stolen) = did.strip_prefix("steals ") {
        let (task, victim) = stolen.split_once(" from worker ")?;
        return Some(Event { worker, what: What::Stole { victim: victim.parse().ok()? }, task: id(task)? });
    }
    let before =
        [("starts ", What::Started), ("goes on with ", What::Resumed), ("is interrupted in ", What::Preempted)];
    let behind = [
        (" yields", What::Yielded),
        (" waits", What::Waited),
        (" ends", What::Ended),
        (" overflows its stack", What::Overflowed),
    ];
    let named = before.into_iter().find_map(|(verb, what)| Some((what, did.strip_prefix(verb)?)));
    let (what, task) =
        named.or_else(|| behind.into_iter().find_map(|(verb, what)| Some((what, did.strip_suffix(verb)?))))?;
    Some(Event { worker, what, task: id(task)? })
}

/// As a [`Duration`] is displayed: exactly, in the largest unit of which there is one.
fn parse_time(text: &str) -> Option<Duration> {
    let units = [("ns", 1), ("µs", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000)];
    let (number, nanos_each) = units.into_iter().find_map(|(unit, nanos)| Some((text.strip_suffix(unit)?, nanos)))?;
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    let mut nanos = whole.parse::<u64>().ok()?.checked_mul(nanos_each)?;
    let mut each = nanos_each;
    for digit in part.chars() {
        each /= 10;
        nanos = nanos.checked_add(u64::from(digit.to_digit(10)?).checked_mul(each)?)?;
    }
    (part.len() <= nanos_each.ilog10() as usize).then_some(Duration::from_nanos(nanos))
}

/// As [`Trace::encode`] writes it.
fn parse_numbers(line: &str) -> Option<Event> {
    let mut words = line.split(' ');
    let worker: i64 = words.next()?.parse().ok()?;
    let code = words.next()?.parse().ok()?;
    let task = TaskId(words.next()?.parse().ok()?);
    let what = What::of_code(code, words.next()?.parse().ok()?)?;
    let worker = if worker == -1 { None } else { Some(u32::try_from(worker).ok()?) };
    Some(Event { worker, what, task })
}

impl FromStr for Trace {
    type Err = ParseTraceError;

    fn from_str(text: &str) -> Result<Self, ParseTraceError> {
        let mut lines = Lines { lines: text.lines().peekable(), line: 0 };
        lines.value("bursar-trace 1", |rest| rest.is_empty().then_some(()))?;
        let mut trace = Trace {
            seed: lines.value("seed", |text| text.parse().ok())?,
            workers: lines.value("workers", |text| text.parse().ok())?,
            one_in: lines.value("preempt", |text| text.parse().ok())?,
            steps: lines.value("steps", |text| text.parse().ok())?,
            hash: lines.value("hash", |text| u64::from_str_radix(text, 16).ok())?,
            dropped: lines.value("dropped", |text| text.parse().ok())?,
            ..Trace::default()
        };
        lines.value("decisions", |rest| rest.is_empty().then_some(()))?;
        loop {
            let line = lines.next();
            if line == "events" {
                break;
            }
            for word in line.split(' ') {
                let drawn = parse_drawn(word);
                trace.decisions.push(drawn.ok_or_else(|| lines.failed("a decision, as s4:1,", word))?);
            }
        }
        while lines.lines.peek().is_some() {
            let line = lines.next();
            let event = parse_event(line);
            trace.events.push(event.ok_or_else(|| lines.failed("an event, as 0 2 1 0,", line))?);
        }
        Ok(trace)
    }
}

/// A trace in the making.
#[derive(Debug)]
pub(crate) struct Recorder {
    hash: u64,
    kept: VecDeque<Event>,
    keeps: usize,
    dropped: u64,
}

impl Recorder {
    pub(crate) fn new(keeps: usize) -> Self {
        Self { hash: 0xcbf2_9ce4_8422_2325, kept: VecDeque::new(), keeps, dropped: 0 }
    }

    pub(crate) fn note(&mut self, event: Event) {
        for byte in event.bytes() {
            self.hash = (self.hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
        if self.kept.len() == self.keeps {
            self.dropped += 1;
            self.kept.pop_front();
        }
        if self.keeps > 0 {
            self.kept.push_back(event);
        }
    }

    /// What was recorded; seed, workers, steps and decisions are the caller's to fill in.
    pub(crate) fn finish(self) -> Trace {
        Trace { hash: self.hash, dropped: self.dropped, events: self.kept.into(), ..Trace::default() }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sample() -> Trace {
        let mut recorder = Recorder::new(3);
        for (worker, what) in [
            (Some(0), What::Started),
            (Some(1), What::Stole { victim: 0 }),
            (None, What::Alarmed { at: Duration::from_millis(5) }),
            (Some(1), What::Ended),
        ] {
            recorder.note(Event::new(worker, what, worker.map(|_| TaskId(7))));
        }
        let decisions = (2..40).map(|among| Drawn::new(Decision::Step, among, among / 2)).collect();
        Trace { seed: 42, workers: 2, one_in: 8, steps: 3, decisions, ..recorder.finish() }
    }

    #[test]
    fn a_trace_that_was_written_is_read_as_it_was() {
        let trace = sample();
        assert_eq!(trace.encode().parse(), Ok(trace.clone()));
        assert_eq!((trace.dropped(), trace.events().len()), (1, 3));
        let empty = Trace::default();
        assert_eq!(empty.encode().parse(), Ok(empty));
    }

    #[test]
    fn a_trace_that_was_displayed_is_read_as_it_was() {
        let trace = sample();
        let shown = trace.to_string();
        assert_eq!(shown.parse(), Ok(trace.clone()), "{shown}");
        assert!(
            shown.contains("worker 1: steals #7 from worker 0") && shown.contains("clock: an alarm at 5ms"),
            "{shown}"
        );
        assert_eq!(Trace::default().to_string().parse(), Ok(Trace::default()));
    }

    fn any_event() -> impl Strategy<Value = Event> {
        // The clock has no task, and only it has alarms.
        let time = prop_oneof![0..2_000u64, 0..2_000_000_000u64, any::<u64>()];
        let alarm = time.prop_map(|nanos| Event::new(None, What::Alarmed { at: Duration::from_nanos(nanos) }, None));
        let what = (1..9u8, any::<u32>()).prop_map(|(code, more)| {
            What::of_code(code, if code == 1 { u64::from(more) } else { 0 })
                .expect("codes 1 to 8 are events of workers")
        });
        let done = (0..256u32, what, any::<u64>());
        prop_oneof![alarm, done.prop_map(|(worker, what, task)| Event::new(Some(worker), what, Some(TaskId(task))))]
    }

    fn any_trace() -> impl Strategy<Value = Trace> {
        let why = prop::sample::select(Decision::ALL.to_vec());
        let drawn = (why, 1..1_000u32, any::<prop::sample::Index>())
            .prop_map(|(why, among, chosen)| Drawn::new(why, among, chosen.index(among as usize) as u32));
        let numbers = (any::<u64>(), 1..256usize, any::<u32>(), any::<u64>(), any::<u64>(), any::<u64>());
        let lists = (prop::collection::vec(any_event(), 0..40), prop::collection::vec(drawn, 0..40));
        (numbers, lists).prop_map(|((seed, workers, one_in, steps, hash, dropped), (events, decisions))| Trace {
            seed,
            workers,
            one_in,
            steps,
            hash,
            dropped,
            events,
            decisions,
        })
    }

    proptest! {
        #[test]
        fn whatever_a_trace_displays_or_encodes_it_reads(trace in any_trace()) {
            prop_assert_eq!(trace.to_string().parse(), Ok(trace.clone()), "{}", trace);
            prop_assert_eq!(trace.encode().parse(), Ok(trace.clone()), "{}", trace.encode());
        }

        #[test]
        fn a_text_that_is_no_trace_is_refused_and_not_more(text in "[a-z0-9#:. µ\n]{0,80}", at in any::<prop::sample::Index>()) {
            let shown = sample().to_string();
            let mut at = at.index(shown.len());
            while !shown.is_char_boundary(at) {
                at -= 1;
            }
            let _ = format!("{}{text}{}", &shown[..at], &shown[at..]).parse::<Trace>();
            let _ = parse_time(&text);
        }
    }

    #[test]
    fn the_hash_is_the_same_everywhere() {
        assert_eq!(sample().hash(), GOLDEN, "{:#x}", sample().hash());
    }

    /// As another implementation of the same hash has it.
    const GOLDEN: u64 = 0x0d00_4de1_8261_ca1b;

    #[test]
    fn what_is_not_a_trace_is_refused_with_its_line() {
        for (text, line) in [("", 1), ("bursar-trace 1\nseed x", 2)] {
            assert_eq!(text.parse::<Trace>().unwrap_err().line, line);
        }
        let broken = sample().encode().replace("s4:2", "s4:4");
        let error = broken.parse::<Trace>().unwrap_err();
        assert_eq!((error.line, error.found.as_str()), (9, "s4:4"));
        let cut = sample().encode().replace("events\n", "");
        assert!(cut.parse::<Trace>().is_err());
    }
}
