//! Act 1: a tree of tasks renders a picture that belongs to its root.

use std::{
    sync::{Mutex, PoisonError},
    time::Instant,
};

use bursar::{TaskError, checkpoint, nursery};
use serde::Serialize;

use super::{
    canvas::{Canvas, Grid, Tile, View},
    stage::{Stage, WorkerBars, grouped},
};

/// A valley of sea horses.
const TARGET: (f64, f64) = (-0.743_643_887_037_151, 0.131_825_904_205_330);
const START: (f64, f64) = (-0.6, 0.0);
/// How fast the view closes in, in powers of e.
const ZOOM_PER_ACT: f64 = 5.5;

#[derive(Debug, Serialize)]
pub(crate) struct Tree {
    pub(crate) frames: u64,
    pub(crate) tasks: u64,
    pub(crate) stolen: u64,
    pub(crate) seconds: f64,
}

pub(crate) fn act(stage: &Stage<'_>) -> Result<Option<Tree>, TaskError> {
    let (columns, lines) = stage.show.size();
    let workers = WorkerBars::lines(stage.runtime.workers());
    let about = if stage.show.has_colours() {
        "Each half borrows its part of the parent's picture. A colour is the worker that rendered it."
    } else {
        "Each half borrows its part of the parent's picture; whoever is idle steals one."
    };
    if !stage.announce(1, "A tree of tasks zooms into the Mandelbrot set", about) {
        return Ok(None);
    }
    let columns = if stage.show.is_live() { columns.saturating_sub(8).clamp(8, 76) } else { 64 };
    let lines = if stage.show.is_live() { lines.saturating_sub(workers + 5).clamp(2, 20) } else { 16 };
    let blank = Canvas::new(columns, lines);
    let latest = Mutex::new(blank.clone());
    let length = stage.length.mul_f64(0.33);

    let before = stage.runtime.stats().total();
    let begun = Instant::now();
    let picture = stage.show.bar("{msg}", 1);
    let mut bars = WorkerBars::new(stage);
    let work = || {
        let mut frames = 0;
        while begun.elapsed() < length {
            let mut canvas = blank.clone();
            let (grid, view) = (canvas.grid(), view_at(begun.elapsed().div_duration_f64(length)));
            render(&mut canvas.tiles, grid, view)?;
            *latest.lock().unwrap_or_else(PoisonError::into_inner) = canvas;
            frames += 1;
        }
        Ok(frames)
    };
    let outcome = stage.play(work, || {
        picture.set(0, || latest.lock().unwrap_or_else(PoisonError::into_inner).paint(stage.show.has_colours()));
        bars.draw();
    });
    drop((picture, bars));
    if stage.show.is_live() {
        stage.show.say(latest.into_inner().unwrap_or_else(PoisonError::into_inner).paint(stage.show.has_colours()));
    }

    let now = stage.runtime.stats().total();
    let (tasks, stolen) = (now.executed - before.executed, now.stolen - before.stolen);
    let Some(frames) = stage.unless_stopped(outcome)? else {
        return Ok(None);
    };
    let seconds = begun.elapsed().as_secs_f64();
    stage.conclude(format!(
        "{} frames in {seconds:.1} s: {} tasks, {} of them stolen by an idle worker",
        grouped(frames),
        grouped(tasks),
        grouped(stolen)
    ));
    Ok(Some(Tree { frames, tasks, stolen, seconds }))
}

/// Halves the tiles until one is left. The halves are borrowed, and so is everything above them.
fn render(tiles: &mut [Tile], grid: Grid, view: View) -> Result<(), TaskError> {
    if let [tile] = tiles {
        checkpoint();
        tile.render(grid, view, worker());
        return Ok(());
    }
    let (left, right) = tiles.split_at_mut(tiles.len() / 2);
    nursery(|n| {
        n.try_spawn(|| render(left, grid, view));
        n.try_spawn(|| render(right, grid, view));
        Ok(())
    })
}

/// The worker this task runs on: a started task stays there, so its thread's name tells.
fn worker() -> usize {
    let thread = std::thread::current();
    thread.name().and_then(|name| name.rsplit('-').next()?.parse().ok()).unwrap_or(0)
}

fn view_at(progress: f64) -> View {
    let radius = 1.25 * (-ZOOM_PER_ACT * progress).exp();
    let drift = (progress * 6.0).min(1.0);
    let between = |from: f64, to: f64| from + (to - from) * drift;
    View { centre: (between(START.0, TARGET.0), between(START.1, TARGET.1)), radius }
}
