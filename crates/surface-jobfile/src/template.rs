//! Placeholders: `{scene}` in a command is replaced by a value.
//!
//! Room: surface.
//!
//! Pure: no clock, no file, no thread.
//!
//! # Invariant
//! Only `{key}` of a known key is replaced; every other brace is the shell's and stays as it is: `${HOME}`, `{ a; }`,
//! `{a,b}`, `{}`, `{{.Go}}`. The length of a result is known before it is built.
//!
//! # Rejected
//! `{{` for `{` everywhere: `${A:-${B}}` and the templates of other tools would silently lose braces. Only
//! `{{key}}`, which would otherwise be replaced, means the text `{key}`.

use surface_text::nearest;

/// The key that is always there: the name of the instance.
pub(crate) const JOB: &str = "job";

/// A text with placeholders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Template {
    parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    /// By the index of its key.
    Value(usize),
    Job,
}

/// A placeholder that is almost one of the keys.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NearMiss {
    pub(crate) written: String,
    pub(crate) meant: String,
}

impl Template {
    pub(crate) fn read(text: &str, keys: &[&str]) -> Result<Self, NearMiss> {
        let mut parts = Vec::new();
        let mut plain = String::new();
        let mut rest = text;
        while let Some(brace) = rest.find('{') {
            let (before, from) = rest.split_at(brace);
            plain.push_str(before);
            let shell = before.ends_with('$') || (before.is_empty() && plain.ends_with('$'));
            let doubled = from.starts_with("{{");
            let name = ident(&from[1 + usize::from(doubled)..]);
            let known = keys.iter().position(|key| Some(*key) == name);
            let miss = || name.and_then(|name| nearest(name, keys.iter().copied()));
            let end = name.map_or(0, |name| name.len() + 2);
            match name {
                Some(name) if doubled && from[end..].starts_with("}}") => {
                    if known.is_some() || name == JOB || miss().is_some() {
                        plain.push_str(&from[1..end + 1]);
                    } else {
                        plain.push_str(&from[..end + 2]);
                    }
                    rest = &from[end + 2..];
                }
                Some(name) if !doubled && !shell && (known.is_some() || name == JOB) => {
                    if !plain.is_empty() {
                        parts.push(Part::Text(std::mem::take(&mut plain)));
                    }
                    parts.push(known.map_or(Part::Job, Part::Value));
                    rest = &from[end..];
                }
                Some(name) if !doubled && !shell => {
                    if let Some(meant) = miss() {
                        return Err(NearMiss { written: name.to_owned(), meant: meant.to_owned() });
                    }
                    plain.push_str(&from[..end]);
                    rest = &from[end..];
                }
                _ => {
                    plain.push('{');
                    rest = &from[1..];
                }
            }
        }
        plain.push_str(rest);
        if !plain.is_empty() {
            parts.push(Part::Text(plain));
        }
        Ok(Self { parts })
    }

    /// Bytes of the result; saturates.
    pub(crate) fn len(&self, job: &str, values: &[&str]) -> usize {
        self.parts.iter().map(|part| self.part(part, job, values).len()).fold(0, usize::saturating_add)
    }

    pub(crate) fn fill(&self, job: &str, values: &[&str]) -> String {
        let mut text = String::with_capacity(self.len(job, values));
        for part in &self.parts {
            text.push_str(self.part(part, job, values));
        }
        text
    }

    fn part<'a>(&'a self, part: &'a Part, job: &'a str, values: &[&'a str]) -> &'a str {
        match part {
            Part::Text(text) => text,
            Part::Value(index) => values[*index],
            Part::Job => job,
        }
    }

    /// Whether every instance gets the same.
    pub(crate) fn is_plain(&self) -> bool {
        self.parts.iter().all(|part| matches!(part, Part::Text(_)))
    }

    /// Which values it takes.
    pub(crate) fn uses(&self, key: usize) -> bool {
        self.parts.contains(&Part::Value(key))
    }

    /// Whether it takes the name of the job, and so all of its values.
    pub(crate) fn uses_job(&self) -> bool {
        self.parts.contains(&Part::Job)
    }
}

/// The name before a `}`. It reads no further than the name; otherwise a line of many braces would be read many times.
fn ident(text: &str) -> Option<&str> {
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '-')?;
    (text[end..].starts_with('}') && is_ident(&text[..end])).then(|| &text[..end])
}

/// A letter or `_`, then letters, digits, `_`, `-`.
pub(crate) fn is_ident(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(text: &str) -> String {
        let template = Template::read(text, &["scene", "os"]).unwrap();
        let result = template.fill("image[7,linux]", &["7", "linux"]);
        assert_eq!(template.len("image[7,linux]", &["7", "linux"]), result.len());
        result
    }

    #[test]
    fn known_keys_and_the_name_of_the_job_are_replaced() {
        assert_eq!(filled("render {scene} -o {scene}-{os}.png # {job}"), "render 7 -o 7-linux.png # image[7,linux]");
    }

    #[test]
    fn the_shell_keeps_its_braces() {
        for line in [
            "echo ${HOME} ${scene}",
            "{ a; b; }",
            "awk '{print $1}'",
            "find . -exec ls {} +",
            "echo {a,b}",
            "${A:-${B}}",
            "docker ps --format '{{.Names}}'",
            "x{",
            "}{",
            "{unknown}",
            "{{unknown}}",
            "$",
        ] {
            assert_eq!(filled(line), line);
        }
    }

    #[test]
    fn doubled_braces_are_the_text_of_a_placeholder() {
        assert_eq!(filled("{{scene}} {{job}} {{scenes}} {scene}"), "{scene} {job} {scenes} 7");
    }

    #[test]
    fn a_placeholder_that_is_almost_a_key_is_an_error() {
        let miss = Template::read("echo {scnee}", &["scene"]).unwrap_err();
        assert_eq!(miss, NearMiss { written: "scnee".into(), meant: "scene".into() });
    }
}
