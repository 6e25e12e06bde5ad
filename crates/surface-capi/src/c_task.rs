//! Where tasks of C are spawned: the place that lines about a task name which the runtime writes itself.
//!
//! Room: surface.

use sched_tasks::{OpenNursery, OpenTask, TaskError};

use crate::tasks::TaskOptions;

/// Starts a task.
pub(crate) fn spawn(
    nursery: &OpenNursery,
    options: TaskOptions,
    body: impl FnOnce() -> Result<(), TaskError> + Send + 'static,
) -> Result<OpenTask<()>, TaskError> {
    let TaskOptions { name, stack_bytes, on_thread } = options;
    if name.is_none() && stack_bytes == 0 && !on_thread {
        return nursery.try_spawn(body);
    }
    let mut builder = nursery.task().stack_bytes(stack_bytes);
    if let Some(name) = name {
        builder = builder.name(name);
    }
    if on_thread {
        builder = builder.on_thread();
    }
    builder.try_spawn(body)
}
