//! Files that want to hurt: deep, long, or many from few.

use std::fmt::Write;

use surface_jobfile::{Limits, graph, parse, parse_with};

use crate::{plan, problems};

/// Unoptimised code gets a tenth of the jobs.
const MANY: usize = if cfg!(debug_assertions) { 10_000 } else { 100_000 };

/// Seconds this thread has had a CPU: others use the machine, too.
fn cpu_secs() -> f64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    stat.split(' ').next().and_then(|nanos| nanos.parse().ok()).unwrap_or(0.0) / 1e9
}

/// Runs on a small stack, so that recursion by the depth of the input is seen.
fn on_a_small_stack(test: impl FnOnce() + Send + 'static) {
    std::thread::Builder::new().stack_size(1 << 20).spawn(test).unwrap().join().unwrap();
}

#[test]
fn deep_brackets_are_refused_with_their_place() {
    on_a_small_stack(|| {
        let text = format!("[job.a]\nrun = {}1{}", "[".repeat(100_000), "]".repeat(100_000));
        let first = problems(&text).iter().next().unwrap().to_string();
        assert_eq!(first, "test.toml:2:23: this is nested too deep; a job file needs four levels; write it flat");
        for text in ["{a=".repeat(100_000), "[".repeat(100_000), "a.".repeat(100_000), "[a.".repeat(50_000)] {
            problems(&format!("x = {text}"));
            problems(&text);
        }
        let json = parse("x.json", &"[".repeat(1_000_000)).unwrap_err().to_string();
        assert_eq!(json, "x.json:1:33: this is nested too deep; a job file needs four levels; write it flat");
        parse("x.json", &"{\"a\":".repeat(100_000)).unwrap_err();
    });
}

#[test]
fn the_deepest_table_the_syntax_allows_is_refused_too() {
    on_a_small_stack(|| {
        // Dotted keys within inline tables: each has a limit of its own, and together they are a product.
        let key = vec!["a"; 79].join(".");
        let text = format!("{}{key} = 1{}", format!("{key} = {{ ").repeat(79), " }".repeat(79));
        assert!(problems(&text).to_string().contains("nested too deep"));
    });
}

#[test]
fn a_long_chain_is_read_and_drawn_and_closed_to_a_cycle_it_is_named() {
    on_a_small_stack(|| {
        let (count, last) = (MANY, MANY - 1);
        let mut text = String::from("[job.j0]\nrun = 'true'\n");
        for n in 1..count {
            let _ = write!(text, "[job.j{n}]\nneeds = ['j{}']\nrun = 'true'\n", n - 1);
        }
        let plan = plan(&text);
        assert_eq!(plan.order().unwrap(), (0..count).collect::<Vec<_>>());
        let drawn = graph::text(&plan);
        let end = format!(
            "\n  … and {} more\n\nlongest chain: {count} jobs, j0 → j1 → j2 → j3 → … → j{} → j{} → j{} → j{last}\n",
            count - 200,
            last - 3,
            last - 2,
            last - 1
        );
        assert!(drawn.ends_with(&end), "{}", &drawn[drawn.len() - 300..]);
        graph::dot(&plan);
        graph::svg(&plan);

        let cycle = text.replacen("run", &format!("needs = ['j{last}']\nrun"), 1);
        let said = problems(&cycle).to_string();
        let back: Vec<String> = (0..5).map(|step| format!("j{}", last - step)).collect();
        let wanted = format!(
            "test.toml:2:10: jobs need each other in a cycle: j0 -> {} -> … -> j5 -> j4 -> j3 -> j2 -> j1 -> j0 \
             ({count} jobs); each waits for the next; remove one of these needs",
            back.join(" -> ")
        );
        assert_eq!(said, wanted);
    });
}

/// A file as people write them, long.
fn long_file(jobs: usize) -> String {
    let mut text = String::from("[resources]\ncpu = 8\nram = '16 GB'\n");
    for n in 0..jobs {
        let _ = write!(
            text,
            "\n[job.step-{n}]\nrun = \"python train.py --fold {n} --out results/{n}.json\"\nneeds = [\"step-{}\", \"step-{}\"]\n\
             ram = \"512 MB\"\nretries = 2\ntimeout = \"10m\"\noutputs = [\"results/{n}.json\"]\n",
            n / 2,
            n / 3
        );
    }
    text.replacen("needs = [\"step-0\", \"step-0\"]\n", "", 1)
}

#[test]
fn a_file_of_100_000_jobs_is_read_in_time() {
    let text = long_file(MANY);
    let once = || {
        let start = cpu_secs();
        let plan = plan(&text);
        let took = cpu_secs() - start;
        assert_eq!(plan.jobs.len(), MANY);
        took
    };
    // The best of three: other programs use the caches of the machine, too.
    let took = (0..3).map(|_| once()).fold(f64::MAX, f64::min);
    println!("{MANY} jobs, {} bytes: {took:.3} s", text.len());
    assert!(took < if cfg!(debug_assertions) { 10.0 } else { 2.0 }, "{took} s");
}

#[test]
fn a_line_that_would_fill_the_memory_is_refused_before_it_is_built() {
    let line = "{x}".repeat(100_000);
    let text = format!("[job.a]\nforeach = {{ x = ['{}'] }}\nrun = '{line}'", "y".repeat(400));
    let limits = Limits { text_bytes: 1 << 20, ..Limits::default() };
    let said = parse_with("test.toml", text.as_bytes(), &limits).unwrap_err().to_string();
    assert_eq!(
        said,
        "test.toml:1:6: with `a` the text of all jobs has more than 1048576 bytes; expand less, or move long commands into a script"
    );
}

#[test]
fn what_is_shared_by_all_jobs_counts_for_each() {
    let jobs: String = (0..100).map(|n| format!("[job.j{n}]\nrun = 'true'\n")).collect();
    let text = format!("[env]\nA = '{}'\n{jobs}", "y".repeat(100_000));
    let limits = Limits { text_bytes: 1 << 20, ..Limits::default() };
    let said = parse_with("test.toml", text.as_bytes(), &limits).unwrap_err();
    assert!(said.to_string().contains("the text of all jobs has more than 1048576 bytes"), "{said}");
}

#[test]
fn one_job_more_than_allowed_is_refused_however_it_is_made() {
    let limits = Limits { jobs: 3, ..Limits::default() };
    let said = |text: &str| parse_with("test.toml", text.as_bytes(), &limits).map_err(|problems| problems.to_string());
    let single = |count: usize| (0..count).map(|n| format!("[job.j{n}]\nrun = 'true'\n")).collect::<String>();
    assert_eq!(said(&single(3)).unwrap().jobs.len(), 3);
    assert_eq!(
        said(&single(4)).unwrap_err(),
        "test.toml:7:6: there are more than 3 jobs; expand less, or split the file"
    );
    let twice = "[job.a]\nforeach = { x = '1..2' }\nrun = '{x}'\n[job.b]\nforeach = { x = ['p', 'q'] }\nrun = '{x}'";
    let wanted =
        "test.toml:5:17: with `b` there are 4 jobs or more, but the limit is 3; expand less, or split the file";
    assert_eq!(said(twice).unwrap_err(), wanted);
    let included = "[job.a]\nforeach = { x = '1..3' }\ninclude = [{ x = 4 }]\nrun = '{x}'";
    let wanted =
        "test.toml:3:11: with `a` there are 4 jobs or more, but the limit is 3; expand less, or split the file";
    assert_eq!(said(included).unwrap_err(), wanted);
}

#[test]
fn one_need_more_than_allowed_is_refused_also_if_it_comes_from_another_job() {
    let first = "[job.a]\nforeach = { x = '1..3' }\nrun = '{x}'\n[job.b]\nforeach = { x = '1..2' }\nneeds = ['a']\nrun = '{x}'\n";
    let both = format!("{first}[job.c]\nneeds = ['b', 'a[1]']\nrun = 'true'");
    let fits =
        |text: &str, edges| parse_with("test.toml", text.as_bytes(), &Limits { edges, ..Limits::default() }).is_ok();
    assert!(fits(first, 6) && !fits(first, 5));
    assert!(fits(&both, 9) && !fits(&both, 8));
}

#[test]
fn a_file_of_nothing_but_mistakes_is_read_in_time() {
    for text in [
        format!("x = {{{}}}", "a=1,".repeat(MANY)),
        "x\n".repeat(MANY),
        format!("[job.a]\nrun = '{}'", "{".repeat(10 * MANY)),
        format!("[job.a]\nforeach = {{ x = '1..2' }}\nrun = '{}'", "{y".repeat(10 * MANY)),
        (0..MANY).map(|n| format!("[job.j{n}]\nneeds = ['k{n}']\nrun = 'true'\n")).collect(),
    ] {
        let start = cpu_secs();
        let _ = parse("test.toml", &text);
        let took = cpu_secs() - start;
        println!("{} bytes: {took:.3} s", text.len());
        assert!(took < 10.0, "{took} s for {}…", &text[..40]);
    }
}
