//! Blocks and registers under construction.
//!
//! Room: state.
//!
//! # Invariant
//! Instructions go into the current block. If there is none, control does not get here, and they go nowhere. All instructions of a block have the same clean-up: when that changes, a new block begins.

use std::collections::HashSet;

use surface_text::Span;

use super::cleanup::{Cleanups, Node};
use super::{Lines, type_of};
use crate::check::tree;
use crate::ir::{Block, BlockId, End, Inst, Op, Reg, Type};
use crate::limits::INSTRUCTIONS_MAX;

/// A loop around what is lowered.
pub(super) struct Loop {
    pub(super) break_to: BlockId,
    pub(super) continue_to: BlockId,
    /// What was to be cleaned up outside it.
    pub(super) around: Option<Node>,
}

pub(super) struct Builder<'a> {
    lines: &'a Lines,
    registers: Vec<Type>,
    /// Intermediate values that are not used any more, by type.
    free: Vec<Reg>,
    taken: Vec<Reg>,
    blocks: Vec<Option<Block>>,
    current: Option<(BlockId, Vec<Inst>)>,
    line: u32,
    size: usize,
    /// Blocks that some jump leads to, and that were not begun.
    pub(super) reached: HashSet<BlockId>,
    pub(super) cleanups: Cleanups<'a>,
    pub(super) loops: Vec<Loop>,
    /// Of each open block, the number of the nursery it owns.
    pub(super) nurseries: Vec<Option<u32>>,
    pub(super) nursery_count: u32,
}

impl<'a> Builder<'a> {
    pub(super) fn new(function: &'a tree::Function, lines: &'a Lines) -> Self {
        let registers = function.locals.iter().map(|ty| type_of(*ty)).collect();
        let mut builder = Self {
            lines,
            registers,
            free: Vec::new(),
            taken: Vec::new(),
            blocks: Vec::new(),
            current: None,
            line: 0,
            size: 0,
            reached: HashSet::new(),
            cleanups: Cleanups::default(),
            loops: Vec::new(),
            nurseries: Vec::new(),
            nursery_count: 0,
        };
        builder.line_of(&function.at);
        let entry = builder.new_block();
        builder.start(entry);
        builder
    }

    /// The line that the next instructions come from.
    pub(super) fn line_of(&mut self, at: &Span) {
        self.line = self.lines.number(at.start);
    }

    /// A block that is filled later.
    pub(super) fn new_block(&mut self) -> BlockId {
        self.blocks.push(None);
        BlockId((self.blocks.len() - 1) as u32)
    }

    pub(super) fn start(&mut self, block: BlockId) {
        debug_assert!(self.current.is_none(), "the block before was not ended");
        self.current = Some((block, Vec::new()));
    }

    /// Whether control gets here.
    pub(super) fn is_open(&self) -> bool {
        self.current.is_some()
    }

    pub(super) fn emit(&mut self, op: Op) {
        if let Some((_, code)) = &mut self.current
            && self.size <= INSTRUCTIONS_MAX
        {
            self.size += 1;
            code.push(Inst { op, line: self.line });
        }
    }

    /// Ends the current block, if there is one.
    pub(super) fn seal(&mut self, end: End) {
        if let Some((block, code)) = self.current.take() {
            self.size += 1;
            let on_error = self.handler();
            self.blocks[block.0 as usize] = Some(Block { on_error, code, end, end_line: self.line });
        }
    }

    pub(super) fn jump(&mut self, to: BlockId) {
        self.seal(End::Jump(to));
    }

    /// Goes on in a new block.
    pub(super) fn split(&mut self) {
        if self.is_open() {
            let next = self.new_block();
            self.jump(next);
            self.start(next);
        }
    }

    /// Too large already: nothing more is built.
    pub(super) fn is_too_large(&self) -> bool {
        self.size > INSTRUCTIONS_MAX
    }

    /// A register for an intermediate value, until the statement ends.
    pub(super) fn temporary(&mut self, ty: Type) -> Reg {
        let found = self.free.iter().rposition(|reg| self.registers[reg.0 as usize] == ty);
        let reg = match found {
            Some(at) => self.free.remove(at),
            None => {
                self.registers.push(ty);
                Reg((self.registers.len() - 1) as u32)
            }
        };
        self.taken.push(reg);
        reg
    }

    pub(super) fn type_of_register(&self, reg: Reg) -> Type {
        self.registers[reg.0 as usize]
    }

    /// How many temporaries are in use; see [`release`](Self::release).
    pub(super) fn mark(&self) -> usize {
        self.taken.len()
    }

    /// Those that were taken since `mark` are free again.
    pub(super) fn release(&mut self, mark: usize) {
        let unused = self.taken.split_off(mark);
        self.free.extend(unused);
    }

    /// Registers and blocks. Those that control does not reach were never filled, and are left out.
    pub(super) fn finish(self) -> (Vec<Type>, Vec<Block>) {
        let filled: Vec<bool> = self.blocks.iter().map(Option::is_some).collect();
        let mut next = 0;
        let numbers: Vec<u32> = filled
            .iter()
            .map(|is_filled| {
                let number = next;
                next += u32::from(*is_filled);
                number
            })
            .collect();
        let renumber = |block: &mut BlockId| {
            debug_assert!(filled[block.0 as usize], "bb{} was never filled", block.0);
            block.0 = numbers[block.0 as usize];
        };
        let mut blocks: Vec<Block> = self.blocks.into_iter().flatten().collect();
        for block in &mut blocks {
            block.on_error.iter_mut().for_each(renumber);
            match &mut block.end {
                End::Jump(to) => renumber(to),
                End::Branch(_, then, otherwise) => {
                    renumber(then);
                    renumber(otherwise);
                }
                End::Return(_) | End::Raise => {}
            }
        }
        (self.registers, blocks)
    }
}
