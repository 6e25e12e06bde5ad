//! The macro `select!`: arms become cases, and what was not sent comes back.
//!
//! Room: interface.

/// Waits for the first of several operations that can be done, does it, and runs its arm.
///
/// | arm | when |
/// |---|---|
/// | `pattern = recv(receiver) => body` | a value came, or the channel is closed: the pattern is for a `Result<T, RecvError>` |
/// | the same, receiver of [`watch`](crate::watch) | there is a value that was not seen, or the sender is gone: what [`changed`](crate::watch::Receiver::changed) returns |
/// | the same, receiver of [`broadcast`](crate::broadcast) | a value came, some were missed, or the channel is closed: what [`recv`](crate::broadcast::Receiver::recv) returns |
/// | `pattern = send(sender, value) => body` | the value was sent, or the channel is closed: a `Result<(), SendError<T>>` |
/// | `timeout(duration) => body` | nothing could be done for this long |
/// | `default => body` | nothing can be done now |
///
/// The pattern and its `=` may be left out. It must match every result: to tell the cases apart, `match` in the body.
/// If several arms can be taken, one is chosen at random; with `biased;` before the arms, the first of them in the order
/// written. If none can be taken, the first that becomes possible is, in both forms. At most one `timeout` or one `default`, at the end; for more
/// than some thirty arms use [`Select`](crate::Select). `break`, `return` and `?` work in the bodies.
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
/// use bursar::{channel, select};
///
/// let (work, jobs) = channel(4);
/// let (stop, stopped) = channel(1);
/// work.send("job")?;
/// stop.send(())?;
/// let stops = select! {
///     biased; // a request to stop goes first, however much work there is
///     recv(stopped) => true,
///     recv(jobs) => false,
/// };
/// assert!(stops);
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
        $crate::select!(@body $cases (case, (), _, channel, $receiver, channel.case()) $($rest)*)
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
            (case, (), $pattern, channel, $receiver, channel.case()) $($rest)*)
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
    (@done [$($biased:ident)? $(($case:ident, $name:tt, $pattern:pat, $channel:ident, $end:expr, $make:expr, $body:expr))+] ($wait:ident $(, $time:expr)?) $otherwise:expr) => {{
        $(
            let $channel = &$end; // also of an expression: it lives as long as the select
            let mut $case = $make;
        )+
        let _ = $crate::Select::new()$(.$biased())?$(.with(&mut $case))+.$wait($($time)?);
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
             `timeout(duration) => body` or `default => body`; the last two come last, and `biased;` first"
        )
    };
    (biased; $($arms:tt)+) => {
        $crate::select!(@arms [biased] $($arms)+)
    };
    ($(biased;)?) => {
        ::std::compile_error!("a `select!` without arms would wait for ever")
    };
    ($($arms:tt)+) => {
        $crate::select!(@arms [] $($arms)+)
    };
}
