//! What is seen: a table that is drawn over itself on a terminal, and one after the other elsewhere.

use std::{
    cell::RefCell,
    fmt::Write as _,
    io::{IsTerminal, Write as _, stdout},
    sync::atomic::Ordering::Relaxed,
    time::Duration,
};

use crate::{
    Host,
    hostile::Attack,
    resident_mib,
    tenant::{Tenant, Trade},
    work::Clock,
};

/// A screen of its own, on a terminal; what was there before comes back when it is dropped.
pub(crate) struct Screen {
    live: bool,
    /// Since the last picture.
    frame: RefCell<Clock>,
}

/// Ten pictures a second.
const FRAME: Duration = Duration::from_millis(100);

impl Screen {
    pub(crate) fn open(host: &Host) -> Self {
        let screen = Self { live: stdout().is_terminal(), frame: RefCell::new(Clock::start(host)) };
        screen.control("\x1b[?1049h\x1b[?25l\x1b[?7l"); // another page, no cursor, long lines are cut
        screen
    }

    /// Draws, if there is a terminal and it is time.
    pub(crate) fn refresh(&self, host: &Host, what: &str) {
        let mut frame = self.frame.borrow_mut();
        if self.live && frame.elapsed() >= FRAME {
            let table = table(host, what, frame.work(host).units_per_second());
            self.control(&format!("\x1b[H{}\x1b[J", table.trim_end().replace('\n', "\x1b[K\n")));
            *frame = Clock::start(host);
        }
    }

    /// Prints, if there is none: a table that stays.
    pub(crate) fn snapshot(&self, host: &Host, what: &str) {
        if !self.live {
            println!("{}", table(host, what, self.frame.replace(Clock::start(host)).work(host).units_per_second()));
        }
    }

    fn control(&self, text: &str) {
        if self.live {
            let mut out = stdout().lock();
            let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush()); // a terminal that is gone is no reason to stop
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.control("\x1b[?7h\x1b[?25h\x1b[?1049l");
    }
}

#[derive(Clone, Copy)]
pub(crate) enum Ink {
    Bold,
    Dim,
    Red,
    Green,
}

/// Colours for a terminal, plain text for everybody else.
pub(crate) fn paint(ink: Ink, text: impl AsRef<str>) -> String {
    let text = text.as_ref();
    if !stdout().is_terminal() || std::env::var_os("NO_COLOR").is_some() {
        return text.into();
    }
    let code = match ink {
        Ink::Bold => 1,
        Ink::Dim => 2,
        Ink::Red => 31,
        Ink::Green => 32,
    };
    format!("\x1b[{code}m{text}\x1b[0m")
}

/// 1234567.8 as 1,234,568.
pub(crate) fn grouped(number: f64) -> String {
    let digits = format!("{number:.0}");
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Everything as it stands, in some 25 lines.
pub(crate) fn table(host: &Host, now: &str, units_per_second: f64) -> String {
    let mut text = String::new();
    let seconds = host.begun.elapsed().as_secs_f64();
    let title = format!("{} tenants on {} workers, after {seconds:.1} s: {now}", host.tenants.len(), host.workers);
    let memory = resident_mib("VmRSS:").map_or("unknown".into(), |mib| format!("{mib:.1} MiB"));
    let refusals = host.ledger.audit_totals().refusals() as f64;
    let _ = writeln!(text, "{}", paint(Ink::Bold, title));
    let _ = writeln!(
        text,
        "  {} units/s, {} task permits in use, {memory} resident, {} refusals in the audit log\n",
        grouped(units_per_second),
        host.root.tasks_in_use(),
        grouped(refusals)
    );
    hostile(&mut text, host);
    tenants(&mut text, host, seconds);
    text
}

fn hostile(text: &mut String, host: &Host) {
    let head = format!(
        "{:20}{:>8} {:>11}  {:>15}  stopped with",
        host.tenants[host.hostile].name, "tries", "longest", "innocents keep"
    );
    let _ = writeln!(text, "{}", paint(Ink::Bold, head));
    let records = host.records.lock();
    for (attack, record) in Attack::ALL.iter().zip(&*records) {
        let keep = match record.without.seconds {
            0.0 => String::new(),
            _ => format!("{:.1} %", record.beside.units_per_second() / record.without.units_per_second() * 100.0),
        };
        let mut endings: Vec<_> = record.endings.iter().map(|(name, times)| (*times, *name)).collect();
        endings.sort_unstable_by(|a, b| b.cmp(a));
        let names: Vec<_> = match endings.as_slice() {
            [(_, only)] => vec![(*only).to_string()],
            several => several.iter().map(|(times, name)| format!("{name} ({times})")).collect(),
        };
        let (tries, longest) = match record.tries {
            0 => (String::new(), String::new()),
            tries => (grouped(tries as f64), format!("{:.1} ms", record.longest.as_secs_f64() * 1e3)),
        };
        let ending = match record.succeeded {
            0 => paint(Ink::Green, names.join(", ")),
            times => paint(Ink::Red, format!("NOT STOPPED {times} times")),
        };
        let name = paint(Ink::Red, format!("  {:18}", attack.name()));
        let _ = writeln!(text, "{name}{tries:>8} {longest:>11}  {keep:>15}  {ending}");
    }
}

fn tenants(text: &mut String, host: &Host, seconds: f64) {
    let rate = |tenant: &Tenant| tenant.units.load(Relaxed) as f64 / seconds;
    let head = format!("{:20}{:>8} {:>11} {:>16}", "units/s by trade", "least", "median", "most");
    let _ = writeln!(text, "\n{}", paint(Ink::Bold, head));
    for trade in Trade::ALL {
        let mut rates: Vec<f64> = host.innocents().filter(|tenant| tenant.trade == trade).map(rate).collect();
        rates.sort_unstable_by(f64::total_cmp);
        if let (Some(least), Some(most)) = (rates.first(), rates.last()) {
            let (least, median, most) = (grouped(*least), grouped(rates[rates.len() / 2]), grouped(*most));
            let _ = writeln!(text, "  {:18}{least:>8} {median:>11} {most:>16}", format!("{trade:?}").to_lowercase());
        }
    }
    let mut all: Vec<_> = host.innocents().map(|tenant| (rate(tenant), tenant)).collect();
    all.sort_unstable_by(|a, b| b.0.total_cmp(&a.0));
    let some = |tenants: &mut dyn Iterator<Item = &(f64, &Tenant)>| {
        let cells = tenants.take(3).map(|(rate, tenant)| format!("{} {}", tenant.name, grouped(*rate)));
        cells.collect::<Vec<_>>().join(", ")
    };
    let _ = writeln!(text, "  {:18}{}", "most of all", some(&mut all.iter()));
    let _ = writeln!(text, "  {:18}{}", "least of all", some(&mut all.iter().rev()));
}
