//! A row with a wrong result is not shown as one, and fails the run.

use std::process::{Command, Output};

fn compare(workload: &str, planted: Option<&str>) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_compare"));
    command.args([workload, "--quick"]).env_remove("COMPARE_PLANT");
    if let Some(row) = planted {
        command.env("COMPARE_PLANT", row);
    }
    command.output().expect("it starts")
}

/// The lines of a workload in the table that tells work from cost.
fn rows(output: &Output, side: &str, workers: &str) -> usize {
    let shown = String::from_utf8_lossy(&output.stdout);
    let sheet = shown.lines().skip_while(|line| !line.contains("work ms"));
    let is_row = |line: &&str| line.contains(side) && line.split_whitespace().any(|word| word == workers);
    sheet.filter(is_row).count()
}

#[test]
fn right_rows_are_shown_and_the_run_ends_well() {
    let right = compare("thread-scale", None);
    assert_eq!(right.status.code(), Some(0), "{}", String::from_utf8_lossy(&right.stderr));
    assert_eq!((rows(&right, "rayon", "1"), rows(&right, "rayon", "2")), (1, 1));
}

#[test]
fn a_wrong_checksum_refuses_its_row_and_the_run_ends_with_1_and_says_which() {
    for (workload, side) in [("thread-scale", "rayon"), ("process-scale", "fork and exec")] {
        let row = format!("{workload}: {side}, 2 workers");
        let wrong = compare(workload, Some(&row));
        let said = String::from_utf8_lossy(&wrong.stderr);
        assert_eq!(wrong.status.code(), Some(1), "{said}");
        assert_eq!((rows(&wrong, side, "1"), rows(&wrong, side, "2")), (1, 0), "{said}");
        assert!(said.contains(&format!("REFUSED {row}: ")), "{said}");
    }
}
