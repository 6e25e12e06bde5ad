//! Which functions get checks, and which cannot.
//!
//! Room: surface.
//!
//! # Invariant
//! Every function of the annotated item gets its checks, is exempt by `#[budgeted(skip)]`, has an attribute of its own,
//! or is refused. None is left out silently, except those that another macro expands later.

use syn::{Abi, Attribute, Block, Error, Ident, ImplItem, Item, ItemMod, LitStr, Result, Signature, TraitItem};

use crate::instrument::Instrumenter;

const NO_BODY: &str = "there is no body to put checks into; write `#[budgeted]` on the functions that have one";
const NOT_A_FUNCTION: &str = "`#[budgeted]` puts checks into functions; write it on a `fn`, or on an `impl`, `trait` or `mod` for all functions in it";
const CONST: &str = "a `const fn` may run in the compiler, where there is no budget; leave out `const` or `#[budgeted]`, \
    or inside a budgeted impl, trait or mod exempt it by `#[budgeted(skip)]`";
const FOREIGN: &str = "a check may unwind, and out of this ABI that ends the process; write `extern \"C-unwind\"`, \
    or call a budgeted Rust function from here";
const ELSEWHERE: &str =
    "the functions of this `mod` are in another file; write `#[budgeted]` on the items there, or `mod name { … }` here";

/// Puts checks into every function of `item`. All errors are reported at once.
pub(crate) fn budget(item: &mut Item, instrumenter: &Instrumenter) -> Result<()> {
    match item {
        Item::Fn(item) => function(&item.sig, &mut item.block, instrumenter),
        Item::Impl(item) => all(&mut item.items, |item| in_impl(item, instrumenter)),
        Item::Trait(item) => all(&mut item.items, |item| in_trait(item, instrumenter)),
        Item::Mod(item) => in_mod(item, instrumenter),
        // To `syn` a function without a body is no item, only tokens.
        Item::Verbatim(tokens) => Err(Error::new_spanned(tokens, NO_BODY)),
        other => Err(Error::new_spanned(other, NOT_A_FUNCTION)),
    }
}

fn function(signature: &Signature, block: &mut Block, instrumenter: &Instrumenter) -> Result<()> {
    if let Some(constness) = &signature.constness {
        return Err(Error::new_spanned(constness, CONST));
    }
    if let Some(abi) = signature.abi.as_ref().filter(|abi| !may_unwind(abi)) {
        return Err(Error::new_spanned(abi, FOREIGN));
    }
    instrumenter.function(block);
    Ok(())
}

fn may_unwind(abi: &Abi) -> bool {
    let name = abi.name.as_ref().map(LitStr::value);
    name.is_some_and(|name| name == "Rust" || name.ends_with("-unwind"))
}

fn in_impl(item: &mut ImplItem, instrumenter: &Instrumenter) -> Result<()> {
    match item {
        ImplItem::Fn(item) => unless_annotated(&mut item.attrs, || function(&item.sig, &mut item.block, instrumenter)),
        _ => Ok(()),
    }
}

fn in_trait(item: &mut TraitItem, instrumenter: &Instrumenter) -> Result<()> {
    match item {
        TraitItem::Fn(item) => unless_annotated(&mut item.attrs, || match &mut item.default {
            Some(block) => function(&item.sig, block, instrumenter),
            None => Ok(()),
        }),
        _ => Ok(()),
    }
}

fn in_mod(item: &mut ItemMod, instrumenter: &Instrumenter) -> Result<()> {
    let Some((_, items)) = &mut item.content else {
        return Err(Error::new_spanned(item, ELSEWHERE));
    };
    all(items, |item| match item {
        Item::Fn(item) => unless_annotated(&mut item.attrs, || function(&item.sig, &mut item.block, instrumenter)),
        Item::Impl(item) => {
            unless_annotated(&mut item.attrs, || all(&mut item.items, |item| in_impl(item, instrumenter)))
        }
        Item::Trait(item) => {
            unless_annotated(&mut item.attrs, || all(&mut item.items, |item| in_trait(item, instrumenter)))
        }
        Item::Mod(item) => {
            let mut attributes = std::mem::take(&mut item.attrs);
            let outcome = unless_annotated(&mut attributes, || in_mod(item, instrumenter));
            item.attrs = attributes;
            outcome
        }
        _ => Ok(()),
    })
}

/// Visits every item, so that every error is reported.
fn all<T>(items: &mut [T], mut each: impl FnMut(&mut T) -> Result<()>) -> Result<()> {
    let refusals = items.iter_mut().filter_map(|item| each(item).err());
    let together = refusals.reduce(|mut all, refusal| {
        all.combine(refusal);
        all
    });
    together.map_or(Ok(()), Err)
}

/// Runs `budget`, unless the item has an attribute of its own: that one is expanded later, and its checks would be
/// charged twice. `skip` is meant for us, and removed.
fn unless_annotated(attributes: &mut Vec<Attribute>, budget: impl FnOnce() -> Result<()>) -> Result<()> {
    let is_ours = |attribute: &Attribute| attribute.path().segments.last().is_some_and(|name| name.ident == "budgeted");
    let Some(place) = attributes.iter().position(is_ours) else {
        return budget();
    };
    let word = attributes[place].parse_args::<Ident>();
    if word.is_ok_and(|word| word == "skip") {
        attributes.remove(place);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use quote::ToTokens;
    use syn::parse_quote;

    use super::*;

    fn outcome(mut item: Item) -> std::result::Result<String, Vec<String>> {
        let instrumenter = Instrumenter { fuel: parse_quote!(Fuel), interval: None };
        match budget(&mut item, &instrumenter) {
            Ok(()) => Ok(item.into_token_stream().to_string()),
            Err(errors) => Err(errors.into_iter().map(|error| error.to_string()).collect()),
        }
    }

    #[test]
    fn what_has_no_budget_is_refused_by_name() {
        for (item, refusal) in [
            (
                parse_quote!(
                    const fn f() {}
                ),
                CONST,
            ),
            (
                parse_quote!(
                    extern "C" fn f() {}
                ),
                FOREIGN,
            ),
            (
                parse_quote!(
                    extern "C" fn f() {}
                ),
                FOREIGN,
            ),
            (
                parse_quote!(
                    extern "system" fn f() {}
                ),
                FOREIGN,
            ),
            (
                parse_quote!(
                    struct S;
                ),
                NOT_A_FUNCTION,
            ),
            (
                parse_quote!(
                    mod elsewhere;
                ),
                ELSEWHERE,
            ),
            (
                parse_quote!(
                    fn f();
                ),
                NO_BODY,
            ),
            (
                parse_quote!(
                    mod m {
                        mod elsewhere;
                    }
                ),
                ELSEWHERE,
            ),
            (
                parse_quote!(
                    trait T {
                        const fn f() {}
                    }
                ),
                CONST,
            ),
        ] {
            assert_eq!(outcome(item), Err(vec![refusal.to_owned()]));
        }
    }

    #[test]
    fn all_errors_are_reported_at_once() {
        let item = parse_quote!(impl S {
            const fn a() {}
            fn b() {}
            extern "C" fn c() {}
        });
        assert_eq!(outcome(item), Err(vec![CONST.to_owned(), FOREIGN.to_owned()]));
    }

    #[test]
    fn what_is_exempt_loses_the_mark_and_nothing_else() {
        let item = parse_quote!(
            mod m {
                #[inline]
                #[bursar::budgeted(skip)]
                const fn f() {}
            }
        );
        let plain: Item = parse_quote!(
            mod m {
                #[inline]
                const fn f() {}
            }
        );
        assert_eq!(outcome(item), Ok(plain.into_token_stream().to_string()));
    }

    #[test]
    fn an_attribute_of_its_own_is_left_for_later() {
        let item: Item = parse_quote!(impl S {
            #[budgeted(interval = 3)]
            fn f() {}
        });
        assert_eq!(outcome(item.clone()), Ok(item.into_token_stream().to_string()));
    }
}
