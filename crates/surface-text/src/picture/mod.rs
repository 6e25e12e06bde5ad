//! Pictures in layers: boxes, arrows between them, and drawings for a terminal, for Graphviz and for a browser.
//!
//! Room: surface, pure.
//!
//! # Invariant
//! A picture is a function of its boxes and arrows, the same every time; what people wrote is escaped; and anything can be drawn, also
//! arrows in circles and arrows to boxes that are not there. Boxes are in the order they were given.
//!
//! # Why it holds
//! An arrow that would point out of the list is left out. Layers come from an order that ignores arrows which may go back only where
//! they have to; what is left in a circle stays in layer 0: wrong, but drawn.

mod dot;
mod svg;
mod text;

pub use text::shown;

use crate::cycle;

/// A box.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Card {
    /// Its name.
    pub label: String,
    /// Demands and settings, short.
    pub detail: String,
    /// From 0, left to right.
    layer: usize,
    /// Boxes with an arrow to this one from an earlier layer, lowest first, each once.
    needs: Vec<usize>,
}

impl Card {
    /// A box with a name and what is said below it.
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
    /// What is said at it.
    pub label: String,
    /// Drawn apart from the others: dashed and red.
    pub control: bool,
    /// It may go back: circles are cut here.
    pub loose: bool,
}

/// Boxes and arrows, laid out in layers.
///
/// ```
/// use surface_text::picture::{Card, Picture};
/// let picture = Picture::of_needs("film", vec![Card::new("image", "vram 6 GB"), Card::new("film", "")], vec![vec![], vec![0]]);
/// assert_eq!(picture.layers(), 2);
/// assert_eq!(picture.rows("needs"), "  image     vram 6 GB\n  └─ film\n");
/// assert!(picture.dot().contains("n0 -> n1;"));
/// assert!(picture.svg().starts_with("<svg "));
/// ```
#[derive(Clone, Debug)]
pub struct Picture {
    name: String,
    cards: Vec<Card>,
    arrows: Vec<Arrow>,
    layers: usize,
}

impl Picture {
    /// Plain arrows, from each box that is needed to its user.
    pub fn of_needs(name: &str, cards: Vec<Card>, needs: Vec<Vec<usize>>) -> Self {
        let mut arrows = Vec::new();
        for (to, mut list) in needs.into_iter().enumerate() {
            list.sort_unstable();
            list.dedup();
            arrows.extend(list.into_iter().map(|from| Arrow { from, to, ..Arrow::default() }));
        }
        Self::new(name, cards, arrows)
    }

    /// Any arrows; several may join the same two boxes.
    pub fn new(name: &str, mut cards: Vec<Card>, mut arrows: Vec<Arrow>) -> Self {
        let count = cards.len();
        arrows.retain(|arrow| arrow.from < count && arrow.to < count);
        let ends: Vec<cycle::Tie> =
            arrows.iter().map(|arrow| cycle::Tie { need: arrow.from, user: arrow.to, loose: arrow.loose }).collect();
        let order = cycle::order_of_ties(count, &ends);
        let mut place = vec![usize::MAX; count];
        for (nth, &node) in order.iter().enumerate() {
            place[node] = nth;
        }
        for arrow in &arrows {
            if place[arrow.from] < place[arrow.to] && place[arrow.to] != usize::MAX {
                cards[arrow.to].needs.push(arrow.from);
            }
        }
        let mut layers = usize::from(count > 0);
        for card in &mut cards {
            card.needs.sort_unstable();
            card.needs.dedup();
        }
        for node in order {
            cards[node].layer = cards[node].needs.iter().map(|&need| cards[need].layer + 1).max().unwrap_or(0);
            layers = layers.max(cards[node].layer + 1);
        }
        Self { name: name.to_owned(), cards, arrows, layers }
    }

    /// How many boxes there are.
    #[allow(clippy::len_without_is_empty)] // how many is what is asked
    pub fn len(&self) -> usize {
        self.cards.len()
    }

    /// How many boxes stand one behind the other.
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
        self.cards[arrow.to].layer <= self.cards[arrow.from].layer
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
        let cards = |count: usize| (0..count).map(|n| Card::new(format!("n{n}"), "")).collect::<Vec<_>>();
        let forward = Picture::new("x", cards(2), vec![arrow(0, 1, true)]);
        assert_eq!((forward.layers(), forward.goes_back(&forward.arrows[0])), (2, false));
        let circle = Picture::new("x", cards(3), vec![arrow(0, 1, false), arrow(1, 2, true), arrow(2, 0, true)]);
        assert_eq!(circle.layers(), 3);
        assert!(circle.goes_back(&circle.arrows[2]) && !circle.goes_back(&circle.arrows[1]));
    }

    #[test]
    fn circles_and_arrows_to_nowhere_are_drawn() {
        let cards = vec![Card::new("a", ""), Card::new("b", "")];
        let arrows = vec![arrow(0, 1, false), arrow(1, 0, false), arrow(1, 1, false), arrow(0, 7, false)];
        let picture = Picture::new("x", cards, arrows);
        assert_eq!(picture.layers(), 1);
        assert_eq!(picture.rows("needs").lines().count(), 2);
        assert_eq!(picture.dot().matches("->").count(), 3);
        assert_eq!(picture.svg().matches("<path").count(), 3 + 1, "three arrows, and the head of one");
    }
}
