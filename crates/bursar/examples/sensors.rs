//! A sensor pipeline with a live table of its edges and a kill switch: `cargo run -p bursar --example sensors`.
//!
//! Three seconds of it. The log is slow and gets the newest samples only; statistics get all of them; the kill switch goes through
//! a control edge, before everything that waits.

use std::io::{IsTerminal, Write};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;

use bursar::channel;
use bursar::flow::{
    Control, EdgeStats, Flow, Graph, Handle, Policy, Span, filter, from_channel, map, sink, sliding_window, source,
    throttle,
};

/// What the sensor measures.
#[derive(Debug, Clone, Copy)]
struct Sample {
    at: u64,
    g: f64,
}

/// A wave with some noise on it.
fn reader() -> impl FnMut() -> Option<Sample> {
    let mut at = 0u64;
    move || {
        at += 1;
        let noise = (at.wrapping_mul(2_654_435_761) % 1000) as f64 / 1000.0 - 0.5;
        Some(Sample { at, g: (at as f64 / 40.0).sin() + noise * 0.6 })
    }
}

fn keep_highest(highest: &Arc<Mutex<f64>>) -> impl FnMut(f64) + use<> {
    let highest = Arc::clone(highest);
    move |g| {
        let mut highest = highest.lock().unwrap_or_else(PoisonError::into_inner);
        *highest = highest.max(g);
    }
}

/// Stands in for a slow disk.
fn write_row(mut to: impl Write) -> impl FnMut(Sample) {
    move |Sample { at, g }| {
        let _ = writeln!(to, "{at},{g}");
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (kill, kill_switch) = channel(1);

    let mut g = Graph::new("sensors");
    let imu = g.add("imu", source(reader()).tick(Duration::from_millis(2)));
    let smooth = g.add("smooth", sliding_window::<Sample>(Span::Count(8), Span::Count(1)));
    let mean =
        g.add("mean", map(|samples: Vec<Sample>| samples.iter().map(|s| s.g).sum::<f64>() / samples.len() as f64));
    let peak = g.add("peak", filter(|g: &f64| *g > 0.9));
    let highest = Arc::new(Mutex::new(0.0_f64));
    let alarm = g.add("alarm", sink(keep_highest(&highest)));
    let log = g.add("log", throttle::<Sample>(20.0, 1));
    let disk = g.add("disk", sink(write_row(std::io::sink())));
    let switch = g.add("kill", from_channel(kill_switch));

    g.connect(imu.out("out"), smooth.input("in")).capacity(256);
    g.connect(smooth.out("out"), mean.input("in")).capacity(64);
    g.connect(mean.out("out"), peak.input("in")).capacity(64);
    g.connect(peak.out("out"), alarm.input("in")).capacity(64).priority(10);
    g.connect(imu.out("out"), log.input("in")).capacity(16).policy(Policy::Latest);
    g.connect(log.out("out"), disk.input("in")).capacity(64);
    g.connect(switch.out("out"), imu.input("control")).control(); // always gets through

    let flow = Flow::new(g)?;
    let handle = flow.handle();
    let (over, is_over) = mpsc::channel::<()>();
    let screen = std::thread::spawn(move || watch(&handle, &is_over));
    let switch = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_secs(3));
        let _ = kill.send(Control::Stop); // the source ends, and with it the flow
    });
    let ended = flow.run()?;
    drop(over);
    let _ = (screen.join(), switch.join());
    let imu = ended.stats.node("imu").ok_or("there is an imu")?;
    let highest = *highest.lock().unwrap_or_else(PoisonError::into_inner);
    println!("{} samples, the highest mean {highest:.2} g; everything delivered: {}", imu.emitted, ended.drained);
    Ok(())
}

/// Prints a table of the edges ten times a second, over the last one where there is a terminal, until the flow is over.
fn watch(handle: &Handle, is_over: &mpsc::Receiver<()>) {
    let is_terminal = std::io::stdout().is_terminal();
    let pause = Duration::from_millis(if is_terminal { 100 } else { 1000 });
    let mut drawn = 0;
    loop {
        let ends = is_over.recv_timeout(pause) != Err(mpsc::RecvTimeoutError::Timeout);
        let stats = handle.stats();
        let mut text = if is_terminal && drawn > 0 { format!("\x1b[{drawn}A\x1b[J") } else { String::new() };
        text.push_str(&format!("{:<22} {:<18} {:>9} {:>8}\n", "edge", "waiting", "delivered", "lost"));
        stats.edges.iter().for_each(|edge| text.push_str(&row(edge)));
        drawn = stats.edges.len() + 1;
        let _ = std::io::stdout().write_all(text.as_bytes());
        if ends {
            return;
        }
    }
}

fn row(edge: &EdgeStats) -> String {
    let full = (edge.depth * 8).div_ceil(edge.capacity);
    let bar = format!("{}{}", "█".repeat(full), "░".repeat(8 - full.min(8)));
    let (waiting, lost) = (format!("{}/{}", edge.depth, edge.capacity), edge.dropped + edge.replaced);
    format!("{:<22} {bar} {waiting:<9} {:>9} {lost:>8}\n", edge.id, edge.delivered)
}
