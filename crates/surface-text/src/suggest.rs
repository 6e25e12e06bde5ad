//! "Did you mean …?"
//!
//! Room: decisions.
//!
//! # Invariant
//! A suggestion is one of the candidates, and close enough that a typing error explains the difference.

/// Longer words are not compared: the cost is a product of lengths.
const WORD_CHARS: usize = 64;

/// The candidate nearest to `word`, if a typing error could lie between them.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let ends = |word: &str| [word.chars().next(), word.chars().next_back()].map(|c| c.map(|c| c.to_ascii_lowercase()));
    let [first, last] = ends(word);
    let (word, length) = lower(word)?;
    let close = match length {
        0 => return None,
        1..=2 => 0,
        3..=5 => 1,
        _ => 2,
    };
    let mut best = None;
    for candidate in candidates {
        // This filters out most of a hundred thousand candidates. Few typing errors hit both ends.
        let [start, end] = ends(candidate);
        if start != first && end != last {
            continue;
        }
        let Some((other, other_length)) = lower(candidate) else { continue };
        if length.abs_diff(other_length) > close {
            continue;
        }
        // Letters to add, drop, change, or swap with their neighbour.
        let distance = strsim::osa_distance(&word, &other);
        if distance <= close && best.is_none_or(|(least, _)| distance < least) {
            best = Some((distance, candidate));
        }
    }
    best.map(|(_, candidate)| candidate)
}

/// "did you mean `…`?", about the candidate [`nearest`] to `word`.
pub fn did_you_mean<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<String> {
    nearest(word, candidates).map(|near| format!("did you mean `{near}`?"))
}

/// The word in lower case, and how many letters it has.
fn lower(word: &str) -> Option<(String, usize)> {
    (word.len() <= WORD_CHARS).then(|| {
        let word: String = word.chars().flat_map(char::to_lowercase).collect();
        let length = word.chars().count();
        (word, length)
    })
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
        assert_eq!(did_you_mean("retires", fields).as_deref(), Some("did you mean `retries`?"));
        assert_eq!(did_you_mean("print", fields), None);
    }

    #[test]
    fn two_swapped_letters_are_one_error() {
        // Of three letters one may be wrong.
        assert_eq!(nearest("cup", ["cpu"]), Some("cpu"));
        assert_eq!(nearest("cu", ["cpu"]), None);
    }
}
