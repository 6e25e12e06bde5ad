//! A job file: TOML to a checked plan, and its picture.
//!
//! Room: surface. Parses and draws; runs nothing.
#![forbid(unsafe_code)]
