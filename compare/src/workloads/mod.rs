//! The workloads, one a file: ours first, the peers below it, then the bars.

mod budgeted;
mod budgets;
mod cancels;
mod cluster_edge;
mod cluster_jobs;
mod commands;
mod dag;
mod echo;
mod fib;
mod flow_chain;
mod flow_control;
mod flow_fan;
mod flow_memory;
mod flow_parallel;
mod http;
mod island;
mod janus;
mod janus_checks;
mod janus_compile;
mod janus_fib;
mod janus_loops;
mod janus_primes;
mod janus_spawn;
mod jobs;
mod nurseries;
mod park_fibers;
mod park_futures;
mod peers;
mod pick;
mod pingpong;
pub mod process_scale;
mod reach;
mod scale;
mod selects;
mod serve;
mod shares;
mod sim;
mod skynet;
mod sleeps;
mod spawn;
mod steal;
mod stream;
mod switch;
mod thread_scale;
mod turns;
mod uts;
mod yields;

use crate::Failure;
use crate::measure::Plan;
use crate::table::Row;

/// Something to do, on every side.
#[derive(Debug)]
pub struct Workload {
    /// What the command line and the JSON call it.
    pub name: &'static str,
    /// One line for `--list`.
    pub about: &'static str,
    /// Measures it.
    pub run: fn(&Plan) -> Result<Vec<Row>, Failure>,
}

/// Every workload, in the order of the table.
pub const ALL: &[Workload] = &[
    Workload { name: switch::NAME, about: "enter a bare fiber and come back", run: switch::run },
    Workload { name: yields::NAME, about: "2 tasks take turns on 1 worker", run: yields::run },
    Workload { name: spawn::NAME, about: "spawn and join 1 M empty tasks", run: spawn::run },
    Workload { name: skynet::NAME, about: "a tree of tasks, 10 children each", run: skynet::run },
    Workload { name: uts::NAME, about: "an unbalanced tree of tasks", run: uts::run },
    Workload { name: nurseries::NAME, about: "a nursery with one child, in a loop", run: nurseries::run },
    Workload { name: fib::NAME, about: "fork-join without a cutoff", run: fib::run },
    Workload { name: pingpong::NAME, about: "channel round trip, 1 worker", run: pingpong::run },
    Workload { name: stream::NAME, about: "messages through one channel", run: stream::run },
    Workload { name: selects::NAME, about: "select! over 4 busy channels", run: selects::run },
    Workload { name: sleeps::NAME, about: "100,000 sleeps of 0 to 100 ms", run: sleeps::run },
    Workload { name: cancels::NAME, about: "100,000 waiting tasks are cancelled", run: cancels::run },
    Workload { name: park_fibers::NAME, about: "memory of 1 M parked fibers", run: park_fibers::run },
    Workload { name: park_futures::NAME, about: "memory of 1 M parked futures", run: park_futures::run },
    Workload { name: steal::NAME, about: "publish to start on an idle worker", run: steal::run },
    Workload { name: scale::NAME, about: "2 workers over 1, CPU-bound", run: scale::run },
    Workload {
        name: thread_scale::NAME,
        about: "primes on 1, 2, 4 … workers: work and cost apart",
        run: thread_scale::run,
    },
    Workload { name: process_scale::NAME, about: "the same split over processes", run: process_scale::run },
    Workload { name: shares::NAME, about: "groups of tasks with weights: how far from their shares", run: shares::run },
    Workload { name: turns::NAME, about: "100 tasks of 20 µs turns: most over least", run: turns::run },
    Workload {
        name: island::NAME,
        about: "a task of 1 ms periods beside busy loops: missed deadlines",
        run: island::run,
    },
    Workload { name: pick::NAME, about: "EEVDF: choose of n and queue again", run: pick::run },
    Workload { name: sim::NAME, about: "events of a simulated machine of 64 CPUs", run: sim::run },
    Workload { name: budgets::NAME, about: "spawn with budgets and capabilities", run: budgets::run },
    Workload { name: budgeted::NAME, about: "tight loops with yield checks", run: budgeted::run },
    Workload { name: dag::NAME, about: "a graph of 1 M empty jobs, 3 needs each", run: dag::run },
    Workload { name: jobs::NAME, about: "1 M empty jobs that need nothing", run: jobs::run },
    Workload { name: commands::NAME, about: "10,000 commands, journaled, 2 at a time", run: commands::run },
    Workload { name: reach::NAME, about: "a pause and a cancellation reach into a job", run: reach::run },
    Workload { name: flow_chain::NAME, about: "1 M messages through 10 nodes, 1 thread", run: flow_chain::run },
    Workload { name: flow_parallel::NAME, about: "the same chain, 2 workers", run: flow_parallel::run },
    Workload { name: flow_fan::NAME, about: "1 M messages dealt to 8 nodes, and merged", run: flow_fan::run },
    Workload { name: flow_control::NAME, about: "a control message under full load", run: flow_control::run },
    Workload { name: flow_memory::NAME, about: "allocations per message; 10^3 to 10^6 of them", run: flow_memory::run },
    Workload { name: echo::NAME, about: "a TCP server on one worker, 1 to 1,000 connections", run: echo::run },
    Workload { name: http::NAME, about: "an HTTP server by hyper, the same", run: http::run },
    Workload { name: janus_fib::NAME, about: "fib(32) in Janus, as machine code", run: janus_fib::run },
    Workload { name: janus_primes::NAME, about: "trial division in Janus", run: janus_primes::run },
    Workload { name: janus_loops::NAME, about: "nested loops in Janus", run: janus_loops::run },
    Workload { name: janus_checks::NAME, about: "Janus with budget checks and without", run: janus_checks::run },
    Workload { name: janus_spawn::NAME, about: "1 M tasks spawned by Janus", run: janus_spawn::run },
    Workload { name: janus_compile::NAME, about: "10,000 lines of Janus, compiled", run: janus_compile::run },
];

/// Those that need the daemons of `cargo xtask compare cluster`: measured only when they are named.
pub const ON_CLUSTER: &[Workload] = &[
    Workload {
        name: cluster_jobs::NAME,
        about: "1,000 jobs of `true` in 10 layers on a Slurm cluster",
        run: cluster_jobs::run,
    },
    Workload { name: cluster_edge::NAME, about: "messages of 100 bytes over a NATS server", run: cluster_edge::run },
];

/// The name of all of [`ON_CLUSTER`].
pub const CLUSTER: &str = "cluster";

/// The workloads of that name.
pub fn find(name: &str) -> Result<Vec<&'static Workload>, Failure> {
    if name == CLUSTER {
        return Ok(ON_CLUSTER.iter().collect());
    }
    let every = || ALL.iter().chain(ON_CLUSTER);
    match every().find(|workload| workload.name == name) {
        Some(workload) => Ok(vec![workload]),
        None => {
            let known: Vec<_> = every().map(|workload| workload.name).chain([CLUSTER]).collect();
            Err(format!("no workload is called `{name}`; there are: {}", known.join(" ")).into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_need_no_escape() {
        for workload in ALL.iter().chain(ON_CLUSTER) {
            let plain = |byte: u8| byte.is_ascii_lowercase() || byte == b'-';
            assert!(workload.name.bytes().all(plain), "{}", workload.name);
        }
    }

    #[test]
    fn cluster_names_both_and_no_list_names_one_twice() {
        let names = |name| find(name).expect("it is known").iter().map(|workload| workload.name).collect::<Vec<_>>();
        assert_eq!(names(CLUSTER), ["cluster-jobs", "cluster-edge"]);
        assert_eq!(names("cluster-edge"), ["cluster-edge"]);
        assert!(ON_CLUSTER.iter().all(|workload| !ALL.iter().any(|other| other.name == workload.name)));
    }

    #[test]
    fn an_unknown_name_is_answered_with_the_known_ones() {
        let error = find("yeild").expect_err("it is misspelt").to_string();
        assert_eq!(
            error,
            "no workload is called `yeild`; there are: switch yield spawn skynet uts nursery fib pingpong \
             stream select sleeps cancel park-fibers park-futures steal scale thread-scale process-scale shares turns island pick sim budgets budgeted dag jobs commands reach flow-chain \
             flow-parallel flow-fan flow-control flow-memory echo http janus-fib janus-primes janus-loops janus-checks janus-spawn janus-compile \
             cluster-jobs cluster-edge cluster"
        );
    }
}
