//! The keys of a workload file: one table that reads files, and writes the reference and the schema.
//!
//! Room: values.
//!
//! # Invariant
//! A key that is not in the table does not exist: what the reader does with a key is in its row, and nowhere else.
//!
//! Checked by `every_key_of_the_table_is_read_and_its_example_is_taken`.

mod set;
mod table;

pub(crate) use set::range;
pub(crate) use surface_text::fields::{Field, Values};
pub(crate) use table::{CONTEXT, FILE, LEASE, PARTS, PROCESS, RING, SESSION, THREAD};

use surface_text::reference::{Entry, Shape};
use surface_text::tree::Node;

/// What the reader does with a value of a section `T`.
pub(crate) type Set<T> = for<'t> fn(&mut T, &Key<T>, &Node<'t>, &mut Values<'t>);

/// A row of the table.
pub(crate) struct Key<T> {
    pub(crate) field: Field<'static>,
    /// What may be written, and within what limits.
    pub(crate) shape: Shape,
    /// What is meant if it is not there.
    pub(crate) without: &'static str,
    /// What it means.
    pub(crate) about: &'static str,
    pub(crate) set: Set<T>,
}

impl<T> Key<T> {
    /// For the reference.
    pub(crate) fn entry(&self) -> Entry {
        let Field { name, takes, example } = self.field;
        Entry { name, takes: takes.to_owned(), shape: self.shape, without: self.without, about: self.about, example }
    }

    /// The limits of a whole number.
    pub(crate) fn limits(&self) -> (i64, i64) {
        match self.shape {
            Shape::Whole(least, most) | Shape::Wholes(least, most) => (least, most),
            _ => (i64::MIN, i64::MAX),
        }
    }
}
