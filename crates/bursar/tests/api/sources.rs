//! The sources of the workspace, and what a name in them stands for.
//!
//! A name is looked up as the compiler does, as far as re-exports need it: an item of the module, then its `use`s, then its globs, then a module of that name.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use syn::{Attribute, Item, UseTree, Visibility};

/// A module, by its path: the first segment is the crate.
pub(crate) type ModulePath = Vec<String>;

pub(crate) struct Module {
    /// The text of its file, of which spans are ranges.
    pub(crate) text: String,
    pub(crate) items: Vec<Item>,
    uses: Vec<Use>,
}

/// One name that a `use` brings into a module, or a glob.
struct Use {
    name: Option<String>,
    path: Vec<String>,
    is_public: bool,
}

/// An item: a module and a place in it, or the module itself.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Def {
    pub(crate) module: ModulePath,
    /// None: it is the module, or something of the standard library.
    pub(crate) item: Option<usize>,
}

/// Names that are brought from module to module in circles are not followed for ever.
const STEPS_MAX: usize = 12;

/// Surfaces that stand below the facade.
const BELOW: [&str; 2] = ["surface-janus", "surface-text"];

pub(crate) struct Sources {
    pub(crate) modules: HashMap<ModulePath, Module>,
}

impl Sources {
    /// Those of all crates below `crates`, but for the ones that stand on the facade.
    pub(crate) fn read(crates: &Path) -> Self {
        let mut sources = Self { modules: HashMap::new() };
        for folder in fs::read_dir(crates).expect("the crates of the workspace") {
            let src = folder.unwrap().path().join("src");
            let folder = src.parent().and_then(Path::file_name).unwrap().to_string_lossy();
            let is_below = !folder.starts_with("surface-") || BELOW.contains(&&*folder);
            if src.join("lib.rs").exists() && is_below {
                sources.read_file(&src.join("lib.rs"), &src, vec![folder.replace('-', "_")]);
            }
        }
        sources
    }

    /// `children` is the folder in which the modules of this file lie.
    fn read_file(&mut self, file: &Path, children: &Path, path: ModulePath) {
        let text = fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let parsed = syn::parse_file(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        self.add(text, parsed.items, children, path);
    }

    fn add(&mut self, text: String, items: Vec<Item>, children: &Path, path: ModulePath) {
        let mut uses = Vec::new();
        for item in &items {
            match item {
                Item::Use(item) => flatten(&item.tree, &mut Vec::new(), is_public(&item.vis), &mut uses),
                Item::Mod(module) if !is_test(&module.attrs) => {
                    let name = module.ident.to_string();
                    let inside = below(&path, &name);
                    let folder = children.join(&name);
                    match &module.content {
                        Some((_, items)) => self.add(text.clone(), items.clone(), &folder, inside),
                        None => {
                            let files = [children.join(format!("{name}.rs")), folder.join("mod.rs")];
                            let file = files.iter().find(|file| file.exists());
                            // One that another target chooses is not read.
                            if let Some(file) = file.map(PathBuf::as_path) {
                                self.read_file(file, &folder, inside);
                            }
                        }
                    }
                }
                _ => {}
            }
        }
        self.modules.insert(path, Module { text, items, uses });
    }

    /// The item that a definition stands for. None: a module.
    pub(crate) fn item(&self, def: &Def) -> Option<&Item> {
        def.item.map(|at| &self.modules[&def.module].items[at])
    }

    /// All names that are public in a module, and what they stand for.
    pub(crate) fn public_names(&self, module: &ModulePath) -> Vec<(String, Def)> {
        let of = &self.modules[module];
        let mut names = Vec::new();
        for (at, item) in of.items.iter().enumerate() {
            if let Some((name, vis, attrs)) = named(item)
                && is_public(vis)
                && !is_hidden(attrs)
            {
                let def = match item {
                    Item::Mod(_) => Def { module: [&module[..], std::slice::from_ref(&name)].concat(), item: None },
                    _ => Def { module: module.clone(), item: Some(at) },
                };
                names.push((name, def));
            }
        }
        for one in of.uses.iter().filter(|one| one.is_public) {
            match &one.name {
                Some(name) => {
                    let is_std = matches!(one.path[0].as_str(), "alloc" | "core" | "std");
                    let outside = is_std.then(|| Def { module: one.path.clone(), item: None });
                    let def = self.find(module, &one.path).or(outside);
                    names.push((name.clone(), def.unwrap_or_else(|| panic!("{}: no `{name}`", module.join("::")))));
                }
                None => {
                    let glob = self.find_within(STEPS_MAX, module, &one.path, true).expect("the module of a glob");
                    names.extend(self.public_names(&glob.module));
                }
            }
        }
        names
    }

    /// What `path`, as it is written in `module`, stands for. None: something outside the workspace.
    pub(crate) fn find(&self, module: &ModulePath, path: &[String]) -> Option<Def> {
        self.find_within(STEPS_MAX, module, path, false)
    }

    fn find_within(&self, steps: usize, module: &ModulePath, path: &[String], wants_module: bool) -> Option<Def> {
        let (mut at, mut rest) = (module.clone(), path);
        let first = path.first()?.as_str();
        match first {
            "crate" => (at, rest) = (vec![module[0].clone()], &path[1..]),
            "self" => rest = &path[1..],
            _ if !self.modules.contains_key(&below(module, first)) && self.is_crate(first) => {
                (at, rest) = (vec![first.to_owned()], &path[1..]);
            }
            _ => {}
        }
        while rest.first().is_some_and(|segment| segment == "super") {
            at.pop();
            rest = &rest[1..];
        }
        let Some((name, modules)) = rest.split_last() else { return Some(Def { module: at, item: None }) };
        for segment in modules {
            let found = self.lookup(steps, &at, segment, true)?;
            at = found.module;
        }
        self.lookup(steps, &at, name, wants_module)
    }

    fn is_crate(&self, name: &str) -> bool {
        self.modules.contains_key(std::slice::from_ref(&name.to_owned()))
    }

    fn lookup(&self, steps: usize, module: &ModulePath, name: &str, wants_module: bool) -> Option<Def> {
        let of = self.modules.get(module)?;
        let steps = steps.checked_sub(1)?;
        let own = of
            .items
            .iter()
            .position(|item| !matches!(item, Item::Mod(_)) && named(item).is_some_and(|(own, ..)| own == name));
        if let Some(at) = own.filter(|_| !wants_module) {
            return Some(Def { module: module.clone(), item: Some(at) });
        }
        let child = below(module, name);
        if wants_module && self.modules.contains_key(&child) {
            return Some(Def { module: child, item: None });
        }
        let used = of.uses.iter().filter(|one| one.name.as_deref() == Some(name));
        let mut used = used.filter(|one| one.path.last().is_some_and(|last| last != name) || one.path.len() > 1);
        if let Some(def) = used.find_map(|one| self.find_within(steps, module, &one.path, wants_module)) {
            return Some(def);
        }
        let is_open = |item: &Item| matches!(item, Item::Mod(module) if module.ident == name && is_public(&module.vis));
        if !wants_module && self.modules.contains_key(&child) && of.items.iter().any(is_open) {
            return Some(Def { module: child, item: None });
        }
        let mut globs = of.uses.iter().filter(|one| one.name.is_none());
        let in_glob = globs.find_map(|one| {
            let glob = self.find_within(steps, module, &one.path, true)?;
            self.lookup(steps, &glob.module, name, wants_module)
        });
        let exported = || if module.len() == 1 { self.exported_macro(&module[0], name) } else { None };
        in_glob.or_else(exported).or_else(|| {
            let at = of.items.iter().position(|item| makes(item, name)).filter(|_| !wants_module)?;
            Some(Def { module: module.clone(), item: Some(at) })
        })
    }

    fn exported_macro(&self, of: &str, name: &str) -> Option<Def> {
        self.modules.iter().filter(|(path, _)| path[0] == of).find_map(|(path, module)| {
            let at = module.items.iter().position(|item| match item {
                Item::Macro(item) => item.ident.as_ref().is_some_and(|ident| ident == name) && is_exported(&item.attrs),
                Item::Fn(item) => item.sig.ident == name && has(&item.attrs, "proc_macro_attribute"),
                _ => false,
            })?;
            Some(Def { module: path.clone(), item: Some(at) })
        })
    }
}

/// Whether a call of a macro is given that name, and so, as far as one sees, makes it.
fn makes(item: &Item, name: &str) -> bool {
    let is_it = |token: &str| token.trim_matches(|c: char| !c.is_alphanumeric() && c != '_') == name;
    matches!(item, Item::Macro(call) if call.ident.is_none() && call.mac.tokens.to_string().split_whitespace().any(is_it))
}

fn below(module: &ModulePath, name: &str) -> ModulePath {
    [&module[..], &[name.to_owned()]].concat()
}

fn flatten(tree: &UseTree, path: &mut Vec<String>, is_public: bool, uses: &mut Vec<Use>) {
    match tree {
        UseTree::Path(tree) => {
            path.push(tree.ident.to_string());
            flatten(&tree.tree, path, is_public, uses);
            path.pop();
        }
        UseTree::Name(tree) if tree.ident == "self" => {
            uses.push(Use { name: path.last().cloned(), path: path.clone(), is_public });
        }
        UseTree::Name(tree) => {
            let name = tree.ident.to_string();
            uses.push(Use { name: Some(name.clone()), path: [&path[..], &[name]].concat(), is_public });
        }
        UseTree::Rename(tree) => {
            let path = [&path[..], &[tree.ident.to_string()]].concat();
            uses.push(Use { name: Some(tree.rename.to_string()), path, is_public });
        }
        UseTree::Glob(_) => uses.push(Use { name: None, path: path.clone(), is_public }),
        UseTree::Group(tree) => tree.items.iter().for_each(|tree| flatten(tree, path, is_public, uses)),
    }
}

/// The name of an item, who sees it, and its attributes.
pub(crate) fn named(item: &Item) -> Option<(String, &Visibility, &[Attribute])> {
    let (ident, vis, attrs) = match item {
        Item::Const(item) => (&item.ident, &item.vis, &item.attrs),
        Item::Enum(item) => (&item.ident, &item.vis, &item.attrs),
        Item::Fn(item) => (&item.sig.ident, &item.vis, &item.attrs),
        Item::Mod(item) if !is_test(&item.attrs) => (&item.ident, &item.vis, &item.attrs),
        Item::Static(item) => (&item.ident, &item.vis, &item.attrs),
        Item::Struct(item) => (&item.ident, &item.vis, &item.attrs),
        Item::Trait(item) => (&item.ident, &item.vis, &item.attrs),
        Item::Type(item) => (&item.ident, &item.vis, &item.attrs),
        Item::Union(item) => (&item.ident, &item.vis, &item.attrs),
        _ => return None,
    };
    Some((ident.to_string(), vis, attrs))
}

pub(crate) fn is_public(vis: &Visibility) -> bool {
    matches!(vis, Visibility::Public(_))
}

pub(crate) fn has(attrs: &[Attribute], name: &str) -> bool {
    attrs.iter().any(|attr| attr.path().is_ident(name))
}

fn is_exported(attrs: &[Attribute]) -> bool {
    has(attrs, "macro_export")
}

/// `#[doc(hidden)]`.
pub(crate) fn is_hidden(attrs: &[Attribute]) -> bool {
    attrs.iter().any(|attr| {
        attr.path().is_ident("doc")
            && matches!(&attr.meta, syn::Meta::List(list) if list.tokens.to_string() == "hidden")
    })
}

/// `#[cfg(test)]`.
fn is_test(attrs: &[Attribute]) -> bool {
    attrs.iter().any(|attr| {
        attr.path().is_ident("cfg") && matches!(&attr.meta, syn::Meta::List(list) if list.tokens.to_string() == "test")
    })
}
