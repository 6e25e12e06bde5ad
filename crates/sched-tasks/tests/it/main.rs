//! What tasks promise, one sentence a test.

mod channels;
mod channels_model;
mod channels_stress;
mod locks;
mod nurseries;
mod select;
