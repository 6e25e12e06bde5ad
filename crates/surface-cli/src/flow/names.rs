//! Nodes and edges by the names that people type.
//!
//! Room: decisions.
//!
//! An edge is called `imu:out->filter:in`, which a shell takes for a redirection. So it may be written in other ways: with a comma
//! (`imu:out,filter:in`), without ports (`imu,filter`), or as any part that only one edge has.

use surface_text::nearest;

use crate::view::text::listed;

/// Names that an error lists.
const LISTED: usize = 8;

/// The kind of name to find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NameKind {
    Node,
    Edge,
}

impl NameKind {
    fn name(self) -> &'static str {
        match self {
            NameKind::Node => "node",
            NameKind::Edge => "edge",
        }
    }
}

/// Why a word does not name one node or edge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NameError {
    /// Nothing has this name.
    Unknown(String),
    /// Several match.
    Several(String),
}

/// The one that `word` names.
///
/// # Errors
/// If no name matches, or several do; the message says what to type instead.
pub(crate) fn find<'a>(kind: NameKind, word: &str, all: &[&'a str]) -> Result<&'a str, NameError> {
    if let Some(exact) = all.iter().find(|name| **name == word) {
        return Ok(exact);
    }
    // Half an edge is not a name, even if only one edge matches: the user must learn where the rest went.
    if kind == NameKind::Edge && word.ends_with('-') {
        return Err(NameError::Unknown(unknown(kind, word, all)));
    }
    let ends = (kind == NameKind::Edge).then(|| word.split_once("->").or_else(|| word.split_once(','))).flatten();
    let joined: Vec<&str> = match ends {
        Some((from, to)) => all.iter().filter(|name| joins(name, from.trim(), to.trim())).copied().collect(),
        None => Vec::new(),
    };
    let found = if joined.is_empty() && !word.is_empty() {
        all.iter().filter(|name| name.contains(word)).copied().collect()
    } else {
        joined
    };
    match found.as_slice() {
        [one] => Ok(one),
        [] => Err(NameError::Unknown(unknown(kind, word, all))),
        several => {
            let message = format!(
                "{} {}s match `{word}`: {}; name one",
                several.len(),
                kind.name(),
                listed(several, LISTED, |name| *name)
            );
            Err(NameError::Several(format!("{message}{}", quoting(kind, several[0]))))
        }
    }
}

/// Whether an edge joins two ports; a node stands for any of its ports.
fn joins(edge: &str, from: &str, to: &str) -> bool {
    let is_end = |end: &str, wanted: &str| {
        end.strip_prefix(wanted).is_some_and(|rest| rest.is_empty() || (rest.starts_with(':') && !wanted.is_empty()))
    };
    edge.split_once("->").is_some_and(|(source, target)| is_end(source, from) && is_end(target, to))
}

fn unknown(kind: NameKind, word: &str, all: &[&str]) -> String {
    let name = kind.name();
    if kind == NameKind::Edge && word.ends_with('-') {
        let example = all.iter().find(|edge| edge.starts_with(word)).or(all.first()).copied().unwrap_or("a:out->b:in");
        let took = "your shell has taken its `>` for a redirection";
        return format!("there is no edge `{word}`; {took}{}", quoting(kind, example));
    }
    match nearest(word, all.iter().copied()) {
        Some(near) => format!("there is no {name} `{word}`; did you mean `{near}`?"),
        None if all.is_empty() => format!("there is no {name} `{word}`; this flow has none"),
        None => format!("there is no {name} `{word}`; there are {}", listed(all, LISTED, |name| *name)),
    }
}

/// How to type an edge so that the shell leaves it alone.
fn quoting(kind: NameKind, example: &str) -> String {
    match kind {
        NameKind::Node => String::new(),
        NameKind::Edge => format!(" (in quotes, '{example}', or with a comma, {})", example.replace("->", ",")),
    }
}

#[cfg(test)]
mod tests {
    use super::{NameError, NameKind, find};

    const EDGES: [&str; 4] = ["imu:out->fir:in", "fir:out->log:in", "fir:out->alarm:in", "box/imu:out->log:in"];

    fn edge(word: &str) -> Result<&'static str, NameError> {
        find(NameKind::Edge, word, &EDGES)
    }

    #[test]
    fn an_edge_is_found_by_its_id_with_a_comma_without_ports_or_by_a_part() {
        for word in ["imu:out->fir:in", "imu:out,fir:in", "imu,fir", "imu->fir:in", "out->fir", "fir:in"] {
            assert_eq!(edge(word), Ok("imu:out->fir:in"), "{word}");
        }
        assert_eq!(edge("alarm"), Ok("fir:out->alarm:in"));
        assert_eq!(edge("box"), Ok("box/imu:out->log:in"));
    }

    #[test]
    fn a_part_of_several_edges_is_no_name_and_the_error_says_how_to_quote() {
        let Err(NameError::Several(message)) = edge("fir:out") else { panic!("{:?}", edge("fir:out")) };
        assert_eq!(
            message,
            "2 edges match `fir:out`: fir:out->log:in, fir:out->alarm:in; name one (in quotes, 'fir:out->log:in', \
             or with a comma, fir:out,log:in)"
        );
        assert!(matches!(edge(""), Err(NameError::Unknown(_))));
    }

    #[test]
    fn a_shell_that_took_the_arrow_is_noticed() {
        let Err(NameError::Unknown(message)) = edge("imu:out-") else { panic!("{:?}", edge("imu:out-")) };
        assert!(message.contains("taken its `>`") && message.contains("'imu:out->fir:in'"), "{message}");
    }

    #[test]
    fn a_name_that_is_nearly_right_is_offered() {
        let nodes = ["imu", "battery"];
        assert_eq!(find(NameKind::Node, "bat", &nodes), Ok("battery"));
        let near = NameError::Unknown("there is no node `batery`; did you mean `battery`?".into());
        assert_eq!(find(NameKind::Node, "batery", &nodes), Err(near));
        let far = NameError::Unknown("there is no node `xyz123`; there are imu, battery".into());
        assert_eq!(find(NameKind::Node, "xyz123", &nodes), Err(far));
    }
}
