//! Topological orders of a graph, and cycles in it.
//!
//! Room: decisions.
//!
//! A graph is a list of needs by index.
//!
//! # Invariant
//! Nothing recurses: a chain of any length takes heap, not stack. A cycle that is returned is one: each node needs the next.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// A topological order: needs first, lowest index first among those that could be next. Nodes in or behind a cycle, or with
/// a need that is not a node, are missing.
pub fn order(needs: &[&[usize]]) -> Vec<usize> {
    let count = needs.len();
    let edges = needs.iter().enumerate().flat_map(|(user, needs)| {
        // A need that is not a node is never met; neither is a need of the node itself.
        needs.iter().map(move |&need| Edge { need: if need < count { need } else { user }, user, loose: false })
    });
    order_of_edges(count, &edges.collect::<Vec<_>>())
}

/// One node needs another.
#[derive(Clone, Copy, Debug)]
pub struct Edge {
    /// The node that comes first.
    pub need: usize,
    /// The node that comes later.
    pub user: usize,
    /// The edge may be ignored where it would close a cycle.
    pub loose: bool,
}

/// An order with needs first, as [`order`]. Where all remaining nodes wait for each other, the loose edges of the lowest node that waits for
/// nothing else are ignored. Nodes in or behind a cycle without a loose edge are missing.
pub fn order_of_edges(count: usize, edges: &[Edge]) -> Vec<usize> {
    order_by(count, edges, |node, _| Reverse(node))
}

/// As [`order_of_edges`], but of the nodes that could be next the one with the greatest key goes first. A key is made of a node and of
/// how many went before it was ready.
pub fn order_by<K: Ord>(count: usize, edges: &[Edge], key: impl Fn(usize, usize) -> K) -> Vec<usize> {
    let mut of_user: Vec<Vec<usize>> = vec![Vec::new(); count];
    // Firm edges are counted apart: a node without any left may go ahead in a cycle.
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

/// Starting points of the search for a shorter cycle: each costs a walk over the graph.
const TRIES: usize = 16;

/// A cycle, if there is one: each node needs the next, and the last the first. A short one, if that is cheap to find.
pub fn cycle(needs: &[&[usize]]) -> Option<Vec<usize>> {
    let order = order(needs);
    if order.len() == needs.len() {
        return None;
    }
    let mut stuck = vec![true; needs.len()];
    for node in order {
        stuck[node] = false;
    }
    // Every stuck node has a stuck need, so a walk over them comes back to a node it has visited.
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

/// The shortest cycle through `start` if it has fewer than `below` nodes.
fn shortest_through(start: usize, needs: &[&[usize]], stuck: &[bool], below: usize) -> Option<Vec<usize>> {
    let mut from = vec![usize::MAX; needs.len()];
    let mut queue = VecDeque::from([(start, 1)]);
    while let Some((node, length)) = queue.pop_front() {
        if length >= below {
            return None;
        }
        for &need in needs[node] {
            if need == start {
                let mut cycle = vec![node];
                while let Some(&last) = cycle.last().filter(|&&last| last != start) {
                    cycle.push(from[last]);
                }
                cycle.reverse();
                return Some(cycle);
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
    fn the_shorter_of_two_cycles_is_named() {
        // 0 -> 1 -> 2 -> 3 -> 0, and 1 -> 0.
        assert_eq!(cycle(&[&[1], &[2, 0], &[3], &[0]]), Some(vec![0, 1]));
        assert_eq!(cycle(&[&[1], &[], &[0, 1]]), None);
    }

    #[test]
    fn a_long_cycle_takes_no_stack() {
        let count = 300_000;
        let needs: Vec<[usize; 1]> = (0..count).map(|node| [(node + 1) % count]).collect();
        let needs: Vec<&[usize]> = needs.iter().map(|needs| needs.as_slice()).collect();
        assert_eq!(cycle(&needs).map(|cycle| cycle.len()), Some(count));
    }

    #[test]
    fn a_loose_edge_is_ignored_where_it_has_to_be_and_a_firm_one_never() {
        let edge = |need, user, loose| Edge { need, user, loose };
        assert_eq!(order_of_edges(3, &[edge(2, 0, true), edge(0, 1, false)]), [2, 0, 1], "no cycle, none ignored");
        assert_eq!(order_of_edges(3, &[edge(2, 0, true), edge(0, 1, false), edge(1, 2, false)]), [0, 1, 2]);
        assert_eq!(order_of_edges(3, &[edge(1, 0, false), edge(0, 1, false)]), [2], "0 and 1 wait for each other");
        assert_eq!(order_of_edges(1, &[edge(0, 0, true)]), [0]);
        assert_eq!(order_of_edges(1, &[edge(0, 0, false)]), [0; 0]);
    }

    #[test]
    fn order_puts_needs_first_and_keeps_the_rest() {
        assert_eq!(order(&[&[2], &[], &[], &[0, 1]]), [1, 2, 0, 3]);
        assert_eq!(order(&[&[7], &[]]), [1], "a need that is not a node is never met");
        assert_eq!(order(&[&[1, 1], &[]]), [1, 0], "a need that is named twice is one");
        assert_eq!(order(&[&[0], &[], &[1, 0]]), [1], "what is behind a cycle is missing, too");
    }
}
