//! The fields of a job: what each takes, and an example.
//!
//! Room: surface, values only. How they belong together is known in `src/read.rs`.
//!
//! # Invariant
//! A field is in one of two lists: those that `[defaults]` may have, too, and those of a job alone.

pub(crate) use surface_text::fields::{Field, Spot, Values};

const ALONE: &[Field<'static>] = &[
    Field::new("run", "a shell line", "\"echo hello\""),
    Field::new("command", "a list of a program and its arguments", "[\"echo\", \"hello\"]"),
    Field::new("needs", "a list of jobs, or \"inputs\"", "[\"other\"]"),
    Field::new("foreach", "a table of values", "{ scene = \"1..8\" }"),
    Field::new("exclude", "a list of combinations", "[{ scene = \"3\" }]"),
    Field::new("include", "a list of combinations", "[{ scene = \"9\" }]"),
    Field::new("inputs", "a list of files", "[\"a.json\", \"img/*.png\"]"),
    Field::new("outputs", "a list of files", "[\"film.mp4\"]"),
];

const SHARED: &[Field<'static>] = &[
    Field::new("shell", "the name of a shell", "\"bash\""),
    Field::new("cpu", "a whole number of slots", "1"),
    Field::new("ram", "a size", "\"256 MB\""),
    Field::new("vram", "a size", "\"6 GB\""),
    Field::new("priority", "a whole number", "10"),
    Field::new("retries", "a whole number", "2"),
    Field::new("backoff", "a duration", "\"1s\""),
    Field::new("timeout", "a duration", "\"10m\""),
    Field::new("grace", "a duration", "\"5s\""),
    Field::new("ram_limit", "a size", "\"4 GB\""),
    Field::new("over_ram", "\"kill\" or \"warn\"", "\"kill\""),
    Field::new("pin", "a list of CPU numbers", "[0, 1]"),
    Field::new("nice", "a whole number", "5"),
    Field::new("env", "a table of variables", "{ LANG = \"C\" }"),
    Field::new("cwd", "a folder", "\"sub\""),
    Field::new("incomplete", "\"remove\" or \"keep\"", "\"remove\""),
    Field::new("on_crash", "\"adopt\", \"restart\" or \"fail\"", "\"adopt\""),
];

/// Other places a value can stand in.
pub(crate) const NAME: Field<'static> = Field::new("name", "a text", "\"render\"");
pub(crate) const VALUE: Field<'static> = Field::new("foreach", "texts and numbers", "{ os = [\"linux\", \"mac\"] }");

/// A named resource, or the demand for one.
pub(crate) const fn resource(name: &str) -> Field<'_> {
    Field::new(name, "a whole number", "1")
}

/// All of them, those of a job alone first.
pub(crate) fn fields() -> impl Iterator<Item = &'static Field<'static>> {
    ALONE.iter().chain(SHARED)
}

pub(crate) fn field(name: &str) -> Option<&'static Field<'static>> {
    fields().find(|field| field.name == name)
}

/// Whether `[defaults]` may have it.
pub(crate) fn is_shared(field: &Field<'_>) -> bool {
    SHARED.iter().any(|shared| shared.name == field.name)
}
