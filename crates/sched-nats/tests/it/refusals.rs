//! What a broker refuses, each in one line.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

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
fn a_broker_that_is_there_is_reached_without_a_pause() {
    let Some(broker) = Broker::start() else { return };
    edge(&broker).check().unwrap(); // makes the stream
    let began = Instant::now();
    (0..20).for_each(|_| edge(&broker).check().unwrap());
    // A pause before each of them would be 50 ms or more.
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
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

#[test]
fn an_encrypted_connection_needs_a_certificate_that_we_trust() {
    let folder = std::env::temp_dir().join(format!("bursar-tls-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (key, certificate) = (folder.join("key.pem"), folder.join("cert.pem"));
    let mut openssl = Command::new("openssl");
    openssl
        .args("req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=broker".split(' '));
    openssl.args(["-addext", "subjectAltName=IP:127.0.0.1", "-addext", "basicConstraints=critical,CA:FALSE"]);
    let made = openssl.arg("-keyout").arg(&key).arg("-out").arg(&certificate).stderr(Stdio::null()).status();
    if !made.is_ok_and(|made| made.success()) {
        eprintln!("NOT RUN: this test needs `openssl`, which is not installed; `apt-get install openssl`");
        return;
    }
    let files = format!("cert_file: \"{}\", key_file: \"{}\"", certificate.display(), key.display());
    let config = format!("jetstream {{ store_dir: \"STORE\" }}\ntls {{ {files} }}\n");
    let Some(broker) = Broker::with(&config) else { return };
    let edge = Edge::new(broker.address("numbers").replace("nats://", "tls://").parse().unwrap());
    edge.clone().login(Login::default().roots(&certificate)).check().unwrap();
    let error = edge.check().unwrap_err();
    assert!(matches!(error, NatsError::Tls { .. }), "{error:?}");
    let error = edge.login(Login::default().roots(folder.join("none.pem"))).check().unwrap_err();
    assert!(error.to_string().contains("none.pem cannot be read") && error.to_string().contains("NATS_CA"), "{error}");
    let _ = std::fs::remove_dir_all(&folder);
}

#[test]
fn a_file_of_credentials_that_is_none_is_named_and_not_shown() {
    let Some(broker) = Broker::start() else { return };
    let file = broker.folder().join("robot.creds");
    std::fs::write(&file, "hunter2").unwrap();
    let error = edge(&broker).login(Login::default().credentials(&file)).check().unwrap_err();
    assert!(matches!(error, NatsError::BadLogin { .. }), "{error:?}");
    let text = error.to_string();
    assert!(text.contains("robot.creds") && !text.contains("hunter2"), "{text}");
}

#[test]
fn a_broker_without_tls_is_said_to_have_none() {
    let Some(broker) = Broker::start() else { return };
    let edge = Edge::new(broker.address("numbers").replace("nats://", "tls://").parse().unwrap());
    let error = edge.check().unwrap_err();
    assert!(matches!(error, NatsError::NotTls { .. }), "{error:?}");
    assert!(error.to_string().contains("write `nats://`"), "{error}");
}
