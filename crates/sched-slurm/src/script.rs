//! The script of an attempt, for `sh`.
//!
//! Room: surface.
//!
//! Pure: it only writes text.
//!
//! # Invariants
//! - The command runs only after the script has taken the permit.
//! - A mark of the end is written whole, and only after the command has ended.
//! - A disk without room hides no end: then the mark of the end is a name alone.
//! - Modules, the prologue and the environment of the command change nothing in how marks are written.
//!
//! # Why they hold
//! The script renames the permit to a name that no other start of a script has, and then looks whether that name is there: on a network file system the answer to a
//! rename may be lost, the file is not. A script that does not find its name ends without doing anything.
//! Marks are written under another name and renamed.
//!
//! The script starts itself once more, as a child process: that loads modules, runs the prologue, and becomes the command by `exec`. So all that these change reaches the command, and nothing of it the
//! script that waits and writes marks. Between prologue and command the child empties a file, by redirection alone: no function, alias, variable or `PATH` has a part in it, and it needs no room on the
//! disk. It opens that file first: if it was removed, the attempt was given up.

use core::fmt::Write;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use sched_jobs::process::Command;

use crate::key::Key;
use crate::marks::{END, ENDED, EndKind, MODULE, PERMIT, PROLOGUE, START, TAKEN};
use crate::request::Site;

/// A text as one word of the shell.
pub fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

fn word(text: &OsStr) -> String {
    // Words of job files are UTF-8; other bytes cannot be put into a script safely.
    quoted(&String::from_utf8_lossy(text.as_bytes()))
}

/// The script of all job arrays of a run. It is called with the job of the first task, and the rest of the key.
pub fn of_array(folder: &Path) -> String {
    format!("#!/bin/sh\nexec sh {}/\"$(($1+SLURM_ARRAY_TASK_ID)).$2.sh\"\n", word(folder.as_os_str()))
}

/// What a script calls itself with for the part that becomes the command.
const INNER: &str = "--command";

/// The script of an attempt at `command`, whose log is `log`.
pub fn text(key: Key, folder: &Path, log: &Path, command: &Command, site: &Site) -> String {
    let log = word(log.as_os_str());
    let base = format!("{}/{key}", word(folder.as_os_str()));
    let no_space = EndKind::NoSpace.word();
    let mut text = format!(
        "#!/bin/sh
if [ \"$1\" != {INNER} ]; then
bursar_j=\"${{SLURM_ARRAY_JOB_ID:-${{SLURM_JOB_ID:-0}}}}${{SLURM_ARRAY_TASK_ID:+_$SLURM_ARRAY_TASK_ID}}\"
[ -z \"$SLURM_ARRAY_TASK_ID\" ] || exec >>{log} 2>&1
bursar_k={base}
bursar_t=\"$bursar_k.{TAKEN}$bursar_j-${{SLURM_RESTART_COUNT:-0}}-$$-$(uname -n)\"
mv \"$bursar_k.{PERMIT}\" \"$bursar_t\" 2>/dev/null
[ -e \"$bursar_t\" ] || {{ echo 'bursar: this attempt was started or given up before; nothing is done'; exit 0; }}
bursar_b=$(date +%s.%N)
{{ echo \"$bursar_j ${{SLURMD_NODENAME:-$(uname -n)}} $bursar_b ${{bursar_t##*/}}\" >\"$bursar_k.{START}.new\" && mv \"$bursar_k.{START}.new\" \"$bursar_k.{START}\"; }} || {{ mv \"$bursar_t\" \"$bursar_k.{ENDED}{no_space}-73\"; exit 73; }}
bursar_n=0 bursar_p='' bursar_m='' bursar_c=''
trap 'bursar_n=$((bursar_n+1)); [ -z \"$bursar_p\" ] || kill -TERM \"$bursar_p\" 2>/dev/null' TERM
bursar_end() {{
  [ \"$bursar_n\" = 0 ] || [ \"$1\" != exit ] || set -- asked \"$2\"
  {{ {{ echo \"$1 $2 $bursar_b $(date +%s.%N)\" && times && echo \"$bursar_m\"; }} >\"$bursar_k.{END}.new\" && mv \"$bursar_k.{END}.new\" \"$bursar_k.{END}\"; }} || mv \"$bursar_t\" \"$bursar_k.{ENDED}$1-$2\"
  exit \"$2\"
}}
"
    );
    if let Some(cwd) = &command.cwd {
        let cwd = word(cwd.as_os_str());
        let _ = writeln!(text, "cd {cwd} || {{ bursar_m={cwd}; bursar_end {} 127; }}", EndKind::NoFolder.word());
    }
    let is_prepared = !site.modules.is_empty() || site.prologue.is_some();
    if is_prepared {
        let _ = writeln!(text, "echo {PROLOGUE} >\"$bursar_k.{PROLOGUE}\" || bursar_end {no_space} 73");
    }
    let timeout = if command.limits.wall.is_some() { "\"$(command -v timeout)\"" } else { "''" };
    let _ = writeln!(text, "sh \"$0\" {INNER} {timeout} &");
    // A signal interrupts `wait`, which then returns the number of the signal, and the command may still run.
    text += "bursar_p=$!
[ \"$bursar_n\" = 0 ] || kill -TERM \"$bursar_p\" 2>/dev/null
while bursar_s=$bursar_n; wait \"$bursar_p\"; bursar_d=$?; [ \"$bursar_d\" = 127 ] && [ -n \"$bursar_c\" ] || bursar_c=$bursar_d; [ \"$bursar_n\" != \"$bursar_s\" ]; do :; done
";
    if is_prepared {
        text += &unprepared(site);
    }
    for output in &command.outputs {
        let output = word(output.as_os_str());
        let _ = writeln!(text, "[ -n \"$bursar_m\" ] || [ -e {output} ] || bursar_m={output}");
    }
    // Slurm signals command and script one after the other: the command may have ended before the script is asked to.
    text += "[ \"$bursar_c\" = 0 ] || [ \"$bursar_n\" != 0 ] || sleep 0.1\n";
    text += "bursar_end exit \"$bursar_c\"\nfi\n";
    text + &inner(&base, command, site)
}

/// What the script does if its other part ended before the command began.
fn unprepared(site: &Site) -> String {
    let mut text = String::new();
    for (number, module) in site.modules.iter().enumerate() {
        let (module, word) = (quoted(module), EndKind::NoModule.word());
        let failed = format!("\"$bursar_k.{MODULE}{number}\"");
        let _ = writeln!(text, "[ ! -e {failed} ] || {{ rm -f {failed}; bursar_m={module}; bursar_end {word} 127; }}");
    }
    let (word, missing) = match &site.prologue {
        Some(_) => (EndKind::Prologue.word(), String::new()),
        None => (EndKind::NoModule.word(), site.modules.join(", ")), // what it runs has ended the shell
    };
    let (missing, asked, mark) = (quoted(&missing), EndKind::Asked.word(), format!("\"$bursar_k.{PROLOGUE}\""));
    // Without the file this attempt was given up.
    let _ = writeln!(
        text,
        "[ -e {mark} ] && [ ! -s {mark} ] || {{ [ \"$bursar_n\" = 0 ] || [ \"$bursar_c\" = 0 ] || bursar_end {asked} \"$bursar_c\"; bursar_m={missing}; bursar_end {word} \"$bursar_c\"; }}"
    );
    let _ = writeln!(text, "rm -f {mark}");
    text
}

/// The part that becomes the command.
fn inner(base: &str, command: &Command, site: &Site) -> String {
    let mut text = "bursar_timeout=$2\nset --\n".to_owned();
    for (name, value) in &command.env {
        let _ = writeln!(text, "export {}={}", name.to_string_lossy(), word(value));
    }
    if !site.modules.is_empty() {
        text += "command -v module >/dev/null || for f in /etc/profile.d/modules.sh /etc/profile.d/lmod.sh; do [ ! -e \"$f\" ] || . \"$f\"; done\n";
        for (number, module) in site.modules.iter().enumerate() {
            let _ = writeln!(text, "module load {} || {{ >|{base}.{MODULE}{number}; exit 127; }}", quoted(module));
        }
    }
    if let Some(prologue) = &site.prologue {
        let _ = writeln!(text, "{prologue}");
    }
    if !site.modules.is_empty() || site.prologue.is_some() {
        // No word here is looked up: neither as a function nor as an alias, nor along PATH.
        let _ = write!(text, "<{base}.{PROLOGUE} && >|{base}.{PROLOGUE} && ");
    }
    text += "\\exec ";
    if let Some(limit) = command.limits.wall {
        let (grace, limit) = (command.grace.as_secs_f64(), limit.as_secs_f64());
        let _ = write!(text, "\"$bursar_timeout\" -k {grace:.3} {limit:.3} ");
    }
    let words: Vec<String> = command.argv.iter().map(|argument| word(argument)).collect();
    let _ = writeln!(text, "{}", words.join(" "));
    text
}
