//! The keeper of the tests, and a client that the tests kill.
//!
//! Room: tests.
//!
//! `mech-process-keeper keep HOME ID` is a keeper; with `STOP_FIRST` in its environment it stops itself before it listens. `mech-process-keeper client HOME LOG TOKEN COMMAND…` starts one command,
//! says `started` and then `ended` on its standard output, and waits to be killed. With an empty HOME its pool is ephemeral; the variable `CLASS` is the command's class.
#![forbid(unsafe_code)]

use std::io::{self, Write};
use std::path::Path;

use mech_process::{KeeperProgram, Keepers, Launch, Report};

fn main() -> io::Result<()> {
    let args: Vec<String> = std::env::args().collect();
    match args.get(1).map(String::as_str) {
        Some("keep") => {
            if std::env::var_os("STOP_FIRST").is_some() {
                use rustix::process::{Signal, getpgid, getpid, getppid, kill_process, setpgid, setsid};
                // In a session of its own, as a keeper is: else the kernel ends it together with its client.
                setpgid(None, Some(getpgid(getppid())?))?;
                setsid()?;
                kill_process(getpid(), Signal::STOP)?;
            }
            mech_process::keeper::main()
        }
        Some("client") if args.len() > 5 => client(&args[2..]),
        _ => {
            eprintln!("this program is for the tests of mech-process");
            std::process::exit(2)
        }
    }
}

fn client(args: &[String]) -> io::Result<()> {
    let program = KeeperProgram::this_one(["keep"]);
    let keepers = match args[0].as_str() {
        "" => Keepers::ephemeral(program)?,
        home => Keepers::new(program, Path::new(home))?,
    };
    let mut launch = Launch::new(&args[2], &args[3..], &args[1]);
    launch.limits.class = std::env::var("CLASS").ok().and_then(|class| class.parse().ok());
    keepers.start(
        launch,
        Box::new(|report| {
            let word = match report {
                Report::Started { .. } => "started",
                Report::Ended(_) => "ended",
                _ => return,
            };
            let mut out = io::stdout();
            let _ = writeln!(out, "{word}").and_then(|()| out.flush());
        }),
    )?;
    loop {
        std::thread::park();
    }
}
