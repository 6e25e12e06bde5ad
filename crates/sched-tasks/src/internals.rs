//! Functions for schedulers built on tasks, as `sched-actors` is. Not for users: they change without notice.
//!
//! Room: interface.
//!
//! Each does what a task of a user must not: spend nothing, ignore a cancellation, or act for another task. Where a
//! public function suffices, there is none here.

use std::{
    future::Future,
    panic::Location,
    time::{Duration, Instant},
};

use policy_admission::Profile;
use policy_cpu::ContextSpec;

use crate::{
    channel::{Receiver, Sender},
    context::{Context, Overrun},
    error::{Reason, TaskError},
    options::NurseryOptions,
    scope::{Nursery, OpenNursery, Task},
    spending::BudgetSupervisor,
    strand,
    strand::{panics, until},
    task_builder::TaskBuilder,
    wait::{self, End},
};

pub use crate::convert::{AnyError, IntoError, kind, mark, with_mark};
pub use crate::lending::{LendError, Loan, lend};

/// Whether the [`CapBudget`](crate::CapBudget) of a nursery adds nothing there: something around limits it, and has it from another ledger.
pub fn has_foreign_reserve(nursery: &OpenNursery) -> bool {
    nursery.core().credentials().is_some_and(|credentials| credentials.has_foreign_reserve())
}

/// The name of the nursery that reports an error, if it has one.
pub fn nursery_of(error: &TaskError) -> Option<&str> {
    error.nursery()
}

/// For a process that may be a fork: leaves the open nurseries that the calling thread has from before, without ending them. True if the caller is itself a task of the parent process: it must
/// not wait, because in a fork nothing runs beside it.
pub fn leave_parents_nurseries() -> bool {
    strand::with(|strand| {
        if strand.running.get().is_some() {
            return strand.runtime().is_some_and(|shared| shared.check_process().is_err());
        }
        strand.leave_parents_nurseries();
        false
    })
}

/// Starts a task that is labelled with `site`: where a child was described, not the line of the supervisor that starts it again.
pub fn try_spawn_at<'scope, F, T>(
    task: TaskBuilder<'scope, '_>,
    site: &'static Location<'static>,
    body: F,
) -> Task<'scope, T>
where
    F: FnOnce() -> Result<T, TaskError> + Send + 'scope,
    T: Send + 'scope,
{
    task.try_spawn_at(site, body)
}

/// Starts a task on a thread of its own, beside those of the pool: it ends with the task, so the task may change what the system knows of it.
pub fn try_spawn_apart<'scope, F, T>(
    n: &'scope Nursery<'scope, '_>,
    site: &'static Location<'static>,
    name: &str,
    body: F,
) -> Task<'scope, T>
where
    F: FnOnce() -> Result<T, TaskError> + Send + 'scope,
    T: Send + 'scope,
{
    n.start_apart(site, name, body)
}

/// Sleeps until `at`, as [`sleep`](crate::sleep) does. On a thread that sets the timer itself: no other thread, which might wait for a CPU, is in between.
pub fn sleep_until(at: Instant) {
    strand::with(|strand| {
        strand.stand_still_if_paused();
        let token = strand.token();
        let end = match strand.worker {
            None => until::wait_by_itself(strand, token, at),
            Some(_) => wait::wait(strand, token, Some(at)),
        };
        if end == End::Cancelled {
            strand.unwind();
        }
        strand.stand_still_if_paused();
    });
}

/// Starts a future that no budget stops: a supervisor learns of the end of a child through one.
pub fn spawn_free<'scope, F>(
    n: &'scope Nursery<'scope, '_>,
    site: &'static Location<'static>,
    future: F,
) -> Task<'scope, ()>
where
    F: Future<Output = ()> + Send + 'scope,
{
    n.spawn_free(site, future)
}

/// The profile around `n` that has no actors, if there is one.
pub fn no_actors(n: &Nursery<'_, '_>) -> Option<Profile> {
    n.core().no_actors()
}

/// Fails `n` with the error of a child that was not even started.
pub fn fail(n: &Nursery<'_, '_>, error: TaskError) {
    n.core().child_failed(error);
}

/// The options of a nursery whose owner acts for the nursery around it: a supervisor.
pub fn supervising(mut options: NurseryOptions) -> NurseryOptions {
    options.supervises = true;
    options
}

/// Sets the function that is called when a task asks `supervisor` for budget: a supervisor waits for other inputs at
/// the same time. One notifier a nursery.
pub fn set_notifier(supervisor: &BudgetSupervisor, notify: impl Fn() + Send + Sync + 'static) {
    supervisor.set_notifier(notify);
}

/// One more sender, made from the receiver; if there was none left, the channel is closed already.
pub fn sender<T>(receiver: &Receiver<T>) -> Sender<T> {
    receiver.sender()
}

/// Sends if there is room, for the runtime: the task is neither charged nor unwound.
pub fn put<T>(sender: &Sender<T>, value: T) -> bool {
    sender.put(value)
}

/// Takes the oldest value if there is one, for the runtime: the task is neither charged nor unwound.
pub fn take<T>(receiver: &Receiver<T>) -> Option<T> {
    receiver.core().try_recv().ok()
}

/// Does not charge the task while `body` runs: it works for the runtime.
pub fn uncharged<R>(body: impl FnOnce() -> R) -> R {
    strand::with(|strand| strand.meter.while_off(body))
}

/// Runs a hook or a destructor of a user, also while the task unwinds. A panic ends here; the panic hook has reported
/// it.
pub fn apart(body: impl FnOnce()) {
    panics::apart(body).unwrap_or_else(panics::discard);
}

/// The error of something that was cancelled and is no task.
pub fn cancelled() -> TaskError {
    TaskError::new(Reason::Cancelled, None)
}

/// The error of tasks that have used up their CPU time, where that ends them.
pub fn cpu_time_spent(budget: Duration, period: Duration) -> TaskError {
    TaskError::new(Reason::CpuTimeSpent { budget, period }, None)
}

/// A context as `policy-cpu` has it; none if budget, deadline and period are not in order.
pub fn context_spec(context: &Context) -> Option<ContextSpec> {
    context.spec()
}

/// The same, in order or not.
pub fn context_asked(context: &Context) -> ContextSpec {
    context.asked()
}

/// What happens when a context has no time left.
pub fn context_overrun(context: &Context) -> Overrun {
    context.overrun()
}
