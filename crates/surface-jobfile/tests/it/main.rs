//! What a job file means, and what is said about one that means nothing.
#![allow(missing_docs)]

mod examples;
