//! A flow as a person at a terminal sees and steers it: a real pseudo-terminal, real keys.

use std::fs::File;
use std::io::{Read, Write};
use std::process::Child;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use rustix::termios::{LocalModes, Termios, tcgetattr};

use crate::flow::site;
use crate::run_site::Site;
use crate::terminal::{Screen, terminal};

const LONG_ENOUGH: Duration = Duration::from_secs(60);

/// A terminal with a `bursar` at it.
struct Terminal {
    keys: File,
    /// Kept, so that its modes can be read after the end.
    slave: File,
    before: Termios,
    child: Child,
    written: Arc<(Mutex<Vec<u8>>, Condvar)>,
    /// How much was written when the last key was pressed.
    pressed_at: usize,
}

impl Terminal {
    fn open(site: &Site, words: &str, size: (u16, u16)) -> Terminal {
        let (mut screen, slave) = terminal(size);
        let before = tcgetattr(&slave).unwrap();
        let mut command = site.command(words.split_whitespace());
        command.env("TERM", "xterm").env_remove("NO_COLOR");
        command.stdin(slave.try_clone().unwrap()).stdout(slave.try_clone().unwrap()).stderr(slave.try_clone().unwrap());
        let child = command.spawn().unwrap();
        let keys = screen.try_clone().unwrap();
        let written = Arc::<(Mutex<Vec<u8>>, Condvar)>::default();
        let into = Arc::clone(&written);
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count) = screen.read(&mut bytes) {
                into.0.lock().unwrap().extend_from_slice(&bytes[..count]);
                into.1.notify_all();
            }
        });
        Terminal { keys, slave, before, child, written, pressed_at: 0 }
    }

    fn modes(&self) -> LocalModes {
        tcgetattr(&self.slave).unwrap().local_modes
    }

    fn press(&mut self, keys: &str) {
        self.pressed_at = self.written.0.lock().unwrap().len();
        self.keys.write_all(keys.as_bytes()).unwrap();
    }

    /// Waits until this is somewhere in what it wrote since the last key.
    fn until_it_shows(&self, what: &str) {
        self.until_it_shows_one_of(&[what]);
    }

    fn until_it_shows_one_of(&self, what: &[&str]) {
        let until = Instant::now() + LONG_ENOUGH;
        let mut written = self.written.0.lock().unwrap();
        loop {
            let last = String::from_utf8_lossy(&written[self.pressed_at..]);
            let plain = console::strip_ansi_codes(&last);
            if what.iter().any(|what| plain.contains(what)) {
                return;
            }
            let left = until.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "it does not show {what:?}:\n{}", self.lines(&written).join("\n"));
            written = self.written.1.wait_timeout(written, left).unwrap().0;
        }
    }

    fn lines(&self, written: &[u8]) -> Vec<String> {
        let mut screen = Screen::default();
        screen.show(&String::from_utf8_lossy(written));
        screen.lines
    }

    /// Waits for the end; gives the code, and what is left on the screen.
    fn end(mut self) -> (Option<i32>, Vec<String>) {
        let until = Instant::now() + LONG_ENOUGH;
        let status = loop {
            match self.child.try_wait().unwrap() {
                Some(status) => break status,
                None if Instant::now() > until => {
                    let _ = self.child.kill();
                    panic!("it does not end:\n{}", self.lines(&self.written.0.lock().unwrap()).join("\n"));
                }
                None => std::thread::sleep(Duration::from_millis(2)),
            }
        };
        assert_eq!(self.modes(), self.before.local_modes, "the terminal is as it was");
        // A mark behind everything it wrote: when that came, all came.
        self.slave.write_all(b"\x1b[0mTHE END").unwrap();
        self.until_it_shows("THE END");
        let mut lines = self.lines(&self.written.0.lock().unwrap());
        assert_eq!(lines.pop().as_deref(), Some("THE END"), "it ended with a whole line: {lines:#?}");
        (status.code(), lines)
    }
}

/// One fast source, two edges.
const FAST: &str = r#"
name = "fast"
edges = ["tick -> twice -> gone"]
[node.tick]
kind = "every"
interval = "5ms"
[node.twice]
kind = "map"
scale = 2
[node.gone]
kind = "discard"
"#;

#[test]
fn the_kill_switch_stops_at_once_and_the_terminal_is_as_it_was() {
    let site = site(FAST);
    let mut terminal = Terminal::open(&site, "flow run flow.toml", (100, 24));
    terminal.until_it_shows("▸tick:out->twice:in");
    assert!(!terminal.modes().intersects(LocalModes::ICANON | LocalModes::ECHO), "keys are read as they are pressed");
    assert!(terminal.modes().contains(LocalModes::ISIG), "Ctrl-C is still a signal");
    terminal.press("k");
    let (code, lines) = terminal.end();
    assert_eq!(code, Some(130), "{lines:#?}");
    assert!(lines[0].starts_with("bursar: stopping at once"), "{lines:#?}");
    assert!(lines[1].starts_with(" EDGE "), "{lines:#?}");
    assert!(lines.last().unwrap().starts_with("fast: killed after "), "{lines:#?}");
}

#[test]
fn a_flow_that_is_never_idle_hears_the_kill_switch() {
    for workers in ["", " --workers 2"] {
        let site = site(
            r#"
            edges = ["count -> twice -> gone"]
            [node.count]
            kind = "numbers"
            to = 1000000000000
            [node.twice]
            kind = "map"
            scale = 2
            [node.gone]
            kind = "discard"
            "#,
        );
        let mut terminal = Terminal::open(&site, &format!("flow run flow.toml{workers}"), (100, 24));
        terminal.until_it_shows("▸count:out->twice:in");
        terminal.until_it_shows_one_of(&[" k msg/s", " M msg/s"]);
        let pressed = Instant::now();
        terminal.press("k");
        let (code, lines) = terminal.end();
        assert_eq!(code, Some(130), "{lines:#?}");
        assert!(pressed.elapsed() < Duration::from_secs(5), "it took {:?}", pressed.elapsed());
    }
}

#[test]
fn keys_choose_an_edge_and_change_it_and_hold_the_sources() {
    let site = site(FAST);
    let mut terminal = Terminal::open(&site, "flow run flow.toml", (100, 24));
    terminal.until_it_shows("▸tick:out->twice:in");
    terminal.press("\x1b[B");
    terminal.until_it_shows("▸twice:out->gone:in");
    terminal.press("-");
    terminal.until_it_shows("0/512");
    terminal.press("++");
    terminal.until_it_shows("0/2048");
    terminal.press("p");
    terminal.until_it_shows("▸twice:out->gone:in  high");
    terminal.press("?");
    terminal.until_it_shows("the kill switch");
    terminal.press(" ");
    terminal.until_it_shows("sources paused (space: resume)");
    terminal.until_it_shows(" tick   paused");
    terminal.press(" ");
    terminal.until_it_shows(" tick   running");
    terminal.press("q");
    let (code, lines) = terminal.end();
    assert_eq!(code, Some(0), "{lines:#?}");
    assert!(lines.iter().any(|line| line.starts_with(" twice:out->gone:in  high")), "{lines:#?}");
    assert!(lines.last().unwrap().starts_with("fast: stopped after "), "{lines:#?}");
}

#[test]
fn what_nodes_and_their_programs_print_stands_whole_above_the_live_area() {
    let site = site(
        r#"
        name = "loud"
        edges = ["count -> show", "talks -> gone"]
        [node.count]
        kind = "numbers"
        to = 20000
        [node.show]
        kind = "print"
        [node.talks]
        kind = "command"
        run = "for n in 1 2 3; do echo program $n >&2; sleep 0.15; done; echo end"
        [node.gone]
        kind = "discard"
        "#,
    );
    let terminal = Terminal::open(&site, "flow run flow.toml", (100, 24));
    let (code, lines) = terminal.end();
    assert_eq!(code, Some(0), "{lines:#?}");
    let numbers: Vec<u32> = lines.iter().filter_map(|line| line.parse().ok()).collect();
    assert!(numbers.iter().copied().eq(1..=20_000), "{} lines of numbers", numbers.len());
    let program: Vec<&String> = lines.iter().filter(|line| line.starts_with("program")).collect();
    assert_eq!(program, ["program 1", "program 2", "program 3"]);
    let titles = lines.iter().filter(|line| line.starts_with(" EDGE")).count();
    assert_eq!(titles, 1, "one frame is left");
    assert!(lines.last().unwrap().starts_with("loud: done in "), "{:?}", lines.last());
}

#[test]
fn what_was_printed_just_before_the_end_is_shown() {
    let site = site("edges = ['a -> b']\n[node.a]\nkind = 'numbers'\nto = 3000\n[node.b]\nkind = 'print'\n");
    let (code, lines) = Terminal::open(&site, "flow run flow.toml", (100, 24)).end();
    assert_eq!(code, Some(0), "{lines:#?}");
    let numbers: Vec<u32> = lines.iter().filter_map(|line| line.parse().ok()).collect();
    assert!(numbers.iter().copied().eq(1..=3000), "{} lines of numbers", numbers.len());
}

#[test]
fn a_signal_drains_and_puts_the_terminal_back() {
    let site = site(FAST);
    let terminal = Terminal::open(&site, "flow run flow.toml --workers 2", (60, 8));
    terminal.until_it_shows("tick->twice");
    kill_process(Pid::from_child(&terminal.child), Signal::TERM).unwrap();
    let (code, lines) = terminal.end();
    assert_eq!(code, Some(143), "{lines:#?}");
    assert!(lines.last().unwrap().starts_with("fast: interrupted after "), "{lines:#?}");
}

#[test]
fn a_flow_that_reads_what_is_typed_is_shown_in_lines_and_has_no_keys() {
    let site = site("edges = ['typed -> show']\n[node.typed]\nkind = 'stdin'\n[node.show]\nkind = 'print'\n");
    let mut terminal = Terminal::open(&site, "flow run flow.toml", (100, 24));
    terminal.until_it_shows("flow f-");
    assert!(terminal.modes().contains(LocalModes::ICANON), "lines are typed as ever");
    terminal.press("kill\n\x04");
    let (code, lines) = terminal.end();
    assert_eq!(code, Some(0), "{lines:#?}");
    assert!(lines.iter().any(|line| line == "kill"), "{lines:#?}");
}

#[test]
fn plain_lines_can_be_had_at_a_terminal_too() {
    let site = site(FAST);
    let terminal = Terminal::open(&site, "flow run flow.toml --plain --for 100ms", (100, 24));
    let (code, lines) = terminal.end();
    assert_eq!(code, Some(0), "{lines:#?}");
    assert!(lines[0].starts_with("flow f-"), "{lines:#?}");
}
