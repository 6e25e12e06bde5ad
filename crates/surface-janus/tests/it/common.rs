//! Runs programs and keeps what they print.

use std::sync::{Arc, Mutex};

use bursar::NurseryOptions;
use surface_janus::{Failure, Host, Options, Outcome, Program, Spent, Value};

/// What a program did.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) lines: Vec<String>,
    pub(crate) result: Result<Value, Failure>,
    pub(crate) spent: Spent,
}

impl Done {
    /// What it printed; it has to succeed.
    #[track_caller]
    pub(crate) fn printed(self) -> Vec<String> {
        match self.result {
            Ok(_) => self.lines,
            Err(failure) => panic!("{failure}; it had printed {:?}", self.lines),
        }
    }

    /// Why it failed; it has to.
    #[track_caller]
    pub(crate) fn failure(&self) -> &Failure {
        self.result.as_ref().expect_err("the program is to fail")
    }
}

#[track_caller]
pub(crate) fn compile(source: &str) -> Program {
    compile_with(source, &Options::new())
}

#[track_caller]
pub(crate) fn compile_with(source: &str, options: &Options) -> Program {
    Program::compile_with(source, options).unwrap_or_else(|problems| panic!("{}", problems.pretty(false)))
}

/// Runs `main` without limits.
#[track_caller]
pub(crate) fn run(source: &str) -> Done {
    run_in(&compile(source), Host::new(), NurseryOptions::new())
}

pub(crate) fn run_in(program: &Program, host: Host, nursery: NurseryOptions) -> Done {
    let lines = Arc::new(Mutex::new(Vec::new()));
    let seen = lines.clone();
    let host = host.output(move |line| seen.lock().unwrap().push(line.text.to_owned()));
    let Outcome { result, spent, .. } = program.run_main(&[], &host, nursery);
    let lines = lines.lock().unwrap().clone();
    Done { lines, result, spent }
}
