//! Timers for futures, and channels that time sends into. A fiber uses [`sleep`](crate::sleep), and a nursery with a deadline.
//!
//! Room: interface.

use std::{
    error::Error,
    fmt,
    future::{Future, IntoFuture, poll_fn},
    io,
    pin::{Pin, pin},
    task::{Context, Poll, ready},
    time::{Duration, Instant},
};

use mech_sync::TIMEOUT;

use crate::{
    channel::{self, Receiver},
    drive::runtime,
    kernel::clock::{self, AlarmKey, Clock},
    strand,
    strand::future_wait::FutureWait,
    strand::room,
};

/// A future that is ready after `time`, counted from now.
///
/// ```
/// use std::time::{Duration, Instant};
/// use bursar::{nursery, sleep_async};
///
/// let begun = Instant::now();
/// nursery(|n| {
///     n.spawn_async(sleep_async(Duration::from_millis(5))).join()
/// })?;
/// assert!(begun.elapsed() >= Duration::from_millis(5));
/// # Ok::<(), bursar::TaskError>(())
/// ```
pub fn sleep_async(time: Duration) -> Sleep {
    Sleep { at: clock::due(time), set: None }
}

/// Becomes ready at a time; made by [`sleep_async`].
#[must_use = "a future sleeps only while it is awaited"]
pub struct Sleep {
    at: Instant,
    /// The timer that wakes the wait, once it was polled.
    set: Option<Set>,
}

struct Set {
    wait: FutureWait,
    clock: &'static Clock,
    alarm: AlarmKey,
}

impl Drop for Set {
    fn drop(&mut self) {
        let _room = room::to_drop();
        self.clock.clear(self.alarm);
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let strand = strand::current();
        ready!(strand.poll_turn(cx));
        let polled = self.get_mut().poll_due(cx);
        if polled.is_ready() {
            strand.turn.count();
        }
        polled
    }
}

impl Sleep {
    /// As `poll`, but also when the task has used up its turn: a timeout must reach such a future too.
    fn poll_due(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let at = self.at;
        let is_over = match &self.set {
            Some(set) if !set.wait.poll(cx.waker()) => false,
            Some(set) if at > clock::now() && set.clock.is_over_for(set.alarm) => {
                self.set = None; // the runtime on which it was polled has ended, or its run: the one it is polled on now takes over
                return self.poll_due(cx);
            }
            Some(_) => true,
            None if at <= clock::now() => true,
            None => {
                let wait = FutureWait::begin(cx.waker());
                let clock = &runtime::here().clock;
                let alarm = clock.set_wake(at, wait.token(), TIMEOUT);
                self.set = Some(Set { wait, clock, alarm });
                false
            }
        };
        if is_over {
            self.set = None;
            self.at = clock::now(); // polled once more, it is ready once more
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }
}

impl fmt::Debug for Sleep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sleep").field("at", &self.at).finish_non_exhaustive()
    }
}

/// Gives a future this much time, counted from now. If it takes longer it is dropped.
///
/// ```
/// use std::{future::pending, time::Duration};
/// use bursar::{block_on, timeout};
///
/// assert_eq!(block_on(timeout(Duration::from_secs(60), async { 42 })), Ok(42));
/// let error = block_on(timeout(Duration::from_millis(5), pending::<()>())).unwrap_err();
/// assert_eq!(error.to_string(), "not ready after the 5ms it had; give it more time or less work");
/// ```
pub fn timeout<F: IntoFuture>(after: Duration, future: F) -> impl Future<Output = Result<F::Output, Elapsed>> {
    let future = future.into_future();
    let mut sleep = sleep_async(after);
    async move {
        let mut future = pin!(future);
        poll_fn(|cx| match future.as_mut().poll(cx) {
            Poll::Ready(output) => Poll::Ready(Ok(output)),
            Poll::Pending => sleep.poll_due(cx).map(|()| Err(Elapsed { after })),
        })
        .await
    }
}

/// A future was not ready in time; see [`timeout`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Elapsed {
    /// The time it had.
    pub after: Duration,
}

impl fmt::Display for Elapsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not ready after the {:?} it had; give it more time or less work", self.after)
    }
}

impl Error for Elapsed {}

impl From<Elapsed> for io::Error {
    fn from(elapsed: Elapsed) -> Self {
        io::Error::new(io::ErrorKind::TimedOut, elapsed)
    }
}

/// A channel that has one value when `time` has passed, counted from now: the time of [`now`](crate::now) at which it was due. Then it is closed.
///
/// It is a receiver like any other, for [`select!`](crate::select!) too. Unlike the `timeout` arm of a `select!`, which begins anew with every `select!`, it may be made before a loop and limit all
/// of it. A timer that no task waits for costs nothing; one that is dropped leaves nothing behind. In a [seeded](crate::Builder::seeded) run time is virtual. It goes by the time of the
/// runtime it is made in, and is to be used there.
///
/// ```
/// use std::time::Duration;
/// use bursar::{Runtime, channel, nursery, select, time::after};
///
/// let runtime = Runtime::builder().workers(2).seeded(1).build()?;
/// let got = runtime.run(|| {
///     let (tx, rx) = channel(1);
///     let enough = after(Duration::from_secs(60)); // for all values together
///     let mut got = 0;
///     loop {
///         select! {
///             recv(rx) => got += 1,
///             send(tx, ()) => bursar::sleep(Duration::from_secs(7)),
///             recv(enough) => break got,
///         }
///     }
/// })?;
/// assert!((4..=9).contains(&got));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn after(time: Duration) -> Receiver<Instant> {
    channel::timer(clock::due(time), None)
}

/// A channel that has a value after every `period`, counted from now: the time of [`now`](crate::now) at which it was due.
///
/// A receiver that is too slow gets no burst of old ticks: at most one is there at a time, and the next one comes when it is due, a whole number of periods after the first. Of several
/// receivers each tick goes to one. It ends when it is [closed](Receiver::close). Otherwise it is as [`after`].
///
/// ```
/// use std::time::{Duration, Instant};
/// use bursar::{Runtime, now, sleep, time::ticker};
///
/// let runtime = Runtime::builder().workers(2).seeded(1).build()?;
/// runtime.run(|| {
///     let begun = now();
///     let seconds = |time: Instant| (time - begun).as_secs();
///     let ticks = ticker(Duration::from_secs(10));
///     assert_eq!(ticks.recv().map(seconds), Ok(10));
///     assert_eq!(ticks.recv().map(seconds), Ok(20));
///     sleep(Duration::from_secs(35)); // too slow for three of them
///     assert_eq!(ticks.recv().map(seconds), Ok(30));
///     assert_eq!(ticks.recv().map(seconds), Ok(60));
/// })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Panics
/// If `period` is zero.
pub fn ticker(period: Duration) -> Receiver<Instant> {
    assert!(!period.is_zero(), "a ticker has a period; one of zero would always be due");
    channel::timer(clock::due(period), Some(period))
}
