//! The critical path: the chain of dependencies that decided when the run ended.
//!
//! Room: decisions.
//!
//! # Invariant
//! The links follow each other in time, and their waits and lengths together are the time from the beginning to the end of the
//! last job. So a job that is not in the list could not have made the run shorter by itself.
//!
//! # Why it holds
//! It starts at the job that ended last and goes to the dependency that ended last, again and again. A job starts after that
//! dependency; what lies between is its wait.

use super::spans::Extent;

/// A job on the critical path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link {
    /// Which job.
    pub job: u32,
    /// From the end of the link before, or the beginning of the run, to its start.
    pub wait_us: u64,
    /// From its start to its end, back-offs and pauses included.
    pub length_us: u64,
}

/// The critical path, first job first. `edges` are pairs of a dependency and its dependent.
///
/// ```
/// use surface_journal::report::{Extent, critical_path};
///
/// let ran = |from_us, to_us| Some(Extent { from_us, to_us });
/// // 0 and 1 run at once; 2 needs both.
/// let path = critical_path(&[ran(0, 5), ran(0, 9), ran(10, 12)], &[(0, 2), (1, 2)]);
/// assert_eq!(path.iter().map(|link| link.job).collect::<Vec<_>>(), [1, 2]);
/// assert_eq!((path[1].wait_us, path[1].length_us), (1, 2));
/// ```
pub fn critical_path(extents: &[Option<Extent>], edges: &[(u32, u32)]) -> Vec<Link> {
    let extent = |job: u32| extents.get(job as usize).copied().flatten();
    // For each job, its dependency that ended last.
    let mut held_by: Vec<Option<(u64, u32)>> = vec![None; extents.len()];
    for &(needed, job) in edges {
        if let (Some(Extent { to_us, .. }), Some(slot)) = (extent(needed), held_by.get_mut(job as usize)) {
            *slot = (*slot).max(Some((to_us, needed)));
        }
    }
    let ends = (0_u32..).zip(extents).filter_map(|(job, extent)| extent.map(|extent| (extent.to_us, job)));
    let mut at = ends.max().map(|(_, job)| job);
    let mut path = Vec::new();
    while let Some(job) = at
        && let Some(Extent { from_us, to_us }) = extent(job)
        && path.len() < extents.len()
    {
        let before = held_by[job as usize];
        let free_us = before.map_or(0, |(end_us, _)| end_us);
        path.push(Link { job, wait_us: from_us.saturating_sub(free_us), length_us: to_us - from_us });
        at = before.map(|(_, needed)| needed);
    }
    path.reverse();
    path
}
