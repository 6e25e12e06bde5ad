//! What runs when a block is left: nurseries end, then `defer`s run, the last first.
//!
//! Room: decisions.
//!
//! # Invariants
//! 1. On every way out of a block (its end, `return`, `break`, `continue`, a failure) everything that was begun or deferred in it is cleaned up once, from the inside out.
//! 2. Tasks of a block have ended before its `defer`s run.
//!
//! # Why they hold
//! 1. What there is to clean up is a chain: a [`Node`] and those around it. Leaving walks along the chain. A failure goes to the clean-up of the innermost node, which ends by going to that of the next. What
//!    fails inside a clean-up goes there, too: a node is behind us when its clean-up begins.
//! 2. A `defer` in a block that owns a nursery is put around the nursery: the chain gets a new node for the nursery, inside the `defer`.

use super::build::Builder;
use crate::check::tree;
use crate::ir::{BlockId, End, Op};

/// The number of a node in `Cleanups::nodes`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Node(usize);

#[derive(Clone, Copy)]
enum Work<'a> {
    EndNursery(u32),
    Run(&'a tree::Block),
}

struct Link<'a> {
    work: Work<'a>,
    around: Option<Node>,
    /// Where a failure goes; made when the first may happen.
    handler: Option<BlockId>,
}

#[derive(Default)]
pub(super) struct Cleanups<'a> {
    nodes: Vec<Link<'a>>,
    innermost: Option<Node>,
    /// Nodes whose handler has a number and no code.
    wanted: Vec<Node>,
}

impl<'a> Builder<'a> {
    pub(super) fn innermost(&self) -> Option<Node> {
        self.cleanups.innermost
    }

    /// What is to be cleaned up changes: a new block begins.
    fn set_innermost(&mut self, node: Option<Node>) {
        let changes = self.cleanups.innermost != node;
        if changes && self.is_open() {
            let next = self.new_block();
            self.jump(next); // with the handler that counts up to here
            self.cleanups.innermost = node;
            self.start(next);
        }
        self.cleanups.innermost = node;
    }

    fn push(&mut self, work: Work<'a>) {
        let around = self.cleanups.innermost;
        self.cleanups.nodes.push(Link { work, around, handler: None });
        let node = Node(self.cleanups.nodes.len() - 1);
        self.set_innermost(Some(node));
    }

    /// Opens a nursery that is closed on every way out.
    pub(super) fn begin_nursery(&mut self) -> u32 {
        let number = self.nursery_count;
        self.nursery_count += 1;
        self.emit(Op::NurseryBegin(number));
        self.push(Work::EndNursery(number));
        number
    }

    pub(super) fn defer(&mut self, body: &'a tree::Block) {
        let own = self.nurseries.last().copied().flatten();
        let Some(number) = own else { return self.push(Work::Run(body)) };
        // Its nursery is the innermost node: inner blocks are over.
        let around = self.cleanups.innermost.and_then(|Node(node)| self.cleanups.nodes[node].around);
        self.cleanups.nodes.push(Link { work: Work::Run(body), around, handler: None });
        let defer = Node(self.cleanups.nodes.len() - 1);
        self.cleanups.nodes.push(Link { work: Work::EndNursery(number), around: Some(defer), handler: None });
        let nursery = Node(self.cleanups.nodes.len() - 1);
        self.set_innermost(Some(nursery));
    }

    /// Cleans up on the way to what is around `stop`. The chain is as before for what is lowered next.
    pub(super) fn leave_to(&mut self, stop: Option<Node>) {
        let before = self.cleanups.innermost;
        while self.cleanups.innermost != stop
            && let Some(Node(node)) = self.cleanups.innermost
        {
            if !self.is_open() || self.is_too_large() {
                break;
            }
            let Link { work, around, .. } = self.cleanups.nodes[node];
            self.set_innermost(around);
            self.clean_up(work);
        }
        self.cleanups.innermost = if self.is_open() { stop } else { before };
    }

    /// For what is lowered after a jump out: nothing was left there.
    pub(super) fn back_to(&mut self, node: Option<Node>) {
        debug_assert!(!self.is_open(), "a jump out ends its block");
        self.cleanups.innermost = node;
    }

    /// The block has ended, or was left: what it added to the chain is gone.
    pub(super) fn close_to(&mut self, node: Option<Node>) {
        self.set_innermost(node);
    }

    fn clean_up(&mut self, work: Work<'a>) {
        match work {
            Work::EndNursery(number) => self.emit(Op::NurseryEnd(number)),
            Work::Run(body) => {
                let (loops, nurseries) = (std::mem::take(&mut self.loops), std::mem::take(&mut self.nurseries));
                self.block(body);
                (self.loops, self.nurseries) = (loops, nurseries);
            }
        }
    }

    /// Where a failure of the current block goes.
    pub(super) fn handler(&mut self) -> Option<BlockId> {
        self.handler_of(self.cleanups.innermost)
    }

    fn handler_of(&mut self, node: Option<Node>) -> Option<BlockId> {
        let Node(index) = node?;
        if let Some(handler) = self.cleanups.nodes[index].handler {
            return Some(handler);
        }
        let handler = self.new_block();
        self.cleanups.nodes[index].handler = Some(handler);
        self.cleanups.wanted.push(Node(index));
        Some(handler)
    }

    /// Fills the blocks that failures go to. Filling one may need another, further out.
    pub(super) fn cleanups_after_failing(&mut self) {
        while let Some(Node(index)) = self.cleanups.wanted.pop() {
            let Link { work, around, handler } = self.cleanups.nodes[index];
            let Some(handler) = handler else { continue };
            self.cleanups.innermost = around;
            self.start(handler);
            if !self.is_too_large() {
                self.clean_up(work);
            }
            match self.handler_of(around) {
                Some(next) => self.jump(next),
                None => self.seal(End::Raise),
            }
        }
    }
}

impl Clone for Link<'_> {
    fn clone(&self) -> Self {
        *self
    }
}

impl Copy for Link<'_> {}
