//! Sampling the video memory that commands use.
//!
//! Room: driver. Knows a thread and the graphics driver; knows nothing of how commands start or end.
//!
//! The driver reports only the memory in use now, so a thread takes samples while commands run. A peak between two samples
//! is not seen.

use core::time::Duration;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;

use mech_process::machine;

use policy_jobs::JobId;

use super::Processes;

/// Takes samples until it is dropped.
#[derive(Debug)]
#[must_use = "it takes samples until it is dropped"]
pub struct VramWatch {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for VramWatch {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // it returns nothing
        }
    }
}

impl Processes {
    /// Samples the video memory of commands at this interval; the largest sample is part of [`CommandEnd`](super::CommandEnd). No sample is taken while no
    /// command runs.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub fn watch_vram(self: &Arc<Self>, every: Duration) -> std::io::Result<VramWatch> {
        let (stop, stopped) = mpsc::channel();
        let me: Weak<Processes> = Arc::downgrade(self);
        let sample = move || {
            while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(every) {
                let Some(me) = me.upgrade() else { return };
                me.sample_vram();
            }
        };
        let thread = std::thread::Builder::new().name("bursar-vram".to_owned()).spawn(sample)?;
        Ok(VramWatch { stop: Some(stop), thread: Some(thread) })
    }

    /// Takes one sample: the video memory that each command uses now, in MB, as far as the driver reports it.
    pub fn sample_vram(&self) -> Vec<(JobId, u64)> {
        let handles = self.attempts.running();
        if handles.is_empty() {
            return Vec::new();
        }
        // Not under the lock: the driver may take a while.
        let users = machine::gpu_memory_of_processes();
        let used = handles.into_iter().map(|(job, attempt, handle)| (job, attempt, handle.sum_of(&users)));
        let used: Vec<(u32, u32, u64)> = used.filter(|(.., mb)| *mb > 0).collect();
        self.attempts.add_vram_samples(&used);
        used.into_iter().map(|(job, _, mb)| (JobId::from_index(job), mb)).collect()
    }
}
