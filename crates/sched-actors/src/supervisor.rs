//! The builder of supervisors: what is described before anything starts.
//!
//! Room: interface.

use std::{collections::BTreeSet, fmt, panic::Location, sync::Arc, time::Duration};

use sched_tasks::{Answer, Budget, Exhausted, Nursery, internals, unbounded};

use crate::{
    budget::ChildBudgets,
    decide::{Intensity, Restart, Rules, Strategy},
    error::SupervisorError,
    supervise::{self, Parent},
    tree::{Child, ChildInstance, ChildSpec, CloseOnDrop, Incarnation, Kind, Shared, SupervisorHandle},
};

/// Starts children, and starts them again when they fail.
///
/// Children are started in the order in which they are written, each when the one before is ready, and stopped in the
/// reverse order. A child that fails does not disturb its nursery: the supervisor decides. A child that fails too often
/// makes the supervisor stop all the others and fail itself, with [`RestartsExceeded`](crate::RestartsExceeded). That
/// is handled by the supervisor above, or by the nursery in which it was started.
///
/// Children may borrow everything that outlives that nursery; messages own what they carry.
///
/// ```
/// use std::time::Duration;
/// use bursar::{actor::{self, Child, Restart, Strategy, Supervisor}, nursery, sync::oneshot, TaskError};
///
/// struct Divide(u32, u32, oneshot::Sender<u32>);
///
/// nursery(|n| {
///     let sup = Supervisor::new(Strategy::OneForOne)
///         .max_restarts(3, Duration::from_secs(5))
///         .child(Child::actor("divider", || actor::from_fn(|Divide(a, b, reply), _| {
///             let quotient = a.checked_div(b).ok_or_else(|| TaskError::msg("division by zero"))?;
///             let _ = reply.send(quotient); // the caller may have timed out
///             Ok(())
///         })).mailbox(16))
///         .child(Child::task("greeter", || { println!("hello"); Ok(()) }).restart(Restart::Transient))
///         .start(n)?;
///     let divider = sup.address("divider")?; // good across restarts
///     assert_eq!(divider.ask(|reply| Divide(84, 2, reply))?, 42);
///     assert!(divider.ask(|reply| Divide(1, 0, reply)).is_err()); // it failed on this one,
///     assert_eq!(divider.ask(|reply| Divide(9, 3, reply))?, 3); // and was started again
///     assert_eq!(sup.child("divider")?.restarts, 1);
///     sup.stop()
/// })?;
/// # Ok::<(), TaskError>(())
/// ```
#[must_use = "nothing is supervised before `start`"]
pub struct Supervisor<'a> {
    name: Arc<str>,
    rules: Rules,
    budget: ChildBudgets,
    children: Vec<Child<'a>>,
}

impl<'a> Supervisor<'a> {
    /// A supervisor without children, which allows three restarts within five seconds.
    pub fn new(strategy: Strategy) -> Self {
        Self {
            name: "supervisor".into(),
            rules: Rules { strategy, ..Rules::default() },
            budget: ChildBudgets::default(),
            children: Vec::new(),
        }
    }

    /// A name for messages, and for the supervisor above.
    pub fn name(mut self, name: impl Into<Arc<str>>) -> Self {
        self.name = name.into();
        self
    }

    /// Gives up at the first failure after `max_restarts` restarts within a time, all children taken together.
    pub fn max_restarts(mut self, max_restarts: u32, within: Duration) -> Self {
        self.rules.intensity = Intensity { max_restarts, within };
        self
    }

    /// What all children together may spend: the supervisor's own pool. It comes out of the budget of the task that
    /// starts the supervisor, if that has one.
    pub fn budget(mut self, budget: Budget) -> Self {
        self.budget.pool = Some(budget);
        self
    }

    /// What each child may spend before the supervisor is asked. Then it gets as much again from the supervisor's pool,
    /// while there is some, unless [`on_exhausted`](Self::on_exhausted) says otherwise. A child that gets nothing
    /// fails, and is started again by the usual rules.
    ///
    /// ```
    /// use bursar::{Budget, actor::{Child, Restart, Strategy, Supervisor}, budget::charge, nursery};
    ///
    /// nursery(|n| {
    ///     let worker = Child::task("worker", || { (0..50).for_each(|_| charge(10)); Ok(()) });
    ///     Supervisor::new(Strategy::OneForOne)
    ///         .budget(Budget::ops(1_000).spawns(10))
    ///         .child_budget(Budget::ops(100))
    ///         .child(worker.restart(Restart::Transient))
    ///         .start(n)?;
    ///     Ok(()) // 500 operations: it is recharged, and never fails
    /// })?;
    /// # Ok::<(), bursar::TaskError>(())
    /// ```
    pub fn child_budget(mut self, budget: Budget) -> Self {
        self.budget.child = Some(budget);
        self
    }

    /// How to answer for children, and what they started, that have spent their budget.
    pub fn on_exhausted(mut self, answer: impl Fn(&Exhausted) -> Answer + Send + Sync + 'static) -> Self {
        self.budget.answer = Some(Arc::new(answer));
        self
    }

    /// Adds a child, started after those before.
    pub fn child(mut self, child: impl Into<Child<'a>>) -> Self {
        self.children.push(child.into());
        self
    }

    /// Starts the supervisor as a task of `n`. Returns at once: addresses are good before their actors have started, and what is sent meanwhile waits.
    ///
    /// If two children have the same name nothing is started.
    #[track_caller]
    pub fn start<'scope>(self, n: &'scope Nursery<'scope, '_>) -> Result<SupervisorHandle<'a>, SupervisorError>
    where
        'a: 'scope,
    {
        self.check_names()?;
        if let Some(profile) = internals::no_actors(n) {
            return Err(SupervisorError::NoActors { profile });
        }
        let (inbox, inputs) = unbounded();
        let shared = Arc::new(Shared::new(self.name.clone(), &self.children));
        let handle = SupervisorHandle::new(shared.clone(), inbox);
        let (handles, open) = (Arc::downgrade(&handle.inbox), internals::sender(&inputs));
        let close = CloseOnDrop(shared.clone());
        n.task().name(&*self.name).try_spawn(move || {
            let (close, _open) = (close, open); // open even when no handle is left: children report through it
            let outcome = supervise::supervise(self.rules, &self.budget, &shared, &inputs, Parent::Nursery(handles));
            close.0.retire(); // before any waiter learns that it has ended
            close.0.end(outcome.clone());
            outcome
        });
        Ok(handle)
    }

    /// Checks for mistakes, also in the supervisors below.
    fn check_names(&self) -> Result<(), SupervisorError> {
        let mut names = BTreeSet::new();
        for child in &self.children {
            if !names.insert(&child.name) {
                let (name, supervisor) = (child.name.clone(), self.name.clone());
                return Err(SupervisorError::DuplicateChild { name, supervisor });
            }
            child.spec.check()?;
        }
        Ok(())
    }
}

impl<'a> Child<'a> {
    /// A supervisor below this one, under its own name. If it gives up, it is a child that failed.
    ///
    /// When it is asked to end it may take as long as its children do. Started again, it begins with the children it
    /// was made with; their addresses stay good.
    ///
    /// ```
    /// use std::time::Duration;
    /// use bursar::{actor::{Child, RestartsExceeded, Strategy, Supervisor}, nursery, TaskError};
    ///
    /// let error = nursery(|n| {
    ///     let doomed = Child::task("doomed", || Err(TaskError::msg("out of paper")));
    ///     let printers = Supervisor::new(Strategy::OneForOne).name("printers").child(doomed);
    ///     Supervisor::new(Strategy::OneForAll)
    ///         .name("office")
    ///         .max_restarts(0, Duration::from_secs(1))
    ///         .child(Child::supervisor(printers))
    ///         .start(n)?;
    ///     Ok(())
    /// })
    /// .unwrap_err();
    /// assert_eq!(&*error.downcast_ref::<RestartsExceeded>().unwrap().child, "printers");
    /// assert!(error.to_string().contains("out of paper"));
    /// ```
    #[track_caller]
    pub fn supervisor(supervisor: Supervisor<'a>) -> Self {
        Self {
            name: supervisor.name.clone(),
            site: Location::caller(),
            restart: Restart::default(),
            shutdown: None,
            spec: Arc::new(supervisor),
        }
    }
}

/// A supervisor as a child: its inbox and its children's mailboxes survive its restarts.
impl<'a> ChildSpec<'a> for Supervisor<'a> {
    fn prepare(&self, _: &Child<'a>) -> ChildInstance<'a> {
        let (inbox, inputs) = unbounded();
        let shared = Arc::new(Shared::new(self.name.clone(), &self.children));
        let handle = SupervisorHandle::new(shared.clone(), inbox);
        let (rules, budget, own) = (self.rules, self.budget.clone(), inputs.clone());
        let run = move |incarnation: Incarnation<'_>| {
            supervise::supervise(rules, &budget, &shared, &own, Parent::Supervisor(incarnation))
        };
        ChildInstance { run: Arc::new(run), kind: Kind::Supervisor(handle, inputs), retired: false }
    }

    fn check(&self) -> Result<(), SupervisorError> {
        self.check_names()
    }
}

impl fmt::Debug for Supervisor<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, rules, children, .. } = self;
        f.debug_struct("Supervisor")
            .field("name", name)
            .field("rules", rules)
            .field("children", children)
            .finish_non_exhaustive()
    }
}
