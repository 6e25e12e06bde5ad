//! Graphics cards, and the memory that processes use on them.
//!
//! Room: mechanism. Knows NVML; knows nothing of jobs.
//!
//! It only reads, and never fails: a missing number is `None`.
//!
//! NVML is loaded at run time, once, if there is a driver. It lists cards in bus order; CUDA may number them
//! differently, so a card is identified by its UUID, which both understand.
//!
//! # What it does not do
//! In a container with a pid namespace, NVML reports pids of another namespace: then the usage of processes is not known.

use std::collections::HashMap;
use std::sync::OnceLock;

use nvml_wrapper::enums::device::UsedGpuMemory;
use nvml_wrapper::struct_wrappers::device::ProcessInfo;
use nvml_wrapper::{Device, Nvml};

/// A graphics card.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gpu {
    /// The name of its model.
    pub name: String,
    /// Its UUID; its index if it has none.
    pub id: String,
    /// Its index, in bus order.
    pub index: u32,
    /// Total memory, in MB.
    pub total_mb: u64,
    /// Memory in use now, in MB.
    pub used_mb: u64,
}

/// The library, loaded at the first call.
fn nvml() -> Option<&'static Nvml> {
    static NVML: OnceLock<Option<Nvml>> = OnceLock::new();
    NVML.get_or_init(|| Nvml::init().ok()).as_ref()
}

fn devices() -> impl Iterator<Item = (u32, Device<'static>)> {
    let nvml = nvml();
    let count = nvml.map_or(0, |nvml| nvml.device_count().unwrap_or(0));
    (0..count).filter_map(move |index| Some((index, nvml?.device_by_index(index).ok()?)))
}

/// The graphics cards that NVML knows, in bus order; none without a driver. A card that does not report its memory is left out.
pub fn gpus() -> Vec<Gpu> {
    let read = |(index, device): (u32, Device<'_>)| {
        let memory = device.memory_info().ok()?;
        let name = device.name().unwrap_or_else(|_| "GPU".to_owned());
        let id = device.uuid().unwrap_or_else(|_| index.to_string());
        Some(Gpu { name, id, index, total_mb: memory.total / 1_000_000, used_mb: memory.used.div_ceil(1_000_000) })
    };
    devices().filter_map(read).collect()
}

/// The memory that each process uses on all cards together, in MB. Processes for which the driver reports no number are left out.
pub fn gpu_memory_of_processes() -> HashMap<i32, u64> {
    let mut all: HashMap<i32, u64> = HashMap::new();
    for (_, device) in devices() {
        // A process that computes and draws is in both lists, with the same number.
        let mut here: HashMap<i32, u64> = HashMap::new();
        let lists = [device.running_compute_processes(), device.running_graphics_processes()];
        for ProcessInfo { pid, used_gpu_memory, .. } in lists.into_iter().flatten().flatten() {
            if let (Ok(pid), UsedGpuMemory::Used(bytes)) = (i32::try_from(pid), used_gpu_memory) {
                let used = here.entry(pid).or_default();
                *used = (*used).max(bytes.div_ceil(1_000_000));
            }
        }
        for (pid, used) in here {
            *all.entry(pid).or_default() += used;
        }
    }
    all
}
