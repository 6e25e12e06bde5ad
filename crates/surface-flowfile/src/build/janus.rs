//! A function of a Janus program, called for each message.
//!
//! Room: driver.
//!
//! # Invariant
//! A message costs at most the budget and the time of its node, and nothing of it runs when its call is over. A message that fails leaves nothing behind: the next one finds a fresh budget.
//!
//! # Why it holds
//! Each call is a nursery of its own, with that budget and that deadline.

use std::sync::Arc;
use std::time::Duration;

use bursar::flow::{Message, NodeError, NodeResult, NodeSpec, Out, Stage};
use bursar::janus::{Host, Program, Value as Given, ir};
use bursar::{NurseryOptions, Reason, TaskError, nursery_with};
use serde_json::Value;

use super::Print;
use crate::action::Janus;
use crate::value::Name;

struct Call {
    janus: Janus,
    program: Option<Program>,
    parameters: Vec<ir::Type>,
    host: Host,
}

/// What the function prints goes where `print` nodes write.
pub(crate) fn node(janus: &Janus, print: Arc<Print>) -> NodeSpec {
    let parameters = janus.signature().map_or(Vec::new(), |(parameters, _)| parameters.to_vec());
    // A line that cannot be written is no error of the message.
    let host = Host::new().output(move |line| drop(print(&format!("{}\n", line.text))));
    NodeSpec::stage(Call { janus: janus.clone(), program: janus.program.clone(), parameters, host })
}

impl Stage for Call {
    type In = Value;
    type Out = Value;

    fn on_message(&mut self, mut message: Message<Value>, out: &mut Out<'_, Value>) -> NodeResult {
        match (self.call(&message.payload)?, &self.janus.result) {
            (Given::Bool(false), None) => return Ok(()),
            (Given::Bool(true) | Given::Unit, None) => {}
            (Given::Int(number), None) => message.payload = number.into(),
            (Given::Int(number), Some(field)) => set(field, &mut message.payload, number.into())?,
            (Given::Bool(flag), Some(field)) => set(field, &mut message.payload, flag.into())?,
            (Given::Unit, Some(field)) => set(field, &mut message.payload, Value::Null)?,
        }
        out.send(message);
        Ok(())
    }
}

impl Call {
    fn call(&self, message: &Value) -> Result<Given, NodeError> {
        let Janus { function, file, budget, timeout_ms, .. } = &self.janus;
        let Some(program) = &self.program else {
            return Err(NodeError::msg(format!("{} was not compiled; make the plan with `parse`", file.display())));
        };
        let arguments = self.arguments(message)?;
        // A host of its own, with nothing spent.
        let host = self.host.clone().memory_bytes(MEMORY_BYTES);
        program.prepare(); // the first message does not pay for it with its time
        let options = NurseryOptions::new().task_budget(*budget).timeout(Duration::from_millis(*timeout_ms));
        nursery_with(options, |n| program.spawn_on(&host, n, function, &arguments)?.join())
            .map_err(|error| self.failed(&error, &host))
    }

    fn arguments(&self, message: &Value) -> Result<Vec<Given>, NodeError> {
        let whole = [Name::default()];
        let names = self.janus.args.as_deref().unwrap_or(&whole);
        self.parameters.iter().zip(names).map(|(ty, name)| argument(*ty, name, message)).collect()
    }

    /// Where it failed, and which field of the node helps.
    fn failed(&self, error: &TaskError, host: &Host) -> NodeError {
        let fault = host.fault();
        let place = fault.as_ref().map(|fault| format!("{}:{}: in `{}`", fault.file, fault.line, fault.function));
        let place = place.unwrap_or_else(|| format!("{}: in `{}`", self.janus.file.display(), self.janus.function));
        match error.reason() {
            Reason::BudgetExhausted { component, .. } => NodeError::msg(format!(
                "{place}: stopped: the budget of a message is spent ({component} {}); raise it in the node",
                self.janus.budget.get(*component)
            )),
            Reason::DeadlineExceeded { .. } => NodeError::msg(format!(
                "{place}: stopped: the message took longer than {} ms; raise `timeout` of the node",
                self.janus.timeout_ms
            )),
            _ => match fault {
                Some(fault) => NodeError::from(fault),
                None => NodeError::from(error.clone()),
            },
        }
    }
}

/// Memory that the channels of one message may take.
const MEMORY_BYTES: u64 = 1 << 20;

fn argument(ty: ir::Type, name: &Name, message: &Value) -> Result<Given, NodeError> {
    let what = if name.is_whole() { "the message".to_owned() } else { format!("field `{name}`") };
    let Some(value) = name.of(message) else {
        return Err(NodeError::msg(format!("{what} is missing; put a filter with `exists` before this node")));
    };
    match ty {
        ir::Type::Bool => value.as_bool().map(Given::Bool),
        _ => whole_number(value).map(Given::Int),
    }
    .ok_or_else(|| {
        let wanted = if ty == ir::Type::Bool { "true or false" } else { "a whole number of 64 bits" };
        NodeError::msg(format!("{what} is {}, not {wanted}", surface_text::units::clip(&value.to_string())))
    })
}

/// Also of `12.0`, as far as that is exact.
fn whole_number(value: &Value) -> Option<i64> {
    const EXACT: f64 = 9_007_199_254_740_992.0; // 2^53: beyond it not all whole numbers are
    value.as_i64().or_else(|| {
        let number = value.as_f64().filter(|number| number.fract() == 0.0 && number.abs() <= EXACT)?;
        Some(number as i64)
    })
}

fn set(field: &Name, message: &mut Value, to: Value) -> NodeResult {
    if !message.is_object() {
        return Err(NodeError::msg(format!("the message is not an object, so it has no field `{field}` to set")));
    }
    field.set(message, to);
    Ok(())
}
