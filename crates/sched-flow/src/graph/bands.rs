//! The default bands of nodes and edges: control traffic is in the control band from where it enters the flow.
//!
//! Room: decisions.
//!
//! # Invariant
//! A message that only goes to control inputs waits in no run queue of another band, unless a user put it there.
//!
//! # Why it holds
//! A node all of whose outputs are edges of control has its own turns in that band, and the edges into it are in that band, too. By induction from the last edge backwards, this holds for every
//! step of such a message. What a user chose for a node or an edge stays, and the rule does not go further upstream there.

use policy_flow::Band;

/// An edge, as far as bands depend on it.
#[derive(Debug, Clone, Copy)]
pub(super) struct BandEdge {
    pub(super) from: u32,
    pub(super) to: u32,
    /// The choice of the user.
    pub(super) priority: Option<i32>,
    /// It leads to the input `control`.
    pub(super) steers: bool,
}

/// The bands of the nodes and the priorities of the edges. `chosen`: the bands that users chose; `order`: producers before consumers.
pub(super) fn assign(chosen: &[Option<Band>], edges: &[BandEdge], order: &[u32]) -> (Vec<Band>, Vec<i32>) {
    let mut outputs = vec![Vec::new(); chosen.len()];
    let mut inputs = vec![Vec::new(); chosen.len()];
    for (index, edge) in edges.iter().enumerate() {
        outputs[edge.from as usize].push(index);
        inputs[edge.to as usize].push(index);
    }
    let of_edge = |edge: &BandEdge| edge.priority.unwrap_or(if edge.steers { Band::CONTROL_FROM } else { 0 });
    let mut priorities: Vec<i32> = edges.iter().map(of_edge).collect();
    let mut bands: Vec<Band> = chosen.iter().map(|band| band.unwrap_or(Band::Normal)).collect();
    for &node in order.iter().rev() {
        let outputs = &outputs[node as usize];
        let only_control =
            !outputs.is_empty() && outputs.iter().all(|edge| Band::of(priorities[*edge]) == Band::Control);
        if !only_control || chosen[node as usize].is_some_and(|band| band != Band::Control) {
            continue;
        }
        bands[node as usize] = Band::Control;
        for &edge in &inputs[node as usize] {
            if edges[edge].priority.is_none() {
                priorities[edge] = Band::CONTROL_FROM;
            }
        }
    }
    (bands, priorities)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edge(from: u32, to: u32, priority: Option<i32>) -> BandEdge {
        BandEdge { from, to, priority, steers: false }
    }

    #[test]
    fn a_node_that_feeds_only_control_is_control_up_to_its_source() {
        let steers = BandEdge { steers: true, ..edge(1, 2, None) };
        let (bands, priorities) = assign(&[None; 3], &[edge(0, 1, None), steers], &[0, 1, 2]);
        assert_eq!(bands, [Band::Control, Band::Control, Band::Normal]);
        assert_eq!(priorities, [100, 100]);
    }

    #[test]
    fn a_node_that_also_feeds_others_keeps_its_band() {
        let edges = [edge(0, 1, Some(100)), edge(0, 2, None)];
        assert_eq!(assign(&[None; 3], &edges, &[0, 1, 2]), (vec![Band::Normal; 3], vec![100, 0]));
    }

    #[test]
    fn what_a_user_chose_stays_and_so_do_the_nodes_before_it() {
        let edges = [edge(0, 1, None), edge(1, 2, Some(0)), edge(2, 3, Some(100))];
        let (bands, priorities) = assign(&[None; 4], &edges, &[0, 1, 2, 3]);
        assert_eq!(bands, [Band::Normal, Band::Normal, Band::Control, Band::Normal]);
        assert_eq!(priorities, [0, 0, 100]);
        let edges = [edge(0, 1, None), edge(1, 2, Some(100))];
        let (bands, priorities) = assign(&[None, Some(Band::High), None], &edges, &[0, 1, 2]);
        assert_eq!((bands[0], bands[1], priorities[0]), (Band::Normal, Band::High, 0));
    }
}
