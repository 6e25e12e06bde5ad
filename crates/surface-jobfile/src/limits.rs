//! How large a job file, and what it expands to, may be.
//!
//! Room: values.
//!
//! # Invariant
//! Whatever a file says, reading it takes memory in proportion to these limits.
//!
//! # Why it holds
//! Products (a matrix, a group needed by a group, a placeholder in a long line) are counted with checked arithmetic
//! before they are built; everything else is as long as the file.

/// What a job file may cost. `Limits::default()` is generous; a service that reads files of strangers lowers it.
///
/// ```
/// use surface_jobfile::{Limits, parse_with};
///
/// let limits = Limits { jobs: 10, ..Limits::default() };
/// let text = "[job.a]\nforeach = { x = '1..11' }\nrun = 'echo {x}'";
/// let problems = parse_with("a.toml", text.as_bytes(), &limits).unwrap_err();
/// assert!(problems.to_string().contains("11 jobs"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Length of the file.
    pub file_bytes: usize,
    /// Jobs after expansion.
    pub jobs: usize,
    /// Needs of all jobs together, after expansion.
    pub edges: usize,
    /// Length of the name of a job, with its values.
    pub name_bytes: usize,
    /// Text of all jobs together (names, commands, environment, files), after expansion.
    pub text_bytes: usize,
    /// Whether `foreach = { file = "glob:…" }` may read the disk.
    pub globs: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            file_bytes: 64 << 20,
            jobs: 1_000_000,
            edges: 10_000_000,
            name_bytes: 512,
            text_bytes: 1 << 30,
            globs: true,
        }
    }
}
