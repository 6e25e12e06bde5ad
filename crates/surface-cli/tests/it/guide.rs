//! The guides in `docs/`: each file in them is written, and each command is typed, in order, in one folder a guide. A block `toml,NAME` or `janus,NAME` is a file; one of
//! `sh,fails` ends with exit code 1.
//!
//! The first page, `README.md`: its files are checked, since they call programs that are not there; so are the files that its commands run. The examples in
//! Rust, of all pages, are tests of the documentation of the crate `bursar`.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::run_site::Site;

/// A fenced block: the words behind the fence, and what is inside.
fn blocks(guide: &str) -> Vec<(Vec<&str>, String)> {
    let (mut found, mut open): (Vec<(Vec<&str>, String)>, _) = (Vec::new(), false);
    for line in guide.lines() {
        match line.strip_prefix("```") {
            Some(_) if open => open = false,
            Some(words) => {
                found.push((words.split(',').collect(), String::new()));
                open = true;
            }
            None if open => {
                let (_, inside) = found.last_mut().expect("it was opened");
                inside.push_str(line);
                inside.push('\n');
            }
            None => {}
        }
    }
    assert!(!open, "a block is not closed");
    found
}

/// A page of the repository.
fn page(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Does what the guide says. How many commands were typed.
fn follow(name: &str) -> usize {
    let guide = page(&format!("docs/{name}"));
    let site = Site::new("");
    let mut typed = 0;
    for (words, inside) in blocks(&guide) {
        if let ["toml" | "janus", file] = words[..] {
            fs::write(site.path(file), &inside).unwrap();
        }
        if words[0] == "sh" {
            let wanted = i32::from(words.contains(&"fails"));
            let mut shell = site.within(Command::new("bash"));
            let output = shell.args(["-e", "-u", "-o", "pipefail", "-c", &inside]).output().unwrap();
            let [printed, complained] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
            assert_eq!(output.status.code(), Some(wanted), "{name}:\n{inside}\n{printed}\n{complained}");
            typed += 1;
        }
    }
    typed
}

#[test]
fn the_guide_of_jobs_can_be_followed() {
    assert_eq!(follow("jobs.md"), 8);
}

#[test]
fn the_guide_of_flow_can_be_followed() {
    assert_eq!(follow("flow.md"), 4);
}

#[test]
fn the_guide_of_janus_can_be_followed() {
    assert_eq!(follow("janus.md"), 4);
}

#[test]
fn the_guide_of_the_cpu_policy_can_be_followed() {
    assert_eq!(follow("policy.md"), 2);
}

#[test]
fn the_files_of_the_first_page_are_right() {
    let site = Site::new("");
    let mut checked = Vec::new();
    for (words, inside) in blocks(&page("README.md")) {
        if words == ["toml"] {
            let name = inside.lines().next().and_then(|line| line.strip_prefix("# ")).expect("it begins with its name");
            fs::write(site.path(name), &inside).unwrap();
            let output = site.bursar(&if inside.contains("[node.") {
                format!("flow check {name}")
            } else {
                format!("check {name}")
            });
            let complained = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(0), "{name}:\n{inside}\n{complained}");
            checked.push(name.to_owned());
        }
    }
    assert_eq!(checked, ["render.toml", "hot.toml", "fleet.toml"]);
}

#[test]
fn the_commands_of_the_first_page_name_files_that_are_right() {
    let site = Site::new("");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut checked = Vec::new();
    for (words, inside) in blocks(&page("README.md")) {
        let lines = inside.lines().filter(|_| words[0] == "sh");
        for command in lines.filter_map(|line| line.split(" #").next()?.strip_prefix("cargo run --release -- ")) {
            let check: Vec<&str> =
                command.split_whitespace().map(|word| if word == "run" { "check" } else { word }).collect();
            let output = site.command(&check).current_dir(&root).output().unwrap();
            let complained = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(0), "{command}: {complained}");
            checked.push(command.trim().to_owned());
        }
    }
    assert_eq!(checked, ["run examples/quickstart.toml", "flow run examples/sensors.toml"]);
}

#[test]
fn every_block_of_every_page_is_tested_somehow() {
    // `rust` by rustdoc, `toml` and `sh` here; `text` shows what is printed. Programs of Janus, and their grammar, by the crate `surface-janus`.
    let with_files = ["README.md", "docs/jobs.md", "docs/flow.md", "docs/janus.md", "docs/policy.md"];
    for name in with_files.into_iter().chain([
        "docs/tasks.md",
        "docs/tenants.md",
        "docs/determinism.md",
        "docs/cpu.md",
        "docs/kernel.md",
    ]) {
        for (words, inside) in blocks(&page(name)) {
            let is_known = match words[0] {
                "rust" | "text" => true,
                "sh" | "toml" => with_files.contains(&name),
                "ebnf" | "janus" => name == "docs/janus.md",
                _ => false,
            };
            assert!(is_known, "{name} has a block of `{}` that no test reads:\n{inside}", words.join(","));
        }
    }
}
