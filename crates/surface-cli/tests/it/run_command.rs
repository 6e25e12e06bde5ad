//! `bursar run -- COMMAND`: one command, as if it had been called directly.

use super::run_site::{Site, assert_code};
use super::text;

#[test]
fn its_output_comes_through_and_its_code_is_ours() {
    let site = Site::new("");
    let output = site.command(["run", "--", "sh", "-c", "echo out; echo err >&2; exit 7"]).output().unwrap();
    assert_code(&output, 7);
    assert_eq!((text(&output.stdout).as_str(), text(&output.stderr).as_str()), ("out\n", "err\n"));
    // Its log keeps them apart, too.
    let output = site.bursar("logs sh");
    assert_eq!((text(&output.stdout).as_str(), text(&output.stderr).as_str()), ("out\n", "err\n"));
    let output = site.bursar("logs -f sh");
    assert_eq!((text(&output.stdout).as_str(), text(&output.stderr).as_str()), ("out\n", "err\n"));
    let row = site.newest();
    assert_eq!((row.name.as_str(), row.file), ("sh", None));
}

#[test]
fn it_reads_what_we_read_and_no_more() {
    let site = Site::new("");
    std::fs::write(site.path("lines"), "one\ntwo\nthree\n").unwrap();
    let mut file = std::fs::File::open(site.path("lines")).unwrap();
    let mut command = site.command(["run", "--", "sh", "-c", "read x; echo got $x"]);
    let output = command.stdin(file.try_clone().unwrap()).output().unwrap();
    assert_code(&output, 0);
    assert_eq!(text(&output.stdout), "got one\n");
    // A shell that calls it in a loop finds the next line where the command left off.
    let mut rest = String::new();
    std::io::Read::read_to_string(&mut file, &mut rest).unwrap();
    assert_eq!(rest, "two\nthree\n");
}

#[test]
fn a_pipe_into_it_is_read_to_its_end() {
    let site = Site::new("");
    let mut child = site.command(["run", "--", "wc", "-c"]).stdin(std::process::Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    std::io::Write::write_all(&mut stdin, &vec![b'x'; 1_000_000]).unwrap();
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    assert_code(&output, 0);
    assert_eq!(text(&output.stdout).trim(), "1000000");
}

#[test]
fn jobs_of_a_file_read_nothing() {
    let site = Site::new("[job.a]\nrun = 'cat > read'\n");
    let mut child = site.command(["run", "jobs.toml"]).stdin(std::process::Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    std::io::Write::write_all(&mut stdin, b"for another program").unwrap();
    let output = child.wait_with_output().unwrap(); // our end stays open meanwhile
    assert_code(&output, 0);
    assert_eq!(std::fs::read_to_string(site.path("read")).unwrap(), "");
}

#[test]
fn all_of_a_long_output_comes_through() {
    let site = Site::new("");
    let output = site.command(["run", "--", "sh", "-c", "seq 200000; echo end"]).output().unwrap();
    assert_code(&output, 0);
    assert_eq!(text(&output.stdout).lines().count(), 200_001);
    assert!(text(&output.stdout).ends_with("200000\nend\n"));
}

#[test]
fn output_comes_while_the_command_still_runs() {
    let site = Site::new("");
    let fifo = site.fifo("fifo");
    let mut child = site.command(["run", "--", "sh", "-c", "echo first; cat fifo; echo last"]).spawn().unwrap();
    let mut out = std::io::BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    std::io::BufRead::read_line(&mut out, &mut line).unwrap();
    assert_eq!(line, "first\n");
    fifo.answer();
    let mut rest = String::new();
    std::io::Read::read_to_string(&mut out, &mut rest).unwrap();
    assert_eq!(rest, "go\nlast\n");
    assert!(child.wait().unwrap().success());
}

#[test]
fn ends_of_other_kinds_have_the_codes_of_a_shell() {
    let site = Site::new("");
    assert_code(&site.bursar("run --timeout 100ms -- sleep 600"), 124);
    assert_code(&site.command(["run", "--", "sh", "-c", "kill -9 $$"]).output().unwrap(), 137);
    let output = site.bursar("run -- no-such-program");
    assert_code(&output, 127);
    assert!(text(&output.stderr).contains("no such program in PATH"), "{}", text(&output.stderr));
}

#[test]
fn it_takes_what_it_is_said_to_take() {
    let site = Site::new("");
    assert_code(&site.bursar("run --name demo --cpu 1 --ram 64MB --vram 1GB --priority -3 -- true"), 0);
    let job = site.job("demo");
    assert_eq!((job.demand.cpu_slots, job.demand.ram_mb, job.demand.vram_mb), (1, 64, 1000));
    let output = site.bursar("run --cpu 100000 -- true");
    assert_code(&output, 3);
    assert!(text(&output.stderr).contains("[3001]"), "{}", text(&output.stderr));
    assert_code(&site.bursar("run --resource licence=2 -- true"), 0);
}

#[test]
fn what_cannot_be_passed_on_is_no_success_and_the_log_has_it() {
    let site = Site::new("");
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let output = site.command(["run", "--", "seq", "3"]).stdout(full).output().unwrap();
    assert_code(&output, 1);
    let said = text(&output.stderr);
    assert!(said.contains("could be written to standard output: No space left on device"), "{said}");
    assert_eq!(text(&site.bursar("logs seq").stdout), "1\n2\n3\n");
}

#[test]
fn a_command_whose_output_is_not_read_any_more_ends_as_by_sigpipe() {
    let site = Site::new("");
    let mut child = site.command(["run", "--", "yes"]).spawn().unwrap();
    let mut out = std::io::BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    std::io::BufRead::read_line(&mut out, &mut line).unwrap();
    assert_eq!(line, "y\n");
    drop(out); // as `| head -1` does
    let output = child.wait_with_output().unwrap();
    assert_code(&output, 141);
    assert_eq!(site.newest().status, surface_journal::Status::Cancelled);
}

#[test]
fn the_log_of_one_command_is_cut_only_where_it_was_passed_on() {
    use std::os::unix::fs::MetadataExt;
    let site = Site::new("");
    let args = ["run", "--log-limit", "10MB", "--", "head", "-c", "60000000", "/dev/zero"];
    let mut child = site.command(args).spawn().unwrap();
    let mut out = child.stdout.take().unwrap();
    let passed = std::io::copy(&mut out, &mut std::io::sink()).unwrap();
    assert!(child.wait().unwrap().success());
    assert_eq!(passed, 60_000_000);
    let log = site.journal().folder(&site.newest().id).join("logs/0.1.log");
    let about = std::fs::metadata(&log).unwrap();
    assert!(about.blocks() * 512 < 11_000_000, "it takes {} bytes of the disk", about.blocks() * 512);
}

#[test]
fn a_command_that_makes_no_sense_is_refused_before_anything_runs() {
    let site = Site::new("");
    for (args, part) in [
        (&["run", "--timeout", "0", "--", "true"][..], "a time limit cannot be 0"),
        (&["run", "--", ""], "the command is empty"),
        (&["run", "jobs.toml", "--retry-failed"], "--resume [RUN] --retry-failed"),
    ] {
        let output = site.command(args).output().unwrap();
        assert_code(&output, 2);
        assert!(text(&output.stderr).contains(part), "{}", text(&output.stderr));
    }
    let output = site.command(["run", "--", "/no/\u{1b}[31m"]).output().unwrap();
    assert_code(&output, 127);
    assert!(!output.stderr.contains(&0x1b), "{}", text(&output.stderr));
}
