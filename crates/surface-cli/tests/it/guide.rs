//! The guides in `docs/`: each file in them is written, and each command is typed, in order, in one folder a guide. A block `toml,NAME` is a file; one of
//! `sh,fails` ends with exit code 1.

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

/// Does what the guide says. How many commands were typed.
fn follow(name: &str) -> usize {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name);
    let guide = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let site = Site::new("");
    let mut typed = 0;
    for (words, inside) in blocks(&guide) {
        if let ["toml", file] = words[..] {
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
    assert_eq!(follow("jobs.md"), 7);
}

#[test]
fn the_guide_of_flow_can_be_followed() {
    assert_eq!(follow("flow.md"), 3);
}
