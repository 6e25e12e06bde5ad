//! Jobs as users see them, on both drivers.

mod basics;
mod neighbours;
