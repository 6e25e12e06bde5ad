//! `exec`: Janus programs, run under budgets.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Output, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use test_support::until;

use crate::run_site::{Site, assert_code};
use crate::terminal::at_a_terminal;
use crate::{complains, says, text};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Runs the command in the root of the repository.
fn at_root(words: &str) -> Output {
    let words: Vec<&str> = words.split_whitespace().collect();
    super::bursar(&words).current_dir(ROOT).output().unwrap()
}

/// A place with a program `x.jan`.
fn site(source: &str) -> Site {
    let site = Site::new("");
    fs::write(site.path("x.jan"), source).unwrap();
    site
}

/// What stderr says, without the time, which differs.
fn timeless(output: &Output) -> String {
    let said = text(&output.stderr);
    said.lines()
        .map(|line| match line.strip_prefix("spent: ").and_then(|spent| spent.rsplit_once(" · ")) {
            Some((spent, _)) => format!("spent: {spent}\n"),
            None => format!("{line}\n"),
        })
        .collect()
}

/// The examples as they are documented: the options, the exit code, what is printed, and what is said.
const EXAMPLES: &[(&str, &str, i32, &str, &[&str])] = &[
    ("hello", "", 0, "42\n", &["spent: ops 1 · memory 0 bytes · spawns 0 · channel ops 0 · syscalls 0\n"]),
    ("spawns", "--spawns 3", 0, "sum of squares: 14\n", &["spawns 3 · channel ops 6"]),
    ("await", "--arg 15", 0, "fib 15 is 610\n", &["spawns 1,973"]),
    (
        "failing_child",
        "",
        1,
        "started 1\nthe other child ends\nmain ends\n",
        &["examples/janus/failing_child.jan:4:5: failed: division by zero in `divide`\n"],
    ),
    ("producer_consumer", "--channel-ops 1000", 0, "sum: 5050\n", &["channel ops 201"]),
    ("select_timeout", "--seed 1", 0, "nothing within 5 ms\nanswer: 42\n", &[" · 20 ms of virtual time\n"]),
    (
        "nested",
        "--seed 1",
        1,
        "return:\n  child 1 ends\n  child 2 ends\n  defer of the nursery\n  defer of early_return\n  returned 7\n\
         break:\n  child 3 ends\n  defer of round 1\n\
         error:\n  child 4 ends\n  defer of fail\n",
        &["examples/janus/nested.jan:39:9: failed: division by zero in `fail`\n", "replay: bursar exec"],
    ),
    ("recursion", "--arg 100", 0, "depth 100\n", &[]),
    (
        "recursion",
        "--arg 1000000",
        1,
        "",
        &[
            "recursion.jan:9:5: failed: stack: calls take more than 131 kB in `down`; recurse less deeply, or raise `--stack`\n",
        ],
    ),
    ("recursion", "--arg 100000 --stack 64MiB", 0, "depth 100000\n", &[]),
    (
        "endless",
        "--ops 1000000",
        1,
        "",
        &[
            "endless.jan:6:5: stopped: budget spent (ops 1,000,000 of 1,000,000) in `hash_forever`\n",
            "spent: ops 1,000,000 · ",
        ],
    ),
    ("endless", "--timeout 50ms", 124, "", &["endless.jan: stopped: its time limit of 50 ms was reached\n"]),
    ("fork_bomb", "--tasks 50", 1, "", &["stopped: capability used up (50 tasks at a time) in `bomb`; "]),
];

#[test]
fn every_example_does_what_it_says() {
    let mut documented = Vec::new();
    for entry in fs::read_dir(Path::new(ROOT).join("examples/janus")).unwrap() {
        let source = fs::read_to_string(entry.unwrap().path()).unwrap();
        let commands = source.lines().filter_map(|line| line.strip_prefix("// bursar "));
        documented.extend(commands.map(str::to_owned));
    }
    let mut run: Vec<String> = Vec::new();
    for (name, options, code, printed, said) in EXAMPLES {
        let command = format!("exec examples/janus/{name}.jan {options}").trim_end().to_owned();
        let output = at_root(&command);
        assert_code(&output, *code);
        assert_eq!(text(&output.stdout), *printed, "{command}: {}", text(&output.stderr));
        let (all, without_time) = (text(&output.stderr), timeless(&output));
        for part in *said {
            assert!(all.contains(part) || without_time.contains(part), "{command}: `{part}` is missing from:\n{all}");
        }
        run.push(command);
    }
    documented.sort();
    run.sort();
    assert_eq!(run, documented, "what the examples say how to run them is what is tested");
}

#[test]
fn a_program_under_a_budget_says_where_it_was_stopped_and_what_it_spent() {
    let site = site(
        "func work() do
    yield
end

func hash_forever() do
    var x = 1
    while true do
        x = x * 31 % 1000003
    end
end

func main() do
    let c = channel(44)
    c.close()
    nursery do
        spawn work()
        spawn work()
        spawn work()
    end
    hash_forever()
end
",
    );
    let output = site.bursar("exec x.jan --ops 20000 --spawns 10");
    assert_code(&output, 1);
    let said = timeless(&output);
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines[0], "x.jan:7:5: stopped: budget spent (ops 20,000 of 20,000) in `hash_forever`");
    assert_eq!(lines[1], "spent: ops 20,000 · memory 416 bytes · spawns 3 · channel ops 0 · syscalls 0");
    for (options, said) in [
        ("--spawns 1", "x.jan:17:9: stopped: budget spent (spawns 1 of 1) in `main`"),
        (
            "--memory 400",
            "x.jan:13:5: stopped: budget spent (memory 0 of 400) in `main`; make fewer or smaller channels, or raise `--memory`",
        ),
        ("--tasks 1", "x.jan:16:9: stopped: capability used up (1 task at a time) in `main`; wait for some"),
    ] {
        let output = site.bursar(&format!("exec x.jan {options} --timeout 60s"));
        assert_code(&output, 1);
        assert!(timeless(&output).contains(said), "{options}: {}", timeless(&output));
    }
}

#[test]
fn what_main_returns_is_the_exit_code() {
    for (body, code, said) in [
        ("-> i64 do return 0 end", 0, "`main` returned 0"),
        ("-> i64 do return 7 end", 7, "`main` returned 7"),
        ("-> i64 do return 256 end", 1, "`main` returned 256, which is no exit code (0 to 255); print it instead"),
        ("-> i64 do return 0 - 1 end", 1, "`main` returned -1, which is no exit code"),
        ("-> bool do return true end", 0, "`main` returned true"),
        ("-> bool do return false end", 1, "`main` returned false"),
        ("do end", 0, "spent: "),
    ] {
        let site = site(&format!("func main() {body}\n"));
        let output = site.bursar("exec x.jan");
        assert_code(&output, code);
        assert!(text(&output.stderr).contains(said), "{body}: {}", text(&output.stderr));
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn all_problems_of_a_program_are_shown_with_their_lines_and_code_3() {
    let site =
        site("func start() do\n    spawn start()\nend\n\nfunc main() do\n    strat()\n    let x: bool = 1\nend\n");
    for command in ["exec x.jan", "exec x.jan --check", "exec x.jan --emit qtjir"] {
        let output = site.bursar(command);
        let error = complains(&output, 3);
        for part in ["N1001", "strat()", "did you mean `start`?", "x.jan:6:5", "bursar: x.jan has 3 problems"] {
            assert!(error.contains(part), "{command}: `{part}` is missing from:\n{error}");
        }
        assert!(output.stdout.is_empty());
    }
    let output = site.bursar("exec x.jan --json");
    assert_code(&output, 3);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((json["ok"].as_bool(), json["problems"][1]["line"].as_u64()), (Some(false), Some(6)));
    assert!(complains(&site.bursar("exec no-such.jan"), 3).contains("cannot be read"));
}

#[test]
fn a_script_gets_one_object() {
    let site = site(
        "func half(n: i64) -> i64 do\n    return 100 / n\nend\n\nfunc main(n: i64, loud: bool) -> i64 do\n    if loud do print(\"hello\") end\n    return half(n)\nend\n",
    );
    let run = |words: &str, code: i32| -> (serde_json::Value, String) {
        let output = site.bursar(words);
        assert_code(&output, code);
        let json = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", text(&output.stdout)));
        (json, text(&output.stderr))
    };
    let (json, said) = run("exec x.jan --json --arg 5 --arg true", 20);
    assert_eq!(
        (json["ok"].as_bool(), json["result"].as_i64(), json["exit"].as_u64()),
        (Some(true), Some(20), Some(20))
    );
    assert_eq!((json["spent"]["ops"].as_u64(), json["fault"].is_null()), (Some(2), true));
    assert_eq!(said, "hello\n");
    let (json, _) = run("exec x.jan --json --arg 0 --arg false", 1);
    let fault = &json["fault"];
    assert_eq!((fault["kind"].as_str(), fault["function"].as_str()), (Some("division_by_zero"), Some("half")));
    assert_eq!((fault["line"].as_u64(), fault["column"].as_u64()), (Some(2), Some(5)));
    let (json, _) = run("exec x.jan --check --json", 0);
    assert_eq!(json["functions"], serde_json::json!(["half", "main"]));
}

#[test]
fn arguments_that_main_does_not_take_are_refused_before_it_runs() {
    let site = site("func main(n: i64, loud: bool) do\n    print(n, loud)\nend\n");
    assert_eq!(says(&site.bursar("exec x.jan --arg -3 --arg true")), "-3 true\n");
    for words in ["", "--arg 1", "--arg true --arg 1", "--arg 1 --arg true --arg 2"] {
        let error = complains(&site.bursar(&format!("exec x.jan {words}")), 2);
        assert!(error.contains("takes arguments: i64, bool; given: "), "{error}");
    }
    for (words, part) in [
        ("--arg 1.5", "it is neither a number from"),
        ("--memory 1X", "write `64KB`, `1MiB`, or a number of bytes"),
        ("--profile strict", "none of core, service, cluster, sovereign"),
        ("--timeout 0", "a time limit cannot be 0"),
        ("--tasks 0", "0 is not in 1.."),
        ("--ops 0", "0 is not in 1.."),
        ("--explore 5", "there is no `..` in it"),
        ("--explore 5..5", "its end is not after its beginning"),
        ("--emit asm", "qtjir"),
    ] {
        let error = complains(&site.bursar(&format!("exec x.jan {words}")), 2);
        assert!(error.contains(part), "{words}: `{part}` is missing from:\n{error}");
    }
    fs::write(site.path("x.jan"), "func helper() do end\n").unwrap();
    assert!(complains(&site.bursar("exec x.jan"), 3).contains("x.jan has no function `main`"));
}

#[test]
fn the_profile_of_the_command_line_is_the_one_that_counts() {
    let site = site("func work() do end\nfunc main() do\n    nursery do\n        spawn work()\n    end\nend\n");
    says(&site.bursar("exec x.jan"));
    assert!(complains(&site.bursar("exec x.jan --profile core"), 3).contains("N1003"));
    assert!(complains(&site.bursar("exec x.jan --profile :sovereign"), 3).contains("N1004"));
    let error = complains(&at_root("exec examples/janus/fork_bomb.jan"), 1);
    assert!(error.contains("needs to start tasks; grant it with `--tasks N`"), "{error}");
}

#[test]
fn a_seed_gives_the_same_run_every_time_and_a_failing_one_is_found_and_replayed() {
    // Each task adds to the number it saw, whatever it is meanwhile.
    let site = site(
        "func racy(cell: chan, done: chan) do
    let old = cell.recv()
    cell.send(old)
    yield
    let _now = cell.recv()
    cell.send(old + 1)
    done.send(1)
end

func main() -> bool do
    let cell = channel(1)
    let done = channel(2)
    cell.send(0)
    nursery do
        spawn racy(cell, done)
        spawn racy(cell, done)
    end
    let sum = cell.recv()
    print(\"sum\", sum)
    return sum == 2
end
",
    );
    let [first, again] = [(); 2].map(|()| {
        let output = site.bursar("exec x.jan --seed 3");
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    });
    assert_eq!(first, again);
    let output = site.bursar("exec x.jan --explore 0..200");
    let error = complains(&output, 1);
    assert!(output.stdout.is_empty(), "{}", text(&output.stdout));
    assert!(error.contains("`main` returned false"), "{error}");
    let replay = error.lines().find_map(|line| line.strip_prefix("replay: bursar ")).expect(&error);
    let output = site.bursar(replay);
    assert_code(&output, 1);
    assert_eq!(text(&output.stdout), "sum 1\n");
    assert!(text(&output.stderr).ends_with(&format!("replay: bursar {replay}\n")), "{}", text(&output.stderr));

    fs::write(site.path("x.jan"), "func main() do\n    print(channel(0).recv())\nend\n").unwrap();
    let error = complains(&site.bursar("exec x.jan --seed 1"), 1);
    assert!(error.contains("x.jan: stopped: deadlock: its tasks wait for each other (main)"), "{error}");
    fs::write(site.path("x.jan"), "func main() do\n    print(1)\nend\n").unwrap();
    let told = says(&site.bursar("exec x.jan --explore 5..25"));
    assert!(told.starts_with("x.jan: none of 20 seeds fails; "), "{told}");
}

#[test]
fn what_is_emitted_runs_as_the_program_does_and_what_is_not_verified_does_not() {
    let site = site("func main() do\n    print(6 * 7)\nend\n");
    let ir = says(&site.bursar("exec x.jan --emit qtjir"));
    if cfg!(any(target_arch = "x86_64", target_arch = "aarch64")) {
        let clif = says(&site.bursar("exec x.jan --emit clif"));
        assert!(clif.contains("function") && clif.contains("block0"), "{clif}");
    }
    assert!(ir.contains("func @main("), "{ir}");
    fs::write(site.path("x.qtjir"), &ir).unwrap();
    let output = site.bursar("exec x.qtjir");
    assert_eq!(says(&output), "42\n");
    assert!(timeless(&output).contains("spent: ops 1 "), "{}", timeless(&output));

    // Without the check that pays for it.
    let unpaid: String =
        ir.lines().filter(|line| !line.contains("budget_decrement")).map(|line| format!("{line}\n")).collect();
    assert_ne!(unpaid, ir);
    fs::write(site.path("x.qtjir"), unpaid).unwrap();
    let output = site.bursar("exec x.qtjir");
    assert!(complains(&output, 3).contains("is refused: @main"), "{}", text(&output.stderr));
    assert!(output.stdout.is_empty());
    fs::write(site.path("x.qtjir"), "nonsense\n").unwrap();
    assert!(complains(&site.bursar("exec x.qtjir"), 3).contains("x.qtjir:1:1"));
}

#[test]
fn a_program_may_come_from_standard_input() {
    let site = Site::new("");
    let mut command = site.command(["exec", "-", "--ops", "10"]);
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"func main() do\n    while true do end\nend\n").unwrap();
    let output = child.wait_with_output().unwrap();
    let error = complains(&output, 1);
    assert!(error.starts_with("standard input:2:5: stopped: budget spent (ops 10 of 10) in `main`"), "{error}");
}

/// Waits, and says so first.
const WAITS: &str = "func main() do
    defer print(\"deferred\")
    print(\"up\")
    print(channel(0).recv())
end
";

#[test]
fn ctrl_c_cancels_a_program_which_runs_what_it_deferred() {
    for (signal, code, again) in [
        (Signal::INT, 130, "cancelling the program; Ctrl-C again kills it\n"),
        (Signal::TERM, 143, "cancelling the program; a second signal kills it\n"),
        (Signal::HUP, 129, "cancelling the program; a second signal kills it\n"),
    ] {
        let site = site(WAITS);
        let run = site.start("exec x.jan");
        run.until_it_says("up");
        run.signal(signal);
        let (ended, said) = run.wait();
        assert_eq!(ended, Some(code), "{said}");
        assert!(said.contains("deferred\n") && said.contains(again), "{said}");
        assert!(said.contains("x.jan: cancelled\n") && said.contains("spent: ops 3"), "{said}");
    }
}

#[test]
fn a_program_whose_output_is_not_read_any_more_or_cannot_be_written_ends() {
    let site =
        site("func main() do\n    var n = 0\n    while true do\n        print(n)\n        n = n + 1\n    end\nend\n");
    let mut child = site.command(["exec", "x.jan"]).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    let mut first = String::new();
    lines.read_line(&mut first).unwrap();
    assert_eq!(first, "0\n");
    drop(lines);
    let output = child.wait_with_output().unwrap();
    assert_code(&output, 141);

    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let output = site.command(["exec", "x.jan"]).stdout(full).output().unwrap();
    let error = complains(&output, 1);
    assert!(error.starts_with("x.jan: cancelled: what it prints cannot be written: No space left"), "{error}");
}

#[test]
fn a_program_cannot_command_the_terminal_it_prints_to() {
    let site = site("func main() do\n    print(\"a\u{1b}[2Jb\")\nend\n");
    let (text, screen) = at_a_terminal(&site, "exec x.jan", (100, 24));
    assert!(!text.contains('\x1b'), "{text:?}");
    assert_eq!(screen.lines[0], "a\u{fffd}[2Jb");
    assert_eq!(says(&site.bursar("exec x.jan")), "a\u{1b}[2Jb\n", "what is no terminal gets all of it");
}

#[test]
fn a_second_ctrl_c_ends_a_program_whose_output_waits_for_a_reader() {
    let site = site(
        "func main() do\n    while true do\n        print(\"as many lines as a pipe holds, and then some\")\n    end\nend\n",
    );
    let mut child = site.command(["exec", "x.jan"]).spawn().unwrap();
    let pipe = child.stdout.take().unwrap(); // open, and not read
    let filled = || rustix::io::ioctl_fionread(&pipe).unwrap();
    let mut before = 0;
    until(Duration::from_secs(60), "the pipe is full", || {
        std::mem::replace(&mut before, filled()) == filled() && before > 0
    });
    let pid = Pid::from_child(&child);
    let mut said = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    kill_process(pid, Signal::INT).unwrap();
    said.read_line(&mut line).unwrap();
    assert_eq!(line, "cancelling the program; Ctrl-C again kills it\n");
    kill_process(pid, Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    drop(pipe);
}

#[test]
fn the_name_of_a_program_cannot_command_the_terminal() {
    let site = Site::new("");
    let file = "x\x1b[31m.jan";
    fs::write(site.path(file), "func main() do\n    print(1 / (1 - 1))\nend\n").unwrap();
    for options in [&[][..], &["--check"], &["--seed", "1"], &["--explore", "0..2"]] {
        let output = site.command(["exec", file].iter().chain(options)).output().unwrap();
        let said = text(&output.stdout) + &text(&output.stderr);
        assert!(said.contains("x\u{fffd}[31m.jan") && !said.contains('\x1b'), "{options:?}: {}", said.escape_debug());
    }
}
