//! Ports: their names, their types, and checks of their messages.
//!
//! Room: values.

use std::{
    any::{Any, TypeId, type_name},
    fmt,
    sync::Arc,
};

use crate::message::Payload;

/// Checks a payload that is emitted.
pub(crate) type Check<T> = Arc<dyn Fn(&T) -> Result<(), String> + Send + Sync>;

/// A schema of a port, beyond its type: a name, which must be the same at both ends of an edge, and a check of every message.
///
/// ```
/// use bursar::flow::{Schema, map};
///
/// let percent = Schema::new("percent", |value: &f64| {
///     if (0.0..=100.0).contains(value) { Ok(()) } else { Err(format!("{value} is not within 0 and 100")) }
/// });
/// let node = map(|ratio: f64| ratio * 100.0).schema("out", percent);
/// ```
pub struct Schema<T> {
    pub(crate) name: Arc<str>,
    pub(crate) check: Check<T>,
}

impl<T: Payload> Schema<T> {
    /// A schema with a check. Its error fails the call that emits the message, and the error policy of that node decides.
    pub fn new(name: impl Into<String>, check: impl Fn(&T) -> Result<(), String> + Send + Sync + 'static) -> Self {
        Self { name: name.into().into(), check: Arc::new(check) }
    }

    /// A schema that is only a name: a unit, a version.
    pub fn named(name: impl Into<String>) -> Self {
        Self::new(name, |_| Ok(()))
    }
}

impl<T> Clone for Schema<T> {
    fn clone(&self) -> Self {
        Self { name: Arc::clone(&self.name), check: Arc::clone(&self.check) }
    }
}

impl<T> fmt::Debug for Schema<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Schema({})", self.name)
    }
}

/// A schema of some type.
#[derive(Clone)]
pub(crate) struct AnySchema {
    pub(crate) name: Arc<str>,
    pub(crate) of: Carried,
    /// A [`Check`] of that type.
    pub(crate) check: Arc<dyn Any + Send + Sync>,
}

impl<T: Payload> From<Schema<T>> for AnySchema {
    fn from(schema: Schema<T>) -> Self {
        AnySchema { name: schema.name, of: Carried::of::<T>(), check: Arc::new(schema.check) }
    }
}

/// A type that a port carries.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Carried {
    id: TypeId,
    pub(crate) name: &'static str,
}

impl Carried {
    pub(crate) fn of<T: 'static>() -> Self {
        Carried { id: TypeId::of::<T>(), name: type_name::<T>() }
    }
}

impl PartialEq for Carried {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

/// A port, as its node declares it.
#[derive(Clone)]
pub(crate) struct PortSpec {
    pub(crate) name: Arc<str>,
    pub(crate) carries: Carried,
    pub(crate) schema: Option<AnySchema>,
    /// It must be connected.
    pub(crate) required: bool,
}

impl PortSpec {
    pub(crate) fn new<T: 'static>(name: impl Into<Arc<str>>) -> Self {
        Self { name: name.into(), carries: Carried::of::<T>(), schema: None, required: true }
    }
}
