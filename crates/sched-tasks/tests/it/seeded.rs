//! A seed decides everything.

use std::time::Duration;

use sched_tasks::{Runtime, Trace, channel, nursery, sleep, yield_now};

use crate::support::watch;

fn seeded(workers: usize, seed: u64) -> Runtime {
    Runtime::builder().workers(workers).max_fibers(4096).seeded(seed).build().unwrap()
}

#[test]
fn first_light() {
    let _watchdog = watch("first_light");
    let runtime = seeded(4, 42);
    let program = || {
        nursery(|n| {
            let (tx, rx) = channel(2);
            for i in 0..5_u32 {
                let tx = tx.clone();
                n.spawn(move || {
                    for j in 0..3 {
                        tx.send(i * 10 + j).unwrap();
                        yield_now();
                    }
                    sleep(Duration::from_secs(3600));
                });
            }
            drop(tx);
            let mut got: Vec<u32> = rx.iter().collect();
            got.sort();
            Ok(got)
        })
    };
    let got = runtime.run(program).unwrap().unwrap();
    assert_eq!(got.len(), 15);
    let trace: Trace = runtime.trace();
    println!("{trace}");
    runtime.run(program).unwrap().unwrap();
    assert_eq!(runtime.trace(), trace);
}
