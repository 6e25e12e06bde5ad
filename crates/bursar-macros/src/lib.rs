//! The attribute that makes ordinary functions answer to their budget.
#![forbid(unsafe_code)]

mod args;
mod items;
mod weave;

use proc_macro::TokenStream;
use quote::{ToTokens, quote};
use syn::{Item, parse_macro_input, parse_quote};

use crate::{args::Args, weave::Weaver};

/// doc
#[proc_macro_attribute]
pub fn budgeted(args: TokenStream, item: TokenStream) -> TokenStream {
    let untouched = proc_macro2::TokenStream::from(item.clone());
    let Args { interval, home } = match syn::parse(args) {
        Ok(args) => args,
        Err(error) => return refuse(error, untouched),
    };
    let mut item = parse_macro_input!(item as Item);
    let weaver = Weaver { fuel: parse_quote!(#home::__budget::Fuel), interval };
    match items::budget(&mut item, &weaver) {
        Ok(()) => item.into_token_stream().into(),
        Err(error) => refuse(error, untouched),
    }
}

/// The refusal, and the item as it was: without it everything that uses it would be an error too.
fn refuse(error: syn::Error, untouched: proc_macro2::TokenStream) -> TokenStream {
    let error = error.into_compile_error();
    quote!(#error #untouched).into()
}
