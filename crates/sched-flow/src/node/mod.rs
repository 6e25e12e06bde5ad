//! Nodes: the traits that users implement, and how the driver calls them.
//!
//! Room: interface.
//!
//! | file | one idea |
//! |---|---|
//! | `inlet` | an input: messages one after the other, and the error policy |
//! | `out` | an output: each emitted message reaches every edge once |
//! | `cx` | the context of a call |
//! | `receipts` | which emitted messages their consumers have finished |
//! | `stage`, `source`, `general` | the three kinds of node, behind `unit` |
//! | `spec` | a node and its settings, as a graph takes it |
//! | `schema` | ports and what they carry |

#[macro_use]
pub(crate) mod cx;
mod general;
pub(crate) mod inlet;
pub(crate) mod out;
mod receipts;
pub(crate) mod schema;
mod source;
mod spec;
mod stage;
pub(crate) mod unit;

pub use general::{AnyMessage, Context, Node, Ports, WrongType};
pub use out::Out;
pub use receipts::Receipts;
pub use schema::Schema;
pub use spec::NodeSpec;

pub(crate) use crate::error::NodeError;
use crate::{
    error::NodeResult,
    message::{Message, Payload},
};
pub(crate) use policy_flow::Produced;

/// A node with one input, `in`, and outputs of one type: most nodes are this.
///
/// ```
/// use bursar::flow::{Message, NodeResult, Out, Stage};
///
/// /// Emits how much a value differs from the one before.
/// #[derive(Default)]
/// struct Change {
///     before: Option<f64>,
/// }
///
/// impl Stage for Change {
///     type In = f64;
///     type Out = f64;
///
///     fn on_message(&mut self, message: Message<f64>, out: &mut Out<'_, f64>) -> NodeResult {
///         let now = message.payload;
///         if let Some(before) = self.before.replace(now) {
///             out.emit(now - before);
///         }
///         Ok(())
///     }
/// }
/// ```
pub trait Stage: Send + 'static {
    /// What comes in.
    type In: Payload;
    /// What goes out.
    type Out: Payload;

    /// The names of its outputs. [`Out::emit_to`] counts in this order.
    fn outputs(&self) -> Vec<String> {
        vec!["out".to_owned()]
    }

    /// Whether room at one of its outputs is enough to take a message. If not, every output must have room. Such a stage uses
    /// [`Out::room_at`] to choose an output.
    #[inline]
    fn any_output(&self) -> bool {
        false
    }

    /// Called once, before anything else; producers before consumers.
    fn on_start(&mut self, out: &mut Out<'_, Self::Out>) -> NodeResult {
        let _ = out;
        Ok(())
    }

    /// A message came.
    fn on_message(&mut self, message: Message<Self::In>, out: &mut Out<'_, Self::Out>) -> NodeResult;

    /// The cadence of the node, or a time it [asked for](Out::tick_at).
    fn on_tick(&mut self, out: &mut Out<'_, Self::Out>) -> NodeResult {
        let _ = out;
        Ok(())
    }

    /// Its [waker](Out::waker) was used.
    fn on_wake(&mut self, out: &mut Out<'_, Self::Out>) -> NodeResult {
        let _ = out;
        Ok(())
    }

    /// The dead letter for a [bad record](NodeError::with_record) that the node took from outside, if a tick or a wake fails with one and the policy is
    /// [`OnError::DeadLetter`](crate::OnError::DeadLetter). By default there is none: the error is counted.
    fn bad_record(&self, record: &[u8]) -> Option<Self::In> {
        let _ = record;
        None
    }

    /// No more messages will come, and all were handled. Messages emitted here are still delivered.
    fn on_end(&mut self, out: &mut Out<'_, Self::Out>) -> NodeResult {
        let _ = out;
        Ok(())
    }

    /// Called once, after everything else; consumers before producers. Messages emitted here are dropped.
    fn on_stop(&mut self, out: &mut Out<'_, Self::Out>) -> NodeResult {
        let _ = out;
        Ok(())
    }

    /// Whether it takes another message now. If not, it is asked again after a tick or a wake.
    #[inline]
    fn accepts(&self) -> bool {
        true
    }

    /// Whether it has no work in progress that a wake or a tick will complete. [`on_end`](Self::on_end) is called only
    /// then; and after that, the node is over only then. Asked after every turn.
    fn is_done(&self) -> bool {
        true
    }
}

/// A node without input, where messages enter the graph.
///
/// ```
/// use bursar::flow::{NodeError, Out, Produced, Source};
///
/// struct Countdown(u32);
///
/// impl Source for Countdown {
///     type Out = u32;
///
///     fn produce(&mut self, out: &mut Out<'_, u32>) -> Result<Produced, NodeError> {
///         out.emit(self.0);
///         self.0 -= 1;
///         Ok(if self.0 == 0 { Produced::End } else { Produced::More })
///     }
/// }
/// ```
pub trait Source: Send + 'static {
    /// What goes out.
    type Out: Payload;

    /// Called once, before anything else; producers before consumers.
    fn on_start(&mut self, out: &mut Out<'_, Self::Out>) -> NodeResult {
        let _ = out;
        Ok(())
    }

    /// Called while its edges have room, again and again while it says [`Produced::More`]; or, if it was given a cadence with
    /// [`NodeSpec::tick`], once each tick. It should emit a few messages at most and never wait.
    fn produce(&mut self, out: &mut Out<'_, Self::Out>) -> Result<Produced, NodeError>;

    /// A time it [asked for](Out::tick_at), or its cadence, before `produce`.
    fn on_tick(&mut self, out: &mut Out<'_, Self::Out>) -> NodeResult {
        let _ = out;
        Ok(())
    }

    /// Its [waker](Out::waker) was used; `produce` is called next.
    fn on_wake(&mut self, out: &mut Out<'_, Self::Out>) -> NodeResult {
        let _ = out;
        Ok(())
    }

    /// Called once, after everything else. Messages emitted here are dropped.
    fn on_stop(&mut self, out: &mut Out<'_, Self::Out>) -> NodeResult {
        let _ = out;
        Ok(())
    }
}
