//! The harness drives a node as a flow would.

use sched_flow::{
    AnyMessage, Context, DeadLetter, Harness, Header, Kind, Message, Node, NodeError, NodeResult, NodeSpec, OnError,
    Out, Ports, Produced, Retry, Schema, Stage, Time, TraceId, from_iter, map, sink, source, try_map,
};

use crate::{MS, ms};

#[test]
fn a_message_is_handled_at_once_and_keeps_its_header() {
    let mut node = Harness::new(map(|x: i32| x + 1));
    node.send("in", 1).unwrap();
    let header = Header { trace: TraceId(77), at: ms(3), kind: Kind::Data };
    node.send_message("in", Message { header, payload: 10 }).unwrap();
    let out = node.take_messages::<i32>("out");
    assert_eq!(out.iter().map(|message| message.payload).collect::<Vec<_>>(), [2, 11]);
    assert_eq!(out[1].header, header);
    assert_ne!(out[0].header.trace, TraceId::NONE);
    assert!(node.take::<i32>("out").is_empty(), "what was taken is gone");
}

#[test]
fn an_unknown_port_and_a_wrong_type_are_named() {
    let mut node = Harness::new(map(|x: i32| x));
    assert_eq!(node.send("on", 1).unwrap_err().to_string(), "the node has no input `on`; it has: `in`");
    assert_eq!(node.send("in", 1u8).unwrap_err().to_string(), "input `in` carries i32, not u8; send that");
}

#[test]
#[should_panic(expected = "the node has no output `out`; it has: none")]
fn taking_from_an_unknown_output_is_a_mistake_in_the_test() {
    Harness::new(sink(|_: i32| ())).take::<i32>("out");
}

#[test]
fn a_full_output_keeps_the_input_waiting() {
    let mut node = Harness::new(map(|x: i32| x)).output_capacity(2);
    for x in 0..5 {
        node.send("in", x).unwrap();
    }
    assert_eq!(node.waiting(), 3);
    assert_eq!(node.take::<i32>("out"), [0, 1]);
    assert_eq!(node.waiting(), 1);
    assert_eq!(node.take::<i32>("out"), [2, 3]);
    assert_eq!(node.take::<i32>("out"), [4]);
}

#[test]
fn a_failed_message_is_tried_again_at_its_time_and_then_a_dead_letter() {
    let mut tries = 0;
    let node = try_map(move |x: i32| {
        tries += 1;
        if x == 13 || tries == 1 { Err(NodeError::msg("not now")) } else { Ok(x) }
    });
    let policy = OnError::Retry(Retry::times(1).backoff(MS * 10).then(OnError::DeadLetter));
    let mut node = Harness::new(node.on_error(policy));
    node.send("in", 1).unwrap();
    node.send("in", 13).unwrap();
    node.send("in", 2).unwrap();
    assert!(node.take::<i32>("out").is_empty());
    node.advance(MS * 9);
    assert!(node.take::<i32>("out").is_empty());
    node.advance(MS);
    assert_eq!(node.take::<i32>("out"), [1]);
    node.advance(MS * 10);
    assert_eq!(node.take::<i32>("out"), [2]);
    let dead = node.take::<DeadLetter<i32>>("dead");
    assert_eq!((dead[0].payload, dead[0].tries), (13, 2));
    assert_eq!(node.errors(), ["not now"; 3]);
}

#[test]
fn a_node_that_stops_at_errors_is_stopped() {
    let mut node = Harness::new(try_map(|_: i32| Err::<i32, _>(NodeError::msg("no"))).on_error(OnError::StopNode));
    node.send("in", 1).unwrap();
    assert!(node.is_stopped());
    assert!(node.send("in", 2).is_err());
}

#[test]
fn a_schema_is_checked_on_both_sides() {
    let even = |name: &str| {
        Schema::new(name, |x: &i32| if x % 2 == 0 { Ok(()) } else { Err(format!("{x} is odd; send even ones")) })
    };
    let mut node = Harness::new(map(|x: i32| x / 2).schema("in", even("even")).schema("out", even("even")));
    assert_eq!(node.send("in", 1).unwrap_err().to_string(), "1 is odd; send even ones");
    node.send("in", 6).unwrap();
    node.send("in", 8).unwrap();
    assert_eq!(node.take::<i32>("out"), [4]);
    assert_eq!(node.errors(), ["3 is odd; send even ones"]);
}

/// Writes down when it was called.
struct Diary;

impl Stage for Diary {
    type In = u32;
    type Out = (&'static str, Time);

    fn on_start(&mut self, out: &mut Out<'_, Self::Out>) -> NodeResult {
        out.emit(("start", out.now()));
        Ok(())
    }
    fn on_message(&mut self, message: Message<u32>, out: &mut Out<'_, Self::Out>) -> NodeResult {
        out.tick_at(ms(message.payload));
        Ok(())
    }
    fn on_tick(&mut self, out: &mut Out<'_, Self::Out>) -> NodeResult {
        out.emit(("tick", out.now()));
        Ok(())
    }
    fn on_end(&mut self, out: &mut Out<'_, Self::Out>) -> NodeResult {
        out.emit(("end", out.now()));
        Ok(())
    }
    fn on_stop(&mut self, out: &mut Out<'_, Self::Out>) -> NodeResult {
        out.emit(("stop", out.now()));
        out.shutdown();
        Ok(())
    }
}

#[test]
fn ticks_come_at_their_time_and_in_order() {
    let mut node = Harness::new(NodeSpec::stage(Diary).tick(MS * 4));
    node.send("in", 7u32).unwrap();
    node.send("in", 5u32).unwrap(); // the earliest counts
    node.advance(MS * 9);
    let out = node.take::<(&str, Time)>("out");
    assert_eq!(out, [("start", ms(0)), ("tick", ms(4)), ("tick", ms(5)), ("tick", ms(8))]);
    node.end();
    assert!(node.is_ended());
    node.advance(MS * 100);
    assert_eq!(node.take::<(&str, Time)>("out"), [("end", ms(9))]);
    node.stop();
    assert!(node.asked_for_shutdown() && node.is_stopped());
}

#[test]
fn a_source_is_asked_once_and_by_its_cadence() {
    let mut node = Harness::new(from_iter([1, 2]));
    assert_eq!(node.produce().unwrap(), Produced::More);
    assert_eq!(node.take::<i32>("out"), [1]);
    assert_eq!(node.produce().unwrap(), Produced::More);
    assert_eq!(node.produce().unwrap(), Produced::End);
    assert!(node.is_ended());

    let mut count = 0;
    let counting = source(move || {
        count += 1;
        Some(count)
    });
    let mut node = Harness::new(counting.tick(MS * 2)).output_capacity(2);
    node.advance(MS * 9);
    assert_eq!(node.take::<i32>("out"), [1, 2], "a full edge holds the source back");
    node.advance(MS);
    assert_eq!(node.take::<i32>("out"), [3, 4], "the late tick comes once, with the room; the next at its time");
}

struct Two;

impl Node for Two {
    fn ports(&self, ports: &mut Ports) {
        ports.input::<i32>("number").input::<String>("word").output::<String>("out");
    }
    fn on_start(&mut self, cx: &mut Context<'_>) -> NodeResult {
        let waker = cx.waker();
        cx.spawn(move || waker.wake());
        Ok(())
    }
    fn on_message(&mut self, port: &str, message: AnyMessage<'_>, cx: &mut Context<'_>) -> NodeResult {
        let text = if port == "word" { message.take()?.payload } else { message.take::<i32>()?.payload.to_string() };
        cx.emit("out", text)
    }
    fn on_wake(&mut self, cx: &mut Context<'_>) -> NodeResult {
        cx.emit("out", "woken".to_owned())
    }
}

#[test]
fn ports_of_several_types_are_served_in_turn() {
    let mut node = Harness::new(NodeSpec::node(Two)).output_capacity(1);
    node.woken(); // by the task it started
    assert!(!node.is_woken());
    node.send("word", "a".to_owned()).unwrap();
    node.send("number", 1).unwrap();
    node.send("word", "b".to_owned()).unwrap();
    let got: Vec<String> = (0..4).flat_map(|_| node.take::<String>("out")).collect();
    assert_eq!(got, ["woken", "a", "1", "b"]);
}

#[test]
fn inputs_that_wait_are_served_in_turn_as_in_a_flow() {
    let mut node = Harness::new(NodeSpec::node(Two)).output_capacity(1);
    node.woken(); // its message fills the output
    node.send("word", "a".to_owned()).unwrap();
    node.send("word", "b".to_owned()).unwrap();
    node.send("number", 1).unwrap();
    assert_eq!(node.waiting(), 3);
    let got: Vec<String> = (0..4).flat_map(|_| node.take::<String>("out")).collect();
    assert_eq!(got, ["woken", "a", "1", "b"]);
}

#[test]
fn a_tick_that_finds_no_room_is_given_when_there_is_some() {
    let mut node = Harness::new(NodeSpec::stage(Diary)).output_capacity(1);
    node.advance(MS);
    node.tick(); // "start" fills the output
    node.advance(MS);
    assert_eq!(node.take::<(&str, Time)>("out"), [("start", ms(0))]);
    assert_eq!(node.take::<(&str, Time)>("out"), [("tick", ms(2))]);
    assert!(node.take::<(&str, Time)>("out").is_empty(), "once");
}

/// Asks for a tick at once, for ever.
struct Restless;

impl Stage for Restless {
    type In = u32;
    type Out = u32;

    fn on_message(&mut self, _message: Message<u32>, out: &mut Out<'_, u32>) -> NodeResult {
        self.on_tick(out)
    }
    fn on_tick(&mut self, out: &mut Out<'_, u32>) -> NodeResult {
        out.tick_at(out.now());
        Ok(())
    }
}

#[test]
#[should_panic(expected = "times for a tick at 1ms; ask for a later one")]
fn a_node_that_makes_time_stand_still_is_named() {
    let mut node = Harness::new(NodeSpec::stage(Restless));
    node.advance(MS);
    node.send("in", 1u32).unwrap();
    node.advance(MS);
}

/// Fails so often at its ticks and its end.
struct Fails(u32);

impl Fails {
    fn write(&mut self) -> NodeResult {
        match self.0.checked_sub(1) {
            Some(left) => {
                self.0 = left;
                Err(NodeError::msg("full").for_good())
            }
            None => Ok(()),
        }
    }
}

impl Stage for Fails {
    type In = u64;
    type Out = u64;

    fn on_message(&mut self, message: Message<u64>, out: &mut Out<'_, u64>) -> NodeResult {
        out.emit(message.payload);
        Ok(())
    }

    fn on_tick(&mut self, _out: &mut Out<'_, u64>) -> NodeResult {
        self.write()
    }

    fn on_end(&mut self, _out: &mut Out<'_, u64>) -> NodeResult {
        self.write()
    }
}

#[test]
fn a_tick_and_an_end_that_fail_are_tried_again_as_the_policy_says() {
    let node =
        |fails| Harness::new(NodeSpec::stage(Fails(fails)).on_error(OnError::Retry(Retry::times(3).backoff(MS * 10))));
    let mut ticked = node(2);
    ticked.tick();
    ticked.send("in", 1u64).unwrap();
    assert!(ticked.take::<u64>("out").is_empty(), "it backs off");
    ticked.advance(MS * 40); // 10, and then 20
    assert_eq!((ticked.take::<u64>("out"), ticked.errors().len()), (vec![1], 2));
    let mut ended = node(3);
    ended.end();
    assert!(!ended.is_ended());
    ended.advance(MS * 100);
    assert!(ended.is_ended() && !ended.is_stopped(), "{:?}", ended.errors());
    let mut gives_up = node(9);
    gives_up.end();
    gives_up.advance(MS * 100);
    assert_eq!((gives_up.errors().len(), gives_up.is_stopped()), (4, true));
}
