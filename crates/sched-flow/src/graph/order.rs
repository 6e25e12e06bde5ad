//! Cycles, and the topological order in which nodes start.
//!
//! Room: decisions.
//!
//! No recursion: a chain may be a hundred thousand nodes long.

use std::{cmp::Reverse, collections::BinaryHeap};

/// A directed edge from one node to another.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Arrow {
    pub(crate) from: u32,
    pub(crate) to: u32,
}

fn successors(nodes: usize, arrows: &[Arrow]) -> Vec<Vec<u32>> {
    let mut lists = vec![Vec::new(); nodes];
    for arrow in arrows {
        lists[arrow.from as usize].push(arrow.to);
    }
    lists
}

/// The strongly connected components: for each node the number of its group. Nodes that reach each other share one. (Tarjan's algorithm.)
pub(crate) fn groups(nodes: usize, arrows: &[Arrow]) -> Vec<u32> {
    const UNSEEN: u32 = u32::MAX;
    let next = successors(nodes, arrows);
    let mut number = vec![UNSEEN; nodes];
    let mut lowest = vec![0; nodes];
    let mut group = vec![UNSEEN; nodes];
    let (mut count, mut group_count) = (0, 0);
    let mut open = Vec::new();
    // A node, and how many of its successors were visited: an explicit call stack.
    let mut path: Vec<(u32, usize)> = Vec::new();
    for root in 0..nodes as u32 {
        if number[root as usize] != UNSEEN {
            continue;
        }
        path.push((root, 0));
        while let Some((node, visited)) = path.last_mut() {
            let at = *node as usize;
            if *visited == 0 {
                number[at] = count;
                lowest[at] = count;
                count += 1;
                open.push(*node);
            }
            if let Some(&to) = next[at].get(*visited) {
                *visited += 1;
                let to_at = to as usize;
                if number[to_at] == UNSEEN {
                    path.push((to, 0));
                } else if group[to_at] == UNSEEN {
                    lowest[at] = lowest[at].min(number[to_at]);
                }
                continue;
            }
            if lowest[at] == number[at] {
                loop {
                    let member = open.pop().expect("the root of a group is open");
                    group[member as usize] = group_count;
                    if member as usize == at {
                        break;
                    }
                }
                group_count += 1;
            }
            path.pop();
            if let Some((above, _)) = path.last() {
                let above = *above as usize;
                lowest[above] = lowest[above].min(lowest[at]);
            }
        }
    }
    group
}

/// The nodes in topological order, otherwise in the order in which they were added; or the nodes of a cycle.
pub(crate) fn topological(nodes: usize, arrows: &[Arrow]) -> Result<Vec<u32>, Vec<u32>> {
    let next = successors(nodes, arrows);
    let mut before = vec![0u32; nodes];
    for arrow in arrows {
        before[arrow.to as usize] += 1;
    }
    let free = (0..nodes as u32).filter(|node| before[*node as usize] == 0);
    let mut ready: BinaryHeap<_> = free.map(Reverse).collect();
    let mut order = Vec::with_capacity(nodes);
    while let Some(Reverse(node)) = ready.pop() {
        order.push(node);
        for &to in &next[node as usize] {
            before[to as usize] -= 1;
            if before[to as usize] == 0 {
                ready.push(Reverse(to));
            }
        }
    }
    if order.len() == nodes {
        return Ok(order);
    }
    // Every node that is left has a predecessor that is left, so walking backwards finds a cycle.
    let mut previous = vec![u32::MAX; nodes];
    for arrow in arrows {
        if before[arrow.from as usize] > 0 && before[arrow.to as usize] > 0 {
            previous[arrow.to as usize] = arrow.from;
        }
    }
    let mut at = (0..nodes).find(|node| before[*node] > 0).expect("some are left") as u32;
    let mut seen = vec![false; nodes];
    while !seen[at as usize] {
        seen[at as usize] = true;
        at = previous[at as usize];
    }
    let mut cycle = vec![at];
    let mut walk = previous[at as usize];
    while walk != at {
        cycle.push(walk);
        walk = previous[walk as usize];
    }
    cycle.reverse();
    Err(cycle)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrows(pairs: &[(u32, u32)]) -> Vec<Arrow> {
        pairs.iter().map(|&(from, to)| Arrow { from, to }).collect()
    }

    #[test]
    fn producers_come_before_consumers_and_ties_keep_their_order() {
        assert_eq!(topological(4, &arrows(&[(3, 0), (0, 1), (3, 2)])), Ok(vec![3, 0, 1, 2]));
        assert_eq!(topological(3, &[]), Ok(vec![0, 1, 2]));
    }

    #[test]
    fn a_cycle_is_named_in_its_direction() {
        let cycle = topological(4, &arrows(&[(0, 1), (1, 2), (2, 1), (2, 3)])).unwrap_err();
        assert!(cycle == [1, 2] || cycle == [2, 1], "{cycle:?}");
        assert_eq!(topological(1, &arrows(&[(0, 0)])), Err(vec![0]));
    }

    #[test]
    fn nodes_that_reach_each_other_are_one_group() {
        let group = groups(6, &arrows(&[(0, 1), (1, 2), (2, 1), (2, 3), (4, 4), (3, 5), (5, 0)]));
        assert!(group[0] == group[1] && group[1] == group[2] && group[2] == group[3] && group[3] == group[5]);
        assert_ne!(group[0], group[4]);
        let chain = groups(3, &arrows(&[(0, 1), (1, 2)]));
        assert!(chain[0] != chain[1] && chain[1] != chain[2]);
    }

    #[test]
    fn a_chain_of_a_hundred_thousand_needs_no_deep_stack() {
        let long: Vec<_> = (0..99_999).map(|n| Arrow { from: n, to: n + 1 }).collect();
        assert_eq!(topological(100_000, &long).unwrap().len(), 100_000);
        assert_eq!(groups(100_000, &long).len(), 100_000);
    }
}
