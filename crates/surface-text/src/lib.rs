//! What files of every kind share: values with their locations, problems, units, suggestions, orders, pictures.
//!
//! Room: surface. Knows syntax, units and drawings; knows nothing of jobs and flows.
//!
//! # Invariant
//! Any bytes give a tree or [`Problems`]: no panic, no overflow of the stack, and memory in proportion to the file.
//!
//! # Why it holds
//! Only trees nest, and a [`Dialect`](tree::Dialect) limits their depth before they are built. A caller that multiplies what is written
//! (a matrix, a nested graph) counts first, under limits of its own.
#![forbid(unsafe_code)]

pub mod amounts;
mod clean;
pub mod cycle;
pub mod fields;
mod json;
pub mod picture;
mod problem;
pub mod reference;
pub mod source;
mod suggest;
pub mod tree;
pub mod units;

pub use clean::{clean, clean_lines, without_logins};
pub use problem::{Location, Problem, Problems, Report, Span};
pub use suggest::{did_you_mean, nearest};
