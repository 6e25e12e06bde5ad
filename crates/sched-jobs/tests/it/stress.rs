//! Everything at once, on real threads.
