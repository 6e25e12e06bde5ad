//! Waits for the first of several channel operations that can be completed.
//!
//! Room: interface.
//!
//! # Invariant
//! Exactly one case is completed. No value is taken for a case that was not chosen, and no value is sent for one.
//!
//! # Why it holds
//! A select completes a case only while no live token of its own is out: before it enlists, after it took its token
//! back, or after the token was claimed. One token is in every wait queue with the number of its case as code; it can
//! be claimed once, and the code says by which case. That case is then tried first; if what it was claimed for is gone,
//! no other waiter need be woken and the select begins again. The other queues are left before anything else is done,
//! and offered values come back.
//!
//! Cases that can be completed at once are tried in random order, so that a busy channel does not hide the others.
//! Queues are entered in random order too: two selects that keep each other from waiting at two rendezvous channels
//! will not do so for ever.

use std::{
    fmt,
    time::{Duration, Instant},
};

use mech_sync::{TIMEOUT, WaitToken};

use crate::{
    chance::Decision,
    channel::{Receiver, RecvError, SendError, Sender, TryRecvError, TrySendError},
    kernel::clock,
    strand::{self, Strand},
    wait::{self, End},
};

/// One operation that a [`Select`] may complete: a [`RecvCase`] or a [`SendCase`].
pub trait Case: sealed::Steps {}

mod sealed {
    use mech_sync::WaitToken;

    /// What a select asks of a case.
    pub trait Steps {
        /// Whether it is still to be completed.
        fn is_open(&self) -> bool;
        /// Completes the case if that can be done at once.
        fn attempt(&mut self) -> bool;
        /// Puts the token into the channel's wait queue. True if the select should not wait but try again.
        fn enlist(&mut self, token: WaitToken, code: u16) -> bool;
        /// The token's wait has ended, and was not claimed here.
        fn leave(&mut self, token: WaitToken, code: u16);
        /// The token was claimed here. True if that completed the case.
        fn claimed(&mut self, token: WaitToken, code: u16) -> bool;
    }
}

/// Receiving, as a case; made by [`Receiver::case`].
///
/// ```
/// use bursar::{channel, mpmc::Select};
///
/// let (tx, rx) = channel(1);
/// tx.send(1)?;
/// let mut case = rx.case();
/// assert_eq!(Select::new().with(&mut case).wait(), Some(0));
/// assert_eq!(case.take(), Ok(1));
/// # Ok::<(), bursar::TaskError>(())
/// ```
#[must_use = "a case is completed by a select"]
pub struct RecvCase<'a, T> {
    receiver: &'a Receiver<T>,
    outcome: Option<Result<T, RecvError>>,
}

/// Sending a value, as a case; made by [`Sender::case`].
///
/// ```
/// use bursar::{channel, mpmc::Select};
///
/// let (tx, rx) = channel(1);
/// let mut case = tx.case("hello");
/// assert_eq!(Select::new().with(&mut case).wait(), Some(0));
/// assert_eq!((case.take(), rx.recv()), (Ok(()), Ok("hello")));
/// ```
#[must_use = "a case is completed by a select"]
pub struct SendCase<'a, T> {
    sender: &'a Sender<T>,
    slot: Option<T>,
    outcome: Option<Result<(), SendError<T>>>,
}

impl<T> Receiver<T> {
    /// Receiving from this channel, as a case of a [`Select`].
    pub fn case(&self) -> RecvCase<'_, T> {
        RecvCase { receiver: self, outcome: None }
    }
}

impl<T> Sender<T> {
    /// Sending `value`, as a case of a [`Select`].
    pub fn case(&self, value: T) -> SendCase<'_, T> {
        SendCase { sender: self, slot: Some(value), outcome: None }
    }
}

impl<T> RecvCase<'_, T> {
    /// Whether a select completed it.
    pub fn is_done(&self) -> bool {
        self.outcome.is_some()
    }

    /// What [`Receiver::recv`] would have returned.
    ///
    /// # Panics
    /// If no select completed it.
    pub fn take(&mut self) -> Result<T, RecvError> {
        self.outcome.take().expect("only a completed case has an outcome; ask `is_done`, or the select for its number")
    }
}

impl<T> SendCase<'_, T> {
    /// Whether a select completed it.
    pub fn is_done(&self) -> bool {
        self.outcome.is_some()
    }

    /// What [`Sender::send`] would have returned.
    ///
    /// # Panics
    /// If no select completed it.
    pub fn take(&mut self) -> Result<(), SendError<T>> {
        self.outcome.take().expect("only a completed case has an outcome; ask `is_done`, or the select for its number")
    }

    /// The value, if it was not sent.
    pub fn into_value(self) -> Option<T> {
        match self.outcome {
            Some(Err(SendError(value))) => Some(value),
            _ => self.slot,
        }
    }
}

impl<T> Case for RecvCase<'_, T> {}
impl<T> Case for SendCase<'_, T> {}

impl<T> sealed::Steps for RecvCase<'_, T> {
    fn is_open(&self) -> bool {
        self.outcome.is_none()
    }

    fn attempt(&mut self) -> bool {
        self.outcome = match self.receiver.core().try_recv() {
            Ok(value) => Some(Ok(value)),
            Err(TryRecvError::Closed) => Some(Err(RecvError)),
            Err(TryRecvError::Empty) => None,
        };
        self.outcome.is_some()
    }

    fn enlist(&mut self, token: WaitToken, code: u16) -> bool {
        self.receiver.core().enlist_recv(token, code)
    }

    fn leave(&mut self, _: WaitToken, _: u16) {
        self.receiver.core().leave_recv();
    }

    fn claimed(&mut self, token: WaitToken, _: u16) -> bool {
        self.outcome = self.receiver.core().claimed_recv(token).map(Ok);
        self.outcome.is_some() || self.attempt()
    }
}

impl<T> sealed::Steps for SendCase<'_, T> {
    fn is_open(&self) -> bool {
        self.slot.is_some()
    }

    fn attempt(&mut self) -> bool {
        let value = self.slot.take().expect("a case that is not done has its value");
        self.outcome = match self.sender.core().try_send(value) {
            Ok(()) => Some(Ok(())),
            Err(TrySendError::Closed(value)) => Some(Err(SendError(value))),
            Err(TrySendError::Full(value)) => {
                self.slot = Some(value);
                None
            }
        };
        self.outcome.is_some()
    }

    fn enlist(&mut self, token: WaitToken, code: u16) -> bool {
        self.sender.core().enlist_send(token, code, &mut self.slot)
    }

    fn leave(&mut self, token: WaitToken, code: u16) {
        self.sender.core().leave_send(token, code, &mut self.slot);
    }

    fn claimed(&mut self, token: WaitToken, code: u16) -> bool {
        self.sender.core().claimed_send(token, code, &mut self.slot);
        if self.slot.is_none() {
            self.outcome = Some(Ok(()));
            return true;
        }
        self.attempt()
    }
}

/// Several cases, of which one is to be completed. The [`select!`](crate::select!) macro writes this for you.
///
/// ```
/// use std::time::Duration;
/// use bursar::{channel, mpmc::Select};
///
/// let (tx, rx) = channel(0);
/// let (_idle, quiet) = channel::<()>(1);
/// let (mut send, mut recv) = (tx.case(1), quiet.case());
/// std::thread::scope(|s| {
///     s.spawn(|| rx.recv());
///     assert_eq!(Select::new().with(&mut send).with(&mut recv).wait(), Some(0));
/// });
/// assert_eq!(send.take(), Ok(()));
/// assert_eq!(Select::new().with(&mut recv).wait_timeout(Duration::from_millis(1)), None);
/// ```
#[derive(Default)]
#[must_use = "a select does nothing before `wait`"]
pub struct Select<'a> {
    /// With the numbers the user knows them by; their order changes.
    cases: Vec<(usize, &'a mut dyn Case)>,
}

impl<'a> Select<'a> {
    /// No cases yet.
    pub fn new() -> Self {
        Self { cases: Vec::new() }
    }

    /// Adds a case.
    ///
    /// # Panics
    /// If another select completed it: take its [outcome](RecvCase::take) first; a value that was sent is gone.
    pub fn with(mut self, case: &'a mut impl Case) -> Self {
        assert!(
            case.is_open(),
            "a case was completed by an earlier select; take its outcome, and make a new case to send again"
        );
        self.cases.push((self.cases.len(), case));
        assert!(self.cases.len() < usize::from(TIMEOUT), "a select has fewer than {TIMEOUT} cases");
        self
    }

    /// Completes a case if one can be completed now: the default of a select. Returns its number.
    pub fn poll(mut self) -> Option<usize> {
        strand::with(|strand| {
            strand.checkpoint();
            strand.charge_channel_op();
            self.attempt(strand)
        })
    }

    /// Completes one case, and waits until that can be done. Returns its number, counting from 0; None if there are no
    /// cases.
    pub fn wait(self) -> Option<usize> {
        if self.cases.is_empty() { None } else { self.until(None) }
    }

    /// The same, waiting up to `time`. None if time was up first.
    pub fn wait_timeout(self, time: Duration) -> Option<usize> {
        self.until(Some(clock::due(time)))
    }

    fn until(mut self, deadline: Option<Instant>) -> Option<usize> {
        strand::with(|strand| {
            strand.checkpoint();
            strand.charge_channel_op();
            loop {
                if let Some(done) = self.attempt(strand) {
                    return Some(done);
                }
                let token = strand.waiter.token();
                if self.enlist(token) && token.withdraw() {
                    self.leave(token, None);
                    continue;
                }
                match wait::wait(strand, token, deadline) {
                    End::Claimed(code) => {
                        self.leave(token, Some(code));
                        let (number, case) = &mut self.cases[usize::from(code)];
                        if case.claimed(token, code) {
                            return Some(*number);
                        }
                    }
                    End::TimedOut => {
                        self.leave(token, None);
                        return self.attempt(strand);
                    }
                    End::Cancelled => {
                        self.leave(token, None);
                        strand.unwind();
                    }
                }
            }
        })
    }

    /// Tries all cases, in random order.
    fn attempt(&mut self, strand: &Strand) -> Option<usize> {
        for left in (2..=self.cases.len()).rev() {
            let chosen = left - 1 - strand.choose(left, Decision::Select);
            self.cases.swap(left - 1, chosen);
        }
        self.cases.iter_mut().find_map(|(number, case)| case.attempt().then_some(*number))
    }

    /// Enters every wait queue, in the order of the last attempt: a case's position is its code. True if one of them
    /// should be tried again.
    fn enlist(&mut self, token: WaitToken) -> bool {
        let mut ready = false;
        for (place, (_, case)) in self.cases.iter_mut().enumerate() {
            ready |= case.enlist(token, place as u16);
        }
        ready
    }

    fn leave(&mut self, token: WaitToken, except: Option<u16>) {
        for (place, (_, case)) in self.cases.iter_mut().enumerate() {
            if Some(place as u16) != except {
                case.leave(token, place as u16);
            }
        }
    }
}

impl fmt::Debug for Select<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Select").field("cases", &self.cases.len()).finish()
    }
}

impl<T> fmt::Debug for RecvCase<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecvCase").field("done", &self.is_done()).finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for SendCase<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SendCase").field("done", &self.is_done()).finish_non_exhaustive()
    }
}

/// Waits for the first of several operations that can be done, does it, and runs its arm.
///
/// | arm | when |
/// |---|---|
/// | `pattern = recv(receiver) => body` | a value came, or the channel is closed: the pattern is for a `Result<T, RecvError>` |
/// | `pattern = send(sender, value) => body` | the value was sent, or the channel is closed: a `Result<(), SendError<T>>` |
/// | `timeout(duration) => body` | nothing could be done for this long |
/// | `default => body` | nothing can be done now |
///
/// The pattern and its `=` may be left out. It must match every result: to tell the cases apart, `match` in the body.
/// If several arms can be taken, one is chosen at random. At most one `timeout` or one `default`, at the end; for more
/// than some thirty arms use [`Select`]. `break`, `return` and `?` work in the bodies.
///
/// A value is moved into the select before it waits. If another arm is taken, the value is available again in that arm:
/// a variable under its own name, any other expression under the name given by `send(sender, name = expression)`. A
/// value without a name is dropped.
///
/// ```
/// use bursar::{channel, select};
///
/// let (tx, _rx) = channel::<String>(1);
/// tx.send("first".into())?;
/// let text = String::from("second");
/// let kept = select! {
///     send(tx, text) => None,
///     default => Some(text), // full: it was not sent, and is ours again
/// };
/// assert_eq!(kept.as_deref(), Some("second"));
/// # Ok::<(), bursar::TaskError>(())
/// ```
///
/// ```
/// use std::time::Duration;
/// use bursar::{channel, nursery, select};
///
/// let (work, jobs) = channel(4);
/// let (stop, stopped) = channel::<()>(1);
/// let (log, lines) = channel(16);
/// let done = nursery(|n| {
///     let worker = n.try_spawn(move || {
///         let mut done = 0;
///         loop {
///             select! {
///                 job = recv(jobs) => done += job?,
///                 recv(stopped) => break,
///                 timeout(Duration::from_secs(10)) => return Err(bursar::TaskError::msg("no work")),
///             }
///             select! {
///                 send(log, done) => {}
///                 default => {} // the log is full: drop the line
///             }
///         }
///         Ok(done)
///     });
///     work.send(1)?;
///     work.send(2)?;
///     while lines.recv()? < 3 {}
///     stop.send(())?;
///     worker.join()
/// })?;
/// assert_eq!(done, 3);
/// # Ok::<(), bursar::TaskError>(())
/// ```
#[macro_export]
macro_rules! select {
    // ---- an arm: its operation, and the name under which a value comes back that was not sent ----
    (@arms $cases:tt recv($receiver:expr) => $($rest:tt)*) => {
        $crate::select!(@body $cases (case, (), _, channel, $receiver, $crate::Receiver::case(channel)) $($rest)*)
    };
    (@arms $cases:tt send($($send:tt)*) => $($rest:tt)*) => {
        $crate::select!(@arms $cases _ = send($($send)*) => $($rest)*)
    };
    (@arms $cases:tt timeout($time:expr) => $body:expr $(,)?) => {
        $crate::select!(@done $cases (wait_timeout, $time) $body)
    };
    (@arms $cases:tt default => $body:expr $(,)?) => {
        $crate::select!(@done $cases (poll) $body)
    };
    (@arms $cases:tt else => $($rest:tt)*) => {
        ::std::compile_error!("what `select!` does when nothing can be done now is its arm `default => body`, not `else`")
    };
    (@arms $cases:tt $pattern:pat = recv($receiver:expr) => $($rest:tt)*) => {
        $crate::select!(@body $cases
            (case, (), $pattern, channel, $receiver, $crate::Receiver::case(channel)) $($rest)*)
    };
    (@arms $cases:tt $pattern:pat = send($sender:expr, $name:ident) => $($rest:tt)*) => {
        $crate::select!(@body $cases
            (case, ($name), $pattern, channel, $sender, $crate::Sender::case(channel, $name)) $($rest)*)
    };
    (@arms $cases:tt $pattern:pat = send($sender:expr, $name:ident = $value:expr) => $($rest:tt)*) => {
        $crate::select!(@body $cases
            (case, ($name), $pattern, channel, $sender, $crate::Sender::case(channel, $value)) $($rest)*)
    };
    (@arms $cases:tt $pattern:pat = send($sender:expr, $value:expr) => $($rest:tt)*) => {
        $crate::select!(@body $cases
            (case, (), $pattern, channel, $sender, $crate::Sender::case(channel, $value)) $($rest)*)
    };
    (@arms $cases:tt) => {
        $crate::select!(@done $cases (wait) ::std::unreachable!("a select without a way out completes a case"))
    };
    // ---- and its body ----
    (@body [$($cases:tt)*] ($($arm:tt)*) $body:block, $($rest:tt)*) => {
        $crate::select!(@arms [$($cases)* ($($arm)*, $body)] $($rest)*)
    };
    (@body [$($cases:tt)*] ($($arm:tt)*) $body:block $($rest:tt)*) => {
        $crate::select!(@arms [$($cases)* ($($arm)*, $body)] $($rest)*)
    };
    (@body [$($cases:tt)*] ($($arm:tt)*) $body:expr, $($rest:tt)*) => {
        $crate::select!(@arms [$($cases)* ($($arm)*, $body)] $($rest)*)
    };
    (@body [$($cases:tt)*] ($($arm:tt)*) $body:expr) => {
        $crate::select!(@arms [$($cases)* ($($arm)*, $body)])
    };
    // ---- all arms are known ----
    (@done [$(($case:ident, $name:tt, $pattern:pat, $channel:ident, $end:expr, $make:expr, $body:expr))+] ($wait:ident $(, $time:expr)?) $otherwise:expr) => {{
        $(
            let $channel = &$end; // also of an expression: it lives as long as the select
            let mut $case = $make;
        )+
        let _ = $crate::Select::new()$(.with(&mut $case))+.$wait($($time)?);
        $crate::select!(@taken [] [$(($case, $name, $pattern, $body))+] $otherwise)
    }};
    // ---- which was taken; `others` are all but that one ----
    (@taken [$($others:tt)*] [] $otherwise:expr) => {
        $crate::select!(@back [$($others)*] $otherwise)
    };
    (@taken [$($others:tt)*] [
        ($case:ident, $name:tt, $pattern:pat, $body:expr)
        $(($case_after:ident, $name_after:tt, $pattern_after:pat, $body_after:expr))*
    ] $otherwise:expr) => {
        if $case.is_done() {
            // What comes back first: a name of the pattern hides it.
            $crate::select!(@back [$($others)* $(($case_after $name_after))*] {
                let $pattern = $case.take();
                $body
            })
        } else {
            $crate::select!(@taken [$($others)* ($case $name)] [
                $(($case_after, $name_after, $pattern_after, $body_after))*
            ] $otherwise)
        }
    };
    // ---- their values come back ----
    (@back [$(($case:ident ()))*] $body:expr) => {
        $body
    };
    (@back [($case:ident ()) $($others:tt)*] $body:expr) => {
        $crate::select!(@back [$($others)*] $body)
    };
    (@back [($case:ident ($name:ident)) $($others:tt)*] $body:expr) => {
        match $case.into_value() {
            ::std::option::Option::Some($name) => {
                let _ = &$name; // not every arm needs it
                $crate::select!(@back [$($others)*] $body)
            }
            _ => ::std::unreachable!("what was not sent is there"),
        }
    };
    (@$($unknown:tt)*) => {
        ::std::compile_error!(
            "an arm of `select!` is `pattern = recv(receiver) => body`, `pattern = send(sender, value) => body`, \
             `timeout(duration) => body` or `default => body`; the last two come last"
        )
    };
    () => {
        ::std::compile_error!("a `select!` without arms would wait for ever")
    };
    ($($arms:tt)+) => {
        $crate::select!(@arms [] $($arms)+)
    };
}
