//! The peers' runtimes, set up alike: so many workers, and the root task on one of them.
//!
//! The root runs *on a worker* everywhere, as ours does. A root on the calling thread would
//! push every task through the injector, which none of the peers is tuned for.

use std::future::Future;
use std::thread;

use async_executor::Executor;
use futures_lite::future::block_on;

use crate::Failure;

/// A tokio runtime with this many workers.
pub fn tokio(workers: usize) -> Result<tokio::runtime::Runtime, Failure> {
    Ok(tokio::runtime::Builder::new_multi_thread().worker_threads(workers).build()?)
}

/// The same, with timers.
pub fn tokio_with_time(workers: usize) -> Result<tokio::runtime::Runtime, Failure> {
    Ok(tokio::runtime::Builder::new_multi_thread().worker_threads(workers).enable_time().build()?)
}

/// A tokio runtime on the thread that calls it.
pub fn tokio_on_this_thread() -> Result<tokio::runtime::Runtime, Failure> {
    Ok(tokio::runtime::Builder::new_current_thread().build()?)
}

/// Runs the root task on a worker of `runtime` and waits for it.
pub fn run_tokio<T: Send + 'static>(
    runtime: &tokio::runtime::Runtime,
    root: impl Future<Output = T> + Send + 'static,
) -> Result<T, Failure> {
    Ok(runtime.block_on(runtime.spawn(root))?)
}

/// A rayon pool with this many threads.
pub fn rayon(workers: usize) -> Result<rayon::ThreadPool, Failure> {
    Ok(rayon::ThreadPoolBuilder::new().num_threads(workers).build()?)
}

/// Runs the root task on `executor`, driven by this many threads, and waits for it.
///
/// Unlike the runtimes above, async-executor has no threads of its own. Starting them is
/// part of every round: 0.1 ms of some hundreds.
pub fn run_async_executor<T: Send + 'static>(
    executor: &Executor<'static>,
    workers: usize,
    root: impl Future<Output = T> + Send + 'static,
) -> T {
    let (stop, stopped) = async_channel::bounded::<()>(1);
    thread::scope(|threads| {
        for _ in 0..workers {
            threads.spawn(|| block_on(executor.run(stopped.recv())));
        }
        let result = block_on(executor.spawn(root));
        drop(stop);
        result
    })
}
