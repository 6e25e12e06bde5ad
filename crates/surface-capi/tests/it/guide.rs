//! The programs of the guide print what the guide says.
//!
//! Room: tests.

use std::{fs, path::Path, process::Command};

use crate::cc::{Way, compile, text};

const GUIDE: &str = include_str!("../../../../docs/c.md");

/// The programs of the guide: the line where each begins, its source, and what it prints.
fn programs() -> Vec<(usize, String, String)> {
    let mut programs = Vec::new();
    let mut lines = GUIDE.lines().zip(1..);
    while let Some((line, number)) = lines.next() {
        let mut block = |end: &str| {
            let taken = lines.by_ref().map(|(line, _)| line).take_while(|line| *line != end);
            taken.map(|line| format!("{line}\n")).collect::<String>()
        };
        if line == "```c" {
            let source = block("```");
            assert_eq!(block("```text"), "", "the program at line {number} of docs/c.md shows what it prints");
            programs.push((number, source, block("```")));
        }
    }
    programs
}

#[test]
fn every_program_of_the_guide_prints_what_stands_below_it() {
    let programs = programs();
    assert!(programs.len() >= 6, "only {} programs were found", programs.len());
    for (line, source, output) in programs {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let (file, program) = (folder.join(format!("guide_{line}.c")), folder.join(format!("guide_{line}")));
        fs::write(&file, source).expect("a file can be written");
        let compiled = compile(&file, Way::Archive, &program);
        assert!(compiled.status.success(), "the program at line {line} of docs/c.md:\n{}", text(&compiled.stderr));
        let ran = Command::new(&program).output().expect("it was just compiled");
        assert_eq!(text(&ran.stdout), output, "the program at line {line} of docs/c.md; {}", text(&ran.stderr));
    }
}
