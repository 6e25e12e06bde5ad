//! Every interleaving of every protocol of this crate, as far as two preemptions go.
//!
//! ```text
//! RUSTFLAGS="--cfg loom" cargo test --release -p mech-sync --test loom
//! ```
//!
//! Each model is a sentence that the file it is about claims in its header. That a model can fail at all is shown by
//! `tests/planted.rs`, which breaks the code on purpose.
//!
//! What a thread hands to another is a [`Parcel`]: loom stops at any access to it that is not ordered after the one before.
//! Seats and homes live for ever in the real program, so here they are leaked.
#![cfg(loom)]

use std::{sync::Arc, task::Wake as StdWake};

use loom::{
    cell::UnsafeCell,
    sync::{
        Condvar, Mutex, Notify,
        atomic::{
            AtomicU32,
            Ordering::{Relaxed, SeqCst},
        },
    },
    thread,
};
use mech_sync::{
    Completion, Countdown, Deque, Finish, Home, Idle, Injector, Park, Ring, Seat, SpinLock, Steal, Stealer, TIMEOUT,
    Ticket, Wake,
};

/// Checks `model` under every schedule with few preemptions: two, unless `LOOM_MAX_PREEMPTIONS` says otherwise.
fn check(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound.get_or_insert(2);
    builder.check(model);
}

fn leak<T>(value: T) -> &'static T {
    Box::leak(Box::new(value))
}

/// Something one thread prepares and another uses, without atomics of its own.
#[derive(Debug)]
struct Parcel(UnsafeCell<u32>);

// SAFETY: loom reports the accesses that would make this unsound.
unsafe impl Send for Parcel {}
// SAFETY: as above.
unsafe impl Sync for Parcel {}

impl Parcel {
    fn new(value: u32) -> Self {
        Self(UnsafeCell::new(value))
    }

    fn put(&self, value: u32) {
        // SAFETY: loom has just checked that the access is exclusive.
        self.0.with_mut(|place| unsafe { *place = value });
    }

    fn peek(&self) -> u32 {
        // SAFETY: loom has just checked that nobody writes.
        self.0.with(|place| unsafe { *place })
    }

    /// Takes the value and leaves zero: nobody may take it twice.
    fn take(&self) -> u32 {
        // SAFETY: as in `put`.
        self.0.with_mut(|place| unsafe { std::mem::take(&mut *place) })
    }
}

/// A thread's home and a seat there.
fn thread_seat() -> (&'static Home, &'static Seat) {
    let home = leak(Home::for_thread());
    (home, leak(Seat::new(home)))
}

/// Sleeps until something is delivered; says how many seats were.
fn await_arrivals(home: &'static Home) -> usize {
    loop {
        let arrived = home.arrivals().count();
        if arrived > 0 {
            return arrived;
        }
        home.fall_asleep();
        if home.has_arrivals() {
            home.stay_awake();
        } else {
            home.sleep(None);
        }
    }
}

/// Waits as a plain thread does, and returns the code it was woken with.
fn await_wake(home: &'static Home, ticket: Ticket) -> u16 {
    loop {
        match ticket.park() {
            Park::Woken(code) => return code,
            Park::Parked => assert_eq!(await_arrivals(home), 1, "a parked seat is delivered once"),
            Park::Kicked => {}
        }
    }
}

/// Wakes and delivers; says whether the ticket was still good.
fn wake(ticket: Ticket, code: u16) -> bool {
    match ticket.wake(code) {
        Wake::Parked(delivery) => delivery.send(),
        Wake::Awake => {}
        Wake::Stale => return false,
    }
    true
}

mod deque {
    use super::*;

    /// Pushes parcels 1..=`count` in `0..count`, behind the deque's back still in reach of the test.
    fn parcels(count: u32) -> Vec<&'static Parcel> {
        (0..count).map(|_| leak(Parcel::new(0))).collect()
    }

    fn push(deque: &Deque<Parcel>, parcel: &'static Parcel, value: u32) {
        parcel.put(value);
        deque.push(std::ptr::from_ref(parcel).cast_mut());
    }

    fn open(item: *mut Parcel) -> u32 {
        // SAFETY: every item pushed here is a leaked parcel.
        let value = unsafe { item.as_ref() }.expect("no item is null").take();
        assert_ne!(value, 0, "an item was taken twice");
        value
    }

    fn steal(stealer: &Stealer<Parcel>, times: u32) -> Vec<u32> {
        (0..times)
            .filter_map(|_| match stealer.steal() {
                Steal::Taken(item) => Some(open(item)),
                Steal::Empty | Steal::Lost => None,
            })
            .collect()
    }

    fn drain(deque: &Deque<Parcel>) -> Vec<u32> {
        std::iter::from_fn(|| deque.pop()).map(open).collect()
    }

    fn assert_all(count: u32, mut taken: Vec<u32>) {
        taken.sort_unstable();
        assert_eq!(taken, (1..=count).collect::<Vec<_>>(), "every item is taken once");
    }

    #[test]
    fn the_last_item_is_taken_once() {
        // One item: owner and thief race for it by CAS.
        check(|| {
            let (deque, parcels) = (Deque::new(), parcels(1));
            push(&deque, parcels[0], 1);
            let stealer = deque.stealer();
            let thief = thread::spawn(move || steal(&stealer, 1));
            let mut taken = drain(&deque);
            taken.extend(thief.join().unwrap());
            assert_all(1, taken);
        });
        // Two items: the owner takes the newest without a CAS, because it believes the oldest still there.
        check(|| {
            let (deque, parcels) = (Deque::new(), parcels(2));
            push(&deque, parcels[0], 1);
            push(&deque, parcels[1], 2);
            let stealer = deque.stealer();
            let thief = thread::spawn(move || steal(&stealer, 2));
            let mut taken = drain(&deque);
            taken.extend(thief.join().unwrap());
            assert_all(2, taken);
        });
    }

    #[test]
    fn thieves_share_with_the_owner() {
        check(|| {
            let (deque, parcels) = (Deque::new(), parcels(2));
            push(&deque, parcels[0], 1);
            push(&deque, parcels[1], 2);
            let thieves = [deque.stealer(), deque.stealer()].map(|s| thread::spawn(move || steal(&s, 1)));
            let mut taken: Vec<_> = deque.pop_oldest().map(open).into_iter().collect();
            taken.extend(deque.pop().map(open));
            for thief in thieves {
                taken.extend(thief.join().unwrap());
            }
            taken.extend(drain(&deque));
            assert_all(2, taken);
        });
    }

    #[test]
    fn a_thief_sees_what_it_steals() {
        check(|| {
            let (deque, parcels) = (Deque::new(), parcels(2));
            let stealer = deque.stealer();
            let thief = thread::spawn(move || steal(&stealer, 1));
            push(&deque, parcels[0], 1);
            push(&deque, parcels[1], 2);
            let mut taken: Vec<_> = deque.pop().map(open).into_iter().collect(); // lowers `bottom` over the first
            taken.extend(thief.join().unwrap());
            taken.extend(drain(&deque));
            assert_all(2, taken);
        });
    }

    #[test]
    fn a_steal_survives_growth() {
        // Two slots: the third item moves all of them to a larger buffer.
        check(|| {
            let (deque, parcels) = (Deque::new(), parcels(3));
            push(&deque, parcels[0], 1);
            push(&deque, parcels[1], 2);
            let stealer = deque.stealer();
            let thief = thread::spawn(move || steal(&stealer, 2));
            push(&deque, parcels[2], 3);
            let mut taken = drain(&deque);
            taken.extend(thief.join().unwrap());
            assert_all(3, taken);
        });
    }
}

mod seat {
    use super::*;

    #[test]
    fn a_wake_or_a_kick_is_never_lost() {
        check(|| {
            let (home, seat) = thread_seat();
            let ticket = seat.ticket();
            let (gift, reason) = (leak(Parcel::new(0)), leak(Parcel::new(0)));
            let waker = thread::spawn(move || {
                gift.put(7);
                assert!(wake(ticket, 7), "nobody else wakes it");
            });
            let kicker = thread::spawn(move || {
                reason.put(1);
                if let Some(delivery) = seat.kick() {
                    delivery.send();
                }
            });
            let mut kicked = false;
            thread::yield_now(); // so that loom also tries both before the first look
            loop {
                match ticket.park() {
                    Park::Parked => assert_eq!(await_arrivals(home), 1, "a parked seat is delivered once"),
                    Park::Kicked => {
                        assert!(!kicked, "one kick was noticed twice");
                        assert_eq!(reason.take(), 1, "the kick came before its reason");
                        kicked = true;
                    }
                    Park::Woken(code) => {
                        assert_eq!((code, gift.take()), (7, 7));
                        break;
                    }
                }
            }
            waker.join().unwrap();
            kicker.join().unwrap();
            assert!(!home.has_arrivals(), "nothing is delivered that did not park");
            // A kick that came late is kept for the next wait.
            assert_ne!(kicked, seat.ticket().park() == Park::Kicked);
        });
    }

    #[test]
    fn of_two_wakers_one_delivers() {
        check(|| {
            let (home, seat) = thread_seat();
            let ticket = seat.ticket();
            let saved = leak(Parcel::new(0));
            let wakers = [1, 2].map(|code| {
                thread::spawn(move || {
                    match ticket.wake(code) {
                        Wake::Parked(delivery) => {
                            assert_eq!(saved.take(), 1, "who delivers sees what the owner did before it parked");
                            delivery.send();
                        }
                        Wake::Awake => {}
                        Wake::Stale => return None,
                    }
                    Some(code)
                })
            });
            saved.put(1);
            let code = await_wake(home, ticket);
            let won: Vec<u16> = wakers.into_iter().filter_map(|waker| waker.join().unwrap()).collect();
            assert_eq!(won, [code], "one wakes, and its code is the one seen");
            assert!(!home.has_arrivals(), "a parked seat is delivered once");
        });
    }

    #[test]
    fn a_late_withdrawal_sees_the_waker() {
        check(|| {
            let (_, seat) = thread_seat();
            let ticket = seat.ticket();
            let gift = leak(Parcel::new(0));
            let waker = thread::spawn(move || {
                gift.put(1);
                wake(ticket, 1)
            });
            thread::yield_now(); // else loom tries no schedule in which the waker is quite done
            let withdrawn = ticket.withdraw();
            if !withdrawn {
                assert_eq!(gift.take(), 1);
            }
            assert_ne!(waker.join().unwrap(), withdrawn, "one of the two ends the wait");
        });
    }

    /// A thread whose sleep timed out must know whether a delivery is on its way.
    #[test]
    fn a_sleeper_whose_time_is_up_knows_what_will_arrive() {
        check(|| {
            let (home, seat) = thread_seat();
            let ticket = seat.ticket();
            let waker = thread::spawn(move || wake(ticket, 1));
            let kicker = thread::spawn(move || seat.kick().map(|delivery| delivery.send()));
            if ticket.park() == Park::Parked {
                if !ticket.unpark() {
                    assert_eq!(await_arrivals(home), 1);
                }
            } else {
                ticket.withdraw();
            }
            let timed_out = matches!(ticket.park(), Park::Woken(0 | TIMEOUT));
            // Nothing is on its way any more: the next wait gets its own delivery and no other.
            let next = seat.ticket();
            while next.park() != Park::Parked {}
            kicker.join().unwrap();
            assert_ne!(waker.join().unwrap(), timed_out, "one of the two ends the wait");
            let kicked = next.park() == Park::Kicked;
            assert_eq!(home.arrivals().count(), usize::from(kicked));
        });
    }
}

mod home {
    use super::*;

    #[test]
    fn a_delivery_is_seen_or_rings() {
        check(|| {
            let home = leak(Home::for_thread());
            let seats = [leak(Seat::new(home)), leak(Seat::new(home))];
            let gifts = [leak(Parcel::new(0)), leak(Parcel::new(0))];
            let tickets = seats.map(Seat::ticket);
            for at in 0..2 {
                seats[at].set_tag(at as u32);
                assert_eq!(tickets[at].park(), Park::Parked);
            }
            let wakers = [0, 1].map(|at| {
                thread::spawn(move || {
                    gifts[at].put(1);
                    assert!(wake(tickets[at], 0));
                })
            });
            let mut arrived = 0;
            while arrived < 2 {
                for seat in home.arrivals() {
                    assert_eq!(gifts[seat.tag() as usize].take(), 1, "a seat arrived before its gift");
                    arrived += 1;
                }
                home.fall_asleep();
                if arrived == 2 || home.has_arrivals() {
                    home.stay_awake();
                } else {
                    home.sleep(None);
                }
            }
            for waker in wakers {
                waker.join().unwrap();
            }
            assert!(!home.has_arrivals());
        });
    }

    /// A waker that a model can wait for.
    struct Bell(Notify);

    impl StdWake for Bell {
        fn wake(self: Arc<Self>) {
            self.0.notify();
        }
    }

    #[test]
    fn a_delivery_wakes_the_newest_waker() {
        check(|| {
            let home = leak(Home::for_future());
            let ticket = leak(Seat::new(home)).ticket();
            let bells = [Arc::new(Bell(Notify::new())), Arc::new(Bell(Notify::new()))];
            home.set_waker(&bells[0].clone().into());
            assert_eq!(ticket.park(), Park::Parked);
            let gift = leak(Parcel::new(0));
            let waker = thread::spawn(move || {
                gift.put(1);
                assert!(wake(ticket, 3));
            });
            // The future moves to another task while it waits.
            home.set_waker(&bells[1].clone().into());
            while !ticket.is_woken() {
                bells[1].0.wait();
            }
            assert_eq!(gift.take(), 1, "the future was woken before its gift");
            assert_eq!(ticket.park(), Park::Woken(3));
            waker.join().unwrap();
            assert_eq!(home.arrivals().count(), 1);
            home.clear_waker();
        });
    }
}

mod idle {
    use super::*;

    /// Items to be done, seen only by relaxed loads: nothing but the fences of `Idle` orders them.
    struct Work(AtomicU32);

    impl Work {
        fn push(&self) {
            self.0.fetch_add(1, Relaxed);
        }

        fn take(&self) -> bool {
            self.any() && self.0.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_ok()
        }

        fn any(&self) -> bool {
            self.0.load(Relaxed) != 0
        }
    }

    struct House {
        idle: Idle,
        work: Work,
        running: Mutex<u32>,
        changed: Condvar,
    }

    impl House {
        fn new() -> &'static Self {
            leak(Self {
                idle: Idle::new(),
                work: Work(AtomicU32::new(0)),
                running: Mutex::new(0),
                changed: Condvar::new(),
            })
        }

        fn publish(&self) {
            self.work.push();
            self.idle.published();
        }

        /// Looks for one item as a worker does, and returns when it has one.
        fn find_work(&self, home: &'static Home, mut searching: bool) {
            while !self.work.take() {
                self.idle.fall_asleep(home, searching, true);
                if !self.work.any() {
                    home.sleep(None);
                }
                searching = self.idle.stay_awake(home);
            }
            if searching {
                self.idle.end_search();
            }
        }

        /// Does one item, which takes until `all` are being done at once.
        fn run_until(&self, all: u32) {
            let mut running = self.running.lock().unwrap();
            *running += 1;
            self.changed.notify_all();
            while *running < all {
                running = self.changed.wait(running).unwrap();
            }
        }
    }

    #[test]
    fn no_wakeup_is_lost() {
        for searching in [false, true] {
            check(move || {
                let (house, home) = (House::new(), leak(Home::for_thread()));
                let worker = thread::spawn(move || {
                    house.find_work(home, searching && house.idle.begin_search(1));
                });
                house.publish();
                worker.join().unwrap();
                assert!(!house.idle.any_sleeper());
                assert!(house.idle.begin_search(1), "nobody is left over as a searcher");
            });
        }
    }

    #[test]
    fn the_search_is_handed_on() {
        // Two items that are done only together, two workers, of which at most one searches.
        check(|| {
            let house = House::new();
            let workers = [false, true].map(|searching| {
                thread::spawn(move || {
                    let home = leak(Home::for_thread());
                    house.find_work(home, searching && house.idle.begin_search(1));
                    house.run_until(2);
                })
            });
            house.publish();
            house.publish();
            for worker in workers {
                worker.join().unwrap();
            }
            assert!(!house.idle.any_sleeper());
            assert!(house.idle.begin_search(1), "nobody is left over as a searcher");
        });
    }

    /// A worker is rung for work and for its inbox at once.
    #[test]
    fn two_bells_wake_one_worker() {
        check(|| {
            let house = House::new();
            let (home, seat) = thread_seat();
            let ticket = seat.ticket();
            assert_eq!(ticket.park(), Park::Parked);
            let waker = thread::spawn(move || assert!(wake(ticket, 0)));
            let publisher = thread::spawn(move || house.publish());
            let (mut arrived, mut worked, mut searching) = (0, false, false);
            while arrived == 0 || !worked {
                arrived += home.arrivals().count();
                worked |= house.work.take();
                if searching {
                    house.idle.end_search();
                }
                house.idle.fall_asleep(home, false, true);
                if (arrived == 0 || !worked) && !home.has_arrivals() && !house.work.any() {
                    home.sleep(None);
                }
                searching = house.idle.stay_awake(home);
            }
            if searching {
                house.idle.end_search();
            }
            waker.join().unwrap();
            publisher.join().unwrap();
            assert_eq!(arrived, 1);
            assert!(!house.idle.any_sleeper());
            assert!(house.idle.begin_search(1), "nobody is left over as a searcher");
        });
    }

    #[test]
    fn the_end_reaches_every_sleeper() {
        check(|| {
            let house = House::new();
            let workers = [(); 2].map(|()| thread::spawn(move || house.find_work(leak(Home::for_thread()), false)));
            house.work.push();
            house.work.push();
            loom::sync::atomic::fence(SeqCst);
            house.idle.ring_all();
            for worker in workers {
                worker.join().unwrap();
            }
            assert!(!house.idle.any_sleeper());
            assert!(house.idle.begin_search(1), "nobody is left over as a searcher");
        });
    }
}

mod injector {
    use super::*;

    #[test]
    fn an_injected_item_is_not_overlooked() {
        check(|| {
            let injector: &Injector<u32> = leak(Injector::default());
            injector.push(1);
            let popper = thread::spawn(move || injector.pop_batch(0, |_| {}));
            injector.push(2);
            let mut taken: Vec<_> = popper.join().unwrap().into_iter().collect();
            taken.extend(std::iter::from_fn(|| injector.pop_batch(0, |_| {})));
            assert_eq!(taken, [1, 2]);
        });
    }

    #[test]
    fn an_injected_item_wakes_a_worker() {
        check(|| {
            let (idle, home) = (leak(Idle::new()), leak(Home::for_thread()));
            let injector: &Injector<Box<Parcel>> = leak(Injector::default());
            let worker = thread::spawn(move || {
                loop {
                    if let Some(parcel) = injector.pop_batch(0, |_| {}) {
                        return parcel.take();
                    }
                    idle.fall_asleep(home, false, true);
                    if injector.is_empty() {
                        home.sleep(None);
                    }
                    if idle.stay_awake(home) {
                        idle.end_search();
                    }
                }
            });
            let parcel = Box::new(Parcel::new(0));
            parcel.put(5);
            injector.push(parcel);
            idle.published();
            assert_eq!(worker.join().unwrap(), 5);
        });
    }
}

mod countdown {
    use super::*;

    fn end(countdown: &Countdown, result: &Parcel) {
        result.put(1);
        if let Some(ticket) = countdown.done(1) {
            assert!(wake(ticket, 0), "nobody else wakes the owner");
        }
    }

    #[test]
    fn the_last_member_wakes_the_owner() {
        check(|| {
            let (home, seat) = thread_seat();
            let countdown = leak(Countdown::new());
            let results = [leak(Parcel::new(0)), leak(Parcel::new(0))];
            let members = results.map(|result| thread::spawn(move || end(countdown, result)));
            let ticket = seat.ticket();
            if !countdown.close(2, ticket) {
                await_wake(home, ticket);
            }
            assert_eq!(results.map(Parcel::take), [1, 1], "the owner goes on before all have ended");
            for member in members {
                member.join().unwrap();
            }
            assert!(!home.has_arrivals());
        });
    }

    #[test]
    fn members_may_start_members() {
        check(|| {
            let (home, seat) = thread_seat();
            let countdown = leak(Countdown::new());
            let results = [leak(Parcel::new(0)), leak(Parcel::new(0))];
            let member = thread::spawn(move || {
                countdown.add(1);
                let another = thread::spawn(move || end(countdown, results[1]));
                end(countdown, results[0]);
                another.join().unwrap();
            });
            let ticket = seat.ticket();
            if !countdown.close(1, ticket) {
                await_wake(home, ticket);
            }
            assert_eq!(results.map(Parcel::take), [1, 1], "the owner goes on before all have ended");
            member.join().unwrap();
            assert!(!home.has_arrivals());
        });
    }
}

mod completion {
    use super::*;

    /// What a producer and a reader share. Whoever frees it takes both parcels: the value, and the reader's last touch.
    struct Shared {
        completion: Completion,
        value: Parcel,
        touched: Parcel,
        freed: AtomicU32,
    }

    impl Shared {
        fn new(completion: Completion) -> &'static Self {
            leak(Self { completion, value: Parcel::new(0), touched: Parcel::new(0), freed: AtomicU32::new(0) })
        }

        fn free(&self) {
            assert_eq!(self.value.take(), 9, "the value is read or dropped once");
            self.touched.take();
            assert_eq!(self.freed.fetch_add(1, Relaxed), 0, "freed twice");
        }

        fn produce(&self) {
            self.value.put(9);
            match self.completion.finish() {
                Finish::Kept => {}
                Finish::Abandoned => self.free(),
                Finish::Wake(ticket) => assert!(wake(ticket, 1), "a reader that waits is woken once"),
            }
        }

        fn leave(&self) {
            self.touched.put(1);
            if self.completion.abandon() {
                self.free();
            }
        }

        /// The value is there: the reader takes it and frees.
        fn read(&self) {
            assert!(self.completion.is_done());
            assert_eq!(self.value.peek(), 9);
            self.touched.put(1);
            assert!(self.completion.abandon(), "the value is there, so the reader frees");
            self.free();
        }
    }

    fn check_reader(reader: fn(&'static Shared)) {
        check(move || {
            let shared = Shared::new(Completion::new());
            let producer = thread::spawn(move || shared.produce());
            reader(shared);
            producer.join().unwrap();
            assert_eq!(shared.freed.load(Relaxed), 1, "never freed");
        });
    }

    #[test]
    fn a_result_is_read_once_and_freed_once() {
        check_reader(|shared| {
            let (home, seat) = thread_seat();
            let ticket = seat.ticket();
            if shared.completion.wait(ticket) {
                await_wake(home, ticket);
            }
            shared.read();
        });
        check_reader(Shared::leave);
        check_reader(|shared| if shared.completion.is_done() { shared.read() } else { shared.leave() });
        check(|| {
            let shared = Shared::new(Completion::unread());
            shared.produce();
            assert_eq!(shared.freed.load(Relaxed), 1);
        });
    }

    #[test]
    fn a_reader_may_change_its_mind() {
        // It gives up after all.
        check_reader(|shared| {
            let (home, seat) = thread_seat();
            let ticket = seat.ticket();
            if !shared.completion.wait(ticket) {
                shared.read();
            } else if shared.completion.retract() {
                assert!(ticket.withdraw(), "nobody saw the ticket");
                shared.leave();
            } else {
                await_wake(home, ticket);
                shared.read();
            }
        });
        // It looks around and waits again, with another ticket.
        check_reader(|shared| {
            let (home, seat) = thread_seat();
            let mut ticket = seat.ticket();
            if shared.completion.wait(ticket) {
                let mut waits = true;
                if shared.completion.retract() {
                    assert!(ticket.withdraw(), "nobody saw the ticket");
                    ticket = seat.ticket();
                    waits = shared.completion.wait(ticket);
                }
                if waits {
                    await_wake(home, ticket);
                }
            }
            shared.read();
        });
    }
}

mod spin {
    use super::*;

    #[test]
    fn the_lock_excludes() {
        check(|| {
            let lock: &SpinLock<u32> = leak(SpinLock::new(0));
            let count_twice = move || {
                for _ in 0..2 {
                    *lock.lock() += 1;
                }
            };
            let other = thread::spawn(count_twice);
            count_twice();
            other.join().unwrap();
            assert_eq!(*lock.lock(), 4);
        });
    }
}

mod ring {
    use super::*;

    type Values = Ring<(u32, Box<Parcel>)>;

    fn parcel(value: u32) -> (u32, Box<Parcel>) {
        let parcel = Box::new(Parcel::new(0));
        parcel.put(value);
        (value, parcel)
    }

    fn open((value, parcel): (u32, Box<Parcel>)) -> u32 {
        assert_eq!(parcel.take(), value);
        value
    }

    fn push(ring: &Values, value: u32) {
        let mut parcel = parcel(value);
        while let Err(back) = ring.push(parcel) {
            parcel = back;
            thread::yield_now();
        }
    }

    fn pop(ring: &Values) -> u32 {
        loop {
            match ring.pop() {
                Some(parcel) => return open(parcel),
                None => thread::yield_now(),
            }
        }
    }

    #[test]
    fn values_pass_through_the_ring_once() {
        // One on each side, more laps than slots.
        for capacity in [1, 2] {
            check(move || {
                let ring: &Values = leak(Ring::new(capacity));
                let pusher = thread::spawn(move || (1..=3).for_each(|value| push(ring, value)));
                assert_eq!([(); 3].map(|()| pop(ring)), [1, 2, 3]);
                pusher.join().unwrap();
                assert!(ring.is_empty());
            });
        }
        // Two pushers.
        check(|| {
            let ring: &Values = leak(Ring::new(2));
            let pushers = [1, 2].map(|value| thread::spawn(move || push(ring, value)));
            let mut popped = [pop(ring), pop(ring)];
            popped.sort_unstable();
            assert_eq!(popped, [1, 2]);
            for pusher in pushers {
                pusher.join().unwrap();
            }
        });
        // Two poppers, and a pusher that needs the slot they empty.
        check(|| {
            let ring: &Values = leak(Ring::new(2));
            push(ring, 1);
            push(ring, 2);
            let poppers = [(); 2].map(|()| thread::spawn(move || open(ring.pop().expect("one for each"))));
            push(ring, 3);
            let mut popped = poppers.map(|popper| popper.join().unwrap());
            popped.sort_unstable();
            assert_eq!(popped, [1, 2]);
            assert_eq!(pop(ring), 3);
        });
    }

    #[test]
    fn the_ring_is_full_or_empty_only_if_it_is() {
        // One in two: there is always something to pop, and always room for one.
        check(|| {
            let ring: &Values = leak(Ring::new(2));
            push(ring, 1);
            let pusher = thread::spawn(move || ring.push(parcel(2)).expect("there is room for one more"));
            assert_eq!(ring.pop().map(open), Some(1));
            pusher.join().unwrap();
            let popper = thread::spawn(move || ring.pop().map(open).expect("there is one to pop"));
            ring.push(parcel(3)).expect("there is room for one more");
            assert_eq!(popper.join().unwrap(), 2);
            assert_eq!(ring.len(), 1);
        });
    }

    /// The waiting that `ring.rs` describes: announce by a SeqCst RMW, look again, sleep.
    #[test]
    fn a_waiter_sees_the_ring_change_or_is_seen() {
        check(|| {
            let ring: &Values = leak(Ring::new(1));
            let (waiters, room) = (leak(AtomicU32::new(0)), leak(AtomicU32::new(0)));
            let bells: &[Notify; 2] = leak([Notify::new(), Notify::new()]);
            let pusher = thread::spawn(move || {
                for value in [1, 2] {
                    let mut parcel = parcel(value);
                    while let Err(back) = ring.push(parcel) {
                        room.fetch_add(1, SeqCst);
                        match ring.push(back) {
                            Ok(()) => break,
                            Err(back) => parcel = back,
                        }
                        bells[1].wait();
                    }
                    if waiters.load(SeqCst) != 0 {
                        bells[0].notify();
                    }
                }
            });
            for value in [1, 2] {
                let popped = loop {
                    if let Some(parcel) = ring.pop() {
                        break parcel;
                    }
                    waiters.fetch_add(1, SeqCst);
                    if let Some(parcel) = ring.pop() {
                        break parcel;
                    }
                    bells[0].wait();
                };
                if room.load(SeqCst) != 0 {
                    bells[1].notify();
                }
                assert_eq!(open(popped), value);
            }
            pusher.join().unwrap();
        });
    }
}
