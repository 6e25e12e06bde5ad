//! What a policy file means, and what is said about one that means nothing.

mod mistakes;
mod properties;
mod reference;

use policy_admission::service::{Because, CpuDemand, Epoch, Hint, Machine, Reserve};
use policy_cpu::{CpuSet, Latency, Overrun};
use surface_policyfile::{Location, PolicyFile, parse};

fn file(text: &str) -> PolicyFile {
    parse("test.toml", text).unwrap_or_else(|problems| panic!("{problems}"))
}

fn example() -> PolicyFile {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/policy.toml");
    surface_policyfile::load(path.as_ref()).unwrap_or_else(|problems| panic!("{problems}"))
}

#[test]
fn an_empty_file_has_the_profile_normal() {
    let file = file("");
    assert_eq!((file.set().profiles.len(), &*file.set().default), (1, "normal"));
    assert_eq!((file.set().profiles[0].weight, file.set().profiles[0].slice), (1024, 3_000_000));
    assert!(file.warnings().is_none());
}

#[test]
fn every_field_of_a_profile_is_read() {
    let text = "[profile.x]\nweight = 5\nlatency = 'batch'\nslice = '500us'\nbudget = '1ms'\nperiod = '10ms'\n\
                deadline = '4ms'\ncriticality = 9\noverrun = 'stop'\ncpus = '0-1,3'\n[profile.y]\ncpus = 2\nlatency = 'sensitive'";
    let file = file(text);
    let [x, y, _normal] = &file.set().profiles[..] else { panic!() };
    assert_eq!((x.weight, x.latency, x.slice), (5, Latency::Batch, 500_000));
    let mut reserve = Reserve::new(1_000_000, 10_000_000);
    (reserve.deadline, reserve.criticality, reserve.overrun) = (4_000_000, 9, Overrun::Stop);
    assert_eq!(x.reserve, Some(reserve));
    assert_eq!(x.cpus, CpuDemand::Set([0, 1, 3].into_iter().collect::<CpuSet>()));
    assert_eq!((y.cpus, y.slice), (CpuDemand::Count(2), 750_000), "the slice is that of the latency");
}

#[test]
fn the_same_can_be_written_in_json() {
    let json = r#"{"default": "a", "profile": {"a": {"weight": 7}}, "hints": {"batch": "a"}, "rule": [{"name": "b*", "profile": "a"}]}"#;
    let toml = "default = 'a'\n[profile.a]\nweight = 7\n[hints]\nbatch = 'a'\n[[rule]]\nname = 'b*'\nprofile = 'a'";
    assert_eq!(parse("x.json", json).unwrap().set(), file(toml).set());
}

#[test]
fn the_example_gives_what_its_comments_say() {
    let example = example();
    assert!(example.warnings().is_none(), "{:?}", example.warnings());
    let epoch = Epoch::new(1, example.set().clone(), &Machine::new(2)).unwrap();
    for (name, profile, because) in [
        ("service:mixer-1", "audio", Because::Rule(0)),
        ("account:nightly", "background", Because::Rule(1)),
        ("session:tty3", "interactive", Because::Rule(2)),
        ("photos-backup", "background", Because::Rule(3)),
        ("poller", "poller", Because::Name),
        ("anything", "normal", Because::Default),
    ] {
        let (found, why) = epoch.profile(name);
        assert_eq!((&*found.name, why), (profile, because), "{name}");
    }
    assert_eq!(&*epoch.hint(Hint::Agent).0.name, "background");
    assert_eq!(example.rule_location(0), Some(Location { line: 42, column: 1 }));
}

#[test]
fn a_profile_that_nothing_uses_and_a_rule_that_never_decides_are_warned_of() {
    let text =
        "[profile.a]\n[profile.b]\n[[rule]]\nservice = 'x*'\nprofile = 'b'\n[[rule]]\nservice = 'xy'\nprofile = 'b'";
    let warnings = file(text).warnings().unwrap();
    assert_eq!(
        warnings.to_string(),
        "test.toml:1:10: nothing leads to profile `a`: no rule, no hint, not the default; remove it, unless programs ask for it by its name\n\
         test.toml:6:1: rule 2 never decides: rule 1 matches all of its names; move it before that rule, or remove it"
    );
}

#[test]
fn what_a_machine_cannot_do_is_marked_where_it_is_written() {
    let file = file(
        "[profile.a]\nbudget = '9ms'\nperiod = '10ms'\n[profile.b]\nbudget = '9ms'\nperiod = '10ms'\n[profile.c]\ncpus = '0-7'",
    );
    assert_eq!(
        file.problems_on(&Machine::new(1)).unwrap().to_string(),
        "test.toml:5:10: policy: b needs 9 ms in every 10 ms; CPU 0 has 500 µs left, and 500 µs in every 10 ms are kept for housekeeping; \
         lower its budget, lengthen its period, or give it other CPUs\n\
         test.toml:8:8: profile `c` asks for CPU 1, but the machine has 1; name CPU 0, or leave it out to run anywhere"
    );
    assert!(file.problems_on(&Machine::new(8)).is_none());
}
