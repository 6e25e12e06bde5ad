//! Programs that the tools need and cargo can build: the user's, or one in the target folder.
//!
//! Nothing is installed outside the target folder, and nothing silently.

use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::steps::{Cargo, works};
use crate::target_dir;

/// A program of a registry, and what `cargo install` is told besides its name.
pub(crate) struct Tool {
    pub(crate) name: &'static str,
    pub(crate) options: &'static [&'static str],
}

impl Tool {
    /// The program: the user's, the one in the target folder, or a new one there.
    pub(crate) fn path(&self) -> Result<OsString, String> {
        if starts(self.name) {
            return Ok(self.name.into());
        }
        let folder = target_dir().join("tools");
        let program = folder.join("bin").join(self.name);
        if !program.exists() {
            println!("{} is missing; fetching and building it in {}", self.name, folder.display());
            Cargo::new(&["install", self.name, "--locked", "--root", &folder.to_string_lossy()])
                .args(self.options)
                .run()
                .map_err(|error| {
                    format!("{0} could not be built; install it: `cargo install {0}`\n{error}", self.name)
                })?;
        }
        Ok(program.into())
    }

    /// As `path`, for a subcommand of cargo: the program to call with the subcommand first.
    pub(crate) fn subcommand(&self) -> Result<OsString, String> {
        let subcommand = self.name.trim_start_matches("cargo-");
        if works(&[subcommand, "--version"]) {
            return Ok(crate::steps::cargo());
        }
        self.path()
    }
}

/// Whether a program is there and starts.
pub(crate) fn starts(program: &str) -> bool {
    let mut command = Command::new(program);
    command.arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Runs a program and gives what it printed; `Err` if it fails.
pub(crate) fn output(command: &mut Command) -> Result<String, String> {
    let shown = shown(command);
    let output = command.output().map_err(|error| format!("cannot start {shown}: {error}"))?;
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    match output.status.success() {
        true => Ok(printed),
        false => Err(format!("{}{printed}\nthe command was: {shown}", String::from_utf8_lossy(&output.stderr))),
    }
}

/// A command as a person would type it.
fn shown(command: &Command) -> String {
    let words: Vec<_> = std::iter::once(command.get_program()).chain(command.get_args()).collect();
    words.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

/// An error that names its file.
pub(crate) fn at(path: &Path) -> impl Fn(std::io::Error) -> String {
    let path = path.display().to_string();
    move |error| format!("{path}: {error}")
}
