//! The arguments of the attribute.
//!
//! Room: surface.
//!
//! # Invariant
//! Every accepted argument makes an expansion that compiles and ends: the interval is a number from 1 to `u32::MAX`,
//! the crate a path.

use syn::{
    Error, Ident, LitInt, Path, Result, Token,
    ext::IdentExt,
    parse::{Parse, ParseStream},
    parse_quote,
};

/// `#[budgeted(interval = 512, crate = path::to::bursar)]`.
pub(crate) struct Args {
    /// Iterations between two checks; none: the runtime's interval.
    pub(crate) interval: Option<u32>,
    /// The path of the facade crate.
    pub(crate) facade: Path,
}

impl Parse for Args {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let (mut interval, mut facade) = (None, None);
        while !input.is_empty() {
            let name = input.call(Ident::parse_any)?;
            let again = match name.to_string().as_str() {
                "interval" => interval.replace(parse_interval(&name, input)?).is_some(),
                "crate" => facade.replace(parse_facade(&name, input)?).is_some(),
                "skip" => return Err(Error::new(name.span(), SKIP_ALONE)),
                other => return Err(Error::new(name.span(), unknown(other))),
            };
            if again {
                return Err(Error::new(name.span(), format!("`{name}` is given twice; leave one of them out")));
            }
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        Ok(Self { interval, facade: facade.unwrap_or_else(|| parse_quote!(::bursar)) })
    }
}

const SKIP_ALONE: &str = "`skip` exempts a function of a `#[budgeted]` impl, trait or mod, and stands alone in the \
    brackets; nothing around this function is budgeted, so leave the attribute out";

fn unknown(name: &str) -> String {
    format!("`budgeted` does not know `{name}`; write `interval = 512` or `crate = path::to::bursar`")
}

fn equals(name: &Ident, input: ParseStream<'_>, example: &str) -> Result<()> {
    let missing = |_| Error::new(name.span(), format!("`{name}` needs a value; write `{example}`"));
    input.parse::<Token![=]>().map(drop).map_err(missing)
}

fn parse_interval(name: &Ident, input: ParseStream<'_>) -> Result<u32> {
    equals(name, input, "interval = 512")?;
    let number: LitInt = input.parse().map_err(|error| {
        Error::new(error.span(), "the interval is a whole number from 1 to 4294967295; write `interval = 512`")
    })?;
    match number.base10_parse::<u32>() {
        Ok(0) => Err(Error::new(
            number.span(),
            "an interval of 0 is never reached; write `interval = 1` to check every time",
        )),
        Ok(interval) => Ok(interval),
        Err(_) => {
            let message = format!("the interval {number} is above the limit of 4294967295; write a smaller one");
            Err(Error::new(number.span(), message))
        }
    }
}

fn parse_facade(name: &Ident, input: ParseStream<'_>) -> Result<Path> {
    let example = "crate = path::to::bursar";
    equals(name, input, example)?;
    let no_path = |error: Error| {
        Error::new(
            error.span(),
            format!("`crate` is the path of the `bursar` crate, without quotes; write `{example}`"),
        )
    };
    input.call(Path::parse_mod_style).map_err(no_path)
}

#[cfg(test)]
mod tests {
    use quote::ToTokens;

    use super::*;

    fn refusal(text: &str) -> String {
        syn::parse_str::<Args>(text).err().unwrap_or_else(|| panic!("`{text}` was accepted")).to_string()
    }

    #[test]
    fn both_arguments_in_any_order_and_none_at_all() {
        for text in ["interval = 512, crate = a::b", "crate = a::b, interval = 512,"] {
            let args: Args = syn::parse_str(text).unwrap();
            assert_eq!(args.interval, Some(512), "{text}");
            assert_eq!(args.facade.to_token_stream().to_string(), "a :: b", "{text}");
        }
        let args: Args = syn::parse_str("").unwrap();
        assert_eq!(args.interval, None);
        assert_eq!(args.facade.to_token_stream().to_string(), ":: bursar");
    }

    #[test]
    fn a_refusal_says_what_to_write_instead() {
        for (text, way_out) in [
            ("every = 3", "`every`; write `interval = 512`"),
            ("interval", "write `interval = 512`"),
            ("interval = fast", "write `interval = 512`"),
            ("interval = 0", "write `interval = 1`"),
            ("interval = 4294967296", "above the limit of 4294967295"),
            ("interval = 1, interval = 2", "leave one of them out"),
            ("crate = \"bursar\"", "without quotes"),
            ("skip", "leave the attribute out"),
        ] {
            let refusal = refusal(text);
            assert!(refusal.contains(way_out), "{text}: {refusal}");
        }
    }
}
