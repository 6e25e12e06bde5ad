//! Waiters, tokens, inboxes and wakers.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    task::{Wake as StdWake, Waker},
    thread,
    time::{Duration, Instant},
};

use mech_sync::{Completion, Countdown, Finish, Idle, Inbox, Park, TIMEOUT, TokenCell, WaitToken, Waiter, Wake};

fn leak<T>(value: T) -> &'static T {
    Box::leak(Box::new(value))
}

fn thread_waiter() -> (&'static Inbox, &'static Waiter) {
    let inbox = leak(Inbox::for_thread());
    (inbox, leak(Waiter::new(inbox)))
}

fn wake(token: WaitToken, code: u16) -> bool {
    match token.wake(code) {
        Wake::Parked(delivery) => delivery.send(),
        Wake::Awake => {}
        Wake::Stale => return false,
    }
    true
}

#[test]
fn a_token_wakes_one_wait() {
    let (inbox, waiter) = thread_waiter();
    let first = waiter.token();
    assert!(!first.is_woken());
    assert_eq!(first.park(), Park::Parked);
    assert!(wake(first, 7));
    assert!(first.is_woken());
    assert_eq!(inbox.arrivals().count(), 1);
    assert_eq!(first.park(), Park::Woken(7));
    assert!(!wake(first, 8), "a token is good for one wake");

    let second = waiter.token();
    assert_eq!(second.park(), Park::Parked);
    assert!(!wake(first, 9), "an old token does nothing to the next wait");
    assert!(!second.is_woken() && !inbox.has_arrivals());
    assert!(wake(second, TIMEOUT));
    assert_eq!(second.park(), Park::Woken(TIMEOUT));
}

#[test]
fn a_wake_before_the_wait_delivers_nothing() {
    let (inbox, waiter) = thread_waiter();
    let token = waiter.token();
    assert!(matches!(token.wake(1), Wake::Awake));
    assert_eq!(token.park(), Park::Woken(1));
    assert!(!inbox.has_arrivals());
}

#[test]
fn a_withdrawn_token_is_stale() {
    let (inbox, waiter) = thread_waiter();
    let token = waiter.token();
    assert!(token.withdraw());
    assert!(!wake(token, 1));
    assert!(!token.withdraw());

    let woken = waiter.token();
    assert!(wake(woken, 3));
    assert!(!woken.withdraw(), "it comes too late");
    assert_eq!(woken.park(), Park::Woken(3));
    assert!(!inbox.has_arrivals());
}

#[test]
fn an_owner_that_comes_back_knows_what_will_arrive() {
    let (inbox, waiter) = thread_waiter();
    let alone = waiter.token();
    assert_eq!(alone.park(), Park::Parked);
    assert!(alone.unpark(), "no waker came");
    assert!(!wake(alone, 1));

    let woken = waiter.token();
    assert_eq!(woken.park(), Park::Parked);
    let Wake::Parked(late) = woken.wake(4) else { panic!("it was parked") };
    assert!(!woken.unpark());
    assert_eq!(woken.park(), Park::Woken(4));
    late.send();
    assert_eq!(inbox.arrivals().count(), 1);

    let interrupted = waiter.token();
    assert_eq!(interrupted.park(), Park::Parked);
    let late = waiter.interrupt().expect("it was parked");
    assert!(!interrupted.unpark());
    assert_eq!(interrupted.park(), Park::Woken(TIMEOUT));
    late.send();
    assert_eq!(inbox.arrivals().count(), 1);
}

#[test]
fn an_interrupt_is_remembered() {
    let (inbox, waiter) = thread_waiter();
    assert!(waiter.interrupt().is_none(), "it does not sleep");
    assert!(waiter.interrupt().is_none(), "two interrupts are one");
    let token = waiter.token();
    assert!(wake(token, 5));
    assert_eq!(token.park(), Park::Woken(5));
    let next = waiter.token();
    assert_eq!(next.park(), Park::Interrupted, "the interrupt outlived the wait before");
    assert_eq!(next.park(), Park::Parked);
    waiter.interrupt().expect("it sleeps").send();
    assert_eq!(inbox.arrivals().count(), 1);
    assert!(!next.is_woken(), "an interrupt leaves the token good");
    assert_eq!(next.park(), Park::Interrupted);
    assert!(wake(next, 6));
    assert_eq!(next.park(), Park::Woken(6));
}

#[test]
fn a_delivery_knows_its_inbox() {
    let ((here, waiter), (there, _)) = (thread_waiter(), thread_waiter());
    waiter.move_to(there);
    let token = waiter.token();
    assert_eq!(token.park(), Park::Parked);
    let Wake::Parked(delivery) = token.wake(0) else { panic!("it was parked") };
    assert!(delivery.is_for(there) && !delivery.is_for(here));
    delivery.send();
    assert!(there.has_arrivals() && !here.has_arrivals());
}

#[test]
fn a_cell_keeps_a_token() {
    let (_, waiter) = thread_waiter();
    let cell = TokenCell::new();
    assert!(cell.get().is_none());
    assert!(waiter.token().withdraw());
    cell.set(waiter.token());
    assert!(cell.get().is_some_and(|kept| wake(kept, 0)));
    assert!(waiter.token().withdraw(), "a new wait has begun");
}

#[test]
fn arrivals_come_in_the_order_delivered() {
    let inbox = leak(Inbox::for_thread());
    for tag in 0..5 {
        let waiter = leak(Waiter::new(inbox));
        waiter.set_tag(tag);
        let token = waiter.token();
        assert_eq!(token.park(), Park::Parked);
        assert!(wake(token, 0));
    }
    assert!(inbox.has_arrivals());
    let mut arrivals = inbox.arrivals();
    let tags: Vec<u32> =
        arrivals.by_ref().inspect(|waiter| assert!(waiter.next().is_none())).map(Waiter::tag).collect();
    assert_eq!(tags, [0, 1, 2, 3, 4]);
    assert!(!inbox.has_arrivals());
}

#[test]
fn sleep_ends_at_the_deadline() {
    let inbox = leak(Inbox::for_thread());
    let deadline = Instant::now() + Duration::from_millis(20);
    inbox.fall_asleep();
    assert!(!inbox.sleep(Some(deadline)), "no notification came");
    assert!(Instant::now() >= deadline);
    inbox.fall_asleep();
    assert!(!inbox.sleep(Some(deadline)), "a deadline in the past is over at once");
}

#[test]
fn sleep_ends_with_a_notification() {
    let inbox = leak(Inbox::for_thread());
    inbox.fall_asleep();
    inbox.notify(); // between the announcement and the sleep
    assert!(inbox.sleep(None));
    for deadline in [None, Some(Instant::now() + Duration::from_secs(60))] {
        inbox.fall_asleep();
        let ringer = thread::spawn(|| {
            thread::sleep(Duration::from_millis(5));
            inbox.notify();
        });
        assert!(inbox.sleep(deadline));
        ringer.join().unwrap();
    }
    inbox.notify(); // it is awake: nothing is kept
    inbox.fall_asleep();
    assert!(!inbox.sleep(Some(Instant::now())));
}

/// Counts its wakes; and when dropped, does what foreign code may do: uses the waiter it was left at.
struct CountingWaker(AtomicUsize, &'static Waiter);

impl StdWake for CountingWaker {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

impl Drop for CountingWaker {
    fn drop(&mut self) {
        self.1.has_waker();
        self.1.clear_waker();
    }
}

#[test]
fn a_future_is_woken_through_its_newest_waker() {
    let waiter = leak(Waiter::for_future());
    let wakers = [(); 2].map(|()| Arc::new(CountingWaker(AtomicUsize::new(0), waiter)));
    let woken = || [&wakers[0], &wakers[1]].map(|waker| waker.0.load(SeqCst));
    for round in 1..4 {
        let token = waiter.token();
        waiter.keep_waker(&Waker::from(wakers[0].clone()));
        assert_eq!(token.park(), Park::Parked);
        waiter.change_waker(&Waker::from(wakers[1].clone()));
        waiter.change_waker(&Waker::from(wakers[1].clone()));
        assert!(!waiter.is_waker_taken());
        assert!(wake(token, 0));
        assert_eq!(woken(), [0, round], "a waker is used once");
        waiter.change_waker(&Waker::from(wakers[0].clone())); // too late
        assert!(waiter.is_waker_taken());
        waiter.clear_waker();
    }
    let kept = |waker: &Arc<_>| Arc::strong_count(waker) - 1;
    assert_eq!(wakers.each_ref().map(kept), [0, 0], "a waiter that is not in use keeps nothing alive");
}

#[test]
fn a_waiter_drops_wakers_when_it_can_be_used_again() {
    let waiter = leak(Waiter::for_future());
    let waker = || Waker::from(Arc::new(CountingWaker(AtomicUsize::new(0), waiter)));
    waiter.keep_waker(&waker());
    waiter.clear_waker(); // drops it, which clears once more
    assert!(!waiter.has_waker());
}

#[test]
fn the_number_of_searchers_is_limited() {
    let idle = Idle::new();
    assert!(idle.begin_search(2));
    assert!(idle.begin_search(2));
    assert!(!idle.begin_search(2));
    idle.end_search(|| true);
    assert!(idle.begin_search(2));
}

#[test]
fn work_notifies_a_sleeper_only_if_no_worker_searches() {
    let (idle, inbox) = (Idle::new(), leak(Inbox::for_thread()));
    let soon = || Some(Instant::now() + Duration::from_millis(1));
    assert!(idle.begin_search(1));
    idle.fall_asleep(inbox, false, true);
    assert!(idle.any_sleeper());
    idle.published();
    assert!(!inbox.sleep(soon()), "the searcher will see it");
    assert!(!idle.stay_awake(inbox));
    assert!(!idle.any_sleeper());

    idle.fall_asleep(inbox, false, true);
    idle.end_search(|| true); // the last searcher passes the search on
    assert!(inbox.sleep(None));
    assert!(idle.stay_awake(inbox), "it was notified to search");
    assert!(!idle.begin_search(1));
    idle.end_search(|| true);
    assert!(idle.begin_search(1));
}

#[test]
fn a_searcher_that_changes_its_mind_still_searches() {
    let (idle, inbox) = (Idle::new(), leak(Inbox::for_thread()));
    assert!(idle.begin_search(1));
    idle.fall_asleep(inbox, true, true);
    assert!(idle.stay_awake(inbox), "it looked, found work and did not sleep");
    idle.fall_asleep(inbox, true, true);
    assert!(!inbox.sleep(Some(Instant::now())));
    assert!(!idle.stay_awake(inbox), "it looked, found nothing and slept");
    assert!(idle.begin_search(1));
}

#[test]
fn a_worker_that_cannot_take_everything_is_notified_last_and_passes_on() {
    let idle = Idle::new();
    let [first, picky, last] = [(); 3].map(|()| leak(Inbox::for_thread()));
    idle.fall_asleep(first, false, true);
    idle.fall_asleep(picky, false, false);
    idle.fall_asleep(last, false, true);
    for inbox in [last, first, picky] {
        idle.published();
        assert!(inbox.sleep(None));
        assert!(idle.stay_awake(inbox), "it was notified to search");
        idle.pass_on(); // so that the next is not taken for seen
        if std::ptr::eq(inbox, last) {
            assert!(first.sleep(None), "passed on");
            assert!(idle.stay_awake(first));
            idle.pass_on();
            idle.fall_asleep(first, false, true);
        }
    }
    idle.fall_asleep(picky, false, false);
    assert!(idle.begin_search(1));
    idle.pass_on();
    assert!(!picky.sleep(Some(Instant::now())), "no worker passes on to it");
}

#[test]
fn shutdown_notifies_all() {
    let idle = Idle::new();
    let inboxes = [(); 3].map(|()| leak(Inbox::for_thread()));
    inboxes.iter().for_each(|inbox| idle.fall_asleep(inbox, false, true));
    idle.notify_all();
    for inbox in inboxes {
        assert!(inbox.sleep(None));
        assert!(idle.stay_awake(inbox));
        idle.end_search(|| true);
    }
    assert!(!idle.any_sleeper() && idle.begin_search(1));
}

#[test]
fn the_last_to_end_gets_the_token() {
    let (_, waiter) = thread_waiter();
    let token = waiter.token();
    let countdown = Countdown::new();
    assert!(countdown.done(1).is_none(), "the owner has not closed");
    countdown.add(2);
    assert!(countdown.done(1).is_none());
    assert!(!countdown.close(3, token));
    assert!(countdown.done(2).is_none());
    assert!(countdown.done(1).is_some_and(|owner| wake(owner, 0)));
    assert!(token.is_woken());

    let empty = Countdown::new();
    assert!(empty.close(0, waiter.token()), "none was started");
    let over = Countdown::new();
    assert!(over.done(4).is_none());
    assert!(over.close(4, waiter.token()), "all have ended");
}

#[test]
fn the_second_to_leave_frees() {
    let (_, waiter) = thread_waiter();
    let kept = Completion::new();
    assert!(!kept.is_done());
    assert!(matches!(kept.finish(), Finish::Kept));
    assert!(kept.is_done());
    assert!(!kept.wait(waiter.token()), "there is nothing to wait for");
    assert!(kept.abandon());

    let left = Completion::new();
    assert!(!left.abandon());
    assert!(matches!(left.finish(), Finish::Abandoned));
    assert!(matches!(Completion::unread().finish(), Finish::Abandoned));

    let waited = Completion::new();
    assert!(waited.wait(waiter.token()));
    assert!(waited.retract());
    assert!(waited.wait(waiter.token()));
    assert!(matches!(waited.finish(), Finish::Wake(token) if wake(token, 0)));
    assert!(!waited.retract(), "the producer has seen it");
}
