//! What the C interface promises, one sentence a test.

mod cc;
mod guide;
mod header;
mod programs;
