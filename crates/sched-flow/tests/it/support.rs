//! What the tests share: chance that can be had again, and a watchdog.

use std::{io::Write, sync::mpsc, thread, time::Duration};

/// SplitMix64: equal seeds throw equal numbers.
#[derive(Debug, Clone)]
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0xD129_0B27_22C9_4F4D) ^ 0x5EED)
    }

    pub(crate) fn throw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let x = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        x ^ (x >> 31)
    }

    /// 0 or more, and less than `sides`.
    pub(crate) fn below(&mut self, sides: u64) -> u64 {
        self.throw() % sides.max(1)
    }

    pub(crate) fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    pub(crate) fn one_of<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize].clone()
    }
}

/// Ends the process if a test takes too long, and says how to see it again.
pub(crate) struct Watchdog(#[expect(dead_code, reason = "dropped, it ends the watch")] mpsc::Sender<()>);

/// Watches a test that has no seed.
pub(crate) fn watch(test: &'static str) -> Watchdog {
    watch_seed(test, None)
}

fn watch_seed(test: &'static str, seed: Option<u64>) -> Watchdog {
    let (alive, over) = mpsc::channel::<()>();
    thread::spawn(move || {
        if over.recv_timeout(Duration::from_secs(60)) == Err(mpsc::RecvTimeoutError::Timeout) {
            // Not `eprintln!`: that is kept until the test ends, and it does not.
            let _ = writeln!(std::io::stderr(), "\n{test} hangs; replay: `{}`", replay(test, seed));
            std::process::abort();
        }
    });
    Watchdog(alive)
}

fn replay(test: &str, seed: Option<u64>) -> String {
    let seed = seed.map_or_else(String::new, |seed| format!("SEED={seed} "));
    format!("{seed}cargo test -p sched-flow --test it {test}")
}

/// Runs `body` with each seed, or with `SEED` alone, under a watchdog. `SEEDS` asks for another number of them.
pub(crate) fn for_seeds(test: &'static str, count: u64, body: impl Fn(u64)) {
    let number = |name: &str| {
        std::env::var(name)
            .ok()
            .map(|text| text.parse::<u64>().unwrap_or_else(|_| panic!("{name} is a number: {text}")))
    };
    let seeds = match number("SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("SEEDS").unwrap_or(count),
    };
    for seed in seeds {
        let _watchdog = watch_seed(test, Some(seed));
        println!("replay: `{}`", replay(test, Some(seed))); // shown if it fails
        body(seed);
    }
}
