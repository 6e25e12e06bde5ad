//! Who ran where, as a picture for a browser: a lane for each CPU, the policies below each other.
//!
//! Room: surface.
//!
//! # Invariant
//! Self-contained: no script, no font, no link. Names of the file are escaped.

use std::fmt::Write;

use surface_simfile::{Nanos, Options as Run, Plan, Policy, Report};
use surface_text::amounts::latency;

use super::rows::sections;

const WIDTH: u64 = 1000;
const LEFT: u64 = 70;
const LANE: u64 = 18;
const GAP: u64 = 4;
const TITLE: u64 = 26;
const COLOURS: [&str; 8] = ["#3b82c4", "#e0812d", "#4a9e5c", "#c25b9c", "#c9a227", "#8667c4", "#2fa3a3", "#c0504d"];

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

fn span(time: Nanos) -> String {
    if time == 0 { "0".to_owned() } else { latency(time as f64 / 1e3) }
}

/// The picture.
pub(super) fn draw(plan: &Plan, run: &Run, runs: &[(Policy, Report)]) -> String {
    let lanes = u64::from(run.cpus) * (LANE + GAP);
    let height = TITLE + runs.len() as u64 * (TITLE + lanes + TITLE) + TITLE * (1 + plan.threads.len() as u64 / 8);
    let width = LEFT + WIDTH + 20;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" role=\"img\">\n\
         <title>{}</title>\n<style>\n\
         text {{ font: 12px ui-monospace, monospace; fill: #1d2433 }}\n\
         .l {{ fill: #eceff5 }}\n\
         @media (prefers-color-scheme: dark) {{ text {{ fill: #e6e9f0 }} .l {{ fill: #262c3a }} }}\n\
         </style>\n",
        escaped(&plan.name)
    );
    let sections = sections(plan);
    let window = (run.window.end - run.window.start).max(1);
    let x = |at: Nanos| LEFT as f64 + (at - run.window.start) as f64 * WIDTH as f64 / window as f64;
    let mut top = TITLE;
    for (policy, report) in runs {
        let _ = writeln!(
            out,
            "<text x=\"{LEFT}\" y=\"{}\">{} · {policy} · seed {}</text>",
            top,
            escaped(&plan.name),
            run.seed
        );
        top += 8;
        for cpu in 0..u64::from(run.cpus) {
            let y = top + cpu * (LANE + GAP);
            let _ = writeln!(out, "<text x=\"8\" y=\"{}\">CPU {cpu}</text>", y + 13);
            let _ = writeln!(out, "<rect class=\"l\" x=\"{LEFT}\" y=\"{y}\" width=\"{WIDTH}\" height=\"{LANE}\"/>");
        }
        for ran in &report.spans {
            let section = sections[ran.thread as usize];
            let (from, to) = (x(ran.time.start), x(ran.time.end));
            let y = top + u64::from(ran.cpu) * (LANE + GAP);
            let name = escaped(&report.threads[ran.thread as usize].name);
            let _ = writeln!(
                out,
                "<rect x=\"{from:.2}\" y=\"{y}\" width=\"{:.2}\" height=\"{LANE}\" fill=\"{}\"><title>{name}: {} to {}</title></rect>",
                (to - from).max(0.1),
                COLOURS[section % COLOURS.len()],
                span(ran.time.start),
                span(ran.time.end)
            );
        }
        top += lanes + 12;
        for tenth in 0..=10 {
            let at = run.window.start + window * tenth / 10;
            let _ = writeln!(
                out,
                "<text x=\"{:.0}\" y=\"{top}\" font-size=\"10\" text-anchor=\"middle\">{}</text>",
                x(at),
                span(at)
            );
        }
        top += TITLE;
    }
    for (section, thread) in plan.threads.iter().enumerate() {
        let (column, row) = (section as u64 % 8, section as u64 / 8);
        let (x, y) = (LEFT + column * (WIDTH / 8), top + row * TITLE);
        let colour = COLOURS[section % COLOURS.len()];
        let _ = writeln!(out, "<rect x=\"{x}\" y=\"{}\" width=\"10\" height=\"10\" fill=\"{colour}\"/>", y - 9);
        let _ = writeln!(out, "<text x=\"{}\" y=\"{y}\">{}</text>", x + 15, escaped(&thread.name));
    }
    out.push_str("</svg>\n");
    out
}
