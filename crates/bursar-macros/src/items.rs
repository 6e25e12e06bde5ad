//! Which functions are meant, and which cannot be.
//!
//! # Invariant
//! Every function of the annotated item gets its checks, is exempt by `#[budgeted(skip)]`, has an attribute of its own, or is refused. None is left out
//! silently, except those that a macro is yet to write.

use syn::{Abi, Attribute, Block, Error, Ident, ImplItem, Item, ItemMod, LitStr, Result, Signature, TraitItem};

use crate::weave::Weaver;

const NO_BODY: &str = "there is no body to put checks into; write `#[budgeted]` on the functions that have one";
const NOT_A_FUNCTION: &str = "`#[budgeted]` puts checks into functions; write it on a `fn`, or on an `impl`, `trait` or `mod` for all functions in it";
const CONST: &str = "a `const fn` may run in the compiler, where nobody has a budget; leave out `const` or `#[budgeted]`, \
    or inside a budgeted impl, trait or mod exempt it by `#[budgeted(skip)]`";
const FOREIGN: &str = "a check may unwind, and out of this ABI that ends the process; write `extern \"C-unwind\"`, \
    or call a budgeted Rust function from here";
const ELSEWHERE: &str =
    "the functions of this `mod` are in another file; write `#[budgeted]` on the items there, or `mod name { … }` here";

/// Puts checks into every function of `item`. All refusals are told at once.
pub(crate) fn budget(item: &mut Item, weaver: &Weaver) -> Result<()> {
    match item {
        Item::Fn(item) => function(&item.sig, &mut item.block, weaver),
        Item::Impl(item) => all(&mut item.items, |item| in_impl(item, weaver)),
        Item::Trait(item) => all(&mut item.items, |item| in_trait(item, weaver)),
        Item::Mod(item) => in_mod(item, weaver),
        // To `syn` a function without a body is no item, only tokens.
        Item::Verbatim(tokens) => Err(Error::new_spanned(tokens, NO_BODY)),
        other => Err(Error::new_spanned(other, NOT_A_FUNCTION)),
    }
}

fn function(signature: &Signature, block: &mut Block, weaver: &Weaver) -> Result<()> {
    if let Some(constness) = &signature.constness {
        return Err(Error::new_spanned(constness, CONST));
    }
    if let Some(abi) = signature.abi.as_ref().filter(|abi| !may_unwind(abi)) {
        return Err(Error::new_spanned(abi, FOREIGN));
    }
    weaver.function(block);
    Ok(())
}

fn may_unwind(abi: &Abi) -> bool {
    let name = abi.name.as_ref().map(LitStr::value);
    name.is_some_and(|name| name == "Rust" || name.ends_with("-unwind"))
}

fn in_impl(item: &mut ImplItem, weaver: &Weaver) -> Result<()> {
    match item {
        ImplItem::Fn(item) => unless_told(&mut item.attrs, || function(&item.sig, &mut item.block, weaver)),
        _ => Ok(()),
    }
}

fn in_trait(item: &mut TraitItem, weaver: &Weaver) -> Result<()> {
    match item {
        TraitItem::Fn(item) => unless_told(&mut item.attrs, || match &mut item.default {
            Some(block) => function(&item.sig, block, weaver),
            None => Ok(()),
        }),
        _ => Ok(()),
    }
}

fn in_mod(item: &mut ItemMod, weaver: &Weaver) -> Result<()> {
    let Some((_, items)) = &mut item.content else {
        return Err(Error::new_spanned(item, ELSEWHERE));
    };
    all(items, |item| match item {
        Item::Fn(item) => unless_told(&mut item.attrs, || function(&item.sig, &mut item.block, weaver)),
        Item::Impl(item) => unless_told(&mut item.attrs, || all(&mut item.items, |item| in_impl(item, weaver))),
        Item::Trait(item) => unless_told(&mut item.attrs, || all(&mut item.items, |item| in_trait(item, weaver))),
        Item::Mod(item) => {
            let mut attributes = std::mem::take(&mut item.attrs);
            let outcome = unless_told(&mut attributes, || in_mod(item, weaver));
            item.attrs = attributes;
            outcome
        }
        _ => Ok(()),
    })
}

/// Every item has its turn, so that every refusal is told.
fn all<T>(items: &mut [T], mut each: impl FnMut(&mut T) -> Result<()>) -> Result<()> {
    let refusals = items.iter_mut().filter_map(|item| each(item).err());
    let together = refusals.reduce(|mut all, refusal| {
        all.combine(refusal);
        all
    });
    together.map_or(Ok(()), Err)
}

/// Does `budget`, unless the item has an attribute of its own: that one is expanded later, and twice would be charged twice.
/// `skip` is for us, and taken away.
fn unless_told(attributes: &mut Vec<Attribute>, budget: impl FnOnce() -> Result<()>) -> Result<()> {
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
        let weaver = Weaver { fuel: parse_quote!(Fuel), interval: None };
        match budget(&mut item, &weaver) {
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
    fn all_refusals_are_told_at_once() {
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
