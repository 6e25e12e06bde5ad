//! Models of `src/arming.rs`.

use super::*;

/// Some who wake and sleep, and a clock: it counts alarms that are set and have not rung. The count is relaxed and orders nothing.
struct House {
    arming: Arming,
    awake: [Awake; 2],
    alarms: AtomicU32,
}

impl House {
    fn new() -> &'static Self {
        leak(Self { arming: Arming::new(), awake: [Awake::new(), Awake::new()], alarms: AtomicU32::new(0) })
    }

    fn set_alarm(&self) {
        assert_eq!(self.alarms.fetch_add(1, Relaxed), 0, "two looks are due at once");
    }

    fn attend(&self, who: usize) {
        if self.arming.attend(&self.awake[who]) {
            self.set_alarm();
        }
    }

    /// The alarm rings.
    fn look(&self) {
        assert_eq!(self.alarms.fetch_sub(1, Relaxed), 1, "only an alarm that is set can ring");
        if self.arming.go_on(&self.awake) {
            self.set_alarm();
        }
    }

    fn alarms(&self) -> u32 {
        self.alarms.load(Relaxed)
    }
}

#[test]
fn whoever_is_awake_is_looked_at() {
    // A look is due whose occasion sleeps again. Meanwhile one wakes, or two.
    for wakers in [1, 2] {
        check(move || {
            let house = House::new();
            house.attend(0);
            house.awake[0].rest();
            let others: Vec<_> = (1..wakers).map(|who| thread::spawn(move || house.attend(who))).collect();
            let waker = thread::spawn(move || house.attend(0));
            house.look();
            waker.join().unwrap();
            others.into_iter().for_each(|other| other.join().unwrap());
            assert_eq!(house.alarms(), 1, "somebody is awake and nobody looks");
        });
    }
}

#[test]
fn two_who_wake_set_one_alarm() {
    check(|| {
        let house = House::new();
        let other = thread::spawn(move || house.attend(1));
        house.attend(0);
        other.join().unwrap();
        assert_eq!(house.alarms(), 1);
    });
}

#[test]
fn a_look_that_finds_all_asleep_is_the_last() {
    check(|| {
        let house = House::new();
        house.attend(0);
        let sleeper = thread::spawn(move || {
            house.awake[0].rest();
            house.attend(0);
            house.awake[0].rest();
        });
        house.look();
        sleeper.join().unwrap();
        // Whatever was seen late has been seen now.
        if house.alarms() > 0 {
            house.look();
        }
        assert_eq!(house.alarms(), 0, "all sleep and a look is due");
        house.attend(1);
        assert_eq!(house.alarms(), 1, "the next one to wake is looked at again");
    });
}
