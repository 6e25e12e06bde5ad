//! Commands for an active flow, over its socket.
//!
//! Room: surface.
//!
//! A word is a flow if it looks like one (`f-7f3a`, the beginning of one). Without it, the only active flow is meant.

use std::thread;
use std::time::Duration;

use clap::Args;

use crate::control::flows::{Live, is_id, live};
use crate::control::{AskError, FlowLine, Request, Target, Unanswered};
use crate::exit::{Exit, Failure, say};
use crate::out::{json, print, table};
use crate::view::flow::{FrameContext, Rates, frame, links};
use crate::view::paint::Paint;
use crate::view::printer::Shown;
use crate::view::text::{clean, counted, grouped, rate, time};

/// How often `bursar flow stats` reads again if the numbers of an edge over a broker do not add up.
const READINGS: usize = 20;
const AGAIN: Duration = Duration::from_millis(20);
/// Rows that `bursar flow stats` shows.
const ROWS: usize = 10_000;

/// `bursar flow ps`
#[derive(Debug, Clone, Args)]
pub(crate) struct Ps {
    /// One JSON array
    #[arg(long)]
    json: bool,
}

/// `bursar flow stats`
#[derive(Debug, Clone, Args)]
pub(crate) struct Stats {
    /// The flow: `f-7f3a` or its beginning [default: the only active flow]
    flow: Option<String>,
    /// One JSON object
    #[arg(long)]
    json: bool,
    /// In the text format of Prometheus
    #[arg(long, conflicts_with = "json")]
    prometheus: bool,
}

/// Options of `bursar flow why`.
#[derive(Debug, Clone, Args)]
pub(crate) struct Why {
    /// A flow (`f-7f3a`), if several are active, and a node, or an edge for its target
    #[arg(value_name = "[FLOW] NODE|EDGE", num_args = 1..=2, required = true)]
    words: Vec<String>,
}

/// Options of `bursar flow pause` and `resume`.
#[derive(Debug, Clone, Args)]
pub(crate) struct Node {
    /// A flow (`f-7f3a`), if several are active, and a node
    #[arg(value_name = "[FLOW] NODE", num_args = 1..=2, required = true)]
    words: Vec<String>,
}

/// Options of `bursar flow set`.
#[derive(Debug, Clone, Args)]
pub(crate) struct Set {
    /// A flow (`f-7f3a`), if several are active; an edge; and changes: `capacity=512`, `priority=high`
    #[arg(value_name = "[FLOW] EDGE CHANGE", num_args = 2.., required = true, allow_hyphen_values = true)]
    words: Vec<String>,
}

/// Options of `bursar flow stop`.
#[derive(Debug, Clone, Args)]
pub(crate) struct Stop {
    /// The flow: `f-7f3a` or its beginning [default: the only active flow]
    flow: Option<String>,
    /// Stop at once, without delivering messages on their way
    #[arg(long)]
    now: bool,
}

/// The flow that a word names, or the only one.
fn find(word: Option<&str>) -> Result<Live, Failure> {
    let mut all = live()?;
    if let Some(word) = word {
        if !is_id(word) {
            return Err(Failure::usage(format!(
                "`{word}` is not a flow id such as f-7f3a; `bursar flow ps` lists active flows"
            )));
        }
        all.retain(|flow| flow.id.starts_with(word));
    }
    let ids = || all.iter().map(|flow| flow.id.as_str()).collect::<Vec<_>>().join(", ");
    match (all.len(), word) {
        (1, _) => Ok(all.swap_remove(0)),
        (0, Some(word)) => {
            Err(Failure::not_found(format!("there is no active flow `{word}`; `bursar flow ps` lists active flows")))
        }
        (0, None) => Err(Failure::not_found("no flow is active; start one with `bursar flow run FILE`")),
        (count, _) => Err(Failure::usage(format!("{count} flows are active: {}; name one", ids()))),
    }
}

/// `[FLOW] REST…`
fn split(words: &[String]) -> (Option<&str>, &[String]) {
    match words {
        // A node may have a name like a flow, so the last word is never a flow.
        [flow, rest @ ..] if !rest.is_empty() && is_id(flow) => (Some(flow), rest),
        rest => (None, rest),
    }
}

fn stats_of(flow: &mut Live) -> Result<FlowLine, AskError> {
    Ok(flow.client.ask(Request::Ps { all: true, limit: None })?.flow.unwrap_or_default())
}

/// `bursar flow ps`
pub(crate) fn ps(options: &Ps) -> Result<Exit, Failure> {
    let mut flows = Vec::new();
    for mut flow in live()? {
        match stats_of(&mut flow) {
            Ok(line) => flows.push(line),
            // A flow that is just ending is not active any more; one that is stopped does not end.
            Err(error @ AskError { why: Unanswered::Stopped(_), .. }) => say!("bursar: {error}"),
            Err(_) => {}
        }
    }
    if options.json {
        json(&flows)?;
        return Ok(Exit::Success);
    }
    if flows.is_empty() {
        crate::exit::say!("bursar: no flow is active; start one with `bursar flow run FILE`");
        return Ok(Exit::Success);
    }
    let row = |flow: &FlowLine| {
        let totals = flow.totals();
        let per_second = rate(Rates::of_all(flow).delivered());
        vec![
            flow.flow.clone(),
            clean(&flow.name),
            time(flow.elapsed()),
            counted(flow.nodes.len(), "node"),
            counted(flow.edges.len(), "edge"),
            format!("{} delivered ({per_second}/s)", grouped(totals.delivered)),
            format!("pid {}", flow.pid),
        ]
    };
    print(&table(&flows.iter().map(row).collect::<Vec<_>>()))?;
    Ok(Exit::Success)
}

/// `bursar flow stats`
pub(crate) fn stats(options: &Stats) -> Result<Exit, Failure> {
    let mut flow = find(options.flow.as_deref())?;
    if options.prometheus {
        print(&flow.client.ask(Request::Prometheus)?.text.unwrap_or_default())?;
        return Ok(Exit::Success);
    }
    let mut counts = stats_of(&mut flow)?;
    for _ in 0..READINGS {
        // Numbers are read one after the other while messages move.
        if counts.links.iter().all(|link| link.adds_up) {
            break;
        }
        thread::sleep(AGAIN);
        counts = stats_of(&mut flow)?;
    }
    if options.json {
        json(&counts)?;
        return Ok(Exit::Success);
    }
    let (_, width) = console::Term::stdout().size_checked().unwrap_or((0, 120));
    let paint = Paint(console::colors_enabled());
    let width = usize::from(width).max(40);
    let context = FrameContext { shown: Shown::default(), width, height: ROWS, paint };
    let mut lines = frame(&counts, &Rates::of_all(&counts), &context);
    let over = counts.links.iter().flat_map(links).map(|line| clean(&line));
    let status = lines.pop();
    lines.extend(over.chain(status));
    print(&format!("{}\n", lines.join("\n")))?;
    Ok(Exit::Success)
}

/// `bursar flow why`
pub(crate) fn why(options: &Why) -> Result<Exit, Failure> {
    let (flow, rest) = split(&options.words);
    let [what] = rest else {
        return Err(Failure::usage("name one node or edge, and before it a flow, if several are active"));
    };
    let answer = find(flow)?.client.ask(Request::Why { job: what.clone() })?;
    print(&format!("{}.\n", clean(answer.text.unwrap_or_default().trim_end_matches('.'))))?;
    Ok(Exit::Success)
}

/// `bursar flow pause`
pub(crate) fn pause(options: &Node) -> Result<Exit, Failure> {
    steer(options, "paused", Request::Pause)
}

/// `bursar flow resume`
pub(crate) fn resume(options: &Node) -> Result<Exit, Failure> {
    steer(options, "resumed", Request::Resume)
}

fn steer(options: &Node, done: &str, request: impl FnOnce(Target) -> Request) -> Result<Exit, Failure> {
    let (flow, rest) = split(&options.words);
    let [node] = rest else { return Err(Failure::usage("name one node, and before it a flow, if several are active")) };
    let mut flow = find(flow)?;
    let answer = flow.client.ask(request(Target { job: Some(node.clone()), subtree: false }))?;
    print(&format!("{done} {} of flow {}\n", clean(&answer.id.unwrap_or_default()), flow.id))?;
    Ok(Exit::Success)
}

/// `bursar flow stop`
pub(crate) fn stop(options: &Stop) -> Result<Exit, Failure> {
    let mut flow = find(options.flow.as_deref())?;
    let answer = flow.client.ask(Request::Cancel { target: Target::default(), now: options.now })?;
    let lost = answer.flow.map(|flow| not_delivered(&flow)).unwrap_or_default();
    print(&format!("stopped flow {}{lost}\n", flow.id))?;
    Ok(Exit::Success)
}

/// What did not arrive: "; 3 messages were lost, 4 left behind".
fn not_delivered(flow: &FlowLine) -> String {
    let totals = flow.totals();
    let counts = [(totals.lost + totals.held, "lost"), (totals.waiting, "left behind")];
    let mut said = String::new();
    for (number, what) in counts.into_iter().filter(|(number, _)| *number > 0) {
        said += &match (said.is_empty(), number) {
            (true, 1) => format!("; 1 message was {what}"),
            (true, _) => format!("; {} messages were {what}", grouped(number)),
            (false, _) => format!(", {} {what}", grouped(number)),
        };
    }
    said
}

/// `bursar flow set`
pub(crate) fn set(options: &Set) -> Result<Exit, Failure> {
    let (flow, rest) = split(&options.words);
    let (edge, changes) = rest.split_first().ok_or_else(|| Failure::usage("name an edge, and what to change"))?;
    let (capacity, priority) = changes_in(changes)?;
    let mut flow = find(flow)?;
    let answer = flow.client.ask(Request::Set { edge: edge.clone(), capacity, priority })?;
    let edge = clean(&answer.id.unwrap_or_default());
    print(&format!("{edge} of flow {}: {}\n", flow.id, changes.join(", ")))?;
    Ok(Exit::Success)
}

/// `capacity=512 priority=high`
fn changes_in(words: &[String]) -> Result<(Option<u64>, Option<i32>), Failure> {
    if words.is_empty() {
        return Err(Failure::usage("say what to change: `capacity=512`, `priority=high` or `priority=10`"));
    }
    let (mut capacity, mut priority) = (None, None);
    for word in words {
        match word.split_once('=') {
            Some(("capacity", value)) => {
                let wrong =
                    || Failure::usage(format!("capacity `{value}` is not a number of messages; write `capacity=512`"));
                capacity = Some(value.parse().map_err(|_| wrong())?);
            }
            Some(("priority", value)) => {
                let wrong = "is not a priority; write control, high, normal, or a number (100 and more is control, 10 and more high)";
                priority = Some(match value {
                    "control" => 100,
                    "high" => 10,
                    "normal" => 0,
                    number => number.parse().map_err(|_| Failure::usage(format!("`{value}` {wrong}")))?,
                });
            }
            Some(("policy", _)) => {
                let why = "the policy of an edge is part of the graph and cannot be changed while the flow runs";
                return Err(Failure::usage(format!("{why}; change `policy` in the file and start it again")));
            }
            _ => {
                let message = format!(
                    "`{word}` is not a change; possible changes are `capacity=N` and `priority=control|high|normal|N`"
                );
                return Err(Failure::usage(message));
            }
        }
    }
    Ok((capacity, priority))
}

#[cfg(test)]
mod tests {
    use super::{changes_in, split};

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn a_flow_may_stand_first_but_not_alone() {
        assert_eq!(split(&words("f-7f3a imu")), (Some("f-7f3a"), &words("imu")[..]));
        assert_eq!(split(&words("f-7")), (None, &words("f-7")[..]));
        assert_eq!(split(&words("imu,fir capacity=3")), (None, &words("imu,fir capacity=3")[..]));
    }

    #[test]
    fn changes_are_capacities_and_priorities_and_nothing_else() {
        assert_eq!(changes_in(&words("capacity=512 priority=high")).unwrap(), (Some(512), Some(10)));
        assert_eq!(changes_in(&words("priority=-3")).unwrap(), (None, Some(-3)));
        for (text, part) in [
            ("", "say what to change"),
            ("capacity=many", "not a number of messages"),
            ("priority=asap", "write control, high, normal"),
            ("policy=latest", "cannot be changed while the flow runs"),
            ("size=3", "possible changes are `capacity=N`"),
        ] {
            let message = changes_in(&words(text)).unwrap_err().message;
            assert!(message.contains(part), "{text}: {message}");
        }
    }
}
