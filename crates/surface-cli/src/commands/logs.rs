//! `bursar logs [-f] JOB`: what a job printed.
//!
//! Room: surface.
//!
//! One command (`bursar run -- COMMAND`) has a log for each of its streams, and each is printed to the same stream.
//!
//! `-f` checks ten times a second whether the file grew, and twice a second whether the job has ended. The file is read
//! once more after the end was seen, so the last output is never missed.

use std::fs::File;
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use rustix::fs::seek;
use rustix::io::Errno;
use sched_jobs::State;
use surface_journal::{JobRow, RunRow};

use crate::control::Request;
use crate::exit::{Exit, Failure};
use crate::out::print;
use crate::runs::{Found, Intent, RunResolver};
use crate::view::log_path;
use crate::view::text::{clean, megabytes, typed};

const POLL_INTERVAL: Duration = Duration::from_millis(100);
const STATUS_INTERVAL: Duration = Duration::from_millis(500);

/// Options of `bursar logs`.
#[derive(Debug, Clone, Args)]
pub(crate) struct Options {
    /// A job (`image[8]`); without --run, in the newest run that has it
    job: String,
    /// The run: `r-7f3a`, its beginning, or `latest`
    #[arg(long, value_name = "RUN")]
    run: Option<String>,
    /// Follow until the job has ended, over all attempts
    #[arg(short, long)]
    follow: bool,
    /// Only the last N lines of the existing log
    #[arg(short = 'n', long, value_name = "N")]
    lines: Option<usize>,
    /// An earlier attempt [default: the latest]
    #[arg(long, value_name = "N", conflicts_with = "follow")]
    attempt: Option<u32>,
    /// Print the path of the log instead of its content
    #[arg(long, conflicts_with = "follow")]
    path: bool,
}

pub(crate) fn run(options: &Options) -> Result<Exit, Failure> {
    let resolver = RunResolver::open()?;
    let Found { run, client, jobs } = resolver.find(options.run.as_deref(), Some(&options.job), Intent::Look)?;
    drop(client);
    let [job] = jobs.as_slice() else {
        let message = format!(
            "`{}` is {} jobs; name one of them, such as `{}`",
            options.job,
            jobs.len(),
            jobs.first().map_or("compose", |job| job)
        );
        return Err(Failure::new(Exit::Usage, message));
    };
    let mut watched = Watched { resolver: &resolver, run, name: job.clone() };
    let row = watched.row()?;
    if options.follow {
        return follow(&mut watched, options.lines);
    }
    let attempt = options.attempt.unwrap_or(row.attempt).max(1);
    let path = watched.log(&row, attempt);
    if options.path {
        print(&format!("{}\n", path.display()))?;
        return Ok(Exit::Success);
    }
    match File::open(&path) {
        Ok(mut file) => {
            skip(&mut file, options.lines)?;
            copy(&mut file, crate::streams::stdout().lock())?;
            if let Ok(mut file) = File::open(path.with_extension("err")) {
                skip(&mut file, options.lines)?;
                copy(&mut file, crate::streams::stderr().lock())?;
            }
            Ok(Exit::Success)
        }
        Err(error) if error.kind() == ErrorKind::NotFound && row.attempt == 0 && options.attempt.is_none() => {
            let (name, why) = (clean(job), typed(&clean(job)));
            if row.state.is_terminal() {
                crate::exit::say!("bursar: {name} never started; `bursar why {why}` says why");
            } else {
                crate::exit::say!("bursar: {name} has not started yet; `bursar why {why}` says why, `-f` waits for it");
            }
            Ok(Exit::Success)
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let message = format!("there is no log of attempt {attempt} of {} (it had {})", clean(job), row.attempt);
            Err(Failure::not_found(format!("{message}; name another with --attempt")))
        }
        Err(error) => Err(Failure::broken(format!("cannot read {}: {error}", path.display()))),
    }
}

/// A job whose log is read.
struct Watched<'a> {
    resolver: &'a RunResolver,
    run: RunRow,
    name: String,
}

impl Watched<'_> {
    /// From the journal, or from the run itself while it is active: the journal may be a moment behind. Its attempts are those that began.
    fn row(&self) -> Result<JobRow, Failure> {
        // Asked first: the journal is read after that, so it has all that a run wrote before it stopped answering.
        let live = self.live()?;
        let rows = self.resolver.journal_of(&self.run.id).jobs(&self.run.id)?;
        let row = rows.into_iter().find(|row| row.name == self.name);
        let mut row =
            row.ok_or_else(|| Failure::not_found(format!("run {} has no job `{}`", self.run.id, self.name)))?;
        row.attempt = row.attempts_begun();
        if let Some((state, attempts)) = live {
            row.state = state;
            row.attempt = attempts;
        }
        Ok(row)
    }

    /// State and attempts, if the run is active.
    fn live(&self) -> Result<Option<(State, u32)>, Failure> {
        let Some(mut client) = self.resolver.client(&self.run.id)? else { return Ok(None) };
        let Ok(answer) = client.ask(Request::Status { job: self.name.clone() }) else { return Ok(None) };
        let line = answer.job.unwrap_or_default();
        Ok(State::from_name(&line.state).map(|state| (state, line.attempts)))
    }

    fn log(&self, row: &JobRow, attempt: u32) -> PathBuf {
        log_path(&self.resolver.journal_of(&self.run.id).folder(&self.run.id).join("logs"), row.job as usize, attempt)
    }
}

fn follow(watched: &mut Watched<'_>, lines: Option<usize>) -> Result<Exit, Failure> {
    let row = watched.row()?;
    let (mut attempt, mut state) = (row.attempt.max(1), row.state);
    let mut file: Option<Streams> = None;
    let mut first = true;
    let mut asked = Instant::now();
    loop {
        let is_last = state.is_terminal(); // seen before the read below, so that read is the last that is needed
        if file.is_none() {
            let lines = if first { lines } else { None };
            file = Streams::open(&watched.log(&row, attempt), lines)?;
            first &= file.is_none();
        }
        if let Some(file) = &mut file {
            file.copy()?;
        }
        if is_last {
            return Ok(if state == State::Succeeded { Exit::Success } else { Exit::Failed });
        }
        std::thread::sleep(POLL_INTERVAL);
        if asked.elapsed() < STATUS_INTERVAL {
            continue;
        }
        asked = Instant::now();
        let (now, attempts) = match watched.live()? {
            Some(live) => live,
            None => {
                // Checked before the row is read: a run that does not answer any more may still write its last events.
                let has_run_ended =
                    !watched.resolver.journal_of(&watched.run.id).run(&watched.run.id)?.status.is_live();
                let row = watched.row()?;
                if has_run_ended && !row.state.is_terminal() {
                    if let Some(file) = &mut file {
                        file.copy()?;
                    }
                    crate::exit::say!(
                        "bursar: run {} is not active any more; `bursar run --resume {}` continues it",
                        watched.run.id,
                        watched.run.id
                    );
                    return Ok(Exit::Failed);
                }
                (row.state, row.attempt)
            }
        };
        state = now;
        if attempts > attempt {
            if let Some(file) = &mut file {
                file.copy()?;
                crate::exit::say!("bursar: attempt {attempts} of {}", clean(&watched.name));
            }
            (attempt, file) = (attempts, None);
        }
    }
}

/// The logs of an attempt: both streams in one, or standard error in its own.
struct Streams {
    out: File,
    err: Option<File>,
}

impl Streams {
    /// Opens them at their last lines. `None` if there is no log.
    fn open(path: &Path, lines: Option<usize>) -> Result<Option<Streams>, Failure> {
        let Ok(mut out) = File::open(path) else { return Ok(None) };
        let mut err = File::open(path.with_extension("err")).ok();
        skip(&mut out, lines)?;
        err.iter_mut().try_for_each(|err| skip(err, lines))?;
        Ok(Some(Streams { out, err }))
    }

    /// Prints what is new.
    fn copy(&mut self) -> Result<(), Failure> {
        copy(&mut self.out, crate::streams::stdout().lock())?;
        self.err.iter_mut().try_for_each(|err| copy(err, crate::streams::stderr().lock()))
    }
}

/// Goes to the last lines of a file.
fn skip(file: &mut File, lines: Option<usize>) -> Result<(), Failure> {
    const BLOCK: u64 = 64 * 1024;
    let broken = |error: std::io::Error| Failure::broken(format!("cannot read the log: {error}"));
    let Some(lines) = lines else { return Ok(()) };
    let end = file.seek(SeekFrom::End(0)).map_err(broken)?;
    let (mut at, mut left, mut is_end) = (end, lines, true);
    let mut block = Vec::new();
    while at > 0 {
        let from = at.saturating_sub(BLOCK);
        file.seek(SeekFrom::Start(from)).map_err(broken)?;
        block.clear();
        (&mut *file).take(at - from).read_to_end(&mut block).map_err(broken)?;
        for (index, _) in block.iter().enumerate().rev().filter(|(_, byte)| **byte == b'\n') {
            let after = from + index as u64 + 1;
            // No line begins after the end of the last line.
            if is_end && after == end {
                continue;
            }
            if left <= 1 {
                let start = if lines == 0 { end } else { after };
                return file.seek(SeekFrom::Start(start)).map(drop).map_err(broken);
            }
            left -= 1;
        }
        is_end = end == at && block.is_empty();
        at = from;
    }
    file.seek(SeekFrom::Start(if lines == 0 { end } else { 0 })).map(drop).map_err(broken)
}

/// Prints the rest of a file. Where a long log was cut, it says so.
fn copy(file: &mut File, mut out: impl Write) -> Result<(), Failure> {
    match copy_data(file, &mut out).and_then(|()| out.flush()) {
        Ok(()) => Ok(()),
        // The reader has closed the pipe.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => std::process::exit(Exit::Success as i32),
        Err(error) => Err(Failure::broken(format!("cannot copy the log: {error}"))),
    }
}

fn copy_data(file: &mut File, out: &mut impl Write) -> std::io::Result<()> {
    loop {
        let at = file.stream_position()?;
        let data = match seek(&*file, rustix::fs::SeekFrom::Data(at)) {
            Ok(data) => data,
            Err(Errno::NXIO) => return Ok(()), // the end; the position is as before
            // A file system without holes.
            Err(_) => return std::io::copy(file, out).map(drop),
        };
        if data > at {
            let mb = (data - at).div_ceil(1_000_000);
            writeln!(out, "\n[… {} left out here: the log was longer than its limit …]", megabytes(mb))?;
        }
        let hole = seek(&*file, rustix::fs::SeekFrom::Hole(data))?;
        file.seek(SeekFrom::Start(data))?;
        std::io::copy(&mut Read::by_ref(file).take(hole - data), out)?;
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::{copy_data, skip};

    #[test]
    fn a_hole_in_a_log_is_told_and_not_printed() {
        use rustix::fs::{FallocateFlags, fallocate};
        let mut file = tempfile::tempfile().unwrap();
        let line = "x".repeat(4095) + "\n";
        file.write_all(line.repeat(1_000).as_bytes()).unwrap();
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        fallocate(&file, flags, 8 * 4096, 900 * 4096).unwrap();
        std::io::Seek::rewind(&mut file).unwrap();
        let mut out = Vec::new();
        copy_data(&mut file, &mut out).unwrap();
        let notice = "\n[… 4 MB left out here: the log was longer than its limit …]\n";
        assert_eq!(String::from_utf8(out).unwrap(), line.repeat(8) + notice + &line.repeat(92));
        // What comes later is printed alone.
        file.write_all(b"more").unwrap();
        std::io::Seek::seek(&mut file, std::io::SeekFrom::Current(-4)).unwrap();
        let mut out = Vec::new();
        copy_data(&mut file, &mut out).unwrap();
        assert_eq!(out, b"more");
    }

    fn last(text: &str, lines: usize) -> String {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        skip(&mut file, Some(lines)).unwrap();
        let mut rest = String::new();
        file.read_to_string(&mut rest).unwrap();
        rest
    }

    #[test]
    fn the_last_lines_are_found_from_the_end() {
        assert_eq!(last("a\nb\nc\n", 2), "b\nc\n");
        assert_eq!(last("a\nb\nc", 2), "b\nc");
        assert_eq!(last("a\nb\nc\n", 9), "a\nb\nc\n");
        assert_eq!(last("a\nb\n", 0), "");
        assert_eq!(last("\n\n\n", 1), "\n");
        assert_eq!(last("", 3), "");
        let long = "x".repeat(100_000) + "\n";
        assert_eq!(last(&long.repeat(3), 2).len(), 200_002);
    }
}
