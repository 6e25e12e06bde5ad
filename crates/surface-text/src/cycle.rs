//! Orders of a graph, and circles in it.
//!
//! Room: surface, pure. A graph is a list of needs by index.
//!
//! # Invariant
//! Nothing recurses: a chain of any length takes heap, not stack. A circle that is named is one: each needs the next.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// An order with needs first, lowest index first among those that could be next. Nodes in or behind a circle, or with
/// a need that is no node, are missing.
pub fn order(needs: &[&[usize]]) -> Vec<usize> {
    let count = needs.len();
    let edges = needs.iter().enumerate().flat_map(|(user, needs)| {
        // A need that is no node is never met; neither is a need of oneself.
        needs.iter().map(move |&need| Edge { need: if need < count { need } else { user }, user, loose: false })
    });
    order_of_edges(count, &edges.collect::<Vec<_>>())
}

/// One node needs another.
#[derive(Clone, Copy, Debug)]
pub struct Edge {
    /// Who has to come first.
    pub need: usize,
    /// Who comes later.
    pub user: usize,
    /// It may be broken where a circle would be closed.
    pub loose: bool,
}

/// An order with needs first, as [`order`]; where all that are left wait for each other, loose ties of the lowest that waits for
/// nothing else are broken. Nodes in or behind a circle without a loose tie are missing.
pub fn order_of_edges(count: usize, edges: &[Edge]) -> Vec<usize> {
    order_by(count, edges, |node, _| Reverse(node))
}

/// As [`order_of_ties`], but of those that could be next the one with the greatest key goes first. A key is made of a node and of
/// how many went before it was ready.
pub fn order_by<K: Ord>(count: usize, edges: &[Edge], key: impl Fn(usize, usize) -> K) -> Vec<usize> {
    let mut of_user: Vec<Vec<usize>> = vec![Vec::new(); count];
    // Firm ties are counted apart: who has none left may go ahead in a circle.
    let (mut unmet, mut firm) = (vec![0_usize; count], vec![0_usize; count]);
    for (at, edge) in edges.iter().enumerate().filter(|(_, edge)| edge.need < count && edge.user < count) {
        of_user[edge.need].push(at);
        unmet[edge.user] += 1;
        firm[edge.user] += usize::from(!edge.loose);
    }
    let entry = |node: usize, gone: usize| (key(node, gone), node);
    let all_met = |unmet: &[usize]| -> BinaryHeap<(K, usize)> {
        (0..count).filter(|&node| unmet[node] == 0).map(|node| entry(node, 0)).collect()
    };
    let (mut ready, mut could) = (all_met(&unmet), all_met(&firm));
    let mut done = vec![false; count];
    let mut order = Vec::with_capacity(count);
    while let Some((_, node)) = ready.pop().or_else(|| could.pop()) {
        if std::mem::replace(&mut done[node], true) {
            continue;
        }
        order.push(node);
        for &at in &of_user[node] {
            let Edge { user, loose, .. } = edges[at];
            unmet[user] -= 1;
            firm[user] -= usize::from(!loose);
            if unmet[user] == 0 {
                ready.push(entry(user, order.len()));
            }
            if firm[user] == 0 && !loose {
                could.push(entry(user, order.len()));
            }
        }
    }
    order
}

/// Starting points of the search for a shorter circle: each costs a walk over the graph.
const TRIES: usize = 16;

/// A circle, if there is one: each node needs the next, and the last the first. Short, if that is cheap to find.
pub fn cycle(needs: &[&[usize]]) -> Option<Vec<usize>> {
    let order = order(needs);
    if order.len() == needs.len() {
        return None;
    }
    let mut stuck = vec![true; needs.len()];
    for node in order {
        stuck[node] = false;
    }
    // Every stuck node has a stuck need, so a walk over them comes back to where it was.
    let mut step = vec![usize::MAX; needs.len()];
    let mut path = Vec::new();
    let mut node = stuck.iter().position(|&stuck| stuck)?;
    while step[node] == usize::MAX {
        step[node] = path.len();
        path.push(node);
        node = needs[node].iter().copied().find(|&need| stuck.get(need) == Some(&true))?;
    }
    let mut best = path.split_off(step[node]);
    for start in best.clone().into_iter().take(TRIES) {
        if let Some(shorter) = shortest_through(start, needs, &stuck, best.len()) {
            best = shorter;
        }
    }
    Some(best)
}

/// The shortest circle through `start` if it has fewer than `below` nodes.
fn shortest_through(start: usize, needs: &[&[usize]], stuck: &[bool], below: usize) -> Option<Vec<usize>> {
    let mut from = vec![usize::MAX; needs.len()];
    let mut queue = VecDeque::from([(start, 1)]);
    while let Some((node, length)) = queue.pop_front() {
        if length >= below {
            return None;
        }
        for &need in needs[node] {
            if need == start {
                let mut circle = vec![node];
                while let Some(&last) = circle.last().filter(|&&last| last != start) {
                    circle.push(from[last]);
                }
                circle.reverse();
                return Some(circle);
            }
            if stuck.get(need) == Some(&true) && from[need] == usize::MAX {
                from[need] = node;
                queue.push_back((need, length + 1));
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shorter_of_two_circles_is_named() {
        // 0 -> 1 -> 2 -> 3 -> 0, and 1 -> 0.
        assert_eq!(cycle(&[&[1], &[2, 0], &[3], &[0]]), Some(vec![0, 1]));
        assert_eq!(cycle(&[&[1], &[], &[0, 1]]), None);
    }

    #[test]
    fn a_long_circle_takes_no_stack() {
        let count = 300_000;
        let needs: Vec<[usize; 1]> = (0..count).map(|node| [(node + 1) % count]).collect();
        let needs: Vec<&[usize]> = needs.iter().map(|needs| needs.as_slice()).collect();
        assert_eq!(cycle(&needs).map(|circle| circle.len()), Some(count));
    }

    #[test]
    fn a_loose_tie_is_broken_where_it_has_to_be_and_a_firm_one_never() {
        let edge = |need, user, loose| Edge { need, user, loose };
        assert_eq!(order_of_edges(3, &[edge(2, 0, true), edge(0, 1, false)]), [2, 0, 1], "no circle, none broken");
        assert_eq!(order_of_edges(3, &[edge(2, 0, true), edge(0, 1, false), edge(1, 2, false)]), [0, 1, 2]);
        assert_eq!(order_of_edges(3, &[edge(1, 0, false), edge(0, 1, false)]), [2], "0 and 1 wait for each other");
        assert_eq!(order_of_edges(1, &[edge(0, 0, true)]), [0]);
        assert_eq!(order_of_edges(1, &[edge(0, 0, false)]), [0; 0]);
    }

    #[test]
    fn order_puts_needs_first_and_keeps_the_rest() {
        assert_eq!(order(&[&[2], &[], &[], &[0, 1]]), [1, 2, 0, 3]);
        assert_eq!(order(&[&[7], &[]]), [1], "a need that is no node is never met");
        assert_eq!(order(&[&[1, 1], &[]]), [1, 0], "a need that is named twice is one");
        assert_eq!(order(&[&[0], &[], &[1, 0]]), [1], "what is behind a circle is missing, too");
    }
}
