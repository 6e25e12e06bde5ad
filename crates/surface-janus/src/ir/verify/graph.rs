//! The blocks of a function in an order, and the edges that go back in it.
//!
//! Room: decisions.
//!
//! # Invariant
//! Every circle of blocks has an edge that goes back.
//!
//! # Why it holds
//! The order is the reverse of the one in which a walk in depth leaves the blocks. If no edge of a circle went back, its blocks would stand in the order one behind the other, and the first behind the last.

use crate::ir::{BlockId, End, Function};

/// Where control can go from a block, its `on_error` last.
pub(crate) fn successors(function: &Function, block: usize) -> impl Iterator<Item = BlockId> {
    let block = &function.blocks[block];
    let (first, second) = match block.end {
        End::Jump(to) => (Some(to), None),
        End::Branch(_, then, otherwise) => (Some(then), Some(otherwise)),
        End::Return(_) | End::Raise => (None, None),
    };
    first.into_iter().chain(second).chain(block.on_error)
}

/// The place of each block in the order; none for those that are not reached.
pub(super) struct Order {
    places: Vec<Option<usize>>,
    /// The blocks that are reached, in order.
    pub(super) blocks: Vec<usize>,
}

impl Order {
    /// Whether the edge goes back, or to the block itself.
    pub(super) fn goes_back(&self, from: usize, to: BlockId) -> bool {
        self.places[to.0 as usize] <= self.places[from]
    }
}

/// A walk in depth from block 0, without recursion.
pub(super) fn order(function: &Function) -> Order {
    let mut seen = vec![false; function.blocks.len()];
    let mut left = Vec::with_capacity(function.blocks.len());
    seen[0] = true;
    let mut open = vec![(0, successors(function, 0))];
    while let Some((block, next)) = open.last_mut() {
        match next.next() {
            Some(BlockId(to)) => {
                let to = to as usize;
                if !std::mem::replace(&mut seen[to], true) {
                    open.push((to, successors(function, to)));
                }
            }
            None => {
                left.push(*block);
                open.pop();
            }
        }
    }
    left.reverse();
    let mut places = vec![None; function.blocks.len()];
    for (place, block) in left.iter().enumerate() {
        places[*block] = Some(place);
    }
    Order { places, blocks: left }
}

/// The blocks from which a jump goes back.
pub(crate) fn back_edges(function: &Function) -> Vec<usize> {
    let order = order(function);
    let goes_back = |block: &usize| match function.blocks[*block].end {
        End::Jump(to) => order.goes_back(*block, to),
        _ => false,
    };
    let mut found: Vec<usize> = order.blocks.iter().copied().filter(goes_back).collect();
    found.sort_unstable();
    found
}
