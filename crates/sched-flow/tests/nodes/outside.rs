//! Nodes over files, JSON and TCP.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    path::PathBuf,
    time::Duration,
};

use sched_flow::{
    DeadLetter, Harness, NotUtf8, OnError, Retry, json_in, json_out, lines_in, lines_out, tcp_in, tcp_in_on, tcp_out,
};

use crate::MS;

/// A file of its own for each test, gone afterwards.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        Self(std::env::temp_dir().join(format!("bursar-flow-{name}-{}", std::process::id())))
    }

    fn text(&self) -> String {
        fs::read_to_string(&self.0).unwrap()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

fn text(line: &str) -> String {
    line.to_owned()
}

#[test]
fn a_file_is_read_line_by_line_and_bad_lines_are_reported() {
    let file = Scratch::new("in");
    fs::write(&file.0, b"one\r\ntwo\n\xff\nfar too long\nlast").unwrap();
    let mut node = Harness::new(lines_in(&file.0).longest_line(5));
    assert_eq!(node.collect::<String>("out", usize::MAX), ["one", "two", "last"]);
    let errors = node.errors();
    assert!(errors[0].starts_with("line 3 is no UTF-8 text"), "{errors:?}");
    assert_eq!(errors[1], "line 4 is longer than 5 bytes and was skipped; allow more with `longest_line`");
}

#[test]
fn a_file_that_is_larger_than_any_buffer_comes_whole() {
    let file = Scratch::new("large");
    let lines: Vec<String> = (0..20_000).map(|x| format!("line number {x}")).collect();
    fs::write(&file.0, lines.join("\n")).unwrap();
    let mut node = Harness::new(lines_in(&file.0));
    assert_eq!(node.collect::<String>("out", usize::MAX), lines);
}

#[test]
fn a_file_that_is_not_there_is_an_error_and_the_end() {
    let mut node = Harness::new(lines_in("/nowhere/at all"));
    assert!(node.collect::<String>("out", usize::MAX).is_empty());
    assert!(node.errors()[0].contains("/nowhere/at all"), "{:?}", node.errors());
    assert_eq!(node.errors().len(), 1);
}

#[test]
fn a_file_is_followed_as_it_grows_and_when_it_begins_anew() {
    let file = Scratch::new("follow");
    fs::write(&file.0, "one\ntw").unwrap();
    let mut node = Harness::new(lines_in(&file.0).follow(MS));
    assert_eq!(node.collect::<String>("out", 1), ["one"]);
    fs::OpenOptions::new().append(true).open(&file.0).unwrap().write_all(b"o\nthree\n").unwrap();
    assert_eq!(node.collect::<String>("out", 2), ["two", "three"]);
    fs::write(&file.0, "new\n").unwrap();
    assert_eq!(node.collect::<String>("out", 1), ["new"]);
    node.stop();
}

#[test]
fn a_file_that_is_followed_and_written_anew_at_greater_length_is_read_from_its_beginning() {
    let file = Scratch::new("anew");
    fs::write(&file.0, "one\ntwo\n").unwrap();
    let mut node = Harness::new(lines_in(&file.0).follow(MS));
    assert_eq!(node.collect::<String>("out", 2), ["one", "two"]);
    // In one step, so that no look sees it shorter.
    let mut writer = fs::OpenOptions::new().write(true).open(&file.0).unwrap();
    writer.write_all(b"quite another\nand another\n").unwrap();
    assert_eq!(node.collect::<String>("out", 2), ["quite another", "and another"]);
    node.stop();
}

#[test]
fn a_file_that_is_written_anew_between_any_two_looks_gives_whole_lines() {
    let file = Scratch::new("anew-often");
    let line = |round: usize| format!("{round}: {}", round.to_string().repeat(round));
    fs::write(&file.0, line(0) + "\n").unwrap();
    let mut node = Harness::new(lines_in(&file.0).follow(Duration::from_nanos(1)));
    assert_eq!(node.collect::<String>("out", 1), [line(0)]);
    for round in 1..1_000 {
        // In one step, and longer each time.
        let mut writer = fs::OpenOptions::new().write(true).open(&file.0).unwrap();
        writer.write_all((line(round) + "\n").as_bytes()).unwrap();
        assert_eq!(node.collect::<String>("out", 1), [line(round)]);
    }
    node.stop();
}

#[test]
fn a_file_that_is_rotated_is_read_to_its_end_and_then_the_one_in_its_place() {
    let file = Scratch::new("rotate");
    let old = Scratch::new("rotated");
    fs::write(&file.0, "one\n").unwrap();
    let mut node = Harness::new(lines_in(&file.0).follow(MS));
    assert_eq!(node.collect::<String>("out", 1), ["one"]);
    let mut writer = fs::OpenOptions::new().append(true).open(&file.0).unwrap();
    fs::rename(&file.0, &old.0).unwrap();
    // For a while there is no file of that name, and the writer goes on with the old one.
    writer.write_all(b"two\nthr").unwrap();
    assert_eq!(node.collect::<String>("out", 1), ["two"]);
    writer.write_all(b"ee\n").unwrap();
    // In one step, longer than what was read of the old one.
    let new = Scratch::new("next");
    fs::write(&new.0, "four, which is longer than all that was read before\nfive\n").unwrap();
    fs::rename(&new.0, &file.0).unwrap();
    let expected = ["three", "four, which is longer than all that was read before", "five"];
    assert_eq!(node.collect::<String>("out", 3), expected);
    node.stop();
}

#[test]
fn a_renamed_file_is_read_on_beside_the_one_in_its_place_and_no_line_is_cut_in_two() {
    let file = Scratch::new("read-on");
    fs::write(&file.0, "one\n").unwrap();
    let mut node = Harness::new(lines_in(&file.0).follow(MS));
    assert_eq!(node.collect::<String>("out", 1), ["one"]);
    let mut writers = Vec::new();
    let mut renamed = Vec::new();
    for round in 0..3 {
        let mut writer = fs::OpenOptions::new().append(true).open(&file.0).unwrap();
        writer.write_all(b"whole\nhal").unwrap();
        assert_eq!(node.collect::<String>("out", 1), ["whole"]);
        renamed.push(Scratch::new(&format!("read-on-{round}")));
        fs::rename(&file.0, &renamed[round].0).unwrap();
        fs::write(&file.0, "").unwrap();
        fs::write(&file.0, format!("new {round}\n")).unwrap();
        assert_eq!(
            node.collect::<String>("out", 1),
            [format!("new {round}")],
            "nothing of the half line comes before it is whole"
        );
        writers.push(writer);
    }
    for (round, mut writer) in writers.into_iter().enumerate() {
        writer.write_all(format!("f-done {round}\nlate\n").as_bytes()).unwrap();
        assert_eq!(node.collect::<String>("out", 2), [format!("half-done {round}"), text("late")]);
    }
    node.stop();
}

#[test]
fn a_file_that_gets_its_name_back_is_not_read_twice() {
    let (file, aside) = (Scratch::new("back"), Scratch::new("aside"));
    fs::write(&file.0, "one\n").unwrap();
    let mut node = Harness::new(lines_in(&file.0).follow(MS));
    assert_eq!(node.collect::<String>("out", 1), ["one"]);
    fs::rename(&file.0, &aside.0).unwrap();
    fs::write(&file.0, "two\n").unwrap();
    assert_eq!(node.collect::<String>("out", 1), ["two"]);
    fs::rename(&aside.0, &file.0).unwrap();
    fs::OpenOptions::new().append(true).open(&file.0).unwrap().write_all(b"three\n").unwrap();
    assert_eq!(node.collect::<String>("out", 1), ["three"]);
    node.stop();
}

#[test]
fn a_file_can_be_followed_from_its_end_on() {
    let file = Scratch::new("from-end");
    fs::write(&file.0, "old\n").unwrap();
    let mut node = Harness::new(lines_in(&file.0).follow(MS).from_end());
    // The first line that is emitted was written after the start; before that, the node may not have started yet.
    let mut writer = fs::OpenOptions::new().append(true).open(&file.0).unwrap();
    let path = file.0.clone();
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    let writes = std::thread::spawn(move || {
        while stopped.try_recv() == Err(std::sync::mpsc::TryRecvError::Empty) && path.exists() {
            writer.write_all(b"new\n").unwrap();
            std::thread::yield_now();
        }
    });
    assert_eq!(node.collect::<String>("out", 1)[0], "new");
    drop(stop);
    writes.join().unwrap();
    node.stop();
}

#[test]
fn lines_are_texts_replaced_texts_bytes_or_what_is_made_of_them() {
    let file = Scratch::new("utf8");
    fs::write(&file.0, b"a\n\xffb\nc\n").unwrap();
    let mut strict = Harness::new(lines_in(&file.0).spec().on_error(OnError::DeadLetter));
    assert_eq!(strict.collect::<String>("out", usize::MAX), ["a", "c"]);
    assert_eq!(strict.take::<DeadLetter<Vec<u8>>>("dead")[0].payload, b"\xffb");
    let mut replaced = Harness::new(lines_in(&file.0).not_utf8(NotUtf8::Replace));
    assert_eq!(replaced.collect::<String>("out", usize::MAX), ["a", "\u{fffd}b", "c"]);
    let mut bytes = Harness::new(lines_in(&file.0).bytes());
    assert_eq!(bytes.collect::<Vec<u8>>("out", usize::MAX), [&b"a"[..], b"\xffb", b"c"]);
    let numbered = lines_in(&file.0).read_with(|line| Ok((line.number > 1).then_some(line.number)));
    assert_eq!(Harness::new(numbered).collect::<u64>("out", usize::MAX), [2, 3]);
    let mut folder = Harness::new(lines_in("/tmp"));
    assert!(folder.collect::<String>("out", usize::MAX).is_empty());
    assert!(folder.errors()[0].contains("/tmp cannot be read: it is no plain file"), "{:?}", folder.errors());
}

#[test]
fn lines_are_written_in_time_and_at_the_end() {
    let file = Scratch::new("out");
    fs::write(&file.0, "old\n").unwrap();
    let mut node = Harness::new(lines_out(&file.0).append().flush_after(MS * 50));
    node.send("in", text("one")).unwrap();
    assert_eq!(file.text(), "old\n");
    node.advance(MS * 50);
    assert_eq!(file.text(), "old\none\n");
    node.send("in", text("two")).unwrap();
    node.end();
    assert_eq!(file.text(), "old\none\ntwo\n");

    let mut node = Harness::new(lines_out(&file.0));
    let long = "x".repeat(40 << 10);
    for _ in 0..3 {
        node.send("in", long.clone()).unwrap();
    }
    assert!(file.text().len() > 64 << 10, "much is written at once, and what was there is gone");
    node.stop();
    assert_eq!(file.text(), format!("{long}\n").repeat(3));
}

#[test]
fn a_disk_that_says_no_fails_the_message_that_was_not_taken() {
    let node = lines_out("/dev/full").flush_after(MS * 10).spec().on_error(OnError::DeadLetter);
    let mut node = Harness::new(node);
    node.send("in", "x".repeat(64 << 10)).unwrap();
    assert!(node.errors().is_empty(), "it waits in the buffer");
    node.send("in", text("y")).unwrap();
    assert_eq!(node.take::<DeadLetter<String>>("dead")[0].payload, "y");
    node.advance(MS * 10);
    assert_eq!(node.errors().len(), 2, "it is tried again: {:?}", node.errors());

    let mut node = Harness::new(lines_out("/nowhere/at all"));
    assert!(node.errors()[0].contains("/nowhere/at all"));
    assert!(node.is_stopped(), "a node whose start failed is stopped");
    assert!(node.send("in", text("y")).is_err());
    assert_eq!(node.errors().len(), 1);
}

#[test]
fn json_goes_in_and_out() {
    let mut node = Harness::new(json_in::<(u32, String)>());
    node.send("in", text("[1, \"a\"]")).unwrap();
    node.send("in", text("[1, 2]")).unwrap();
    node.send("in", "[".repeat(100_000)).unwrap();
    assert_eq!(node.take::<(u32, String)>("out"), [(1, text("a"))]);
    assert_eq!(node.errors().len(), 2);
    let mut node = Harness::new(json_out::<(u32, String)>());
    node.send("in", (1u32, text("a\nb"))).unwrap();
    assert_eq!(node.take::<String>("out"), ["[1,\"a\\nb\"]"]);
}

fn listen() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

#[test]
fn lines_of_all_connections_are_heard_with_their_peers() {
    let (listener, address) = listen();
    let mut node = Harness::new(tcp_in_on(listener).with_peers());
    let mut one = TcpStream::connect(address).unwrap();
    let mut two = TcpStream::connect(address).unwrap();
    one.write_all(b"a\nb").unwrap();
    assert_eq!(node.collect::<(SocketAddr, String)>("out", 1), [(one.local_addr().unwrap(), text("a"))]);
    two.write_all(b"c\r\n").unwrap();
    assert_eq!(node.collect::<(SocketAddr, String)>("out", 1), [(two.local_addr().unwrap(), text("c"))]);
    one.shutdown(Shutdown::Write).unwrap();
    assert_eq!(node.collect::<(SocketAddr, String)>("out", 1)[0].1, "b", "the end of a connection ends its line");
    node.stop();
    assert_eq!(two.read(&mut [0]).unwrap_or(0), 0, "a stopped node has hung up");
}

#[test]
fn a_line_that_is_too_long_costs_neither_memory_nor_the_connection() {
    let (listener, address) = listen();
    let mut node = Harness::new(tcp_in_on(listener).longest_line(10));
    let mut peer = TcpStream::connect(address).unwrap();
    peer.write_all(&[b'x'; 100_000]).unwrap();
    peer.write_all(b"\nshort\n").unwrap();
    assert_eq!(node.collect::<String>("out", 1), ["short"]);
    let errors = node.errors();
    assert_eq!(errors.len(), 1);
    assert!(errors[0].contains("line 1 is longer than 10 bytes"), "{errors:?}");
}

#[test]
fn a_connection_above_the_limit_waits_for_a_permit() {
    let (listener, address) = listen();
    let mut node = Harness::new(tcp_in_on(listener).connections(1));
    let mut one = TcpStream::connect(address).unwrap();
    let mut two = TcpStream::connect(address).unwrap();
    two.write_all(b"second\n").unwrap();
    one.write_all(b"first\n").unwrap();
    assert_eq!(node.collect::<String>("out", 1), ["first"]);
    drop(one);
    assert_eq!(node.collect::<String>("out", 1), ["second"]);
}

#[test]
fn an_address_that_is_taken_is_an_error() {
    let (_listener, address) = listen();
    let mut node = Harness::new(tcp_in(address.to_string()));
    assert!(node.collect::<String>("out", usize::MAX).is_empty());
    let errors = node.errors();
    assert!(errors[0].starts_with(&format!("cannot listen at {address}")), "{errors:?}");
}

#[test]
fn lines_go_out_in_order_and_the_end_hangs_up() {
    let (listener, address) = listen();
    let mut node = Harness::new(tcp_out(address.to_string()));
    for x in 0..500 {
        node.send("in", x.to_string()).unwrap();
    }
    node.end();
    let mut got = String::new();
    listener.accept().unwrap().0.read_to_string(&mut got).unwrap();
    assert_eq!(got.lines().map(|line| line.parse::<u32>().unwrap()).collect::<Vec<_>>(), (0..500).collect::<Vec<_>>());
    while !node.is_ended() {
        node.woken();
    }
    assert!(node.errors().is_empty());
}

#[test]
fn a_broken_connection_is_made_again_and_what_was_not_sent_is() {
    let (listener, address) = listen();
    let mut node = Harness::new(tcp_out(address.to_string()).reconnect(Retry::times(1000).backoff(MS).at_most(MS)));
    node.send("in", text("first")).unwrap();
    let (first, _) = listener.accept().unwrap();
    let mut line = String::new();
    BufReader::new(&first).read_line(&mut line).unwrap();
    assert_eq!(line, "first\n");
    drop(first);
    // What is written to a connection whose peer is gone is lost with it. The system reports that soon; after that, nothing is lost.
    listener.set_nonblocking(true).unwrap();
    let mut sent = 0;
    let second = loop {
        node.send("in", sent.to_string()).unwrap();
        sent += 1;
        match listener.accept() {
            Ok((stream, _)) => break stream,
            Err(_) => std::thread::sleep(Duration::from_millis(1)),
        }
    };
    second.set_nonblocking(false).unwrap();
    node.end();
    let lines = BufReader::new(second).lines().map(|line| line.unwrap().parse::<u32>().unwrap());
    let got: Vec<u32> = lines.collect();
    assert!(!got.is_empty());
    assert_eq!(got, (got[0]..sent).collect::<Vec<_>>(), "from the first that could not be sent on, all of them");
}

#[test]
fn a_peer_that_never_answers_is_given_up_if_set_so() {
    let (listener, address) = listen();
    drop(listener);
    let mut node = Harness::new(tcp_out(address.to_string()).reconnect(Retry::times(2).backoff(MS)));
    node.send("in", text("hello?")).unwrap();
    node.woken();
    let errors = node.errors();
    assert!(errors[0].starts_with(&format!("cannot send to {address} after 3 tries")), "{errors:?}");
    node.end();
    assert!(node.is_ended());
}
