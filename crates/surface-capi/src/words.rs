//! What went wrong, in words of C: options are fields of its structures, functions are those of the header.
//!
//! Room: values.
//!
//! # Invariant
//! No text names an item of Rust, or a line of this library.
//!
//! # Why it holds
//! Texts are made from the kind of an error and its values, not from its Rust text; but for kinds that C cannot come to, and stacks, whose text names no more than one option that C has not. `tests/c/words.c` looks at those
//! that a program can bring about.

use std::fmt::Write as _;

use sched_tasks::{BuildError, CapError, Component, Reason, Stuck, TaskError, TaskLabel, internals::nursery_of};

/// What an error says, and what failed besides.
pub(crate) fn text_of(error: &TaskError) -> String {
    let mut text = nursery_of(error).map_or_else(String::new, |name| format!("nursery `{name}`: "));
    if let Some(task) = error.task() {
        text += &label(task);
        text.push(' ');
    }
    text += &reason(error.reason());
    if let Some(next) = error.others().first() {
        let more = match error.others().len() {
            1 => " (and one more: ".to_owned(),
            more => format!(" (and {more} more, the next: "),
        };
        text += &format!("{more}{})", text_of(next));
    }
    text
}

/// Which task it is. Where it was spawned is not said: that is one line of this library for all.
fn label(task: &TaskLabel) -> String {
    match &task.name {
        Some(name) => format!("task `{name}` ({})", task.id),
        None => format!("task {}", task.id),
    }
}

/// The field of a budget.
fn field(component: Component) -> &'static str {
    match component {
        Component::Ops => "ops",
        Component::Memory => "memory",
        Component::Spawns => "spawn_count",
        Component::ChannelOps => "channel_ops",
        Component::Syscalls => "syscalls",
    }
}

fn reason(reason: &Reason) -> String {
    match reason {
        Reason::DeadlineExceeded { after } => {
            format!("the {after:?} that the nursery had are over; give it a larger `timeout_nanoseconds`, or less work")
        }
        Reason::StackOverflow { stack_bytes } => format!(
            "overflowed its stack of {stack_bytes} bytes; recurse less deeply, or start it with a `stack_bytes` of {}",
            stack_bytes * 2
        ),
        Reason::BudgetExhausted { component: Component::Spawns, granted, .. } => format!(
            "{}: {granted} tasks were granted, and no more may be started; raise the `spawn_limit` of the nursery or the `spawn_count` of its `budget`, and for nurseries inside tasks the `spawn_count` of their `task_budget`, which is 0 where none is given",
            reason.name()
        ),
        Reason::BudgetExhausted { component, granted, wanted } => {
            let field = field(*component);
            let (name, more) = (reason.name(), if *granted == 0 { "" } else { "more " });
            format!(
                "{name}: {granted} `{field}` were granted, and {wanted} {more}are needed; give the nursery a larger `budget` or `task_budget`, or let its tasks get more: `recharges`, `is_supervised`, `reserve`"
            )
        }
        Reason::NotAllowed(CapError::NoBudgetCapability) => format!(
            "{}: no nursery around the task has a `reserve`, so nothing can be recharged; create it with one, or with `recharges`",
            reason.name()
        ),
        Reason::NotAllowed(CapError::BudgetLimitExceeded { component, limit, wanted }) => format!(
            "{}: {wanted} `{}` are wanted, and the {limit} of the `reserve` are drawn; give the nursery a larger one",
            reason.name(),
            field(*component)
        ),
        Reason::NotAllowed(CapError::Foreign) => format!("{}: {FOREIGN_RESERVE}", reason.name()),
        Reason::Deadlock { waiting, seed } => {
            let mut text = format!("deadlock: nothing can go on, and no timer is set; {} tasks wait", waiting.len());
            for (at, task) in waiting.iter().take(TASKS_LISTED_MAX).enumerate() {
                let _ = write!(text, "{} {}", if at == 0 { ":" } else { "," }, label(task));
            }
            if waiting.len() > TASKS_LISTED_MAX {
                text += ", …";
            }
            format!("{text}; a `deterministic_seed` of {seed} shows it again")
        }
        Reason::StepLimit { steps, seed } => format!(
            "not done after {steps} steps, which is the limit of a run with a seed: a livelock, or too much work; a `deterministic_seed` of {seed} shows it again"
        ),
        Reason::OutOfStacks { what } => about_stacks(what),
        other => other.to_string(),
    }
}

const TASKS_LISTED_MAX: usize = 8;

/// A reserve where it would be fresh budget.
pub(crate) const FOREIGN_RESERVE: &str = "a `reserve` inside of what has a budget but no `reserve` would be budget out of nothing; give a `reserve` to the outermost nursery with a budget, out of which this one then comes, or leave it out";

/// Tasks are not limited by a number in C.
fn about_stacks(text: &str) -> String {
    text.replace("`max_fibers` or `stack_bytes`", "`stack_bytes`").replace(", or raise `max_fibers`", "")
}

/// Why a runtime cannot be started.
pub(crate) fn not_built(error: &BuildError) -> String {
    match error {
        BuildError::Workers { wanted } => {
            let most = sched_tasks::MAX_WORKERS;
            format!("{wanted} workers are wanted, but a runtime has 1 to {most}; pass 0 for one for each CPU")
        }
        BuildError::Stacks(_) => about_stacks(&error.to_string()),
        other => other.to_string(),
    }
}

/// A task keeps a worker from the others.
pub(crate) fn stuck(stuck: &Stuck) -> String {
    let Stuck { worker, task, for_at_least, held_up, .. } = stuck;
    format!(
        "task {task} has held worker {worker} for {:.1} s without a call that lets others run, and {held_up} started tasks behind it; call `janus_scheduler_yield` in its loop, or start it with `on_thread` if it blocks",
        for_at_least.as_secs_f64()
    )
}
