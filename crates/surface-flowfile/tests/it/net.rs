//! Lines over TCP.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use surface_flowfile::build::{Hooks, flow};

use crate::plan;
use crate::run::{run_builder, run_plan};

/// An address that is free now.
fn free_address() -> String {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}

/// Connects as soon as a server listens.
fn connect(address: &str) -> TcpStream {
    let start = Instant::now();
    loop {
        match TcpStream::connect(address) {
            Ok(stream) => return stream,
            Err(error) => assert!(start.elapsed() < Duration::from_secs(20), "{error}"),
        }
        std::thread::yield_now();
    }
}

#[test]
fn lines_of_several_connections_come_in() {
    let address = free_address();
    let text = format!(
        "edges = ['a -> f -> s', 'a -> z']\n[node.a]\nkind = 'tcp-in'\nlisten = '{address}'\n[node.f]\nkind = 'filter'\nequals = 'end'\n\
         [node.s]\nkind = 'stop'\n[node.z]\nkind = 'print'"
    );
    let (sender, reported) = mpsc::channel();
    let hooks = Hooks::default().print(move |line| {
        let _ = sender.send(line.trim_end().to_owned());
        Ok(())
    });
    let mut lines = Vec::new();
    let builder = flow(&plan(&text), &hooks).unwrap();
    run_builder(builder, |_| {
        let mut one = connect(&address);
        let mut two = connect(&address);
        one.write_all(b"one\nuno").unwrap();
        two.write_all(b"two\r\n").unwrap();
        drop(one); // its last line has no end
        lines.extend((0..3).map(|_| reported.recv_timeout(Duration::from_secs(20)).unwrap()));
        two.write_all(b"end\n").unwrap();
    })
    .unwrap();
    lines.extend(reported.try_iter());
    lines.sort();
    assert_eq!(lines, ["end", "one", "two", "uno"]);
}

#[test]
fn lines_are_sent_also_if_no_server_listens_yet() {
    let address = free_address();
    let text = format!(
        "edges = ['a -> z']\n[node.a]\nkind = 'numbers'\nto = 1000\n[node.z]\nkind = 'tcp-out'\nconnect = '{address}'\nformat = 'json'"
    );
    let (_, ended) = run_plan(&plan(&text), |_| {
        std::thread::sleep(Duration::from_millis(60));
        let listener = TcpListener::bind(&address).unwrap();
        let (stream, _) = listener.accept().unwrap();
        let lines: Vec<String> = BufReader::new(stream).lines().map(Result::unwrap).collect();
        assert_eq!(lines, (1..=1000).map(|n| n.to_string()).collect::<Vec<_>>());
    });
    assert!(ended.drained);
}

#[test]
fn an_address_that_is_taken_is_an_error_of_the_node() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let text = format!("edges = ['a -> z']\n[node.a]\nkind = 'tcp-in'\nlisten = '{address}'\n[node.z]\nkind = 'print'");
    let (_, ended) = run_plan(&plan(&text), |_| ());
    let error = ended.stats.nodes[0].last_error.clone().unwrap();
    assert!(error.starts_with(&format!("cannot listen at {address}: ")), "{error}");
}

#[test]
fn junk_of_one_client_does_not_stop_the_lines_of_others() {
    const JUNK: usize = 300;
    let address = free_address();
    let text = format!(
        "edges = ['a -> z']\n[node.a]\nkind = 'tcp-in'\nlisten = '{address}'\nformat = 'json'\n[node.z]\nkind = 'print'"
    );
    let (sender, reported) = mpsc::channel();
    let hooks = Hooks::default().print(move |line| {
        let _ = sender.send(line.trim_end().to_owned());
        Ok(())
    });
    let builder = flow(&plan(&text), &hooks).unwrap();
    let ended = run_builder(builder, |handle| {
        let (mut junk, mut good) = (connect(&address), connect(&address));
        junk.write_all("no json\n".repeat(JUNK).as_bytes()).unwrap();
        good.write_all(b"1\n2\n3\n").unwrap();
        // With a pause after each, as for a source that fails, this would take five minutes.
        let lines: Vec<_> = (0..3).map(|_| reported.recv_timeout(Duration::from_secs(20)).unwrap()).collect();
        assert_eq!(lines, ["1", "2", "3"]);
        drop((junk, good));
        while handle.stats().node("a").unwrap().errors < JUNK as u64 {
            std::thread::yield_now();
        }
        handle.stop_now();
    })
    .unwrap();
    assert_eq!(ended.stats.node("a").unwrap().errors, JUNK as u64);
}
