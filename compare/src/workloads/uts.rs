//! An unbalanced tree: a node has four children or none, as its number says. Some subtrees are a thousand times as large as others, so most of the work has to be stolen. 2 workers.
//!
//! Bar: 1.5 × rayon.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::Failure;
use crate::measure::{Plan, Side};
use crate::table::{Bar, Row};
use crate::workloads::peers;

pub const NAME: &str = "uts";
const CHILDREN: u64 = 4;
/// Of 1,000 nodes so many have children: just under a quarter, so the tree ends, but late.
const PARENTS: u64 = 248;

fn hash(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

/// The children of a node.
fn children(number: u64) -> impl Iterator<Item = u64> {
    let count = if hash(number) % 1000 < PARENTS { CHILDREN } else { 0 };
    (1..=count).map(move |index| hash(number ^ hash(index)))
}

/// The children of the root, which has many, so that the size of the tree varies less.
fn roots(count: usize) -> impl Iterator<Item = u64> {
    (0..count as u64).map(|index| hash(hash(index)))
}

fn count(number: u64) -> usize {
    1 + children(number).map(count).sum::<usize>()
}

mod ours {
    use super::*;
    use bursar::prelude::*;

    fn visit(number: u64, nodes: &AtomicUsize) {
        nodes.fetch_add(1, Relaxed);
        if hash(number) % 1000 < PARENTS {
            nursery(|n| {
                for child in children(number) {
                    n.spawn(move || visit(child, nodes));
                }
                Ok(())
            })
            .expect("no node fails");
        }
    }

    pub fn visit_all(runtime: &Runtime, count: usize) -> Result<usize, Failure> {
        let nodes = AtomicUsize::new(0);
        runtime.run(|| {
            nursery(|n| {
                for root in roots(count) {
                    let nodes = &nodes;
                    n.spawn(move || visit(root, nodes));
                }
                Ok(())
            })
        })??;
        Ok(nodes.into_inner())
    }
}

mod with_rayon {
    use super::*;

    fn visit(number: u64, nodes: &AtomicUsize) {
        nodes.fetch_add(1, Relaxed);
        if hash(number) % 1000 < PARENTS {
            rayon::scope(|scope| {
                for child in children(number) {
                    scope.spawn(move |_| visit(child, nodes));
                }
            });
        }
    }

    pub fn visit_all(pool: &rayon::ThreadPool, count: usize) -> usize {
        let nodes = AtomicUsize::new(0);
        pool.install(|| {
            rayon::scope(|scope| {
                for root in roots(count) {
                    let nodes = &nodes;
                    scope.spawn(move |_| visit(root, nodes));
                }
            });
        });
        nodes.into_inner()
    }
}

fn check(visited: usize, nodes: usize) -> Result<(), Failure> {
    if visited == nodes {
        return Ok(());
    }
    Err(format!("the tree has {nodes} nodes, {visited} were visited").into())
}

pub fn run(plan: &Plan) -> Result<Vec<Row>, Failure> {
    let below_root = plan.pick(4_000, 400);
    let nodes = roots(below_root).map(count).sum();
    let runtime = bursar::Runtime::builder().workers(2).build()?;
    let pool = peers::rayon(2)?;
    let [ours, rayon] = plan.best_of(
        nodes,
        [
            Side::new("ours", || check(ours::visit_all(&runtime, below_root)?, nodes)),
            Side::new("rayon", || check(with_rayon::visit_all(&pool, below_root), nodes)),
        ],
    )?;
    Ok(vec![Row::new(NAME, "rayon", [ours, rayon], "ns/node", Bar::Times(1.5))])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_sides_visit_every_node_of_a_tree_that_is_large_and_uneven() {
        let sizes: Vec<usize> = roots(400).map(count).collect();
        let nodes = sizes.iter().sum();
        assert!((10_000..1_000_000).contains(&nodes), "{nodes}");
        assert!(sizes.contains(&1) && sizes.iter().any(|size| *size > 1000), "{sizes:?}");
        let runtime = bursar::Runtime::builder().workers(2).build().expect("two threads");
        check(ours::visit_all(&runtime, 400).expect("no node fails"), nodes).expect("ours");
        check(with_rayon::visit_all(&peers::rayon(2).expect("two threads"), 400), nodes).expect("rayon");
    }
}
