//! `bursar policy status` and `bursar policy log`: what a service and its programs say.
//!
//! Room: surface.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use clap::Args;
use surface_text::clean;

use super::{Socket, beside, log_file};
use crate::control::{Client, PolicyLine, PolicyRecord, Request};
use crate::exit::{Exit, Failure, say};
use crate::out::{json, now_ms, print, table};
use crate::view::text::time;

/// Options of `bursar policy status`.
#[derive(Debug, Clone, Args)]
pub(super) struct Options {
    #[command(flatten)]
    socket: Socket,
    /// One JSON object
    #[arg(long)]
    json: bool,
}

/// Options of `bursar policy log`.
#[derive(Debug, Clone, Args)]
pub(super) struct Log {
    #[command(flatten)]
    socket: Socket,
    /// The newest so many
    #[arg(short, long, value_name = "N", default_value_t = 50)]
    number: usize,
    /// One JSON object a line
    #[arg(long)]
    json: bool,
}

/// What a service says when no one listens.
fn gone(socket: &Path) -> String {
    format!(
        "no policy service listens at {}; programs continue with the last epoch they took; start one with `bursar policy serve FILE`",
        socket.display()
    )
}

fn ask(socket: &Path) -> Result<Option<PolicyLine>, Failure> {
    let client =
        Client::connect_at(socket, "the policy service").map_err(|error| Failure::broken(error.to_string()))?;
    let Some(mut client) = client else {
        // A socket that is there and may not be used belongs to another user, and may well be served.
        let is_barred = fs::metadata(socket).is_ok_and(|about| about.uid() != rustix::process::geteuid().as_raw());
        if is_barred {
            let owner = "belongs to another user; ask as that user, or name another socket with `--socket`";
            return Err(Failure::broken(format!("{} {owner}", socket.display())));
        }
        return Ok(None);
    };
    let answer = client.ask(Request::Ps { all: false, limit: None })?;
    match answer.policy {
        Some(line) => Ok(Some(line)),
        None => Err(Failure::broken(format!("{} is not the socket of a policy service", socket.display()))),
    }
}

/// `bursar policy status`
pub(super) fn run(options: &Options) -> Result<Exit, Failure> {
    let socket = options.socket.path()?;
    let Some(line) = ask(&socket)? else { return Err(Failure::not_found(gone(&socket))) };
    if options.json {
        json(&line)?;
        return Ok(Exit::Success);
    }
    let mut text = format!(
        "epoch {} for {}: {} profiles, {} rules, default `{}`\nservice {} publishes {} at {}\n",
        line.epoch,
        time(Duration::from_millis(line.age_ms)),
        line.profiles,
        line.rules,
        clean(&line.default),
        line.pid,
        clean(&line.file),
        clean(&line.socket),
    );
    if let Some(problem) = &line.problem {
        text += &format!("the file as it is now is not in force: {}\n", clean(problem));
    }
    text += &format!("{} listening\n", surface_text::amounts::counted(line.listeners, "program"));
    if !line.programs.is_empty() {
        let mut rows = vec![["PID", "PROGRAM", "EPOCH", "LAST", "AGO", "REASON"].map(str::to_owned).to_vec()];
        rows.extend(line.programs.iter().map(|program| {
            let ago = Duration::from_millis(now_ms().saturating_sub(program.at_ms));
            vec![
                program.pid.to_string(),
                clean(&program.who).into_owned(),
                program.epoch.to_string(),
                clean(&program.verdict).into_owned(),
                time(ago),
                clean(&program.reason).into_owned(),
            ]
        }));
        text += &table(&rows);
    }
    print(&text)?;
    Ok(Exit::Success)
}

/// `bursar policy log`
pub(super) fn log(options: &Log) -> Result<Exit, Failure> {
    let socket = options.socket.path()?;
    let path = beside(&socket, ".log");
    let records = log_file::read(&path, options.number)
        .map_err(|error| Failure::broken(format!("cannot read {}: {error}", path.display())))?
        .ok_or_else(|| Failure::not_found(format!("there is no log at {}; {}", path.display(), gone(&socket))))?;
    for record in &records {
        if options.json {
            json(record)?;
        } else {
            print(&shown(record))?;
        }
    }
    let is_there = Client::connect_at(&socket, "the policy service").is_ok_and(|client| client.is_some());
    if !is_there && !options.json {
        say!("{}", gone(&socket));
    }
    Ok(Exit::Success)
}

/// `12:07:31  service (4211)  file of epoch 8: accepted`
fn shown(record: &PolicyRecord) -> String {
    let PolicyRecord { at_ms, who, pid, heard, number, verdict, in_force, reason, repeated } = record;
    let ago = time(Duration::from_millis(now_ms().saturating_sub(*at_ms)));
    let number = number.map(|number| format!(" of epoch {number}")).unwrap_or_default();
    let mut line = format!("{ago:>8} ago  {who} ({pid})  {heard}{number}: {verdict}");
    if verdict != "accepted" {
        line += &format!("; epoch {in_force} stays in force");
    }
    if !reason.is_empty() {
        line += &format!(": {reason}");
    }
    if *repeated > 0 {
        line += &format!(" ({repeated} times more)");
    }
    clean(&line).into_owned() + "\n"
}
