//! Pictures of a plan: for a terminal, for Graphviz, for a browser.
//!
//! Room: surface.
//!
//! Pure: no clock, no file, no thread.
//!
//! # Invariant
//! A picture is a function of the plan, the same every time; names are escaped; and any plan can be drawn, also one put
//! together by hand with cycles or needs that are not jobs.

mod picture;
mod text;

use surface_text::picture::Picture;

use crate::plan::Plan;

/// More jobs than this are drawn as one box for each group.
const FOLD: usize = 60;

/// For a terminal: groups with their counts and demands, which needs which, and the longest chain.
///
/// ```
/// let plan = surface_jobfile::parse("film.toml", r#"
///     [job.image]
///     foreach = { scene = "1..8" }
///     run = "render {scene}"
///     vram = "6 GB"
///     [job.film]
///     needs = ["image"]
///     run = "join *.png"
/// "#)?;
/// assert_eq!(surface_jobfile::graph::text(&plan), "\
/// film: 9 jobs in 2 groups
///
///   image ×8   vram 6 GB
///   └─ film
///
/// longest chain: 2 jobs, image → film
/// ");
/// # Ok::<(), surface_jobfile::Problems>(())
/// ```
pub fn text(plan: &Plan) -> String {
    text::draw(plan, &picture::folded(plan))
}

/// For Graphviz: `bursar graph FILE | dot -Tpdf`.
///
/// ```
/// let plan = surface_jobfile::parse("a.toml", "[job.a]\nrun = 'true'")?;
/// assert!(surface_jobfile::graph::dot(&plan).starts_with("digraph \"a\" {\n"));
/// # Ok::<(), surface_jobfile::Problems>(())
/// ```
pub fn dot(plan: &Plan) -> String {
    picture(plan).dot()
}

/// For a browser: one file without scripts, left to right, in the colours of the page that shows it.
///
/// ```
/// let plan = surface_jobfile::parse("a.toml", "[job.a]\nrun = 'true'")?;
/// assert!(surface_jobfile::graph::svg(&plan).starts_with("<svg "));
/// # Ok::<(), surface_jobfile::Problems>(())
/// ```
pub fn svg(plan: &Plan) -> String {
    picture(plan).svg()
}

fn picture(plan: &Plan) -> Picture {
    if plan.jobs.len() > FOLD { picture::folded(plan) } else { picture::of_jobs(plan) }
}
