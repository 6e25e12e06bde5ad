//! What a receiver does with honest, dead, hung and lying services.

use policy_admission::service::{
    CpuProfile, Decision, EPOCH_STEP_MAX, Event, FIRST_EPOCH_MAX, Heard, Machine, PolicySet, Receiver, Refusal,
    ServiceState, Silence, Verdict,
};

const SECOND: u64 = 1_000_000_000;

fn receiver() -> Receiver {
    let silence = Silence { stale_after: 5 * SECOND, gone_after: 30 * SECOND };
    Receiver::new(Machine::new(2), silence)
}

/// A policy that can be told from others.
fn weighing(weight: u32) -> PolicySet {
    let mut profile = CpuProfile::new("normal");
    profile.weight = weight;
    PolicySet::new(profile)
}

fn propose(receiver: &mut Receiver, now: u64, number: u64, weight: u32) -> Decision {
    receiver.take(now, Event::Proposed { number, set: weighing(weight) })
}

/// One that has taken epoch 7 at second 1.
fn at_seven() -> Receiver {
    let mut receiver = receiver();
    let _ = receiver.take(SECOND, Event::Connected);
    assert_eq!(propose(&mut receiver, SECOND, 7, 700), Decision::Accepted { number: 7 });
    receiver
}

#[track_caller]
fn refused(decision: Decision) -> (Refusal, bool) {
    match decision {
        Decision::Refused { reason, hang_up } => (reason, hang_up),
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn seven_stays(receiver: &Receiver) {
    let policy = receiver.handle();
    assert_eq!((policy.epoch().number(), policy.profile("x").weight), (7, 700));
}

#[test]
fn before_any_epoch_all_work_is_normal() {
    let receiver = receiver();
    assert_eq!(receiver.handle().profile("x").weight, 1024);
    let status = receiver.status(0);
    assert_eq!((status.epoch, status.service, status.heard), (0, ServiceState::Unheard, None));
}

#[test]
fn it_can_begin_with_a_policy_of_its_own_that_is_checked() {
    let silence = Silence::default();
    let mut own = Receiver::starting_with(weighing(5), Machine::new(2), silence).unwrap();
    assert_eq!(own.handle().profile("x").weight, 5);
    assert_eq!(propose(&mut own, 0, 1, 6), Decision::Accepted { number: 1 });
    assert!(Receiver::starting_with(weighing(0), Machine::new(2), silence).is_err());
}

#[test]
fn numbers_only_grow() {
    let mut receiver = at_seven();
    let (reason, hang_up) = refused(propose(&mut receiver, 2 * SECOND, 6, 600));
    assert_eq!((reason, hang_up), (Refusal::EpochFell { offered: 6, in_force: 7 }, false));
    seven_stays(&receiver);
    let (reason, _) = refused(receiver.take(2 * SECOND, Event::Heartbeat { number: 3 }));
    assert_eq!(reason, Refusal::EpochFell { offered: 3, in_force: 7 });
    assert_eq!(propose(&mut receiver, 3 * SECOND, 9, 900), Decision::Accepted { number: 9 }, "8 was missed");
}

#[test]
fn a_number_has_one_policy() {
    let mut receiver = at_seven();
    assert_eq!(propose(&mut receiver, 2 * SECOND, 7, 700), Decision::Known);
    let (reason, _) = refused(propose(&mut receiver, 2 * SECOND, 7, 701));
    assert_eq!(reason, Refusal::EpochReused { number: 7 });
    seven_stays(&receiver);
}

#[test]
fn no_lie_uses_up_the_numbers() {
    let mut receiver = at_seven();
    let limit = 7 + EPOCH_STEP_MAX;
    for number in [limit + 1, u64::MAX] {
        let (reason, _) = refused(propose(&mut receiver, 2 * SECOND, number, 1));
        assert_eq!(reason, Refusal::EpochJumped { offered: number, limit });
        refused(receiver.take(2 * SECOND, Event::Heartbeat { number }));
    }
    seven_stays(&receiver);
    assert_eq!(propose(&mut receiver, 3 * SECOND, limit, 1), Decision::Accepted { number: limit });
    let (reason, _) = refused(propose(&mut self::receiver(), 0, FIRST_EPOCH_MAX + 1, 1));
    assert_eq!(reason, Refusal::EpochJumped { offered: FIRST_EPOCH_MAX + 1, limit: FIRST_EPOCH_MAX });
}

#[test]
fn a_policy_that_fails_a_check_leaves_everything_as_it_was() {
    let mut receiver = at_seven();
    let (reason, hang_up) = refused(propose(&mut receiver, 2 * SECOND, 8, 0));
    assert_eq!(reason.to_string(), "profile `normal`: weight is 0, but the minimum is 1");
    assert!(!hang_up, "a bad file of the operator is no reason not to listen");
    seven_stays(&receiver);
    let last = receiver.log().pop().unwrap();
    assert_eq!(
        last.to_string(),
        "proposal of epoch 8: refused; epoch 7 stays in force: profile `normal`: weight is 0, but the minimum is 1; write 1 to 1048576"
    );
    assert_eq!(propose(&mut receiver, 3 * SECOND, 9, 900), Decision::Accepted { number: 9 });
}

#[test]
fn an_epoch_that_was_missed_is_asked_for_and_one_that_was_refused_is_not() {
    let mut receiver = at_seven();
    assert_eq!(receiver.take(2 * SECOND, Event::Heartbeat { number: 8 }), Decision::Ask { number: 8 });
    refused(propose(&mut receiver, 2 * SECOND, 8, 0));
    assert_eq!(receiver.take(3 * SECOND, Event::Heartbeat { number: 8 }), Decision::Known);
    assert_eq!(receiver.status(3 * SECOND).offered, 8);
}

#[test]
fn silence_makes_it_stale_then_gone_and_a_heartbeat_alive_again() {
    let mut receiver = at_seven();
    assert_eq!(receiver.next_tick(), Some(6 * SECOND));
    assert_eq!(receiver.take(6 * SECOND - 1, Event::Tick), Decision::Nothing);
    assert_eq!(receiver.take(6 * SECOND, Event::Tick), Decision::Stale);
    assert_eq!(receiver.take(7 * SECOND, Event::Tick), Decision::Nothing, "once");
    assert_eq!(receiver.next_tick(), Some(31 * SECOND));
    assert_eq!(receiver.take(31 * SECOND, Event::Tick), Decision::Gone);
    assert_eq!(receiver.next_tick(), None, "there is nothing to wait for");
    let status = receiver.status(32 * SECOND);
    assert_eq!((status.service, status.epoch, status.age), (ServiceState::Gone, 7, 31 * SECOND));
    seven_stays(&receiver);
    assert_eq!(receiver.take(40 * SECOND, Event::Heartbeat { number: 7 }), Decision::Known);
    assert_eq!(receiver.status(40 * SECOND).service, ServiceState::Alive);
    let said: Vec<_> = receiver.log().iter().map(|record| (record.heard, record.verdict)).collect();
    assert_eq!(
        said,
        [
            (Heard::Proposal, Verdict::Alive),
            (Heard::Proposal, Verdict::Accepted),
            (Heard::Silence, Verdict::Stale),
            (Heard::Silence, Verdict::Gone),
            (Heard::Heartbeat, Verdict::Alive),
        ]
    );
}

#[test]
fn a_connection_that_says_nothing_is_given_up() {
    let mut receiver = receiver();
    let _ = receiver.take(0, Event::Connected);
    assert_eq!(receiver.next_tick(), Some(30 * SECOND));
    assert_eq!(receiver.take(30 * SECOND, Event::Tick), Decision::Gone);
    assert_eq!(receiver.status(31 * SECOND).service, ServiceState::Unheard, "it never was there");
}

#[test]
fn a_lost_connection_is_said_once() {
    let mut receiver = at_seven();
    for now in 2..5 {
        assert_eq!(receiver.take(now * SECOND, Event::Lost), Decision::Gone);
    }
    assert_eq!(receiver.log().iter().filter(|record| record.verdict == Verdict::Gone).count(), 1);
    seven_stays(&receiver);
}

#[test]
fn lies_are_no_sign_of_life() {
    let mut receiver = at_seven();
    for now in 2..=6 {
        refused(receiver.take(now * SECOND, Event::Heartbeat { number: 1 }));
    }
    assert_eq!(receiver.take(6 * SECOND, Event::Tick), Decision::Stale);
}

#[test]
fn garbage_ends_the_connection() {
    let mut receiver = at_seven();
    let (_, hang_up) = refused(receiver.take(2 * SECOND, Event::Garbled(Refusal::TooLong { limit: 9 })));
    assert!(hang_up);
    seven_stays(&receiver);
}

#[test]
fn a_flood_of_proposals_is_refused_before_it_is_checked() {
    let mut receiver = at_seven();
    let taken =
        (8..40).filter(|number| matches!(propose(&mut receiver, SECOND, *number, 1), Decision::Accepted { .. }));
    assert_eq!(taken.count(), 7, "eight at once, and one was taken before");
    let (reason, hang_up) = refused(propose(&mut receiver, SECOND, 41, 1));
    assert_eq!(reason, Refusal::TooFast { what: "proposals", burst: 8, per_second: 2 });
    assert!(!hang_up);
    assert_eq!(propose(&mut receiver, 2 * SECOND, 42, 42), Decision::Accepted { number: 42 }, "later it is taken");
}

#[test]
fn a_flood_of_messages_of_any_kind_ends_the_connection() {
    let mut receiver = at_seven();
    let flood = (0..1000).position(|_| match receiver.take(SECOND, Event::Heartbeat { number: 7 }) {
        Decision::Refused { hang_up, .. } => hang_up,
        _ => false,
    });
    assert_eq!(flood, Some(63));
    seven_stays(&receiver);
}

#[test]
fn a_flood_of_refusals_is_one_record_and_pushes_no_change_out_of_the_log() {
    let mut receiver = at_seven();
    for n in 0..10_000_u64 {
        refused(receiver.take(n * SECOND, Event::Heartbeat { number: 1 }));
    }
    let log = receiver.log();
    assert_eq!(log.len(), 3, "{log:?}");
    assert_eq!((log[2].verdict, log[2].repeated), (Verdict::Refused, 9_999));
    for n in 0..10_000_u64 {
        let now = (10_000 + n) * SECOND;
        refused(receiver.take(now, if n % 2 == 0 { Event::Heartbeat { number: 1 } } else { garbage("x") }));
    }
    let log = receiver.log();
    assert!(log.len() < 300, "{}", log.len());
    assert_eq!((log[0].verdict, log[1].verdict), (Verdict::Alive, Verdict::Accepted));
    assert_eq!(receiver.status(0).refused, 20_000);
}

fn garbage(what: &str) -> Event {
    Event::Garbled(Refusal::Garbled { what: what.to_owned() })
}

#[test]
fn a_reason_in_the_log_is_short_whatever_was_sent() {
    let mut receiver = at_seven();
    refused(receiver.take(SECOND, garbage(&"ä".repeat(100_000))));
    assert!(receiver.log().pop().unwrap().reason.len() < 600);
}

#[test]
fn a_clock_that_goes_back_changes_nothing() {
    let mut receiver = at_seven();
    assert_eq!(receiver.take(0, Event::Tick), Decision::Nothing);
    assert_eq!(receiver.take(0, Event::Heartbeat { number: 7 }), Decision::Known);
    assert_eq!(receiver.status(0).age, 0);
    seven_stays(&receiver);
}
