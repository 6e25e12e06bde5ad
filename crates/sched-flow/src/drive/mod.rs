//! Everything of a flow that has effects.

pub(crate) mod host;
