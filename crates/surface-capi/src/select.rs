//! The first of several operations that can be done.
//!
//! Room: surface.
//!
//! # Invariant
//! A select is waited for by one at a time. Nothing is locked while it waits.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use sched_tasks::{RecvCase, Select as Cases, SendCase};

use crate::{
    cancel_token::{CancelToken, JanusCancelToken},
    channel::{Channel, JanusChannel, closed},
    codes::{JANUS_BUSY, JANUS_INVALID_ARGUMENT, JANUS_NOT_ACTIVE, JANUS_OK, Refusal},
    door::{coded, door, number},
    handles::{self, Held},
    pointers::Out,
};

/// Several operations, of which one is to be done. It can be waited for again and again, as in a loop.
pub struct JanusSelect;

/// So many cases a select can have.
pub const JANUS_SELECT_CASES_MAX: usize = 1024;

#[derive(Default)]
pub(crate) struct Select(Mutex<State>);

#[derive(Default)]
struct State {
    cases: Vec<Case>,
    is_waited_for: bool,
    /// How what was done last went.
    done: Option<Outcome>,
}

#[derive(Clone)]
enum Case {
    Recv(Arc<Channel>),
    Send(Arc<Channel>, i64),
    Cancelled(Arc<CancelToken>),
    Timeout(Duration),
    Default,
}

#[derive(Clone, Copy)]
enum Outcome {
    Received(i64),
    Sent,
    Closed,
    /// A time, a token or the default: there is no value.
    Other,
}

impl Held for Select {
    type Opaque = JanusSelect;
    const KIND: u8 = b'L';
    const NAME: &'static str = "select";
    const MADE_BY: &'static str = "janus_select_create";
}

impl Select {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a case; returns its number.
    fn add(&self, case: Case) -> Result<i32, Refusal> {
        let mut state = self.lock();
        if state.is_waited_for {
            return Err(Refusal::new(JANUS_BUSY, "the select is being waited for; add cases before"));
        }
        let number = state.cases.len();
        if number == JANUS_SELECT_CASES_MAX {
            return Err(Refusal::new(
                JANUS_INVALID_ARGUMENT,
                format!("the select has {number} cases, which is the limit; let several of them share a channel"),
            ));
        }
        state.cases.push(case);
        Ok(i32::try_from(number).expect("there are fewer"))
    }

    fn wait(&self) -> Result<i32, Refusal> {
        let cases = {
            let mut state = self.lock();
            if state.is_waited_for {
                return Err(Refusal::new(
                    JANUS_BUSY,
                    "another task or thread waits for this select; create one for each that waits",
                ));
            }
            if state.cases.is_empty() {
                return Err(Refusal::new(
                    JANUS_INVALID_ARGUMENT,
                    "a select without cases would wait for ever; add one with `janus_select_add_recv`",
                ));
            }
            state.is_waited_for = true;
            state.cases.clone()
        };
        struct Waits<'a>(&'a Select);
        impl Drop for Waits<'_> {
            fn drop(&mut self) {
                self.0.lock().is_waited_for = false; // also if the caller is cancelled
            }
        }
        let waits = Waits(self);
        let (number, outcome) = first_of(&cases);
        self.lock().done = Some(outcome);
        drop(waits);
        Ok(i32::try_from(number).expect("cases are few"))
    }
}

/// Does one of the cases, and says which and with what outcome.
fn first_of(cases: &[Case]) -> (usize, Outcome) {
    let mut recvs: Vec<(usize, RecvCase<'_, i64>)> = Vec::new();
    let mut sends: Vec<(usize, SendCase<'_, i64>)> = Vec::new();
    let (mut timeout, mut default): (Option<(usize, Duration)>, Option<usize>) = (None, None);
    for (number, case) in cases.iter().enumerate() {
        match case {
            Case::Recv(channel) => recvs.push((number, channel.receiver.case())),
            Case::Cancelled(token) => recvs.push((number, token.cancelled().case())),
            Case::Send(channel, value) => sends.push((number, channel.sender.case(*value))),
            Case::Timeout(time) => {
                timeout = Some(
                    timeout.map_or((number, *time), |before| if *time < before.1 { (number, *time) } else { before }),
                );
            }
            Case::Default => default = default.or(Some(number)),
        }
    }
    let mut select = Cases::new();
    for (_, case) in &mut recvs {
        select = select.with(case);
    }
    for (_, case) in &mut sends {
        select = select.with(case);
    }
    let done = match (default, timeout) {
        (Some(_), _) => select.poll(),
        (None, Some((_, time))) => select.wait_timeout(time),
        (None, None) => select.wait(),
    };
    let received = recvs.len();
    match done {
        None => (default.or(timeout.map(|(number, _)| number)).expect("else a case was done"), Outcome::Other),
        Some(place) if place < received => {
            let (number, case) = &mut recvs[place];
            let outcome = match (case.take(), &cases[*number]) {
                (_, Case::Cancelled(_)) => Outcome::Other,
                (Ok(value), _) => Outcome::Received(value),
                (Err(_), _) => Outcome::Closed,
            };
            (*number, outcome)
        }
        Some(place) => {
            let (number, case) = &mut sends[place - received];
            (*number, if case.take().is_ok() { Outcome::Sent } else { Outcome::Closed })
        }
    }
}

/// Makes a select without cases. NULL if that is not possible.
#[unsafe(no_mangle)]
pub extern "C" fn janus_select_create() -> *mut JanusSelect {
    door(|_| std::ptr::null_mut(), || handles::insert(Arc::new(Select::default())))
}

/// Adds a case that receives. Returns its number, counted from 0, or a code below 0.
#[unsafe(no_mangle)]
pub extern "C" fn janus_select_add_recv(select: *mut JanusSelect, channel: *mut JanusChannel) -> i32 {
    number(|| handles::get::<Select>(select)?.add(Case::Recv(handles::get::<Channel>(channel)?)))
}

/// Adds a case that sends a value, the same each time it is waited for. Returns its number, or a code below 0.
#[unsafe(no_mangle)]
pub extern "C" fn janus_select_add_send(select: *mut JanusSelect, channel: *mut JanusChannel, value: i64) -> i32 {
    number(|| handles::get::<Select>(select)?.add(Case::Send(handles::get::<Channel>(channel)?, value)))
}

/// Adds a case that is done when the token is cancelled. Returns its number, or a code below 0.
#[unsafe(no_mangle)]
pub extern "C" fn janus_select_add_cancel(select: *mut JanusSelect, token: *mut JanusCancelToken) -> i32 {
    number(|| handles::get::<Select>(select)?.add(Case::Cancelled(handles::get::<CancelToken>(token)?)))
}

/// Adds a case that is done when no other could be for so long, counted from each wait. Of several the shortest counts. Returns its number, or a code below 0.
#[unsafe(no_mangle)]
pub extern "C" fn janus_select_add_timeout(select: *mut JanusSelect, timeout_nanoseconds: u64) -> i32 {
    number(|| handles::get::<Select>(select)?.add(Case::Timeout(Duration::from_nanos(timeout_nanoseconds))))
}

/// Adds a case that is done when no other can be done now. Returns its number, or a code below 0.
#[unsafe(no_mangle)]
pub extern "C" fn janus_select_add_default(select: *mut JanusSelect) -> i32 {
    number(|| handles::get::<Select>(select)?.add(Case::Default))
}

/// Does one of the cases, and waits until that is possible; of several that are possible, one by chance. Returns its number, or a code below 0. A case on a closed channel is possible: see `janus_select_get_status`.
#[unsafe(no_mangle)]
pub extern "C" fn janus_select_wait(select: *mut JanusSelect) -> i32 {
    number(|| handles::get::<Select>(select)?.wait())
}

fn done(select: *mut JanusSelect) -> Result<Outcome, Refusal> {
    let done = handles::get::<Select>(select)?.lock().done;
    done.ok_or_else(|| {
        Refusal::new(JANUS_NOT_ACTIVE, "the select has done nothing yet; call `janus_select_wait` before")
    })
}

/// How the case went that was done last: `JANUS_OK`, or `JANUS_CLOSED`.
#[unsafe(no_mangle)]
pub extern "C" fn janus_select_get_status(select: *mut JanusSelect) -> i32 {
    number(|| match done(select)? {
        Outcome::Closed => Err(closed()),
        Outcome::Received(_) | Outcome::Sent | Outcome::Other => Ok(JANUS_OK),
    })
}

/// The value that was received last. `JANUS_CLOSED` if the channel is closed; `JANUS_NOT_ACTIVE` if what was done last did not receive.
///
/// # Safety
/// `value` may be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn janus_select_get_recv_value(select: *mut JanusSelect, value: *mut i64) -> i32 {
    coded(|| {
        // SAFETY: as the caller promised.
        let out = unsafe { Out::new(value, "value") }?;
        match done(select)? {
            Outcome::Received(value) => {
                out.put(value);
                Ok(())
            }
            Outcome::Closed => Err(closed()),
            Outcome::Sent | Outcome::Other => Err(Refusal::new(
                JANUS_NOT_ACTIVE,
                "the case that was done last received no value; look at what `janus_select_wait` returned",
            )),
        }
    })
}

/// Lets go of the handle. One that waits for it goes on to wait.
#[unsafe(no_mangle)]
pub extern "C" fn janus_select_destroy(select: *mut JanusSelect) -> i32 {
    coded(|| handles::remove::<Select>(select).map(drop))
}
