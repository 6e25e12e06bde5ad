//! Audio on a CPU of its own: `cargo run --release -p bursar --example audio_island`.
//!
//! An island with two tasks, 200 times a second: `capture` makes 5 ms of two voices, `mix` adds them up into what a sound card would play, and tells the loudest sample to a task of the
//! common pool, which draws a meter. Meanwhile that pool is kept busy. The table at the end says how many deadlines were missed, and what the system granted.

use std::f32::consts::TAU;
use std::io::{IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use bursar::cpu::{Context, Island, IslandError, IslandStats, Overrun};
use bursar::prelude::*;

const RATE: usize = 48_000;
const PERIOD: Duration = Duration::from_millis(5);
const FRAMES: usize = RATE / 200;
const CYCLES: u64 = 3 * 200;

/// One voice: a sine, whose phase goes on from period to period.
struct Voice {
    hertz: f32,
    phase: f32,
}

impl Voice {
    fn play(&mut self, frames: &mut [f32]) {
        for frame in frames {
            *frame = self.phase.sin();
            self.phase = (self.phase + TAU * self.hertz / RATE as f32) % TAU;
        }
    }
}

fn main() -> Result<(), TaskError> {
    // What does not come in time is of no use: a cycle that cannot be paid for is left out, and heard as a gap.
    let context = |budget| Context::budget(Duration::from_micros(budget)).period(PERIOD).on_overrun(Overrun::Throttle);
    let admitted = Island::new("audio")
        .task("capture", context(1000))
        .task_after("capture", "mix", context(500))
        .memory(64 << 10)
        .admit();
    let mut audio = match admitted {
        Err(IslandError::NotAdmitted(why)) => {
            println!("no island here: {why}");
            return Ok(());
        }
        admitted => admitted?,
    };
    let [low, high, mut played] = [audio.buffer(FRAMES)?, audio.buffer(FRAMES)?, audio.buffer::<f32>(FRAMES)?];
    let voices = &std::sync::Mutex::new([low, high]); // its two users come one after the other: it is never waited for
    let mut sources = [Voice { hertz: 220.0, phase: 0.0 }, Voice { hertz: 223.0, phase: 0.0 }];
    let (level, levels) = channel::<f32>(4);
    let over = &AtomicBool::new(false);

    let stats: IslandStats = nursery(|n| {
        n.spawn(move || draw(levels.iter()));
        for _ in 0..8 {
            n.spawn(move || {
                while !over.load(Relaxed) {
                    std::hint::black_box((0..10_000_u64).sum::<u64>());
                    yield_now();
                }
            });
        }
        let stats = audio
            .program()
            .on("capture", |_| {
                let mut voices = voices.lock().expect("no task panics");
                voices.iter_mut().zip(&mut sources).for_each(|(frames, source)| source.play(frames));
            })
            .on("mix", move |cycle| {
                let voices = voices.lock().expect("no task panics");
                for (frame, sample) in played.iter_mut().enumerate() {
                    *sample = 0.5 * (voices[0][frame] + voices[1][frame]);
                }
                let loudest = played.iter().fold(0.0, |most: f32, sample| most.max(sample.abs()));
                let _ = level.try_send(loudest); // a meter that is late misses a value, nothing else
                if cycle.number() >= CYCLES {
                    cycle.stop();
                }
            })
            .run();
        over.store(true, Relaxed);
        stats
    })?;
    println!("\n{stats}");
    Ok(())
}

/// Draws a meter, on a terminal.
fn draw(levels: impl Iterator<Item = f32>) {
    let mut out = std::io::stdout();
    for (number, level) in levels.enumerate() {
        if out.is_terminal() && number % 10 == 0 {
            let _ = write!(out, "\r{:<50}|", "#".repeat((level * 50.0) as usize)).and_then(|()| out.flush());
        }
    }
}
