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
//!
//! # Why they hold
//! The script renames the permit to a name that no other start of a script has, and then looks whether that name is there: on a network file system the answer to a
//! rename may be lost, the file is not. A script that does not find its name ends without doing anything.
//! Marks are written under another name and renamed.

use core::fmt::Write;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use sched_jobs::process::Command;

use crate::key::Key;
use crate::marks::{END, ENDED, EndKind, PERMIT, PROLOGUE, START, TAKEN};
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

/// The script of an attempt at `command`, whose log is `log`.
pub fn text(key: Key, folder: &Path, log: &Path, command: &Command, site: &Site) -> String {
    let log = word(log.as_os_str());
    let folder = word(folder.as_os_str());
    let no_space = EndKind::NoSpace.word();
    let mut text = format!(
        "#!/bin/sh
J=\"${{SLURM_ARRAY_JOB_ID:-${{SLURM_JOB_ID:-0}}}}${{SLURM_ARRAY_TASK_ID:+_$SLURM_ARRAY_TASK_ID}}\"
[ -z \"$SLURM_ARRAY_TASK_ID\" ] || exec >>{log} 2>&1
K={folder}/{key}
T=\"$K.{TAKEN}$J-${{SLURM_RESTART_COUNT:-0}}-$$-$(uname -n)\"
mv \"$K.{PERMIT}\" \"$T\" 2>/dev/null
[ -e \"$T\" ] || {{ echo 'bursar: this attempt was started or given up before; nothing is done'; exit 0; }}
S=$(date +%s.%N)
{{ echo \"$J ${{SLURMD_NODENAME:-$(uname -n)}} $S ${{T##*/}}\" >\"$K.{START}.new\" && mv \"$K.{START}.new\" \"$K.{START}\"; }} || {{ mv \"$T\" \"$K.{ENDED}{no_space}-73\"; exit 73; }}
n=0 p='' m='' c=''
trap 'n=$((n+1)); [ -z \"$p\" ] || kill -TERM \"$p\" 2>/dev/null' TERM
end() {{
  [ \"$n\" = 0 ] || [ \"$1\" != exit ] || set -- asked \"$2\"
  {{ {{ echo \"$1 $2 $S $(date +%s.%N)\" && times && echo \"$m\"; }} >\"$K.{END}.new\" && mv \"$K.{END}.new\" \"$K.{END}\"; }} || mv \"$T\" \"$K.{ENDED}$1-$2\"
  exit \"$2\"
}}
"
    );
    if let Some(cwd) = &command.cwd {
        let cwd = word(cwd.as_os_str());
        let _ = writeln!(text, "cd {cwd} || {{ m={cwd}; end {} 127; }}", EndKind::NoFolder.word());
    }
    for (name, value) in &command.env {
        let _ = writeln!(text, "export {}={}", name.to_string_lossy(), word(value));
    }
    if !site.modules.is_empty() {
        text += "command -v module >/dev/null || for f in /etc/profile.d/modules.sh /etc/profile.d/lmod.sh; do [ ! -e \"$f\" ] || . \"$f\"; done\n";
        for module in &site.modules {
            let module = quoted(module);
            let _ = writeln!(text, "module load {module} || {{ m={module}; end {} 127; }}", EndKind::NoModule.word());
        }
    }
    if let Some(prologue) = &site.prologue {
        // It may exit, and it may change how the rest of the script behaves. If it is killed, or is replaced by `exec`, nothing of the script runs any more: so there is a mark before it.
        let (word, mark) = (EndKind::Prologue.word(), format!("\"$K.{PROLOGUE}\""));
        let _ = writeln!(text, "echo >{mark} || end {no_space} 73");
        let _ = writeln!(text, "trap 'end {word} $?' EXIT\n{prologue}\ntrap - EXIT; set +eu; rm -f {mark}");
    }
    if let Some(limit) = command.limits.wall {
        let _ = write!(text, "timeout -k {:.3} {:.3} ", command.grace.as_secs_f64(), limit.as_secs_f64());
    }
    let words: Vec<String> = command.argv.iter().map(|argument| word(argument)).collect();
    let _ = writeln!(text, "{} &", words.join(" "));
    // A signal interrupts `wait`, which then returns the number of the signal, and the command may still run.
    text += "p=$!
[ \"$n\" = 0 ] || kill -TERM \"$p\" 2>/dev/null
while s=$n; wait \"$p\"; d=$?; [ \"$d\" = 127 ] && [ -n \"$c\" ] || c=$d; [ \"$n\" != \"$s\" ]; do :; done
";
    for output in &command.outputs {
        let output = word(output.as_os_str());
        let _ = writeln!(text, "[ -n \"$m\" ] || [ -e {output} ] || m={output}");
    }
    text + "end exit \"$c\"\n"
}
