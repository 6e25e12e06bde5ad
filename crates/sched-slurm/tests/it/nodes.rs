//! Whether nodes that are away could have a job.

use std::time::Duration;

use sched_slurm::nodes::{Node, is_about_nodes, note};
use sched_slurm::request::{Request, Site, Terms, VramAs, terms};

fn nodes(state: &str) -> Vec<Node> {
    let lines = [
        "n1|main*|2|4000|idle|(null)|(null)".to_owned(),
        format!("n2|main*|64|256000|{state}|gpu:fake:2(S:0-1),vram:16K|fast,avx"),
        format!("n2|all|64|256000|{state}|gpu:fake:2(S:0-1),vram:16K|fast,avx"),
    ];
    lines.iter().map(|line| Node::read(line).unwrap()).collect()
}

fn wanted(change: impl Fn(&mut Request, &mut Site)) -> Terms {
    let (mut request, mut site) =
        (Request::default(), Site { vram: VramAs::Gres("vram".to_owned()), ..Site::default() });
    change(&mut request, &mut site);
    terms(&site, &request, Duration::ZERO)
}

#[test]
fn a_job_that_a_drained_node_could_run_is_not_refused_and_the_node_is_named() {
    assert!(is_about_nodes("allocation failure: Requested node configuration is not available"));
    assert!(!is_about_nodes("allocation failure: Invalid account"));
    let many = wanted(|request, _| request.cpus = 32);
    for state in ["drained", "draining", "down", "idle*", "maint"] {
        let note = note(&nodes(state), &many).unwrap();
        assert!(note.ends_with(&format!("n2 is {state}")), "{note}");
    }
    for could in [
        wanted(|request, _| request.ram_mb = Some(200_000)),
        wanted(|request, _| request.gpus = 2),
        wanted(|request, _| (request.gpus, request.vram_mb) = (1, 8_000)),
        wanted(|_, site| site.constraint = Some("avx".to_owned())),
        wanted(|_, site| site.constraint = Some("avx&slow".to_owned())),
        wanted(|request, site| (request.cpus, site.partition) = (32, Some("gpu,all".to_owned()))),
        wanted(|request, _| request.tasks = Some(66)),
        wanted(|request, _| request.nodes = Some(2)),
    ] {
        assert!(note(&nodes("drained"), &could).is_some(), "{could:?}");
    }
}

#[test]
fn a_job_that_no_node_in_any_state_could_run_is_refused() {
    for could_not in [
        wanted(|request, _| request.cpus = 65),
        wanted(|request, _| request.ram_mb = Some(300_000)),
        wanted(|request, _| request.gpus = 3),
        wanted(|request, _| request.vram_mb = 20_000),
        wanted(|_, site| site.constraint = Some("slow".to_owned())),
        wanted(|request, site| (request.cpus, site.partition) = (32, Some("gpu".to_owned()))),
        wanted(|request, _| request.tasks = Some(67)),
        wanted(|request, _| request.nodes = Some(3)),
    ] {
        assert_eq!(note(&nodes("drained"), &could_not), None, "{could_not:?}");
    }
    let many = wanted(|request, _| request.cpus = 32);
    assert_eq!(note(&nodes("idle"), &many), None, "nothing is away, so Slurm has another reason");
}
