//! A bug that shows once in a while, found, kept and repaired: `cargo run -p bursar --example heisenbug`.
//!
//! Two tellers pay into one account. Each reads the balance, adds to it and writes it back; every single step is locked, and yet a payment can be lost between two of
//! them. On real workers it may not show for a long time. Here seeds decide who goes on when, so the bug is found in a moment, and once found it never hides again.

use std::error::Error;

use bursar::{
    Runtime,
    determinism::{Explore, Trace},
    prelude::*,
    sync::Mutex,
};

const TELLERS: u64 = 2;
const PAYMENTS: u64 = 3;

struct Account {
    balance: Mutex<u64>,
}

impl Account {
    /// Reads under one lock and writes under another: what happens in between is overwritten.
    fn pay_in_hastily(&self, amount: u64) {
        let before = *self.balance.lock();
        *self.balance.lock() = before + amount;
    }

    /// One lock for both.
    fn pay_in(&self, amount: u64) {
        *self.balance.lock() += amount;
    }
}

/// A day at the bank. What it returns is the test: nothing may be lost.
fn day(pay: fn(&Account, u64)) -> Result<(), TaskError> {
    let account = Account { balance: Mutex::new(0) };
    nursery(|n| {
        for teller in 1..=TELLERS {
            let account = &account;
            n.task().name(format!("teller {teller}")).spawn(move || (0..PAYMENTS).for_each(|_| pay(account, 100)));
        }
        Ok(())
    })?;
    match (account.balance.into_inner(), TELLERS * PAYMENTS * 100) {
        (found, expected) if found == expected => Ok(()),
        (found, expected) => Err(TaskError::msg(format!("{expected} were paid in, {found} are there"))),
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    println!("1. On real workers, a thousand days:");
    let mut bad_days = 0;
    for _ in 0..1_000 {
        bad_days += u32::from(bursar::run(|| day(Account::pay_in_hastily))?.is_err());
    }
    println!("   {bad_days} of them lost money.\n");

    println!("2. Under seeds:");
    let hasty = || day(Account::pay_in_hastily);
    let Err(finding) = Explore::new().find(0..1_000, hasty) else {
        return Err("1000 seeds did not find the lost payment".into());
    };
    println!("{}", indented(&finding.to_string()));

    println!("3. Kept as text, as in a bug report, and replayed from it:");
    for (which, trace) in [("as found", &finding.trace), ("shrunk", &finding.shrunk)] {
        let kept = trace.encode();
        let runtime = Runtime::builder().replay(kept.parse::<Trace>()?).build()?;
        let Err(error) = runtime.run(hasty)? else { return Err("the replay found all the money".into()) };
        let hash = runtime.trace().hash();
        println!("   {which:8}  {} bytes: {error}; hash {hash:016x}", kept.len());
        assert_eq!(hash, trace.hash(), "a replay does what the recorded run did");
    }

    println!("\n4. Repaired:");
    match Explore::new().find(0..1_000, || day(Account::pay_in)) {
        Ok(explored) => println!(
            "   all {} seeds pass: {} different runs, {} steps",
            explored.seeds, explored.distinct, explored.steps
        ),
        Err(finding) => return Err(finding.to_string().into()),
    }
    Ok(())
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("   {line}\n")).collect()
}
