//! `cargo xtask dist`: what people install, as a tarball and as a package for Debian.
//!
//! Everything is put together in one folder, laid out as below `/usr`. The tarball is that folder; `cargo-deb` packs it by the list in
//! `crates/surface-cli/Cargo.toml`. Manual pages and completions are written by the program that is packed.
//!
//! The program is built with a profile of its own, for size: see `Cargo.toml`. That takes several times as long as `cargo build --release`, which is for who builds from the repository.
//!
//! # Rejected
//! Cargo's `strip` and `split-debuginfo`: the debug information would be lost, or a folder of files. `objcopy` puts it into one.

use std::env::consts::ARCH;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use crate::steps::Cargo;
use crate::tools::{Tool, at, output, starts};
use crate::{USAGE, root, target_dir};

/// Without its own compression library: it starts `xz`.
const CARGO_DEB: Tool = Tool { name: "cargo-deb", options: &["--no-default-features"] };

/// Files of the repository that are packed as documentation.
const DOCUMENTS: &[&str] = &["README.md", "CHANGELOG.md", "LICENSE-APACHE", "LICENSE-MIT"];

/// Where each shell looks for completions, below `share`.
const COMPLETIONS: &[(&str, &str)] = &[
    ("bash", "bash-completion/completions/bursar"),
    ("zsh", "zsh/site-functions/_bursar"),
    ("fish", "fish/vendor_completions.d/bursar.fish"),
];

/// The C library, as `target/release` and as `lib` have it.
const LIBRARIES: &[&str] = &["libjanus.so", "libjanus.a"];

/// The profile of `Cargo.toml` for what is installed.
const PROFILE: &str = "shipped";

/// Functions with the same code are kept once, where no one compares their addresses; and relocations take a bit each, which needs version 2.36 of the C library.
const LINK: &[&str] = &["-Clink-arg=-Wl,--icf=safe", "-Clink-arg=-Wl,-z,pack-relative-relocs"];

/// What was made.
pub(crate) struct Made {
    pub(crate) version: String,
    /// The files as they lie below `/usr`.
    pub(crate) stage: PathBuf,
    pub(crate) tarball: PathBuf,
    pub(crate) package: PathBuf,
    /// The debug information of the program.
    pub(crate) debug: PathBuf,
}

/// `cargo xtask dist`
pub(crate) fn run(args: &[OsString]) -> ExitCode {
    if let Some(arg) = args.first() {
        eprintln!("xtask: `dist` takes no arguments, got {arg:?}\n{USAGE}");
        return ExitCode::from(2);
    }
    match make() {
        Ok(made) => {
            println!("\n{}", made.listed());
            ExitCode::SUCCESS
        }
        Err(message) => {
            eprintln!("xtask: {message}");
            ExitCode::FAILURE
        }
    }
}

/// Builds, puts together and packs.
pub(crate) fn make() -> Result<Made, String> {
    if !starts("objcopy") {
        return Err("`objcopy` is missing; install it: on Debian, `apt-get install binutils`".to_owned());
    }
    let packer = CARGO_DEB.subcommand()?;
    Cargo::new(&["build", "--release", "-p", "bursar-surface-capi"]).run()?;
    let built = build_program()?;

    let version = version(&root())?;
    let folder = target_dir().join("dist");
    // cargo-deb knows this folder as `target/release`, wherever the target folder is.
    let stage = target_dir().join("release/dist");
    for folder in [&folder, &stage] {
        let _ = fs::remove_dir_all(folder);
        fs::create_dir_all(folder).map_err(at(folder))?;
    }
    let debug = folder.join("bursar.debug");
    stage_program(&built, &stage, &debug)?;
    stage_texts(&stage)?;
    stage_library(&stage, &version)?;
    let tarball = pack(&stage, &folder, &format!("bursar-{version}-{ARCH}-linux"))?;

    Cargo::with(packer, &["deb", "-p", "bursar-cli", "--no-build", "--no-strip"])
        .args(&["--output", &folder.to_string_lossy()])
        .env("SOURCE_DATE_EPOCH", &date_of_commit())
        .run()?;
    let package = fs::read_dir(&folder)
        .map_err(at(&folder))?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .find(|path| path.extension().is_some_and(|ending| ending == "deb"))
        .ok_or_else(|| format!("cargo-deb left no package in {}", folder.display()))?;
    Ok(Made { version, stage, tarball, package, debug })
}

/// Builds the program as it is installed, but for its debug information.
pub(crate) fn build_program() -> Result<PathBuf, String> {
    let mut cargo = Cargo::new(&["rustc", "--profile", PROFILE, "-p", "bursar-cli", "--bin", "bursar"]);
    if cfg!(target_arch = "x86_64") {
        // Rust's own linker there; elsewhere the system's may not know these.
        cargo = cargo.args(&["--"]).args(LINK);
    }
    cargo.run()?;
    Ok(target_dir().join(PROFILE).join("bursar"))
}

impl Made {
    pub(crate) fn program(&self) -> PathBuf {
        self.stage.join("bin/bursar")
    }

    fn listed(&self) -> String {
        let row = |path: &Path, about: &str| {
            let bytes = fs::metadata(path).map_or(0, |data| data.len());
            format!("{:>8.1} MB  {}  {about}\n", bytes as f64 / 1e6, path.display())
        };
        row(&self.tarball, "for any Linux with a C library as new as this one's")
            + &row(&self.package, "for Debian and its like")
            + &row(&self.program(), "the program in them, stripped")
            + &row(&self.stage.join("lib/libjanus.so"), "the C library in them, beside an archive and its header")
            + row(&self.debug, "its debug information; beside the program, backtraces name lines").trim_end()
    }
}

/// The version of all packages.
fn version(root: &Path) -> Result<String, String> {
    let path = root.join("Cargo.toml");
    let manifest: toml::Table = fs::read_to_string(&path)
        .map_err(at(&path))?
        .parse()
        .map_err(|error| format!("{}: {error}", path.display()))?;
    let version = manifest["workspace"]["package"]["version"].as_str();
    version.map(str::to_owned).ok_or_else(|| format!("{} names no version", path.display()))
}

/// So that one commit makes one tarball, byte for byte.
fn date_of_commit() -> String {
    let date = output(Command::new("git").args(["log", "-1", "--format=%ct"]).current_dir(root()));
    date.map_or_else(|_| "0".to_owned(), |date| date.trim().to_owned())
}

/// The program without its debug information, which goes to `debug`. The program names that file, so debuggers and backtraces find it.
fn stage_program(built: &Path, stage: &Path, debug: &Path) -> Result<(), String> {
    let program = stage.join("bin/bursar");
    fs::create_dir_all(stage.join("bin")).map_err(at(stage))?;
    output(Command::new("objcopy").arg("--only-keep-debug").arg(built).arg(debug))?;
    let mut link = OsString::from("--add-gnu-debuglink=");
    link.push(debug);
    output(Command::new("objcopy").arg("--strip-all").arg(link).arg(built).arg(&program))?;
    Ok(())
}

/// Manual pages, completions, documents and examples.
fn stage_texts(stage: &Path) -> Result<(), String> {
    let program = stage.join("bin/bursar");
    let share = stage.join("share");
    let pages = share.join("man/man1");
    output(Command::new(&program).args(["man", "--all"]).arg(&pages))?;
    let page = |entry: fs::DirEntry| entry.path();
    // As Debian wants them; without a date, so that one commit makes one tarball.
    output(
        Command::new("gzip")
            .arg("-9n")
            .args(fs::read_dir(&pages).map_err(at(&pages))?.filter_map(Result::ok).map(page)),
    )?;
    for (shell, place) in COMPLETIONS {
        let script = output(Command::new(&program).args(["completions", shell]))?;
        write(&share.join(place), script.as_bytes())?;
    }
    let documents = share.join("doc/bursar");
    for name in DOCUMENTS {
        copy(&root().join(name), &documents.join(name))?;
    }
    for folder in ["examples", "examples/janus"] {
        let examples = root().join(folder);
        for entry in fs::read_dir(&examples).map_err(at(&examples))?.filter_map(Result::ok) {
            if entry.path().is_file() {
                copy(&entry.path(), &documents.join(folder).join(entry.file_name()))?;
            }
        }
    }
    Ok(())
}

/// The C library, shared and as an archive, with its header and what `pkg-config` reads.
fn stage_library(stage: &Path, version: &str) -> Result<(), String> {
    for name in LIBRARIES {
        let library = stage.join("lib").join(name);
        copy(&target_dir().join("release").join(name), &library)?;
        output(Command::new("objcopy").arg("--strip-debug").arg(&library))?;
    }
    copy(&root().join("crates/surface-capi/include/janus.h"), &stage.join("include/janus.h"))?;
    // Paths are relative to the file, so the tarball can be unpacked anywhere.
    let config = format!(
        "prefix=${{pcfiledir}}/../..\nName: janus\nDescription: nurseries, tasks, channels and budgets for C\nVersion: {version}\n\
         Cflags: -I${{prefix}}/include\nLibs: -L${{prefix}}/lib -ljanus\nLibs.private: -lpthread -ldl -lm\n"
    );
    write(&stage.join("lib/pkgconfig/janus.pc"), config.as_bytes())
}

/// Writes a file, and the folders above it.
fn write(path: &Path, bytes: &[u8]) -> Result<(), String> {
    let folder = path.parent().expect("a file lies in a folder");
    fs::create_dir_all(folder).and_then(|()| fs::write(path, bytes)).map_err(at(path))
}

/// Copies a file, and makes the folders above it.
pub(crate) fn copy(from: &Path, to: &Path) -> Result<(), String> {
    let folder = to.parent().expect("a file lies in a folder");
    fs::create_dir_all(folder).map_err(at(folder))?;
    fs::copy(from, to).map(|_| ()).map_err(at(from))
}

/// The stage as a tarball with one folder of this name in it.
fn pack(stage: &Path, folder: &Path, name: &str) -> Result<PathBuf, String> {
    let tarball = folder.join(format!("{name}.tar.gz"));
    output(
        Command::new("tar")
            .args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--use-compress-program=gzip -9n"])
            .arg(format!("--mtime=@{}", date_of_commit()))
            .arg(format!("--transform=s,^\\.,{name},"))
            .arg("--create")
            .arg("--file")
            .arg(&tarball)
            .arg("--directory")
            .arg(stage)
            .arg("."),
    )?;
    Ok(tarball)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_package_of_debian_lists_every_folder_that_is_staged() {
        let text = fs::read_to_string(root().join("crates/surface-cli/Cargo.toml")).expect("it is there");
        let manifest: toml::Table = text.parse().expect("it is TOML");
        let assets = manifest["package"]["metadata"]["deb"]["assets"].as_array().expect("a list");
        let sources: Vec<&str> = assets.iter().filter_map(|asset| asset[0].as_str()).collect();
        let staged = COMPLETIONS.iter().map(|(_, place)| format!("share/{place}"));
        let folders = [
            "bin/bursar",
            "share/man/man1/*",
            "share/doc/bursar/*",
            "share/doc/bursar/examples/*",
            "share/doc/bursar/examples/janus/*",
            "include/janus.h",
            "lib/pkgconfig/janus.pc",
        ];
        let libraries = LIBRARIES.iter().map(|name| format!("lib/{name}"));
        for place in staged.chain(folders.map(str::to_owned)).chain(libraries) {
            let source = format!("target/release/dist/{place}");
            assert!(sources.contains(&source.as_str()), "{source} is not among {sources:?}");
        }
    }

    #[test]
    fn the_version_is_that_of_the_workspace() {
        assert_eq!(version(&root()).as_deref(), Ok(env!("CARGO_PKG_VERSION")));
    }

    #[test]
    fn what_is_packed_as_documentation_is_there() {
        for name in DOCUMENTS {
            assert!(root().join(name).exists(), "{name}");
        }
    }
}
