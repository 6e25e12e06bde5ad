//! Compiles the Janus programs that nodes name.
//!
//! Room: surface. Knows files, which it reads only; knows nothing of running.
//!
//! # Invariant
//! In a plan without problems, every node of kind `janus` has a program, with its function, which takes its arguments.
//!
//! # Why it ends
//! Only regular files are read: a pipe or a terminal could keep the reader waiting. Each is read once, however many nodes name it.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use bursar::janus::{CallError, Options, Problems, Profile, Program, Value, ir, limits};
use surface_text::Span;
use surface_text::fields::Values;
use surface_text::units::clip;

use crate::action::{Action, Janus};
use crate::flatten::Flat;

/// Compiles them all. `flow` is the flow file as it was named: programs are named after it in messages.
pub(crate) fn compile(flat: &mut Flat, flow: &Path, base: &Path, values: &mut Values<'_>) {
    let folder = flow.parent().unwrap_or(Path::new(""));
    let mut known: HashMap<PathBuf, Option<Program>> = HashMap::new();
    for (node, at) in flat.nodes.iter_mut().zip(&flat.node_spans) {
        let Action::Janus(janus) = &mut node.action else { continue };
        let program = known.entry(janus.file.clone()).or_insert_with(|| {
            match load(&base.join(&janus.file), &folder.join(&janus.file)) {
                Ok(program) => return Some(program),
                Err(Unusable::Invalid(problems)) => values.report.include(problems),
                Err(Unusable::Unread(why)) => {
                    let message =
                        format!("node `{}` runs {}, which cannot be read: {why}", node.id, janus.file.display());
                    values.report.add(at, message, "name a Janus program with `file`, relative to the flow file");
                }
            }
            None
        });
        janus.program = program.clone();
        if let Some(program) = program {
            fits(program, janus, &node.id, at, values);
        }
    }
}

/// Why there is no program.
enum Unusable {
    /// Everything that is wrong with it.
    Invalid(Problems),
    /// It could not even be read.
    Unread(String),
}

fn load(path: &Path, name: &Path) -> Result<Program, Unusable> {
    let unread = |error: io::Error| Unusable::Unread(error.to_string());
    if !fs::metadata(path).map_err(unread)?.is_file() {
        return Err(Unusable::Unread("it is not a file".to_owned()));
    }
    let mut bytes = Vec::new();
    // One byte more than allowed, so that the compiler refuses a longer one.
    let most = limits::SOURCE_BYTES_MAX as u64 + 1;
    File::open(path).and_then(|file| file.take(most).read_to_end(&mut bytes)).map_err(unread)?;
    Program::compile_bytes(&bytes, &Options::new().name(name.display().to_string())).map_err(Unusable::Invalid)
}

/// The function is there, and takes what it is given.
fn fits(program: &Program, janus: &Janus, id: &str, at: &Span, values: &mut Values<'_>) {
    if program.profile() == Profile::Sovereign && program.needs_spawn() {
        let file = janus.file.display();
        let message = format!(
            "node `{id}` runs {file}, which is of profile `sovereign` and needs to start tasks; a flow grants that to none"
        );
        return values.report.add(
            at,
            message,
            "write `{.profile: service.}` in the program; `spawns` of the node limits its tasks",
        );
    }
    let Some((parameters, _)) = janus.signature() else {
        if let Err(error) = program.accepts(&janus.function, &[]) {
            let message = format!("node `{id}` calls `{}` of {}: {error}", clip(&janus.function), janus.file.display());
            values.report.add(at, message, "name a function of the program with `function`");
        }
        return;
    };
    let sample: Option<Vec<Value>> = parameters.iter().map(sample).collect();
    let Some(sample) = sample else {
        let message =
            format!("`{}` of {} takes a channel, and node `{id}` has none", janus.function, janus.file.display());
        return values.report.add(at, message, "call a function of `i64` and `bool`, which makes its own channels");
    };
    if let Err(error @ CallError::NotATask { .. }) = program.accepts(&janus.function, &sample) {
        return values.report.add(at, format!("node `{id}`: {error}"), "write `async func`");
    }
    let given = janus.args.as_ref().map_or(parameters.len().min(1), Vec::len);
    if given != parameters.len() {
        let (function, wanted) = (&janus.function, parameters.len());
        let types: Vec<&str> = parameters.iter().map(|ty| ty.name()).collect();
        let message =
            format!("`{function}` takes {wanted} arguments ({}), and node `{id}` gives {given}", types.join(", "));
        values.report.add(at, message, format!("write `args = […]` with {wanted} fields of the message"));
    }
}

/// A value of this type; none for what no message has.
fn sample(ty: &ir::Type) -> Option<Value> {
    match ty {
        ir::Type::I64 => Some(Value::Int(0)),
        ir::Type::Bool => Some(Value::Bool(false)),
        _ => None,
    }
}
