//! The programs of the guide do what it says.

use bursar::NurseryOptions;
use surface_janus::{Host, Program};

use crate::common::run_in;

const GUIDE: &str = include_str!("../../../../docs/janus.md");

/// The text of each block of this kind, with the number of its line.
fn blocks(kind: &str) -> Vec<(usize, String)> {
    let (mut found, mut open): (Vec<(usize, String)>, bool) = (Vec::new(), false);
    for (number, line) in GUIDE.lines().enumerate() {
        if line == format!("```{kind}") {
            found.push((number + 1, String::new()));
            open = true;
        } else if line == "```" {
            open = false;
        } else if let Some((_, text)) = found.last_mut().filter(|_| open) {
            text.push_str(line);
            text.push('\n');
        }
    }
    found
}

/// What a program prints, and why it fails or does not compile.
fn shown(source: &str) -> String {
    let program = match Program::compile(source) {
        Ok(program) => program,
        Err(problems) => return format!("{problems}\n"),
    };
    let done = run_in(&program, Host::new(), NurseryOptions::new());
    let mut text: String = done.lines.iter().map(|line| format!("{line}\n")).collect();
    if let Err(failure) = done.result {
        text.push_str(&format!("error: {failure}\n"));
    }
    text
}

#[test]
fn every_program_of_the_guide_prints_what_stands_below_it() {
    let (programs, outputs) = (blocks("janus"), blocks("text"));
    assert!(programs.len() >= 10, "the guide has {} programs", programs.len());
    assert_eq!(programs.len(), outputs.len());
    for ((line, source), (_, output)) in programs.iter().zip(&outputs) {
        assert_eq!(&shown(source), output, "the program at line {line} of docs/janus.md");
    }
}

#[test]
fn the_guide_lists_every_word_of_the_language() {
    let words = GUIDE.lines().find_map(|line| line.strip_prefix("Words of the language: `")).unwrap();
    for word in words.trim_end_matches("`.").split(' ') {
        let problems = Program::compile(&format!("func {word}() do end")).expect_err(word).to_string();
        assert!(problems.contains("is a word of the language"), "{problems}");
    }
    assert_eq!(words.split(' ').count(), 29);
}
