//! What belongs to channels beside [`channel`](crate::channel) and [`unbounded`](crate::unbounded): errors, futures, iterators, and [`Select`].
//!
//! Room: interface.
//!
//! A channel has any number of senders and of receivers (multi-producer, multi-consumer): [`Sender`](crate::Sender) and [`Receiver`](crate::Receiver) can be cloned. [`try_channel`] and
//! [`try_unbounded`] are for tasks whose [capabilities](crate::capability::CapChannel) may not allow another channel. [`select!`](crate::select) is written with [`Select`], which also takes cases that are
//! known only at run time.
#[doc(inline)]
pub use sched_tasks::{
    Case, IntoIter, Iter, RecvCase, RecvError, RecvFuture, RecvTimeoutError, Select, SendCase, SendError, SendFuture,
    SendTimeoutError, TryRecvError, TrySendError, try_channel, try_unbounded,
};
