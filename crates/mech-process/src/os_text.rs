//! Arguments, variables and paths, which are bytes, as JSON text.
//!
//! Room: values.
//!
//! # Invariant
//! Any byte string is the same after it was written and read.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use serde::{Deserialize, Serialize};

/// Bytes as text, one character for each: JSON has no bytes, and file names are not always UTF-8.
fn to_text(bytes: &[u8]) -> String {
    bytes.iter().map(|&byte| char::from(byte)).collect()
}

fn from_text<E: serde::de::Error>(text: &str) -> Result<OsString, E> {
    let byte = |c: char| u8::try_from(u32::from(c)).map_err(|_| E::custom(format!("{c:?} is not a byte")));
    Ok(OsString::from_vec(text.chars().map(byte).collect::<Result<_, _>>()?))
}

macro_rules! as_text {
    ($(#[$doc:meta])* $name:ident, $type:ty, $text:ty, $to:expr, $from:expr) => {
        $(#[$doc])*
        pub(crate) mod $name {
            #[allow(unused_imports, reason = "not every shape needs all")]
            use super::*;
            #[allow(unused_imports, reason = "not every shape needs all")]
            use std::{ffi::OsString, os::unix::ffi::OsStrExt, path::PathBuf};

            pub(crate) fn serialize<S: serde::Serializer>(value: &$type, to: S) -> Result<S::Ok, S::Error> {
                let text: $text = $to(value);
                text.serialize(to)
            }

            pub(crate) fn deserialize<'de, D: serde::Deserializer<'de>>(from: D) -> Result<$type, D::Error> {
                let text = <$text>::deserialize(from)?;
                $from(text)
            }
        }
    };
}

as_text!(
    /// A list of arguments.
    os_list,
    Vec<OsString>,
    Vec<String>,
    |list: &Vec<OsString>| list.iter().map(|word| to_text(word.as_bytes())).collect(),
    |list: Vec<String>| list.iter().map(|word| from_text(word)).collect()
);
as_text!(
    /// Variables.
    os_pairs,
    Vec<(OsString, OsString)>,
    Vec<(String, String)>,
    |list: &Vec<(OsString, OsString)>| list
        .iter()
        .map(|(key, value)| (to_text(key.as_bytes()), to_text(value.as_bytes())))
        .collect(),
    |list: Vec<(String, String)>| list.iter().map(|(key, value)| Ok((from_text(key)?, from_text(value)?))).collect()
);
as_text!(
    /// A path.
    os_path,
    PathBuf,
    String,
    |path: &PathBuf| to_text(path.as_os_str().as_bytes()),
    |text: String| from_text(&text).map(PathBuf::from)
);
as_text!(
    /// A path, or none.
    os_opt_path,
    Option<PathBuf>,
    Option<String>,
    |path: &Option<PathBuf>| path.as_ref().map(|path| to_text(path.as_os_str().as_bytes())),
    |text: Option<String>| text.map(|text| from_text(&text).map(PathBuf::from)).transpose()
);
