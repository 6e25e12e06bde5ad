//! `bursar policy`: files that are checked and explained, and a service that publishes them.

use std::fs;
use std::time::Duration;

use bursar::policy::{Hint, Machine, PolicyClient, PolicyOptions, ServiceState};
use rustix::process::Signal;
use serde_json::Value;
use test_support::until;

use crate::run_site::{Site, Started};
use crate::{complains, json_lines, says};

/// Far longer than anything takes that happens at all.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// A policy that can be told from others by the weight of its default.
pub(crate) fn weighing(weight: u32) -> String {
    format!("[profile.normal]\nweight = {weight}\n[profile.batch]\nweight = 1\n[hints]\nbatch = \"batch\"\n")
}

/// A folder with a policy file.
pub(crate) fn site(policy: &str) -> Site {
    let site = Site::new("");
    fs::write(site.path("policy.toml"), policy).unwrap();
    site
}

/// A service that listens.
pub(crate) fn serve(site: &Site) -> Started {
    let started = site.start("policy serve policy.toml --socket policy.sock");
    started.until_it_says("programs listen at");
    started
}

/// A program that listens to it, for a machine of two CPUs.
pub(crate) fn client(site: &Site) -> PolicyClient {
    let options = PolicyOptions::new().name("tester").machine(Machine::new(2));
    PolicyClient::connect_with(site.path("policy.sock"), options).unwrap()
}

fn example() -> String {
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/policy.toml").to_owned()
}

fn status(site: &Site) -> Value {
    serde_json::from_str(&says(&site.bursar("policy status --socket policy.sock --json"))).unwrap()
}

fn log(site: &Site) -> Vec<Value> {
    json_lines(&says(&site.bursar("policy log --socket policy.sock --json")))
}

#[test]
fn the_example_is_right_and_explained() {
    let site = Site::new("");
    let checked = says(&site.bursar(&format!("policy check {} --cpus 2", example())));
    assert!(checked.ends_with("5 profiles, 2 with reserved time; 5 hints; 4 rules; default `normal`\n"), "{checked}");
    let explained = says(&site.bursar(&format!("policy explain {} --for service:mixer-1 --cpus 2", example())));
    for part in [
        "service:mixer-1 gets profile `audio`: rule 1, service = \"mixer-*\" (",
        "policy.toml:42:1)",
        "weight     4096: 4.00 times a normal task; beside one, 80.00 % of a CPU",
        "slice      750 µs at a time (latency sensitive)",
        "reserved   300 µs in every 5 ms, within 2 ms: 6.00 % of a CPU; when it is spent, it continues with its weight; criticality 5",
        "CPUs       any",
        "admission  taken on a machine of 2 CPUs",
    ] {
        assert!(explained.contains(part), "`{part}` is missing from:\n{explained}");
    }
    let hint = says(&site.bursar(&format!("policy explain {} --hint agent --json", example())));
    let hint: Value = serde_json::from_str(&hint).unwrap();
    assert_eq!(
        (&hint["profile"], &hint["weight"], &hint["share_percent"]),
        (&"background".into(), &256.into(), &20.0.into())
    );
    assert_eq!(hint["admitted"], true);
    let default = says(&site.bursar(&format!("policy explain {} --for anything", example())));
    assert!(
        default.starts_with("anything gets profile `normal`: no rule matches, so it is the default\n"),
        "{default}"
    );
}

#[test]
fn what_a_machine_cannot_promise_is_explained_and_not_served() {
    let site = site("[profile.a]\nbudget = '9ms'\nperiod = '10ms'\n[profile.b]\nbudget = '9ms'\nperiod = '10ms'\n");
    let explained = says(&site.bursar("policy explain policy.toml --for b --cpus 1"));
    let why = "admission  refused on a machine of 1 CPU, 5 % of each kept for housekeeping:\n             policy: b needs 9 ms in every 10 ms; CPU 0 has 500 µs left";
    assert!(explained.contains(why), "{explained}");
    assert!(says(&site.bursar("policy explain policy.toml --for a --cpus 1")).contains("admission  taken on"));
    for command in ["policy check policy.toml --cpus 1", "policy serve policy.toml --socket policy.sock --cpus 1"] {
        let said = complains(&site.bursar(command), 3);
        assert!(said.contains("policy: b needs 9 ms") && said.contains("policy.toml has 1 problem"), "{said}");
    }
    assert!(!site.path("policy.sock").exists());
}

#[test]
fn all_problems_are_shown_at_once_with_their_lines_and_warnings_are_no_problems() {
    let site = site("[profile.a]\nwieght = 5\nslice = '1s'\n[[rule]]\nservice = 'x'\nprofile = 'y'\n");
    let said = complains(&site.bursar("policy check policy.toml"), 3);
    for part in [
        "did you mean `weight`?",
        "slice is 1 s, but the limit is 100 ms",
        "names the profile `y`",
        "has 3 problems",
        "──",
    ] {
        assert!(said.contains(part), "`{part}` is missing from:\n{said}");
    }
    let checked = site.bursar("policy check policy.toml --json");
    assert_eq!(checked.status.code(), Some(3));
    let checked: Value = serde_json::from_slice(&checked.stdout).unwrap();
    assert_eq!((checked["ok"].as_bool(), checked["problems"][1]["line"].as_u64()), (Some(false), Some(3)));
    fs::write(site.path("policy.toml"), "[profile.unused]\n").unwrap();
    let said = says(&site.bursar("policy check policy.toml"));
    assert!(said.starts_with("warning: policy.toml:1:10: nothing leads to profile `unused`"), "{said}");
}

#[test]
fn a_question_is_about_a_hint_or_a_name() {
    let site = site("");
    let said = complains(&site.bursar("policy explain policy.toml --hint quick"), 2);
    assert!(
        said.contains("`quick` is not a hint; write one of latency-sensitive, batch, driver, poller, agent"),
        "{said}"
    );
    complains(&site.bursar("policy explain policy.toml"), 2);
    complains(&site.bursar("policy explain policy.toml --hint batch --for x"), 2);
}

#[test]
fn programs_get_every_change_of_the_file_and_no_mistake_in_it() {
    let site = site(&weighing(300));
    let service = serve(&site);
    let client = client(&site);
    let policy = client.handle();
    let takes = |weight: u32| until(LONG, "the next epoch", || policy.profile("x").weight == weight);
    takes(300);
    assert_eq!(policy.hint(Hint::Batch).weight, 1);
    assert_eq!(client.status().service, ServiceState::Alive);

    fs::write(site.path("policy.toml"), weighing(301)).unwrap();
    takes(301);
    assert_eq!(policy.epoch().number(), 2);

    fs::write(site.path("new.toml"), weighing(302)).unwrap();
    fs::rename(site.path("new.toml"), site.path("policy.toml")).unwrap(); // as editors do
    takes(302);

    fs::write(site.path("policy.toml"), weighing(0)).unwrap();
    service.until_it_says("the file has 1 problem; epoch 3 stays in force");
    assert!(service.said().contains("`weight` is 0, but the minimum is 1"), "{}", service.said());
    let told = status(&site);
    assert_eq!((told["epoch"].as_u64(), told["listeners"].as_u64()), (Some(3), Some(1)));
    assert!(told["problem"].as_str().unwrap().contains("`weight` is 0"), "{told}");

    fs::remove_file(site.path("policy.toml")).unwrap();
    service.until_it_says("cannot be read");
    let made = std::process::Command::new("mkfifo").arg(site.path("policy.toml")).status();
    assert!(made.unwrap().success());
    service.until_it_says("is not a regular file"); // to read it would be to wait for a writer
    fs::remove_file(site.path("policy.toml")).unwrap();
    fs::write(site.path("policy.toml"), format!("# again\n{}", weighing(302))).unwrap();
    until(LONG, "the problem is over", || status(&site)["problem"].is_null());
    assert_eq!(policy.epoch().number(), 3, "the same policy is the same epoch");
    fs::write(site.path("policy.toml"), weighing(303)).unwrap();
    takes(303);
    assert_eq!((policy.epoch().number(), policy.profile("x").weight), (4, 303));

    until(LONG, "the program has reported", || status(&site)["programs"][0]["epoch"] == 4);
    let told = says(&site.bursar("policy status --socket policy.sock"));
    assert!(told.contains("epoch 4 for") && told.contains("1 program listening") && told.contains("tester"), "{told}");
    let said: Vec<(String, String)> = log(&site)
        .iter()
        .map(|record| (record["who"].as_str().unwrap().into(), record["verdict"].as_str().unwrap().into()))
        .collect();
    let of = |who: &str, verdict: &str| said.iter().filter(|(by, is)| by == who && is == verdict).count();
    assert_eq!((of("service", "accepted"), of("tester", "accepted")), (4, 4), "{said:?}");
    assert!(of("service", "refused") >= 2, "{said:?}");

    service.signal(Signal::TERM);
    let (code, said) = service.wait();
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("policy: ended; programs continue with epoch 4"), "{said}");
    assert!(!site.path("policy.sock").exists());
    until(LONG, "the service is gone", || client.status().service == ServiceState::Gone);
    assert_eq!(policy.profile("x").weight, 303);
}

#[test]
fn the_socket_is_the_owners_alone_and_has_one_service() {
    use std::os::unix::fs::PermissionsExt;
    let site = site(&weighing(300));
    let service = site.start("policy serve policy.toml");
    service.until_it_says("programs listen at");
    let socket = site.state_dir().join("policy/control.sock");
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&socket), mode(socket.parent().unwrap())), (0o600, 0o700));
    let said = complains(&site.bursar("policy serve policy.toml"), 1);
    assert!(said.contains("is in use by another process"), "{said}");
    assert!(says(&site.bursar("policy status")).contains("0 programs listening"));
    service.signal(Signal::INT);
    assert_eq!(service.wait().0, Some(130));
}

#[test]
fn without_a_service_status_and_log_say_what_to_do() {
    let site = site("");
    for command in ["policy status --socket policy.sock", "policy log --socket policy.sock"] {
        let said = complains(&site.bursar(command), 4);
        assert!(said.contains("start one with `bursar policy serve FILE`"), "{said}");
    }
}

#[test]
fn numbers_of_epochs_continue_where_they_are_told_to() {
    let site = site(&weighing(300));
    let service = site.start("policy serve policy.toml --socket policy.sock --after 41");
    service.until_it_says("epoch 42: ");
    service.signal(Signal::TERM);
    assert_eq!(service.wait().0, Some(0));
    let service = serve(&site);
    assert!(service.said().contains("epoch 43: "), "{}", service.said());
    service.kill();
    let said = complains(&site.bursar("policy serve policy.toml --socket policy.sock --after 9223372036854775807"), 2);
    assert!(said.contains("is too large"), "{said}");
}
