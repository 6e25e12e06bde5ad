/* The C interface of Bursar. The guide is docs/c.md.
 *
 * Generated from the sources of surface-capi. Written anew by:
 *   BLESS=1 cargo test -p bursar-surface-capi --test it header
 *
 * A function that returns a number returns JANUS_OK, or what it says, or a code below 0; one that returns a pointer
 * returns NULL if it fails. janus_last_error says more. Handles are numbers in the form of pointers: they are looked
 * up, never dereferenced, and refused if they are not valid. Everything may be called from any thread and any task,
 * where nothing else is said.
 */

#ifndef JANUS_H
#define JANUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// As a capacity: a channel that is never full.
#define JANUS_CHANNEL_UNBOUNDED SIZE_MAX

// It was done.
#define JANUS_OK 0

// The nursery was cancelled, or the task that called. Clean up and return.
#define JANUS_CANCELLED -1

// A task panicked: see `janus_task_panic`. It used up its stack.
#define JANUS_PANICKED -2

// A budget is spent, and none gives more.
#define JANUS_BUDGET_EXHAUSTED -3

// It has not ended.
#define JANUS_PENDING -4

// A handle is NULL, was destroyed, is of another kind, or was never one.
#define JANUS_INVALID_HANDLE -5

// An argument is NULL or out of range.
#define JANUS_INVALID_ARGUMENT -6

// The channel is closed.
#define JANUS_CLOSED -7

// The channel has no room now.
#define JANUS_FULL -8

// The channel has no value now.
#define JANUS_EMPTY -9

// Time was up first.
#define JANUS_TIMED_OUT -10

// Only what created the nursery may do that.
#define JANUS_NOT_OWNER -11

// A capability is missing, revoked or used up.
#define JANUS_NOT_ALLOWED -12

// The runtime, the nursery or the task is not in a state for that.
#define JANUS_NOT_ACTIVE -13

// Too little stack is left for the call.
#define JANUS_STACK_OVERFLOW -14

// There are no more stacks, threads or handles.
#define JANUS_OUT_OF_RESOURCES -15

// Another thread or task is using it.
#define JANUS_BUSY -16

// Something else failed; `janus_last_error` says what.
#define JANUS_FAILED -17

// Operations.
#define JANUS_COMPONENT_OPS 0

// Bytes.
#define JANUS_COMPONENT_MEMORY 1

// Tasks.
#define JANUS_COMPONENT_SPAWN_COUNT 2

// Operations of channels.
#define JANUS_COMPONENT_CHANNEL_OPS 3

// Calls of the operating system.
#define JANUS_COMPONENT_SYSCALLS 4



// The largest capacity of a channel that has one.
#define JANUS_CHANNEL_CAPACITY_MAX (1 << 24)

// So many cases a select can have.
#define JANUS_SELECT_CASES_MAX 1024

// One word that stops many nurseries.
typedef struct janus_cancel_token_t janus_cancel_token_t;

// A channel: values from many tasks and threads to many. Each value is received once, in the order they were
// sent.
typedef struct janus_channel_t janus_channel_t;

// A nursery: tasks that end before what created it. It belongs to the task that created it, or to the thread.
typedef struct janus_nursery_t janus_nursery_t;

// A runtime: threads that run tasks.
typedef struct janus_scheduler_t janus_scheduler_t;

// Several operations, of which one is to be done. It can be waited for again and again, as in a loop.
typedef struct janus_select_t janus_select_t;

// How a runtime is to be. All zeroes is the default.
typedef struct janus_scheduler_config_t {
  // How many threads run tasks, 1 to 256. 0: one for each CPU.
  uint32_t worker_count;
  // How many threads may run tasks that have a thread to themselves, at a time. 0: 512.
  uint32_t blocking_threads;
  // How much stack a task has: a multiple of the page size, 64 KiB to 1 GiB. 0: 256 KiB. Only what a task
  // touches is taken from memory.
  size_t stack_bytes;
  // If not 0, there are no threads: `janus_scheduler_run` plays all workers on the caller's, in virtual time,
  // and this number decides every choice. The same number, the same run.
  uint64_t deterministic_seed;
} janus_scheduler_config_t;

// What a task runs. 0: it succeeded; else it failed with this code, which cancels its siblings.
typedef int64_t (*janus_task_fn)(void *arg);

// What a task may spend. The largest value of a component means: without limit.
typedef struct janus_budget_t {
  // Operations.
  uint32_t ops;
  // Bytes.
  size_t memory;
  // Tasks that it may start.
  uint16_t spawn_count;
  // Values that it may send and receive.
  uint16_t channel_ops;
  // Calls of the operating system.
  uint16_t syscalls;
} janus_budget_t;

// How a nursery is to be. All zeroes is the default.
typedef struct janus_nursery_config_t {
  // A name for messages, or NULL.
  const char *name;
  // What its tasks may spend in all, or NULL. It comes out of the budget of the task that creates it. Its
  // `spawn_count` is for tasks of this nursery; for nurseries that its tasks create give them a `task_budget`
  // with
  // one.
  const struct janus_budget_t *budget;
  // What each of its tasks may spend, or NULL: up to 10000 operations, 1 MiB, 100 channel operations, 10
  // calls of the operating system and no spawns at a time, and more of what it had while `budget` has some.
  const struct janus_budget_t *task_budget;
  // How much its tasks may give themselves by `janus_budget_recharge`, in all; or NULL. It comes out of the
  // `reserve` of what is around; where that has a budget and no `reserve`, it is refused.
  const struct janus_budget_t *reserve;
  // Everything in it is cancelled after this time. 0: never.
  uint64_t timeout_nanoseconds;
  // How long tasks may go on after a cancellation before calls that wait say `JANUS_CANCELLED`. 0: not at
  // all.
  uint64_t grace_nanoseconds;
  // How many tasks may be started in it in all. 0: any number.
  uint64_t spawn_limit;
  // When a task fails, the others go on.
  bool others_go_on;
  // Tasks that have spent their `task_budget` get more while the nursery has some.
  bool recharges;
  // Tasks that have spent their budget wait for an answer: see `janus_supervisor_poll_exhausted`.
  bool is_supervised;
} janus_nursery_config_t;

// A task of a nursery: a number that the nursery knows it by. 0 is none.
typedef uint64_t janus_task_t;

// The same without an argument.
typedef int64_t (*janus_task_noarg_fn)(void);

// How a task is to be. All zeroes is the default.
typedef struct janus_task_config_t {
  // A name for messages, or NULL.
  const char *name;
  // How much stack it has, if that is more than usual; up to 1 GiB, rounded up to a power of two.
  size_t stack_bytes;
  // It has a thread to itself, and may block that: in a system call, in a library.
  bool on_thread;
} janus_task_config_t;

// A task that has spent its budget, and waits for an answer.
typedef struct janus_exhausted_t {
  // Which task.
  janus_task_t task;
  // Of what: one of `JANUS_COMPONENT_…`.
  uint32_t component;
  // How much it was given in all.
  uint64_t granted;
  // How much more it needs at least.
  uint64_t missing;
} janus_exhausted_t;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Starts the runtime of the whole program, with so many workers (0: one for each CPU). Each call needs a
// `janus_rt_shutdown` of its own; the first one counts for the number of workers.
int32_t janus_rt_init(uint32_t worker_count);

// Takes back one `janus_rt_init`. The last one cancels everything that runs on the runtime, waits for it, and
// ends the threads. From one of its tasks it does not wait, and returns 0 at once: the task is cancelled as
// all others
// are, and the rest is done when it has returned. In a fork it lets go of the parent's runtime, and waits for
// nothing.
int32_t janus_rt_shutdown(void);

// Starts another runtime. NULL if that is not possible.
struct janus_scheduler_t *janus_scheduler_create(struct janus_scheduler_config_t config);

// Cancels everything that runs on a runtime, waits for it, and ends the threads. The handle is not valid any
// more. From one of its tasks, and in a fork, it does not wait: see `janus_rt_shutdown`.
int32_t janus_scheduler_shutdown(struct janus_scheduler_t *scheduler);

// Runs a function as a task of a runtime, waits for it and for all that it opened, and returns its code.
// The caller promises: `task` may be called with `arg`, on any thread.
int64_t janus_scheduler_run(struct janus_scheduler_t *scheduler, janus_task_fn task, void *arg);

// Lets other tasks run first. `JANUS_CANCELLED` if the caller is to stop.
int32_t janus_scheduler_yield(void);

// Stops the caller for a while; other tasks run meanwhile.
int32_t janus_scheduler_sleep(uint64_t nanoseconds);

// What the last call of this task, or of this thread outside of tasks, that failed had to say: what was
// wrong, the limit, and a way out. Copies at most `length` bytes to `buffer`, a NUL among them, and returns
// how long the text is without it.
// The caller promises: `buffer` is NULL, or `length` bytes may be written there.
size_t janus_last_error(char *buffer,
                        size_t length);

// The version of the library, as "0.1.0".
const char *janus_version(void);

// Says that the running task panicked, and why: whatever it returns, it has failed with `JANUS_PANICKED`.
// Return from the task function after it.
// The caller promises: `message` is NULL, or a text that ends with a NUL.
int32_t janus_task_panic(const char *message);

// Whether the running task is to stop: 1 or 0. For computations that call nothing else; every call that waits
// says so as well.
int32_t janus_task_is_cancelled(void);

// What the running task may still spend; without limit if it has no budget, and outside of tasks.
struct janus_budget_t janus_budget_get_current(void);

// Gives the running task so much more, out of the `reserve` of its nursery: as much as that has left.
int32_t janus_budget_recharge(struct janus_budget_t amount);

// Pays for so many operations of the running task's own. If it has not so much left it waits for an answer,
// or the call returns `JANUS_BUDGET_EXHAUSTED`; then every further call does, and the task ends with
// that code.
int32_t janus_budget_charge(uint32_t ops);

// Creates a nursery inside that of the caller: in a task on its runtime, else on that of `janus_rt_init`.
// NULL if that is not possible. What the caller does until it is destroyed is inside it: when it is
// cancelled, because a task of it failed, calls that wait return `JANUS_CANCELLED`.
struct janus_nursery_t *janus_nursery_create(void);

// The same on the runtime `scheduler`.
struct janus_nursery_t *janus_nursery_create_on(struct janus_scheduler_t *scheduler);

// The same as `config` says, on the runtime `scheduler` if that is not NULL.
// The caller promises: `config` is NULL, or points to a config whose pointers are NULL or point to what their
// types say.
struct janus_nursery_t *janus_nursery_create_with(struct janus_scheduler_t *scheduler,
                                                  const struct janus_nursery_config_t *config);

// Starts a task. 0 if the nursery does not take it. Any task or thread may start one.
// The caller promises: `task` may be called with `arg`, on any thread.
janus_task_t janus_nursery_spawn(struct janus_nursery_t *nursery, janus_task_fn task, void *arg);

// The same for a function without an argument.
// The caller promises: `task` may be called, on any thread.
janus_task_t janus_nursery_spawn_noarg(struct janus_nursery_t *nursery, janus_task_noarg_fn task);

// The same as `janus_nursery_spawn`, as `config` says: with a name, more stack, or a thread of its own.
// The caller promises: `task` may be called with `arg`, on any thread. `config` is NULL, or points to a
// config whose name is NULL or a text that ends with a NUL.
janus_task_t janus_nursery_spawn_with(struct janus_nursery_t *nursery,
                                      janus_task_fn task,
                                      void *arg,
                                      const struct janus_task_config_t *config);

// Starts a task in the nursery that the caller created last and has not destroyed.
// The caller promises: `task` may be called with `arg`, on any thread.
int32_t janus_scheduler_spawn(janus_task_fn task, void *arg);

// Waits for one task, and returns its code: 0, what its function returned, or a code below 0. Asked again it
// says the same. Any task or thread may wait.
int64_t janus_nursery_await(struct janus_nursery_t *nursery,
                            janus_task_t task);

// Waits for all tasks, and ends the nursery: it takes no more. Returns 0 if all succeeded; `JANUS_CANCELLED`;
// the code of the first task that failed; `JANUS_PANICKED`; `JANUS_BUDGET_EXHAUSTED`;
// `JANUS_OUT_OF_RESOURCES` if there was no
// stack or thread for a task. Asked again it says the same. Only what created the nursery waits: any other
// gets the code if it has ended, else `JANUS_PENDING`.
int64_t janus_nursery_await_all(struct janus_nursery_t *nursery);

// The same without waiting: `JANUS_PENDING` while a task has not ended.
int64_t janus_nursery_poll(struct janus_nursery_t *nursery);

// Tells all tasks of the nursery to stop, and what its owner does meanwhile. Does not wait. Any task or
// thread may do that.
int32_t janus_nursery_cancel(struct janus_nursery_t *nursery);

// Cancels what still runs in the nursery, waits for it, and lets go of the handle. Nurseries that were
// created inside it end first. Only what created it may do that, or any once it has ended. In a fork it waits
// for nothing.
int32_t janus_nursery_destroy(struct janus_nursery_t *nursery);

// How many tasks of the nursery have not ended, or a code below 0. A task that has just ended may still be
// counted.
int64_t janus_nursery_task_count(struct janus_nursery_t *nursery);

// Whether the nursery was cancelled: 1, 0, or a code below 0.
int32_t janus_nursery_is_cancelled(struct janus_nursery_t *nursery);

// A task of the nursery that has spent its budget, waits for an answer, and was not told of before. 1 if
// there is one, 0 if not, or a code below 0. Tasks wait for an answer if the nursery `is_supervised`, or from
// the first call of this function on.
// The caller promises: `exhausted` may be written to.
int32_t janus_supervisor_poll_exhausted(struct janus_nursery_t *nursery,
                                        struct janus_exhausted_t *exhausted);

// The same, and waits so long for one.
// The caller promises: As for `janus_supervisor_poll_exhausted`.
int32_t janus_supervisor_wait_exhausted(struct janus_nursery_t *nursery,
                                        uint64_t timeout_nanoseconds,
                                        struct janus_exhausted_t *exhausted);

// Gives a task that waits for an answer so much more, out of the budget of the nursery: as much as that has
// left.
int32_t janus_budget_recharge_child(struct janus_nursery_t *nursery,
                                    janus_task_t task,
                                    struct janus_budget_t amount);

// Refuses a task that waits for an answer: its call returns `JANUS_BUDGET_EXHAUSTED`.
int32_t janus_supervisor_refuse(struct janus_nursery_t *nursery, janus_task_t task);

// Makes a channel for so many values. With 0 a sender waits until its value is taken; with
// `JANUS_CHANNEL_UNBOUNDED` it never waits. NULL if that is not possible.
struct janus_channel_t *janus_channel_create(size_t capacity);

// Sends a value, and waits while the channel is full. `JANUS_CLOSED` if it is closed: then the value was not
// sent.
int32_t janus_channel_send(struct janus_channel_t *channel,
                           int64_t value);

// The same, and waits so long at most: `JANUS_TIMED_OUT`.
int32_t janus_channel_send_timeout(struct janus_channel_t *channel,
                                   int64_t value,
                                   uint64_t timeout_nanoseconds);

// The same without waiting: `JANUS_FULL`.
int32_t janus_channel_try_send(struct janus_channel_t *channel, int64_t value);

// Takes the oldest value, and waits for one. `JANUS_CLOSED` if the channel is closed and everything was
// received; then `value` is left as it is, as with every other code.
// The caller promises: `value` may be written to.
int32_t janus_channel_recv(struct janus_channel_t *channel,
                           int64_t *value);

// The same, and waits so long at most: `JANUS_TIMED_OUT`.
// The caller promises: `value` may be written to.
int32_t janus_channel_recv_timeout(struct janus_channel_t *channel,
                                   int64_t *value,
                                   uint64_t timeout_nanoseconds);

// The same without waiting: `JANUS_EMPTY`.
// The caller promises: `value` may be written to.
int32_t janus_channel_try_recv(struct janus_channel_t *channel, int64_t *value);

// Closes a channel: nothing can be sent any more. What was sent can be received.
int32_t janus_channel_close(struct janus_channel_t *channel);

// Whether a channel is closed: 1, 0, or a code below 0.
int32_t janus_channel_is_closed(struct janus_channel_t *channel);

// How many values are in a channel, or a code below 0.
int64_t janus_channel_len(struct janus_channel_t *channel);

// Closes a channel and lets go of the handle. Those that wait for it get `JANUS_CLOSED`.
int32_t janus_channel_destroy(struct janus_channel_t *channel);

// Makes a token. NULL if that is not possible.
struct janus_cancel_token_t *janus_cancel_token_create(void);

// Cancels everything that is attached to a token, now and later, and wakes those that wait for it. Again it
// does nothing.
int32_t janus_cancel_token_cancel(struct janus_cancel_token_t *token);

// Whether a token was cancelled: 1, 0, or a code below 0.
int32_t janus_cancel_token_is_cancelled(struct janus_cancel_token_t *token);

// Has a nursery cancelled when the token is; at once if that was before.
int32_t janus_cancel_token_attach(struct janus_cancel_token_t *token, struct janus_nursery_t *nursery);

// Waits until a token is cancelled, so long at most: `JANUS_OK` if it is, else `JANUS_TIMED_OUT`.
int32_t janus_cancel_token_wait(struct janus_cancel_token_t *token, uint64_t timeout_nanoseconds);

// Lets go of the handle, and cancels nothing.
int32_t janus_cancel_token_destroy(struct janus_cancel_token_t *token);

// Makes a select without cases. NULL if that is not possible.
struct janus_select_t *janus_select_create(void);

// Adds a case that receives. Returns its number, counted from 0, or a code below 0.
int32_t janus_select_add_recv(struct janus_select_t *select, struct janus_channel_t *channel);

// Adds a case that sends a value, the same each time it is waited for. Returns its number, or a code below 0.
int32_t janus_select_add_send(struct janus_select_t *select, struct janus_channel_t *channel, int64_t value);

// Adds a case that is done when the token is cancelled. Returns its number, or a code below 0.
int32_t janus_select_add_cancel(struct janus_select_t *select, struct janus_cancel_token_t *token);

// Adds a case that is done when no other could be for so long, counted from each wait. Of several the
// shortest counts. Returns its number, or a code below 0.
int32_t janus_select_add_timeout(struct janus_select_t *select,
                                 uint64_t timeout_nanoseconds);

// Adds a case that is done when no other can be done now. Returns its number, or a code below 0.
int32_t janus_select_add_default(struct janus_select_t *select);

// Does one of the cases, and waits until that is possible; of several that are possible, one by chance.
// Returns its number, or a code below 0. A case on a closed channel is possible: see
// `janus_select_get_status`.
int32_t janus_select_wait(struct janus_select_t *select);

// How the case went that was done last: `JANUS_OK`, or `JANUS_CLOSED`.
int32_t janus_select_get_status(struct janus_select_t *select);

// The value that was received last. `JANUS_CLOSED` if the channel is closed; `JANUS_NOT_ACTIVE` if what was
// done last did not receive.
// The caller promises: `value` may be written to.
int32_t janus_select_get_recv_value(struct janus_select_t *select,
                                    int64_t *value);

// Lets go of the handle. One that waits for it goes on to wait.
int32_t janus_select_destroy(struct janus_select_t *select);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* JANUS_H */

/* A task function returns int64_t. One that returns int would be called all the same, and half of its result would be
 * chance: so it does not compile. What follows the function may be literals with commas. */
#if !defined(__cplusplus) && defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L
#define JANUS_TASK_FN(task) _Generic((task), janus_task_fn: (task))
#define JANUS_TASK_NOARG_FN(task) _Generic((task), janus_task_noarg_fn: (task))
#define janus_nursery_spawn(nursery, task, ...) janus_nursery_spawn(nursery, JANUS_TASK_FN(task), __VA_ARGS__)
#define janus_nursery_spawn_with(nursery, task, ...) janus_nursery_spawn_with(nursery, JANUS_TASK_FN(task), __VA_ARGS__)
#define janus_nursery_spawn_noarg(nursery, task) janus_nursery_spawn_noarg(nursery, JANUS_TASK_NOARG_FN(task))
#define janus_scheduler_spawn(task, ...) janus_scheduler_spawn(JANUS_TASK_FN(task), __VA_ARGS__)
#define janus_scheduler_run(scheduler, task, ...) janus_scheduler_run(scheduler, JANUS_TASK_FN(task), __VA_ARGS__)
#endif
