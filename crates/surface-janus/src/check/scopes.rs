//! Which variables can be seen where.
//!
//! Room: state.
//!
//! A variable is seen from its declaration to the end of its block; an inner block may have one of the same name.

use super::tree::{Local, Type};

#[derive(Debug, Default)]
pub(super) struct Scopes {
    types: Vec<Type>,
    /// Those that can be seen, the innermost last.
    seen: Vec<Seen>,
    /// Where each open block begins in `seen`.
    blocks: Vec<usize>,
}

#[derive(Debug)]
struct Seen {
    name: String,
    local: Local,
    is_var: bool,
}

impl Scopes {
    pub(super) fn open(&mut self) {
        self.blocks.push(self.seen.len());
    }

    pub(super) fn close(&mut self) {
        let start = self.blocks.pop().unwrap_or(0);
        self.seen.truncate(start);
    }

    pub(super) fn declare(&mut self, name: &str, ty: Type, is_var: bool) -> Local {
        let local = self.types.len();
        self.types.push(ty);
        self.seen.push(Seen { name: name.to_owned(), local, is_var });
        local
    }

    pub(super) fn is_in_this_block(&self, name: &str) -> bool {
        let start = self.blocks.last().copied().unwrap_or(0);
        self.seen[start..].iter().any(|seen| seen.name == name)
    }

    /// A variable, its type, and whether it can be assigned to.
    pub(super) fn find(&self, name: &str) -> Option<(Local, Type, bool)> {
        let seen = self.seen.iter().rev().find(|seen| seen.name == name)?;
        Some((seen.local, self.types[seen.local], seen.is_var))
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.seen.iter().map(|seen| seen.name.as_str())
    }

    pub(super) fn into_types(self) -> Vec<Type> {
        self.types
    }
}
