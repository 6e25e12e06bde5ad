//! `cargo xtask coverage CRATE`: how much of a crate its own tests run.
//!
//! # Invariant
//! Only lines of the crate's product count: neither its tests nor other crates.
//!
//! # Why it holds
//! The report of LLVM is filtered here, line by line: files outside the crate's `src/`, files and folders called
//! `tests`, and what follows a `#[cfg(test)]` that begins a module are left out. Tests run all of their own lines;
//! if they counted, they would hide product lines that never ran.
//!
//! Nothing is installed silently, and nothing but a component of the toolchain outside the target folder.

use std::env;
use std::ffi::OsString;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use lexopt::prelude::*;

use crate::packages::package_of;
use crate::steps::{Cargo, works};
use crate::tools::{Tool, starts};
use crate::{USAGE, root, target_dir};

/// Gaps shown for one file; the report of LLVM has them all.
const GAPS_SHOWN: usize = 6;

const LLVM_COV: Tool = Tool { name: "cargo-llvm-cov", options: &[] };

struct Options {
    package: String,
    percent_min: Option<f64>,
}

/// A line of the product, and how often it ran.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Line {
    number: usize,
    runs: u64,
}

/// What the tests ran of one file.
#[derive(Debug, PartialEq)]
struct Covered {
    /// From the crate's `src/`.
    path: String,
    lines: Vec<Line>,
}

impl Covered {
    fn ran(&self) -> usize {
        self.lines.iter().filter(|line| line.runs > 0).count()
    }

    /// The lines that never ran, neighbours together.
    fn gaps(&self) -> Vec<(usize, usize)> {
        let mut gaps: Vec<(usize, usize)> = Vec::new();
        let mut open = false;
        for line in &self.lines {
            match gaps.last_mut() {
                Some(gap) if open && line.runs == 0 => gap.1 = line.number,
                _ if line.runs == 0 => gaps.push((line.number, line.number)),
                _ => {}
            }
            open = line.runs == 0;
        }
        gaps
    }
}

/// Measures, and prints the table. 1 if a test failed or the total is below `--min`, 2 if the command line is wrong.
pub(crate) fn run(args: &[OsString]) -> ExitCode {
    let options = match parse(args) {
        Ok(options) => options,
        Err(message) => {
            eprintln!("xtask: {message}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    match measure(&options.package).and_then(|files| judge(&options, &files)) {
        Ok(text) => {
            println!("\n{text}");
            ExitCode::SUCCESS
        }
        Err(message) => {
            eprintln!("\n{message}");
            ExitCode::FAILURE
        }
    }
}

fn parse(args: &[OsString]) -> Result<Options, String> {
    let (mut package, mut percent_min) = (None, None);
    let mut args = lexopt::Parser::from_args(args);
    while let Some(arg) = args.next().map_err(|error| error.to_string())? {
        match arg {
            Long("min") => {
                let value = args.value().and_then(|value| value.string()).map_err(|error| error.to_string())?;
                let percent =
                    value.trim_end_matches('%').parse().ok().filter(|percent| (0.0..=100.0).contains(percent));
                percent_min = Some(percent.ok_or(format!("`--min {value}` is no percentage from 0 to 100"))?);
            }
            Value(name) if package.is_none() => package = Some(name.to_string_lossy().into_owned()),
            other => return Err(other.unexpected().to_string()),
        }
    }
    let package = package.ok_or("which crate? `cargo xtask coverage CRATE [--min PERCENT]`")?;
    if !root().join("crates").join(&package).join("src").is_dir() {
        return Err(format!("no crate is called `{package}`; there are: {}", names().join(" ")));
    }
    Ok(Options { package, percent_min })
}

fn names() -> Vec<String> {
    let entries = fs::read_dir(root().join("crates")).into_iter().flatten().filter_map(Result::ok);
    let mut names: Vec<_> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// The table; `Err` if the total is too low.
fn judge(options: &Options, files: &[Covered]) -> Result<String, String> {
    let (mut ran, mut all) = (0, 0);
    let width = files.iter().map(|file| file.path.len()).max().unwrap_or(0).max("all".len());
    let mut text = format!("{:<width$}  {:>6}  {:>6}  {:>6}  never ran\n", "file", "lines", "ran", "%");
    for file in files {
        (ran, all) = (ran + file.ran(), all + file.lines.len());
        row(&mut text, &file.path, width, file.ran(), file.lines.len(), &shown(&file.gaps()));
    }
    row(&mut text, "all", width, ran, all, "");
    if all == 0 {
        return Err(format!("{text}not one line of `{}` was seen: that measures nothing", options.package));
    }
    let total = percent(ran, all);
    match options.percent_min {
        Some(min) if total < min => {
            // Rounded up: this many more lines reach it.
            let missing = (min / 100.0 * all as f64).ceil() as usize - ran;
            Err(format!(
                "{text}coverage of {} is {total:.2} % of lines, below the {min} % asked for; test {missing} more \
                 lines of those that never ran",
                options.package
            ))
        }
        _ => Ok(text),
    }
}

fn row(text: &mut String, name: &str, width: usize, ran: usize, all: usize, gaps: &str) {
    let line = format!("{name:<width$}  {all:>6}  {ran:>6}  {:>6.1}  {gaps}", percent(ran, all));
    writeln!(text, "{}", line.trim_end()).expect("a String takes everything");
}

fn percent(ran: usize, all: usize) -> f64 {
    if all == 0 { 100.0 } else { ran as f64 * 100.0 / all as f64 }
}

fn shown(gaps: &[(usize, usize)]) -> String {
    let one = |&(from, to): &(usize, usize)| if from == to { from.to_string() } else { format!("{from}-{to}") };
    let mut text = gaps.iter().take(GAPS_SHOWN).map(one).collect::<Vec<_>>().join(" ");
    if gaps.len() > GAPS_SHOWN {
        text += &format!(" … {} more", gaps.len() - GAPS_SHOWN);
    }
    text
}

/// Runs the crate's tests, and reads what they ran.
fn measure(package: &str) -> Result<Vec<Covered>, String> {
    let program = LLVM_COV.subcommand()?;
    let tools = llvm_tools()?;
    let report = target_dir().join("coverage").join(format!("{package}.info"));
    fs::create_dir_all(target_dir().join("coverage")).map_err(|error| format!("{}: {error}", report.display()))?;

    let runner: &[&str] =
        if works(&["nextest", "--version"]) { &["nextest", "--no-tests", "fail"] } else { &["test", "--tests"] };
    let mut call = Cargo::with(program, &["llvm-cov"])
        .args(runner)
        .args(&["--no-cfg-coverage", "-p", &package_of(package), "--lcov", "--output-path", &report.to_string_lossy()])
        // Its flags would rebuild everything, and the next ordinary build would rebuild it again.
        .env("CARGO_LLVM_COV_TARGET_DIR", &target_dir().join("coverage").to_string_lossy());
    for (name, path) in tools {
        call = call.env(name, &path);
    }
    if runner[0] == "test" {
        call.run_tests()?
    } else {
        call.run()?
    }

    let text = fs::read_to_string(&report).map_err(|error| format!("{}: {error}", report.display()))?;
    let source = root().join("crates").join(package).join("src");
    println!("every line: {}", report.display());
    Ok(product(&text, &source, |path| fs::read_to_string(path).unwrap_or_default()))
}

/// The product's lines in an lcov report: `SF:` opens a file, `DA:LINE,RUNS` is a line of it.
fn product(report: &str, source: &Path, read: impl Fn(&Path) -> String) -> Vec<Covered> {
    let mut files: Vec<Covered> = Vec::new();
    // The current file and the lines that are its tests; `None` in a file that does not count.
    let mut tests: Option<Vec<(usize, usize)>> = None;
    for line in report.lines() {
        if let Some(path) = line.strip_prefix("SF:") {
            let inside = Path::new(path).strip_prefix(source).ok().filter(|inside| !is_tests(inside));
            tests = inside.map(|_| test_lines(&read(Path::new(path))));
            files.extend(inside.map(|inside| Covered { path: inside.to_string_lossy().into(), lines: Vec::new() }));
        } else if let (Some(rest), Some(tests), Some(file)) = (line.strip_prefix("DA:"), &tests, files.last_mut()) {
            let mut numbers = rest.split(',');
            let number = numbers.next().and_then(|number| number.parse().ok());
            let runs = numbers.next().and_then(|runs| runs.parse().ok());
            if let (Some(number), Some(runs)) = (number, runs)
                && !tests.iter().any(|&(from, to)| (from..=to).contains(&number))
            {
                file.lines.push(Line { number, runs });
            }
        }
    }
    for file in &mut files {
        file.lines.sort_unstable_by_key(|line| line.number);
    }
    files.retain(|file| !file.lines.is_empty());
    files.sort_by(|a, b| a.path.cmp(&b.path));
    files
}

fn is_tests(path: &Path) -> bool {
    path.with_extension("").components().any(|part| part.as_os_str() == "tests")
}

/// The modules behind `#[cfg(test)]`, first and last line. rustfmt puts both brackets at the beginning of a line.
fn test_lines(text: &str) -> Vec<(usize, usize)> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        let begins = *line == "#[cfg(test)]" && lines.get(index + 1).is_some_and(|next| next.starts_with("mod "));
        if begins && lines[index + 1].ends_with('{') {
            let length = lines[index..].iter().position(|line| *line == "}").unwrap_or(lines.len() - index - 1);
            found.push((index + 1, index + 1 + length));
        }
    }
    found
}

/// The variables that name LLVM's tools, if cargo-llvm-cov would not find them by itself.
fn llvm_tools() -> Result<Vec<(&'static str, String)>, String> {
    if env::var_os("LLVM_COV").is_some() && env::var_os("LLVM_PROFDATA").is_some() {
        return Ok(Vec::new());
    }
    let rustc = said_by_rustc(&["-vV"])?;
    if in_toolchain(&rustc)? {
        return Ok(Vec::new());
    }
    // Only the compiler's own version reads what it wrote.
    let major = field(&rustc, "LLVM version: ").and_then(|version| version.split('.').next()).unwrap_or("");
    let (cov, profdata) = (format!("llvm-cov-{major}"), format!("llvm-profdata-{major}"));
    if starts(&cov) && starts(&profdata) {
        return Ok(vec![("LLVM_COV", cov), ("LLVM_PROFDATA", profdata)]);
    }
    println!("LLVM's tools are missing; running `rustup component add llvm-tools`");
    let added = Command::new("rustup").args(["component", "add", "llvm-tools"]).current_dir(root()).status();
    if added.is_ok_and(|status| status.success()) && in_toolchain(&rustc)? {
        return Ok(Vec::new());
    }
    Err(format!(
        "there is neither {cov} nor a component of the toolchain; install either: `rustup component add llvm-tools`, \
         or your system's package `llvm-{major}`"
    ))
}

fn in_toolchain(rustc: &str) -> Result<bool, String> {
    let sysroot = said_by_rustc(&["--print", "sysroot"])?;
    let host = field(rustc, "host: ").unwrap_or("");
    let folder: PathBuf = [sysroot.trim(), "lib/rustlib", host, "bin"].iter().collect();
    Ok(folder.join("llvm-cov").exists() && folder.join("llvm-profdata").exists())
}

fn said_by_rustc(args: &[&str]) -> Result<String, String> {
    let output = Command::new("rustc").args(args).current_dir(root()).output();
    let output = output.map_err(|error| format!("cannot start rustc: {error}"))?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// What follows `name` on its line.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &str = "\
SF:/w/crates/a/src/edge.rs
FN:1,put
DA:1,4
DA:2,0
DA:3,0
DA:4,1
DA:5,0
DA:9,1
LF:6
LH:3
end_of_record
SF:/w/crates/a/src/edge/tests.rs
DA:1,0
end_of_record
SF:/w/crates/b/src/lib.rs
DA:1,0
end_of_record
";
    const EDGE: &str = "fn put() {\n    a();\n    b();\n}\nfn c() {}\n\n#[cfg(test)]\nmod tests {\n    fn t() {}\n}\n";

    fn measured() -> Vec<Covered> {
        product(REPORT, Path::new("/w/crates/a/src"), |_| EDGE.to_owned())
    }

    fn asked(percent_min: Option<f64>) -> Options {
        Options { package: "a".to_owned(), percent_min }
    }

    #[test]
    fn neither_tests_nor_other_crates_count() {
        let files = measured();
        assert_eq!(files.len(), 1, "{files:?}");
        assert_eq!(files[0].path, "edge.rs");
        let numbers: Vec<_> = files[0].lines.iter().map(|line| line.number).collect();
        assert_eq!(numbers, [1, 2, 3, 4, 5], "line 9 lies in the tests");
    }

    #[test]
    fn a_test_module_ends_where_its_bracket_closes() {
        assert_eq!(test_lines(EDGE), [(7, 10)]);
        assert_eq!(test_lines("#[cfg(test)]\nmod tests;\n\nfn a() {\n}\n"), [], "it lies in another file");
        assert_eq!(test_lines("#[cfg(test)]\nmod tests {\n}\nfn a() {\n}\n"), [(1, 3)]);
    }

    #[test]
    fn neighbours_that_never_ran_are_one_gap() {
        assert_eq!(measured()[0].gaps(), [(2, 3), (5, 5)]);
        assert_eq!(shown(&measured()[0].gaps()), "2-3 5");
    }

    #[test]
    fn a_total_below_the_limit_says_how_many_lines_are_missing() {
        assert!(judge(&asked(None), &measured()).is_ok());
        assert!(judge(&asked(Some(40.0)), &measured()).is_ok());
        let error = judge(&asked(Some(90.0)), &measured()).expect_err("2 of 5 lines ran");
        assert!(
            error.ends_with("is 40.00 % of lines, below the 90 % asked for; test 3 more lines of those that never ran")
        );
    }

    #[test]
    fn a_report_without_a_line_is_no_success() {
        assert!(judge(&asked(None), &[]).is_err());
    }

    #[test]
    fn a_wrong_command_line_names_the_way_out() {
        let error = |args: &[&str]| parse(&args.iter().map(OsString::from).collect::<Vec<_>>()).err().expect("wrong");
        assert_eq!(error(&["vocab", "--min", "many"]), "`--min many` is no percentage from 0 to 100");
        assert_eq!(error(&["vocab", "--min", "101"]), "`--min 101` is no percentage from 0 to 100");
        assert!(error(&[]).starts_with("which crate?"));
        assert!(error(&["vocabulary"]).contains("there are: bursar "));
    }
}
