//! Scheduling contexts: budgets, refills, notices, calls, revocation.

use policy_cpu::{Capacity, Class, ContextSpec, Endpoint, Location, Overrun, Refused, Scheduler, Stale};
use proof_sim::{Machine, Program, Step};

use crate::{ms, us};

fn hog() -> Program {
    Program::forever(vec![Step::Run(ms(1000))])
}

#[test]
fn a_context_gets_its_budget_in_each_period_and_no_more() {
    let mut machine = Machine::new(1, 0);
    let process = machine.process("p");
    let context = machine.context(ContextSpec::new(ms(2), ms(10)));
    machine.thread("reserved", process).context(context).runs(hog());
    machine.thread("hog", process).runs(hog());
    for round in 1..=50 {
        let report = machine.run_for(ms(10));
        let used = report.used_by("reserved");
        assert!(used.abs_diff(ms(2) * round) <= us(10), "round {round}\n{report}");
    }
}

#[test]
fn a_reserved_thread_is_served_by_its_deadline_whatever_else_runs() {
    for seed in 0..32 {
        let mut machine = Machine::new(1, seed);
        let process = machine.process("p");
        for (name, budget, period) in [("audio", us(300), ms(5)), ("video", ms(4), ms(16)), ("slow", ms(20), ms(100))] {
            let context = machine.context(ContextSpec::new(budget, period));
            machine
                .thread(name, process)
                .context(context)
                .runs(Program::forever(vec![Step::Run(budget - us(20)), Step::SleepBetween(period, period + ms(1))]));
        }
        for number in 0..4 {
            machine.thread(&format!("hog{number}"), process).runs(hog());
        }
        let report = machine.run_for(ms(3000));
        for (name, period) in [("audio", ms(5)), ("video", ms(16)), ("slow", ms(100))] {
            assert!(report.thread(name).wait_max < period, "seed {seed}, {name}\n{report}");
            assert!(report.thread(name).rounds > 10, "seed {seed}, {name}\n{report}");
        }
    }
}

#[test]
fn a_depletion_is_told_once_for_each_time() {
    let mut machine = Machine::new(1, 0);
    let process = machine.process("p");
    let spec = ContextSpec { endpoint: Some(Endpoint(7)), ..ContextSpec::new(ms(1), ms(10)) };
    let context = machine.context(spec);
    machine.thread("t", process).context(context).runs(hog());
    let report = machine.run_for(ms(100));
    assert_eq!(report.notices.len(), 10, "{:?}", report.notices);
    assert!(report.notices.iter().all(|(_, notice)| notice.endpoint == Endpoint(7) && notice.context == context));
    assert_eq!(machine.scheduler().context(context).unwrap().depletions(), 10);
}

#[test]
fn a_notice_that_is_not_taken_is_not_repeated_and_not_lost() {
    let mut scheduler = Scheduler::new(Capacity::cpus(1), 0);
    let process = scheduler.add_process().unwrap();
    let mut contexts = Vec::new();
    for number in 0..3 {
        let spec = ContextSpec { endpoint: Some(Endpoint(number)), ..ContextSpec::new(10, 100) };
        let context = scheduler.add_context(spec, 0).unwrap();
        let thread = scheduler.add_thread(&policy_cpu::ThreadSpec::new(process)).unwrap();
        let _ = scheduler.bind(thread, Some(context), 0).unwrap();
        let _ = scheduler.wake(thread, 0, None).unwrap();
        contexts.push(context);
    }
    let mut now = 0;
    for _ in 0..200 {
        let dispatch = scheduler.schedule(0, now);
        now += dispatch.at_most.unwrap_or(10);
    }
    let _ = scheduler.revoke_context(contexts[1], now).unwrap();
    let told: Vec<_> = std::iter::from_fn(|| scheduler.take_notice()).map(|notice| notice.endpoint.0).collect();
    assert_eq!(told, [0, 2], "one each, of those that exist");
}

#[test]
fn what_happens_at_a_depletion_is_what_the_context_says() {
    let used = |overrun| {
        let mut machine = Machine::new(1, 0);
        let process = machine.process("p");
        let context = machine.context(ContextSpec { overrun, ..ContextSpec::new(ms(1), ms(10)) });
        machine.thread("t", process).context(context).runs(hog());
        machine.thread("hog", process).runs(hog());
        let report = machine.run_for(ms(1000));
        let id = machine.id_of("t");
        (report.used_by("t"), machine.scheduler().thread(id).unwrap().location())
    };
    let (throttled, _) = used(Overrun::Throttle);
    assert!(throttled.abs_diff(ms(100)) <= us(100), "{throttled}");
    let (demoted, _) = used(Overrun::Demote);
    assert!(demoted > ms(450), "{demoted}");
    let (stopped, location) = used(Overrun::Stop);
    assert!(stopped <= ms(1) + us(10), "{stopped}");
    assert_eq!(location, Location::Stopped, "it fails closed");
}

#[test]
fn a_thread_that_needs_a_context_and_has_none_does_not_run() {
    let mut machine = Machine::new(1, 0);
    let process = machine.process("p");
    machine.thread("t", process).class(Class::Reserved).runs(hog());
    assert_eq!(machine.run_for(ms(100)).used_by("t"), 0);
    let id = machine.id_of("t");
    let context = machine.context(ContextSpec::new(ms(1), ms(2)));
    let now = machine.now();
    let interrupt = machine.scheduler().bind(id, Some(context), now).unwrap();
    machine.send(interrupt);
    let used = machine.run_for(ms(100)).used_by("t");
    assert!(used.abs_diff(ms(50)) <= us(100), "{used}");
}

#[test]
fn a_process_default_holds_for_threads_without_a_context_of_their_own() {
    let mut machine = Machine::new(2, 0);
    let process = machine.process("p");
    let (own, common) =
        (machine.context(ContextSpec::new(ms(3), ms(10))), machine.context(ContextSpec::new(ms(2), ms(10))));
    machine.thread("own", process).context(own).runs(hog());
    for number in 0..2 {
        machine.thread(&format!("common{number}"), process).runs(hog());
    }
    let interrupt = machine.scheduler().bind_process(process, Some(common), 0).unwrap();
    machine.send(interrupt);
    let report = machine.run_for(ms(1000));
    assert!(report.used_by("own").abs_diff(ms(300)) <= us(100), "{report}");
    // Both draw from the same budget. Two CPUs may use it up at once, and what they take too much comes later.
    assert!(report.used_by("common").abs_diff(ms(200)) <= ms(4), "{report}");
}

#[test]
fn a_call_takes_the_context_along_and_the_reply_brings_it_back() {
    let mut machine = Machine::new(1, 0);
    let process = machine.process("p");
    let inner = machine.thread("inner", process).runs(Program::server(us(300)));
    let outer = machine.thread("outer", process).runs(Program::forever(vec![
        Step::Receive,
        Step::Run(us(300)),
        Step::Call(inner),
        Step::Reply,
    ]));
    let context = machine.context(ContextSpec::new(ms(2), ms(10)));
    machine
        .thread("client", process)
        .context(context)
        .runs(Program::forever(vec![Step::Run(us(400)), Step::Call(outer)]));
    machine.thread("hog", process).runs(hog());
    let report = machine.run_for(ms(1000));
    let chain = report.used_by("client") + report.used_by("outer") + report.used_by("inner");
    assert!(chain.abs_diff(ms(200)) <= us(100), "the servers run on the client's budget\n{report}");
    assert_eq!(machine.scheduler().context(context).unwrap().charged(), chain);
    assert!(report.thread("client").rounds >= 199, "{report}");
}

#[test]
fn a_callee_that_dies_gives_the_context_back_and_a_donor_that_is_revoked_takes_it_away() {
    let mut machine = Machine::new(1, 0);
    let process = machine.process("p");
    let server = machine.thread("server", process).runs(Program::server(ms(50)));
    let context = machine.context(ContextSpec::new(ms(10), ms(20)));
    machine
        .thread("client", process)
        .context(context)
        .runs(Program::forever(vec![Step::Call(server), Step::Run(ms(1))]));
    machine.run_for(ms(5));
    let (client, server) = (machine.id_of("client"), machine.id_of("server"));
    assert_eq!(machine.scheduler().thread(client).unwrap().location(), Location::Calling(server));
    machine.kill("server");
    let report = machine.run_for(ms(20));
    assert!(report.used_by("client") >= ms(9), "it goes on with its context\n{report}");
    assert_eq!(machine.scheduler().thread(server).map(|_| ()), Err(Stale));

    let mut machine = Machine::new(1, 0);
    let process = machine.process("p");
    let server = machine.thread("server", process).runs(Program::server(ms(500)));
    let context = machine.context(ContextSpec::new(ms(10), ms(20)));
    machine.thread("client", process).context(context).runs(Program::forever(vec![Step::Call(server)]));
    machine.thread("hog", process).runs(hog());
    machine.run_for(ms(100));
    let id = machine.id_of("server");
    assert_eq!(machine.scheduler().thread(id).unwrap().donated(), Some(context));
    let now = machine.now();
    let interrupt = machine.scheduler().revoke_context(context, now).unwrap();
    machine.send(interrupt);
    let before = machine.run_for(0).used_by("server");
    let after = machine.run_for(ms(100)).used_by("server");
    assert!((after - before).abs_diff(ms(50)) <= ms(7), "it runs by its weight: {before}, {after}");
}

#[test]
fn a_circle_of_calls_is_refused_and_changes_nothing() {
    let mut scheduler = Scheduler::new(Capacity::cpus(1), 0);
    let process = scheduler.add_process().unwrap();
    let spec = policy_cpu::ThreadSpec::new(process);
    let [a, b] = [(); 2].map(|()| scheduler.add_thread(&spec).unwrap());
    let _ = scheduler.wake(a, 0, None).unwrap();
    assert_eq!(scheduler.schedule(0, 0).thread, Some(a));
    assert_eq!(scheduler.call(0, b, 1), Ok(policy_cpu::Handoff::Here(b)));
    assert_eq!(scheduler.call(0, a, 2), Err(policy_cpu::CallError::Circle));
    assert_eq!(scheduler.call(0, b, 2), Err(policy_cpu::CallError::Circle), "with itself, too");
    assert_eq!(scheduler.current(0), Some(b));
    assert_eq!(scheduler.reply(0, 3), Ok(policy_cpu::Handoff::Here(a)));
    assert_eq!(scheduler.reply(0, 4), Err(policy_cpu::CallError::NoCall));
}

#[test]
fn contexts_that_cannot_be_are_refused_and_stale_ones_too() {
    let mut scheduler = Scheduler::new(Capacity { contexts: 1, ..Capacity::cpus(1) }, 0);
    for (budget, deadline, period) in [(0, 1, 1), (2, 1, 3), (1, 3, 2)] {
        let spec = ContextSpec { deadline, ..ContextSpec::new(budget, period) };
        assert_eq!(scheduler.add_context(spec, 0), Err(Refused::BadContext));
    }
    let first = scheduler.add_context(ContextSpec::new(1, 2), 0).unwrap();
    let refused = scheduler.add_context(ContextSpec::new(1, 2), 0).unwrap_err();
    assert!(refused.to_string().contains("Capacity::contexts"), "{refused}");
    let _ = scheduler.revoke_context(first, 0).unwrap();
    let second = scheduler.add_context(ContextSpec::new(1, 2), 0).unwrap();
    assert_ne!(first, second);
    assert_eq!(scheduler.revoke_context(first, 0), Err(Stale), "an old handle does not reach the new context");
    let process = scheduler.add_process().unwrap();
    let thread = scheduler.add_thread(&policy_cpu::ThreadSpec::new(process)).unwrap();
    assert_eq!(scheduler.bind(thread, Some(first), 0), Err(Stale));
}

#[test]
fn a_context_that_is_revoked_while_it_runs_leaves_its_thread_to_its_weight() {
    let mut machine = Machine::new(1, 0);
    let process = machine.process("p");
    let context = machine.context(ContextSpec::new(ms(9), ms(10)));
    machine.thread("t", process).context(context).runs(hog());
    machine.thread("hog", process).runs(hog());
    machine.run_for(ms(1005));
    let now = machine.now();
    let interrupt = machine.scheduler().revoke_context(context, now).unwrap();
    machine.send(interrupt);
    let before = machine.run_for(0).used_by("t");
    let after = machine.run_for(ms(1000)).used_by("t");
    assert!((after - before).abs_diff(ms(500)) < ms(10), "{before}, {after}");
}

#[test]
fn a_caller_that_gives_up_waiting_takes_its_context_back() {
    let mut machine = Machine::new(1, 0);
    let process = machine.process("p");
    let server = machine.thread("server", process).runs(Program::server(ms(500)));
    let context = machine.context(ContextSpec::new(ms(8), ms(10)));
    machine
        .thread("client", process)
        .context(context)
        .runs(Program::once(vec![Step::Call(server), Step::Run(ms(500))]));
    machine.thread("hog", process).runs(hog());
    machine.run_for(ms(100));
    let (client, server) = (machine.id_of("client"), machine.id_of("server"));
    assert_eq!(machine.scheduler().thread(server).unwrap().donated(), Some(context));
    let now = machine.now();
    let interrupt = machine.scheduler().abandon_call(client, now).unwrap();
    machine.send(interrupt);
    let before = machine.run_for(us(10));
    assert_eq!(machine.scheduler().thread(server).unwrap().donated(), None);
    let after = machine.run_for(ms(100));
    let got = |name: &str| after.used_by(name) - before.used_by(name);
    assert!(got("client").abs_diff(ms(80)) <= ms(2), "{after}");
    assert!(got("server").abs_diff(ms(10)) <= ms(4) && got("hog").abs_diff(ms(10)) <= ms(4), "{after}");
}
