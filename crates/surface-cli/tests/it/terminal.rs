//! A run as a person at a terminal sees it: a real pseudo-terminal, and what is left on its screen.

use std::fs::File;
use std::io::Read;
use std::process::Stdio;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::run_site::Site;

/// As much of a terminal as the display uses.
#[derive(Default)]
pub(crate) struct Screen {
    pub(crate) lines: Vec<String>,
    row: usize,
    most_rows: usize,
}

impl Screen {
    pub(crate) fn show(&mut self, text: &str) {
        let mut rest = text.chars();
        while let Some(c) = rest.next() {
            match c {
                '\r' => {}
                '\n' => {
                    self.row += 1;
                    self.most_rows = self.most_rows.max(self.row);
                }
                '\x1b' => {
                    let code: String = rest.by_ref().take_while_inclusive(|c| !c.is_ascii_alphabetic());
                    let number = code.trim_matches(|c: char| !c.is_ascii_digit()).parse().unwrap_or(0);
                    match code.chars().last() {
                        Some('A') => self.row -= number,
                        Some('J') => self.lines.truncate(self.row),
                        Some('m') => {}
                        other => panic!("no terminal was promised {other:?} of `{code}`"),
                    }
                }
                c => {
                    self.lines.resize(self.lines.len().max(self.row + 1), String::new());
                    self.lines[self.row].push(c);
                }
            }
        }
    }
}

trait TakeInclusive {
    fn take_while_inclusive(&mut self, keep: impl Fn(char) -> bool) -> String;
}

impl TakeInclusive for std::str::Chars<'_> {
    fn take_while_inclusive(&mut self, keep: impl Fn(char) -> bool) -> String {
        let mut taken = String::new();
        for c in self.by_ref() {
            taken.push(c);
            if !keep(c) {
                break;
            }
        }
        taken
    }
}

/// A terminal of this size: the side of who looks at it, and the side of who runs at it.
pub(crate) fn terminal((ws_col, ws_row): (u16, u16)) -> (File, File) {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    tcsetwinsize(&master, Winsize { ws_row, ws_col, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
    let name = ptsname(&master, Vec::new()).unwrap();
    let slave = File::options().read(true).write(true).open(name.to_str().unwrap()).unwrap();
    (master.into(), slave)
}

/// Runs `bursar` at a terminal; gives everything it wrote, and what is on the screen at the end.
pub(crate) fn at_a_terminal(site: &Site, words: &str, size: (u16, u16)) -> (String, Screen) {
    let (mut master, slave) = terminal(size);
    let mut command = site.command(words.split_whitespace());
    command.env("TERM", "xterm").stdout(slave.try_clone().unwrap()).stderr(slave.try_clone().unwrap());
    let mut child = command.stdin(Stdio::null()).spawn().unwrap();
    drop((command, slave)); // or the terminal would never be closed
    let mut bytes = Vec::new();
    let _ = master.read_to_end(&mut bytes); // a terminal that is closed is an error, after everything was read
    child.wait().unwrap();
    let text = String::from_utf8(bytes).unwrap();
    let mut screen = Screen::default();
    screen.show(&text);
    (text, screen)
}

#[test]
fn the_screen_shows_groups_failures_and_what_to_do_next() {
    let site = Site::new(
        r#"
        [resources]
        cpu = 2
        ram = "4 GB"
        [job.board]
        run = "sleep 0.5"
        [job.image]
        foreach = { scene = "1..4" }
        needs = ["board"]
        run = "echo drawing {scene}; sleep 0.4; test {scene} != 3"
        [job.film]
        needs = ["image"]
        run = "true"
        "#,
    );
    let (text, screen) = at_a_terminal(&site, "run jobs.toml", (100, 24));
    let id = site.newest().id.to_string();
    let log = site.journal().folder(&site.newest().id).join("logs/3.1.log");
    let lines: Vec<String> = screen.lines.iter().map(|line| line.replace(&id, "RUN")).collect();
    assert_eq!(lines.len(), 8, "{lines:#?}");
    assert!(lines[0].starts_with("✗ image[3] failed after ") && lines[0].ends_with(": exited with 1"), "{lines:#?}");
    assert_eq!(lines[1], "  │ drawing 3");
    assert_eq!(lines[2], format!("  └ {}", log.display()).replace(&id, "RUN"));
    assert!(lines[3].starts_with(" board       ██████████ done   "), "{lines:#?}");
    assert_eq!(lines[4], " image[1..4] ███████░░░ 3/4    1 failed");
    assert_eq!(lines[5], " film        ░░░░░░░░░░ cancelled");
    assert_eq!(lines[6], " cpu 0/2 · ram 0.0/4.0 GB · 4/6 done · 1 failed · run RUN");
    assert!(lines[7].starts_with("1 failed, 1 cancelled, 4 done in "), "{lines:#?}");
    assert!(text.contains("waiting for board") && text.contains("running 2"), "{text}");
    assert!(text.contains("\x1b[31m"), "failures are red");
    let frames = text.matches("\x1b[J").count();
    assert!((3..200).contains(&frames), "{frames} frames for a run of about a second");
}

#[test]
fn a_plan_longer_than_the_terminal_never_scrolls_its_frame_away() {
    let jobs: String = (0..50).map(|n| format!("[job.step-{n}]\nrun = 'true'\n")).collect();
    let site = Site::new(&jobs);
    let (text, screen) = at_a_terminal(&site, "--no-color run jobs.toml --cpu 2", (60, 8));
    assert!(screen.most_rows <= 8, "{} rows: {text}", screen.most_rows);
    assert!(text.contains("more: "), "{text}");
    assert!(!text.contains("\x1b[3"), "no colours were asked for: {text:?}");
    assert!(screen.lines.last().unwrap().starts_with("50 jobs done in "), "{:#?}", screen.lines);
}
