//! The reference of files: printed, and kept in `docs/` as it is printed.

use std::path::Path;

use crate::{run, text};

#[test]
fn the_pages_and_schemas_in_docs_are_what_the_tables_give() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    for (kind, how, file) in [
        ("jobfile", "--markdown", "jobfile.md"),
        ("jobfile", "--json", "jobfile.schema.json"),
        ("flowfile", "--markdown", "flowfile.md"),
        ("flowfile", "--json", "flowfile.schema.json"),
        ("policyfile", "--markdown", "policyfile.md"),
        ("policyfile", "--json", "policyfile.schema.json"),
        ("simfile", "--markdown", "simfile.md"),
        ("simfile", "--json", "simfile.schema.json"),
        ("events", "--markdown", "events.md"),
    ] {
        let printed = run(&["help", kind, how]);
        assert!(printed.status.success(), "{}", text(&printed.stderr));
        let kept = std::fs::read_to_string(docs.join(file)).unwrap_or_default();
        assert!(
            kept == text(&printed.stdout),
            "docs/{file} is old; write it with `bursar help {kind} {how} > docs/{file}`"
        );
    }
}

#[test]
fn help_of_a_file_names_every_key_with_its_limits_and_an_example() {
    let told = text(&run(&["help", "jobfile"]).stdout);
    for key in ["on_crash", "over_ram", "cpus", "class", "cwd", "shell", "gpus"] {
        assert!(told.contains(&format!("\n  {key}")), "{key}\n{told}");
    }
    assert!(told.contains("a whole number from -20 to 19; default: that of its class\n"), "{told}");
    assert!(told.contains("nice = 5\n"));
    assert!(text(&run(&["help", "flowfile"]).stdout).contains("\nkind = \"window\": "));
}

#[test]
fn help_of_a_command_is_that_of_the_command_and_of_no_command_names_the_way_out() {
    assert!(text(&run(&["help", "flow", "set"]).stdout).contains("bursar flow set imu,log capacity=512"));
    assert!(text(&run(&["help"]).stdout).contains("Commands:"));
    let unknown = run(&["help", "jobs"]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(
        text(&unknown.stderr).contains("there is no command `jobs`; `bursar help` lists all commands"),
        "{}",
        text(&unknown.stderr)
    );
    let schema = run(&["help", "run", "--json"]);
    assert_eq!(schema.status.code(), Some(2));
}
