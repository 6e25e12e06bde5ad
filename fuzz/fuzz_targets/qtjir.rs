//! Any text is refused, or is a module that runs without a panic, and ends. What was not verified cannot run: `Program::from_ir` takes nothing else.
//!
//! An input that begins with `!` is a list of changes to the module of a generated program: so most are almost right, which is what a verifier has to tell from right.
#![no_main]

mod run;

use std::borrow::Cow;

use bursar::janus::{Program, ir};
use libfuzzer_sys::fuzz_target;
use surface_janus::generate::{self, Kind};

fuzz_target!(|bytes: &[u8]| {
    let text = match bytes.split_first_chunk() {
        Some(([b'!', low, high], changes)) => Cow::Owned(changed(u16::from_le_bytes([*low, *high]), changes)),
        _ => String::from_utf8_lossy(bytes),
    };
    match ir::parse("fuzz.qtjir", &text) {
        Ok(module) => {
            let printed = module.to_string();
            let again = ir::parse("fuzz.qtjir", &printed).unwrap_or_else(|problems| panic!("{problems}\n{printed}"));
            assert_eq!(again, module, "what is printed is what is read");
            match ir::verify(module) {
                Ok(verified) => run::run(&Program::from_ir(verified, "fuzz.qtjir")),
                Err(refused) => assert!(!refused.to_string().is_empty()),
            }
        }
        Err(problems) => {
            assert!(problems.len() > 0 && !problems.to_string().is_empty());
            problems.pretty(false);
        }
    }
});

/// The module of a generated program, with its lines changed: four bytes for each change.
fn changed(seed: u16, changes: &[u8]) -> String {
    let kind = if seed % 4 == 0 { Kind::Sequential } else { Kind::Concurrent };
    let program = Program::compile(&generate::program(seed.into(), kind)).expect("what is generated compiles");
    let mut lines: Vec<String> = program.ir().to_string().lines().map(str::to_owned).collect();
    for change in changes.chunks_exact(4).take(16) {
        let [low, high, which, to] = [change[0], change[1], change[2], change[3]];
        let at = usize::from(u16::from_le_bytes([low, high])) % lines.len();
        match which % 8 {
            0 if lines.len() > 1 => _ = lines.remove(at),
            1 => lines.insert((at + usize::from(to)) % lines.len(), lines[at].clone()),
            2 => {
                let other = (at + usize::from(to)) % lines.len();
                lines.swap(at, other);
            }
            _ => lines[at] = renumbered(&lines[at], usize::from(which / 8), to),
        }
    }
    lines.join("\n")
}

/// The line with another number of a register, block or constant.
fn renumbered(line: &str, which: usize, to: u8) -> String {
    let is_start = |at: &usize| line[*at..].starts_with(|c: char| c.is_ascii_digit()) && !line[..*at].ends_with(|c: char| c.is_ascii_digit());
    let starts: Vec<usize> = line.char_indices().map(|(at, _)| at).filter(is_start).collect();
    let Some(&at) = starts.get(which % starts.len().max(1)) else { return line.to_owned() };
    let length = line[at..].find(|c: char| !c.is_ascii_digit()).unwrap_or(line.len() - at);
    format!("{}{}{}", &line[..at], to % 32, &line[at + length..])
}
