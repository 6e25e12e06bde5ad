//! What is written is what is simulated.

use surface_simfile::{Failed, Options, Policy, Report, simulate};

use crate::plan;

fn run(text: &str) -> Report {
    let plan = plan(text);
    simulate(&plan, &Options::of(&plan)).unwrap_or_else(|failed| panic!("{failed}"))
}

const MS: u64 = 1_000_000;

#[test]
fn weights_contexts_and_copies_are_those_of_the_file() {
    let report = run("
        for = '1s'
        [context.half]
        budget = '5ms'
        period = '10ms'
        [thread.reserved]
        context = 'half'
        does = ['run 1s']
        [thread.one]
        does = ['run 1s']
        [thread.two]
        count = 2
        weight = 2048
        does = ['run 1s']
    ");
    let names: Vec<&str> = report.threads.iter().map(|thread| thread.name.as_str()).collect();
    assert_eq!(names, ["reserved", "one", "two.1", "two.2"]);
    assert!(report.used_by("reserved").abs_diff(500 * MS) <= MS, "{report}");
    assert!(report.used_by("one").abs_diff(100 * MS) <= 10 * MS, "{report}");
    assert!(report.used_by("two").abs_diff(400 * MS) <= 10 * MS, "{report}");
    assert_eq!(report.contexts[0].charged, Some(report.used_by("reserved")));
}

#[test]
fn calls_find_their_threads_by_name_whatever_the_order() {
    let report = run("
        for = '100ms'
        [thread.client]
        count = 2
        does = ['run 100us', 'call server']
        [thread.server]
        does = ['receive', 'run 100us', 'reply']
    ");
    assert!(report.thread("client.1").rounds > 200 && report.thread("server").rounds > 400, "{report}");
}

#[test]
fn what_ends_at_a_time_ends_then() {
    let report = run("
        for = '100ms'
        [session.login]
        ends = '40ms'
        [process.a]
        ends = '20ms'
        [process.b]
        session = 'login'
        [context.c]
        budget = '1ms'
        period = '1ms'
        ends = '60ms'
        [thread.a]
        process = 'a'
        does = ['run 1s']
        [thread.b]
        process = 'b'
        does = ['run 1s']
        [thread.c]
        class = 'reserved'
        context = 'c'
        starts = '40ms'
        does = ['run 1s']
    ");
    assert!(report.used_by("a") <= 20 * MS && report.used_by("a") >= 8 * MS, "{report}");
    assert!(report.used_by("a") + report.used_by("b") >= 40 * MS - 10_000, "{report}");
    // It needs a context, and has none any more.
    assert!(report.used_by("c").abs_diff(20 * MS) <= 10_000, "{report}");
    assert!(report.cpus[0].account.idle.abs_diff(40 * MS) <= 30_000, "{report}");
}

#[test]
fn a_lease_keeps_others_away_as_long_as_it_lasts() {
    let text = |lease: &str| {
        format!(
            "cpus = 2\nfor = '100ms'\n[process.own]\n[context.c]\nbudget = '10ms'\nperiod = '10ms'\n{lease}
             [thread.own]\nprocess = 'own'\ncpus = [1]\ndoes = ['run 1ms', 'sleep 1ms']
             [thread.hog]\ncount = 4\ndoes = ['run 1s']\n"
        )
    };
    let lease = "[lease.l]\nprocess = 'own'\ncpus = [1]\ncontext = 'c'\n";
    let idle = |text: &str| run(text).cpus[1].account.idle;
    assert!(idle(&text("")) < MS);
    assert!(idle(&text(lease)) > 45 * MS);
    let half = idle(&text(&format!("{lease}ends = '50ms'\n")));
    assert!((20 * MS..30 * MS).contains(&half), "{half}");
}

#[test]
fn a_limit_of_waiting_is_a_law_under_each_policy() {
    let text = "[thread.hog]\ndoes = ['run 1s']\n[thread.t]\nlatency = 'sensitive'\nwait_limit = '2ms'\ndoes = ['run 10us', 'sleep 5ms']\n";
    let plan = plan(text);
    for (policy, holds) in [(Policy::Eevdf, true), (Policy::RoundRobin, false)] {
        let outcome = simulate(&plan, &Options { policy, seed: 5, ..Options::of(&plan) });
        match outcome {
            Ok(_) => assert!(holds, "{policy}"),
            Err(Failed::Broken(broken)) => {
                assert!(!holds && broken.seed == 5 && broken.law.contains("`t` waited"), "{policy}: {broken}");
            }
            Err(other) => panic!("{other}"),
        }
    }
}

#[test]
fn json_is_read_as_toml_is() {
    let json = r#"{ "for": "10ms", "thread": { "hog": { "does": ["run 1ms"] } } }"#;
    let plan = surface_simfile::parse("x.json", json).unwrap();
    assert_eq!((plan.name.as_str(), plan.time), ("x", 10 * MS));
}
