//! The effects: connections, their thread, and the tasks that send and receive.
//!
//! Room: driver.

pub(crate) mod claim;
pub(crate) mod connect;
pub(crate) mod engine;
pub(crate) mod lock;
pub(crate) mod permit;
pub(crate) mod presence;
pub(crate) mod process;
pub(crate) mod receive;
pub(crate) mod send;
