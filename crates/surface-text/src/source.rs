//! From a file to the tree of its values.
//!
//! Room: driver.
//!
//! The only file here that reads the disk.
//!
//! # Invariant
//! No more than the limit is read, also of a file without a length; what is not UTF-8, TOML or JSON is reported with its location.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::fields::Values;
use crate::json::json;
use crate::problem::{Problems, Report};
use crate::tree::{Dialect, Table, toml};

/// The bytes of a file, and its folder, absolute. One byte more than `most` is read, so that [`tree`] can detect it.
///
/// # Errors
/// Why it cannot be read; `help` says which file to name instead.
///
/// ```
/// let problems = surface_text::source::read("no-such.toml".as_ref(), 100, "name another").unwrap_err();
/// assert!(problems.to_string().starts_with("no-such.toml: cannot be read: "));
/// ```
pub fn read(path: &Path, most: usize, help: &str) -> Result<(Vec<u8>, PathBuf), Problems> {
    let unreadable = |error: std::io::Error| {
        Problems::of_file(&path.display().to_string(), format!("cannot be read: {error}"), help)
    };
    let file = File::open(path).map_err(unreadable)?;
    let mut bytes = Vec::new();
    // One byte more than allowed shows that a file is too long, also if it has no length, as a pipe.
    file.take(most as u64 + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    let absolute = std::path::absolute(path).map_err(unreadable)?;
    Ok((bytes, absolute.parent().unwrap_or(Path::new("/")).to_owned()))
}

/// The tree of a text, and what is needed to read its fields. The ending of `file` chooses the syntax: `.json`, else TOML.
///
/// # Errors
/// Everything that is wrong with its syntax.
pub fn tree<'t>(
    file: &str,
    bytes: &'t [u8],
    most: usize,
    too_long: &str,
    dialect: &Dialect,
) -> Result<(Table<'t>, Values<'t>), Problems> {
    if bytes.len() > most {
        return Err(Problems::of_file(file, format!("has more than {most} bytes, the limit"), too_long));
    }
    let ending =
        Path::new(file).extension().and_then(|ending| ending.to_str()).unwrap_or_default().to_ascii_lowercase();
    if ending == "yaml" || ending == "yml" {
        return Err(Problems::of_file(file, "is YAML by its name, which is not supported", "write it as TOML or JSON"));
    }
    let mut report = Report::default();
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => {
            let at = error.valid_up_to();
            report.add(&(at..at + 1), format!("byte 0x{:02X} is not UTF-8", bytes[at]), "save the file as UTF-8");
            return Err(report.finish(file, bytes));
        }
    };
    let tree = if ending == "json" { json(text, dialect, &mut report) } else { toml(text, dialect, &mut report) };
    if report.is_empty() { Ok((tree, Values { source: text, report })) } else { Err(report.finish(file, bytes)) }
}
