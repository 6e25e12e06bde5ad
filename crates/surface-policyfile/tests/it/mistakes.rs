//! What is said about wrong files: the place, the value, the limit, and what to write instead.

use surface_policyfile::{FILE_BYTES_MAX, parse};

/// A test for each mistake: a file, and all that is said about it.
macro_rules! mistakes {
    ($($name:ident: $file:literal => $said:literal;)*) => {
        $(
            #[test]
            fn $name() {
                let problems = parse("test.toml", $file).expect_err("something is wrong");
                assert_eq!(problems.to_string(), $said);
                assert!(problems.pretty(false).contains('╭'), "it is drawn");
            }
        )*
    };
}

mistakes! {
    every_problem_is_reported_in_the_order_of_the_file:
        "default = 'x'\n[profile.a]\nwieght = 5\nweight = 0\n[hints]\nbatch = 'b'\n[[rule]]\nservice = '**'\nprofile = 'a'"
        => "test.toml:1:11: `default` names the profile `x`, which is not there; add `[profile.x]`, or name another one\n\
            test.toml:3:1: `wieght` is not a field of a profile; did you mean `weight`?\n\
            test.toml:4:10: `weight` is 0, but the minimum is 1; write a number from 1 to 1048576\n\
            test.toml:6:9: a hint names the profile `b`, which is not there; add `[profile.b]`, or name another one\n\
            test.toml:8:11: rule 1: `**` has more than one `*`; the limit is 128 bytes; write at most 128 bytes, with one `*` at most, which stands for any text; several rules may give one profile";
    an_unknown_part_is_compared_with_the_known:
        "[profiles.a]"
        => "test.toml:1:2: `profiles` is not a part of a policy file; did you mean `profile`?";
    an_unknown_part_lists_the_known:
        "[job.a]"
        => "test.toml:1:2: `job` is not a part of a policy file; there are default, profile, hints, rule";
    an_unknown_hint_lists_the_known:
        "[hints]\nquick = 'normal'"
        => "test.toml:2:1: `quick` is not a hint; there are latency-sensitive, batch, driver, poller, agent";
    a_hint_names_a_profile_by_a_text:
        "[hints]\nbatch = 5"
        => "test.toml:2:9: `batch` takes the name of a profile, not the number `5`; write `batch = \"normal\"`";
    a_rule_has_two_brackets:
        "[rule]\nservice = 'a'"
        => "test.toml:1:1: `rule` is a list of sections, not the table `[rule]`; write `[[rule]]`, with two brackets, and its fields below";
    a_rule_is_about_something_and_gives_something:
        "[[rule]]\n"
        => "test.toml:1:1: rule 1 is about nothing; write one of `service`, `account`, `session` and `name`, such as `service = \"db-*\"`\n\
            test.toml:1:1: rule 1 gives no profile; write `profile = \"normal\"`";
    a_rule_is_about_one_thing:
        "[[rule]]\nservice = 'a'\naccount = 'b'\nprofile = 'normal'"
        => "test.toml:3:1: rule 1 has both `service` and `account`; write two rules";
    a_budget_needs_a_period:
        "[profile.a]\nbudget = '1ms'"
        => "test.toml:2:1: profile `a` has a `budget` and no `period`; write how often the budget comes back: `period = \"5ms\"`";
    a_deadline_needs_a_budget:
        "[profile.a]\ndeadline = '1ms'"
        => "test.toml:2:1: profile `a` has `deadline`, but reserves no time; write `budget = \"300us\"` as well, or remove it";
    a_reserve_is_in_order:
        "[profile.a]\nbudget = '6ms'\nperiod = '5ms'"
        => "test.toml:2:10: profile `a` asks for 6 ms with a deadline of 5 ms in every 5 ms; write 0 < budget <= deadline <= period";
    a_slice_has_limits:
        "[profile.a]\nslice = '1s'"
        => "test.toml:2:9: profile `a`: slice is 1 s, but the limit is 100 ms; write 100 µs to 100 ms";
    a_duration_has_a_unit_that_is_known:
        "[profile.a]\nslice = '5d'"
        => "test.toml:2:9: `slice` is '5d', which is not a duration: its unit is none of ns, us, ms, s, m, h; write \"300us\", \"5ms\", \"1s\", or a plain number of seconds";
    a_latency_is_one_of_three_words:
        "[profile.a]\nlatency = 'low'"
        => "test.toml:2:11: `latency` takes \"sensitive\", \"normal\" or \"batch\", not 'low'; write `latency = \"sensitive\"`";
    cpus_are_numbers_and_ranges:
        "[profile.a]\ncpus = '0-'\n[profile.b]\ncpus = '3-1'\n[profile.c]\ncpus = '256'\n[profile.d]\ncpus = 0\n[profile.e]\ncpus = true"
        => "test.toml:2:8: `cpus` is '0-', which is not a set of CPUs: it has something that is neither a number nor a range; write \"0-3,8\" for these, or 2 for any two\n\
            test.toml:4:8: `cpus` is '3-1', which is not a set of CPUs: 3-1 goes backwards; write \"0-3,8\" for these, or 2 for any two\n\
            test.toml:6:8: `cpus` is '256', which is not a set of CPUs: CPU 256 is beyond 255, the limit; write \"0-3,8\" for these, or 2 for any two\n\
            test.toml:8:8: `cpus` is 0, but the minimum is 1; write a number from 1 to 256\n\
            test.toml:10:8: `cpus` takes a number of CPUs, or a set of them as \"0-3,8\", not the flag `true`; write `cpus = \"0\"`";
    a_profile_that_is_a_number_is_no_profile:
        "[profile]\na = 5"
        => "test.toml:2:1: profile `a` is a section, not the number `5`; write `[profile.a]` and below it `weight = 2048`";
    a_section_that_is_a_text_is_no_section:
        "hints = 'batch'"
        => "test.toml:1:1: `hints` is a section, not the text `'batch'`; write `[hints]` on a line of its own, and its fields below";
    a_name_has_plain_letters:
        "[profile.'a b']"
        => "test.toml:1:10: profile 1: `a b` has a character that a name cannot have; the limit is 64 bytes; write at most 64 bytes: letters, digits and any of `_-.`";
    a_line_is_a_key_and_a_value:
        "[profile.a]\nweight"
        => "test.toml:2:7: key with no value, expected `=`; a line is `key = value`, a profile starts with `[profile.NAME]`, a rule with `[[rule]]`, and text is in quotes";
}

#[test]
fn a_file_that_is_not_there_or_too_long_is_named() {
    let problems = surface_policyfile::load("no-such.toml".as_ref()).unwrap_err();
    assert!(problems.to_string().starts_with("no-such.toml: cannot be read: "), "{problems}");
    let long = "#".repeat(FILE_BYTES_MAX + 1);
    assert!(parse("x.toml", &long).unwrap_err().to_string().contains("has more than 1048576 bytes, the limit"));
}
