//! A tree as it is written becomes a tree that means something: names, types, and what may stand where.
//!
//! Room: decisions. Knows both trees; knows nothing of the IR.
//!
//! | code | refused |
//! |---|---|
//! | N1001 | `spawn`, or a call of an async function, where no nursery waits for the task |
//! | N1002 | `await` outside an async function; `main` may |
//! | N1003 | concurrency in `:core` |
//! | N1004 | `spawn` in `:sovereign` without `needs: spawn` |
//!
//! # Invariant
//! All problems are reported, not only the first. An expression that is wrong is reported once: what is built on it is not.

mod expressions;
mod profile;
mod scopes;
mod statements;
pub(crate) mod tree;

use std::collections::HashMap;

pub use profile::Profile;

use surface_text::{Report, Span};

use self::profile::Rules;
use self::scopes::Scopes;
use self::tree::{Scalar, Tree, Type};
use crate::syntax::ast::{self, Name};

/// A checked program, its profile, and whether it says that it spawns. None if anything is wrong.
pub(crate) fn check(file: &ast::File, host: Option<Profile>, report: &mut Report) -> Option<(Tree, Profile, bool)> {
    let rules = profile::rules(&file.pragmas, host, report);
    let signatures = signatures(file, report);
    let mut spawned = vec![false; file.functions.len()];
    let mut functions = Vec::with_capacity(file.functions.len());
    for (id, function) in file.functions.iter().enumerate() {
        let checker = Checker::new(&signatures, rules, id, report, &mut spawned);
        functions.push(checker.function(function));
    }
    if !signatures.by_name.contains_key("main") && file.functions.is_empty() {
        report.add(&(0..0), "the program has no function", "write `func main() do … end`");
    }
    let functions: Option<Vec<_>> = functions.into_iter().collect();
    let mut functions = functions.filter(|_| report.is_empty())?;
    for (function, spawned) in functions.iter_mut().zip(spawned) {
        function.is_task = spawned || function.is_async || function.name == "main";
    }
    Some((Tree { functions }, rules.profile, rules.needs_spawn))
}

/// What callers know of a function.
struct Signature {
    name: String,
    parameters: Vec<Type>,
    result: Scalar,
    is_async: bool,
}

struct Signatures {
    all: Vec<Signature>,
    by_name: HashMap<String, usize>,
}

/// Functions that are always there.
const BUILT_IN: [&str; 2] = ["print", "channel"];

fn signatures(file: &ast::File, report: &mut Report) -> Signatures {
    let mut found = Signatures { all: Vec::new(), by_name: HashMap::new() };
    for (id, function) in file.functions.iter().enumerate() {
        let Name { text, at } = &function.name;
        if BUILT_IN.contains(&text.as_str()) {
            report.add(at, format!("`{text}` is a function of the language"), "choose another name");
        } else if found.by_name.insert(text.clone(), id).is_some() {
            report.add(at, format!("there are two functions `{text}`"), "rename one of them");
        }
        let parameters = function.parameters.iter().map(|(_, ty)| variable_type(ty, report)).collect();
        let result = match &function.result {
            None => Scalar::Unit,
            Some(ty) => match ty.text.as_str() {
                "i64" => Scalar::I64,
                "bool" => Scalar::Bool,
                other => {
                    report.add(
                        &ty.at,
                        format!("a function cannot return `{other}`"),
                        "it returns `i64`, `bool` or nothing",
                    );
                    Scalar::I64
                }
            },
        };
        found.all.push(Signature { name: text.clone(), parameters, result, is_async: function.is_async });
    }
    found
}

/// A type that is written beside a variable; `I64` if it is wrong.
fn variable_type(name: &Name, report: &mut Report) -> Type {
    match name.text.as_str() {
        "i64" => Type::I64,
        "bool" => Type::Bool,
        "chan" => Type::Chan,
        other => {
            let help = surface_text::did_you_mean(other, ["i64", "bool", "chan"])
                .unwrap_or_else(|| "there are `i64`, `bool` and `chan`, a channel of i64".into());
            report.add(&name.at, format!("there is no type `{other}`"), help);
            Type::I64
        }
    }
}

/// Checks one function.
struct Checker<'a> {
    signatures: &'a Signatures,
    rules: Rules,
    id: usize,
    report: &'a mut Report,
    /// Which functions are spawned somewhere.
    spawned: &'a mut [bool],
    scopes: Scopes,
    /// Nurseries and loops around the statement, within its function, and not outside a `defer` it is in.
    nurseries: usize,
    loops: usize,
    in_defer: bool,
    /// Of each open block, whether it owns a nursery.
    owners: Vec<bool>,
}

impl<'a> Checker<'a> {
    fn new(
        signatures: &'a Signatures,
        rules: Rules,
        id: usize,
        report: &'a mut Report,
        spawned: &'a mut [bool],
    ) -> Self {
        let scopes = Scopes::default();
        Self {
            signatures,
            rules,
            id,
            report,
            spawned,
            scopes,
            nurseries: 0,
            loops: 0,
            in_defer: false,
            owners: Vec::new(),
        }
    }

    fn function(mut self, function: &ast::Function) -> Option<tree::Function> {
        let signature = &self.signatures.all[self.id];
        if function.is_async {
            self.refuse_in_core(&function.name.at, "an async function");
        }
        self.scopes.open();
        for ((name, _), ty) in function.parameters.iter().zip(&signature.parameters) {
            self.declare(name, *ty, false);
        }
        let body = self.block(&function.body);
        if signature.result != Scalar::Unit && !statements::always_leaves(&function.body) {
            let message = format!("`{}` can reach its end without a value", function.name.text);
            let ty = Type::from(signature.result).name();
            self.report.add(&function.end, message, format!("it returns {ty}: end every way through it with `return`"));
        }
        Some(tree::Function {
            name: function.name.text.clone(),
            is_async: function.is_async,
            is_task: false,
            parameters: function.parameters.len(),
            locals: self.scopes.into_types(),
            result: signature.result,
            body: body?,
            at: function.name.at.clone(),
            end: function.end.clone(),
        })
    }

    /// `main` counts as async: nothing is around it that would have to be.
    fn may_await(&self) -> bool {
        let signature = &self.signatures.all[self.id];
        signature.is_async || signature.name == "main"
    }

    fn declare(&mut self, name: &Name, ty: Type, is_var: bool) -> tree::Local {
        if name.text != "_" && self.scopes.is_in_this_block(&name.text) {
            let message = format!("`{}` is there already in this block", name.text);
            self.report.add(&name.at, message, "choose another name, or assign to it");
        }
        self.scopes.declare(&name.text, ty, is_var)
    }

    fn refuse_in_core(&mut self, at: &Span, what: &str) {
        if self.rules.profile == Profile::Core {
            let help = "`:core` is one thread: write `{.profile: service.}` at the top, or do without";
            self.report.add(at, format!("N1003: {what} in a program of profile `:core`"), help);
        }
    }
}
