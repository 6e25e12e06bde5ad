//! A hundred tenants in one process, one of them hostile: `cargo run --release -p bursar --example tenants`.
//!
//! Every tenant lives in a nursery of its own, with a capability that was narrowed from one root: so many tasks at a time, each with so much to spend. One of them
//! tries an endless loop, a fork bomb, an allocation bomb, floods of messages and system calls, and a forged capability. Each time it is stopped by name and started
//! again, and in the end its capability is revoked. What it costs the others is measured, with and without the attack in turns.

mod hostile;
mod table;
mod tenant;
mod work;

use std::{
    error::Error,
    fmt,
    process::ExitCode,
    sync::atomic::{
        AtomicBool,
        Ordering::{Relaxed, SeqCst},
    },
    time::{Duration, Instant},
};

use bursar::{
    budget::BudgetedAlloc,
    capability::{Cap, CapSpawn, Ledger},
    prelude::*,
    sync::{Mutex, oneshot},
};

use self::{
    hostile::{Attack, Order, Record, Records},
    table::{Ink, Screen, grouped, paint, table},
    tenant::{TASKS_MAX, Tenant},
    work::{Clock, Work},
};

/// Charges every allocation to the task that makes it. Without this line, memory is not limited.
#[global_allocator]
static MEMORY: BudgetedAlloc = BudgetedAlloc::system();

/// Ctrl-C was pressed.
static STOP: AtomicBool = AtomicBool::new(false);

/// How soon Ctrl-C is noticed.
const LOOK: Duration = Duration::from_millis(50);
const HOSTILE: usize = 66;
const USAGE: &str = "\
Runs many tenants in one process, of which one is hostile, and shows what that costs the others.

usage: tenants [--tenants N] [--seconds N]

  --tenants N   how many there are, 2 to 1000 [default: 100]
  --seconds N   about how long it takes, 1 to 600 [default: 6]; longer with many tenants,
                since an attack goes to the back of the line again and again
  --help        this text

Ctrl-C ends it with the table so far.";

/// How often calm and attack take turns, for each kind of attack.
const ROUNDS: u32 = 4;
/// How many turns it takes until all are there and at work.
const MOVING_IN: u32 = 6;

/// What the evening brought, besides the records.
#[derive(Default)]
struct Evening {
    /// Units a second, every time it was calm.
    calm: Vec<f64>,
    /// Memory before the first attack.
    resident_mib: Option<f64>,
}

/// Ctrl-C was pressed.
#[derive(Debug)]
struct Stopped;

impl fmt::Display for Stopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("stopped by Ctrl-C")
    }
}

impl Error for Stopped {}

pub(crate) struct Host {
    ledger: Ledger,
    root: Cap<CapSpawn>,
    tenants: Vec<Tenant>,
    /// Which of them it is.
    hostile: usize,
    records: Records,
    workers: usize,
    begun: Instant,
}

impl Host {
    fn new(tenants: usize, ledger: Ledger, workers: usize) -> Result<Self, Box<dyn Error>> {
        // All authority comes from here: revoking this one would end everybody's.
        let root = ledger.grant(CapSpawn::new().max_tasks(TASKS_MAX * tenants as u64));
        let hostile = HOSTILE.min(tenants - 1);
        let tenants = (0..tenants).map(|index| Tenant::admit(&root, index)).collect::<Result<_, _>>()?;
        Ok(Self { ledger, root, tenants, hostile, records: Mutex::default(), workers, begun: Instant::now() })
    }

    fn innocents(&self) -> impl Iterator<Item = &Tenant> {
        self.tenants.iter().enumerate().filter(|(index, _)| *index != self.hostile).map(|(_, tenant)| tenant)
    }

    /// What the innocents have done.
    fn units(&self) -> u64 {
        self.innocents().map(|tenant| tenant.units.load(Relaxed)).sum()
    }

    /// Watches for a while, and says what the innocents did meanwhile.
    fn watch(&self, screen: &Screen, what: &str, time: Duration) -> Result<Work, Stopped> {
        let (until, clock) = (Instant::now() + time, Clock::start(self));
        while Instant::now() < until {
            sleep(LOOK.min(until.saturating_duration_since(Instant::now()))); // a plain thread sleeps here, not a task
            if STOP.load(SeqCst) {
                return Err(Stopped);
            }
            screen.refresh(self, what);
        }
        Ok(clock.work(self))
    }

    /// The whole evening. Ends early, and well, by Ctrl-C.
    fn play(&self, runtime: &Runtime, screen: &Screen, length: Duration) -> Result<Evening, TaskError> {
        let mut evening = Evening::default();
        let attacks = &Attack::ALL[..Attack::ALL.len() - 1]; // the last needs no time of its own
        let slot = length / (2 * ROUNDS * attacks.len() as u32 + MOVING_IN);
        runtime.nursery(|n| {
            let (orders, to_obey) = channel(1);
            let hostile = &self.tenants[self.hostile];
            // From here on this thread directs and draws; what it takes from the workers is CPU time only.
            let mut direct = || -> Result<(), TaskError> {
                // One after the other. A started fiber stays on its worker: if all came at once, the first worker to wake would take most of them, and keep them.
                for (index, tenant) in self.tenants.iter().enumerate() {
                    if index == self.hostile {
                        let to_obey = to_obey.clone();
                        n.task().name("hostile").spawn(move || hostile::host(hostile, to_obey, &self.records));
                    } else {
                        n.task().name(&*tenant.name).try_spawn(|| tenant.serve());
                    }
                    self.watch(screen, "moving in", slot * (MOVING_IN - 1) / self.tenants.len() as u32)?;
                }
                self.watch(screen, "warming up", slot)?;
                evening.resident_mib = resident_mib("VmRSS:");
                let attack = |attack: Attack, until: Instant| -> Result<(), TaskError> {
                    let (done, ended) = oneshot::channel();
                    orders.send(Order { attack, until, done })?;
                    let watched = self.watch(screen, attack.name(), until.saturating_duration_since(Instant::now()));
                    ended.recv()?; // the last attempt is over: what follows is calm again
                    Ok(watched.map(drop)?)
                };
                for (at, &kind) in attacks.iter().enumerate() {
                    // In turns, short ones, and of the same length: what else the machine does meanwhile falls on both alike.
                    for _ in 0..ROUNDS {
                        let clock = Clock::start(self);
                        attack(kind, Instant::now() + slot)?;
                        let beside = clock.work(self);
                        let calm = self.watch(screen, "calm", Duration::from_secs_f64(beside.seconds))?;
                        let record = &mut self.records.lock()[kind as usize];
                        record.beside += beside;
                        record.without += calm;
                        evening.calm.push(calm.units_per_second());
                    }
                    if at % 3 == 0 {
                        screen.snapshot(self, kind.name());
                    }
                }
                hostile.cap.revoke();
                attack(Attack::AfterRevocation, Instant::now())
            };
            match direct() {
                Err(error) if error.downcast_ref::<Stopped>().is_none() => Err(error),
                _ => {
                    n.dismiss(); // everybody goes home
                    Ok(())
                }
            }
        })?;
        Ok(evening)
    }

    /// Measured numbers, and nothing else.
    fn verdict(&self, evening: &Evening) -> Result<(), String> {
        println!("{}", paint(Ink::Bold, "What the hostile tenant was told the first time"));
        let records = self.records.lock();
        for (attack, record) in Attack::ALL.iter().zip(&*records) {
            if let Some(told) = &record.told {
                println!("  {}: {}", paint(Ink::Red, attack.name()), paint(Ink::Dim, told));
            }
        }
        println!("\n{}", paint(Ink::Bold, "Verdict"));
        let sum = |part: fn(&Record) -> Work| {
            records.iter().map(part).fold(Work::default(), |mut sum, work| {
                sum += work;
                sum
            })
        };
        let (without, beside) = (sum(|record| record.without), sum(|record| record.beside));
        if without.seconds > 0.0 {
            let (without, beside) = (without.units_per_second(), beside.units_per_second());
            println!(
                "  innocents: {} units/s without the hostile tenant, {} beside it: {:.1} %",
                grouped(without),
                grouped(beside),
                beside / without * 100.0
            );
        }
        if let (Some(least), Some(most)) =
            (evening.calm.iter().copied().reduce(f64::min), evening.calm.iter().copied().reduce(f64::max))
        {
            let (times, least, most) = (evening.calm.len(), grouped(least), grouped(most));
            println!("  without it {times} times were measured: the slowest {least} units/s, the fastest {most}");
        }
        if let (Some(before), Some(peak), Some(now)) =
            (evening.resident_mib, resident_mib("VmHWM:"), resident_mib("VmRSS:"))
        {
            println!("  memory: {before:.1} MiB before the first attack, {peak:.1} at the highest, {now:.1} now");
        }
        if let Some(record) = self.ledger.audit().last() {
            println!("  last line of the audit log: {record}");
        }
        let tries: u64 = records.iter().map(|record| record.tries).sum();
        match records.iter().map(|record| record.succeeded).sum::<u64>() {
            0 => println!("  {} attempts, all stopped", grouped(tries as f64)),
            succeeded => return Err(format!("{succeeded} of {tries} attempts were not stopped")),
        }
        Ok(())
    }
}

/// A line of what the system says about this process. None where there is no `/proc`.
fn resident_mib(line: &str) -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let value = status.lines().find_map(|text| text.strip_prefix(line))?;
    Some(value.trim().strip_suffix(" kB")?.parse::<f64>().ok()? / 1024.0)
}

fn run(tenants: usize, seconds: u64) -> Result<(), Box<dyn Error>> {
    ctrlc::set_handler(|| {
        if STOP.swap(true, SeqCst) {
            std::process::exit(130); // a second time: now
        }
    })?;
    let ledger = Ledger::new();
    let runtime = Runtime::builder().name("tenants").ledger(&ledger).build()?;
    let host = Host::new(tenants, ledger, runtime.workers())?;
    let screen = Screen::open(&host);
    let clock = Clock::start(&host);
    let evening = host.play(&runtime, &screen, Duration::from_secs(seconds))?;
    let work = clock.work(&host);
    drop(screen);
    let how = if STOP.load(SeqCst) { "ended by Ctrl-C" } else { "the end" };
    println!("{}", table(&host, how, work.units_per_second()));
    Ok(host.verdict(&evening)?)
}

fn arguments() -> Result<Option<(usize, u64)>, String> {
    let (mut tenants, mut seconds) = (100, 6);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let (place, least, most) = match argument.as_str() {
            "--help" | "-h" => return Ok(None),
            "--tenants" => (&mut tenants, 2, 1_000),
            "--seconds" => (&mut seconds, 1, 600),
            _ => return Err(format!("`{argument}` is no option; `--help` lists them")),
        };
        let value = arguments.next().unwrap_or_default();
        let number = value.parse().ok().filter(|number| (least..=most).contains(number));
        *place = number.ok_or_else(|| format!("`{argument} {value}`: a number from {least} to {most} is needed"))?;
    }
    Ok(Some((tenants as usize, seconds)))
}

fn main() -> ExitCode {
    match arguments() {
        Ok(None) => println!("{USAGE}"),
        Ok(Some((tenants, seconds))) => {
            if let Err(error) = run(tenants, seconds) {
                eprintln!("tenants: {error}");
                return ExitCode::FAILURE;
            }
        }
        Err(error) => {
            eprintln!("tenants: {error}");
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}
