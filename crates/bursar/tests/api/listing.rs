//! The public interface as text: every name that users reach, with its signatures, fields, variants, methods and traits.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::Span;
use syn::spanned::Spanned;
use syn::{Attribute, Fields, GenericArgument, GenericParam, ImplItem, Item, ItemImpl, PathArguments, TraitItem, Type};

use crate::sources::{Def, ModulePath, Sources, has, is_hidden, is_public};

/// Names that users reach: by the module they are in.
pub(crate) type Names = BTreeMap<String, BTreeMap<String, Vec<Def>>>;

/// All names that are public in a module, and in the modules that are public in it.
pub(crate) fn names(sources: &Sources, module: &ModulePath, called: &str, names: &mut Names) {
    for (name, def) in sources.public_names(module) {
        if sources.modules.contains_key(&def.module) && def.item.is_none() {
            self::names(sources, &def.module, &format!("{called}::{name}"), names);
            continue;
        }
        let found = names.entry(called.to_owned()).or_default().entry(name).or_default();
        if !found.contains(&def) {
            found.push(def);
        }
    }
    // What macros make there is not seen: the call stands for it.
    for (at, item) in sources.modules[module].items.iter().enumerate() {
        if let Item::Macro(item) = item
            && item.ident.is_none()
            && module.len() > 1
        {
            let name = format!("{}!", item.mac.path.segments.last().unwrap().ident);
            let def = Def { module: module.clone(), item: Some(at) };
            names.entry(called.to_owned()).or_default().entry(name).or_default().push(def);
        }
    }
}

/// The text.
pub(crate) fn listing(sources: &Sources, names: &Names) -> String {
    let impls = impls(sources);
    let mut text = String::new();
    for (module, names) in names {
        text += &format!("\n{module}\n");
        for (name, defs) in names {
            for def in defs {
                text += &entry(sources, def, name, impls.get(&(def.module.clone(), def.item)));
            }
        }
    }
    text
}

type Impls<'s> = BTreeMap<(ModulePath, Option<usize>), Vec<(&'s str, &'s ModulePath, &'s ItemImpl)>>;

/// All impl blocks, by the type that they are for.
fn impls(sources: &Sources) -> Impls<'_> {
    let mut impls = Impls::new();
    let modules: BTreeMap<_, _> = sources.modules.iter().collect();
    for (path, module) in modules {
        for item in &module.items {
            let Item::Impl(item) = item else { continue };
            let mut of = &*item.self_ty;
            while let Type::Reference(reference) = of {
                of = &reference.elem;
            }
            let Type::Path(of) = of else { continue };
            let segments: Vec<String> = of.path.segments.iter().map(|segment| segment.ident.to_string()).collect();
            if let Some(def) = sources.find(path, &segments) {
                impls.entry((def.module, def.item)).or_default().push((&module.text, path, item));
            }
        }
    }
    impls
}

fn entry(sources: &Sources, def: &Def, name: &str, impls: Option<&Vec<(&str, &ModulePath, &ItemImpl)>>) -> String {
    let Some(module) = sources.modules.get(&def.module) else { return format!("  use {}\n", def.module.join("::")) };
    let text = &*module.text;
    let (mut lines, mut methods) = (Vec::new(), BTreeSet::new());
    let (head, attrs): (String, &[Attribute]) = match sources.item(def).expect("an item") {
        Item::Const(item) => (format!("const {name}: {}", slice(text, item.ty.span())), &item.attrs),
        Item::Static(item) => (format!("static {name}: {}", slice(text, item.ty.span())), &item.attrs),
        Item::Fn(item) if has(&item.attrs, "proc_macro_attribute") => (format!("attribute #[{name}]"), &item.attrs),
        Item::Fn(item) => (slice(text, item.sig.span()), &item.attrs),
        Item::Macro(item) if item.ident.is_some() => (format!("macro {name}!"), &item.attrs),
        Item::Macro(item) if name.ends_with('!') => (slice(text, item.mac.span()), &item.attrs),
        Item::Macro(item) => (format!("{name}, made by {}!", slice(text, item.mac.path.span())), &item.attrs),
        Item::Type(item) => {
            (format!("type {}", slice(text, item.ident.span().join(item.ty.span()).unwrap())), &item.attrs)
        }
        Item::Struct(item) => {
            lines.extend(fields(text, &item.fields, true));
            (format!("struct {name}{}", generics(text, &item.generics)), &item.attrs)
        }
        Item::Enum(item) => {
            for variant in item.variants.iter().filter(|variant| !is_hidden(&variant.attrs)) {
                let fields = fields(text, &variant.fields, false);
                lines.push(match &variant.fields {
                    Fields::Unit => variant.ident.to_string(),
                    Fields::Named(_) => format!("{} {{ {} }}", variant.ident, fields.join(", ")),
                    Fields::Unnamed(_) => format!("{}({})", variant.ident, fields.join(", ")),
                });
            }
            (format!("enum {name}{}", generics(text, &item.generics)), &item.attrs)
        }
        Item::Trait(item) => {
            for item in &item.items {
                lines.extend(match item {
                    TraitItem::Fn(item) if !is_hidden(&item.attrs) => {
                        let provided = if item.default.is_some() { " { … }" } else { "" };
                        Some(slice(text, item.sig.span()) + provided)
                    }
                    TraitItem::Const(item) => Some(slice(text, item.span())),
                    TraitItem::Type(item) => Some(format!("type {}", item.ident)),
                    _ => None,
                });
            }
            let bounds: Vec<_> = item.supertraits.iter().map(|bound| slice(text, bound.span())).collect();
            let bounds = if bounds.is_empty() { String::new() } else { format!(": {}", bounds.join(" + ")) };
            (format!("trait {name}{}{bounds}", generics(text, &item.generics)), &item.attrs)
        }
        _ => panic!("`{name}` is of a kind that is not listed yet"),
    };
    let open = if has(attrs, "non_exhaustive") { "#[non_exhaustive] " } else { "" };
    let mut traits = derived(text, attrs);
    for (text, module, item) in impls.into_iter().flatten() {
        match &item.trait_ {
            Some((_, path, _)) => {
                let segments: Vec<String> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
                // Traits of the workspace that users do not see say nothing to them.
                let of = sources.find(module, &segments);
                let is_seen = of.is_none_or(|def| match sources.item(&def) {
                    Some(Item::Trait(item)) => is_public(&item.vis) && !def.module.iter().any(|part| part == "sealed"),
                    _ => true,
                });
                if is_seen {
                    let generics = generics(text, &item.generics);
                    let of = slice(text, item.self_ty.span());
                    let target = if of == name { String::new() } else { format!(" for {of}") };
                    let target = if generics.is_empty() { target } else { format!(" for {generics} {of}") };
                    let called = path.segments.last().map(|segment| slice(text, segment.span())).unwrap();
                    traits.insert(format!("{called}{target}"));
                }
            }
            None => {
                // Of which ones it is, unless it is of all.
                let of = if is_of_all(item) {
                    String::new()
                } else {
                    format!("{} {}: ", generics(text, &item.generics), slice(text, item.self_ty.span()))
                        .trim_start()
                        .to_owned()
                };
                for member in &item.items {
                    methods.extend(match member {
                        ImplItem::Fn(item) if is_public(&item.vis) && !is_hidden(&item.attrs) => {
                            Some(format!("{of}{}", slice(text, item.sig.span())))
                        }
                        ImplItem::Const(item) if is_public(&item.vis) && !is_hidden(&item.attrs) => {
                            Some(format!("{of}const {}: {}", item.ident, slice(text, item.ty.span())))
                        }
                        _ => None,
                    });
                }
            }
        }
    }
    let mut entry = format!("  {open}{head}\n");
    for line in lines.into_iter().chain(methods) {
        entry += &format!("    {line}\n");
    }
    if !traits.is_empty() {
        entry += &format!("    impl {}\n", traits.into_iter().collect::<Vec<_>>().join(", "));
    }
    entry
}

/// Whether an impl block is for its type whatever its parameters are.
fn is_of_all(item: &ItemImpl) -> bool {
    let Type::Path(of) = &*item.self_ty else { return false };
    let is_bound = |parameter: &GenericParam| matches!(parameter, GenericParam::Type(one) if !one.bounds.is_empty());
    let is_parameter = |argument: &GenericArgument| match argument {
        GenericArgument::Lifetime(_) => true,
        GenericArgument::Type(Type::Path(one)) => {
            item.generics.type_params().any(|parameter| one.path.is_ident(&parameter.ident))
        }
        _ => false,
    };
    let arguments = of.path.segments.last().map(|segment| &segment.arguments);
    let is_free = match arguments {
        Some(PathArguments::AngleBracketed(arguments)) => arguments.args.iter().all(is_parameter),
        _ => true,
    };
    is_free && item.generics.where_clause.is_none() && !item.generics.params.iter().any(is_bound)
}

/// Public fields; those that are not are two dots.
fn fields(text: &str, fields: &Fields, needs_pub: bool) -> Vec<String> {
    let mut lines = Vec::new();
    let mut hides = false;
    for field in fields {
        if needs_pub && !is_public(&field.vis) {
            hides = true;
            continue;
        }
        let of = slice(text, field.ty.span());
        lines.push(match &field.ident {
            Some(ident) => format!("{}{ident}: {of}", if needs_pub { "pub " } else { "" }),
            None => format!("{}{of}", if needs_pub { "pub " } else { "" }),
        });
    }
    if hides && !lines.is_empty() {
        lines.push("..".to_owned());
    }
    lines
}

fn generics(text: &str, generics: &syn::Generics) -> String {
    let parameters: Vec<_> = generics.params.iter().map(|parameter| slice(text, parameter.span())).collect();
    let clause =
        generics.where_clause.as_ref().map_or(String::new(), |clause| format!(" {}", slice(text, clause.span())));
    if parameters.is_empty() { clause } else { format!("<{}>{clause}", parameters.join(", ")) }
}

fn derived(text: &str, attrs: &[Attribute]) -> BTreeSet<String> {
    let derives = attrs.iter().filter(|attr| attr.path().is_ident("derive"));
    let lists = derives.filter_map(|attr| match &attr.meta {
        syn::Meta::List(list) => Some(slice(text, list.tokens.span())),
        _ => None,
    });
    lists.flat_map(|list| list.split(", ").map(str::to_owned).collect::<Vec<_>>()).collect()
}

/// The source text of a span, on one line.
fn slice(text: &str, span: Span) -> String {
    let words: Vec<&str> = text[span.byte_range()].split_whitespace().collect();
    let line = words.join(" ");
    line.replace("(mut self", "(self")
        .replace("( ", "(")
        .replace(", )", ")")
        .replace(" .", ".")
        .replace(", >", ">")
        .replace("< ", "<")
}
