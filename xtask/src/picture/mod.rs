//! `cargo xtask picture`: `docs/quickstart.svg`, from a real run of the quickstart at a real pseudo-terminal.
//!
//! Two runs do not give the same picture, byte for byte: they measure time. They give the same frames, with other numbers in them: frames that differ only
//! in numbers are one, and the id of the run is replaced by that of the examples.

mod screen;
mod svg;

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Read;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::steps::Cargo;
use crate::tools::at;
use crate::{USAGE, root, target_dir};
use screen::{Frame, distinct, frames};
use svg::{Caption, draw};

const PICTURE: &str = "docs/quickstart.svg";
const FILE: &str = "examples/quickstart.toml";
const MADE_BY: &str = "cargo xtask picture";
const COLUMNS: u16 = 100;
const ROWS: u16 = 24;

/// `cargo xtask picture`
pub(crate) fn run(args: &[OsString]) -> ExitCode {
    if let Some(arg) = args.first() {
        eprintln!("xtask: `picture` takes no arguments, got {arg:?}\n{USAGE}");
        return ExitCode::from(2);
    }
    match make() {
        Ok(count) => {
            println!("{PICTURE}: {count} frames");
            ExitCode::SUCCESS
        }
        Err(message) => {
            eprintln!("xtask: {message}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the quickstart, and writes the picture. How many frames it has.
fn make() -> Result<usize, String> {
    Cargo::new(&["build", "--release", "-p", "bursar-cli"]).run()?;
    let frames: Vec<Frame> = distinct(frames(&without_id(record()?)));
    let jobs = jobs()?;
    let caption = Caption {
        command: &format!("bursar run {FILE}"),
        about: &format!("A terminal with a live line for each job or group of jobs: {}.", jobs.join(", ")),
        made_by: MADE_BY,
    };
    let still = still(&frames);
    let path = root().join(PICTURE);
    fs::write(&path, draw(&frames, still, COLUMNS.into(), &caption)).map_err(at(&path))?;
    Ok(frames.len())
}

/// The names of jobs in the file.
fn jobs() -> Result<Vec<String>, String> {
    let path = root().join(FILE);
    let file: toml::Table =
        fs::read_to_string(&path).map_err(at(&path))?.parse().map_err(|error| format!("{FILE}: {error}"))?;
    let jobs = file.get("job").and_then(|jobs| jobs.as_table()).ok_or_else(|| format!("{FILE} has no jobs"))?;
    Ok(jobs.keys().cloned().collect())
}

/// The frame that shows most: something is done, something runs, something waits.
fn still(frames: &[Frame]) -> usize {
    let shows =
        |frame: &Frame| ["done  ", "running", "waiting"].iter().filter(|word| frame.text().contains(**word)).count();
    let most = frames.iter().map(shows).max().unwrap_or(0);
    frames.iter().position(|frame| shows(frame) == most).unwrap_or(0)
}

/// Everything that the run writes to its terminal, and when.
fn record() -> Result<Vec<(Duration, String)>, String> {
    let state = target_dir().join("picture");
    // From the beginning: nothing is up to date, and no earlier run says how long jobs take.
    for folder in [&state, &root().join("target/quickstart")] {
        let _ = fs::remove_dir_all(folder);
    }
    fs::create_dir_all(&state).map_err(at(&state))?;
    let (mut terminal, inside) = terminal().map_err(|error| format!("cannot open a pseudo-terminal: {error}"))?;
    let begun = Instant::now();
    let mut command = Command::new(target_dir().join("release/bursar"));
    command.args(["run", FILE]).current_dir(root()).env("TERM", "xterm").env_remove("NO_COLOR");
    command.env("BURSAR_STATE_DIR", state.join("state")).env("XDG_RUNTIME_DIR", &state);
    command.stdin(Stdio::null()).stdout(inside.try_clone().map_err(at(&state))?).stderr(inside);
    let mut child = command.spawn().map_err(|error| format!("cannot start bursar: {error}"))?;
    drop(command); // or the terminal would never be closed
    let (mut written, mut rest) = (Vec::new(), Vec::new());
    let mut piece = [0; 4096];
    // A terminal that is closed is an error, after everything was read.
    while let Ok(count @ 1..) = terminal.read(&mut piece) {
        rest.extend_from_slice(&piece[..count]);
        // A character may be cut at the end of a piece.
        let whole = match std::str::from_utf8(&rest) {
            Ok(_) => rest.len(),
            Err(error) => error.valid_up_to(),
        };
        let text = String::from_utf8_lossy(&rest[..whole]).into_owned();
        rest.drain(..whole);
        written.push((begun.elapsed(), text));
    }
    let status = child.wait().map_err(|error| error.to_string())?;
    match status.success() {
        true => Ok(written),
        false => Err(format!("the quickstart ended with {status}")),
    }
}

/// A terminal: the side of the reader, and the side of the program.
fn terminal() -> rustix::io::Result<(File, File)> {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY)?;
    grantpt(&master)?;
    unlockpt(&master)?;
    tcsetwinsize(&master, Winsize { ws_row: ROWS, ws_col: COLUMNS, ws_xpixel: 0, ws_ypixel: 0 })?;
    let name = ptsname(&master, Vec::new())?;
    let flags = rustix::fs::OFlags::RDWR | rustix::fs::OFlags::NOCTTY;
    let inside = rustix::fs::open(name.as_c_str(), flags, rustix::fs::Mode::empty())?;
    Ok((master.into(), inside.into()))
}

/// The id of a run is random; that of the examples is not.
fn without_id(written: Vec<(Duration, String)>) -> Vec<(Duration, String)> {
    let id = written.iter().find_map(|(_, text)| {
        let at = text.find("run r-")?;
        Some(text[at + 4..].chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '-').collect::<String>())
    });
    let Some(id) = id else { return written };
    written.into_iter().map(|(at, text)| (at, text.replace(&id, "r-7f3a"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_picture_is_made_by_the_command_and_shows_the_jobs_of_the_file() {
        let path = root().join(PICTURE);
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{PICTURE}: {error}; run `{MADE_BY}`"));
        let jobs = jobs().expect("the quickstart is TOML");
        assert!(jobs.len() >= 4, "{jobs:?}");
        let title = format!("<title id=\"title\">bursar run {FILE}</title>");
        for part in [format!("Made by `{MADE_BY}`"), title, "run r-7f3a".to_owned()] {
            assert!(text.contains(&part), "{PICTURE} has no `{part}`; run `{MADE_BY}`");
        }
        // In what is drawn, not only in what is said about it.
        let drawn = text.split("<g class=").skip(1).collect::<String>();
        for job in jobs {
            assert!(drawn.contains(&job), "{PICTURE} does not show job `{job}`; run `{MADE_BY}`");
        }
        assert!(text.matches("<g class=").count() >= 4, "{PICTURE} does not move; run `{MADE_BY}`");
        assert_eq!(text.matches(" s\">").count(), 1, "one frame is the still");
    }

    #[test]
    fn the_id_of_a_run_is_replaced_everywhere() {
        let at = Duration::ZERO;
        let written =
            vec![(at, "started\n".to_owned()), (at, "run r-12ab · pause r-12ab".to_owned()), (at, "r-12ab".to_owned())];
        let texts: Vec<_> = without_id(written).into_iter().map(|(_, text)| text).collect();
        assert_eq!(texts, ["started\n", "run r-7f3a · pause r-7f3a", "r-7f3a"]);
    }

    #[test]
    fn the_still_shows_most() {
        let frame = |text: &str| frames(&[(Duration::ZERO, text.to_owned())]).remove(0);
        assert_eq!(still(&[frame("waiting"), frame("a done  b running c waiting"), frame("a done   b done  ")]), 1);
    }
}
