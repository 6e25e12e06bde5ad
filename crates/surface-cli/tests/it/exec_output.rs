//! `exec`: output that goes to what is slow, full or closed.

use std::fs;
use std::io::Read;
use std::process::Stdio;
use std::time::Duration;

use rustix::fs::{OFlags, fcntl_setfl};

use crate::run_site::{Site, assert_code};
use crate::text;

fn site() -> Site {
    let site = Site::new("");
    let source = "func main() do\n    for i in 1..20000 do\n        print(\"a line that fills the pipe sooner or later:\", i)\n    end\nend\n";
    fs::write(site.path("x.jan"), source).unwrap();
    site
}

#[test]
fn a_pipe_that_does_not_block_gets_everything_however_slowly_it_is_read() {
    let site = site();
    for (words, json) in [("exec x.jan", false), ("exec x.jan --json", true)] {
        let (mut reader, writer) = std::io::pipe().unwrap();
        fcntl_setfl(&writer, OFlags::NONBLOCK).unwrap();
        let mut command = site.command(words.split(' '));
        match json {
            false => command.stdout(writer).stderr(Stdio::null()),
            true => command.stdout(Stdio::null()).stderr(writer),
        };
        let mut child = command.spawn().unwrap();
        drop(command); // and with it our end of the pipe
        std::thread::sleep(Duration::from_millis(300)); // the pipe is full by then
        let mut all = String::new();
        reader.read_to_string(&mut all).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(0), "{words}");
        let lines: Vec<&str> = all.lines().collect();
        assert_eq!((lines.len(), lines.last().unwrap().ends_with(": 20000")), (20_000, true), "{words}");
    }
}

#[test]
fn output_that_cannot_be_written_is_no_success() {
    let site = site();
    let shell = |line: &str| {
        let mut command = std::process::Command::new("sh");
        command.args(["-c", line, env!("CARGO_BIN_EXE_bursar")]);
        site.within(command).output().unwrap()
    };
    for line in [
        "\"$0\" exec x.jan >&-",
        "\"$0\" exec x.jan --check >&-",
        "\"$0\" exec x.jan --emit qtjir >&-",
        "\"$0\" exec --help >&-",
        "\"$0\" exec --help >/dev/full",
        "\"$0\" --help >/dev/full",
        "\"$0\" --version >/dev/full",
        "\"$0\" exec x.jan --check >/dev/full",
        "\"$0\" exec x.jan --explore 0..1 >&-",
    ] {
        let output = shell(line);
        assert_code(&output, 1);
        let said = text(&output.stderr);
        let why = if line.ends_with("full") { "No space left on device" } else { "Bad file descriptor" };
        assert!(said.contains("be written: ") || said.contains("cannot write the output: "), "{line}: {said}");
        assert!(said.contains(why), "{line}: {said}");
    }
    // What prints nothing does not need it.
    fs::write(site.path("x.jan"), "func main() do end\n").unwrap();
    assert_code(&shell("\"$0\" exec x.jan >&-"), 0);
    assert_code(&shell("\"$0\" exec x.jan >&- 2>&-"), 0);
    assert_code(&shell("\"$0\" exec --help >/dev/null"), 0);
}
