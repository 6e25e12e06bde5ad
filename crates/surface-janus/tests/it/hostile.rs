//! No text and no module makes anything panic, hang or overflow.

use std::time::Duration;

use bursar::{Budget, NurseryOptions};
use proptest::prelude::*;
use surface_janus::generate::{self, Kind};
use surface_janus::{Host, Program, ir};

/// Words that are likely to get far.
fn soup() -> impl Strategy<Value = String> {
    let words = vec![
        "func",
        "main",
        "(",
        ")",
        "do",
        "end",
        "\n",
        ";",
        "let",
        "var",
        "x",
        "y",
        "=",
        "1",
        "0x",
        "-",
        "+",
        "*",
        "/",
        "%",
        "if",
        "else",
        "while",
        "for",
        "in",
        "..",
        "..<",
        "match",
        "=>",
        "_",
        "return",
        "break",
        "continue",
        "defer",
        "nursery",
        "{",
        "}",
        "spawn",
        "async",
        "await",
        "yield",
        "channel",
        ".",
        "send",
        "recv",
        "select",
        "case",
        "timeout",
        "default",
        "{.",
        ".}",
        "profile",
        ":",
        "core",
        "print",
        "\"",
        "\\",
        "//",
        "true",
        "and",
        "or",
        "not",
        ",",
        "->",
        "i64",
        "é",
        "\u{0}",
        "9223372036854775808",
    ];
    prop::collection::vec(prop::sample::select(words), 0..120).prop_map(|words| words.join(" "))
}

/// A piece of a text is cut out, doubled, or put elsewhere.
fn shuffled(text: &str, cuts: &[usize]) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let mut lines = if lines.is_empty() { vec![""] } else { lines };
    for cut in cuts {
        let at = cut / 3 % lines.len();
        match cut % 3 {
            0 if lines.len() > 1 => _ = lines.remove(at),
            1 => lines.insert(at, lines[cut / 7 % lines.len()]),
            _ => {
                let last = lines.len() - 1;
                lines.swap(at, last);
            }
        }
    }
    lines.join("\n")
}

/// In some lines the number of a register or of a block becomes another.
pub(crate) fn renumbered(text: &str, changes: &[(usize, usize)]) -> String {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    for (line, number) in changes {
        let line = line % lines.len();
        let text = &lines[line];
        let marks: Vec<usize> = text.match_indices(['%', 'b']).map(|(at, mark)| at + mark.len()).collect();
        let numbers: Vec<usize> =
            marks.into_iter().filter(|at| text[*at..].starts_with(|c: char| c.is_ascii_digit())).collect();
        let Some(&at) = numbers.get(number % numbers.len().max(1)) else { continue };
        let length = text[at..].find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len() - at);
        lines[line] = format!("{}{}{}", &text[..at], number / 8 % 24, &text[at + length..]);
    }
    lines.join("\n")
}

#[test]
fn what_the_verifier_lets_through_runs_without_a_panic() {
    let mut state = 1_u64;
    let mut random = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize
    };
    let (mut ran, mut refused) = (0, 0);
    for seed in 0..1_200 {
        let program = Program::compile(&generate::program(seed % 150, Kind::Concurrent)).unwrap();
        let changes: Vec<_> = (0..1 + seed % 2).map(|_| (random(), random())).collect();
        let Ok(module) = ir::parse("x", &renumbered(&program.ir().to_string(), &changes)) else { continue };
        if module == *program.ir() {
            continue;
        }
        let Ok(verified) = ir::verify(module) else {
            refused += 1;
            continue;
        };
        ran += 1;
        let budget = Budget::ops(5_000).spawns(200).channel_ops(500);
        let options = NurseryOptions::new().task_budget(budget).timeout(Duration::from_millis(300));
        let outcome = Program::from_ir(verified, "x").run_main(&[], &Host::new().output(|_| ()), options);
        if let Err(failure) = outcome.result {
            assert!(!failure.error.is_panic(), "program {seed}, {changes:?}: {}", failure.error);
        }
    }
    assert!(ran > 100 && refused > 100, "{ran} ran, {refused} were refused");
}

proptest! {
    // More with `PROPTEST_CASES=100000`.
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_give_a_program_or_problems(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let text = String::from_utf8_lossy(&bytes);
        _ = Program::compile(&text).map_err(|problems| problems.pretty(true));
        _ = ir::parse("x", &text).map(ir::verify);
    }

    #[test]
    fn any_words_give_a_program_or_problems(text in soup()) {
        _ = Program::compile(&text).map_err(|problems| problems.pretty(false));
        _ = Program::compile(&format!("func main() do\n{text}\nend\n"));
    }

    #[test]
    fn a_shuffled_program_compiles_or_has_problems(seed in 0_u64..500, cuts in prop::collection::vec(any::<usize>(), 1..6)) {
        let text = shuffled(&generate::program(seed, Kind::Concurrent), &cuts);
        if let Err(problems) = Program::compile(&text) {
            prop_assert!(!problems.to_string().contains("bug of the compiler"), "{}\n{}", problems, text);
        }
    }

    #[test]
    fn shuffled_ir_is_read_or_refused(seed in 0_u64..200, cuts in prop::collection::vec(any::<usize>(), 1..6)) {
        let program = Program::compile(&generate::program(seed, Kind::Concurrent)).unwrap();
        let text = shuffled(&program.ir().to_string(), &cuts);
        if let Ok(module) = ir::parse("x", &text) {
            prop_assert_eq!(ir::parse("x", &module.to_string()).unwrap(), module.clone());
            _ = ir::verify(module);
        }
    }
}
