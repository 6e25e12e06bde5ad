//! The attribute `#[budgeted]`, which makes ordinary functions obey their budget.
//!
//! Room: interface.
#![forbid(unsafe_code)]

mod args;
mod instrument;
mod items;
mod plain;

use proc_macro::TokenStream;
use quote::{ToTokens, quote};
use syn::{Item, parse_macro_input, parse_quote};

use crate::{args::Args, instrument::Instrumenter};

/// Puts yield checks into a function, so that it obeys its budget and cancellation without calling `checkpoint()`.
///
/// ```
/// use bursar::{budgeted, nursery};
///
/// #[budgeted]
/// fn spin() {
///     loop {} // no checkpoint to be seen
/// }
///
/// let outcome = nursery(|n| {
///     n.spawn(spin);
///     n.cancel();
///     Ok(())
/// });
/// assert!(outcome.unwrap_err().is_cancelled()); // and it has ended
/// ```
///
/// | where | costs | checks |
/// |---|---|---|
/// | entry of the function | 1 operation | every time |
/// | iteration of `for`, `while`, `while let`, `loop` | 1 operation | every 1024th, or as the runtime or `interval` says |
/// | `.await` | nothing | every time, before it waits |
///
/// A check may let other tasks run, stop the task until it is recharged, or end it by unwinding, as `checkpoint()` does.
///
/// # Where to write it
///
/// On a `fn`: free or a method, async, generic, unsafe. On an `impl`, a `trait` or a `mod { … }` it means every function in it, those of inner impls, traits
/// and mods too; `#[budgeted(skip)]` exempts one, and a function with its own attribute follows that.
///
/// ```
/// use bursar::budgeted;
///
/// struct Buffer(Vec<u8>);
///
/// #[budgeted(interval = 512)]
/// impl Buffer {
///     fn zeros(&self) -> usize {
///         let mut zeros = 0;
///         for byte in &self.0 {
///             zeros += usize::from(*byte == 0);
///         }
///         zeros
///     }
///
///     #[budgeted(skip)]
///     const fn new() -> Self {
///         Self(Vec::new())
///     }
/// }
/// assert_eq!(Buffer::new().zeros(), 0);
/// ```
///
/// Closures and async blocks that contain loops or awaits have a counter of their own; entering one is a call.
/// Functions inside a function are left alone unless they have the attribute, and constants always.
///
/// # Arguments
///
/// - `interval = 512`: the number of iterations between two checks, from 1 to 4,294,967,295. Small ones stop sooner and cost more.
/// - `crate = path::to::bursar`: where the facade is, if not at `::bursar`.
///
/// # What it cannot see
///
/// - Arguments of macros: a loop in the arguments of `vec![…]` or `println!(…)` is not checked. Bind its value before.
/// - Loops that are not written here, in iterator adaptors such as `for_each` and `sum`, or in functions without the attribute. Write a `for` loop, or
///   call a budgeted function from the closure.
/// - A loop that counts operations is not vectorised by the compiler. The exception is a loop over a range,
///   `for i in a..b`, that only computes: it is checked once in a chunk of iterations. Else leave the attribute off the
///   innermost function and put it on the one that calls it, block by block.
///
/// # What is refused
///
/// A `const fn`, which the compiler may run:
///
/// ```compile_fail
/// #[bursar::budgeted]
/// const fn answer() -> u32 {
///     42
/// }
/// ```
///
/// A function whose ABI cannot unwind; `extern "C-unwind"` can:
///
/// ```compile_fail
/// #[bursar::budgeted]
/// extern "C" fn callback() {}
/// ```
///
/// An item that is not a function:
///
/// ```compile_fail
/// #[bursar::budgeted]
/// struct Account;
/// ```
///
/// A `const fn` among others that is not exempt:
///
/// ```compile_fail
/// struct Account;
/// #[bursar::budgeted]
/// impl Account {
///     const fn new() -> Self {
///         Self
///     }
/// }
/// ```
///
/// A function without a body:
///
/// ```compile_fail
/// trait Ask {
///     #[bursar::budgeted]
///     fn ask(&self);
/// }
/// ```
///
/// An interval of zero, and unknown arguments:
///
/// ```compile_fail
/// #[bursar::budgeted(interval = 0)]
/// fn never() {}
/// ```
///
/// ```compile_fail
/// #[bursar::budgeted(every = 10)]
/// fn sometimes() {}
/// ```
///
/// ```compile_fail
/// #[bursar::budgeted(skip)]
/// fn exempt_from_nothing() {}
/// ```
#[proc_macro_attribute]
pub fn budgeted(args: TokenStream, item: TokenStream) -> TokenStream {
    let untouched = proc_macro2::TokenStream::from(item.clone());
    let Args { interval, facade } = match syn::parse(args) {
        Ok(args) => args,
        Err(error) => return refuse(error, untouched),
    };
    let mut item = parse_macro_input!(item as Item);
    let instrumenter = Instrumenter { fuel: parse_quote!(#facade::__budget::Fuel), interval };
    match items::budget(&mut item, &instrumenter) {
        Ok(()) => item.into_token_stream().into(),
        Err(error) => refuse(error, untouched),
    }
}

/// The error, and the item as it was: without the item all code that uses it would be an error too.
fn refuse(error: syn::Error, untouched: proc_macro2::TokenStream) -> TokenStream {
    let error = error.into_compile_error();
    quote!(#error #untouched).into()
}

/// Crates of the 2021 edition, where temporaries of the last expression outlive the locals.
///
/// ```edition2021
/// #![deny(warnings, unused)]
/// use std::{cell::RefCell, future::ready};
///
/// #[bursar::budgeted]
/// fn longest(words: &RefCell<Vec<String>>) -> usize {
///     let turns = || { let mut n = 0; while n < 3 { n += 1; } n };
///     for _ in 0..turns() {}
///     words.borrow().iter().map(|word| word.len()).max().unwrap_or(0)
/// }
///
/// #[bursar::budgeted]
/// async fn length(words: &RefCell<Vec<String>>) -> usize {
///     ready(&words.borrow().clone()).await.len()
/// }
///
/// let words = RefCell::new(vec!["four".to_owned()]);
/// assert_eq!(longest(&words), 4);
/// assert_eq!(bursar::block_on(length(&words)), 1);
/// ```
#[cfg(doctest)]
struct Edition2021;
