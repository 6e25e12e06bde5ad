//! Bursar schedules tasks: closures that may block without blocking a thread, and futures, on workers that steal from each other. Every task belongs to a
//! [`nursery`], which does not return before all its tasks have ended. So tasks may borrow from the code that started them, errors have somewhere to go,
//! and cancelling a nursery cancels the whole tree inside it, destructors and all.
//!
//! Room: interface.
//!
//! ```
//! use bursar::prelude::*;
//!
//! let words = vec!["alpha".to_string(), "beta".to_string()];
//! let lengths: Vec<usize> = nursery(|n| {
//!     let tasks: Vec<_> = words.iter().map(|word| n.spawn(|| word.len())).collect(); // borrows `words`
//!     tasks.into_iter().map(Task::join).collect()
//! })?; // here every task has ended
//! assert_eq!(lengths, [5, 4]);
//! # Ok::<(), TaskError>(())
//! ```
//!
//! | to | use |
//! |---|---|
//! | run something on all CPUs | [`run`], [`nursery`], [`Nursery::spawn`], [`join`] |
//! | wait without blocking a thread | [`channel`], [`select!`], [`sleep`], [`sync`], [`net`], [`fs`] |
//! | call code that blocks a thread | [`unblock`] |
//! | run a task that blocks its thread all the time | [`on_thread`](task::TaskBuilder::on_thread) |
//! | use futures, yours or other people's | [`Nursery::spawn_async`], [`block_on`] |
//! | stop in time | [`Nursery::timeout`], [`Nursery::deadline`], [`Nursery::cancel`], [`timeout`], [`shield`] |
//! | limit what a tenant may spend | [`NurseryOptions::budget`], [`budgeted`], [`charge`](budget::charge), [`BudgetedAlloc`](budget::BudgetedAlloc) |
//! | limit what a tenant may do | [`Ledger`](capability::Ledger), [`Cap`](capability::Cap), [`NurseryOptions::capability`], [`Profile`](capability::Profile) |
//! | run a graph of heavy jobs within CPU, RAM and VRAM | [`jobs`] |
//! | pass messages through a graph of nodes, with backpressure | [`flow`] |
//! | keep things running that fail | [`actor::Supervisor`] |
//! | run something in every period, on a CPU of its own | [`cpu::Island`] |
//! | run plug-ins that cannot hog, from a text | `janus`, with the feature of that name |
//! | follow the profiles of CPU time that an operator writes | `policy`, with the feature of that name |
//! | choose workers and stacks, and count | [`Runtime::builder`], [`Runtime::stats`] |
//! | find a bug that depends on the order of things, and keep it | [`explore`], [`Builder::seeded`], [`Trace`](determinism::Trace) |
//!
//! # Guide
//!
//! 1. [Tasks and nurseries](#tasks-and-nurseries)
//! 2. [Failing and cancelling](#failing-and-cancelling)
//! 3. [Blocking](#blocking)
//! 4. [Channels and select](#channels-and-select)
//! 5. [Futures](#futures)
//! 6. [Fork-join](#fork-join)
//! 7. [Timeouts and deadlines](#timeouts-and-deadlines)
//! 8. [Shields](#shields)
//! 9. [Budgets](#budgets)
//! 10. [Capabilities and profiles](#capabilities-and-profiles)
//! 11. [Actors and supervisors](#actors-and-supervisors)
//! 12. [Choosing a runtime](#choosing-a-runtime)
//! 13. [Finding what depends on the order](#finding-what-depends-on-the-order)
//! 14. [Stack overflow](#stack-overflow)
//! 15. [What it costs](#what-it-costs)
//! 16. [Limits and guarantees](#limits-and-guarantees)
//!
//! ## Tasks and nurseries
//!
//! [`nursery`] opens a scope. What is spawned into it may borrow everything that outlives the call, and has ended when the call returns. A [`Task`] hands the
//! result over when it is [joined](Task::join); if it is dropped the task goes on, and the nursery waits for it all the same.
//!
//! Tasks may spawn into the nursery they are in, and open nurseries of their own. An inner nursery ends before the one around it.
//!
//! ```
//! use std::{path::Path, sync::atomic::{AtomicU64, Ordering::Relaxed}};
//! use bursar::prelude::*;
//!
//! /// Adds up the sizes of all files below a folder, a task for each folder.
//! fn size_of<'scope>(n: &'scope Nursery<'scope, '_>, folder: &Path, sum: &'scope AtomicU64) -> Result<(), TaskError> {
//!     for entry in unblock(|| folder.read_dir())? {
//!         let entry = entry?;
//!         if entry.file_type()?.is_dir() {
//!             n.try_spawn(move || size_of(n, &entry.path(), sum));
//!         } else {
//!             sum.fetch_add(entry.metadata()?.len(), Relaxed);
//!         }
//!     }
//!     Ok(())
//! }
//!
//! let sum = AtomicU64::new(0);
//! nursery(|n| size_of(n, Path::new("src"), &sum))?;
//! assert!(sum.into_inner() > 0);
//! # Ok::<(), TaskError>(())
//! ```
//!
//! A task cannot outlive what it borrows. That is checked at compile time, not at run time:
//!
//! ```compile_fail,E0373
//! use bursar::prelude::*;
//!
//! nursery(|n| {
//!     let local = String::from("gone when the body returns");
//!     n.spawn(|| local.len());
//!     Ok(())
//! }).unwrap();
//! ```
//!
//! ## Failing and cancelling
//!
//! A task fails if it panics, runs out of stack at a [check](#stack-overflow), or was started by [`try_spawn`](Nursery::try_spawn) and returns `Err`. Then its nursery cancels the
//! other tasks, waits for them, and returns the error. Failures that happen meanwhile are [attached](TaskError::others). Any error type converts to
//! [`TaskError`], so `?` works; [`Reason`] tells the kinds apart, and [`TaskError::downcast_ref`] gives the original back. The errors of jobs and of nodes of a flow do the same, and all three convert into each other.
//!
//! ```
//! use bursar::prelude::*;
//!
//! let outcome = nursery(|n| {
//!     n.task().name("parse").try_spawn(|| Ok("4x2".parse::<u32>()?));
//!     n.spawn(|| sleep(std::time::Duration::from_secs(3600))); // is cancelled
//!     Ok(())
//! });
//! let error = outcome.unwrap_err();
//! assert!(error.downcast_ref::<std::num::ParseIntError>().is_some());
//! assert!(error.to_string().contains("task `parse`"));
//! ```
//!
//! [`spawn`](Nursery::spawn) differs in one point: what it returns, also an `Err`, is a value for the caller of [`join`](Task::join). With
//! [`OnFailure::WaitAll`] a failure lets the siblings finish.
//!
//! A panic of the body goes on when all tasks have ended. If a task failed before it, as in `task.join().unwrap()`, the nursery returns that failure, and the panic is attached.
//!
//! Cancellation arrives at *checkpoints*: every operation that may block, [`yield_now`] and [`checkpoint`], and the end of a [turn](#limits-and-guarantees). There the task unwinds, so its destructors run. It is not a
//! panic, and nothing is printed. Tasks that have not started never do. [`Nursery::cancel`] cancels from inside, a [`Canceller`] from anywhere, and
//! [`Nursery::dismiss`] stops what is left once the body has what it wants. Nothing taken from a channel is lost by it.
//!
//! ## Blocking
//!
//! Tasks started by [`spawn`](Nursery::spawn) run on stacks of their own, as *fibers*. [`sleep`], channels, [`sync::Mutex`] and its kin, [`net`], [`block_on`],
//! [`Task::join`] and a nursery's end block the fiber only; its worker runs others meanwhile. The same calls work on plain threads, where they block the thread.
//!
//! ```
//! use bursar::{prelude::*, sync::Semaphore};
//!
//! let two_at_a_time = Semaphore::new(2);
//! nursery(|n| {
//!     for _ in 0..1000 {
//!         n.spawn(|| {
//!             let _permit = two_at_a_time.acquire(1); // 998 wait here, on two or three threads
//!             yield_now();
//!         });
//!     }
//!     Ok(())
//! })?;
//! # Ok::<(), TaskError>(())
//! ```
//!
//! What the standard library or C blocks, blocks the worker: `std::fs`, `std::thread::sleep`, a held `std::sync::Mutex`. Wrap the slow ones in [`unblock`], which
//! runs them on a thread kept for that while only the task waits; [`fs`] does so for files. Let go of a `std::sync::Mutex` before you send, receive or try to: others may run
//! then, and one of them may want it, on the same thread. A task that holds its worker for a second without a checkpoint is named
//! on standard error, with the line that spawned it: see [`Builder::watchdog`].
//! A task that does little else is better off with a thread to itself, `n.task().on_thread().spawn(…)`: it borrows, is cancelled and charged like a fiber, on a system stack of full size.
//!
//! A value per task, as `thread_local!` is one per thread, is declared with [`fiber_local!`]. It is for one at a time: [`join`] runs one half after the other in a task that has one.
//!
//! ## Channels and select
//!
//! [`channel`] makes a channel that holds so many values, or none: with capacity 0 sender and receiver meet. [`unbounded`] has no limit. Both
//! ends can be cloned, sent and used by fibers, futures and threads alike. [`sync::oneshot`] carries one value, [`sync::watch`] keeps only the newest, and with [`sync::broadcast`] every receiver gets
//! every value. [`time::after`] and [`time::ticker`] are receivers of times.
//!
//! [`select!`] waits for whichever of several operations can be done first, and chooses fairly if there are several, or with `biased;` in the order written. A value that was not sent, because another arm was taken,
//! is there again in that arm, under its name.
//!
//! ```
//! use std::time::Duration;
//! use bursar::prelude::*;
//!
//! let served = nursery(|n| {
//!     let (request, requests) = channel(16);
//!     let (stop, stopped) = channel::<()>(0);
//!     let server = n.try_spawn(move || {
//!         let mut served = 0;
//!         loop {
//!             select! {
//!                 request = recv(requests) => served += request?,
//!                 recv(stopped) => break Ok(served),
//!                 timeout(Duration::from_secs(10)) => break Err(TaskError::msg("no requests")),
//!             }
//!         }
//!     });
//!     for i in 1..=3 {
//!         request.send(i)?;
//!     }
//!     while !request.is_empty() {
//!         yield_now();
//!     }
//!     stop.send(())?;
//!     server.join()
//! })?;
//! assert_eq!(served, 6);
//! # Ok::<(), TaskError>(())
//! ```
//!
//! ## Futures
//!
//! [`spawn_async`](Nursery::spawn_async) starts a future in the same nursery: it may borrow like a fiber, is cancelled like one, and takes some hundred bytes where a
//! fiber takes a page or two. It may be polled by any worker, so it is `Send`; a started fiber stays where it is and need not be. A [`Task`] can be awaited, channels have
//! [`send_async`](Sender::send_async) and [`recv_async`](Receiver::recv_async), and [`block_on`] lets a fiber wait for any future.
//!
//! ```
//! use bursar::prelude::*;
//!
//! let greeting = &String::from("hello");
//! let shouted = nursery(|n| {
//!     let (tx, rx) = channel(1);
//!     n.spawn_async(async move { tx.send_async(greeting).await });           // a future sends what it borrowed
//!     let loud = n.spawn(move || rx.recv().map(|text| text.to_uppercase())); // a fiber receives
//!     block_on(async { Ok(loud.await??) })                                   // and a future waits for it
//! })?;
//! assert_eq!(shouted, "HELLO");
//! # Ok::<(), TaskError>(())
//! ```
//!
//! Wakers are ordinary, so combinators, `hyper` and everything else that brings no runtime of its own works. Sockets become
//! asynchronous ones by [`net::TcpStream::into_async`]; for hyper there are adapters, with the feature `hyper`.
//!
//! ## Fork-join
//!
//! [`join`] runs two closures, at the same time if a worker is idle, and costs a few nanoseconds if none is. So divide as finely as is natural.
//!
//! ```
//! use bursar::join;
//!
//! fn sort<T: Ord + Send>(items: &mut [T]) {
//!     if items.len() < 2 {
//!         return;
//!     }
//!     let last = items.len() - 1;
//!     let pivot = (0..last).fold(0, |pivot, i| if items[i] < items[last] { items.swap(i, pivot); pivot + 1 } else { pivot });
//!     items.swap(pivot, last);
//!     let (smaller, larger) = items.split_at_mut(pivot);
//!     join(|| sort(smaller), || sort(&mut larger[1..]));
//! }
//!
//! let mut items: Vec<u32> = (0..2000).map(|i| i * 7919 % 2003).collect();
//! bursar::run(|| sort(&mut items))?;
//! assert!(items.is_sorted());
//! # Ok::<(), bursar::RunError>(())
//! ```
//!
//! ## Timeouts and deadlines
//!
//! A deadline belongs to a nursery and ends everything in it, however deep and however busy: what waits at once, what runs at its next checkpoint. It is set by [`Nursery::timeout`], for a time from now, or by
//! [`Nursery::deadline`], for a time of [`now`]. Of several the earliest counts: none is moved later. The verdict is [`Reason::DeadlineExceeded`]. Single operations have a `_timeout` variant,
//! [`select!`] has a `timeout` arm, and a future is given a limit by [`timeout`].
//!
//! ```
//! use std::time::Duration;
//! use bursar::prelude::*;
//!
//! let (_tx, rx) = channel::<()>(1);
//! let outcome = nursery(|n| {
//!     n.timeout(Duration::from_millis(20));
//!     nursery(|n| n.spawn(|| rx.recv()).join()) // blocked for ever, two nurseries deep
//! });
//! let Err(error) = outcome else { unreachable!("no value is sent") };
//! assert!(matches!(error.reason(), Reason::DeadlineExceeded { .. }));
//! ```
//!
//! ## Shields
//!
//! What must not be cut in two stands under a [`shield`]: inside it no checkpoint unwinds, and nurseries opened there are not cancelled from outside. The cancellation
//! waits. Destructors that run because of a cancellation are shielded already, so they may block. A shield or a destructor that never ends keeps its nursery open past
//! any deadline: give what must not be interrupted a limit of its own. [`NurseryOptions::grace`] gives all tasks of a nursery
//! some time before they are interrupted; [`is_cancelled`] tells them that it has begun.
//!
//! ```
//! use bursar::prelude::*;
//!
//! let (tx, rx) = channel(1);
//! let outcome = nursery(|n| {
//!     n.cancel();
//!     shield(|| tx.send("saved"))?; // would unwind, without
//!     checkpoint();
//!     unreachable!()
//! });
//! # let outcome: Result<(), TaskError> = outcome;
//! assert!(outcome.is_err_and(|error| error.is_cancelled()));
//! assert_eq!(rx.recv(), Ok("saved"));
//! ```
//!
//! ## Budgets
//!
//! A [`Budget`] counts five things: operations, bytes, spawns, channel operations and calls of the system. A nursery that is given one
//! ([`NurseryOptions::budget`]) has a pool; its tasks draw their shares from it and bring back what they do not spend. A nursery inside a task that has a budget takes its
//! pool out of that task's, so nesting adds nothing. A task that has spent its share stops. Then the pool gives another share, or [a handler](NurseryOptions::on_exhausted), [a
//! budget supervisor](Nursery::budget_supervisor) or a [`CapBudget`](capability::CapBudget) does, or a nursery further out; if none can, the task ends with [`Reason::BudgetExhausted`], which names what was spent.
//!
//! Spawns, channels, sockets, files and [`unblock`] are charged where they happen. Loops and calls are charged in functions marked [`budgeted`], and wherever
//! [`charge`](budget::charge) or [`checkpoint`] is called; memory if the program's allocator is a [`BudgetedAlloc`](budget::BudgetedAlloc).
//!
//! ```
//! use bursar::{Budget, NurseryOptions, Reason, budget::Component, budgeted, nursery_with};
//!
//! #[budgeted]
//! fn plugin() -> u64 {
//!     let mut x = 1_u64;
//!     loop {
//!         x = x.wrapping_mul(31); // never ends by itself
//!     }
//! }
//!
//! let options = NurseryOptions::new().name("plugin-7").task_budget(Budget::ops(1_000_000));
//! let verdict = nursery_with(options, |n| n.spawn(plugin).join());
//! match verdict.unwrap_err().reason() {
//!     Reason::BudgetExhausted { component: Component::Ops, granted, .. } => assert_eq!(*granted, 1_000_000),
//!     other => panic!("{other}"),
//! }
//! ```
//!
//! ## Capabilities and profiles
//!
//! What a tenant may do is said by capabilities: to have so many tasks with so much each ([`CapSpawn`](capability::CapSpawn)), to recharge itself ([`CapBudget`](capability::CapBudget)), to open channels
//! ([`CapChannel`](capability::CapChannel)), to start threads ([`CapExecutor`](capability::CapExecutor)). A [`Ledger`](capability::Ledger) grants them; a [`Cap`](capability::Cap) cannot be copied or made otherwise, only narrowed, and revoking it reaches everything
//! derived from it at once. The ledger remembers grants and refusals, and counts [uses](capability::Ledger::uses).
//!
//! ```
//! use bursar::{Budget, NurseryOptions, capability::{CapSpawn, Ledger}, nursery_with};
//!
//! let ledger = Ledger::new();
//! let root = ledger.grant(CapSpawn::new());
//! let tenant = root.attenuate(CapSpawn::new().max_tasks(100).task_budget(Budget::ops(1_000_000).memory(64 << 20)))?;
//! let sum = nursery_with(NurseryOptions::new().capability(&tenant), |n| n.spawn(|| 6 * 7).join());
//! assert_eq!(sum.unwrap(), 42);
//! tenant.revoke();
//! assert!(nursery_with(NurseryOptions::new().capability(&tenant), |n| n.spawn(|| ()).join()).is_err());
//! assert_eq!(ledger.audit_totals().refusals(), 1);
//! # Ok::<(), bursar::capability::CapError>(())
//! ```
//!
//! Limits go wherever a task goes: into [`unblock`], [`run`], other runtimes, seeded ones and [`explore`] with its budget, into [`unblock_async`] and [`jobs`] without. A task that makes a
//! ledger of its own gains nothing: what that grants is counted beside what the task has, and a [`CapBudget`](capability::CapBudget) of it is refused. A thread that a task starts with
//! `std::thread::spawn` is out of reach: see [`Confinement`](capability::Confinement).
//!
//! A [`Profile`](capability::Profile), given when the runtime is built, says how strict it is: `:service` has small budgets for all tasks, `:cluster` larger ones and supervisors that
//! recharge, in `:sovereign` nothing runs that was not granted by name, and `:core` has no tasks at all. Without a profile nothing is limited until a nursery says so.
//!
//! ## Actors and supervisors
//!
//! An [actor](actor::Actor) handles one message at a time. A [`Supervisor`](actor::Supervisor) starts children in order, and starts them again when they fail: one for one, one for
//! all, or the rest after it; too many failures in too short a time, and it gives up and fails itself. Mailboxes outlive their actors. A supervisor
//! with a [budget](actor::Supervisor::budget) answers for its children from its own pool.
//!
//! ## Choosing a runtime
//!
//! [`run`], [`join`] and [`nursery`] use a common runtime, made on first use: one worker for each CPU. A [`Runtime`] of your own chooses otherwise, and says what
//! its workers did. Inside a task everything uses the runtime the task runs on.
//!
//! ```
//! use bursar::{Runtime, join, runtime::VictimStrategy};
//!
//! let runtime = Runtime::builder()
//!     .workers(2)                              // 1 to 256
//!     .stack_bytes(512 * 1024)                 // of address space; memory is taken as it is touched
//!     .max_fibers(10_000)                      // started and not ended
//!     .victims(VictimStrategy::LeastLoaded)
//!     .name("render")                          // threads are called render-0, render-1
//!     .build()?;
//! assert_eq!(runtime.run(|| join(|| 1, || 2))?, (1, 2));
//! assert!(runtime.stats().total().executed >= 1);
//! # Ok::<(), bursar::RunError>(())
//! ```
//!
//! [`run`] blocks the caller and runs its closure as a task: one that blocks properly, and can be stolen from. A nursery opened on a plain thread runs its *body*
//! on that thread. Dropping a runtime waits for its workers.
//!
//! ## Finding what depends on the order
//!
//! [`explore`] runs a program under many seeds. Each seed decides which of several virtual workers runs next, where it is interrupted, from which worker it steals and which arm of a [`select!`] is
//! taken; timers take no time. Here two tasks look at a balance, and then act on what they saw:
//!
//! ```should_panic
//! use bursar::{explore, nursery, sync::Mutex};
//!
//! explore(0..1_000, || {
//!     let balance = Mutex::new(100);
//!     nursery(|n| {
//!         for _ in 0..2 {
//!             n.spawn(|| {
//!                 let enough = *balance.lock() >= 80; // the lock is free again after this line
//!                 if enough {
//!                     *balance.lock() -= 80;
//!                 }
//!             });
//!         }
//!         Ok(())
//!     }).unwrap();
//!     assert!(balance.into_inner() >= 0);
//! }); // panics, and says which seed fails, and how to see it again: `BURSAR_SEED=… cargo test …`
//! ```
//!
//! The message has the seed, what failed, and the last steps of the plainest run that fails in the same way. The same seed gives the same run on any machine. A [`Trace`](determinism::Trace) can be
//! kept in a file and [replayed](Builder::replay). Deadlocks are found too, and named. [`now`] is the time in such a run; what comes from outside, as from sockets and other
//! threads, has no place in it: see [`Builder::seeded`].
//!
//! ## Stack overflow
//!
//! A task has 256 KiB of stack (512 KiB in debug builds), of which it takes what it touches. One that needs more [asks for it](task::TaskBuilder::stack_bytes).
//!
//! A task that overflows its stack **ends the process**, as a thread does, with one line that names the task, where it was spawned, and its `stack_bytes`. To go on would be
//! unsound: the frames that are skipped may be in the middle of something that they borrowed from frames that live on.
//!
//! It fails only itself, with [`Reason::StackOverflow`], in two cases. First, if its code looks in time: every function of this library that starts something, waits, sends or receives does, and every function marked
//! [`#[budgeted]`](budgeted). Then it unwinds, and its destructors run:
//!
//! ```
//! use bursar::prelude::*;
//!
//! #[bursar::budgeted]
//! fn sum_to(n: u64) -> u64 {
//!     if n == 0 { 0 } else { n + sum_to(n - 1) }
//! }
//!
//! let error = nursery(|n| n.spawn(|| sum_to(100_000_000)).join()).unwrap_err();
//! assert!(matches!(error.reason(), Reason::StackOverflow { .. }));
//! assert_eq!(nursery(|n| n.spawn(|| sum_to(100)).join())?, 5050);
//! # Ok::<(), TaskError>(())
//! ```
//!
//! Second, if it borrows nothing and [asked to survive](task::TaskBuilder::survives_overflow): then its frames are skipped, and its stack and all it owns are kept for ever. Locks that
//! it held stay locked. An embedder that knows more about its tasks may say so for a whole runtime, with an `unsafe` [method](Builder::skip_frames_on_overflow).
//!
//! An overflow while the task unwinds ends the process in any case. On systems other than Linux an overflow ends it without the line.
//!
//! ## What it costs
//!
//! A task that does not wait costs no switch; one that waits costs two, of some nanoseconds, and the stack it stands on, of which it takes what it touches.
//!
#![doc = include_str!("costs.md")]
//!
//! ## Limits and guarantees
//!
//! - **A thread-local with stack discipline does not survive a wait in a fiber.** `scoped-tls` and its like lend a value to whatever a closure calls, and put the former value
//!   back after it: sound, if one thread is one stack. Here a thread has many. Two fibers of a worker that wait inside such closures read each other's value, and when
//!   they leave in another order than they entered, the thread keeps a pointer into a frame that is gone: undefined behaviour, without a line of `unsafe` in your program. The language
//!   gives no means to forbid it. So do not wait inside such a closure. Where you must, use a [future](Nursery::spawn_async), in which no `await` fits into a closure, or a task that
//!   has a thread to itself: [`on_thread`](task::TaskBuilder::on_thread). For a value of the task's own there is [`fiber_local!`].
//! - **A foreign waker is quick.** A waker that a task makes itself runs wherever the wake happens, also on the timer thread of the runtime, and outside the limits of the
//!   task. If it panics, the panic ends there. If it blocks, it blocks that thread.
//! - **A destructor that runs during a panic is not stopped by a budget**: a second unwinding would end the process. It is charged what there is.
//! - **A started fiber never changes threads.** `Rc`s, guards, and addresses of thread-locals on its stack stay valid while it waits; what *stands in* a thread-local, the thread's other
//!   tasks may have changed. Unstarted tasks and futures do move.
//! - **There is no preemption.** A loop without checkpoints keeps its worker, and is not cancelled before its next checkpoint. [`budgeted`] writes them. The [watchdog](Builder::watchdog) names it,
//!   and other workers take what it keeps from starting; started fibers of that worker wait.
//! - **Ready operations take turns.** After 128 operations that did not have to wait (channels, locks, `select!`, spawning, joining, sockets, [`checkpoint`], also those that only try), a fiber lets the
//!   fibers run that are ready on its worker, woken by timers and other threads among them; a future is not ready once, having woken itself, as in tokio. A cancelled task unwinds there, so a deadline ends
//!   a tree whose tasks never wait. To notify, to give back and to answer by `oneshot` counts, but never lets others in. A future built only of other people's futures that are always
//!   ready keeps its worker until one of ours comes along; so does a loop that only asks, as by [`Task::is_done`].
//! - **No ready task starves**, as long as the other tasks of its worker come to an operation: a fiber that was woken runs after one turn of each that was ready before it, and so does a future where there is one worker; a task that yields goes to the back,
//!   and every 61st choice of a worker is for what it puts off otherwise: its oldest unstarted task, the shared queues, low priority, and what others have not begun. Between groups with
//!   [weights](NurseryOptions::weight) the weights decide how often.
//! - **Nothing is lost to a cancellation.** A value is sent or stays with the sender's task, is received or stays in the channel; a connection was accepted or not.
//! - **A destructor that panics hurts its own task**, where the runtime holds what is dropped: captures of a task that never ran, a future, a result that was not taken, values of a
//!   [`fiber_local!`], what is left in a channel or a mailbox, a half of [`join`]. But one that stands on the stack of a task that is unwinding, cancelled or panicking, ends the
//!   process if it panics: that is the language's rule, and no library can change it. Keep it in mind if you run other people's code in your process.
//! - **`std::thread::panicking` speaks of the task that asks**, also while others of its worker wait in a destructor, in the middle of an unwinding; so no innocent
//!   `std::sync::Mutex` is poisoned. Where one panic is under way inside another, where foreign code has *resumed* one (`std::panic::resume_unwind`) and yields in a destructor, and where the system gives no
//!   thread, it speaks of the thread.
//! - **An idle runtime sleeps.** No thread polls.
//! - **Cancelling needs unwinding.** With `panic = "abort"` the first cancellation ends the process. A task that catches unwinding should pass on what it did not throw. If it does not, it is
//!   unwound again at its next checkpoint. A cancelled task that returns nevertheless has its value kept; one that was refused a budget ends as
//!   [`Reason::BudgetExhausted`], whatever it returns.
//! - **A thread started with `std::thread::spawn` has no limits** but those of the process, also if a task started it. Nothing in the language lets a library see it; a [`Confinement`](capability::Confinement) takes a
//!   task's limits there.
//! - **`fork`** takes no workers along: a runtime used in a child process fails with [`RunError::Forked`].
//! - At most [`MAX_WORKERS`](runtime::MAX_WORKERS) workers, and 1,048,576 fibers at one time unless [`Builder::max_fibers`] says otherwise; futures are limited by memory only.
//! - Linux on x86_64 and aarch64 is complete. Kernels before 6.13 guard stacks at the price of two mappings each, which ends near 32,000 fibers.
#![forbid(unsafe_code)]

// What is used every day is here. Everything else is in the module it belongs to; every name has one place, and means one thing in all of them.

// ---- tasks and nurseries ----
#[doc(inline)]
pub use sched_tasks::{
    Canceller, Nursery, NurseryOptions, OnFailure, Priority, Reason, Task, TaskError, checkpoint, fiber_local,
    is_cancelled, join, nursery, nursery_with, run, shield, yield_now,
};

// ---- channels ----
#[doc(inline)]
pub use sched_tasks::{Receiver, Sender, channel, select, unbounded};

// ---- time, futures, and what blocks a thread ----
#[doc(inline)]
pub use sched_tasks::{block_on, now, sleep, sleep_async, timeout, unblock, unblock_async};

// ---- budgets ----
#[cfg(feature = "macros")]
#[doc(inline)]
pub use bursar_macros::budgeted;
#[doc(inline)]
pub use sched_tasks::Budget;

// ---- the runtime ----
#[doc(inline)]
pub use sched_tasks::{Builder, RunError, Runtime, explore};

/// What `#[budgeted]` writes into functions. Not for people: it changes without notice.
#[doc(hidden)]
pub mod __budget {
    pub use sched_tasks::Fuel;
}

#[cfg(feature = "actors")]
pub mod actor;
#[cfg(all(feature = "flow", feature = "jobs"))]
mod bridge;
pub mod budget;
pub mod capability;
pub mod cpu;
pub mod determinism;
#[cfg(feature = "flow")]
pub mod flow;
pub mod fs;
#[cfg(feature = "hyper")]
pub mod hyper;
#[cfg(feature = "janus")]
pub mod janus;
#[cfg(feature = "jobs")]
pub mod jobs;
pub mod mpmc;
#[cfg(feature = "net")]
pub mod net;
#[cfg(feature = "policy")]
pub mod policy;
pub mod prelude;
pub mod runtime;
pub mod sync;
pub mod task;
pub mod time;

/// The first page of the repository and the guides, so that their examples are compiled and run.
#[cfg(all(doctest, feature = "flow", feature = "macros", feature = "process"))]
mod pages {
    #[doc = include_str!("../../../README.md")]
    struct Readme;
    #[doc = include_str!("../../../docs/cpu.md")]
    struct Cpu;
    #[doc = include_str!("../../../docs/determinism.md")]
    struct Determinism;
    #[doc = include_str!("../../../docs/flow.md")]
    struct Flow;
    #[cfg(feature = "janus")]
    #[doc = include_str!("../../../docs/janus.md")]
    struct Janus;
    #[doc = include_str!("../../../docs/jobs.md")]
    struct Jobs;
    #[doc = include_str!("../../../docs/tasks.md")]
    struct Tasks;
    #[doc = include_str!("../../../docs/tenants.md")]
    struct Tenants;
    #[cfg(feature = "policy")]
    #[doc = include_str!("../../../docs/policy.md")]
    struct Policy;
}
