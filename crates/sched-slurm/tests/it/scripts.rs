//! Scripts, run by a real shell.

use std::fs;
use std::path::Path;
use std::process::{Command as Process, Stdio};
use std::thread::sleep;
use std::time::Duration;

use sched_jobs::process::{Command, words};
use sched_slurm::key::Key;
use sched_slurm::marks::{End, EndKind, Start};
use sched_slurm::request::Site;
use sched_slurm::{Remains, ends, left, read_end, script};

const KEY: Key = Key { job: 0, attempt: 1, edition: 0 };

fn write(folder: &Path, line: &str, change: impl FnOnce(&mut Command, &mut Site)) {
    let mut command = Command::new(["sh", "-c", line]);
    let mut site = Site::default();
    change(&mut command, &mut site);
    fs::write(folder.join("0.1.0.sh"), script::text(KEY, folder, &folder.join("log"), &command, &site)).unwrap();
    fs::write(folder.join("0.1.0.permit"), "").unwrap();
}

fn shell(folder: &Path) -> Process {
    let mut shell = Process::new("sh");
    shell.arg(folder.join("0.1.0.sh")).env("SLURM_JOB_ID", "7").env("SLURMD_NODENAME", "n2");
    shell.stdout(Stdio::null());
    shell
}

fn end_of(folder: &Path) -> End {
    read_end(folder, KEY).expect("there is a mark of the end")
}

#[test]
fn a_command_runs_once_however_often_its_script_starts() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write(folder, "echo effect >> effects; exit 3", |command, _| command.cwd = Some(folder.to_owned()));
    let mut starts: Vec<_> = (0..20).map(|_| shell(folder).spawn().unwrap()).collect();
    let codes: Vec<_> = starts.iter_mut().map(|start| start.wait().unwrap().code().unwrap()).collect();
    assert_eq!(fs::read_to_string(folder.join("effects")).unwrap(), "effect\n");
    assert_eq!(codes.iter().filter(|code| **code == 3).count(), 1, "{codes:?}");
    assert_eq!(codes.iter().filter(|code| **code == 0).count(), 19, "{codes:?}");
    assert_eq!((end_of(folder).kind, end_of(folder).code), (EndKind::Exit, 3));
    let start = Start::read(&fs::read_to_string(folder.join("0.1.0.start")).unwrap()).unwrap();
    assert_eq!((start.id, start.node.as_str()), (7.into(), "n2"));
    assert!(folder.join(start.taken).exists());
    assert_eq!(left(folder).unwrap()[0].what, Remains::Ended);
}

#[test]
fn without_a_permit_nothing_runs() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write(folder, "echo effect >> effects", |command, _| command.cwd = Some(folder.to_owned()));
    fs::remove_file(folder.join("0.1.0.permit")).unwrap();
    assert!(shell(folder).status().unwrap().success());
    assert!(!folder.join("effects").exists() && !folder.join("0.1.0.end").exists());
}

#[test]
fn a_script_that_is_asked_to_end_asks_its_command_and_waits_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write(folder, "trap 'kill $!; sleep 0.3; exit 9' TERM; sleep 60 & touch ready; wait", |command, _| {
        command.cwd = Some(folder.to_owned());
    });
    let mut start = shell(folder).spawn().unwrap();
    while !folder.join("ready").exists() {
        sleep(Duration::from_millis(10));
    }
    assert!(Process::new("kill").arg(start.id().to_string()).status().unwrap().success());
    assert_eq!(start.wait().unwrap().code(), Some(9));
    assert_eq!((end_of(folder).kind, end_of(folder).code), (EndKind::Asked, 9));
}

#[test]
fn words_with_quotes_and_variables_with_dollars_arrive_as_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let folder = &folder.path().join("it's a $HOME");
    fs::create_dir(folder).unwrap();
    write(folder, r#"printf '%s|%s' "$A" 'b$c"' > out"#, |command, site| {
        command.cwd = Some(folder.clone());
        command.env = vec![("A".into(), "it's `a` \\ $B".into())];
        site.prologue = Some("PROLOGUE=1; export PROLOGUE".to_owned());
    });
    assert!(shell(folder).status().unwrap().success());
    assert_eq!(fs::read_to_string(folder.join("out")).unwrap(), "it's `a` \\ $B|b$c\"");
}

#[test]
fn a_time_limit_a_missing_folder_and_a_missing_output_are_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write(folder, "sleep 60", |command, _| command.limits.wall = Some(Duration::from_millis(200)));
    assert_eq!(shell(folder).status().unwrap().code(), Some(124));
    assert!(end_of(folder).wall >= Duration::from_millis(200));
    write(folder, "true", |command, _| command.cwd = Some(folder.join("none")));
    assert_eq!(shell(folder).stderr(Stdio::null()).status().unwrap().code(), Some(127));
    assert_eq!(
        (end_of(folder).kind, end_of(folder).missing),
        (EndKind::NoFolder, folder.join("none").to_str().map(str::to_owned))
    );
    let (made, missing) = (folder.join("made"), folder.join("not made"));
    write(folder, "touch made", |command, _| {
        command.cwd = Some(folder.to_owned());
        command.outputs = vec![made, missing.clone()];
    });
    assert!(shell(folder).status().unwrap().success());
    assert_eq!(end_of(folder).missing.as_deref(), missing.to_str());
}

#[test]
fn a_prologue_that_exits_is_said_to_have_done_so_and_the_command_does_not_start() {
    for (prologue, code) in [("exit 3", 3), ("set -e; false", 1), ("if then (", 2)] {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        write(folder, "echo effect >> effects", |command, site| {
            command.cwd = Some(folder.to_owned());
            site.prologue = Some(prologue.to_owned());
        });
        assert_eq!(shell(folder).stderr(Stdio::null()).status().unwrap().code(), Some(code), "{prologue}");
        assert_eq!((end_of(folder).kind, end_of(folder).code), (EndKind::Prologue, code), "{prologue}");
        assert!(!folder.join("effects").exists());
        let end = ends::measured(KEY, &end_of(folder), None, false);
        assert!(
            words(&end.how)
                .contains(&format!("the prologue of [slurm] ended with code {code} before its command began")),
            "{:?}",
            end.how
        );
    }
}

#[test]
fn a_prologue_that_changes_the_shell_does_not_change_how_the_end_is_told() {
    let prologues = [
        "set -eu",
        "set -Cf; IFS=/",
        "PATH=/nonexist; export PATH",
        "unset PATH",
        "end() { :; }; bursar_end() { :; }; inner() { exit 9; }",
        "echo() { exit 9; }; date() { exit 9; }; mv() { exit 9; }; rm() { exit 9; }; sh() { exit 9; }; command() { exit 9; }",
        "alias exec='echo no' sh='echo no' end='echo no'",
        "readonly p=5 n=5 c=5 K=5 bursar_p=5 bursar_c=5 bursar_k=5",
        "n=1; p=1; c=0; m=m; bursar_n=1; bursar_c=0; bursar_m=m",
        "set -- one two three; shift",
        "trap 'exit 9' EXIT; trap '' TERM",
        "cd /; umask 777; exec 3>&- 4</dev/null",
        "ulimit -f 0",
        "wait() { exit 9; }; kill() { exit 9; }",
    ];
    for prologue in prologues {
        for limit in [None, Some(Duration::from_secs(60))] {
            let folder = tempfile::tempdir().unwrap();
            let folder = folder.path();
            write(folder, "exit 5", |command, site| {
                command.argv = vec!["/bin/sh".into(), "-c".into(), "echo effect; exit 5".into()];
                command.limits.wall = limit;
                command.cwd = Some(folder.to_owned());
                site.prologue = Some(prologue.to_owned());
            });
            let output = shell(folder).stdout(Stdio::piped()).stderr(Stdio::piped()).output().unwrap();
            let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
            let end = end_of(folder);
            assert_eq!((end.kind, end.code, end.missing), (EndKind::Exit, 5, None), "{prologue}: {said}");
            assert_eq!((output.status.code(), &*said), (Some(5), "effect\n"), "{prologue}");
            assert!(!folder.join("0.1.0.prologue").exists(), "{prologue}");
        }
    }
}

#[test]
fn what_a_prologue_changes_in_the_environment_reaches_the_command_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let folder = &folder.path().join("it's a folder");
    fs::create_dir_all(folder.join("bin")).unwrap();
    fs::create_dir(folder.join("deep")).unwrap();
    fs::write(
        folder.join("bin/tool"),
        "#!/bin/sh\nprintf '%s|%s|%s|%s|' \"$MADE\" \"$SET\" \"$(umask)\" \"$PWD\" > ../out\n",
    )
    .unwrap();
    std::fs::set_permissions(folder.join("bin/tool"), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    write(folder, "", |command, site| {
        command.argv = vec!["tool".into()];
        command.cwd = Some(folder.clone());
        command.env = vec![("SET".into(), "set".into())];
        command.outputs = vec!["out".into()];
        site.prologue = Some("PATH=\"$PWD/bin:$PATH\"\nexport MADE=\"made of $SET\"\numask 027\ncd deep".to_owned());
    });
    assert!(shell(folder).status().unwrap().success());
    let there = folder.join("deep").display().to_string();
    assert_eq!(fs::read_to_string(folder.join("out")).unwrap(), format!("made of set|set|0027|{there}|"));
    assert_eq!(end_of(folder).missing, None);
}

#[test]
fn variables_of_the_submitter_reach_the_command_as_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write(folder, r#"echo "$n $p $K $S $c $m" > out"#, |command, _| {
        command.cwd = Some(folder.to_owned());
        command.env = vec![("K".into(), "of the job".into())];
    });
    let mut start = shell(folder);
    start.envs([("n", "1"), ("p", "2"), ("K", "3"), ("S", "4"), ("c", "5"), ("m", "6")]);
    assert!(start.status().unwrap().success());
    assert_eq!(fs::read_to_string(folder.join("out")).unwrap(), "1 2 of the job 4 5 6\n");
    assert_eq!((end_of(folder).kind, end_of(folder).missing), (EndKind::Exit, None));
}

#[test]
fn a_request_to_end_after_a_prologue_reaches_the_command_itself() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write(folder, "trap 'kill $!; exit 9' TERM; sleep 60 & touch ready; wait", |command, site| {
        command.cwd = Some(folder.to_owned());
        site.prologue = Some("trap 'exit 8' TERM; kill() { :; }".to_owned());
    });
    let mut start = shell(folder).spawn().unwrap();
    while !folder.join("ready").exists() {
        sleep(Duration::from_millis(10));
    }
    assert!(Process::new("kill").arg(start.id().to_string()).status().unwrap().success());
    assert_eq!(start.wait().unwrap().code(), Some(9));
    assert_eq!((end_of(folder).kind, end_of(folder).code), (EndKind::Asked, 9));
}

/// Slurm signals all processes of a job, one after the other.
#[test]
fn a_command_that_is_ended_a_moment_before_its_script_is_asked_was_asked_to_end() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write(folder, "echo $$ >pid.new; mv pid.new pid; exec sleep 60", |command, _| {
        command.cwd = Some(folder.to_owned())
    });
    let mut start = shell(folder).spawn().unwrap();
    while !folder.join("pid").exists() {
        sleep(Duration::from_millis(10));
    }
    let pid = fs::read_to_string(folder.join("pid")).unwrap();
    assert!(Process::new("kill").args([pid.trim(), &start.id().to_string()]).status().unwrap().success());
    assert_eq!(start.wait().unwrap().code(), Some(143));
    assert_eq!((end_of(folder).kind, end_of(folder).code), (EndKind::Asked, 143));
}

#[test]
fn what_was_cancelled_and_ended_by_the_signal_did_not_end_by_itself() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    for (line, was_cancelled) in [("kill -TERM $$", true), ("exit 143", true), ("exit 1", false), ("true", false)] {
        write(folder, line, |_, _| ());
        fs::write(folder.join("0.1.0.cancel"), "").unwrap();
        shell(folder).stderr(Stdio::null()).status().unwrap();
        assert_eq!(left(folder).unwrap()[0].was_cancelled, was_cancelled, "{line}");
        let end = ends::measured(KEY, &end_of(folder), None, true);
        assert_eq!(words(&end.how).contains("cancelled"), was_cancelled, "{line}: {:?}", end.how);
    }
}

#[test]
fn a_request_to_end_during_the_prologue_is_never_told_as_an_end_of_the_command() {
    for (prologue, kind, code) in [
        ("touch ready; while :; do sleep 0.05; done", EndKind::Asked, 143),
        ("trap 'exit 0' TERM; touch ready; while :; do sleep 0.05; done", EndKind::Prologue, 0),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        write(folder, "echo effect >> effects", |command, site| {
            command.cwd = Some(folder.to_owned());
            site.prologue = Some(prologue.to_owned());
        });
        let mut start = shell(folder).spawn().unwrap();
        while !folder.join("ready").exists() {
            sleep(Duration::from_millis(10));
        }
        assert!(Process::new("kill").arg(start.id().to_string()).status().unwrap().success());
        assert_eq!(start.wait().unwrap().code(), Some(code), "{prologue}");
        assert_eq!((end_of(folder).kind, end_of(folder).code), (kind, code), "{prologue}");
        assert!(!folder.join("effects").exists());
    }
}

#[test]
fn a_prologue_whose_attempt_was_given_up_does_not_go_on_to_the_command() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write(folder, "echo effect >> effects", |command, site| {
        command.cwd = Some(folder.to_owned());
        site.prologue = Some("rm 0.1.0.prologue".to_owned());
    });
    assert!(!shell(folder).stderr(Stdio::null()).status().unwrap().success());
    assert_eq!(end_of(folder).kind, EndKind::Prologue);
    assert!(!folder.join("effects").exists());
}

#[test]
fn a_module_that_cannot_be_loaded_is_named_and_one_that_can_reaches_the_command() {
    let module = "module() { [ \"$2\" != none/1 ] && export LOADED=\"$LOADED $2\" PATH=/nonexist; }";
    for (second, kind, missing) in [("two/2", EndKind::Exit, None), ("none/1", EndKind::NoModule, Some("none/1"))] {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        write(folder, "", |command, site| {
            command.argv = vec!["/bin/sh".into(), "-c".into(), "echo \"$LOADED\" >out".into()];
            command.cwd = Some(folder.to_owned());
            site.modules = vec!["one/1".to_owned(), second.to_owned()];
        });
        // In the place of the files that define it.
        let script = folder.join("0.1.0.sh");
        let text = fs::read_to_string(&script).unwrap();
        fs::write(&script, text.replace("command -v module", &format!("{module}; command -v module"))).unwrap();
        shell(folder).stderr(Stdio::null()).status().unwrap();
        assert_eq!((end_of(folder).kind, end_of(folder).missing.as_deref()), (kind, missing));
        assert_eq!(fs::read_to_string(folder.join("out")).ok(), missing.is_none().then(|| " one/1 two/2\n".to_owned()));
    }
}

/// A folder of this name is in the way of the mark, as a disk without room is.
#[test]
fn without_room_for_the_mark_of_the_end_the_end_is_known_by_a_name() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write(folder, "exit 5", |_, _| ());
    fs::create_dir(folder.join("0.1.0.end.new")).unwrap();
    assert_eq!(shell(folder).stderr(Stdio::null()).status().unwrap().code(), Some(5));
    let end = end_of(folder);
    assert_eq!((end.kind, end.code, end.is_whole), (EndKind::Exit, 5, false));
    assert_eq!(left(folder).unwrap()[0].what, Remains::Ended);
}

#[test]
fn without_room_for_the_mark_of_the_start_the_command_does_not_start_and_that_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write(folder, "echo effect >> effects", |command, _| command.cwd = Some(folder.to_owned()));
    fs::create_dir(folder.join("0.1.0.start.new")).unwrap();
    assert_eq!(shell(folder).stderr(Stdio::null()).status().unwrap().code(), Some(73));
    assert!(!folder.join("effects").exists());
    let end = ends::measured(KEY, &end_of(folder), None, false);
    assert!(words(&end.how).contains("make room"), "{:?}", end.how);
}
