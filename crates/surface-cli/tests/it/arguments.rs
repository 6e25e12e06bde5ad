//! What it understands, and what it answers otherwise.

use crate::{run, text};

#[test]
fn help_teaches_by_example_and_names_the_exit_codes() {
    for args in [&["--help"][..], &["help"], &["-h"]] {
        let output = run(args);
        let help = text(&output.stdout);
        assert_eq!(output.status.code(), Some(0), "{args:?}");
        for part in [
            "Usage: bursar",
            "<COMMAND>",
            "demo",
            "bursar run render.toml",
            "bursar why image[8]",
            "Exit codes:",
            "130",
        ] {
            assert!(help.contains(part), "`{part}` is missing from the help:\n{help}");
        }
    }
}

#[test]
fn help_of_the_demonstration_names_every_option_and_its_default() {
    let help = text(&run(&["demo", "--help"]).stdout);
    for part in
        ["--seconds <N>", "--workers <N>", "--fibers <N>", "--json", "one per CPU", "10 on a terminal", "100000"]
    {
        assert!(help.contains(part), "`{part}` is missing from the help:\n{help}");
    }
}

#[test]
fn it_says_which_version_it_is() {
    assert_eq!(text(&run(&["--version"]).stdout), format!("bursar {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn an_argument_out_of_range_is_answered_with_value_limit_and_way_out() {
    for (args, parts) in [
        (["demo", "--workers", "0"], ["'0'", "1 to 256 workers", "leave `--workers` out for one per CPU"]),
        (["demo", "--workers", "257"], ["'257'", "1 to 256 workers", "leave `--workers` out for one per CPU"]),
        (["demo", "--workers", "two"], ["'two'", "1 to 256 workers", "leave `--workers` out for one per CPU"]),
        (["demo", "--seconds", "0"], ["'0'", "1 to 600 seconds", "leave `--seconds` out"]),
        (["demo", "--fibers", "2000000"], ["'2000000'", "1 to 1048576 fibers", "100000 take about half a gigabyte"]),
    ] {
        let output = run(&args);
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(output.stdout.is_empty(), "{args:?}");
        for part in parts {
            assert!(error.contains(part), "{args:?}: `{part}` is missing from:\n{error}");
        }
    }
}

#[test]
fn an_unknown_command_is_answered_with_help() {
    let output = run(&["dmo"]);
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2));
    assert!(error.contains("similar subcommand exists: 'demo'") && error.contains("--help"), "{error}");
    assert_eq!(run(&[]).status.code(), Some(2), "without a command there is nothing to do");
}
