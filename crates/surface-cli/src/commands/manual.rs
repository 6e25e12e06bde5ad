//! `bursar help`: the help of a command, of a kind of file, or of events.
//!
//! Room: surface.

use clap::{Args, Command};
use surface_text::reference::Reference;

use crate::control::event;
use crate::exit::{Exit, Failure};
use crate::out::print;

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// A command, as `run` or `flow set`; or `jobfile`, `flowfile`, `policyfile`, `simfile` or `events`
    #[arg(value_name = "WORD")]
    words: Vec<String>,

    /// With a kind of file: its JSON Schema, for editors
    #[arg(long, conflicts_with = "markdown")]
    json: bool,

    /// With a kind of file, or events: as Markdown
    #[arg(long)]
    markdown: bool,
}

/// `bursar help`
pub(crate) fn help(options: &Options, mut top: Command) -> Result<Exit, Failure> {
    let words: Vec<&str> = options.words.iter().map(String::as_str).collect();
    match words[..] {
        ["jobfile"] => return file(options, &surface_jobfile::reference(), surface_jobfile::schema),
        ["flowfile"] => return file(options, &surface_flowfile::reference(), surface_flowfile::schema),
        ["policyfile"] => return file(options, &surface_policyfile::reference(), surface_policyfile::schema),
        ["simfile"] => return file(options, &surface_simfile::reference(), surface_simfile::schema),
        ["events"] if options.markdown => {
            print("<!-- Written by `bursar help events --markdown`. Do not edit. -->\n\n")?;
            return print(event::HELP).map(|()| Exit::Success);
        }
        ["events"] if !options.json => return print(event::HELP).map(|()| Exit::Success),
        _ if options.json || options.markdown => {
            return Err(Failure::usage(
                "--json and --markdown are for `bursar help jobfile`, `flowfile`, `policyfile` and `simfile`; --markdown also for `bursar help events`",
            ));
        }
        _ => {}
    }
    top.build(); // so that commands know their full names
    let mut at = &mut top;
    for (depth, word) in words.iter().enumerate() {
        let so_far = words[..depth].join(" ");
        at = at.find_subcommand_mut(word).ok_or_else(|| {
            let source = if so_far.is_empty() { "`bursar help`" } else { so_far.as_str() };
            Failure::usage(format!(
                "there is no command `{word}`; {source} lists all commands; other topics are jobfile, flowfile, policyfile, simfile and events"
            ))
        })?;
    }
    print(&at.render_long_help().to_string())?;
    Ok(Exit::Success)
}

fn file(options: &Options, reference: &Reference, schema: fn() -> String) -> Result<Exit, Failure> {
    print(&match options {
        Options { json: true, .. } => schema(),
        Options { markdown: true, .. } => reference.markdown(),
        _ => reference.text(),
    })?;
    Ok(Exit::Success)
}
