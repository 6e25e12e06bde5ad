//! Who ran where, as text: a line for each CPU, a letter for each section of the file.
//!
//! Room: surface.

use console::Style;
use surface_simfile::{Nanos, Options as Run, Plan, Policy, Report};
use surface_text::amounts::latency;

use super::rows::sections;

/// Columns of the timeline.
const COLUMNS: u64 = 100;
/// CPUs that are shown.
const CPUS: usize = 16;

/// The letter of a section; beyond 52 they are alike.
fn letter(section: usize) -> char {
    ('a'..='z').chain('A'..='Z').nth(section).unwrap_or('?')
}

/// Colours of a terminal that are easy to tell apart.
const COLOURS: [u8; 8] = [39, 208, 77, 205, 220, 141, 51, 167];

fn painted(section: usize) -> String {
    let colour = COLOURS[section % COLOURS.len()];
    Style::new().color256(colour).apply_to(letter(section)).to_string()
}

/// The timelines of all policies, and what the letters mean.
pub(super) fn text(plan: &Plan, run: &Run, runs: &[(Policy, Report)]) -> String {
    let width = run.window.end - run.window.start;
    let column = width.div_ceil(COLUMNS).max(1);
    let span = |time: Nanos| latency(time as f64 / 1e3);
    let from = if run.window.start == 0 { "0".to_owned() } else { span(run.window.start) };
    let mut text = format!("Timeline {from} to {}, {} a column", span(run.window.end), span(column));
    let names = plan.threads.iter().enumerate();
    let legend: Vec<String> =
        names.map(|(section, thread)| format!("{} {}", painted(section), thread.name)).take(52).collect();
    text += &format!(": {}, · idle\n", legend.join(", "));
    let labels = runs.iter().map(|(policy, _)| if runs.len() == 1 { "" } else { policy.name() });
    for (label, (_, report)) in labels.zip(runs) {
        for (cpu, line) in lines(plan, run, report, column).into_iter().take(CPUS).enumerate() {
            let drawn: String = line.into_iter().map(|cell| cell.map_or_else(|| "·".to_owned(), painted)).collect();
            text += format!("{label:5} CPU {cpu:<3} {drawn}\n").trim_start();
        }
        if report.cpus.len() > CPUS {
            text += &format!("and {} more CPUs, which --svg shows\n", report.cpus.len() - CPUS);
        }
    }
    text
}

/// For each CPU and column the section that ran longest there, if that was longer than idle.
fn lines(plan: &Plan, run: &Run, report: &Report, column: Nanos) -> Vec<Vec<Option<usize>>> {
    let count = (run.window.end - run.window.start).div_ceil(column) as usize;
    let (sections, width) = (sections(plan), plan.threads.len());
    let mut ran = vec![vec![vec![0; width]; count]; report.cpus.len().min(CPUS)];
    for span in report.spans.iter().filter(|span| (span.cpu as usize) < CPUS) {
        let mut at = span.time.start;
        while at < span.time.end {
            let cell = (at - run.window.start) / column;
            let end = (run.window.start + (cell + 1) * column).min(span.time.end);
            ran[span.cpu as usize][cell as usize][sections[span.thread as usize]] += end - at;
            at = end;
        }
    }
    let longest = |cell: &Vec<Nanos>| {
        let busy: Nanos = cell.iter().sum();
        let most = cell.iter().enumerate().max_by_key(|(section, ran)| (**ran, usize::MAX - section))?;
        (busy * 2 >= column && *most.1 > 0).then_some(most.0)
    };
    ran.iter().map(|line| line.iter().map(longest).collect()).collect()
}
