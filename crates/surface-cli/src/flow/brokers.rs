//! The brokers of a flow's edges, before it runs.
//!
//! Room: driver.
//!
//! # Invariant
//! A flow starts only if every broker it needs takes our login and keeps a stream for its edge, and no other process has our end of it. What fails has an exit code of its own, and then nothing was started.

use surface_flowfile::Plan;
use surface_flowfile::build::Hooks;

use crate::exit::Failure;

/// Connects once to each broker of the plan, with the login of the environment.
#[cfg(feature = "nats")]
pub(super) fn ready(plan: &Plan, hooks: Hooks) -> Result<Hooks, Failure> {
    use bursar::flow::nats::Login;
    use surface_flowfile::action::Action;
    use surface_flowfile::build;

    use crate::exit::Exit;

    let uses_one = plan.nodes.iter().any(|node| matches!(node.action, Action::Publish { .. } | Action::Subscribe(_)));
    if !uses_one {
        return Ok(hooks);
    }
    let login = Login::from_env().map_err(|error| Failure::new(Exit::Broker, error.to_string()))?;
    let hooks = hooks.login(login);
    build::check_brokers(plan, &hooks).map_err(|error| {
        let exit = if error.is_taken() { Exit::EdgeTaken } else { Exit::Broker };
        Failure::new(exit, error.to_string())
    })?;
    Ok(hooks)
}

/// Without edges over a broker there is none.
#[cfg(not(feature = "nats"))]
pub(super) fn ready(_plan: &Plan, hooks: Hooks) -> Result<Hooks, Failure> {
    Ok(hooks)
}
