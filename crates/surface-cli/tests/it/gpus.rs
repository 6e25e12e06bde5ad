//! Graphics cards, told by a stand-in for the driver's library: 0, 1, 2 and 8 of them.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use surface_journal::State;

use crate::run_site::Site;
use crate::text;

/// The folder of the stand-in, which is made once.
fn driver() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap().keep();
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../mech-process/tests/nvml/nvml.c");
        test_support::c_library(&source, &folder.join("libnvidia-ml.so.1"));
        folder
    })
}

/// `bursar` on a machine with these cards, in MiB; `None`: without the driver.
fn on(site: &Site, cards: Option<&str>, words: &str) -> Command {
    let mut command = site.command(words.split_whitespace());
    command.env_remove("CUDA_VISIBLE_DEVICES").env_remove("ROCR_VISIBLE_DEVICES");
    if let Some(cards) = cards {
        command.env("LD_LIBRARY_PATH", driver()).env("FAKE_NVML", cards);
    }
    command
}

fn output(mut command: Command) -> Output {
    command.output().unwrap()
}

/// Jobs that write which cards they see, each into a file of its own.
fn jobs(fields: &[&str]) -> String {
    let job = |(at, fields): (usize, &&str)| {
        format!(
            "[job.j{at}]\n{fields}\nrun = 'echo ${{CUDA_VISIBLE_DEVICES-unset}} ${{ROCR_VISIBLE_DEVICES-unset}} > j{at}.txt'\n"
        )
    };
    fields.iter().enumerate().map(job).collect()
}

#[test]
fn a_job_too_large_for_every_card_is_refused_by_check_dry_run_and_run() {
    let site = Site::new(&jobs(&["vram = '12 GB'"]));
    for words in ["run jobs.toml", "run jobs.toml --dry-run", "check jobs.toml"] {
        let output = output(on(&site, Some("8192:0,8192:0"), words));
        let told = text(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{words}: {told}");
        assert!(told.contains("needs 12.0 GB of VRAM on one card; the largest has 8.5 GB"), "{words}: {told}");
    }
    let checked = output(on(&site, Some("8192:0,8192:0"), "check jobs.toml --json"));
    assert_eq!(checked.status.code(), Some(3));
    assert!(text(&checked.stdout).contains("\"ok\":false") && text(&checked.stdout).contains("the largest has 8.5 GB"));
    assert!(site.lines("j0.txt").is_empty(), "nothing ran");
    assert_eq!(output(on(&site, Some("8192:0,16384:0"), "run jobs.toml --quiet")).status.code(), Some(0));
    assert_eq!(site.lines("j0.txt"), ["GPU-fake-1 unset"]);
}

#[test]
fn with_eight_cards_each_job_has_its_own_and_sees_only_that() {
    // None ends before all have begun, so each must have a card of its own.
    let mut text = "[resources]\ncpu = 8\n".to_owned();
    for at in 0..8 {
        text += &format!("[job.j{at}]\ngpus = 1\nrun = 'echo $CUDA_VISIBLE_DEVICES > up{at}; read x < go{at}'\n");
    }
    let site = Site::new(&text);
    let fifos: Vec<_> = (0..8).map(|at| (site.fifo(&format!("up{at}")), site.fifo(&format!("go{at}")))).collect();
    let mut child = on(&site, Some(&["24576:10"; 8].join(",")), "run jobs.toml --quiet").spawn().unwrap();
    let mut seen: Vec<String> = fifos.iter().map(|(up, _)| up.wait()).collect();
    fifos.iter().for_each(|(_, go)| go.answer());
    assert!(child.wait().unwrap().success());
    seen.sort();
    assert_eq!(seen, (0..8).map(|card| format!("GPU-fake-{card}")).collect::<Vec<_>>());
}

#[test]
fn one_card_is_shared_as_long_as_its_memory_lasts_and_two_may_be_had_at_once() {
    let site = Site::new(&jobs(&["vram = '3 GB'", "vram = '3 GB'"]));
    assert_eq!(output(on(&site, Some("8192:0"), "run jobs.toml --quiet")).status.code(), Some(0));
    assert_eq!(
        (site.lines("j0.txt"), site.lines("j1.txt")),
        (vec!["GPU-fake-0 unset".into()], vec!["GPU-fake-0 unset".into()])
    );
    site.write(&jobs(&[
        "gpus = 2\nvram = '3 GB'",
        "gpus = 0\nvram = '3 GB'",
        "gpus = 1\nenv = { CUDA_VISIBLE_DEVICES = '7' }",
    ]));
    assert_eq!(output(on(&site, Some("8192:0,8192:0"), "run jobs.toml --quiet")).status.code(), Some(0));
    assert_eq!(site.lines("j0.txt"), ["GPU-fake-0,GPU-fake-1 unset"]);
    assert_eq!((site.lines("j1.txt"), site.lines("j2.txt")), (vec!["unset unset".into()], vec!["7 unset".into()]));
}

#[test]
fn without_a_card_jobs_with_vram_run_and_jobs_with_gpus_are_refused() {
    let site = Site::new(&jobs(&["vram = '3 GB'"]));
    for cards in [None, Some("")] {
        assert_eq!(output(on(&site, cards, "run jobs.toml --quiet --force")).status.code(), Some(0), "{cards:?}");
        assert_eq!(site.lines("j0.txt"), ["unset unset"], "{cards:?}");
    }
    site.write(&jobs(&["gpus = 1"]));
    let refused = output(on(&site, None, "run jobs.toml"));
    assert_eq!(refused.status.code(), Some(3));
    assert!(
        text(&refused.stderr).contains("no card is known here; say how many there are"),
        "{}",
        text(&refused.stderr)
    );
    // Said, they are known by their numbers.
    site.write(&format!("[resources]\ngpus = 2\n{}", jobs(&["gpus = 2"])));
    assert_eq!(output(on(&site, None, "run jobs.toml --quiet")).status.code(), Some(0));
    let expected = if Path::new("/dev/kfd").exists() { "unset 0,1" } else { "0,1 unset" };
    assert_eq!(site.lines("j0.txt"), [expected]);
}

#[test]
fn only_the_cards_that_bursar_is_shown_are_handed_out() {
    let site = Site::new(&jobs(&["gpus = 1"]));
    let mut shown = on(&site, Some("8192:0,8192:0"), "run jobs.toml --quiet");
    shown.env("CUDA_VISIBLE_DEVICES", "1");
    assert_eq!(output(shown).status.code(), Some(0));
    assert_eq!(site.lines("j0.txt"), ["GPU-fake-1 unset"]);
}

#[test]
fn what_a_job_really_uses_of_a_card_is_in_the_journal_and_in_the_report() {
    let site = Site::new("[job.train]\nvram = '2 GB'\nrun = 'echo 0 $$ 1500 > users; read x < go'");
    let (go, asked) = (site.fifo("go"), site.fifo("asked"));
    let mut command = on(&site, Some("8192:0"), "run jobs.toml --quiet");
    command.env("FAKE_NVML_PROCESSES", site.path("users")).env("FAKE_NVML_ASKED", site.path("asked"));
    let mut child = command.spawn().unwrap();
    // A look asks for two lists, so with the third question the first look is over.
    (0..3).for_each(|_| drop(asked.wait()));
    go.answer();
    assert!(child.wait().unwrap().success());
    let job = &site.jobs()[0];
    assert_eq!((job.state, job.detail.peak_vram_mb), (State::Succeeded, Some(1_573)), "{job:?}");
    assert!(text(&site.bursar("why train").stdout).contains("and 1.5 GB of VRAM"));
    assert!(site.bursar("report -o report.html").status.success());
    let page = std::fs::read_to_string(site.path("report.html")).unwrap();
    assert!(page.contains("1573"), "the figure is in the page");
}

#[test]
fn a_job_that_survived_a_kill_keeps_its_card_and_others_stay_off_it() {
    // `first` makes `long` start on card 1, where it would not be placed again.
    let site = Site::new(
        "[resources]\ncpu = 4\n[job.first]\npriority = 9\nvram = '6 GB'\nrun = 'echo up > first; cat go1'\n\
         [job.long]\nvram = '6 GB'\nrun = 'echo $CUDA_VISIBLE_DEVICES > long; cat go2'\n\
         [job.next]\nneeds = ['first']\nvram = '6 GB'\nrun = 'echo $CUDA_VISIBLE_DEVICES > next; cat go3'\n",
    );
    let [first, long, next, go1, go2, go3] = ["first", "long", "next", "go1", "go2", "go3"].map(|name| site.fifo(name));
    let cards = Some("8192:0,8192:0");
    let mut run = on(&site, cards, "run jobs.toml --quiet").spawn().unwrap();
    first.wait();
    assert_eq!(long.wait(), "GPU-fake-1");
    run.kill().unwrap();
    run.wait().unwrap();
    go1.answer();
    let mut run = on(&site, cards, "run --resume --quiet").spawn().unwrap();
    assert_eq!(next.wait(), "GPU-fake-0", "`long` is still on card 1");
    go2.answer();
    go3.answer();
    assert!(run.wait().unwrap().success());
}
