use std::{hint::black_box, sync::mpsc, thread, time::Duration};

use test_support::{in_time, until, until_some};

use crate::said;

const LONG: Duration = Duration::from_secs(60);

#[test]
fn what_holds_after_a_while_is_waited_for() {
    let mut asked = 0;
    until(LONG, "three times", || {
        asked += 1;
        asked == 3
    });
    assert_eq!(asked, 3);
    assert_eq!(until_some(LONG, "an answer", || Some("yes")), "yes");
}

#[test]
fn what_never_holds_fails_and_is_named() {
    let printed = said(|| until(Duration::from_millis(5), "it rains", || false));
    assert_eq!(printed, "not within 5ms: it rains");
}

#[test]
fn what_takes_for_ever_fails_and_is_named() {
    let printed = said(|| in_time(Duration::from_millis(5), "a message", thread::park));
    assert_eq!(printed, "not within 5ms: a message");
}

#[test]
fn what_is_done_in_time_gives_its_result_or_its_panic() {
    let (sent, received) = mpsc::channel();
    assert_eq!(in_time(LONG, "a message", move || sent.send(3).map(|()| 4)), Ok(4));
    assert_eq!(received.recv(), Ok(3));
    assert_eq!(said(|| in_time(LONG, "a panic", || panic!("{}, on purpose", black_box(1)))), "1, on purpose");
}
