//! Accounting and the fair class: hogs, sleepers, siblings, processes, calls.

use policy_cpu::{Class, Latency};
use proof_sim::{Machine, Program, Step};

use crate::{ms, us};

fn hog() -> Program {
    Program::forever(vec![Step::Run(ms(1000))])
}

#[test]
fn runtime_grows_while_a_thread_runs_and_stands_still_while_it_is_blocked() {
    let mut machine = Machine::new(1, 0);
    let process = machine.process("p");
    machine.thread("t", process).runs(Program::forever(vec![Step::Run(ms(10)), Step::Sleep(ms(10))]));
    let mut last = 0;
    for round in 0..20 {
        let running = machine.run_for(ms(5)).thread("t").account.runtime;
        assert!(running > last, "round {round}");
        let at_end = machine.run_for(ms(5)).thread("t").account.runtime;
        let asleep = machine.run_for(ms(10)).thread("t").account.runtime;
        assert!(asleep.abs_diff(at_end) <= us(100), "round {round}: {at_end}, {asleep}");
        last = asleep;
    }
    let report = machine.run_for(0);
    assert_eq!(report.cpus[0].account.busy + report.cpus[0].account.idle, machine.now());
    assert_eq!(report.thread("t").account.preemptions, 0);
    assert!(report.thread("t").account.voluntary_blocks >= 19);
}

#[test]
fn a_hog_cannot_starve_a_sleeper() {
    for seed in 0..8 {
        for latency in [Latency::Sensitive, Latency::Normal] {
            let mut machine = Machine::new(2, seed);
            let process = machine.process("p");
            for hog_number in 0..8 {
                machine.thread(&format!("hog{hog_number}"), process).runs(hog());
            }
            machine
                .thread("sleeper", process)
                .latency(latency)
                .runs(Program::forever(vec![Step::RunBetween(us(50), us(200)), Step::SleepBetween(ms(1), ms(20))]));
            let report = machine.run_for(ms(2000));
            let sleeper = report.thread("sleeper");
            // Among four hogs a slice is served within five of its length, and one of a hog's may have begun before.
            let bound = 5 * latency.slice() + ms(3);
            assert!(sleeper.waits.count() > 100 && sleeper.wait_max <= bound, "seed {seed}, {latency:?}\n{report}");
        }
    }
}

#[test]
fn a_thread_that_sleeps_briefly_again_and_again_gets_no_more_than_its_share() {
    let mut machine = Machine::new(1, 0);
    let process = machine.process("p");
    machine.thread("hog", process).runs(hog());
    // Gives the CPU up just before its slice ends.
    machine.thread("gamer", process).runs(Program::forever(vec![Step::Run(us(2900)), Step::Sleep(us(1))]));
    let report = machine.run_for(ms(5000));
    let share = report.used_by("gamer") as f64 / ms(5000) as f64;
    assert!(share <= 0.51, "{share}\n{report}");
}

#[test]
fn weights_are_shares_within_one_percent() {
    let mut machine = Machine::new(1, 0);
    let process = machine.process("p");
    for (name, weight) in [("one", 1024), ("two", 2048), ("four", 4096)] {
        machine.thread(name, process).weight(weight).runs(hog());
    }
    let report = machine.run_for(ms(7000));
    for (name, share) in [("one", 1000), ("two", 2000), ("four", 4000)] {
        let ran = report.thread(name).account.runtime;
        assert!(ran.abs_diff(ms(share)) <= ms(10), "{name}\n{report}");
    }
}

#[test]
fn siblings_of_one_process_share_a_cpu_like_strangers() {
    let mut machine = Machine::new(1, 0);
    let (many, one) = (machine.process("many"), machine.process("one"));
    for number in 0..4 {
        machine.thread(&format!("sibling{number}"), many).runs(hog());
    }
    machine.thread("single", one).runs(hog());
    let report = machine.run_for(ms(5000));
    for thread in &report.threads {
        assert!(thread.account.runtime.abs_diff(ms(1000)) <= ms(10), "{report}");
    }
}

#[test]
fn many_processes_on_many_cpus_keep_every_cpu_busy() {
    let mut machine = Machine::new(8, 3);
    for number in 0..20 {
        let process = machine.process(&format!("p{number}"));
        for thread in 0..2 {
            machine
                .thread(&format!("t{number}.{thread}"), process)
                .runs(Program::forever(vec![Step::RunBetween(us(100), ms(5)), Step::SleepBetween(us(10), us(500))]));
        }
    }
    let report = machine.run_for(ms(1000));
    for cpu in &report.cpus {
        assert!(cpu.account.idle < ms(20), "{report}");
    }
}

#[test]
fn a_caller_and_its_server_together_get_the_share_of_one_when_there_is_no_other_cpu() {
    let mut machine = Machine::new(1, 0);
    let process = machine.process("p");
    let server = machine.thread("server", process).runs(Program::server(us(500)));
    machine.thread("client", process).runs(Program::forever(vec![Step::Run(us(500)), Step::Call(server)]));
    machine.thread("hog", process).runs(hog());
    let report = machine.run_for(ms(4000));
    let pair = report.used_by("server") + report.used_by("client");
    // Two entities of three, and they take turns: each has at most a third.
    assert!(pair <= ms(4000) * 2 / 3 + ms(20), "{report}");
    assert!(report.thread("hog").account.runtime >= ms(4000) / 3 - ms(20), "{report}");
    assert!(report.thread("client").rounds > 500, "{report}");
}

#[test]
fn a_direct_handoff_costs_no_choice_and_no_wait() {
    let mut machine = Machine::new(1, 0);
    let process = machine.process("p");
    let server = machine.thread("server", process).runs(Program::server(us(10)));
    machine.thread("client", process).runs(Program::forever(vec![Step::Run(us(10)), Step::Call(server)]));
    let report = machine.run_for(ms(10));
    assert!(report.thread("client").rounds >= 499, "{report}");
    assert!(report.cpus[0].account.idle <= us(2), "the first interrupt alone\n{report}");
}

#[test]
fn a_latency_sensitive_thread_is_served_sooner() {
    let wait_of = |seed, latency| {
        let mut machine = Machine::new(1, seed);
        let process = machine.process("p");
        for number in 0..4 {
            machine.thread(&format!("hog{number}"), process).latency(Latency::Batch).runs(hog());
        }
        machine
            .thread("probe", process)
            .latency(latency)
            .runs(Program::forever(vec![Step::Run(us(300)), Step::SleepBetween(ms(3), ms(9))]));
        machine.run_for(ms(3000)).thread("probe").wait_max
    };
    // What the definition promises is four slices, one for each hog, and an interrupt:
    // - The hogs joined together, so their requests end at multiples of their slice. None is picked for its next request before all have ended the last one: it would
    //   have to be eligible, and then so is a hog that is behind it, with an earlier deadline. So all hogs that may go before the probe have the same deadline `D`, and
    //   what they still need together is `4·(D − V)`, where `V` is the mean of their runtimes.
    // - The probe joins at `V`, or before it: its debt, of the 300 µs it ran, is paid after 1.2 ms of sleep. So its deadline is `V` and a slice, or earlier. The hogs go
    //   first only if `D` is not later than that, and then they need at most four slices.
    // No less is promised: a probe that always went first would have credit for what it slept through.
    let bound = |latency: Latency| 4 * latency.slice() + us(2);
    let [sensitive, normal, batch] = [Latency::Sensitive, Latency::Normal, Latency::Batch].map(|latency| {
        let waits = (0..8).map(|seed| wait_of(seed, latency));
        let (seed, wait) = (0..).zip(waits).max_by_key(|(_, wait)| *wait).expect("there are some");
        assert!(wait <= bound(latency), "seed {seed}, {latency:?}: {wait}");
        wait
    });
    assert_eq!(batch, bound(Latency::Batch), "it is last of five that begin together, so the bound is reached");
    assert!(normal > 2 * sensitive && batch > 2 * normal, "{sensitive}, {normal}, {batch}");
}

#[test]
fn threads_of_the_idle_class_run_only_in_gaps() {
    let mut machine = Machine::new(1, 0);
    let process = machine.process("p");
    machine.thread("idler", process).class(Class::Idle).runs(hog());
    machine.thread("worker", process).runs(Program::forever(vec![Step::Run(ms(3)), Step::Sleep(ms(7))]));
    let report = machine.run_for(ms(1000));
    assert!(report.thread("worker").wait_max <= us(10), "{report}");
    assert!(report.used_by("idler").abs_diff(ms(700)) < ms(10), "{report}");
}

#[test]
fn a_thread_that_moves_takes_its_debt_along() {
    let mut machine = Machine::new(2, 0);
    let process = machine.process("p");
    for number in 0..6 {
        machine.thread(&format!("t{number}"), process).runs(hog());
    }
    machine.run_for(ms(100));
    // Moved back and forth every few milliseconds, a thread must not gain.
    for round in 0..200 {
        let id = machine.id_of("t0");
        let now = machine.now();
        let interrupt = machine.scheduler().migrate(id, round % 2, now).unwrap();
        machine.send(interrupt);
        machine.run_for(ms(5));
    }
    let report = machine.run_for(0);
    let ran = report.thread("t0").account.runtime as f64 / machine.now() as f64;
    assert!(ran < 0.42, "{ran}\n{report}"); // two CPUs, six threads: a third, and moving to a shorter queue helps somewhat
}

#[test]
fn a_thread_that_wakes_beside_a_long_run_gets_no_credit_for_it() {
    let mut machine = Machine::new(1, 0);
    let process = machine.process("p");
    // Alone on its CPU it runs for a second without being looked at.
    machine.thread("hog", process).runs(hog());
    machine.thread("late", process).runs(Program::once(vec![Step::Sleep(ms(900)), Step::Run(ms(1000))]));
    let report = machine.run_for(ms(1000));
    assert!(report.used_by("late").abs_diff(ms(50)) <= ms(4), "half of the last 100 ms\n{report}");
}

#[test]
fn a_weight_that_changes_while_a_thread_sleeps_does_not_multiply_what_it_is_owed() {
    let mut machine = Machine::new(1, 0);
    let process = machine.process("p");
    machine.thread("hog", process).weight(5000).runs(hog());
    machine.thread("t", process).weight(10).runs(Program::forever(vec![Step::Run(us(100)), Step::Sleep(ms(5))]));
    // It is owed a slice of its small weight when it sleeps.
    for weight in [9000, 10].repeat(20) {
        machine.run_for(ms(7));
        let (id, now) = (machine.id_of("t"), machine.now());
        machine.scheduler().set_weight(id, policy_cpu::Weight::clamped(weight), now).unwrap();
    }
}
