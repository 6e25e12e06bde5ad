//! "Did you mean …?"
//!
//! Room: surface, pure.
//!
//! # Invariant
//! A suggestion is one of the candidates, and close enough that a typing error explains the difference.

/// Longer words are not compared: the cost is a product of lengths.
const WORD_CHARS: usize = 64;

/// The candidate nearest to `word`, if a typing error could lie between them.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let ends = |word: &str| [word.chars().next(), word.chars().next_back()].map(|c| c.map(|c| c.to_ascii_lowercase()));
    let [first, last] = ends(word);
    let word = letters(word)?;
    let close = match word.len() {
        0 => return None,
        1..=2 => 0,
        3..=5 => 1,
        _ => 2,
    };
    let mut best = None;
    for candidate in candidates {
        // Of a hundred thousand candidates most are told apart by this. Few typing errors hit both ends.
        let [start, end] = ends(candidate);
        if start != first && end != last {
            continue;
        }
        let Some(other) = letters(candidate) else { continue };
        if word.len().abs_diff(other.len()) > close {
            continue;
        }
        let distance = distance(&word, &other);
        if distance <= close && best.is_none_or(|(least, _)| distance < least) {
            best = Some((distance, candidate));
        }
    }
    best.map(|(_, candidate)| candidate)
}

fn letters(word: &str) -> Option<Vec<char>> {
    (word.len() <= WORD_CHARS).then(|| word.chars().flat_map(char::to_lowercase).collect())
}

/// Letters to add, drop, change, or swap with their neighbour.
fn distance(a: &[char], b: &[char]) -> usize {
    let mut before: Vec<usize> = vec![0; b.len() + 1];
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let change = usize::from(a[i - 1] != b[j - 1]);
            row[j] = (last[j] + 1).min(row[j - 1] + 1).min(last[j - 1] + change);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                row[j] = row[j].min(before[j - 2] + 1);
            }
        }
        before = last;
        last = row;
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typing_error_is_found_and_another_word_is_not() {
        let fields = ["retries", "timeout", "cpu", "os"];
        assert_eq!(nearest("retires", fields), Some("retries"));
        assert_eq!(nearest("Timeout", fields), Some("timeout"));
        assert_eq!(nearest("cpus", fields), Some("cpu"));
        assert_eq!(nearest("print", fields), None);
        assert_eq!(nearest("o", fields), None);
        assert_eq!(nearest("", fields), None);
    }

    #[test]
    fn two_swapped_letters_are_one_error() {
        assert_eq!(distance(&['a', 'b', 'c'], &['a', 'c', 'b']), 1);
        assert_eq!(distance(&[], &['a']), 1);
    }
}
