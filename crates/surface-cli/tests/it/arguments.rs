//! What it understands, and what it answers otherwise.

use crate::run_site::{Site, assert_code};
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
            "flow",
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
fn the_command_of_a_user_neither_demonstrates_nor_measures_itself() {
    let help = text(&run(&["--help"]).stdout);
    for command in ["demo", "bench"] {
        assert_eq!(run(&[command]).status.code(), Some(2), "`{command}`");
        assert!(!help.contains(command), "`{command}` is still in the help:\n{help}");
    }
}

#[test]
fn it_says_which_version_it_is() {
    assert_eq!(text(&run(&["--version"]).stdout), format!("bursar {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn an_argument_out_of_range_is_answered_with_value_limit_and_way_out() {
    for (args, parts) in [
        (["prune", "--older", "5w"], ["'5w'", "none of ms, s, m, h, d", "write `30d`, `12h` or `90m`"]),
        (["prune", "--size", "2 X"], ["'2 X'", "none of B, KB, MB, GB", "write `2GB` or `500MB`"]),
        (["run", "--ram", "9999999TB"], ["'9999999TB'", "more than 1000000 TB", "write `8GB`, `512MB`"]),
        (["run", "--timeout", "0"], ["'0'", "a time limit cannot be 0", "leave it out for no limit"]),
        (["run", "--resource", "licence"], ["'licence'", "is not NAME=NUMBER", "`licence=2`"]),
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
    let output = run(&["chek"]);
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2));
    assert!(error.contains("similar subcommand exists: 'check'") && error.contains("--help"), "{error}");
    assert_eq!(run(&[]).status.code(), Some(2), "without a command there is nothing to do");
}

#[test]
fn no_flow_in_real_time_is_promised_to_be_the_same_every_time() {
    let help = text(&run(&["flow", "run", "--help"]).stdout).to_lowercase();
    assert!(help.contains("--workers"), "{help}");
    for word in ["same order", "every time", "repeat", "determin", "reproduc"] {
        assert!(!help.contains(word), "`{word}`: {help}");
    }
}

#[test]
fn options_of_a_single_command_are_refused_with_a_file() {
    let site = Site::new("[job.a]\nrun = 'true'\n");
    for option in ["--timeout 1s", "--priority 3", "--log-limit 1MB", "--name x"] {
        let output = site.bursar(&format!("run jobs.toml {option}"));
        assert_code(&output, 2);
        assert!(text(&output.stderr).contains("is for a single command"), "{option}");
    }
}

#[test]
fn a_demand_that_never_fits_is_refused_by_check_and_run_before_a_run_exists() {
    let site = Site::new("[resources]\ncpu = 2\nlicence = 1\n[job.a]\nrun = 'true'\nlicence = 2\n");
    for command in ["check jobs.toml", "run jobs.toml", "run jobs.toml --dry-run"] {
        let output = site.bursar(command);
        assert_code(&output, 3);
        assert!(text(&output.stderr).contains("licence"), "{command}: {}", text(&output.stderr));
    }
    let file = site.path("wide.toml");
    std::fs::write(file, "[job.b]\nrun = 'true'\ncpu = 1000000\n").unwrap();
    for command in ["check wide.toml", "run wide.toml"] {
        let output = site.bursar(command);
        assert_code(&output, 3);
        assert!(text(&output.stderr).contains("wants 1000000 CPU slots"), "{command}: {}", text(&output.stderr));
    }
    assert!(!text(&site.bursar("ps --all").stdout).contains("r-"), "no run was made");
}
