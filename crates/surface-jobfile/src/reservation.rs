//! Whether CPU time can be reserved as a job asks for it.
//!
//! Room: surface.
//!
//! Pure: no clock, no file, no thread.
//!
//! # Invariant
//! A reservation that is not refused here has `0 < budget <= deadline <= period`, and the period is one that Linux takes.

use surface_text::fields::{Spanned, Values};

use crate::draft::Draft;

/// Periods that Linux takes, unless its limits were changed.
const PERIOD_US: std::ops::RangeInclusive<u64> = 100..=4_000_000;

/// Reports what is wrong with `budget`, `deadline` and `period` of a job.
pub(crate) fn check(draft: &Draft<'_, '_>, values: &mut Values<'_>) {
    let (deadline, period) = (draft.deadline_us.as_ref(), draft.period_us.as_ref());
    let Some(budget) = &draft.budget_us else {
        let named = [("deadline", deadline), ("period", period)];
        if let Some((key, time)) = named.into_iter().find_map(|(key, time)| Some((key, time?))) {
            let message =
                format!("job `{}` has a `{key}`, but no `budget`: how much CPU time in each period", draft.name);
            values.report.add(&time.at, message, "write `budget = \"2ms\"`; a limit for the whole job is `timeout`");
        }
        return;
    };
    let (Some(deadline), Some(period)) = (deadline.or(period), period.or(deadline)) else {
        let message = format!("job `{}` has a `budget`, but no `period`: how often it gets it", draft.name);
        return values.report.add(&budget.at, message, "write `period = \"10ms\"`");
    };
    let mut refuse = |at: &Spanned<u64>, message: String, help: &str| values.report.add(&at.at, message, help);
    if budget.value == 0 {
        refuse(budget, "`budget` is 0, so it reserves nothing".to_owned(), "leave it out, or write `budget = \"2ms\"`");
    }
    if budget.value > deadline.value {
        let (budget_is, limit) = (time(budget.value), time(deadline.value));
        let message = format!("`budget` is {budget_is}, but it must be had within {limit}");
        refuse(budget, message, &format!("write at most {limit}, or a longer `deadline`"));
    }
    if deadline.value > period.value {
        let (deadline_is, limit) = (time(deadline.value), time(period.value));
        let message = format!("`deadline` is {deadline_is}, but the `period` is {limit}");
        refuse(deadline, message, &format!("write at most {limit}, or a longer `period`"));
    }
    if !PERIOD_US.contains(&period.value) {
        let (least, most) = (time(*PERIOD_US.start()), time(*PERIOD_US.end()));
        let message = format!("the period is {}, but Linux takes {least} to {most}", time(period.value));
        refuse(period, message, &format!("write a `period` from {least} to {most}"));
    }
    let own = &draft.own;
    let keys = [("class", own.class.is_some()), ("weight", own.weight.is_some()), ("nice", own.nice.is_some())];
    if let Some((key, _)) = keys.iter().find(|(_, is_there)| *is_there) {
        let message = format!("job `{}` has a `budget` and a `{key}`, which a reservation does not use", draft.name);
        refuse(budget, message, &format!("remove one of them: `{key}` is for jobs without a reservation"));
    }
}

/// As a file has it.
fn time(us: u64) -> String {
    match us {
        us if us >= 1_000_000 && us.is_multiple_of(1_000_000) => format!("{}s", us / 1_000_000),
        us if us >= 1_000 && us.is_multiple_of(1_000) => format!("{}ms", us / 1_000),
        us => format!("{us}us"),
    }
}
