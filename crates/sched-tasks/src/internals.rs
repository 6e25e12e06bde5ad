//! Functions for schedulers built on tasks, as `sched-actors` is. Not for users: they change without notice.
//!
//! Room: interface.
//!
//! Each does what a task of a user must not: spend nothing, ignore a cancellation, or act for another task. Where a
//! public function suffices, there is none here.

use std::{future::Future, panic::Location};

use policy_admission::Profile;

use crate::{
    channel::{Receiver, Sender},
    error::{Reason, TaskError},
    options::NurseryOptions,
    scope::{Nursery, Task},
    spending::BudgetSupervisor,
    strand,
    strand::panics,
    task_builder::TaskBuilder,
};

pub use crate::convert::{AnyError, IntoError, kind, mark, with_mark};

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
