//! Pictures in layers: boxes, arrows between them, and drawings for a terminal, for Graphviz and for a browser.
//!
//! Room: surface.
//!
//! Pure: no clock, no file, no thread.
//!
//! # Invariant
//! A picture is a function of its boxes and arrows, the same every time; text from the file is escaped; and anything can be drawn, also
//! cycles and arrows to boxes that do not exist. Boxes are in the order they were given.
//!
//! # Why it holds
//! An arrow that would point out of the list is left out. Layers come from an order that ignores arrows which may go back only where
//! they have to; what is left in a cycle stays in layer 0: wrong, but drawn.

mod dot;
mod svg;
mod text;

pub use text::shown;

use crate::cycle;

/// A box.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PictureNode {
    /// Its name.
    pub label: String,
    /// Demands and settings, short.
    pub detail: String,
    /// From 0, left to right.
    layer: usize,
    /// Boxes with an arrow to this one from an earlier layer, lowest first, each once.
    needs: Vec<usize>,
}

impl PictureNode {
    /// A box with a name and details below it.
    pub fn new(label: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { label: label.into(), detail: detail.into(), ..Self::default() }
    }
}

/// An arrow between two boxes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Arrow {
    /// Number of the box it leaves.
    pub from: usize,
    /// Number of the box it enters.
    pub to: usize,
    /// Its label.
    pub label: String,
    /// Drawn apart from the others: dashed and red.
    pub control: bool,
    /// It may go back: cycles are cut here.
    pub loose: bool,
}

/// Boxes and arrows, laid out in layers.
///
/// ```
/// use surface_text::picture::{Picture, PictureNode};
/// let picture = Picture::of_needs("film", vec![PictureNode::new("image", "vram 6 GB"), PictureNode::new("film", "")], vec![vec![], vec![0]]);
/// assert_eq!(picture.layers(), 2);
/// assert_eq!(picture.rows("needs"), "  image     vram 6 GB\n  └─ film\n");
/// assert!(picture.dot().contains("n0 -> n1;"));
/// assert!(picture.svg().starts_with("<svg "));
/// ```
#[derive(Clone, Debug)]
pub struct Picture {
    name: String,
    nodes: Vec<PictureNode>,
    arrows: Vec<Arrow>,
    layers: usize,
}

impl Picture {
    /// Plain arrows, from each box that is needed to its user.
    pub fn of_needs(name: &str, nodes: Vec<PictureNode>, needs: Vec<Vec<usize>>) -> Self {
        let mut arrows = Vec::new();
        for (to, mut list) in needs.into_iter().enumerate() {
            list.sort_unstable();
            list.dedup();
            arrows.extend(list.into_iter().map(|from| Arrow { from, to, ..Arrow::default() }));
        }
        Self::new(name, nodes, arrows)
    }

    /// Any arrows; several may join the same two boxes.
    pub fn new(name: &str, mut nodes: Vec<PictureNode>, mut arrows: Vec<Arrow>) -> Self {
        let count = nodes.len();
        arrows.retain(|arrow| arrow.from < count && arrow.to < count);
        let ends: Vec<cycle::Edge> =
            arrows.iter().map(|arrow| cycle::Edge { need: arrow.from, user: arrow.to, loose: arrow.loose }).collect();
        let order = cycle::order_of_edges(count, &ends);
        let mut position = vec![usize::MAX; count];
        for (nth, &node) in order.iter().enumerate() {
            position[node] = nth;
        }
        for arrow in &arrows {
            if position[arrow.from] < position[arrow.to] && position[arrow.to] != usize::MAX {
                nodes[arrow.to].needs.push(arrow.from);
            }
        }
        let mut layers = usize::from(count > 0);
        for picture_node in &mut nodes {
            picture_node.needs.sort_unstable();
            picture_node.needs.dedup();
        }
        for node in order {
            nodes[node].layer = nodes[node].needs.iter().map(|&need| nodes[need].layer + 1).max().unwrap_or(0);
            layers = layers.max(nodes[node].layer + 1);
        }
        Self { name: name.to_owned(), nodes, arrows, layers }
    }

    /// How many boxes there are.
    #[allow(clippy::len_without_is_empty)] // how many is what is asked
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// How many layers there are.
    pub fn layers(&self) -> usize {
        self.layers
    }

    /// For a terminal: a line for each box, below one it depends on. `needs` is the word before others it depends on.
    pub fn rows(&self, needs: &str) -> String {
        text::draw(self, needs)
    }

    /// For Graphviz.
    pub fn dot(&self) -> String {
        dot::draw(self)
    }

    /// For a browser: one file without scripts, left to right, in the colours of the page that shows it.
    pub fn svg(&self) -> String {
        svg::draw(self)
    }

    /// Whether an arrow is drawn against the direction of reading.
    fn goes_back(&self, arrow: &Arrow) -> bool {
        self.nodes[arrow.to].layer <= self.nodes[arrow.from].layer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrow(from: usize, to: usize, loose: bool) -> Arrow {
        Arrow { from, to, loose, ..Arrow::default() }
    }

    #[test]
    fn a_loose_arrow_goes_back_only_where_it_has_to() {
        let nodes = |count: usize| (0..count).map(|n| PictureNode::new(format!("n{n}"), "")).collect::<Vec<_>>();
        let forward = Picture::new("x", nodes(2), vec![arrow(0, 1, true)]);
        assert_eq!((forward.layers(), forward.goes_back(&forward.arrows[0])), (2, false));
        let cycle = Picture::new("x", nodes(3), vec![arrow(0, 1, false), arrow(1, 2, true), arrow(2, 0, true)]);
        assert_eq!(cycle.layers(), 3);
        assert!(cycle.goes_back(&cycle.arrows[2]) && !cycle.goes_back(&cycle.arrows[1]));
    }

    #[test]
    fn cycles_and_arrows_to_nowhere_are_drawn() {
        let nodes = vec![PictureNode::new("a", ""), PictureNode::new("b", "")];
        let arrows = vec![arrow(0, 1, false), arrow(1, 0, false), arrow(1, 1, false), arrow(0, 7, false)];
        let picture = Picture::new("x", nodes, arrows);
        assert_eq!(picture.layers(), 1);
        assert_eq!(picture.rows("needs").lines().count(), 2);
        assert_eq!(picture.dot().matches("->").count(), 3);
        assert_eq!(picture.svg().matches("<path").count(), 3 + 1, "three arrows, and the head of one");
    }
}
