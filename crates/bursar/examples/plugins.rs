//! Plug-ins of three tenants in one process: one works, one never ends, one is a fork bomb. Each has a budget and a capability, and none disturbs the others.
//!
//! `cargo run --release -p bursar --features janus --example plugins`. What it shows is asserted, too: it has a test.

use bursar::capability::{CapSpawn, Ledger};
use bursar::janus::{Host, Options, Program, Spent};
use bursar::{Budget, NurseryOptions, TaskError, nursery, nursery_with};

/// Counts primes, a task for each range.
const GOOD: &str = "
async func primes(from: i64, to: i64) -> i64 do
    var count = 0
    for n in from..<to do
        var is_prime = n > 1
        var d = 2
        while is_prime and d * d <= n do
            is_prime = n % d != 0
            d = d + 1
        end
        if is_prime do count = count + 1 end
    end
    return count
end

func main() -> i64 do
    let low = primes(0, 5000)
    let high = primes(5000, 10000)
    return await low + await high
end
";

/// Never ends.
const HOG: &str = "
func main() do
    var x = 1
    while true do
        x = (x * 31) % 1000003
    end
end
";

/// Each task starts two.
const BOMB: &str = "
func bomb() do
    nursery do
        spawn bomb()
        spawn bomb()
    end
end

func main() do
    bomb()
end
";

/// How the plug-in of a tenant ended.
struct Ended {
    name: &'static str,
    how: String,
    spent: Spent,
}

/// Runs a plug-in. Whatever it does, this returns, and nothing of it runs any more.
fn run(ledger: &Ledger, name: &'static str, source: &str) -> Result<Ended, TaskError> {
    let program = Program::compile_with(source, &Options::new().name(format!("{name}.jan")))?;
    let capability = ledger.grant(CapSpawn::new().max_tasks(100));
    let options = NurseryOptions::new()
        .name(name)
        .weight(1) // as much CPU time as each of the others, however many tasks it has
        .capability(&capability)
        .task_budget(Budget::ops(1_000_000).spawns(10_000));
    let host = Host::new();
    let outcome = nursery_with(options, |n| program.spawn_on(&host, n, "main", &[])?.join());
    let how = match (outcome, host.fault()) {
        (Ok(value), _) => format!("returned {value}"),
        (Err(error), Some(fault)) => format!("line {}: {}", fault.line, error.reason().name()),
        (Err(error), None) => error.reason().to_string(),
    };
    Ok(Ended { name, how, spent: host.spent() })
}

/// All three at the same time.
fn run_all(ledger: &Ledger) -> Result<Vec<Ended>, TaskError> {
    nursery(|n| {
        let plugins = [("good", GOOD), ("hog", HOG), ("bomb", BOMB)];
        let tasks = plugins.map(|(name, source)| n.try_spawn(move || run(ledger, name, source)));
        tasks.into_iter().map(bursar::Task::join).collect()
    })
}

fn main() -> Result<(), TaskError> {
    let ledger = Ledger::new();
    let ended = run_all(&ledger)?;
    println!("{:<8} {:>9} {:>7}  ended", "plug-in", "ops", "spawns");
    for Ended { name, how, spent } in ended {
        println!("{name:<8} {:>9} {:>7}  {how}", spent.ops, spent.spawns);
    }
    println!("{} spawns were refused", ledger.audit_totals().refusals());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_works_beside_one_that_never_ends_and_a_fork_bomb() {
        let ledger = Ledger::new();
        let ended = run_all(&ledger).unwrap();
        let how: Vec<&str> = ended.iter().map(|ended| ended.how.as_str()).collect();
        assert_eq!(how[0], "returned 1229");
        assert_eq!((how[1], ended[1].spent.ops), ("line 4: OpsBudgetExhausted", 1_000_000));
        assert!(how[2].ends_with(": TaskLimitExceeded"), "{how:?}");
        assert!(ended[2].spent.spawns < 1_000, "{}", ended[2].spent);
        assert!(ledger.audit_totals().refusals() >= 1);
    }
}
