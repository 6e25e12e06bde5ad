//! A hundred tenants in one process, one of them hostile: `cargo run --release -p bursar --example tenants`.
//!
//! Every tenant lives in a nursery of its own, with a capability that was narrowed from one root: so many tasks at a time, each with so much to spend. One of them
//! tries an endless loop, a fork bomb, an allocation bomb, floods of messages and system calls, and a forged capability. Each time it is stopped by name and started
//! again, and in the end its capability is revoked. What it costs the others is measured: a while with the attack, a while before and after without.

mod hostile;
mod table;
mod tenant;

use std::{
    error::Error,
    process::ExitCode,
    sync::atomic::{
        AtomicBool,
        Ordering::{Relaxed, SeqCst},
    },
    time::{Duration, Instant},
};

use bursar::{
    BudgetedAlloc, Cap, CapSpawn, Ledger,
    prelude::*,
    sync::{Mutex, oneshot},
};

use self::{
    hostile::{Attack, Order, Records},
    table::{Ink, Screen, Speed, grouped, paint, table},
    tenant::{TASKS_MAX, Tenant},
};

/// Charges every allocation to the task that makes it. Without this line, memory is not limited.
#[global_allocator]
static MEMORY: BudgetedAlloc = BudgetedAlloc::system();

/// Somebody pressed Ctrl-C.
static STOP: AtomicBool = AtomicBool::new(false);

const FRAME: Duration = Duration::from_millis(100);
const HOSTILE: usize = 66;
const USAGE: &str = "\
Runs many tenants in one process, of which one is hostile, and shows what that costs the others.

usage: tenants [--tenants N] [--seconds N]

  --tenants N   how many there are, 2 to 10000 [default: 100]
  --seconds N   about how long it takes, 1 to 600 [default: 6]
  --help        this text

Ctrl-C ends it with the table so far.";

pub(crate) struct House {
    ledger: Ledger,
    root: Cap<CapSpawn>,
    tenants: Vec<Tenant>,
    /// Which of them it is.
    hostile: usize,
    records: Records,
    workers: usize,
    begun: Instant,
}

impl House {
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

    /// None where there is no `/proc`.
    fn resident_mib(&self) -> Option<f64> {
        let status = std::fs::read_to_string("/proc/self/status").ok()?;
        let value = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        Some(value.trim().strip_suffix(" kB")?.parse::<f64>().ok()? / 1024.0)
    }

    /// Watches for a while, and says how many units the innocents did a second. None if there was Ctrl-C.
    fn watch(&self, screen: &Screen, what: &str, time: Duration) -> Option<f64> {
        let (until, whole) = (Instant::now() + time, Speed::from_now(self));
        let mut frame = Speed::from_now(self);
        while Instant::now() < until {
            sleep(FRAME.min(until.saturating_duration_since(Instant::now()))); // a plain thread sleeps here, not a task
            if STOP.load(SeqCst) {
                return None;
            }
            if screen.is_live() {
                screen.show(&table(self, what, frame.units_per_second(self)));
                frame = Speed::from_now(self);
            }
        }
        Some(whole.units_per_second(self))
    }

    /// The whole evening. Ends early, and well, by Ctrl-C.
    fn play(&self, runtime: &Runtime, screen: &Screen, length: Duration) -> Result<Vec<f64>, TaskError> {
        let attacks = &Attack::ALL[..Attack::ALL.len() - 1]; // the last needs no time of its own
        let slot = length / (2 * attacks.len() as u32 + 2);
        let mut calm = Vec::new();
        runtime.nursery(|n| {
            for tenant in self.innocents() {
                n.task().name(&*tenant.name).try_spawn(|| tenant.serve());
            }
            let (orders, to_obey) = channel(1);
            let hostile = &self.tenants[self.hostile];
            n.task().name("hostile").spawn(move || hostile::host(hostile, to_obey, &self.records));
            // From here on this thread directs and draws. What it does takes nothing from the workers but CPU time.
            let attack = |attack: Attack, until: Instant| {
                let (done, ended) = oneshot::channel();
                orders.send(Order { attack, until, done }).map(|()| ended)
            };
            let mut evening = || -> Result<Option<()>, TaskError> {
                let Some(_) = self.watch(screen, "warming up", slot) else { return Ok(None) };
                let Some(rate) = self.watch(screen, "calm", slot) else { return Ok(None) };
                calm.push(rate);
                for (at, &kind) in attacks.iter().enumerate() {
                    let ended = attack(kind, Instant::now() + slot)?;
                    let Some(beside) = self.watch(screen, kind.name(), slot) else { return Ok(None) };
                    ended.recv()?; // the last attempt is over: what follows is calm again
                    if !screen.is_live() && at % 2 == 0 {
                        screen.show(&table(self, kind.name(), beside));
                    }
                    let Some(after) = self.watch(screen, "calm", slot) else { return Ok(None) };
                    let record = &mut self.records.lock()[kind as usize];
                    record.beside = Some(beside);
                    record.without = Some((calm[calm.len() - 1] + after) / 2.0);
                    calm.push(after);
                }
                hostile.cap.revoke();
                attack(Attack::AfterRevocation, Instant::now())?.recv()?;
                Ok(Some(()))
            };
            evening()?;
            n.dismiss(); // everybody goes home
            Ok(())
        })?;
        Ok(calm)
    }

    /// Measured numbers, and nothing else.
    fn verdict(&self, calm: &[f64]) -> Result<(), String> {
        println!("{}", paint(Ink::Bold, "What the hostile tenant was told the first time"));
        let records = self.records.lock();
        for (attack, record) in Attack::ALL.iter().zip(&*records) {
            if let Some(told) = &record.told {
                println!("  {}: {}", paint(Ink::Red, attack.name()), paint(Ink::Dim, told));
            }
        }
        println!("\n{}", paint(Ink::Bold, "Verdict"));
        let pairs: Vec<_> = records.iter().filter_map(|record| record.beside.zip(record.without)).collect();
        if let (Some(least), Some(most)) =
            (calm.iter().copied().reduce(f64::min), calm.iter().copied().reduce(f64::max))
        {
            println!("  calm alone varied from {} to {} units/s", grouped(least), grouped(most));
        }
        if !pairs.is_empty() {
            let count = pairs.len() as f64;
            let (beside, without) = pairs.iter().fold((0.0, 0.0), |sum, pair| (sum.0 + pair.0, sum.1 + pair.1));
            println!(
                "  innocents: {} units/s without the hostile tenant, {} beside it: {:.1} %",
                grouped(without / count),
                grouped(beside / count),
                beside / without * 100.0
            );
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

fn run(tenants: usize, seconds: u64) -> Result<(), Box<dyn Error>> {
    ctrlc::set_handler(|| {
        if STOP.swap(true, SeqCst) {
            std::process::exit(130); // a second time: now
        }
    })?;
    let ledger = Ledger::new();
    let runtime = Runtime::builder().name("tenants").ledger(&ledger).build()?;
    let house = House::new(tenants, ledger, runtime.workers())?;
    let screen = Screen::open();
    let whole = Speed::from_now(&house);
    let calm = house.play(&runtime, &screen, Duration::from_secs(seconds))?;
    let units_per_second = whole.units_per_second(&house);
    drop(screen);
    let how = if STOP.load(SeqCst) { "ended by Ctrl-C" } else { "the end" };
    println!("{}", table(&house, how, units_per_second));
    Ok(house.verdict(&calm)?)
}

fn arguments() -> Result<Option<(usize, u64)>, String> {
    let (mut tenants, mut seconds) = (100, 6);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let (place, least, most) = match argument.as_str() {
            "--help" | "-h" => return Ok(None),
            "--tenants" => (&mut tenants, 2, 10_000),
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
