//! slurmrestd over real sockets: what it is told, and what follows from what it says.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use sched_slurm::batch::{Batch, key_of};
use sched_slurm::key::Key;
use sched_slurm::request::{Request, Site, Submission, describe};
use sched_slurm::{CallError, Cluster, Credentials, Partition, Rest, SlurmError, SlurmId};
use serde_json::{Value, json};

use crate::server::{Asked, Reply, Server, TOKEN, credentials, errors, offer};

const JOBS: &str = include_str!("answers/jobs.json");
const ARRAY: &str = include_str!("answers/array.json");
const UNKNOWN: &str = include_str!("answers/unknown.json");

const KEY: Key = Key { job: 0, attempt: 1, edition: 0 };

fn task(job: u64, task: u32) -> SlurmId {
    SlurmId { job, task: Some(task) }
}

fn says(text: &str) -> Reply {
    Reply::Says(200, text.to_owned())
}

fn accepted(_: &Asked) -> Reply {
    says(r#"{"errors": [], "job_id": 7, "step_id": "BATCH"}"#)
}

/// A submission with a script in `folder`.
fn submission(folder: &Path, batch: Batch) -> Submission {
    let script = folder.join("job.sh");
    fs::write(&script, "#!/bin/sh\nexec true\n").unwrap();
    let site = Site { partition: Some("main".to_owned()), ..Site::default() };
    let request = Request { cpus: 4, ram_mb: Some(2_000), gpus: 1, nice: 7, ..Request::default() };
    let request = Request { timeout: Some(Duration::from_secs(600)), tasks: Some(8), nodes: Some(2), ..request };
    let description = describe(&site, &request, &batch, "r-1", folder, &folder.join("100%.log"), Duration::ZERO);
    Submission { batch, description, script }
}

fn submit(server: &Server) -> Result<u64, CallError> {
    let folder = tempfile::tempdir().unwrap();
    server.rest().submit(&submission(folder.path(), Batch::one(KEY)))
}

#[test]
fn a_submission_says_all_that_sbatch_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::new(accepted);
    let rest = server.rest_with(&["--exclusive", "-xn3", "--mail-type", "END", "--time-min=10"]);
    assert_eq!(rest.submit(&submission(folder.path(), Batch::one(KEY))), Ok(7));
    let asked = server.asked().pop().unwrap();
    assert_eq!(asked.line, "POST /slurm/v0.0.38/job/submit");
    assert_eq!(asked.header("x-slurm-user-name"), Some("film"));
    assert_eq!(asked.header("x-slurm-user-token"), Some(TOKEN));
    let mut body = asked.body.unwrap();
    assert_eq!(body["script"], "#!/bin/sh\nexec true\n");
    let job = body["job"].as_object_mut().unwrap();
    let environment = job.remove("environment").unwrap();
    assert_eq!(environment["PATH"], std::env::var("PATH").unwrap());
    assert!(environment.as_object().unwrap().keys().all(|name| !name.starts_with("SLURM_")), "{environment}");
    assert_eq!(job.remove("current_working_directory").unwrap(), std::env::current_dir().unwrap().to_str().unwrap());
    assert!(job.remove("umask").unwrap().as_str().unwrap().starts_with('0'));
    let marks = folder.path().display();
    assert_eq!(
        body["job"],
        json!({
            "name": "r-1:0.1.0",
            "comment": format!("bursar {marks}#0.1.0"),
            "no_requeue": true,
            "open_mode": "append",
            "standard_output": format!("{marks}/100%%.log"),
            "cpus_per_task": 4,
            "partition": "main",
            "tasks": 8,
            "nodes": 2,
            "memory_per_node": 1908,
            "nice": 7,
            "time_limit": 12,
            "gres": "gpu:1",
            "exclusive": "exclusive",
            "exclude_nodes": "n3",
            "mail_type": "END",
            "time_minimum": "10",
        })
    );
}

/// `argv` makes slurmrestd 22.05 crash.
#[test]
fn an_array_has_its_tasks_and_its_script_its_arguments_without_argv() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::new(accepted);
    let keys = [3, 4, 9].map(|job| Key { job, ..KEY });
    let batch = Batch::of(keys.to_vec(), 1_001, server.rest().task_list_max(), 5).unwrap();
    assert_eq!(server.rest().submit(&submission(folder.path(), batch)), Ok(7));
    let body = server.asked().pop().unwrap().body.unwrap();
    assert_eq!((&body["job"]["array"], &body["job"]["standard_output"]), (&json!("0-1,6"), &json!("/dev/null")));
    assert_eq!(body["script"], "#!/bin/sh\nset -- '3' '1.0'\nexec true\n");
    assert_eq!(body["job"]["argv"], Value::Null);
}

#[test]
fn an_option_without_a_property_is_refused_by_name() {
    let server = Server::new(accepted);
    let refused = |options: &[&str]| {
        let options: Vec<String> = options.iter().map(|option| (*option).to_owned()).collect();
        match Rest::new(&server.address, credentials("film"), &options) {
            Err(SlurmError::Option { option, instead }) => (option, instead),
            other => panic!("{options:?}: {other:?}"),
        }
    };
    assert!(refused(&["--hold", "--distribution=block"]).1.contains("leave out `rest`"));
    assert_eq!(refused(&["--distribution=block"]).0, "--distribution=block");
    assert!(refused(&["--export=NONE"]).1.contains("`env`"));
    assert!(refused(&["--test-only"]).1.contains("nothing is submitted"));
    assert!(refused(&["--nodes"]).1.contains("takes a value"));
    assert!(refused(&["--mincpus=many"]).1.contains("whole number"));
    assert!(refused(&["-Z"]).1.contains("leave out `rest`"));
    assert!(refused(&["name"]).1.contains("leave out `rest`"));
    assert!(server.asked().is_empty());
}

#[test]
fn the_queue_has_the_jobs_of_our_user_that_are_not_over_and_each_task_is_a_row() {
    let server = Server::new(|_| says(JOBS));
    let mut rows = server.rest().queue().unwrap();
    rows.sort_by_key(|row| row.id);
    let ids: Vec<String> = rows.iter().map(|row| row.id.to_string()).collect();
    assert_eq!(ids[..3], ["124", "125_0", "125_1"]);
    assert_eq!(ids[3..], (2..10).map(|task| format!("125_{task}")).collect::<Vec<_>>());
    assert_eq!(rows[0].to_string(), "Slurm job 124 is running on n1");
    assert_eq!(rows[0].comment, "bursar /a b/slurm#0.1.0");
    assert_eq!(
        rows[5].to_string(),
        "Slurm job 125_4 is pending (Resources), expected to start at 2027-11-19T19:54:21Z"
    );
    let folder = Path::new("/a b/slurm");
    assert_eq!(key_of(&rows[5].comment, rows[5].id, folder), Some(Key { job: 5, attempt: 1, edition: 0 }));
    let other = Rest::new(&server.address, credentials("root"), &[]).unwrap();
    assert_eq!(other.queue().unwrap().iter().map(|row| row.id.job).collect::<Vec<_>>(), [126, 127]);
}

#[test]
fn a_queue_of_thousands_is_read_while_it_arrives() {
    let server = Server::new(|_| {
        let mut answer: Value = serde_json::from_str(JOBS).unwrap();
        let jobs = answer["jobs"].as_array_mut().unwrap();
        let other = jobs.iter().find(|job| job["user_name"] == "root").unwrap().clone();
        jobs.extend(vec![other; 1_500]);
        Reply::Says(200, answer.to_string())
    });
    let rest = server.rest().with_timeout(Duration::from_secs(20));
    assert_eq!(rest.queue().unwrap().len(), 11);
}

#[test]
fn the_fate_of_a_task_is_its_own_or_that_of_its_list() {
    let server = Server::new(|asked| match &*asked.line {
        "GET /slurm/v0.0.38/job/125" => says(ARRAY),
        "GET /slurm/v0.0.38/job/62" => says(
            r#"{"errors": [], "jobs": [
                {"job_id": 62, "array_job_id": 62, "array_task_id": null, "array_task_string": "0,2,4,51...%4", "job_state": "PENDING", "nodes": "", "comment": "c"},
                {"job_id": 63, "array_job_id": 62, "array_task_id": 1, "array_task_string": "", "job_state": "FAILED", "nodes": "n1", "comment": "c"}]}"#,
        ),
        _ => Reply::Says(500, UNKNOWN.to_owned()),
    });
    let rest = server.rest();
    let fate = |id: SlurmId| rest.fate(id).unwrap().map(|fate| (fate.state, fate.node));
    let known = |state: &str, node: Option<&str>| Some((state.to_owned(), node.map(str::to_owned)));
    assert_eq!(fate(task(125, 0)), known("RUNNING", Some("n2")));
    assert_eq!(fate(task(125, 7)), known("PENDING", None));
    assert_eq!(fate(task(125, 99)), known("CANCELLED", None), "Slurm keeps nothing of it");
    assert_eq!(fate(task(62, 1)), known("FAILED", Some("n1")));
    assert_eq!(fate(task(62, 3)), known("CANCELLED", None), "the list is not cut there");
    assert_eq!(fate(task(62, 510)), known("PENDING", None), "it may be behind the cut");
    assert_eq!(fate(9_999.into()), None);
    assert_eq!(fate(task(9_999, 1)), None);
}

#[test]
fn a_list_of_tasks_is_read_as_slurm_writes_it() {
    use sched_slurm::rest::jobs::tasks;
    assert_eq!(tasks("2-4,7%1"), (vec![2, 3, 4, 7], false));
    assert_eq!(tasks("0-8:4"), (vec![0, 4, 8], false));
    assert_eq!(tasks("0,2,4,5..."), (vec![0, 2, 4], true), "5 may be 51");
    assert_eq!(tasks("0-..."), (vec![], true));
    assert_eq!((tasks("").0.len(), tasks("0-4294967295").0.len()), (0, 4_000_001));
}

#[test]
fn an_answer_is_a_refusal_only_if_slurm_has_refused() {
    let refused = |why: &str| Err(CallError::Refused(why.to_owned()));
    type Case = (fn(&Asked) -> Reply, Result<u64, CallError>);
    let cases: Vec<Case> = vec![
        (
            |_| errors(500, 2014, "Requested node configuration is not available"),
            refused("Requested node configuration is not available"),
        ),
        (|_| errors(500, -1, "Unspecified error"), refused("Unspecified error")), // as a plugin of the site refuses
        (|_| Reply::Says(400, "Unable to parse query.".to_owned()), refused("Unable to parse query.")),
        (
            |_| errors(500, 11, "Resource temporarily unavailable"),
            Err(CallError::Full("Resource temporarily unavailable".to_owned())),
        ),
        (
            |_| errors(500, 1800, "Unable to contact slurm controller (connect failure)"),
            Err(CallError::Unanswered("Unable to contact slurm controller (connect failure)".to_owned())),
        ),
        (
            |_| errors(500, 1007, "Protocol authentication error"),
            Err(CallError::Unanswered("Protocol authentication error".to_owned())),
        ),
        // It is accepted, and Slurm adds a remark.
        (
            |_| says(r#"{"errors": [{"error_code": 2068, "error": "Required node not available"}], "job_id": 64}"#),
            Ok(64),
        ),
    ];
    for (reply, expected) in cases {
        assert_eq!(submit(&Server::new(reply)), expected);
    }
    for (status, text) in [(401, "Authentication failure"), (404, "?"), (502, "<html>Bad Gateway"), (500, "")] {
        let server = Server::new(move |_| Reply::Says(status, text.to_owned()));
        let error = submit(&server).unwrap_err();
        assert!(matches!(error, CallError::Unanswered(_)), "{status}: {error:?}");
        assert!(error.to_string().contains(&status.to_string()) && !error.to_string().contains(TOKEN), "{error}");
    }
}

#[test]
fn a_question_is_never_refused() {
    for status in [200, 400, 500] {
        let server = Server::new(move |_| {
            let problem = json!({"description": "Failed while looking for jobs", "error_number": -1, "error": "Unspecified error"});
            Reply::Says(status, json!({"errors": [problem], "jobs": []}).to_string())
        });
        let hint = "if slurmctld runs, the token in SLURM_JWT may have expired";
        let why = CallError::Unanswered(format!("Failed while looking for jobs; {hint}"));
        assert_eq!(server.rest().queue(), Err(why.clone()));
        assert_eq!(server.rest().fate(1.into()), Err(why));
    }
}

#[test]
fn an_answer_that_is_cut_is_none() {
    let half = || JOBS[..JOBS.len() / 2].to_owned();
    type Case = (&'static str, fn(String) -> Reply);
    let replies: [Case; 4] = [
        ("shorter than its length", |text| Reply::Cut(200, text)),
        ("no JSON", |text| Reply::Says(200, text)),
        ("nothing", |_| Reply::Closes),
        ("another answer", |_| says("{}")),
    ];
    for (what, reply) in replies {
        let server = Server::new(move |_| reply(half()));
        let error = server.rest().queue().unwrap_err();
        assert!(matches!(&error, CallError::Unanswered(why) if why.contains("is broken")), "{what}: {error:?}");
        assert!(matches!(submit(&server), Err(CallError::Unanswered(_))), "{what}");
    }
}

#[test]
fn a_server_that_says_nothing_or_too_slowly_costs_the_time_limit() {
    for reply in [|| Reply::Silent, || Reply::Drips(JOBS.to_owned())] {
        let server = Server::new(move |_| reply());
        let began = Instant::now();
        let error = server.rest().queue().unwrap_err();
        assert!(matches!(&error, CallError::Unanswered(why) if why.contains("within 500ms")), "{error:?}");
        assert!(began.elapsed() < Duration::from_secs(5));
    }
}

#[test]
fn a_socket_that_is_not_there_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let address = format!("unix:{}/none.sock", folder.path().display());
    let error = Rest::new(&address, credentials("film"), &[]).unwrap().partitions().unwrap_err();
    assert!(matches!(error, CallError::Unanswered(_)), "{error:?}");
    assert!(error.to_string().starts_with(&format!("slurmrestd at {address} cannot be reached: ")), "{error}");
}

#[test]
fn the_newest_version_that_both_know_is_spoken_and_asked_for_once() {
    let server = Server::raw(true, |asked| match &*asked.line {
        "GET /openapi/v3" => offer(&["v0.0.36", "v0.0.37", "v0.0.39"]),
        _ => says(r#"{"errors": [], "jobs": []}"#),
    });
    let rest = server.rest();
    assert_eq!((rest.queue(), rest.queue()), (Ok(Vec::new()), Ok(Vec::new())));
    let lines: Vec<String> = server.asked().into_iter().map(|asked| asked.line).collect();
    assert_eq!(lines, ["GET /openapi/v3", "GET /slurm/v0.0.37/jobs", "GET /slurm/v0.0.37/jobs"]);
    let server = Server::raw(false, |_| offer(&["v0.0.41", "v0.0.42"]));
    let error = server.rest().partitions().unwrap_err();
    assert!(matches!(&error, CallError::Refused(why) if why.contains("offers v0.0.41, v0.0.42 ")), "{error:?}");
}

#[test]
fn a_cancellation_asks_for_each_job_and_what_is_gone_is_none() {
    let server = Server::new(|asked| match &*asked.line {
        "DELETE /slurm/v0.0.38/job/2" => Reply::Says(
            500,
            json!({"errors": [{"error_number": 2017, "error": "Invalid job id specified"}]}).to_string(),
        ),
        "DELETE /slurm/v0.0.38/job/3_4" => errors(500, 2002, "Access/permission denied"),
        "DELETE /slurm/v0.0.38/job/9" => errors(500, 1800, "Unable to contact slurm controller (connect failure)"),
        _ => says(r#"{"errors": []}"#),
    });
    let rest = server.rest();
    assert_eq!(rest.cancel(&[1.into(), 2.into()], false), Ok(()));
    let denied = Err(CallError::Refused("Access/permission denied".to_owned()));
    assert_eq!(rest.cancel(&[task(3, 4), 5.into()], true), denied, "and the others are cancelled");
    assert!(matches!(rest.cancel(&[9.into(), 5.into()], false), Err(CallError::Unanswered(_))));
    let path = |id| format!("DELETE /slurm/v0.0.38/job/{id}");
    assert_eq!(server.lines(), ["1", "2", "3_4", "5", "9"].map(path));
}

#[test]
fn jobs_are_held_and_their_processes_stopped_one_by_one() {
    let held = r#"{"errors": [{"description": "job array update from x failed", "source": "_parse_job_list"}]}"#;
    let server = Server::new(move |asked| match &*asked.line {
        "POST /slurm/v0.0.38/job/7" => errors(500, 2017, "Invalid job id specified"),
        _ => says(held), // so it says that it has done it, for a task
    });
    let rest = server.rest();
    assert_eq!(rest.hold(&[7.into(), task(125, 5)], true), Ok(()), "what is gone needs none");
    assert_eq!(rest.freeze(&[task(125, 0), task(125, 1)], true), Ok(()));
    assert_eq!(rest.freeze(&[task(125, 0)], false), Ok(()));
    let path = |what: &str| what.replace("JOB", "/slurm/v0.0.38/job/");
    assert_eq!(
        server.lines(),
        [
            "POST JOB7",
            "POST JOB125_5",
            "DELETE JOB125_0?signal=SIGSTOP",
            "DELETE JOB125_1?signal=SIGSTOP",
            "DELETE JOB125_0?signal=SIGCONT"
        ]
        .map(path)
    );
    assert_eq!(server.asked()[1].body, Some(json!({"hold": true})));
}

#[test]
fn partitions_have_what_their_nodes_have() {
    let server = Server::new(|asked| match &*asked.line {
        "GET /slurm/v0.0.38/nodes" => says(include_str!("answers/nodes.json")),
        _ => says(include_str!("answers/partitions.json")),
    });
    let main = |gres: &str| Partition { name: "main".to_owned(), gres: gres.to_owned() };
    assert_eq!(server.rest().partitions().unwrap(), [main(""), main("gpu:fake:2,vram:16K")]);
    let mut site = Site { partition: Some("gpu".to_owned()), ..Site::default() };
    let error = sched_slurm::check(&server.rest(), &mut site).unwrap_err();
    assert_eq!(error, SlurmError::NoPartition { name: "gpu".to_owned(), known: vec!["main".to_owned()] });
}

#[test]
fn who_asks_is_known_before_anything_is_asked_and_a_token_is_never_shown() {
    let new = |address: &str, user: Option<&str>, token: Option<&str>| {
        let credentials = Credentials { user: user.map(str::to_owned), token: token.map(str::to_owned) };
        assert!(!format!("{credentials:?}").contains(TOKEN));
        Rest::new(address, credentials, &[])
    };
    let rest = new("http://head", Some("film"), Some(TOKEN)).unwrap();
    assert!(!format!("{rest:?}").contains(TOKEN), "{rest:?}");
    let is_no_user = |rest: Result<Rest, SlurmError>| matches!(rest, Err(SlurmError::NoUser { .. }));
    assert!(is_no_user(new("http://head:6820", Some("film"), None)));
    assert!(is_no_user(new("http://head:6820", None, Some(TOKEN))));
    assert!(is_no_user(new("unix:/rest.sock", None, Some(TOKEN))));
    let server = Server::new(accepted);
    let rest = Rest::new(&server.address, credentials("a\nb"), &[]).unwrap();
    let error = rest.queue().unwrap_err();
    assert!(error.to_string().contains("characters") && !error.to_string().contains(TOKEN), "{error}");
}

#[test]
fn an_address_is_of_a_socket_or_of_a_host() {
    use sched_slurm::Location;
    let place = |text: &str| text.parse::<Location>().map(|place| place.to_string());
    for (text, shown) in [
        ("unix:/run/rest.sock", "unix:/run/rest.sock"),
        ("http://head", "http://head:6820"),
        ("http://head:80/", "http://head:80"),
        ("http://[::1]", "http://[::1]:6820"),
        ("http://[::1]:80", "http://[::1]:80"),
    ] {
        assert_eq!(place(text).as_deref(), Ok(shown));
    }
    for text in [
        "",
        "unix:rest.sock",
        "https://head",
        "http://",
        "http://:80",
        "http://me:secret@head",
        "http://head/slurm",
        "http://head:port",
        "http://he ad",
    ] {
        assert!(place(text).is_err(), "{text}");
    }
}
