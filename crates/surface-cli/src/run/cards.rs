//! Which graphics cards a run may use: those that the driver reports, within the limits that were set.
//!
//! Room: driver.
//!
//! # Invariant
//! No card counts for more memory than it has, whatever was set.

use mech_process::machine;
use sched_jobs::{Gpu, GpuDriver};

/// The variable that limits our cards, as it does for our own jobs.
const VISIBLE: &str = "CUDA_VISIBLE_DEVICES";

/// The cards that the driver reports; of these, those that the variable allows.
pub(crate) fn found(environment: impl Fn(&str) -> Option<String>) -> Vec<Gpu> {
    let cards: Vec<(u32, Gpu)> =
        machine::gpus().into_iter().map(|card| (card.index, Gpu::new(card.id, card.total_mb))).collect();
    visible(cards, environment(VISIBLE).as_deref())
}

/// The cards that are named, by index or by the beginning of an id, in that order. An unknown name ends the list, as in CUDA.
fn visible(cards: Vec<(u32, Gpu)>, named: Option<&str>) -> Vec<Gpu> {
    let Some(named) = named else { return cards.into_iter().map(|(_, gpu)| gpu).collect() };
    let find = |name: &str| {
        let is_it = |(index, gpu): &&(u32, Gpu)| {
            name.parse() == Ok(*index) || (name.len() > 4 && name.starts_with("GPU-") && gpu.id.starts_with(name))
        };
        cards.iter().find(is_it).map(|(_, gpu)| gpu.clone())
    };
    let mut gpus: Vec<Gpu> = Vec::new();
    for gpu in named.split(',').map_while(|name| find(name.trim())) {
        if !gpus.contains(&gpu) {
            gpus.push(gpu);
        }
    }
    gpus
}

/// The cards that jobs may use: at most `count`, each with at most `vram_mb`. If none is known, `count` cards are assumed.
pub(crate) fn allowed(found: &[Gpu], count: Option<u32>, vram_mb: Option<u64>) -> Vec<Gpu> {
    let most = count.map_or(usize::MAX, |count| count as usize);
    let cap = vram_mb.filter(|mb| *mb > 0);
    if found.is_empty() {
        let driver = if is_amd() { GpuDriver::Rocm } else { GpuDriver::Cuda };
        let card = |number: u32| Gpu { driver, ..Gpu::new(number.to_string(), cap.unwrap_or(0)) };
        return (0..count.unwrap_or(0)).map(card).collect();
    }
    let capped = |gpu: &Gpu| Gpu { vram_mb: cap.map_or(gpu.vram_mb, |cap| cap.min(gpu.vram_mb)), ..gpu.clone() };
    found.iter().take(most).map(capped).collect()
}

/// Whether this machine has AMD's driver for computing.
fn is_amd() -> bool {
    std::path::Path::new("/dev/kfd").exists()
}

/// The ids in the value of such a variable.
pub(crate) fn ids(value: &str) -> impl Iterator<Item = String> {
    value.split(',').map(|id| id.trim().to_owned()).filter(|id| !id.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cards() -> Vec<(u32, Gpu)> {
        vec![(0, Gpu::new("GPU-aa", 8_000)), (1, Gpu::new("GPU-ab", 24_000)), (2, Gpu::new("GPU-b", 8_000))]
    }

    fn found() -> Vec<Gpu> {
        visible(cards(), None)
    }

    #[test]
    fn only_the_cards_that_we_are_shown_ourselves_are_used() {
        let ids = |named: &str| visible(cards(), Some(named)).into_iter().map(|gpu| gpu.id).collect::<Vec<_>>();
        assert_eq!(found().len(), 3);
        assert_eq!(ids("1"), ["GPU-ab"]);
        assert_eq!(ids("GPU-b, 0,0"), ["GPU-b", "GPU-aa"]);
        assert_eq!(ids("2,9,0"), ["GPU-b"], "what is not known ends the list");
        assert!(ids("").is_empty() && ids("-1").is_empty());
    }

    #[test]
    fn no_card_counts_for_more_than_it_has_or_than_was_said() {
        let sizes = |count, vram| allowed(&found(), count, vram).iter().map(|gpu| gpu.vram_mb).collect::<Vec<_>>();
        assert_eq!(sizes(None, None), [8_000, 24_000, 8_000]);
        assert_eq!(sizes(None, Some(16_000)), [8_000, 16_000, 8_000], "16 GB on each card, not in sum");
        assert_eq!(sizes(Some(2), Some(0)), [8_000, 24_000]);
        assert_eq!(sizes(Some(9), None).len(), 3);
    }

    #[test]
    fn where_no_card_is_known_as_many_are_there_as_were_said() {
        let cards = allowed(&[], Some(2), Some(6_000));
        assert_eq!(
            cards.iter().map(|gpu| (gpu.id.as_str(), gpu.vram_mb)).collect::<Vec<_>>(),
            [("0", 6_000), ("1", 6_000)]
        );
        assert!(allowed(&[], None, Some(6_000)).is_empty(), "then video memory is one sum");
    }
}
