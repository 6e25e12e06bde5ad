//! Any bytes give a plan or problems, and any plan a report or a refusal.

use surface_simfile::{Options, parse_bytes, simulate};
use test_support::{Dice, for_seeds};

const FILES: [&str; 2] =
    [include_str!("../../../../examples/sim-hog.toml"), include_str!("../../../../examples/sim-audio.toml")];

/// A file in which some bytes, words or lines are others.
fn spoiled(dice: &Dice) -> Vec<u8> {
    let mut lines: Vec<String> = dice.one_of(&FILES).lines().map(str::to_owned).collect();
    for _ in 0..1 + dice.below(4) {
        let at = dice.below(lines.len() as u64) as usize;
        let other = dice.below(lines.len() as u64) as usize;
        match dice.below(5) {
            0 => lines.swap(at, other),
            1 => {
                lines.remove(at);
            }
            2 => lines[at] = lines[other].clone(),
            3 => lines[at] = lines[at].replace(['1', '2', '3', '5'], dice.one_of(&["0", "9", "99999", "-1", "\u{1b}"])),
            _ => {
                let end = lines[at].char_indices().nth(dice.below(20) as usize).map_or(0, |(end, _)| end);
                lines[at].truncate(end);
            }
        }
        if lines.is_empty() {
            lines.push(String::new());
        }
    }
    lines.join("\n").into_bytes()
}

#[test]
fn a_spoiled_file_gives_problems_or_runs() {
    let ran = std::cell::Cell::new(0);
    for_seeds("a_spoiled_file_gives_problems_or_runs", 0..600, |seed| {
        let bytes = spoiled(&Dice::new(seed));
        let Ok(plan) = parse_bytes("x.toml", &bytes) else { return };
        let options = Options { time: 3_000_000, ..Options::of(&plan) };
        match simulate(&plan, &options) {
            Err(surface_simfile::Failed::Broken(broken)) => {
                panic!("{broken}\n{}", String::from_utf8_lossy(&bytes));
            }
            _ => ran.set(ran.get() + 1),
        }
    });
    assert!(ran.get() > 50 || std::env::var_os("SEED").is_some(), "only {} ran", ran.get());
}

#[test]
fn bytes_that_are_no_text_are_problems() {
    for bytes in [&b"\xff\xfe"[..], b"[thread", b"[[[[[[[[[[[[[[[[[[[[[[[[", b"a.b.c.d = 1", b"\0"] {
        assert!(parse_bytes("x.toml", bytes).is_err());
    }
    assert!(parse_bytes("x.toml", &vec![b'#'; 2 << 20]).unwrap_err().to_string().contains("the limit"));
}
