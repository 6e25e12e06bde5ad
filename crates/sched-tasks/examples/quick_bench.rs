//! A quick look at what the basic operations cost; `compare/` measures them properly.

use std::time::Instant;

use sched_tasks::*;
fn fib(n: u32) -> u32 {
    if n < 2 {
        return n;
    }
    let (a, b) = join(|| fib(n - 1), || fib(n - 2));
    a + b
}
fn sky(num: u64, size: u64) -> u64 {
    if size == 1 {
        return num;
    }
    nursery(|n| {
        let s = size / 10;
        let h: [_; 10] = std::array::from_fn(|i| n.spawn(move || sky(num + i as u64 * s, s)));
        let mut sum = 0;
        for t in h {
            sum += t.join()?;
        }
        Ok(sum)
    })
    .unwrap()
}
fn main() {
    let what = std::env::args().nth(1).unwrap_or("all".into());
    let rounds: u32 = std::env::args().nth(2).map_or(5, |s| s.parse().unwrap());
    let workers: usize = std::env::args().nth(3).map_or(2, |s| s.parse().unwrap());
    let fibers = std::env::args().nth(4).map_or(1 << 20, |s| s.parse().unwrap());
    let rt = Runtime::builder().workers(workers).max_fibers(fibers).build().unwrap();
    let one = Runtime::builder().workers(1).max_fibers(fibers).build().unwrap();
    let n = if fibers < 2000 { 10_000 } else { 1_000_000u32 };
    let mut best = std::collections::BTreeMap::<&str, u64>::new();
    for _ in 0..rounds {
        let mut run = |name: &'static str, f: &dyn Fn() -> u32| {
            if what != "all" && what != name {
                return;
            }
            let t = Instant::now();
            let n = f();
            let ps = (t.elapsed().as_nanos() * 10 / n as u128) as u64;
            let b = best.entry(name).or_insert(u64::MAX);
            *b = ps.min(*b);
        };
        run("spawn", &|| {
            rt.run(|| {
                nursery(|s| {
                    for _ in 0..n {
                        s.spawn(|| ());
                    }
                    Ok(())
                })
            })
            .unwrap()
            .unwrap();
            n
        });
        run("yield", &|| {
            one.run(|| {
                nursery(|s| {
                    for _ in 0..2 {
                        s.spawn(move || {
                            for _ in 0..n {
                                yield_now()
                            }
                        });
                    }
                    Ok(())
                })
            })
            .unwrap()
            .unwrap();
            2 * n
        });
        run("fib", &|| {
            rt.run(|| fib(30)).unwrap();
            1346268
        });
        run("skynet", &|| {
            let leaves = if fibers < 2000 { 100_000 } else { 1_000_000 };
            rt.run(|| sky(0, leaves)).unwrap();
            if leaves < 1_000_000 {
                return 111_111;
            }
            1_111_111
        });
    }
    for (name, b) in best {
        println!("{name} {}.{} ns", b / 10, b % 10);
    }
    println!("{:?}", rt.stats());
}
