//! Laws that hold for any file.

use policy_admission::service::{Epoch, Machine, Rule, Subject};
use proptest::prelude::*;
use surface_policyfile::{parse, parse_bytes};

const PIECES: &[&str] = &[
    "[profile.a]\n",
    "[profile.b]\n",
    "[profile]\n",
    "[hints]\n",
    "[[rule]]\n",
    "[rule]\n",
    "default = 'a'\n",
    "weight = 5\n",
    "weight = 0\n",
    "latency = 'batch'\n",
    "slice = '1ms'\n",
    "budget = '1ms'\n",
    "period = '10ms'\n",
    "deadline = '20ms'\n",
    "cpus = '0-1'\n",
    "cpus = 300\n",
    "service = 'a*'\n",
    "name = 'x'\n",
    "profile = 'a'\n",
    "batch = 'b'\n",
    "ä\u{1f600}",
    "\"",
    "{",
    "=",
    "\n",
];

proptest! {
    #[test]
    fn any_text_gives_a_policy_or_problems(pieces in prop::collection::vec(prop::sample::select(PIECES), 0..30)) {
        let text = pieces.concat();
        for name in ["x.toml", "x.json"] {
            match parse(name, &text) {
                Ok(file) => {
                    file.warnings();
                    let on = file.problems_on(&Machine::new(1));
                    prop_assert_eq!(Epoch::new(1, file.set().clone(), &Machine::new(1)).is_ok(), on.is_none());
                }
                Err(problems) => {
                    prop_assert!(problems.len() > 0);
                    problems.pretty(true);
                }
            }
        }
    }

    #[test]
    fn any_bytes_give_a_policy_or_problems(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = parse_bytes("x.toml", &bytes);
        let _ = parse_bytes("x.json", &bytes);
    }

    /// A rule that is said never to decide never does.
    #[test]
    fn a_warning_about_a_rule_is_true(patterns in prop::collection::vec("[ab]{0,2}\\*?[ab]{0,2}", 2..4), name in "[ab]{0,6}") {
        prop_assume!(patterns.iter().all(|pattern| !pattern.is_empty()));
        let text: String = patterns.iter().map(|pattern| format!("[[rule]]\nname = '{pattern}'\nprofile = 'normal'\n")).collect();
        let said = parse("x.toml", &text).unwrap().warnings().map(|warnings| warnings.to_string()).unwrap_or_default();
        let matches = |pattern: &String| Rule::new(Subject::Name, pattern.as_str(), "x").matches(&name);
        let first = patterns.iter().position(matches);
        if let Some(first) = first {
            prop_assert!(!said.contains(&format!("rule {} never decides", first + 1)), "{said} for {name}");
        }
    }
}
