//! Channels of i64, and selects.
//!
//! Room: driver.
//!
//! # Invariant
//! A channel is closed by `close` alone: both of its ends live as long as any register has it, so nothing depends on when a register is cleared.

use std::sync::Arc;
use std::time::Duration;

use sched_tasks::{Receiver, Sender};
use sched_tasks::{Select, TryRecvError, TrySendError, try_channel};

use super::fault::{Failure, FaultKind, Stopped};
use super::state::State;
use crate::limits::CHANNEL_CAPACITY_MAX;

pub(crate) struct Channel {
    sender: Sender<i64>,
    receiver: Receiver<i64>,
}

/// A select that has begun and does not wait yet.
#[derive(Default)]
pub(super) struct OpenSelect {
    cases: Vec<(Arc<Channel>, Option<i64>)>,
    limit: Option<Limit>,
}

#[derive(Clone, Copy)]
enum Limit {
    Timeout(Duration),
    Default,
}

impl State<'_> {
    /// Calls an operation of a channel. The runtime charges it.
    fn operate<R>(&mut self, operation: impl FnOnce() -> R) -> Result<R, Failure> {
        self.spending.settle()?;
        self.spending.begin_charged()?;
        let done = self.spending.guarded(operation)?;
        self.spending.spent.ops += 1;
        self.spending.spent.channel_ops += 1;
        Ok(done)
    }

    /// Not if it cleans up after a cancellation: what would wait fails.
    fn may_wait(&self) -> bool {
        !self.spending.shielded
    }

    pub(crate) fn create_channel(&mut self, capacity: i64) -> Result<Arc<Channel>, Failure> {
        self.spending.settle()?;
        if !(0..=CHANNEL_CAPACITY_MAX).contains(&capacity) {
            return Err(FaultKind::Capacity(capacity).into());
        }
        let bytes = 64 + 8 * capacity as u64;
        self.run.host.take_memory(bytes).map_err(|limit| FaultKind::Memory { limit })?;
        let (sender, receiver) = self.spending.guarded(|| try_channel(capacity as usize))?.map_err(Stopped::Task)?;
        self.spending.spent.memory += bytes;
        Ok(Arc::new(Channel { sender, receiver }))
    }

    pub(crate) fn send(&mut self, channel: &Channel, value: i64) -> Result<(), Failure> {
        let is_sent = match self.may_wait() {
            true => self.operate(|| channel.sender.send(value))?.is_ok(),
            false => match self.operate(|| channel.sender.try_send(value))? {
                Err(TrySendError::Full(_)) => return Err(Stopped::Cancelled.into()),
                sent => sent.is_ok(),
            },
        };
        if is_sent { Ok(()) } else { Err(FaultKind::Closed.into()) }
    }

    pub(crate) fn receive(&mut self, channel: &Channel) -> Result<i64, Failure> {
        self.next(channel)?.ok_or_else(|| FaultKind::Closed.into())
    }

    /// A value; none if the channel is closed and empty.
    pub(crate) fn next(&mut self, channel: &Channel) -> Result<Option<i64>, Failure> {
        if self.may_wait() {
            return Ok(self.operate(|| channel.receiver.recv())?.ok());
        }
        match self.operate(|| channel.receiver.try_recv())? {
            Ok(value) => Ok(Some(value)),
            Err(TryRecvError::Closed) => Ok(None),
            Err(TryRecvError::Empty) => Err(Stopped::Cancelled.into()),
        }
    }

    pub(crate) fn try_send(&mut self, channel: &Channel, value: i64) -> Result<bool, Failure> {
        self.operate(|| channel.sender.try_send(value).is_ok())
    }

    pub(crate) fn try_receive(&mut self, channel: &Channel, otherwise: i64) -> Result<i64, Failure> {
        let received = self.operate(|| channel.receiver.try_recv())?;
        Ok(match received {
            Ok(value) => value,
            Err(TryRecvError::Empty | TryRecvError::Closed) => otherwise,
        })
    }

    pub(crate) fn close(&mut self, channel: &Channel) -> Result<(), Failure> {
        self.spending.settle()?;
        self.spending.guarded(|| channel.sender.close())?;
        Ok(())
    }

    pub(crate) fn is_closed(&mut self, channel: &Channel) -> Result<bool, Failure> {
        self.spending.settle()?;
        Ok(self.spending.guarded(|| channel.sender.is_closed())?)
    }

    pub(crate) fn length(&mut self, channel: &Channel) -> Result<i64, Failure> {
        self.spending.settle()?;
        Ok(self.spending.guarded(|| channel.receiver.len())? as i64)
    }

    pub(crate) fn select_begin(&mut self) {
        self.select = OpenSelect::default();
    }

    /// A case: sends the value, or receives.
    pub(crate) fn select_case(&mut self, channel: Arc<Channel>, sent: Option<i64>) {
        self.select.cases.push((channel, sent));
    }

    pub(crate) fn select_timeout(&mut self, time: i64) -> Result<(), Failure> {
        let milliseconds = u64::try_from(time).map_err(|_| FaultKind::Timeout(time))?;
        self.select.limit = Some(Limit::Timeout(Duration::from_millis(milliseconds)));
        Ok(())
    }

    pub(crate) fn select_default(&mut self) {
        self.select.limit = Some(Limit::Default);
    }

    /// The number of the case that was done, and what it received, or 0.
    pub(crate) fn select_wait(&mut self) -> Result<(i64, i64), Failure> {
        let OpenSelect { cases, limit } = std::mem::take(&mut self.select);
        let limit_now = if self.may_wait() { limit } else { Some(Limit::Default) };
        let (number, received) = self.operate(|| wait(&cases, limit_now))?;
        if number == cases.len() && limit.is_none() {
            return Err(Stopped::Cancelled.into()); // it would have waited
        }
        let received = received.map_err(|()| FaultKind::Closed)?;
        Ok((number as i64, received))
    }
}

/// Which case was done, and what it received, or 0; `Err` if its channel is closed. The limit counts as the last case.
fn wait(cases: &[(Arc<Channel>, Option<i64>)], limit: Option<Limit>) -> (usize, Result<i64, ()>) {
    enum Case<'a> {
        Recv(sched_tasks::RecvCase<'a, i64>),
        Send(sched_tasks::SendCase<'a, i64>),
    }
    let mut open: Vec<Case<'_>> = cases
        .iter()
        .map(|(channel, sent)| match sent {
            None => Case::Recv(channel.receiver.case()),
            Some(value) => Case::Send(channel.sender.case(*value)),
        })
        .collect();
    let mut select = Select::new();
    for case in &mut open {
        select = match case {
            Case::Recv(case) => select.with(case),
            Case::Send(case) => select.with(case),
        };
    }
    let done = match limit {
        None => select.wait(),
        Some(Limit::Default) => select.poll(),
        Some(Limit::Timeout(time)) => select.wait_timeout(time),
    };
    let Some(number) = done else { return (cases.len(), Ok(0)) };
    let received = match &mut open[number] {
        Case::Recv(case) => case.take().map_err(|_| ()),
        Case::Send(case) => case.take().map(|()| 0).map_err(|_| ()),
    };
    (number, received)
}
