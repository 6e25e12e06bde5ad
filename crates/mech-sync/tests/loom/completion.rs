//! Models of `src/completion.rs`.

use super::*;

/// What a producer and a reader share. The side that frees it takes both parcels: the value, and the reader's last touch.
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
            Finish::Wake(token) => assert!(wake(token, 1), "a reader that waits is woken once"),
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
        let (inbox, waiter) = thread_waiter();
        let token = waiter.token();
        if shared.completion.wait(token) {
            await_wake(inbox, token);
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
        let (inbox, waiter) = thread_waiter();
        let token = waiter.token();
        if !shared.completion.wait(token) {
            shared.read();
        } else if shared.completion.retract() {
            assert!(token.withdraw(), "the producer did not see the token");
            shared.leave();
        } else {
            await_wake(inbox, token);
            shared.read();
        }
    });
    // It looks around and waits again, with another token.
    check_reader(|shared| {
        let (inbox, waiter) = thread_waiter();
        let mut token = waiter.token();
        if shared.completion.wait(token) {
            let mut waits = true;
            if shared.completion.retract() {
                assert!(token.withdraw(), "the producer did not see the token");
                token = waiter.token();
                waits = shared.completion.wait(token);
            }
            if waits {
                await_wake(inbox, token);
            }
        }
        shared.read();
    });
}
