//! Graphics cards, and what processes use of them.
//!
//! Room: mechanism. Reads; never fails: a missing figure is `None`.
//!
//! NVML is loaded at run time, where there is a driver, and looked for once. It knows cards in the order of their bus; CUDA may count them
//! otherwise, so a card is known by its UUID, which both understand.
//!
//! # What it does not do
//! Within a container that hides processes, NVML tells numbers of processes that mean nothing here: then nothing is known of their use.

use std::collections::HashMap;
use std::sync::OnceLock;

use nvml_wrapper::enums::device::UsedGpuMemory;
use nvml_wrapper::struct_wrappers::device::ProcessInfo;
use nvml_wrapper::{Device, Nvml};

/// A graphics card.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gpu {
    /// As its maker calls it.
    pub name: String,
    /// Its UUID; its index if it tells none.
    pub id: String,
    /// Its index, in the order of the bus.
    pub index: u32,
    /// Memory it has, in MB.
    pub total_mb: u64,
    /// Memory in use now, in MB.
    pub used_mb: u64,
}

/// The library, once it was looked for.
fn nvml() -> Option<&'static Nvml> {
    static NVML: OnceLock<Option<Nvml>> = OnceLock::new();
    NVML.get_or_init(|| Nvml::init().ok()).as_ref()
}

fn devices() -> impl Iterator<Item = (u32, Device<'static>)> {
    let nvml = nvml();
    let count = nvml.map_or(0, |nvml| nvml.device_count().unwrap_or(0));
    (0..count).filter_map(move |index| Some((index, nvml?.device_by_index(index).ok()?)))
}

/// Graphics cards that NVML knows, in the order of the bus; none where there is no driver. One that does not tell its memory is left out.
pub fn gpus() -> Vec<Gpu> {
    let read = |(index, device): (u32, Device<'_>)| {
        let memory = device.memory_info().ok()?;
        let name = device.name().unwrap_or_else(|_| "GPU".to_owned());
        let id = device.uuid().unwrap_or_else(|_| index.to_string());
        Some(Gpu { name, id, index, total_mb: memory.total / 1_000_000, used_mb: memory.used.div_ceil(1_000_000) })
    };
    devices().filter_map(read).collect()
}

/// What each process uses of all cards together, in MB. Processes of which the driver tells no figure are left out.
pub fn gpu_memory_of_processes() -> HashMap<i32, u64> {
    let mut all: HashMap<i32, u64> = HashMap::new();
    for (_, device) in devices() {
        // A process that computes and draws is in both lists, with the same figure.
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
