//! In which bands nodes and edges are, where users did not say: control is control from where it enters to where it steers.
//!
//! Room: decisions.
//!
//! # Invariant
//! A message on its way to a place of control alone waits in no ring of another band, unless users put it there.
//!
//! # Why it holds
//! A node all of whose outputs are edges of control has its own turns in that band, and so are the edges into it: by induction from the last edge backwards, every
//! step of such a message is. What a user said of a node or an edge stays, and so does what is before it.

use policy_flow::Band;

/// An edge, as far as it matters here.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked {
    pub(super) from: u32,
    pub(super) to: u32,
    /// What the user said.
    pub(super) priority: Option<i32>,
    /// It leads to the input `control`.
    pub(super) steers: bool,
}

/// The bands of the nodes and the priorities of the edges. `said`: the bands of nodes whose users said one; `order`: producers before consumers.
pub(super) fn settle(said: &[Option<Band>], edges: &[Asked], order: &[u32]) -> (Vec<Band>, Vec<i32>) {
    let mut outputs = vec![Vec::new(); said.len()];
    let mut inputs = vec![Vec::new(); said.len()];
    for (index, edge) in edges.iter().enumerate() {
        outputs[edge.from as usize].push(index);
        inputs[edge.to as usize].push(index);
    }
    let of_edge = |edge: &Asked| edge.priority.unwrap_or(if edge.steers { Band::CONTROL_FROM } else { 0 });
    let mut priorities: Vec<i32> = edges.iter().map(of_edge).collect();
    let mut bands: Vec<Band> = said.iter().map(|band| band.unwrap_or(Band::Normal)).collect();
    for &node in order.iter().rev() {
        let outputs = &outputs[node as usize];
        let only_control =
            !outputs.is_empty() && outputs.iter().all(|edge| Band::of(priorities[*edge]) == Band::Control);
        if !only_control || said[node as usize].is_some_and(|band| band != Band::Control) {
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

    fn edge(from: u32, to: u32, priority: Option<i32>) -> Asked {
        Asked { from, to, priority, steers: false }
    }

    #[test]
    fn what_feeds_only_control_is_control_up_to_its_source() {
        let steers = Asked { steers: true, ..edge(1, 2, None) };
        let (bands, priorities) = settle(&[None; 3], &[edge(0, 1, None), steers], &[0, 1, 2]);
        assert_eq!(bands, [Band::Control, Band::Control, Band::Normal]);
        assert_eq!(priorities, [100, 100]);
    }

    #[test]
    fn what_also_feeds_others_stays_what_it_is() {
        let edges = [edge(0, 1, Some(100)), edge(0, 2, None)];
        assert_eq!(settle(&[None; 3], &edges, &[0, 1, 2]), (vec![Band::Normal; 3], vec![100, 0]));
    }

    #[test]
    fn what_a_user_said_stays_and_so_does_what_is_before_it() {
        let edges = [edge(0, 1, None), edge(1, 2, Some(0)), edge(2, 3, Some(100))];
        let (bands, priorities) = settle(&[None; 4], &edges, &[0, 1, 2, 3]);
        assert_eq!(bands, [Band::Normal, Band::Normal, Band::Control, Band::Normal]);
        assert_eq!(priorities, [0, 0, 100]);
        let edges = [edge(0, 1, None), edge(1, 2, Some(100))];
        let (bands, priorities) = settle(&[None, Some(Band::High), None], &edges, &[0, 1, 2]);
        assert_eq!((bands[0], bands[1], priorities[0]), (Band::Normal, Band::High, 0));
    }
}
