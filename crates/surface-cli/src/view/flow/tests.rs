//! Frames as a terminal of any size gets them.
//!
//! Room: tests.

use console::measure_text_width;

use super::frame::{FrameContext, frame};
use super::lines::{Ended, last_line, plain, plain_error};
use super::rates::Rates;
use crate::control::{EdgeLine, FlowLine, NodeLine};
use crate::view::paint::Paint;
use crate::view::printer::Shown;

fn edge(id: &str, depth: usize, capacity: usize) -> EdgeLine {
    EdgeLine {
        id: id.into(),
        depth,
        capacity,
        band: "normal".into(),
        policy: "block".into(),
        delivered: 1000,
        ..EdgeLine::default()
    }
}

fn node(id: &str) -> NodeLine {
    NodeLine {
        id: id.into(),
        state: "running".into(),
        messages: 1000,
        busy_us: 500_000,
        p50_us: 1.2,
        p99_us: 340.0,
        ..NodeLine::default()
    }
}

fn sensors() -> FlowLine {
    let mut full = edge("imu:out->slow:in", 640, 640);
    full.blocked = true;
    let mut latest = edge("slow:out->log:in", 3, 8);
    (latest.policy, latest.replaced, latest.band) = ("latest".into(), 12_034, "high".into());
    let mut bad = node("log");
    (bad.errors, bad.last_error) = (3, Some("the disk\nis full".into()));
    let (edges, nodes) = (vec![full, latest], vec![node("imu"), node("slow"), bad]);
    FlowLine {
        flow: "f-7f3a".into(),
        name: "sensors".into(),
        pid: 1,
        elapsed_ms: 10_000,
        nodes,
        edges,
        links: Vec::new(),
    }
}

fn context(width: usize, height: usize) -> FrameContext {
    let shown = Shown { selected: Some(1), ..Shown::default() };
    FrameContext { shown, width, height, paint: Paint(false) }
}

#[test]
fn a_frame_shows_depth_rate_loss_latency_and_errors() {
    let flow = sensors();
    let lines = frame(&flow, &Rates::of_all(&flow), &context(120, 24));
    let expected = " EDGE              BAND    POLICY  WAITING           RATE/S  DELIVERED
 imu:out->slow:in  normal  block   ████████ 640/640     100      1,000                   ■ blocked
▸slow:out->log:in  high    latest  ███░░░░░     3/8     100      1,000  12,034 replaced

 NODE  STATE    MSG/S     P50     P99  BUSY  ERRORS
 imu   running    100  1.2 µs  340 µs   5 %
 slow  running    100  1.2 µs  340 µs   5 %
 log   running    100  1.2 µs  340 µs   5 %       3  the disk\u{fffd}is full
 f-7f3a sensors · 10 s · 200 msg/s · 2,000 delivered · 3 errors · load 15 % · k kill · q stop · ? keys";
    assert_eq!(lines.join("\n"), expected);
}

#[test]
fn where_there_is_little_room_ports_and_less_important_columns_go() {
    let flow = sensors();
    let lines = frame(&flow, &Rates::of_all(&flow), &context(50, 24));
    assert_eq!(lines[1], " imu->slow  ████████ 640/640     100  ■ blocked");
    assert_eq!(lines[4], " NODE  STATE    MSG/S     P99  BUSY  ERRORS");
}

#[test]
fn a_frame_is_never_larger_than_the_terminal_and_always_shows_the_selected_edge() {
    let mut flow = sensors();
    flow.edges = (0..60).map(|at| edge(&format!("node-{at}:out->node-{}:in", at + 1), at, 64)).collect();
    flow.nodes = (0..61).map(|at| node(&format!("node-{at}"))).collect();
    let rates = Rates::of_all(&flow);
    for height in 2..70 {
        for width in [1, 20, 33, 50, 80, 200] {
            for selected in [0, 30, 59] {
                let shown = Shown { selected: Some(selected), shows_keys: height % 2 == 0, ..Shown::default() };
                let context = FrameContext { shown, ..context(width, height) };
                let lines = frame(&flow, &rates, &context);
                let what = format!("{width} x {height}, {selected} selected: {lines:#?}");
                assert!(lines.len() <= height, "{} lines; {what}", lines.len());
                assert!(lines.iter().all(|line| measure_text_width(line) <= width), "{what}");
                if height > 12 && width >= 20 {
                    assert!(lines.iter().any(|line| line.starts_with('▸')), "{what}");
                }
            }
        }
    }
}

#[test]
fn lines_say_what_moves_what_is_full_and_what_failed() {
    let flow = sensors();
    assert_eq!(
        plain(&flow, &Rates::of_all(&flow)),
        "   10.000  200 msg/s · 2,000 delivered · 12,034 replaced · full: imu:out->slow:in 640/640"
    );
    let at = std::time::Duration::from_millis(2101);
    assert_eq!(plain_error(at, "parse", "no number", 1), "    2.101  error     parse: no number (1 error)");
    assert_eq!(
        last_line(&Ended::Killed, &flow),
        "sensors: killed after 10 s · 2,000 messages delivered, 12,034 replaced by newer, 643 left behind, 3 errors"
    );
}
