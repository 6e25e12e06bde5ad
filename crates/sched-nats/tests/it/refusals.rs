//! What a broker refuses, each in one line.

use sched_nats::{Edge, Login, NatsError};
use test_support::Broker;

fn edge(broker: &Broker) -> Edge {
    Edge::new(broker.address("numbers").parse().unwrap())
}

#[test]
fn a_broker_that_is_not_there_is_named() {
    let edge = Edge::new("nats://127.0.0.1:1/x".parse().unwrap());
    let error = edge.check().unwrap_err();
    assert!(matches!(error, NatsError::Unreachable { .. }), "{error:?}");
    assert!(error.to_string().starts_with("no broker answers at nats://127.0.0.1:1: Connection refused"), "{error}");
}

#[test]
fn a_wrong_password_is_refused_and_never_shown() {
    let config = "jetstream { store_dir: \"STORE\" }\nauthorization { user: robot, password: hunter2 }\n";
    let Some(broker) = Broker::with(config) else { return };
    edge(&broker).login(Login::default().user("robot", "hunter2")).check().unwrap();
    for (login, said) in [
        (Login::default().user("robot", "wrong-secret"), "user `robot`"),
        (Login::default().token("wrong-secret"), "a token"),
        (Login::default(), "no login"),
    ] {
        let error = edge(&broker).login(login).check().unwrap_err();
        assert!(matches!(error, NatsError::Refused { .. }), "{error:?}");
        let text = format!("{error} {error:?}");
        assert!(text.contains(said) && !text.contains("secret"), "{text}");
    }
}

#[test]
fn a_token_opens_the_door() {
    let config = "jetstream { store_dir: \"STORE\" }\nauthorization { token: open-sesame }\n";
    let Some(broker) = Broker::with(config) else { return };
    edge(&broker).login(Login::default().token("open-sesame")).check().unwrap();
    assert!(matches!(edge(&broker).check(), Err(NatsError::Refused { .. })));
}

#[test]
fn a_broker_without_jetstream_is_refused() {
    let Some(broker) = Broker::with("") else { return };
    let error = edge(&broker).check().unwrap_err();
    assert!(matches!(error, NatsError::NoJetStream { .. }), "{error:?}");
}

#[test]
fn a_stream_that_does_not_fit_is_refused() {
    let Some(broker) = Broker::with("jetstream { store_dir: \"STORE\", max_file_store: 4MB }\n") else { return };
    let error = edge(&broker).at_the_broker(64 << 20).check().unwrap_err();
    assert!(matches!(error, NatsError::NoStream { .. }), "{error:?}");
    assert!(error.to_string().contains("64 MiB"), "{error}");
    edge(&broker).at_the_broker(2 << 20).check().unwrap();
}
