//! Fibers that compute, futures that pass on, and channels between them, all in one nursery:
//! `cargo run --release -p bursar --example pipeline`.
//!
//! Numbers go in at one end. Four fibers test them for primes, a future counts what they found by its last digit, and a bounded
//! channel between each two of them keeps each stage from running ahead (backpressure).

use std::time::Instant;

use bursar::prelude::*;

const NUMBERS: u64 = 200_000;
const TESTERS: usize = 4;

fn is_prime(n: u64) -> bool {
    n >= 2 && (2..).take_while(|d| d * d <= n).all(|d| !n.is_multiple_of(d))
}

fn main() -> Result<(), TaskError> {
    let begun = Instant::now();
    let by_digit: [u64; 10] = nursery(|n| {
        let (numbers, to_test) = channel(256);
        let (primes, found) = channel(256);

        n.task().name("numbers").try_spawn(move || {
            for number in 1..=NUMBERS {
                numbers.send(number)?; // waits while the testers are behind
            }
            Ok(())
        });
        for index in 0..TESTERS {
            let (to_test, primes) = (to_test.clone(), primes.clone());
            n.task().name(format!("tester {index}")).try_spawn(move || {
                for number in to_test {
                    if is_prime(number) {
                        primes.send(number)?;
                    }
                }
                Ok(())
            });
        }
        drop(primes); // the testers have theirs; when the last is gone the count is complete

        let count = n.task().name("count").spawn_async(async move {
            let mut by_digit = [0; 10];
            while let Ok(prime) = found.recv_async().await {
                by_digit[(prime % 10) as usize] += 1;
            }
            by_digit
        });
        count.join()
    })?;

    let sum: u64 = by_digit.iter().sum();
    println!("{sum} primes up to {NUMBERS}, in {:?}", begun.elapsed());
    for (digit, count) in by_digit.iter().enumerate().filter(|(_, count)| **count > 0) {
        println!("  {count:>6} end in {digit}");
    }
    assert_eq!(sum, 17_984);
    Ok(())
}
