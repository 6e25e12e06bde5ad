//! The header is what the library exports.
//!
//! Room: tests.

use std::{fs, path::Path};

/// What `include/janus.h` has to be.
fn generated(root: &Path) -> String {
    let config = cbindgen::Config::from_file(root.join("cbindgen.toml")).expect("cbindgen.toml can be read");
    let mut builder = cbindgen::Builder::new().with_config(config);
    // In the order in which a reader wants them.
    for file in ["codes", "scheduler", "tasks", "budget", "nursery", "supervisor", "channel", "cancel_token", "select"]
    {
        builder = builder.with_src(root.join(format!("src/{file}.rs")));
    }
    let mut text = Vec::new();
    builder.generate().expect("the sources can be read").write(&mut text);
    let text = String::from_utf8(text).expect("a header is a text");
    let text = text.replace("//\n// # Safety\n// ", "// The caller promises: ");
    text.lines().map(wrapped).collect()
}

/// A line, a long comment in several.
fn wrapped(line: &str) -> String {
    let indent = &line[..line.len() - line.trim_start().len()];
    let Some(comment) = line.trim_start().strip_prefix("// ").filter(|_| line.len() > WIDTH) else {
        return format!("{line}\n");
    };
    let mut lines = String::new();
    let mut length = 0;
    for word in comment.split(' ') {
        if length == 0 || length + 1 + word.len() > WIDTH {
            lines += if length == 0 { "" } else { "\n" };
            lines += &format!("{indent}// {word}");
            length = indent.len() + 3 + word.len();
        } else {
            lines += &format!(" {word}");
            length += 1 + word.len();
        }
    }
    lines + "\n"
}

const WIDTH: usize = 110;

#[test]
fn the_header_is_what_the_sources_say() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (path, generated) = (root.join("include/janus.h"), generated(root));
    if std::env::var_os("BLESS").is_some() {
        fs::write(&path, &generated).expect("the header can be written");
    }
    let committed = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == generated,
        "include/janus.h is not what the sources say; write it anew: BLESS=1 cargo test -p bursar-surface-capi --test it header"
    );
}

#[test]
fn every_function_that_is_exported_is_in_the_header() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let header = fs::read_to_string(root.join("include/janus.h")).expect("there is a header");
    let mut exported = 0;
    for file in fs::read_dir(root.join("src")).expect("there are sources") {
        let source = fs::read_to_string(file.expect("it can be listed").path()).expect("it can be read");
        let mut lines = source.lines();
        while lines.any(|line| line == "#[unsafe(no_mangle)]") {
            let signature = lines.next().expect("an attribute stands before something");
            let name = signature.split("fn ").nth(1).and_then(|rest| rest.split('(').next()).expect("it is a function");
            assert!(header.contains(&format!("{name}(")), "{name} is exported, but not in the header");
            exported += 1;
        }
    }
    assert!(exported > 40, "only {exported} functions were found");
}
