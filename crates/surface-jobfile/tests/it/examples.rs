//! The examples people start from are right, and run with nothing but a shell.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use surface_jobfile::{Freshness, Plan, graph, load};

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(name)
}

fn loaded(path: &Path) -> Plan {
    load(path).unwrap_or_else(|problems| panic!("{problems}"))
}

#[test]
fn the_examples_look_like_this() {
    let drawn = |name| graph::text(&loaded(&example(name)));
    assert_eq!(
        drawn("quickstart.toml"),
        "\
quickstart: 7 jobs in 4 groups · cpu 4 · oven 2

  shop
  └─ cake ×4       oven 1
     └─ icing
        └─ party   also needs cake ×4

longest chain: 4 jobs, shop → cake → icing → party
"
    );
    assert_eq!(
        drawn("media.toml"),
        "\
media: 19 jobs in 5 groups · cpu 4 · ram 8 GB · vram 16 GB

  storyboard         ram 512 MB · priority 100
  └─ image ×8        ram 1 GB · vram 6 GB · retries 2
     └─ upscale ×8   vram 4 GB
        └─ compose   ram 2 GB · also needs music
  music              cpu 2

longest chain: 4 jobs, storyboard → image → upscale → compose
"
    );
    assert_eq!(
        drawn("matrix.toml"),
        "\
test matrix: 18 jobs in 5 groups · cpu 4 · licence 1

  fetch                 retries 3
  └─ build ×5
     └─ test ×8
        └─ sign ×3      licence 1 · also needs build ×5
           └─ publish

longest chain: 5 jobs, fetch → build → test → sign → publish
"
    );
}

/// Runs every job in order, with a `sleep` that does not.
fn run(name: &str) {
    let root = env::temp_dir().join(format!("jobfile-{}-{name}", std::process::id()));
    let (folder, tools) = (root.join("examples"), root.join("tools"));
    fs::create_dir_all(&folder).unwrap();
    fs::create_dir_all(&tools).unwrap();
    fs::write(tools.join("sleep"), "#!/bin/sh\n").unwrap();
    let made = Command::new("chmod").arg("+x").arg(tools.join("sleep")).status().unwrap();
    assert!(made.success());
    fs::copy(example(name), folder.join(name)).unwrap();
    let path = format!("{}:{}", tools.display(), env::var("PATH").unwrap_or_default());

    let plan = loaded(&folder.join(name));
    for index in plan.order().unwrap() {
        let job = &plan.jobs[index];
        let argv = job.action.argv();
        let mut command = Command::new(argv[0]);
        command.args(&argv[1..]).envs(job.env.iter().cloned()).env("PATH", &path).current_dir(job.folder(&plan.base));
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}: {}", job.name, String::from_utf8_lossy(&output.stderr));
        assert!(output.stderr.is_empty(), "{}: {}", job.name, String::from_utf8_lossy(&output.stderr));
    }
    for job in &plan.jobs {
        assert!(matches!(job.up_to_date(&plan.base), Freshness::Fresh | Freshness::Undeclared), "{}", job.name);
    }
    fs::remove_dir_all(root).unwrap();
}

#[test]
fn the_quickstart_runs_and_is_up_to_date_then() {
    run("quickstart.toml");
}

#[test]
fn the_film_is_made() {
    run("media.toml");
}

#[test]
fn the_matrix_is_tested() {
    run("matrix.toml");
}
