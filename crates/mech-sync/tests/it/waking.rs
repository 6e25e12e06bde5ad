//! Seats, tickets, homes, and those who wake them.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    task::{Wake as StdWake, Waker},
    thread,
    time::{Duration, Instant},
};

use mech_sync::{Completion, Countdown, Finish, Home, Idle, Park, Seat, TIMEOUT, Ticket, TicketCell, Wake};

fn leak<T>(value: T) -> &'static T {
    Box::leak(Box::new(value))
}

fn thread_seat() -> (&'static Home, &'static Seat) {
    let home = leak(Home::for_thread());
    (home, leak(Seat::new(home)))
}

fn wake(ticket: Ticket, code: u16) -> bool {
    match ticket.wake(code) {
        Wake::Parked(delivery) => delivery.send(),
        Wake::Awake => {}
        Wake::Stale => return false,
    }
    true
}

#[test]
fn a_ticket_wakes_one_wait() {
    let (home, seat) = thread_seat();
    let first = seat.ticket();
    assert!(!first.is_woken());
    assert_eq!(first.park(), Park::Parked);
    assert!(wake(first, 7));
    assert!(first.is_woken());
    assert_eq!(home.arrivals().count(), 1);
    assert_eq!(first.park(), Park::Woken(7));
    assert!(!wake(first, 8), "a ticket is good for one wake");

    let second = seat.ticket();
    assert_eq!(second.park(), Park::Parked);
    assert!(!wake(first, 9), "an old ticket does nothing to the next wait");
    assert!(!second.is_woken() && !home.has_arrivals());
    assert!(wake(second, TIMEOUT));
    assert_eq!(second.park(), Park::Woken(TIMEOUT));
}

#[test]
fn a_wake_before_the_wait_delivers_nothing() {
    let (home, seat) = thread_seat();
    let ticket = seat.ticket();
    assert!(matches!(ticket.wake(1), Wake::Awake));
    assert_eq!(ticket.park(), Park::Woken(1));
    assert!(!home.has_arrivals());
}

#[test]
fn a_withdrawn_ticket_is_stale() {
    let (home, seat) = thread_seat();
    let ticket = seat.ticket();
    assert!(ticket.withdraw());
    assert!(!wake(ticket, 1));
    assert!(!ticket.withdraw());

    let woken = seat.ticket();
    assert!(wake(woken, 3));
    assert!(!woken.withdraw(), "it comes too late");
    assert_eq!(woken.park(), Park::Woken(3));
    assert!(!home.has_arrivals());
}

#[test]
fn an_owner_that_comes_back_knows_what_will_arrive() {
    let (home, seat) = thread_seat();
    let alone = seat.ticket();
    assert_eq!(alone.park(), Park::Parked);
    assert!(alone.unpark(), "nobody else came");
    assert!(!wake(alone, 1));

    let woken = seat.ticket();
    assert_eq!(woken.park(), Park::Parked);
    let Wake::Parked(late) = woken.wake(4) else { panic!("it was parked") };
    assert!(!woken.unpark());
    assert_eq!(woken.park(), Park::Woken(4));
    late.send();
    assert_eq!(home.arrivals().count(), 1);

    let kicked = seat.ticket();
    assert_eq!(kicked.park(), Park::Parked);
    let late = seat.kick().expect("it was parked");
    assert!(!kicked.unpark());
    assert_eq!(kicked.park(), Park::Woken(TIMEOUT));
    late.send();
    assert_eq!(home.arrivals().count(), 1);
}

#[test]
fn a_kick_is_remembered() {
    let (home, seat) = thread_seat();
    assert!(seat.kick().is_none(), "it does not sleep");
    assert!(seat.kick().is_none(), "two kicks are one");
    let ticket = seat.ticket();
    assert!(wake(ticket, 5));
    assert_eq!(ticket.park(), Park::Woken(5));
    let next = seat.ticket();
    assert_eq!(next.park(), Park::Kicked, "the kick outlived the wait before");
    assert_eq!(next.park(), Park::Parked);
    seat.kick().expect("it sleeps").send();
    assert_eq!(home.arrivals().count(), 1);
    assert!(!next.is_woken(), "a kick leaves the ticket good");
    assert_eq!(next.park(), Park::Kicked);
    assert!(wake(next, 6));
    assert_eq!(next.park(), Park::Woken(6));
}

#[test]
fn a_delivery_knows_its_home() {
    let ((here, seat), (there, _)) = (thread_seat(), thread_seat());
    seat.move_to(there);
    let ticket = seat.ticket();
    assert_eq!(ticket.park(), Park::Parked);
    let Wake::Parked(delivery) = ticket.wake(0) else { panic!("it was parked") };
    assert!(delivery.is_for(there) && !delivery.is_for(here));
    delivery.send();
    assert!(there.has_arrivals() && !here.has_arrivals());
}

#[test]
fn a_cell_keeps_a_ticket() {
    let (_, seat) = thread_seat();
    let cell = TicketCell::new();
    assert!(cell.get().is_none());
    assert!(seat.ticket().withdraw());
    cell.set(seat.ticket());
    assert!(cell.get().is_some_and(|kept| wake(kept, 0)));
    assert!(seat.ticket().withdraw(), "a new wait has begun");
}

#[test]
fn arrivals_come_in_the_order_delivered() {
    let home = leak(Home::for_thread());
    for tag in 0..5 {
        let seat = leak(Seat::new(home));
        seat.set_tag(tag);
        let ticket = seat.ticket();
        assert_eq!(ticket.park(), Park::Parked);
        assert!(wake(ticket, 0));
    }
    assert!(home.has_arrivals());
    let mut arrivals = home.arrivals();
    let tags: Vec<u32> = arrivals.by_ref().inspect(|seat| assert!(seat.next().is_none())).map(Seat::tag).collect();
    assert_eq!(tags, [0, 1, 2, 3, 4]);
    assert!(!home.has_arrivals());
}

#[test]
fn sleep_ends_at_the_deadline() {
    let home = leak(Home::for_thread());
    let deadline = Instant::now() + Duration::from_millis(20);
    home.fall_asleep();
    assert!(!home.sleep(Some(deadline)), "nobody rang");
    assert!(Instant::now() >= deadline);
    home.fall_asleep();
    assert!(!home.sleep(Some(deadline)), "a deadline in the past is over at once");
}

#[test]
fn sleep_ends_with_a_ring() {
    let home = leak(Home::for_thread());
    home.fall_asleep();
    home.ring(); // between the announcement and the sleep
    assert!(home.sleep(None));
    for deadline in [None, Some(Instant::now() + Duration::from_secs(60))] {
        home.fall_asleep();
        let ringer = thread::spawn(|| {
            thread::sleep(Duration::from_millis(5));
            home.ring();
        });
        assert!(home.sleep(deadline));
        ringer.join().unwrap();
    }
    home.ring(); // it is awake: nothing is kept
    home.fall_asleep();
    assert!(!home.sleep(Some(Instant::now())));
}

/// Counts its wakes; and when dropped, does what foreign code may do: uses the home it was left at.
struct Bell(AtomicUsize, &'static Home);

impl StdWake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

impl Drop for Bell {
    fn drop(&mut self) {
        self.1.ring();
    }
}

#[test]
fn a_future_is_woken_through_its_newest_waker() {
    let home = leak(Home::for_future());
    let ticket = leak(Seat::new(home)).ticket();
    let bells = [(); 2].map(|()| Arc::new(Bell(AtomicUsize::new(0), home)));
    let rung = || [&bells[0], &bells[1]].map(|bell| bell.0.load(SeqCst));
    home.set_waker(&Waker::from(bells[0].clone()));
    assert_eq!(ticket.park(), Park::Parked);
    home.set_waker(&Waker::from(bells[1].clone()));
    assert!(wake(ticket, 0));
    assert_eq!(rung(), [0, 1]);
    assert_eq!(home.arrivals().count(), 1);
    home.ring();
    assert_eq!(rung(), [0, 1], "a waker is used once");
}

#[test]
fn a_home_drops_wakers_when_it_is_unlocked() {
    let home = leak(Home::for_future());
    let waker = || Waker::from(Arc::new(Bell(AtomicUsize::new(0), home)));
    home.set_waker(&waker());
    home.set_waker(&waker()); // drops the first, which rings
    home.clear_waker();
}

#[test]
#[should_panic(expected = "a thread's home has no waker")]
fn a_thread_has_no_waker() {
    Home::for_thread().set_waker(Waker::noop());
}

#[test]
fn at_most_so_many_search() {
    let idle = Idle::new();
    assert!(idle.begin_search(2));
    assert!(idle.begin_search(2));
    assert!(!idle.begin_search(2));
    idle.end_search();
    assert!(idle.begin_search(2));
}

#[test]
fn work_rings_a_sleeper_only_if_nobody_searches() {
    let (idle, home) = (Idle::new(), leak(Home::for_thread()));
    let soon = || Some(Instant::now() + Duration::from_millis(1));
    assert!(idle.begin_search(1));
    idle.fall_asleep(home, false, true);
    assert!(idle.any_sleeper());
    idle.published();
    assert!(!home.sleep(soon()), "the searcher will see it");
    assert!(!idle.stay_awake(home));
    assert!(!idle.any_sleeper());

    idle.fall_asleep(home, false, true);
    idle.end_search(); // the last searcher passes the search on
    assert!(home.sleep(None));
    assert!(idle.stay_awake(home), "it was rung to search");
    assert!(!idle.begin_search(1));
    idle.end_search();
    assert!(idle.begin_search(1));
}

#[test]
fn a_searcher_that_changes_its_mind_still_searches() {
    let (idle, home) = (Idle::new(), leak(Home::for_thread()));
    assert!(idle.begin_search(1));
    idle.fall_asleep(home, true, true);
    assert!(idle.stay_awake(home), "it looked, found work and did not sleep");
    idle.fall_asleep(home, true, true);
    assert!(!home.sleep(Some(Instant::now())));
    assert!(!idle.stay_awake(home), "it looked, found nothing and slept");
    assert!(idle.begin_search(1));
}

#[test]
fn who_cannot_take_everything_is_rung_last_and_passes_on() {
    let idle = Idle::new();
    let [first, picky, last] = [(); 3].map(|()| leak(Home::for_thread()));
    idle.fall_asleep(first, false, true);
    idle.fall_asleep(picky, false, false);
    idle.fall_asleep(last, false, true);
    for home in [last, first, picky] {
        idle.published();
        assert!(home.sleep(None));
        assert!(idle.stay_awake(home), "it was rung to search");
        idle.pass_on(); // so that the next is not taken for seen
        if std::ptr::eq(home, last) {
            assert!(first.sleep(None), "passed on");
            assert!(idle.stay_awake(first));
            idle.pass_on();
            idle.fall_asleep(first, false, true);
        }
    }
    idle.fall_asleep(picky, false, false);
    assert!(idle.begin_search(1));
    idle.pass_on();
    assert!(!picky.sleep(Some(Instant::now())), "nobody passes on to it");
}

#[test]
fn the_end_rings_all() {
    let idle = Idle::new();
    let homes = [(); 3].map(|()| leak(Home::for_thread()));
    homes.iter().for_each(|home| idle.fall_asleep(home, false, true));
    idle.ring_all();
    for home in homes {
        assert!(home.sleep(None));
        assert!(idle.stay_awake(home));
        idle.end_search();
    }
    assert!(!idle.any_sleeper() && idle.begin_search(1));
}

#[test]
fn the_last_to_end_gets_the_ticket() {
    let (_, seat) = thread_seat();
    let ticket = seat.ticket();
    let countdown = Countdown::new();
    assert!(countdown.done(1).is_none(), "the owner has not closed");
    countdown.add(2);
    assert!(countdown.done(1).is_none());
    assert!(!countdown.close(3, ticket));
    assert!(countdown.done(2).is_none());
    assert!(countdown.done(1).is_some_and(|owner| wake(owner, 0)));
    assert!(ticket.is_woken());

    let empty = Countdown::new();
    assert!(empty.close(0, seat.ticket()), "none was started");
    let over = Countdown::new();
    assert!(over.done(4).is_none());
    assert!(over.close(4, seat.ticket()), "all have ended");
}

#[test]
fn the_second_to_leave_frees() {
    let (_, seat) = thread_seat();
    let kept = Completion::new();
    assert!(!kept.is_done());
    assert!(matches!(kept.finish(), Finish::Kept));
    assert!(kept.is_done());
    assert!(!kept.wait(seat.ticket()), "there is nothing to wait for");
    assert!(kept.abandon());

    let left = Completion::new();
    assert!(!left.abandon());
    assert!(matches!(left.finish(), Finish::Abandoned));
    assert!(matches!(Completion::unread().finish(), Finish::Abandoned));

    let waited = Completion::new();
    assert!(waited.wait(seat.ticket()));
    assert!(waited.retract());
    assert!(waited.wait(seat.ticket()));
    assert!(matches!(waited.finish(), Finish::Wake(ticket) if wake(ticket, 0)));
    assert!(!waited.retract(), "the producer has seen it");
}
