//! A supervisor has children, and a child may be a supervisor: how each is described, shown and reached.
//!
//! Room: interface.
//!
//! One module, because its types are made of each other. A [`Child`] is the specification of an instance. The instance of a
//! supervisor is reached by a [`SupervisorHandle`], which leads to a table of children and to an inbox that takes more of them.
//! What a supervisor *does* is above, in `supervise`.
//!
//! | file | one idea |
//! |---|---|
//! | `child` | what is described of a child before it starts |
//! | `table` | the children as all handles see them |
//! | `inbox` | the inputs of a supervisor |
//! | `handle` | what users hold of it |

mod child;
mod handle;
mod inbox;
mod table;

pub use child::{ActorChild, Child};
pub(crate) use child::{ChildInstance, ChildSpec, Incarnation, Kind};
pub use handle::{ChildInfo, SupervisorHandle};
pub(crate) use inbox::{ChildReport, Inbox, Input, Reply, Request};
pub(crate) use table::{ChildEntry, CloseOnDrop, Shared, begin_table, end_table, retire_instance};
