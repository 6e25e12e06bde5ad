//! A round trip between two tasks over two channels of one place each. 1 worker.
//!
//! Bar: 1/4 of tokio's mpsc(1).

use crate::Failure;
use crate::measure::{Plan, Side};
use crate::table::{Bar, Row};
use crate::workloads::peers;

pub const NAME: &str = "pingpong";

mod ours {
    use super::*;
    use bursar::prelude::*;

    pub fn trips(runtime: &Runtime, count: u64) -> Result<(), Failure> {
        runtime.run(|| {
            nursery(|n| {
                let (ping, pings) = channel::<u64>(1);
                let (pong, pongs) = channel::<u64>(1);
                n.spawn(move || {
                    while let Ok(value) = pings.recv() {
                        pong.send(value).expect("the other side still receives");
                    }
                });
                n.spawn(move || {
                    for trip in 0..count {
                        ping.send(trip).expect("the other side still receives");
                        assert_eq!(pongs.recv().expect("the other side answers"), trip);
                    }
                });
                Ok(())
            })
        })??;
        Ok(())
    }
}

mod with_tokio {
    use tokio::sync::mpsc::channel;

    pub async fn trips(count: u64) {
        let (ping, mut pings) = channel::<u64>(1);
        let (pong, mut pongs) = channel::<u64>(1);
        let echo = tokio::spawn(async move {
            while let Some(value) = pings.recv().await {
                pong.send(value).await.expect("the other side still receives");
            }
        });
        let asker = tokio::spawn(async move {
            for trip in 0..count {
                ping.send(trip).await.expect("the other side still receives");
                assert_eq!(pongs.recv().await.expect("the other side answers"), trip);
            }
        });
        asker.await.expect("no task panics");
        echo.await.expect("no task panics");
    }
}

pub fn run(plan: &Plan) -> Result<Vec<Row>, Failure> {
    let count = plan.pick(500_000, 100_000);
    let runtime = bursar::Runtime::builder().workers(1).build()?;
    let tokio = peers::tokio(1)?;
    let best = plan.best_of(
        count,
        [
            Side::new("ours", || ours::trips(&runtime, count as u64)),
            Side::new("tokio", || peers::run_tokio(&tokio, with_tokio::trips(count as u64))),
        ],
    )?;
    Ok(vec![Row::new(NAME, "tokio", best, "ns/trip", Bar::Part(4))])
}
