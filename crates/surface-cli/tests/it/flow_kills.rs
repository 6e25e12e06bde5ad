//! Flows that are killed with SIGKILL, and their programs.

use std::time::Duration;

use crate::flow::site;
use crate::run_site::is_alive;

#[test]
fn a_program_that_left_its_session_and_ignores_term_is_gone_when_its_flow_is_killed() {
    let site = site(
        r#"edges = ["away -> out"]
        [node.away]
        kind = "command"
        run = """trap "" TERM HUP; setsid sh -c 'trap "" TERM HUP; echo $$ > away; while :; do sleep 0.01; done' & echo $$ > leader; while :; do sleep 0.01; done"""
        [node.out]
        kind = "discard"
        "#,
    );
    let (away, leader) = (site.fifo("away"), site.fifo("leader"));
    let run = site.start("flow run flow.toml");
    let pids = [away.wait(), leader.wait()].map(|pid| pid.trim().to_owned());
    assert!(pids.iter().all(|pid| is_alive(pid)), "{pids:?}");
    run.kill();
    let since = std::time::Instant::now();
    while pids.iter().any(|pid| is_alive(pid)) {
        assert!(since.elapsed() < Duration::from_secs(20), "a program outlives its flow: {pids:?}");
        std::thread::yield_now();
    }
}
