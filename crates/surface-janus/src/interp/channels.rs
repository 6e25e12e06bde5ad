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
use super::machine::{Machine, Slot};
use crate::ir::{Op, Reg};
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

impl Machine {
    fn channel(&self, reg: Reg) -> Arc<Channel> {
        match self.get(reg) {
            Slot::Channel(channel) => channel.clone(),
            _ => unreachable!("the verifier knows that %{} is a channel, and was written", reg.0),
        }
    }

    /// Calls an operation of a channel. The runtime charges it.
    fn operate<R>(&mut self, operation: impl FnOnce() -> R) -> Result<R, Failure> {
        self.spending.settle()?;
        let done = self.spending.guarded(operation)?;
        self.spending.spent.ops += 1;
        self.spending.spent.channel_ops += 1;
        Ok(done)
    }

    /// Not if it cleans up after a cancellation: what would wait fails.
    fn may_wait(&self) -> bool {
        !self.spending.shielded
    }

    /// A value; none if the channel is closed and empty.
    fn receive(&mut self, channel: Reg) -> Result<Option<i64>, Failure> {
        let channel = self.channel(channel);
        if self.may_wait() {
            return Ok(self.operate(|| channel.receiver.recv())?.ok());
        }
        match self.operate(|| channel.receiver.try_recv())? {
            Ok(value) => Ok(Some(value)),
            Err(TryRecvError::Closed) => Ok(None),
            Err(TryRecvError::Empty) => Err(Stopped::Cancelled.into()),
        }
    }

    pub(super) fn channel_step(&mut self, op: &Op) -> Result<(), Failure> {
        match op {
            Op::ChannelCreate(to, capacity) => {
                self.spending.settle()?;
                let channel = self.create_channel(self.int(*capacity))?;
                self.set(*to, Slot::Channel(channel));
            }
            Op::ChannelSend(channel, value) => {
                let (channel, value) = (self.channel(*channel), self.int(*value));
                let sent = match self.may_wait() {
                    true => self.operate(|| channel.sender.send(value))?.is_ok(),
                    false => match self.operate(|| channel.sender.try_send(value))? {
                        Err(TrySendError::Full(_)) => return Err(Stopped::Cancelled.into()),
                        sent => sent.is_ok(),
                    },
                };
                if !sent {
                    return Err(FaultKind::Closed.into());
                }
            }
            Op::ChannelRecv(to, channel) => {
                let value = self.receive(*channel)?.ok_or(FaultKind::Closed)?;
                self.set_int(*to, value);
            }
            Op::ChannelNext(to, some, channel) => {
                let value = self.receive(*channel)?;
                self.set_int(*some, value.is_some().into());
                self.set_int(*to, value.unwrap_or(0));
            }
            Op::ChannelTrySend(to, channel, value) => {
                let (channel, value) = (self.channel(*channel), self.int(*value));
                let is_sent = self.operate(|| channel.sender.try_send(value).is_ok())?;
                self.set_int(*to, is_sent.into());
            }
            Op::ChannelTryRecv(to, channel, otherwise) => {
                let (channel, otherwise) = (self.channel(*channel), self.int(*otherwise));
                let received = self.operate(|| channel.receiver.try_recv())?;
                let value = match received {
                    Ok(value) => value,
                    Err(TryRecvError::Empty | TryRecvError::Closed) => otherwise,
                };
                self.set_int(*to, value);
            }
            Op::ChannelClose(channel) => {
                let channel = self.channel(*channel);
                self.spending.settle()?;
                self.spending.guarded(|| channel.sender.close())?;
            }
            Op::ChannelIsClosed(to, channel) => {
                let channel = self.channel(*channel);
                self.spending.settle()?;
                let is_closed = self.spending.guarded(|| channel.sender.is_closed())?;
                self.set_int(*to, is_closed.into());
            }
            Op::ChannelLen(to, channel) => {
                let channel = self.channel(*channel);
                self.spending.settle()?;
                let length = self.spending.guarded(|| channel.receiver.len())?;
                self.set_int(*to, length as i64);
            }
            Op::SelectBegin => self.select = OpenSelect::default(),
            Op::SelectRecv(channel) => {
                let channel = self.channel(*channel);
                self.select.cases.push((channel, None));
            }
            Op::SelectSend(channel, value) => {
                let (channel, value) = (self.channel(*channel), self.int(*value));
                self.select.cases.push((channel, Some(value)));
            }
            Op::SelectTimeout(time) => {
                let time = self.int(*time);
                let milliseconds = u64::try_from(time).map_err(|_| FaultKind::Timeout(time))?;
                self.select.limit = Some(Limit::Timeout(Duration::from_millis(milliseconds)));
            }
            Op::SelectDefault => self.select.limit = Some(Limit::Default),
            Op::SelectWait(chosen, value) => self.select_wait(*chosen, *value)?,
            _ => unreachable!("`step` does all others"),
        }
        Ok(())
    }

    fn create_channel(&mut self, capacity: i64) -> Result<Arc<Channel>, Failure> {
        if !(0..=CHANNEL_CAPACITY_MAX).contains(&capacity) {
            return Err(FaultKind::Capacity(capacity).into());
        }
        let bytes = 64 + 8 * capacity as u64;
        self.host.take_memory(bytes).map_err(|limit| FaultKind::Memory { limit })?;
        let (sender, receiver) = self.spending.guarded(|| try_channel(capacity as usize))?.map_err(Stopped::Task)?;
        self.spending.spent.memory += bytes;
        Ok(Arc::new(Channel { sender, receiver }))
    }

    fn select_wait(&mut self, chosen: Reg, value: Reg) -> Result<(), Failure> {
        let OpenSelect { cases, limit } = std::mem::take(&mut self.select);
        let limit_now = if self.may_wait() { limit } else { Some(Limit::Default) };
        let (number, received) = self.operate(|| wait(&cases, limit_now))?;
        if number == cases.len() && limit.is_none() {
            return Err(Stopped::Cancelled.into()); // it would have waited
        }
        let received = received.map_err(|()| FaultKind::Closed)?;
        self.set_int(chosen, number as i64);
        self.set_int(value, received);
        Ok(())
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
