//! `bursar man`: manual pages, made from what the command knows of itself.
//!
//! Room: surface.
//!
//! `clap_mangen` writes every section but the last ones: there, lines of examples stay lines and are not filled into a paragraph.

use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;

use clap::{Args, Command};
use clap_mangen::Man;

use crate::exit::{Exit, Failure};
use crate::out::print;

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// A command, as `run` or `flow set`
    #[arg(value_name = "WORD")]
    words: Vec<String>,

    /// Write the pages of all commands into this folder
    #[arg(long, value_name = "FOLDER", conflicts_with = "words")]
    all: Option<PathBuf>,
}

/// `bursar man`
pub(crate) fn man(options: &Options, mut top: Command) -> Result<Exit, Failure> {
    top.build(); // so that commands know their full names
    if let Some(folder) = &options.all {
        for (name, text) in pages(&top) {
            let path = folder.join(name);
            let written = fs::create_dir_all(folder).and_then(|()| fs::write(&path, text));
            written.map_err(|error| Failure::broken(format!("cannot write {}: {error}", path.display())))?;
        }
        return Ok(Exit::Success);
    }
    let mut at = &top;
    for word in &options.words {
        at = at.find_subcommand(word).ok_or_else(|| {
            Failure::usage(format!("there is no command `{}`; `bursar help` lists them", options.words.join(" ")))
        })?;
    }
    print(&page(at)).map(|()| Exit::Success)
}

/// The pages of a command and of all commands below it: file name and text.
fn pages(command: &Command) -> Vec<(String, String)> {
    let own = (Man::new(command.clone()).get_filename(), page(command));
    let below = command.get_subcommands().filter(|below| !below.is_hide_set()).flat_map(pages);
    std::iter::once(own).chain(below).collect()
}

fn page(command: &Command) -> String {
    let mut text = Vec::new();
    sections(command, &mut text).expect("a Vec takes everything");
    let help = command.get_after_long_help().or_else(|| command.get_after_help());
    String::from_utf8_lossy(&text).into_owned() + &help.map_or_else(String::new, |help| notes(&help.to_string()))
}

fn sections(command: &Command, out: &mut dyn Write) -> io::Result<()> {
    let man = Man::new(command.clone());
    let name = command.get_display_name().unwrap_or(command.get_name());
    // Not by `render_title`: it writes an empty date without quotes, and what follows is taken for it.
    writeln!(out, ".TH {name} 1 \"\" \"bursar {}\" \"Bursar\"", env!("CARGO_PKG_VERSION"))?;
    man.render_name_section(out)?;
    man.render_synopsis_section(out)?;
    man.render_description_section(out)?;
    if command.get_arguments().any(|argument| !argument.is_hide_set()) {
        man.render_options_section(out)?;
    }
    if command.has_subcommands() {
        man.render_subcommands_section(out)?;
    }
    Ok(())
}

/// The text behind a command's help: `Examples:` opens a section, indented lines stay as they are, the rest is paragraphs.
fn notes(help: &str) -> String {
    let mut text = String::new();
    let mut is_kept = false; // lines are kept as they are
    for line in help.lines() {
        let is_indented = line.starts_with("  ");
        if is_indented != is_kept {
            text += if is_indented { ".nf\n" } else { ".fi\n" };
            is_kept = is_indented;
        }
        text += &match line.strip_suffix(':') {
            Some(title) if is_title(title) => format!(".SH {}\n", title.to_uppercase()),
            _ if line.is_empty() => ".PP\n".to_owned(),
            _ => format!("{}\n", escaped(line)),
        };
    }
    if is_kept { text + ".fi\n" } else { text }
}

/// One or two words that begin a line and end with a colon.
fn is_title(line: &str) -> bool {
    line.starts_with(char::is_uppercase) && line.split(' ').count() <= 2
}

/// A line of text in which roff sees no command.
fn escaped(line: &str) -> String {
    let line = line.replace('\\', "\\e").replace('-', "\\-");
    if line.starts_with(['.', '\'']) { format!("\\&{line}") } else { line }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn every_command_has_a_page_with_its_name_and_its_examples() {
        let mut top = crate::Cli::command();
        top.build();
        let pages = pages(&top);
        let names: Vec<&str> = pages.iter().map(|(name, _)| name.as_str()).collect();
        for name in ["bursar.1", "bursar-run.1", "bursar-flow.1", "bursar-flow-set.1", "bursar-man.1"] {
            assert!(names.contains(&name), "{name}: {names:?}");
        }
        for (name, text) in &pages {
            for part in [" 1 \"\" \"bursar ", ".SH NAME", ".SH SYNOPSIS", ".SH EXAMPLES\n.nf\n  bursar "] {
                assert!(text.contains(part), "{name} has no `{part}`:\n{text}");
            }
            assert_eq!(text.matches(".nf\n").count(), text.matches(".fi\n").count(), "{name}");
        }
    }

    #[test]
    fn lines_of_examples_stay_lines_and_paragraphs_are_filled() {
        let help = "Examples:\n  bursar ps --all     all\n\nIt is\n.so and 'that'.\n\nExit codes:\n  0    well";
        assert_eq!(
            notes(help),
            ".SH EXAMPLES\n.nf\n  bursar ps \\-\\-all     all\n.fi\n.PP\nIt is\n\\&.so and 'that'.\n.PP\n.SH EXIT CODES\n\
             .nf\n  0    well\n.fi\n"
        );
    }
}
