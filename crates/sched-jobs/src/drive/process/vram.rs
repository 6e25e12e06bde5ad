//! What commands really use of graphics cards.
//!
//! The driver tells only what is in use now, so somebody must look while a command runs: a thread does, from time to time. What was used for
//! a shorter time may not be seen.

use core::time::Duration;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;

use mech_process::{Handle, machine};

use policy_jobs::JobId;

use super::{Processes, lock};
use crate::executor::Ticket;
use crate::job::number;

/// Looks until it is dropped.
#[derive(Debug)]
#[must_use = "it looks until it is dropped"]
pub struct VramWatch {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for VramWatch {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // it has nothing to say
        }
    }
}

impl Processes {
    /// Looks so often what commands use of graphics cards; the most that was seen is told before the end of each. Nothing is looked at while none
    /// runs.
    ///
    /// # Errors
    /// If there is no thread to be had.
    pub fn watch_vram(self: &Arc<Self>, every: Duration) -> std::io::Result<VramWatch> {
        let (stop, stopped) = mpsc::channel();
        let me: Weak<Processes> = Arc::downgrade(self);
        let look = move || {
            while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(every) {
                let Some(me) = me.upgrade() else { return };
                me.look_at_vram();
            }
        };
        let thread = std::thread::Builder::new().name("bursar-vram".to_owned()).spawn(look)?;
        Ok(VramWatch { stop: Some(stop), thread: Some(thread) })
    }

    /// What each command uses of graphics cards now, in MB, as far as the driver tells.
    pub fn look_at_vram(&self) -> Vec<(JobId, u64)> {
        let handles: Vec<(u32, u32, Handle)> = lock(&self.desks)
            .iter()
            .filter_map(|(job, desk)| Some((*job, desk.attempt, desk.handle.clone()?)))
            .collect();
        if handles.is_empty() {
            return Vec::new();
        }
        // Not under the lock: the driver may take a while.
        let users = machine::gpu_memory_of_processes();
        let used = handles.into_iter().map(|(job, attempt, handle)| (job, attempt, handle.sum_of(&users)));
        let used: Vec<(u32, u32, u64)> = used.filter(|(.., mb)| *mb > 0).collect();
        let mut desks = lock(&self.desks);
        for (job, attempt, mb) in &used {
            if let Some(desk) = desks.get_mut(job).filter(|desk| desk.attempt == *attempt) {
                desk.peak_vram_mb = desk.peak_vram_mb.max(*mb);
            }
        }
        used.into_iter().map(|(job, _, mb)| (JobId::from_index(job), mb)).collect()
    }

    /// The most that was seen of an attempt, in MB.
    pub(super) fn peak_vram_mb(&self, ticket: Ticket) -> u64 {
        let desks = lock(&self.desks);
        desks.get(&number(ticket.job)).filter(|desk| desk.attempt == ticket.attempt).map_or(0, |desk| desk.peak_vram_mb)
    }
}
