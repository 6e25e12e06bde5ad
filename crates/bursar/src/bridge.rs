//! Where jobs and flows meet: a flow that is a job, and jobs that are a node.
//!
//! Room: interface.
//!
//! Both stand on tasks: what cancels or pauses a job does so to the flow in it, and a node that waits for jobs holds no worker.

use std::sync::atomic::{AtomicU64, Ordering};

use sched_flow::{Flow, FlowError, Handle, NodeError, NodeSpec, Payload, try_map};
use sched_jobs::{Ctx, Job, JobError, Jobs, Part, Stopped};

/// A flow as a job: `use` this, and a [`Job`] has [`flow`](Self::flow).
pub trait FlowJob {
    /// Its work is a flow: it succeeds when the flow has delivered everything, and fails if a node [stops the graph](crate::flow::OnError::StopGraph). `make` is called for every attempt.
    ///
    /// Cancelling or pausing the job does so to the flow, and [`Jobs::why`] says what in it waits.
    ///
    /// ```
    /// use bursar::flow::{Flow, Graph, from_iter, map, sink};
    /// use bursar::jobs::{FlowJob, Job, Jobs};
    ///
    /// let jobs = Jobs::builder().build();
    /// jobs.submit_all([
    ///     Job::new("download").run(|_| ()),
    ///     Job::new("count words").needs("download").flow(|| {
    ///         let mut graph = Graph::new("words");
    ///         let lines = graph.add("lines", from_iter(["to be or", "not to be"]));
    ///         let count = graph.add("count", map(|line: &str| line.split(' ').count()));
    ///         let out = graph.add("out", sink(|count: usize| assert_eq!(count, 3)));
    ///         graph.connect(&lines, &count);
    ///         graph.connect(&count, &out);
    ///         Flow::new(graph)
    ///     }),
    /// ])?;
    /// assert_eq!(jobs.wait()?.succeeded, 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use = "a job does nothing until it is submitted"]
    fn flow<E: Into<JobError>>(self, make: impl FnMut() -> Result<Flow, E> + Send + 'static) -> Job;
}

impl FlowJob for Job {
    fn flow<E: Into<JobError>>(self, mut make: impl FnMut() -> Result<Flow, E> + Send + 'static) -> Job {
        self.run(move |ctx| run_flow(ctx, make().map_err(Into::into)?))
    }
}

fn run_flow(ctx: &Ctx<'_>, flow: Flow) -> Result<(), JobError> {
    let handle = flow.handle();
    ctx.explain(move || what_waits(&handle));
    match flow.run() {
        Ok(ended) if ended.drained => Ok(()),
        Ok(_) => Err(JobError::msg("the flow was stopped before everything was delivered")),
        Err(FlowError::Runtime(error)) if error.is_cancelled() => Err(Stopped.into()),
        Err(error) => Err(error.into()),
    }
}

/// Why the first node waits that waits for something else than messages; else the first that waits for something outside.
fn what_waits(handle: &Handle) -> Option<String> {
    use sched_flow::Waits;
    let all: Vec<_> = handle.nodes().filter_map(|node| handle.why(node).ok()).collect();
    let stuck = all.iter().find(|why| {
        why.outside.is_some() || matches!(why.waits, Waits::Room(_) | Waits::Retry(_) | Waits::Itself | Waits::Resume)
    });
    let why = stuck.or_else(|| all.iter().find(|why| matches!(why.waits, Waits::Outside)))?;
    Some(why.to_string())
}

/// A node that has jobs done for every message: `graph` says which. When all of them have ended it emits how many succeeded; if some did not, the message failed, and the
/// [error policy](NodeSpec::on_error) decides.
///
/// The jobs of one message are a [part](crate::jobs::Part) of `jobs`, so those of several nodes and flows share its limits. If the task that runs the flow is cancelled while the node waits, the jobs of that message are. Names
/// of jobs are unique in a scheduler: take [`Job::unnamed`], or put something of the message into the name. With [one worker](crate::flow::FlowBuilder::workers) no other node has a turn
/// while this one waits.
///
/// ```
/// use bursar::flow::{Flow, Graph, from_iter, jobs_for, sink};
/// use bursar::jobs::{Job, Jobs, Summary};
///
/// let jobs = Jobs::builder().cpu_slots(2).build();
/// let mut graph = Graph::new("films");
/// let films = graph.add("films", from_iter(["alpha", "beta"]));
/// let render = graph.add("render", jobs_for(&jobs, |film: &str| {
///     let scenes = (0..3).map(move |i| Job::new(format!("{film}/{i}")).run(|_| ()));
///     scenes.chain([Job::new(format!("{film}/cut")).needs_all((0..3).map(|i| format!("{film}/{i}"))).run(|_| ())])
/// }));
/// let out = graph.add("out", sink(|done: Summary| assert_eq!(done.succeeded, 4)));
/// graph.connect(&films, &render);
/// graph.connect(&render, &out);
/// Flow::builder().register(graph).workers(2).build()?.run()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn jobs_for<T, G>(jobs: &Jobs, mut graph: impl FnMut(T) -> G + Send + 'static) -> NodeSpec
where
    T: Payload,
    G: IntoIterator<Item = Job>,
{
    /// Cancels what is left of a part when its node stops waiting for it.
    struct Waited(Part);
    impl Drop for Waited {
        fn drop(&mut self) {
            self.0.cancel();
        }
    }
    static NODES: AtomicU64 = AtomicU64::new(0);
    let (jobs, node, mut number) = (jobs.clone(), NODES.fetch_add(1, Ordering::Relaxed), 0_u64);
    try_map(move |message: T| {
        number += 1;
        let part = Waited(jobs.part(format!("flow {node}.{number}")));
        part.0.submit_all(graph(message)).map_err(NodeError::from)?;
        part.0.wait().map_err(NodeError::from)
    })
}
