//! Both halves of an edge over a broker. Messages travel as JSON.
//!
//! Room: interface.
//!
//! Without the feature `nats` no plan has such an edge.

use bursar::flow::NodeSpec;

use super::Hooks;
use crate::over::Over;

#[cfg(feature = "nats")]
mod with {
    use bursar::flow::NodeSpec;
    use bursar::flow::nats::{self, Edge, NatsError};
    use serde_json::Value;

    use super::{Hooks, Over};
    use crate::action::Action;
    use crate::build::json;
    use crate::plan::Plan;

    fn edge(over: &Over, hooks: &Hooks) -> Edge {
        Edge::new(over.clone()).login(hooks.login.clone())
    }

    pub(super) fn publish(over: &Over, credit: Option<u64>, hooks: &Hooks) -> NodeSpec {
        let edge = match credit {
            Some(messages) => edge(over, hooks).window(messages, 8 << 20),
            None => edge(over, hooks),
        };
        nats::publish(edge, |message: &Value| message.to_string().into_bytes())
    }

    pub(super) fn subscribe(over: &Over, hooks: &Hooks) -> NodeSpec {
        nats::subscribe(edge(over, hooks), |bytes| Ok(json::read(std::str::from_utf8(bytes)?)?))
    }

    /// Connects once to the broker of every edge of the plan, and takes our ends, so that what is wrong there, and who is at our end already, is known before anything runs.
    ///
    /// Two processes with the same part take the ends in the same order: so one of them gets all.
    ///
    /// # Errors
    /// The first that cannot be used. What was taken by then is given back.
    pub fn check(plan: &Plan, hooks: &Hooks) -> Result<(), NatsError> {
        let end = |action: &Action| match action {
            Action::Publish { over, .. } => Some((over.to_string(), true, edge(over, hooks))),
            Action::Subscribe(over) => Some((over.to_string(), false, edge(over, hooks))),
            _ => None,
        };
        let mut ends: Vec<_> = plan.apart().nodes.iter().filter_map(|node| end(&node.action)).collect();
        ends.sort_by(|(one, ..), (other, ..)| one.cmp(other));
        for (taken, (_, sends, edge)) in ends.iter().enumerate() {
            let reserved = if *sends { edge.reserve_sender() } else { edge.reserve_receiver() };
            if let Err(error) = reserved {
                for (_, sends, edge) in &ends[..taken] {
                    if *sends { edge.release_sender() } else { edge.release_receiver() }
                }
                return Err(error);
            }
        }
        Ok(())
    }
}

#[cfg(feature = "nats")]
pub use with::check;

pub(super) fn publish(over: &Over, credit: Option<u64>, hooks: &Hooks) -> NodeSpec {
    #[cfg(feature = "nats")]
    return with::publish(over, credit, hooks);
    #[cfg(not(feature = "nats"))]
    match (*over, credit, hooks) {}
}

pub(super) fn subscribe(over: &Over, hooks: &Hooks) -> NodeSpec {
    #[cfg(feature = "nats")]
    return with::subscribe(over, hooks);
    #[cfg(not(feature = "nats"))]
    match (*over, hooks) {}
}
