use std::time::Instant;

use sched_tasks::*;
fn main() {
    let rt = Runtime::builder().workers(2).build().unwrap();
    let one = Runtime::builder().workers(1).build().unwrap();
    for _ in 0..5 {
        let n = 1_000_000u32;
        let t = Instant::now();
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
        println!("spawn {:?}", t.elapsed() / n);
        let t = Instant::now();
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
        println!("yield {:?}", t.elapsed() / (2 * n));
        fn fib(n: u32) -> u32 {
            if n < 2 {
                return n;
            }
            let (a, b) = join(|| fib(n - 1), || fib(n - 2));
            a + b
        }
        let t = Instant::now();
        rt.run(|| fib(30)).unwrap();
        println!("fib {:?}", t.elapsed() / 1346268);
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
        let t = Instant::now();
        assert_eq!(rt.run(|| sky(0, 1_000_000)).unwrap(), 499999500000);
        println!("skynet {:?}  {:?}", t.elapsed() / 1_111_111, rt.stats().total());
    }
}
