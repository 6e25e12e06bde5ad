//! The keys of a job file: one table that reads files, and writes the reference and the schema.
//!
//! Room: values.
//!
//! # Invariant
//! A key that is not in the table does not exist: what the reader does with a key is in its row, and nowhere else. So a key that is read and not
//! described cannot be written.
//!
//! Checked by `every_key_of_the_table_is_read_and_its_example_is_taken`.

mod set;
mod table;

pub(crate) use surface_text::fields::{Field, Spanned, Values};
pub(crate) use table::{JOB, MOST, RESOURCES, RUN, SHARED, SLURM, TOP};

use surface_text::reference::{Entry, Shape};
use surface_text::tree::Node;

use crate::draft::{Draft, Settings};
use crate::plan::{On, Resources, Slurm};

/// A row of the table.
#[derive(Clone, Copy)]
pub(crate) struct Key {
    pub(crate) field: Field<'static>,
    /// What may be written, and within what limits.
    pub(crate) shape: Shape,
    /// What is meant if it is not there.
    pub(crate) without: &'static str,
    /// What it means.
    pub(crate) about: &'static str,
    pub(crate) set: Set,
}

/// What the reader does with a value.
#[derive(Clone, Copy)]
pub(crate) enum Set {
    /// A field of a job alone.
    Job(for<'n, 't> fn(&mut Draft<'n, 't>, &Key, &'n Node<'t>, &mut Values<'t>)),
    /// A field that `[defaults]` may have, too.
    Shared(for<'t> fn(&mut Settings, &Key, &Node<'t>, &mut Values<'t>)),
    /// How much there is of something.
    Resource(for<'t> fn(&mut Resources, &Key, &Node<'t>, &mut Values<'t>)),
    /// Where jobs run.
    Run(for<'t> fn(&mut Option<On>, &Key, &Node<'t>, &mut Values<'t>)),
    /// How jobs go to Slurm.
    Slurm(for<'t> fn(&mut Slurm, &Key, &Node<'t>, &mut Values<'t>)),
    /// A part of the file; other tables describe what is in it.
    Part,
}

impl Key {
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

/// Other fields that a value can be of.
pub(crate) const VALUE: Field<'static> = Field::new("foreach", "texts and numbers", "{ os = [\"linux\", \"mac\"] }");

/// A named resource, or the demand for one.
pub(crate) const fn resource(name: &str) -> Field<'_> {
    Field::new(name, "a whole number", "1")
}

/// All fields of a job, those of a job alone first.
pub(crate) fn keys() -> impl Iterator<Item = &'static Key> {
    JOB.iter().chain(SHARED)
}

pub(crate) fn key(name: &str) -> Option<&'static Key> {
    keys().find(|key| key.field.name == name)
}

/// How a field is shown in a message.
pub(crate) fn field(name: &str) -> Option<&'static Field<'static>> {
    key(name).map(|key| &key.field)
}
