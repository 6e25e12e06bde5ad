//! `cargo xtask test dist`: what `cargo xtask dist` made works on a machine that has nothing else.
//!
//! # Invariant
//! The program runs with the C library and a shell, and with nothing of this repository.
//!
//! # Why it holds
//! It is installed into an empty folder, with the libraries that `ldd` names and the four programs of the quickstart, and is started with that folder as its
//! root and an empty home folder. First it is shown that a file of the repository is not there.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::dist::{Made, copy, make};
use crate::tools::{at, output, starts};
use crate::{root, target_dir};

/// How large the program may be.
const PROGRAM_BYTES_MAX: u64 = 15_000_000;

/// What the commands of the quickstart call.
const PROGRAMS: &[&str] = &["sh", "mkdir", "sleep", "cat"];

/// Where the quickstart lies in the clean root: its outputs go to the folder above.
const QUICKSTART: &str = "srv/examples/quickstart.toml";

/// Makes everything, and installs and runs it.
pub(crate) fn check() -> Result<(), String> {
    for (program, package) in [
        ("groff", "groff-base"),
        ("dpkg", "dpkg"),
        ("unshare", "util-linux"),
        ("readelf", "binutils"),
        ("cc", "gcc"),
        ("pkg-config", "pkg-config"),
    ] {
        if !starts(program) {
            return Err(format!("this lane needs {program}; on Debian: `apt-get install {package}`"));
        }
    }
    let made = make()?;
    program(&made)?;
    manual(&made)?;
    completions(&made)?;
    for (name, install) in [("deb", package as Install), ("tarball", tarball as Install)] {
        let folder = target_dir().join("dist").join(format!("root-{name}"));
        let _ = fs::remove_dir_all(&folder);
        install(&made, &folder)?;
        furnish(&folder)?;
        quickstart(&folder, &made.version).map_err(|error| format!("installed from the {name}: {error}"))?;
        println!("{name}: installed into an empty root; the quickstart runs there");
        library(&folder, &made.version).map_err(|error| format!("the C library of the {name}: {error}"))?;
        println!(
            "{name}: a C program is compiled with what it installed, and runs with the shared library and with the archive"
        );
    }
    Ok(())
}

type Install = fn(&Made, &Path) -> Result<(), String>;

/// Small, stripped, and it knows where its debug information is.
fn program(made: &Made) -> Result<(), String> {
    let bytes = fs::metadata(made.program()).map_err(at(&made.program()))?.len();
    println!("program: {:.1} MB stripped", bytes as f64 / 1e6);
    if bytes > PROGRAM_BYTES_MAX {
        return Err(format!("the stripped program has {bytes} bytes; the limit is {PROGRAM_BYTES_MAX}"));
    }
    let sections = |path: &Path| output(Command::new("readelf").args(["--wide", "--section-headers"]).arg(path));
    if sections(&made.program())?.contains(".debug_line") || !sections(&made.debug)?.contains(".debug_line") {
        return Err("debug information belongs into `bursar.debug`, and not into the program".to_owned());
    }
    let link = output(Command::new("readelf").arg("--string-dump=.gnu_debuglink").arg(made.program()))?;
    if !link.contains("bursar.debug") {
        return Err(format!("the program does not name `bursar.debug`:\n{link}"));
    }
    Ok(())
}

/// Every page renders without a warning.
fn manual(made: &Made) -> Result<(), String> {
    let folder = made.stage.join("share/man/man1");
    let mut count = 0;
    for entry in fs::read_dir(&folder).map_err(at(&folder))?.filter_map(Result::ok) {
        let render = "gzip --decompress --stdout \"$0\" | groff -Kutf8 -man -Tutf8 -ww -P-cbou";
        let page = Command::new("sh").args(["-c", render]).arg(entry.path()).output();
        let page = page.map_err(|error| format!("cannot start a shell: {error}"))?;
        let (text, warnings) = (String::from_utf8_lossy(&page.stdout), String::from_utf8_lossy(&page.stderr));
        if !page.status.success() || !warnings.is_empty() || !text.contains("EXAMPLES") {
            return Err(format!("{} does not render:\n{warnings}{text}", entry.path().display()));
        }
        count += 1;
    }
    println!("manual: {count} pages render");
    if count < 20 { Err(format!("there are more than {count} commands")) } else { Ok(()) }
}

/// Shells load their completions; bash completes a word.
fn completions(made: &Made) -> Result<(), String> {
    let share = made.stage.join("share");
    let script = "source \"$1\" && complete -p bursar && COMP_WORDS=(bursar paus) COMP_CWORD=1 && \
                  _bursar bursar paus bursar && echo \"completed: ${COMPREPLY[*]}\"";
    let file = share.join("bash-completion/completions/bursar");
    let said = output(Command::new("bash").args(["--norc", "-c", script, "bash"]).arg(file))?;
    if !said.contains("completed: pause\n") {
        return Err(format!("bash does not complete `bursar paus`:\n{said}"));
    }
    println!("completions: bash loads them and completes a word");
    for (shell, place) in [("zsh", "zsh/site-functions/_bursar"), ("fish", "fish/vendor_completions.d/bursar.fish")] {
        if starts(shell) {
            output(Command::new(shell).arg("-n").arg(share.join(place)))?;
            println!("completions: {shell} parses them");
        } else {
            println!("left out: the completions of {shell}\n   since {shell} is not installed");
        }
    }
    Ok(())
}

/// Installs the package as `dpkg` does, into a root of its own.
fn package(made: &Made, folder: &Path) -> Result<(), String> {
    let database = folder.join("var/lib/dpkg");
    for inner in ["info", "updates", "triggers"] {
        fs::create_dir_all(database.join(inner)).map_err(at(&database))?;
    }
    fs::write(database.join("status"), "").map_err(at(&database))?;
    let dpkg = || {
        let mut dpkg = Command::new("dpkg");
        dpkg.arg(format!("--root={}", folder.display())).args(["--force-not-root", "--force-depends"]);
        dpkg.arg("--force-script-chrootless").arg("--log=/dev/null");
        dpkg
    };
    output(dpkg().arg("--install").arg(&made.package))?;
    let status = output(dpkg().args(["--status", "bursar"]))?;
    let depends = status.lines().find(|line| line.starts_with("Depends:")).unwrap_or_default();
    match status.contains("Status: install ok installed") && depends.contains("libc6") {
        true => Ok(()),
        false => Err(format!("the package is not installed, or does not say that it needs a C library:\n{status}")),
    }
}

/// Unpacks the tarball as a user would, into `/usr`.
fn tarball(made: &Made, folder: &Path) -> Result<(), String> {
    let usr = folder.join("usr");
    fs::create_dir_all(&usr).map_err(at(&usr))?;
    let mut tar = Command::new("tar");
    tar.args(["--extract", "--strip-components=1", "--no-same-owner", "--file"]).arg(&made.tarball);
    output(tar.arg("--directory").arg(&usr)).map(|_| ())
}

/// What a system has besides: a shell, libraries, an empty home folder, and the quickstart.
fn furnish(folder: &Path) -> Result<(), String> {
    for name in ["bin", "lib", "lib64"] {
        let inner = folder.join("usr").join(name);
        fs::create_dir_all(&inner).map_err(at(&inner))?;
        symlink(Path::new("usr").join(name), folder.join(name)).map_err(at(&inner))?;
    }
    for name in ["dev", "proc", "tmp", "home/user"] {
        let inner = folder.join(name);
        fs::create_dir_all(&inner).map_err(at(&inner))?;
    }
    fs::write(folder.join("dev/null"), "").map_err(at(folder))?;
    let mut programs = vec![folder.join("usr/bin/bursar")];
    for name in PROGRAMS {
        let found = output(Command::new("sh").args(["-c", &format!("command -v {name}")]))?;
        copy(Path::new(found.trim()), &folder.join("usr/bin").join(name))?;
        programs.push(PathBuf::from(found.trim()));
    }
    for program in programs {
        for library in libraries(&output(Command::new("ldd").arg(program))?) {
            copy(Path::new(library), &folder.join(library.trim_start_matches('/')))?;
        }
    }
    copy(&folder.join("usr/share/doc/bursar/examples/quickstart.toml"), &folder.join(QUICKSTART))
}

/// A program of the guide for C is compiled with what `pkg-config` says of the root, and runs.
fn library(folder: &Path, version: &str) -> Result<(), String> {
    let (lib, program) = (folder.join("usr/lib"), folder.join("tmp/hello"));
    let source = "#include <janus.h>\n#include <stdio.h>\nstatic int64_t task(void *arg) { return *(int64_t *)arg == 3 ? 0 : 1; }\n\
                  int main(void) { int64_t three = 3; janus_rt_init(1); janus_nursery_t *n = janus_nursery_create();\n\
                  janus_nursery_spawn(n, task, &three); printf(\"verdict %d\\n\", (int)janus_nursery_await_all(n));\n\
                  janus_nursery_destroy(n); janus_rt_shutdown(); }\n";
    fs::write(program.with_extension("c"), source).map_err(at(&program))?;
    let flags = |more: &str| {
        let mut config = Command::new("pkg-config");
        config.env("PKG_CONFIG_PATH", lib.join("pkgconfig")).args(["--cflags", "--libs"]);
        output(config.args(more.split_whitespace()).arg(format!("janus = {version}")))
    };
    for (kind, more) in [("shared library", ""), ("archive", "--static")] {
        let flags = flags(more)?.replace("-ljanus", if more.is_empty() { "-ljanus" } else { "-l:libjanus.a" });
        let mut cc = Command::new("cc");
        cc.arg("-o").arg(&program).arg(program.with_extension("c")).args(flags.split_whitespace());
        output(&mut cc)?;
        let said = output(Command::new(&program).env("LD_LIBRARY_PATH", &lib))?;
        if said != "verdict 0\n" {
            return Err(format!("a program with the {kind} printed {said:?}"));
        }
    }
    Ok(())
}

/// The files that `ldd` names.
fn libraries(report: &str) -> Vec<&str> {
    report.lines().filter_map(|line| line.split_whitespace().find(|word| word.starts_with('/'))).collect()
}

/// Runs the quickstart twice inside the root: the second time everything is up to date.
fn quickstart(folder: &Path, version: &str) -> Result<(), String> {
    let repository = inside(folder, &["sh", "-c", "cat \"$0\"", &root().join("Cargo.toml").to_string_lossy()]);
    if repository.is_ok() {
        return Err("the clean root is not clean: it has the repository".to_owned());
    }
    let said = inside(folder, &["bursar", "--version"])?;
    if said.trim() != format!("bursar {version}") {
        return Err(format!("`bursar --version` says {said:?}"));
    }
    // The second time, what is up to date does not start.
    let script = "bursar run \"$0\" --json && bursar logs party --run latest";
    for started in [7, 1] {
        let said = inside(folder, &["sh", "-c", script, &format!("/{QUICKSTART}")])?;
        let count = said.matches("\"event\":\"started\"").count();
        if count != started || !said.contains("the party can start\n") {
            return Err(format!(
                "the quickstart started {count} jobs, not {started}, or the last did not print:\n{said}"
            ));
        }
    }
    Ok(())
}

/// Runs a command in namespaces of its own, with this folder as its root, and nothing in its environment but a path and a home folder.
fn inside(folder: &Path, words: &[&str]) -> Result<String, String> {
    let enter = "mount -t proc proc \"$0/proc\" && mount --bind /dev/null \"$0/dev/null\" && exec chroot \"$0\" \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["--map-root-user", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", enter]);
    command.arg(folder).args(words).env_clear();
    command.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").env("HOME", "/home/user");
    output(&mut command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_the_files_that_ldd_names() {
        let report = "\tlinux-vdso.so.1 (0x00007ffd)\n\tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f)\n\
                    \t/lib64/ld-linux-x86-64.so.2 (0x00007f)\n\tstatically linked\n";
        assert_eq!(libraries(report), ["/lib/x86_64-linux-gnu/libc.so.6", "/lib64/ld-linux-x86-64.so.2"]);
    }
}
