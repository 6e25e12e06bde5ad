//! The C compiler of the system, the libraries to link, and the sanitizer if there is one.
//!
//! Room: tests.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
    sync::OnceLock,
};

const WARNINGS: [&str; 4] = ["-Wall", "-Wextra", "-pedantic", "-Werror"];

/// What rustc says an archive needs besides.
const NATIVE: [&str; 6] = ["-lgcc_s", "-lutil", "-lrt", "-lpthread", "-lm", "-ldl"];

/// How a program is linked and watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    Archive,
    Shared,
    Sanitized,
}

pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The archive and the shared library, as cargo says where they are.
fn libraries() -> &'static [PathBuf] {
    static BUILT: OnceLock<Vec<PathBuf>> = OnceLock::new();
    BUILT.get_or_init(|| {
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["build", "-p", "bursar-surface-capi", "--lib", "--message-format=json"]).current_dir(root());
        if !cfg!(debug_assertions) {
            cargo.arg("--release");
        }
        let built = cargo.output().expect("cargo can be started");
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
        let messages = String::from_utf8(built.stdout).expect("messages are texts");
        let of_ours = messages
            .lines()
            .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
            .filter(|message| message["reason"] == "compiler-artifact" && message["target"]["name"] == "janus");
        let files = of_ours.flat_map(|message| message["filenames"].as_array().cloned().unwrap_or_default());
        let files = files.filter_map(|file| file.as_str().map(PathBuf::from));
        files.filter(|file| file.extension().is_some_and(|kind| kind == "a" || kind == "so")).collect()
    })
}

fn library(kind: &str) -> &'static Path {
    let found = libraries().iter().find(|file| file.extension().is_some_and(|found| found == kind));
    found.unwrap_or_else(|| panic!("cargo built no .{kind}: {:?}", libraries()))
}

pub(crate) fn compiler(source: &Path) -> Command {
    if source.extension().is_some_and(|kind| kind == "cpp") {
        let mut compiler = Command::new("c++");
        compiler.arg("-std=c++17");
        return compiler;
    }
    let mut compiler = Command::new("cc");
    compiler.arg("-std=c11");
    compiler
}

pub(crate) fn compile(source: &Path, way: Way, program: &Path) -> Output {
    let mut compiler = compiler(source);
    compiler.args(WARNINGS).args(["-g", "-O1", "-I"]).arg(root().join("include"));
    if way == Way::Sanitized {
        compiler.args(["-fsanitize=address", "-fno-omit-frame-pointer"]);
    }
    compiler.arg(source).arg("-o").arg(program);
    match way {
        Way::Archive | Way::Sanitized => compiler.arg(library("a")),
        Way::Shared => {
            let folder = library("so").parent().expect("a file is in a folder");
            compiler.arg(library("so")).arg(format!("-Wl,-rpath,{}", folder.display()))
        }
    };
    compiler.args(NATIVE).output().expect("there is a C compiler: cc")
}

/// Whether programs can be built and run with AddressSanitizer here. Else it is said why not, once.
pub(crate) fn has_sanitizer() -> bool {
    static HAS: OnceLock<bool> = OnceLock::new();
    *HAS.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let (source, program) = (folder.join("asan.c"), folder.join("asan"));
        fs::write(&source, "int main(void) { return 0; }\n").expect("a file can be written");
        let built = Command::new("cc").arg("-fsanitize=address").arg(&source).arg("-o").arg(&program).status();
        let runs =
            built.is_ok_and(|built| built.success()) && Command::new(&program).status().is_ok_and(|ran| ran.success());
        if !runs {
            eprintln!("AddressSanitizer is not here: the C programs are run without it");
        }
        runs
    })
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
