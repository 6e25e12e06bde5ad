//! What right files mean.

use std::fs;

use surface_jobfile::{Action, Class, Job, Limits, OnCrash, OverRam, Plan, Reservation, load, parse, parse_with};

use crate::{names, plan};

fn line(job: &Job) -> &str {
    match &job.action {
        Action::Shell { line, .. } => line,
        Action::Argv(_) | Action::Flow(_) | Action::Exec { .. } => panic!("{job:?}"),
    }
}

#[test]
fn every_field_is_read() {
    let plan = plan(
        r#"
        name = "render"
        resources = { cpu = 4, ram = "8 GB", vram = 0, licence = 2 }
        env = { LANG = "C", A = "0" }
        [job.first]
        command = ["true", "{job}"]
        [job.all]
        needs = ["first"]
        run = "echo"
        shell = "bash"
        cpu = 2
        ram = "256 MB"
        vram = "1.5 GiB"
        gpus = 2
        licence = 1
        priority = -3
        retries = 2
        backoff = "1s"
        timeout = "10m"
        grace = 5
        ram_limit = 4000
        over_ram = "warn"
        cpus = [0, 1]
        nice = 5
        class = "idle"
        weight = 300
        env = { A = 1, B = true }
        cwd = "sub"
        inputs = ["a.json", "img/*.png"]
        outputs = ["x.png"]
        on_crash = "restart"
        "#,
    );
    let resources = &plan.resources;
    assert_eq!((resources.cpu, resources.ram_mb, resources.vram_mb), (Some(4), Some(8_000), Some(0)));
    assert_eq!(resources.named, [("licence".to_owned(), 2)]);
    assert_eq!(plan.jobs[0].action, Action::Argv(vec!["true".into(), "first".into()]));
    let env = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let wanted = Job {
        needs: vec![0],
        cpu: Some(2),
        ram_mb: Some(256),
        vram_mb: Some(1_611),
        gpus: Some(2),
        named: vec![("licence".to_owned(), 1)],
        priority: -3,
        retries: 2,
        backoff_ms: Some(1_000),
        timeout_ms: Some(600_000),
        grace_ms: Some(5_000),
        ram_limit_mb: Some(4_000),
        over_ram: OverRam::Warn,
        cpus: vec![0, 1],
        nice: Some(5),
        class: Some(Class::Idle),
        weight: Some(300),
        reservation: None,
        env: vec![env("A", "1"), env("B", "true"), env("LANG", "C")],
        cwd: Some("sub".into()),
        inputs: vec!["a.json".into(), "img/*.png".into()],
        outputs: vec!["x.png".into()],
        on_crash: OnCrash::Restart,
        ..Job::new("all", Action::Shell { shell: "bash".into(), line: "echo".into() })
    };
    assert_eq!(plan.jobs[1], wanted);
}

#[test]
fn defaults_hold_where_a_job_says_nothing() {
    let plan = plan(
        "[resources]\nslot = 3\n[defaults]\nretries = 1\nslot = 2\nshell = 'bash'\nenv = { A = 'd', B = 'd' }\n[env]\nA = 'e'\nC = 'e'\n\
         [job.a]\nrun = 'true'\n[job.b]\nrun = 'true'\nretries = 0\nslot = 1\nenv = { B = 'b' }",
    );
    let values = |job: &Job| job.env.iter().map(|(_, value)| value.clone()).collect::<String>();
    let (a, b) = (&plan.jobs[0], &plan.jobs[1]);
    assert_eq!((a.retries, a.named[0].1, values(a)), (1, 2, "dde".to_owned()));
    assert_eq!((b.retries, b.named[0].1, values(b)), (0, 1, "dbe".to_owned()));
    assert_eq!(a.action.argv()[0], "bash");
}

#[test]
fn jobs_stand_in_the_order_of_the_file() {
    assert_eq!(names(&plan("[job.z]\nrun = 'true'\n[job.a]\nrun = 'true'\n[job.m]\nrun = 'true'")), ["z", "a", "m"]);
}

#[test]
fn a_matrix_turns_its_last_key_fastest() {
    let plan = plan(
        "[job.t]\nforeach = { os = ['linux', 'mac'], tc = '1..3' }\nexclude = [{ os = 'mac', tc = 2 }, { tc = '3' }]\n\
         include = [{ tc = 9, os = 'bsd' }]\nrun = '{os} {tc}'",
    );
    assert_eq!(names(&plan), ["t[linux,1]", "t[linux,2]", "t[mac,1]", "t[bsd,9]"]);
    assert_eq!(line(&plan.jobs[3]), "bsd 9");
    assert_eq!(plan.jobs[0].values, [("os".into(), "linux".into()), ("tc".into(), "1".into())]);
}

#[test]
fn a_need_is_a_group_an_instance_or_the_one_of_the_same_value() {
    let plan = plan(
        "[job.a]\nforeach = { x = '1..3' }\nrun = '{x}'\n[job.b]\nforeach = { x = '1..3' }\nneeds = ['a[{x}]']\nrun = '{x}'\n\
         [job.c]\nneeds = ['b', 'a[2]', 'a[2]']\nrun = 'true'",
    );
    let needs: Vec<&[usize]> = plan.jobs[3..].iter().map(|job| job.needs.as_slice()).collect();
    assert_eq!(needs, [&[0][..], &[1], &[2], &[1, 3, 4, 5]]);
}

#[test]
fn values_that_could_be_mistaken_are_quoted_in_names_and_can_be_needed() {
    let plan = plan(
        r#"
        [job.a]
        foreach = { x = ["p,q", "", " s", "say \"hi\"", "two words", "[z]"] }
        run = "{x}"
        [job.b]
        needs = ['a["p,q"]', 'a["say \"hi\""]', 'a[two words]', 'a["[z]"]']
        run = "true"
        "#,
    );
    let wanted = [r#"a["p,q"]"#, r#"a[""]"#, r#"a[" s"]"#, r#"a["say \"hi\""]"#, "a[two words]", r#"a["[z]"]"#, "b"];
    assert_eq!(names(&plan), wanted);
    assert_eq!(plan.jobs[6].needs, [0, 3, 4, 5]);
}

#[test]
fn a_shell_line_without_placeholders_is_left_alone() {
    let line_written = "for x in {a,b}; do { echo ${x} ${A:-${B}}; }; done | awk '{print $1}' | xargs -I{} echo {}";
    let text = format!("[job.a]\nforeach = {{ scene = '1..1' }}\nrun = {line_written:?}");
    assert_eq!(line(&plan(&text).jobs[0]), line_written);
}

#[test]
fn files_of_a_glob_become_values_and_cannot_become_programs() {
    let folder = std::env::temp_dir().join(format!("jobfile-glob-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    for name in ["b.wav", "a b.wav", "c.txt"] {
        fs::write(folder.join(name), "").unwrap();
    }
    let path = folder.join("jobs.toml");
    fs::write(&path, "[job.a]\nforeach = { f = 'glob:*.wav' }\nrun = 'play \"{f}\"'").unwrap();
    let loaded = load(&path).unwrap();
    assert_eq!(names(&loaded), ["a[a b.wav]", "a[b.wav]"]);
    assert_eq!(line(&loaded.jobs[0]), "play \"a b.wav\"");
    assert_eq!((loaded.name.as_str(), loaded.base.as_path()), ("jobs", folder.as_path()));

    fs::write(folder.join("$(touch x).wav"), "").unwrap();
    let problems = load(&path).unwrap_err().to_string();
    assert!(
        problems.ends_with(
            "jobs.toml:1:6: file `$(touch x).wav` has characters in its name that a shell acts on; \
         write `command = [\"program\", \"{f}\"]`, which uses no shell, or rename the file"
        ),
        "{problems}"
    );
    fs::write(&path, "[job.a]\nforeach = { f = 'glob:*.wav' }\ncommand = ['play', '{f}']").unwrap();
    assert_eq!(load(&path).unwrap().jobs.len(), 3);

    fs::write(&path, "[job.a]\nforeach = { f = 'glob:*.ogg' }\ncommand = ['play', '{f}']").unwrap();
    let problems = load(&path).unwrap_err().to_string();
    assert!(problems.contains("jobs.toml:2:17: no file matches `glob:*.ogg` in "), "{problems}");
    fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_glob_is_refused_where_the_disk_must_not_be_read() {
    let limits = Limits { globs: false, ..Limits::default() };
    let text = "[job.a]\nforeach = { f = 'glob:/etc/*' }\nrun = 'true'";
    let problems = parse_with("a.toml", text.as_bytes(), &limits).unwrap_err().to_string();
    assert_eq!(problems, "a.toml:2:17: `glob:/etc/*` would read the disk, which is not allowed here; write a list");
}

#[test]
fn json_means_the_same() {
    let toml = "[resources]\ncpu = 2\n[job.b]\nforeach = { x = ['ä', '😀'] }\nrun = 'echo \"{x}\"\t!'\n[job.a]\nneeds = ['b']\nrun = 'true'\ntimeout = 1.5";
    let json = r#"{ "resources": {"cpu": 2}, "job": { "b": {"foreach": {"x": ["\u00e4", "\ud83d\ude00"]}, "run": "echo \"{x}\"\t!"},
        "a": {"needs": ["b"], "run": "true", "timeout": 1.5} } }"#;
    assert_eq!(parse("x.json", json).unwrap(), parse("x.toml", toml).unwrap());
}

#[test]
fn a_plan_survives_being_stored() {
    let plan =
        plan("[job.a]\nforeach = { x = '1..3' }\nrun = '{x}'\n[job.b]\nneeds = ['a']\ncommand = ['true']\nnice = 3");
    let stored = serde_json::to_string(&plan).unwrap();
    assert_eq!(serde_json::from_str::<Plan>(&stored).unwrap(), plan);
}

#[test]
fn a_reservation_takes_the_place_of_the_class_of_all_jobs() {
    let plan = plan(
        "[defaults]\nclass = 'batch'\nweight = 50\n[job.a]\nrun = 'x'\nbudget = '500us'\nperiod = '2ms'\n[job.b]\nrun = 'x'",
    );
    let [a, b] = &plan.jobs[..] else { panic!("two jobs") };
    let reserved = Reservation { budget_us: 500, deadline_us: 2_000, period_us: 2_000 };
    assert_eq!((a.class, a.weight, a.reservation), (None, None, Some(reserved)));
    assert_eq!((b.class, b.weight, b.reservation), (Some(Class::Batch), Some(50), None));
}

#[test]
fn a_plan_of_an_earlier_version_still_has_its_cpus() {
    let old = r#"{"name":"a","group":"a","action":{"argv":["true"]},"pin":[1,2]}"#;
    assert_eq!(serde_json::from_str::<surface_jobfile::Job>(old).unwrap().cpus, [1, 2]);
}

#[test]
fn a_program_is_run_by_bursar_and_its_file_is_an_input() {
    let plan = plan(
        "[job.sum]\nforeach = { n = '1..2' }\nexec = 'sum.jan'\nargs = [-3, true, '{n}']\nops = 1000\nchannel_ops = 5\ninputs = ['a']\n",
    );
    let job = &plan.jobs[1];
    let options = ["--ops=1000", "--channel-ops=5", "--arg=-3", "--arg=true", "--arg=2"].map(str::to_owned);
    assert_eq!(job.action, Action::Exec { file: "sum.jan".into(), options: options.to_vec() });
    assert_eq!(job.action.argv()[..3], ["bursar", "exec", "--ops=1000"]);
    assert_eq!(job.action.argv()[7..], ["--", "sum.jan"]);
    assert_eq!(job.inputs, ["a", "sum.jan"]);
    let (path, _) = job.exec_path("/base".as_ref()).unwrap();
    assert_eq!(path, std::path::Path::new("/base/sum.jan"));
    assert_ne!(job.fingerprint(), plan.jobs[0].fingerprint(), "other arguments are another command");
}

#[test]
fn a_job_says_where_it_runs_before_its_file_does() {
    let plan = plan(
        r#"
        [run]
        on = "slurm"
        [slurm]
        rest = "unix:/run/rest.sock"
        partition = "gpu"
        vram = "gres:vram"
        modules = ["cuda/12"]
        window = 50
        resources = { oven = "license:oven" }
        [job.solve]
        run = "srun solve"
        tasks = 64
        nodes = 4
        [job.pack]
        run = "tar c ."
        on = "local"
        [job.plugin]
        exec = "step.jan"
        tasks = 5
        "#,
    );
    let on_slurm: Vec<bool> = plan.jobs.iter().map(|job| plan.is_on_slurm(job)).collect();
    assert_eq!(on_slurm, [true, false, true]);
    assert_eq!((plan.jobs[0].tasks, plan.jobs[0].nodes), (Some(64), Some(4)));
    assert_eq!(plan.jobs[2].tasks, None, "it is a limit of the program");
    let slurm = &plan.slurm;
    assert_eq!(slurm.rest.as_deref(), Some("unix:/run/rest.sock"));
    assert_eq!(
        (slurm.partition.as_deref(), slurm.vram.as_deref(), slurm.window),
        (Some("gpu"), Some("gres:vram"), Some(50))
    );
    assert_eq!(
        (&slurm.modules[..], &slurm.resources[..]),
        (&["cuda/12".to_owned()][..], &[("oven".to_owned(), "license:oven".to_owned())][..])
    );
    let kept = serde_json::to_string(&plan).unwrap();
    assert_eq!(serde_json::from_str::<Plan>(&kept).unwrap(), plan);
}
