//! A picture of tiles. Each tile belongs to whoever renders it, and remembers who that was.

use std::fmt::Write;

/// Pixels along the side of a tile.
const SIDE: usize = 4;
/// More of these would not be seen.
const STEPS_MAX: u32 = 400;
/// Samples along the side of a pixel.
const SAMPLES: usize = 2;

/// Eight colours a worker, from dim to bright, of the 256 that terminals have.
const RAMPS: [[u8; 8]; 4] = [
    [17, 18, 19, 26, 32, 38, 44, 123],
    [52, 88, 130, 166, 172, 178, 220, 229],
    [22, 23, 28, 29, 34, 40, 82, 157],
    [53, 54, 89, 90, 126, 163, 200, 219],
];
const BLACK: u8 = 16;
const LETTERS: &[u8; 8] = b" .:-=+*#";

#[derive(Clone)]
pub(crate) struct Tile {
    /// Which one, row by row.
    index: usize,
    /// How soon each pixel's point escapes, as a shade; none if it never does.
    shades: [[Option<u8>; SIDE]; SIDE],
    worker: usize,
}

#[derive(Clone)]
pub(crate) struct Canvas {
    pub(crate) tiles: Vec<Tile>,
    tiles_across: usize,
}

/// Which part of the plane is looked at.
#[derive(Clone, Copy)]
pub(crate) struct View {
    pub(crate) centre: (f64, f64),
    /// Half the height of what is seen.
    pub(crate) radius: f64,
}

impl Canvas {
    /// A picture for so many columns and lines of text; a line shows two rows of pixels.
    pub(crate) fn new(columns: usize, lines: usize) -> Self {
        let (across, down) = ((columns / SIDE).max(1), (lines * 2 / SIDE).max(1));
        let tile = |index| Tile { index, shades: [[None; SIDE]; SIDE], worker: 0 };
        Self { tiles: (0..across * down).map(tile).collect(), tiles_across: across }
    }

    pub(crate) fn grid(&self) -> Grid {
        let height = self.tiles.len() / self.tiles_across * SIDE;
        Grid { tiles_across: self.tiles_across, width: self.tiles_across * SIDE, height }
    }

    fn pixel(&self, x: usize, y: usize) -> (Option<u8>, usize) {
        let tile = &self.tiles[y / SIDE * self.tiles_across + x / SIDE];
        (tile.shades[y % SIDE][x % SIDE], tile.worker)
    }

    /// As text: two pixels a letter, coloured by worker; or one letter for two pixels, without colours.
    pub(crate) fn paint(&self, colours: bool) -> String {
        let Grid { width, height, .. } = self.grid();
        let mut text = String::with_capacity(width * height * 12);
        for y in (0..height).step_by(2) {
            text.push_str("    ");
            for x in 0..width {
                let (upper, lower) = (self.pixel(x, y), self.pixel(x, y + 1));
                if colours {
                    let _ = write!(text, "\x1b[38;5;{}m\x1b[48;5;{}m▀", colour(upper), colour(lower));
                } else {
                    text.push(upper.0.map_or(' ', |shade| char::from(LETTERS[usize::from(shade)])));
                }
            }
            text.push_str(if colours { "\x1b[0m\n" } else { "\n" });
        }
        text.pop();
        text
    }
}

fn colour((shade, worker): (Option<u8>, usize)) -> u8 {
    shade.map_or(BLACK, |shade| RAMPS[worker % RAMPS.len()][usize::from(shade)])
}

/// Where tiles are.
#[derive(Clone, Copy)]
pub(crate) struct Grid {
    tiles_across: usize,
    width: usize,
    height: usize,
}

impl Tile {
    /// Calculates this tile's part of the Mandelbrot set.
    pub(crate) fn render(&mut self, grid: Grid, view: View, worker: usize) {
        self.worker = worker;
        let (left, top) = (self.index % grid.tiles_across * SIDE, self.index / grid.tiles_across * SIDE);
        let scale = 2.0 * view.radius / grid.height as f64;
        let at = |place: usize, sample: usize, extent: usize| {
            (place as f64 + (sample as f64 + 0.5) / SAMPLES as f64 - extent as f64 / 2.0) * scale
        };
        for (y, row) in self.shades.iter_mut().enumerate() {
            for (x, shade) in row.iter_mut().enumerate() {
                let (mut sum, mut inside) = (0.0, 0);
                for sample in 0..SAMPLES * SAMPLES {
                    let re = view.centre.0 + at(left + x, sample % SAMPLES, grid.width);
                    let im = view.centre.1 + at(top + y, sample / SAMPLES, grid.height);
                    match steps_to_escape(re, im) {
                        Some(steps) => sum += f64::from(steps + 1).ln(),
                        None => inside += 1,
                    }
                }
                let escaped = SAMPLES * SAMPLES - inside;
                // Logarithms: near the edge every zoom adds a few steps.
                let bright = sum / escaped.max(1) as f64 * 1.35;
                *shade = (escaped >= inside).then_some(bright.clamp(0.0, 7.0) as u8);
            }
        }
    }
}

fn steps_to_escape(re: f64, im: f64) -> Option<u32> {
    let (mut x, mut y) = (0.0, 0.0);
    for step in 0..STEPS_MAX {
        let (xx, yy) = (x * x, y * y);
        if xx + yy > 4.0 {
            return Some(step);
        }
        y = 2.0 * x * y + im;
        x = xx - yy + re;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_origin_stays_and_the_far_point_leaves() {
        assert_eq!(steps_to_escape(0.0, 0.0), None);
        assert_eq!(steps_to_escape(3.0, 0.0), Some(1));
    }

    #[test]
    fn a_picture_has_the_lines_it_was_given() {
        let mut canvas = Canvas::new(40, 10);
        let (grid, view) = (canvas.grid(), View { centre: (-0.5, 0.0), radius: 1.2 });
        canvas.tiles.iter_mut().for_each(|tile| tile.render(grid, view, 1));
        let plain = canvas.paint(false);
        assert_eq!(plain.lines().count(), 10);
        assert!(plain.lines().all(|line| line.len() == 44), "{plain}");
        assert!(canvas.paint(true).contains("\x1b[38;5;"));
    }
}
