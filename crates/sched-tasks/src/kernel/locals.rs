//! The values of one task: what `thread_local!` is to a thread.
//!
//! Room: values.

use std::{any::Any, rc::Rc};

/// The values of one task, each with its key, in the order they were made. They are few, and are dropped in that order: a map's would be another in every run.
#[derive(Default)]
pub(crate) struct Locals(pub(crate) Option<Box<Values>>); // most tasks have none, and pay one word for it

pub(crate) type Values = Vec<(usize, Rc<dyn Any>)>;

impl Locals {
    pub(crate) fn get(&self, key: usize) -> Option<Rc<dyn Any>> {
        self.0.as_ref()?.iter().find(|(other, _)| *other == key).map(|(_, value)| value.clone())
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Adds the values of others for which it has none; returns the rest.
    pub(crate) fn add(&mut self, mut others: Locals) -> Locals {
        let own = self.0.get_or_insert_default();
        let (twice, new) = others
            .0
            .take()
            .into_iter()
            .flat_map(|values| *values)
            .partition(|(key, _)| own.iter().any(|(other, _)| other == key));
        let (twice, mut new): (Values, Values) = (twice, new);
        own.append(&mut new);
        Locals((!twice.is_empty()).then(|| Box::new(twice)))
    }
}
