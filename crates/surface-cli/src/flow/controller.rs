//! How a flow answers requests over its socket.
//!
//! Room: driver.
//!
//! Reads and changes the flow by a [`Handle`]; decides nothing.
//!
//! # Invariant
//! However often clients ask, the flow is delayed for at most a fifth of the time: all clients share one [`Pace`].

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use bursar::flow::{ControlError, Handle};

use super::names::{NameError, NameKind, find};
use super::stop_state::StopState;
use crate::control::{Answer, Controller, FlowLine, Pace, Refusal, Request, Target};

/// A client that waits for the end of a flow checks this often whether the socket is being closed.
const CLOSING_INTERVAL: Duration = Duration::from_millis(200);

/// Notifies once, when the flow has ended.
#[derive(Debug, Default)]
pub(crate) struct EndNotifier {
    is_over: Mutex<bool>,
    changed: Condvar,
}

impl EndNotifier {
    pub(crate) fn notify(&self) {
        *self.is_over.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_all();
    }

    fn wait(&self, closing: &AtomicBool) {
        let mut is_over = self.is_over.lock().unwrap_or_else(PoisonError::into_inner);
        while !*is_over && !closing.load(SeqCst) {
            is_over = self.changed.wait_timeout(is_over, CLOSING_INTERVAL).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// Answers for a flow.
pub(crate) struct FlowController {
    pub(crate) id: String,
    pub(crate) handle: Handle,
    pub(crate) stop_state: Arc<StopState>,
    pub(crate) end: Arc<EndNotifier>,
    pub(crate) pace: Pace,
    /// Reports changes to people who watch the flow.
    pub(crate) say: Box<dyn Fn(&str) + Send + Sync>,
}

impl Controller for FlowController {
    fn respond(&self, request: Request, closing: &AtomicBool) -> Result<Answer, Refusal> {
        let mut answer = Answer::default();
        match request {
            Request::Ps { .. } => {
                answer.flow = Some(FlowLine::of(&self.id, self.pace.look(|| self.handle.stats())));
            }
            Request::Prometheus => answer.text = Some(self.pace.look(|| self.handle.stats()).prometheus()),
            Request::Why { job: what } => {
                let name = self.node_or_edge(&what)?;
                answer.text = Some(self.handle.why(name)?.to_string());
                answer.id = Some(name.to_owned());
            }
            Request::Pause(Target { job: Some(node), .. }) => {
                let node = self.node(&node)?;
                self.handle.pause(node)?;
                (self.say)(&format!("{node} was paused by another command"));
                answer.id = Some(node.to_owned());
            }
            Request::Resume(Target { job: Some(node), .. }) => {
                let node = self.node(&node)?;
                self.handle.resume(node)?;
                (self.say)(&format!("{node} was resumed by another command"));
                answer.id = Some(node.to_owned());
            }
            Request::Set { edge, capacity, priority } => answer.id = Some(self.set(&edge, capacity, priority)?),
            Request::Cancel { target: Target { job: None, .. }, now } => {
                (self.say)(if now {
                    "stopping at once, as another command requested"
                } else {
                    "stopping, as another command requested; delivering messages on their way"
                });
                if now {
                    self.stop_state.kill(&self.handle);
                } else {
                    self.stop_state.drain(&self.handle);
                }
                self.end.wait(closing);
                answer.flow = Some(FlowLine::of(&self.id, self.handle.stats()));
            }
            Request::Pause(_) | Request::Resume(_) => {
                return Err(Refusal::not_for("a flow", "name one of its nodes to pause or resume"));
            }
            Request::Cancel { .. } => {
                return Err(Refusal::not_for("a node", "pause it, or stop the whole flow, without a name"));
            }
            Request::Status { .. } | Request::Retry { .. } | Request::Subscribe | Request::Report { .. } => {
                return Err(Refusal::not_for("a flow", "ask a run, or this flow for its `stats`"));
            }
        }
        Ok(answer)
    }
}

impl FlowController {
    /// Both changes or none: the one that may be refused is tried first.
    fn set(&self, edge: &str, capacity: Option<u64>, priority: Option<i32>) -> Result<String, Refusal> {
        let edges: Vec<&str> = self.handle.edges().collect();
        let edge = find(NameKind::Edge, edge, &edges).map_err(|error| name_refusal(NameKind::Edge, error))?;
        let mut said = Vec::new();
        if let Some(capacity) = capacity {
            let size = usize::try_from(capacity).unwrap_or(usize::MAX);
            self.handle.set_capacity(edge, size)?;
            said.push(format!("capacity {capacity}"));
        }
        if let Some(priority) = priority {
            self.handle.set_priority(edge, priority)?;
            said.push(format!("priority {priority}"));
        }
        (self.say)(&format!("{edge}: {} from now on", said.join(", ")));
        Ok(edge.to_owned())
    }

    fn node(&self, word: &str) -> Result<&str, Refusal> {
        let nodes: Vec<&str> = self.handle.nodes().collect();
        find(NameKind::Node, word, &nodes).map_err(|error| name_refusal(NameKind::Node, error))
    }

    fn node_or_edge(&self, word: &str) -> Result<&str, Refusal> {
        let edges: Vec<&str> = self.handle.edges().collect();
        let looks_like_an_edge = word.contains("->") || word.contains(',') || word.contains(':');
        if looks_like_an_edge {
            return find(NameKind::Edge, word, &edges).map_err(|error| name_refusal(NameKind::Edge, error));
        }
        self.node(word)
    }
}

fn name_refusal(kind: NameKind, error: NameError) -> Refusal {
    match (kind, error) {
        (_, NameError::Several(message)) => Refusal::new("ambiguous", message, None),
        (NameKind::Node, NameError::Unknown(message)) => Refusal::new("unknown_node", message, None),
        (NameKind::Edge, NameError::Unknown(message)) => Refusal::new("unknown_edge", message, None),
    }
}

impl From<ControlError> for Refusal {
    fn from(error: ControlError) -> Refusal {
        Refusal::new("bad_value", error.to_string(), None)
    }
}
