//! A supervisor has children, and a child may be a supervisor: what each is before it starts, as all see it, and how it is reached.
//!
//! One room, for its types are made of each other: a [`Child`] is a recipe for a life, the life of a supervisor is reached by a [`SupervisorHandle`], which leads to a table of
//! children and to an inbox that takes more of them. What a supervisor *does* stands above, in `keeper`.
//!
//! | file | one idea |
//! |---|---|
//! | `child` | what is told of a child before it starts |
//! | `table` | the children as all see them |
//! | `inbox` | what reaches a supervisor |
//! | `handle` | what users hold of it |

mod child;
mod handle;
mod inbox;
mod table;

pub use child::{ActorChild, Child};
pub(crate) use child::{Incarnation, Kind, Life, Recipe};
pub use handle::{ChildInfo, SupervisorHandle};
pub(crate) use inbox::{ChildEvent, Inbox, Input, Reply, Request};
pub(crate) use table::{Kid, LastWill, Shared, begin_table, end_table, retire_life};
