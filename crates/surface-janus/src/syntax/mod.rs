//! Text to tree: tokens, then functions, statements and expressions with their places in the file.
//!
//! Room: surface. Knows what is written; knows nothing of what names and types mean.
//!
//! # Invariant
//! Any text gives a tree and a list of problems; the tree is whole if the list is empty. No text overflows the stack.
//!
//! # Why it holds
//! Only statements and expressions nest, and both count their depth against `NESTING_MAX` before they go down.

pub(crate) mod ast;
mod expressions;
mod lexer;
mod parser;
mod statements;
mod token;

pub(crate) use parser::parse;
