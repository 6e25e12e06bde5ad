//! A table that is never wider than the terminal.
//!
//! Room: surface.
//!
//! Pure: no clock, no file, no thread.
//!
//! # Invariant
//! No line is wider than `width`, whatever is in the cells.
//!
//! # Why it holds
//! Columns are left out, the least important first, until the rest fits beside a first column of some width; what is still too wide is cut.

use console::{Alignment, measure_text_width, pad_str, truncate_str};

use super::paint::Paint;

/// The first column names the row; before it is narrower than this, others are left out.
const FIRST_LEAST: usize = 22;
const GAP: usize = 2;

/// A column. Cells may be coloured.
pub(crate) struct Column {
    pub(crate) title: &'static str,
    pub(crate) cells: Vec<String>,
    pub(crate) right: bool,
    /// The column with the lowest value is left out first.
    pub(crate) worth: u8,
}

impl Column {
    pub(crate) fn left(title: &'static str, worth: u8, cells: Vec<String>) -> Column {
        Column { title, cells, right: false, worth }
    }

    pub(crate) fn right(title: &'static str, worth: u8, cells: Vec<String>) -> Column {
        Column { title, cells, right: true, worth }
    }

    /// An empty column takes no room.
    fn is_empty(&self) -> bool {
        self.cells.iter().all(String::is_empty)
    }

    fn width(&self) -> usize {
        let cells = self.cells.iter().map(|cell| measure_text_width(cell)).max().unwrap_or(0);
        cells.max(measure_text_width(self.title))
    }
}

/// The width that columns would like to have together.
pub(crate) fn wanted(columns: &[Column]) -> usize {
    columns.iter().map(|column| column.width() + GAP).sum::<usize>().saturating_sub(GAP)
}

/// A line of titles, and one for each row.
pub(crate) fn fit(mut columns: Vec<Column>, width: usize, paint: Paint) -> Vec<String> {
    let mut at = 0;
    columns.retain(|column| {
        at += 1;
        at == 1 || !column.is_empty()
    });
    while columns.len() > 1 {
        let rest = wanted(&columns) - columns[0].width();
        if rest + columns[0].width().min(FIRST_LEAST) <= width {
            break;
        }
        let least = (1..columns.len()).min_by_key(|at| columns[*at].worth).unwrap_or(1);
        columns.remove(least);
    }
    let mut widths: Vec<usize> = columns.iter().map(Column::width).collect();
    let over = wanted(&columns).saturating_sub(width);
    if let Some(first) = widths.first_mut() {
        *first = first.saturating_sub(over).max(1);
    }
    let rows = columns.first().map_or(0, |column| column.cells.len());
    let line = |cell: &dyn Fn(&Column) -> String| {
        let mut line = String::new();
        for (column, width) in columns.iter().zip(&widths) {
            let side = if column.right { Alignment::Right } else { Alignment::Left };
            line.push_str(&pad_str(&cell(column), *width, side, Some("…")));
            line.push_str("  ");
        }
        truncate_str(line.trim_end(), width.max(1), "…").into_owned()
    };
    let mut lines = vec![paint.dim(&line(&|column| column.title.to_owned()))];
    lines.extend((0..rows).map(|row| line(&|column| column.cells.get(row).cloned().unwrap_or_default())));
    lines
}

#[cfg(test)]
mod tests {
    use console::measure_text_width;

    use super::{Column, fit};
    use crate::view::paint::Paint;

    fn columns() -> Vec<Column> {
        let cells = |text: &str| vec![text.to_owned(), "x".to_owned()];
        vec![
            Column::left("EDGE", 9, cells("imu:out->a-filter-with-a-name:in")),
            Column::left("BAND", 1, cells("\x1b[31mnormal\x1b[0m")),
            Column::right("RATE/S", 8, cells("200")),
            Column::left("NOTE", 2, vec![String::new(); 2]),
        ]
    }

    #[test]
    fn what_fits_is_shown_and_what_is_empty_is_not() {
        let lines = fit(columns(), 80, Paint(false));
        assert_eq!(lines[0], "EDGE                              BAND    RATE/S");
        assert!(lines[1].ends_with("200"), "{lines:?}");
    }

    #[test]
    fn the_least_worth_goes_first_and_no_line_is_too_wide() {
        assert_eq!(fit(columns(), 32, Paint(false))[0], "EDGE                      RATE/S");
        for width in 1..100 {
            let lines = fit(columns(), width, Paint(true));
            assert_eq!(lines.len(), 3);
            assert!(lines.iter().all(|line| measure_text_width(line) <= width), "{width}: {lines:?}");
        }
    }
}
