//! When a job is run again, by the files it declares.

use std::fs::{self, File};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use surface_jobfile::{Action, Freshness, Job};

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("jobfile-fresh[x]-{}-{name}", std::process::id()));
        fs::create_dir_all(path.join("sub")).unwrap();
        Self(path)
    }

    /// Writes a file that was changed so many seconds ago.
    fn file(&self, name: &str, age: u64) {
        let file = File::create(self.0.join(name)).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(age)).unwrap();
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn job(inputs: &[&str], outputs: &[&str]) -> Job {
    let mut job = Job::new("film", Action::Argv(vec!["true".into()]));
    job.inputs = inputs.iter().map(|&text| text.to_owned()).collect();
    job.outputs = outputs.iter().map(|&text| text.to_owned()).collect();
    job
}

fn stale(reason: &str) -> Freshness {
    Freshness::Stale(reason.to_owned())
}

#[test]
fn outputs_newer_than_all_inputs_are_fresh() {
    let folder = Folder::new("newer");
    for (name, age) in [("a.png", 30), ("b.png", 20), ("film", 10), ("sound", 15)] {
        folder.file(name, age);
    }
    assert_eq!(job(&["*.png"], &["film", "sound"]).up_to_date(&folder.0), Freshness::Fresh);
    assert_eq!(job(&[], &["film"]).up_to_date(&folder.0), Freshness::Fresh);
    assert_eq!(job(&["*.png"], &[]).up_to_date(&folder.0), Freshness::Undeclared);
}

#[test]
fn one_input_newer_than_one_output_makes_it_stale() {
    let folder = Folder::new("older");
    for (name, age) in [("a.png", 30), ("b.png", 12), ("film", 10), ("sound", 15)] {
        folder.file(name, age);
    }
    let why = stale("output sound is older than input b.png");
    assert_eq!(job(&["*.png"], &["film", "sound"]).up_to_date(&folder.0), why);
}

#[test]
fn what_is_missing_makes_it_stale() {
    let folder = Folder::new("missing");
    folder.file("film", 10);
    assert_eq!(job(&[], &["film", "x"]).up_to_date(&folder.0), stale("output x is missing"));
    assert_eq!(job(&["a"], &["film"]).up_to_date(&folder.0), stale("input a is missing"));
    assert_eq!(job(&["*.png"], &["film"]).up_to_date(&folder.0), stale("no file matches input *.png"));
}

#[test]
fn files_are_looked_for_where_the_job_starts() {
    let folder = Folder::new("cwd");
    folder.file("sub/film", 10);
    folder.file("sub/a[1].png", 20);
    let mut job = job(&["a[1].png"], &["film"]);
    assert_eq!(job.up_to_date(&folder.0), stale("output film is missing"));
    job.cwd = Some("sub".into());
    assert_eq!(job.up_to_date(&folder.0), Freshness::Fresh);
}

#[test]
fn a_fingerprint_changes_with_what_is_run_and_with_nothing_else() {
    let plain = Job::new("a", Action::Argv(vec!["ab".into(), "c".into()]));
    // Kept in journals: a change of this number makes every job run again.
    assert_eq!(plain.fingerprint(), 0x2207_b977_6c21_d965, "{:#x}", plain.fingerprint());

    let mut same = plain.clone();
    (same.name, same.retries, same.needs, same.outputs) = ("b".into(), 3, vec![1], vec!["x".into()]);
    assert_eq!(same.fingerprint(), plain.fingerprint());

    let mut others = vec![plain.clone(); 4];
    others[0].action = Action::Argv(vec!["a".into(), "bc".into()]);
    others[1].action = Action::Shell { shell: "ab".into(), line: "c".into() };
    others[2].env = vec![("A".into(), "1".into())];
    others[3].cwd = Some("sub".into());
    for other in others {
        assert_ne!(other.fingerprint(), plain.fingerprint(), "{other:?}");
    }
}
