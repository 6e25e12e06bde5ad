//! Tenants with shares of CPU time, live: `cargo run --release -p bursar --example shares`.
//!
//! Three tenants keep all workers busy. Their weights are 1, 2 and 4, the first has a hundred times as many tasks as the last, and a fourth has a context: 5 ms in every 50 ms. The table
//! shows what each has had so far. It is drawn over itself on a terminal, and printed once at the end otherwise.

use std::io::{IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use bursar::cpu::{Context, Share};
use bursar::now;
use bursar::prelude::*;

const RUNS_FOR: Duration = Duration::from_secs(3);
const DRAWN_EVERY: Duration = Duration::from_millis(200);

/// A tenant: its nursery, and how many tasks compute in it.
fn tenant(options: NurseryOptions, tasks: usize, over: &AtomicBool) -> Result<(), TaskError> {
    nursery_with(options, |n| {
        for _ in 0..tasks {
            n.spawn(|| {
                let mut value = 1_u64;
                while !over.load(Relaxed) {
                    for _ in 0..2_000 {
                        value = std::hint::black_box(value.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
                    }
                    yield_now();
                }
            });
        }
        Ok(())
    })
}

fn table(shares: &[Share]) -> String {
    let outermost = shares.iter().filter(|share| share.depth <= 1); // the time of groups inside is theirs, too
    let all: f64 = outermost.map(|share| share.cpu_time.as_secs_f64()).sum();
    let mut text = String::from("tenant      weight       time   share\n");
    for share in shares.iter().filter(|share| share.depth == 1) {
        let part = share.cpu_time.as_secs_f64() / all.max(f64::MIN_POSITIVE);
        let bar = "#".repeat((part * 40.0).round() as usize);
        let name = share.name.as_deref().unwrap_or("?");
        let limit = share.context.map_or(String::new(), |context| format!(" ({context})"));
        let weight = share.weight / 1024;
        text += &format!(
            "{name:<10} {weight:>7} {:>8.0} ms {:>6.1} % {bar}{limit}\n",
            share.cpu_time.as_secs_f64() * 1e3,
            part * 100.0
        );
    }
    text
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let runtime = Runtime::new()?;
    let over = &AtomicBool::new(false);
    let is_terminal = std::io::stdout().is_terminal();
    let named = |name: &str| NurseryOptions::new().name(name);
    runtime.run(|| {
        nursery(|n| {
            n.try_spawn(move || tenant(named("small").weight(1), 500, over));
            n.try_spawn(move || tenant(named("medium").weight(2), 50, over));
            n.try_spawn(move || tenant(named("large").weight(4), 5, over));
            let context = Context::budget(Duration::from_millis(5)).period(Duration::from_millis(50));
            n.try_spawn(move || tenant(named("control").context(context), 1, over));
            let until = now() + RUNS_FOR;
            let mut lines = 0;
            loop {
                sleep(DRAWN_EVERY);
                let text = table(&runtime.shares());
                let is_last = now() >= until;
                if is_terminal || is_last {
                    let up = if lines > 0 { format!("\x1b[{lines}A\x1b[J") } else { String::new() };
                    print!("{up}{text}");
                    std::io::stdout().flush()?;
                    lines = if is_terminal { text.lines().count() } else { 0 };
                }
                if is_last {
                    over.store(true, Relaxed);
                    return Ok(());
                }
            }
        })
    })??;
    Ok(())
}
