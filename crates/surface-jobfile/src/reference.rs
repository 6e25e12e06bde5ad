//! The reference of job files, for people and for editors: written from the table that files are read by.
//!
//! Room: surface.
//!
//! Pure: no clock, no file, no thread.

use serde_json::{Value, json};
use surface_text::reference::{Entry, Part, Reference, described, object, schema_text};

use crate::keys::{JOB, Key, MOST, RESOURCES, RUN, SHARED, SLURM, TOP};

const EXAMPLE: &str = "\
[resources]
vram = \"8 GB\"

[job.storyboard]
run = \"python storyboard.py --out board.json\"

[job.image]
foreach = { scene = \"1..8\" }
needs = [\"storyboard\"]
run = \"render --scene {scene} board.json -o scene-{scene}.png\"
vram = \"6 GB\"";

fn entries(keys: &[Key]) -> Vec<Entry> {
    keys.iter().map(Key::entry).collect()
}

fn part(heading: &str, about: &str, keys: &[Key], example: &str) -> Part {
    let (heading, about, example) = (heading.to_owned(), about.to_owned(), example.to_owned());
    Part { heading, about, entries: entries(keys), example }
}

/// Everything about job files.
///
/// ```
/// assert!(surface_jobfile::reference().text().contains("on_crash"));
/// ```
pub fn reference() -> Reference {
    Reference {
        title: "Job file",
        intro: "jobs, their dependencies and their resources, in TOML or (if its name ends in .json) JSON. `bursar run FILE` runs it, `bursar check FILE` checks it",
        example: EXAMPLE,
        command: "bursar help jobfile",
        parts: vec![
            part("file", "keys at the top", TOP, ""),
            part(
                "[resources]",
                "limits for all jobs together. Any other key defines a named resource and its amount; at most 64",
                RESOURCES,
                "[resources]\ncpu = 4\nram = \"8 GB\"\nlicence = 2",
            ),
            part("[run]", "how the run is made", RUN, "[run]\non = \"slurm\""),
            part(
                "[slurm]",
                "how jobs go to a Slurm cluster",
                SLURM,
                "[slurm]\npartition = \"gpu\"\naccount = \"film\"\nmodules = [\"cuda/12\"]\nresources = { licence = \"license:renderer\" }",
            ),
            part(
                "[job.NAME]",
                "a job. A name starts with a letter, and has letters, digits and any of `_-.:+@/`. It has one of `run`, `command` and `flow`, and any of these fields and of the next section",
                JOB,
                "[job.image]\nforeach = { scene = \"1..8\" }\nneeds = [\"storyboard\"]\nrun = \"render {scene}\"\noutputs = [\"scene-{scene}.png\"]",
            ),
            part(
                "[job.NAME] and [defaults]",
                "fields of a job that `[defaults]` may set for all jobs. Any other key is how much the job takes of a named resource of `[resources]`",
                SHARED,
                "[defaults]\ntimeout = \"10m\"\n\n[job.render]\nrun = \"render\"\ngpus = 2\nvram = \"12 GB\"\nlicence = 1",
            ),
        ],
    }
}

/// The same for editors: JSON Schema.
///
/// ```
/// assert!(surface_jobfile::schema().contains("\"ram_limit\""));
/// ```
pub fn schema() -> String {
    let count = || Some(json!({ "type": "integer", "minimum": 0, "maximum": MOST }));
    let (job, shared) = (entries(JOB), entries(SHARED));
    let mut file = object(&entries(TOP), None);
    let mut one = object(job.iter().chain(&shared), count());
    one["oneOf"] = json!([{ "required": ["run"] }, { "required": ["command"] }, { "required": ["flow"] }, { "required": ["exec"] }]);
    for (name, section) in [
        ("resources", object(&entries(RESOURCES), count())),
        ("run", object(&entries(RUN), None)),
        ("slurm", object(&entries(SLURM), None)),
        ("defaults", object(&shared, count())),
        ("job", json!({ "type": "object", "minProperties": 1, "additionalProperties": one })),
    ] {
        let about = TOP.iter().find(|part| part.field.name == name).map(Key::entry);
        file["properties"][name] = about.map_or(Value::Null, |about| described(&about, section));
    }
    file["required"] = json!(["job"]);
    schema_text("Bursar job file", file)
}
