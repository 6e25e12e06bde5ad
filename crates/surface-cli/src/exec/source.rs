//! From a file, or standard input, to a program that is verified.
//!
//! Room: surface.
//!
//! # Invariant
//! What gets out of here was verified, whether it was written in Janus or in QTJIR.
//!
//! # Why it holds
//! A [`Program`] has no other door: the compiler verifies what it made, and `from_ir` takes a `Verified`.

use std::io::Read;
use std::path::Path;

use bursar::janus::{CallError, Options as Compile, Problems, Profile, Program, Value, ir, limits};

use super::Options;
use super::name;
use crate::exit::{Exit, Failure};

/// A program, and the text it was made from.
pub(super) struct Source {
    pub(super) program: Program,
    /// Empty for QTJIR: its lines are those of a source that is not here.
    text: String,
}

/// Who asks for a program: the way out is an option, or a field of the job.
#[derive(Clone, Copy)]
pub(crate) enum Asker<'a> {
    CommandLine,
    /// The name of the job.
    Job(&'a str),
}

impl Asker<'_> {
    /// What a message begins with.
    fn prefix(self) -> String {
        match self {
            Asker::CommandLine => String::new(),
            Asker::Job(job) => format!("job `{job}`: "),
        }
    }
}

/// Why there is no program.
pub(super) enum Unusable {
    /// Everything that is wrong with the text.
    Invalid(Problems),
    /// The text could not even be read.
    Unread(Failure),
}

impl From<Problems> for Unusable {
    fn from(problems: Problems) -> Self {
        Unusable::Invalid(problems)
    }
}

impl Source {
    /// Reads and compiles.
    pub(super) fn load(options: &Options, asker: Asker<'_>) -> Result<Source, Unusable> {
        let is_ir = options.file.extension().is_some_and(|ending| ending == "qtjir");
        let most = if is_ir { limits::IR_BYTES_MAX } else { limits::SOURCE_BYTES_MAX };
        let name = name(options);
        let bytes =
            if options.is_stdin() { stdin(most).map_err(Unusable::Unread)? } else { file(&options.file, most, asker)? };
        if is_ir {
            return Self::of_ir(options, name, &bytes);
        }
        let mut compile = Compile::new().name(name);
        if let Some(profile) = options.profile {
            compile = compile.profile(profile);
        }
        let program = Program::compile_bytes(&bytes, &compile)?;
        Ok(Source { program, text: String::from_utf8(bytes).unwrap_or_default() })
    }

    fn of_ir(options: &Options, name: String, bytes: &[u8]) -> Result<Source, Unusable> {
        if options.profile.is_some() {
            let why = "--profile is for a program in Janus; a file of QTJIR is run as `service`";
            return Err(Unusable::Unread(Failure::usage(why)));
        }
        let text = std::str::from_utf8(bytes)
            .map_err(|_| Problems::of_file(&name, "is not UTF-8", "run what `--emit qtjir` prints"))?;
        let verified = ir::verify(ir::parse(&name, text)?).map_err(|refused| {
            Problems::of_file(&name, format!("is refused: {refused}"), "run what `--emit qtjir` prints")
        })?;
        Ok(Source { program: Program::from_ir(verified, name), text: String::new() })
    }

    /// Whether `main` can be called as it is asked for.
    pub(super) fn callable(&self, options: &Options, asker: Asker<'_>) -> Result<(), Failure> {
        let (prefix, name) = (asker.prefix(), name(options));
        let (tasks, arguments) = match asker {
            Asker::CommandLine => ("`--tasks N`", "write `--arg VALUE` for each"),
            Asker::Job(_) => ("`tasks = N` in the job", "write them as `args = […]` in the job"),
        };
        if self.program.profile() == Profile::Sovereign && self.program.needs_spawn() && options.tasks.is_none() {
            return Err(Failure::broken(format!(
                "{prefix}{name} is of profile `sovereign` and needs to start tasks; grant it with {tasks}, so many at a time"
            )));
        }
        let Err(error) = self.program.accepts("main", &options.args) else { return Ok(()) };
        Err(match error {
            CallError::NoFunction { .. } => {
                let message = format!("{prefix}{name} has no function `main`; write `func main() do … end`");
                Failure::new(Exit::BadFile, message)
            }
            CallError::Arguments { wanted, .. } => {
                let given: Vec<_> = options.args.iter().map(Value::to_string).collect();
                let given = if given.is_empty() { "none".to_owned() } else { given.join(", ") };
                let wanted = if wanted.is_empty() { "none".to_owned() } else { wanted };
                Failure::usage(format!(
                    "{prefix}`main` of {name} takes arguments: {wanted}; given: {given}; {arguments}"
                ))
            }
            other => Failure::new(Exit::BadFile, format!("{prefix}{name}: {other}")),
        })
    }

    /// The column of the first thing in a line, from 1; none if the text is not here.
    pub(super) fn column(&self, line: u32) -> Option<usize> {
        let text = self.text.lines().nth((line as usize).checked_sub(1)?)?;
        let indent = text.len() - text.trim_start().len();
        Some(text[..indent].chars().count() + 1)
    }
}

fn file(path: &Path, most: usize, asker: Asker<'_>) -> Result<Vec<u8>, Problems> {
    let help = match asker {
        Asker::CommandLine => "name a file with a Janus program, such as hello.jan; `-` for standard input".to_owned(),
        Asker::Job(job) => format!("name a Janus program in `exec` of job `{job}`, relative to the job file"),
    };
    surface_text::source::read(path, most, &help).map(|(bytes, _)| bytes)
}

/// One byte more than the limit, so that a longer text is refused.
fn stdin(most: usize) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    let read = std::io::stdin().lock().take(most as u64 + 1).read_to_end(&mut bytes);
    read.map(|_| bytes).map_err(|error| Failure::broken(format!("cannot read standard input: {error}")))
}
