//! Frames of a terminal as an animated SVG.
//!
//! The terminal has a background and a border of its own, so the picture reads the same on light and dark pages. Every run of characters is as wide as its
//! number of columns says, whatever font the reader has. A reader that does not animate, or asked for less motion, sees one still frame.

use std::fmt::Write;
use std::time::Duration;

use super::screen::{Frame, Run, Style};

const COLUMN: f64 = 8.4;
const ROW: f64 = 20.0;
const MARGIN: f64 = 16.0;
/// The bar above the terminal.
const BAR: f64 = 28.0;

/// How long the last frame is shown.
const END: Duration = Duration::from_millis(3000);
/// No frame is shown for less: it could not be read.
const SHORTEST: Duration = Duration::from_millis(400);

/// Red, green, yellow, blue, magenta, cyan; each reads well on the background.
const COLOURS: [&str; 6] = ["#f47067", "#8ddb8c", "#e3b341", "#6cb6ff", "#dcbdfb", "#76e3ea"];

/// What stands in the picture besides the frames.
pub(super) struct Caption<'a> {
    pub(super) command: &'a str,
    /// For readers that cannot see it.
    pub(super) about: &'a str,
    pub(super) made_by: &'a str,
}

/// Draws all frames, one after the other, for ever.
pub(super) fn draw(frames: &[Frame], still: usize, columns: usize, caption: &Caption) -> String {
    let rows = frames.iter().map(|frame| frame.lines.len()).max().unwrap_or(0) + 1; // the command stands above
    let (width, height) = (columns as f64 * COLUMN + 2.0 * MARGIN, rows as f64 * ROW + 2.0 * MARGIN + BAR);
    let times = times(frames);
    let all: Duration = times.iter().sum();
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\" \
         height=\"{height:.0}\" role=\"img\" aria-labelledby=\"title about\">\n\
         <!-- Made by `{}`. Do not edit. -->\n\
         <title id=\"title\">{}</title>\n<desc id=\"about\">{}</desc>\n{}",
        caption.made_by,
        escaped(caption.command),
        escaped(caption.about),
        style(&times, all),
    );
    let _ = write!(
        svg,
        "<rect x=\"0.5\" y=\"0.5\" width=\"{:.0}\" height=\"{:.0}\" rx=\"8\" fill=\"#22272e\" stroke=\"#768390\"/>\n\
         <circle cx=\"18\" cy=\"16\" r=\"5\" fill=\"#f47067\"/><circle cx=\"36\" cy=\"16\" r=\"5\" fill=\"#e3b341\"/>\
         <circle cx=\"54\" cy=\"16\" r=\"5\" fill=\"#8ddb8c\"/>\n",
        width - 1.0,
        height - 1.0,
    );
    let prompt = [
        Run { style: Style { is_dim: true, ..Style::default() }, text: "$ ".to_owned() },
        Run { style: Style { is_bold: true, ..Style::default() }, text: caption.command.to_owned() },
    ];
    svg += &line(&prompt, 0);
    for (index, frame) in frames.iter().enumerate() {
        let still = if index == still { " s" } else { "" };
        let _ = writeln!(svg, "<g class=\"f f{index}{still}\">");
        for (row, runs) in frame.lines.iter().enumerate() {
            svg += &line(runs, row + 1);
        }
        svg += "</g>\n";
    }
    svg + "</svg>\n"
}

/// How long each frame is shown, in tenths of a second.
fn times(frames: &[Frame]) -> Vec<Duration> {
    let next = frames.iter().skip(1).map(|frame| frame.at);
    let shown = frames.iter().zip(next).map(|(frame, next)| next.saturating_sub(frame.at).max(SHORTEST));
    shown.chain([END]).map(|time| Duration::from_millis((time.as_millis() as u64 + 50) / 100 * 100)).collect()
}

/// Each frame is visible in its part of the whole time.
fn style(times: &[Duration], all: Duration) -> String {
    let mut text = format!(
        "<style>\ntext {{ font: 14px ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace; fill: #d6dde5; white-space: pre }}\n\
         .f {{ visibility: hidden; animation: {:.1}s step-end infinite }}\n.s {{ visibility: visible }}\n",
        all.as_secs_f64()
    );
    let mut from = Duration::ZERO;
    for (index, time) in times.iter().enumerate() {
        let percent = |at: Duration| at.as_secs_f64() * 100.0 / all.as_secs_f64();
        let (begin, end) = (percent(from), percent(from + *time));
        let before = if index == 0 { String::new() } else { "0% { visibility: hidden } ".to_owned() };
        let _ = writeln!(
            text,
            ".f{index} {{ animation-name: k{index} }}\n\
             @keyframes k{index} {{ {before}{begin:.2}% {{ visibility: visible }} {end:.2}% {{ visibility: {} }} }}",
            if index + 1 == times.len() { "visible" } else { "hidden" },
        );
        from += *time;
    }
    text + "@media (prefers-reduced-motion: reduce) { .f { animation: none } }\n</style>\n"
}

fn line(runs: &[Run], row: usize) -> String {
    let y = BAR + MARGIN + (row as f64 + 0.7) * ROW;
    let mut column = 0;
    let mut text = String::new();
    for run in runs {
        // Blanks at the ends are left to the position of what is between them.
        let shown = run.text.trim();
        let before = run.text.chars().take_while(|c| c.is_whitespace()).count();
        if !shown.is_empty() {
            let _ = writeln!(
                text,
                "<text x=\"{:.1}\" y=\"{y:.1}\" textLength=\"{:.1}\" xml:space=\"preserve\"{}>{}</text>",
                MARGIN + (column + before) as f64 * COLUMN,
                shown.chars().count() as f64 * COLUMN,
                attributes(run.style),
                escaped(shown)
            );
        }
        column += run.text.chars().count();
    }
    text
}

fn attributes(style: Style) -> String {
    // In the element's own style, which is stronger than that of all texts.
    let mut looks = Vec::new();
    match style {
        Style { colour: Some(colour), .. } => looks.push(format!("fill:{}", COLOURS[usize::from(colour) - 1])),
        Style { is_dim: true, .. } => looks.push("fill:#909dab".to_owned()),
        _ => {}
    }
    if style.is_bold {
        looks.push("font-weight:bold".to_owned());
    }
    if looks.is_empty() { String::new() } else { format!(" style=\"{}\"", looks.join(";")) }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(ms: u64, text: &str) -> Frame {
        let run = |line: &str| vec![Run { style: Style::default(), text: line.to_owned() }];
        Frame { at: Duration::from_millis(ms), lines: text.lines().map(run).collect() }
    }

    const CAPTION: Caption = Caption { command: "run a<b", about: "jobs: a & b", made_by: "this test" };

    #[test]
    fn the_picture_has_the_command_every_frame_and_one_still() {
        let svg = draw(&[frame(0, "one"), frame(1000, "two\nlines")], 1, 40, &CAPTION);
        for part in [
            "<title id=\"title\">run a&lt;b</title>",
            "a &amp; b",
            "Made by `this test`",
            ">one</text>",
            ">lines</text>",
        ] {
            assert!(svg.contains(part), "{part}: {svg}");
        }
        assert_eq!(svg.matches("<g class=\"f f").count(), 2);
        assert_eq!(svg.matches("<g class=\"f f1 s\">").count(), 1);
    }

    #[test]
    fn blanks_before_a_text_move_it_and_are_not_drawn() {
        let run = Run { style: Style::default(), text: "  ab ".to_owned() };
        assert!(
            line(&[run.clone(), run], 0)
                .ends_with("<text x=\"74.8\" y=\"58.0\" textLength=\"16.8\" xml:space=\"preserve\">ab</text>\n")
        );
    }

    #[test]
    fn frames_take_the_time_they_took_but_can_be_read() {
        let times = times(&[frame(0, "a"), frame(100, "b"), frame(1149, "c")]);
        assert_eq!(times.iter().map(Duration::as_millis).collect::<Vec<_>>(), [400, 1000, 3000]);
    }

    #[test]
    fn a_frame_is_hidden_before_and_after_its_time() {
        let text = style(&[Duration::from_secs(1); 4], Duration::from_secs(4));
        assert!(
            text.contains("@keyframes k0 { 0.00% { visibility: visible } 25.00% { visibility: hidden } }"),
            "{text}"
        );
        assert!(
            text.contains("@keyframes k1 { 0% { visibility: hidden } 25.00% { visibility: visible } 50.00% { visibility: hidden } }"),
            "{text}"
        );
        assert!(text.contains(
            "@keyframes k3 { 0% { visibility: hidden } 75.00% { visibility: visible } 100.00% { visibility: visible } }"
        ));
    }
}
