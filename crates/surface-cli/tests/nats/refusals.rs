//! What is wrong with a broker: one line, an exit code of its own, and nothing was started.

use test_support::Broker;

use crate::site::Site;

const FLOW: &str = r#"
[part.here]
nodes = ["numbers"]
[part.there]
nodes = ["out"]
[node.numbers]
kind = "numbers"
to = 10
[node.out]
kind = "write"
path = "out.txt"
[[edge]]
from = "numbers"
to = "out"
over = "OVER/numbers"
"#;

/// Runs both parts: each is refused, in one line with `part` in it.
fn refused(site: &Site, part: &str) {
    for run in ["flow run flow.toml --part there", "flow run flow.toml --part here", "flow run flow.toml"] {
        let mut command = site.command(run);
        let output = command.env("NATS_USER", "robot").env("NATS_PASSWORD", "wrong-secret").output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(8), "{said}");
        assert!(said.contains(part) && said.lines().count() == 1, "{said}");
        assert!(!said.contains("secret"), "{said}");
        assert!(!site.path("out.txt").exists(), "nothing was started");
    }
}

#[test]
fn a_broker_that_is_away() {
    let Some(mut broker) = Broker::start() else { return };
    broker.kill();
    refused(&Site::new(broker, FLOW), "no broker answers at nats://127.0.0.1:");
}

#[test]
fn a_wrong_password() {
    let config = "jetstream { store_dir: \"STORE\" }\nauthorization { user: robot, password: hunter2 }\n";
    let Some(broker) = Broker::with(config) else { return };
    let site = Site::new(broker, FLOW);
    refused(&site, "refuses user `robot`");
    let mut command = site.command("flow run flow.toml");
    let right = command.env("NATS_USER", "robot").env("NATS_PASSWORD", "hunter2").output().unwrap();
    assert!(right.status.success(), "{}", String::from_utf8_lossy(&right.stderr));
    assert_eq!(site.lines("out.txt"), 10);
}

#[test]
fn a_login_that_may_not_send_or_not_acknowledge() {
    for (denied, part, other) in [("numbers", "here", "there"), ("$JS.ACK.>", "there", "here")] {
        let config = format!(
            "jetstream {{ store_dir: \"STORE\" }}\nauthorization {{ users: [ {{ user: robot, password: hunter2, \
             permissions: {{ publish: {{ deny: \"{denied}\" }} }} }} ] }}\n"
        );
        let Some(broker) = Broker::with(&config) else { return };
        let site = Site::new(broker, FLOW);
        let run = |part: &str| {
            let mut command = site.command(&format!("flow run flow.toml --for 1s --part {part}"));
            command.env("NATS_USER", "robot").env("NATS_PASSWORD", "hunter2").output().unwrap()
        };
        let output = run(part);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(8), "{said}");
        assert!(said.contains("does not permit user `robot`") && said.lines().count() == 1, "{said}");
        assert!(!site.path("out.txt").exists(), "nothing was started");
        assert_ne!(run(other).status.code(), Some(8), "the other end needs it not");
    }
}

#[test]
fn a_broker_without_jetstream() {
    let Some(broker) = Broker::with("") else { return };
    refused(&Site::new(broker, FLOW), "has no JetStream");
}

#[test]
fn a_broker_without_room() {
    let Some(broker) = Broker::with("jetstream { store_dir: \"STORE\", max_file_store: 1MB }\n") else { return };
    refused(&Site::new(broker, FLOW), "does not make a stream of 256 MiB");
}

#[test]
fn a_part_that_is_not_there() {
    let Some(broker) = Broker::start() else { return };
    let output = Site::new(broker, FLOW).output("flow run flow.toml --part nowhere");
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(4), "{said}");
    assert!(said.contains("there is no part `nowhere`; the file has here, there"), "{said}");
}
