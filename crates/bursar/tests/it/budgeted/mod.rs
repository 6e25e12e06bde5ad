//! `#[budgeted]`: compiles without a warning wherever functions stand, counts what it says, changes no result, and stops what was cancelled.
//!
//! Most lints that are off by default are on here: expanded code must not wake any of them in a user's crate.
#![deny(warnings, unused, rust_2018_idioms, let_underscore_drop, unused_qualifications)]
#![deny(
    clippy::all,
    clippy::items_after_statements,
    clippy::used_underscore_binding,
    clippy::semicolon_if_nothing_returned
)]

mod counts;
mod forms;
mod ledger;
mod same;
mod stops;
