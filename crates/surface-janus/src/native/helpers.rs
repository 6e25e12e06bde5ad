//! What machine code calls for everything that others can see.
//!
//! Room: driver.
//!
//! # Invariants
//! 1. While a helper that pays runs, the account of the task has what is owed; while code runs, `left` has it.
//! 2. `handles` has the channels and tasks of all frames, one frame behind the other; code knows them by their numbers.
//!
//! # Why they hold
//! 1. Code writes `left` before it calls one, and reads it after; [`Task::help`] does the opposite.
//! 2. A function that writes such registers takes as many as it has when it is entered, and gives them back when it is left. A channel that is passed stays in the frame of the caller.

use std::any::Any;
use std::panic::resume_unwind;
use std::rc::Rc;
use std::sync::Arc;

use super::compile::Native;
use super::raw::{ABORTED, Entry, FAILED, OpenNurseries, Shim, shim};
use crate::ir::{Callee, Inst, Op, Type};
use crate::task::{Argument, Arrived, Channel, Ended, Failure, FaultKind, Handle, State, Stopped, nursery};

/// A task that runs machine code. Code knows where the first fields are.
#[repr(C)]
pub(super) struct Task<'a> {
    left: i64,
    /// What a helper returns besides its status.
    out: [i64; 2],
    /// What a helper returned that is called from a cold block.
    status: i64,
    pub(super) thrown: Option<Box<dyn Any + Send>>,
    state: State<'a>,
    native: &'a Native,
    handles: Vec<Slot>,
    /// What is printed next, or passed to the next task.
    values: Vec<i64>,
    pub(super) nurseries: OpenNurseries,
}

pub(super) const LEFT_OFFSET: i32 = std::mem::offset_of!(Task, left) as i32;
pub(super) const STATUS_OFFSET: i32 = std::mem::offset_of!(Task, status) as i32;
pub(super) const OUT_OFFSETS: [i32; 2] =
    [std::mem::offset_of!(Task, out) as i32, std::mem::offset_of!(Task, out) as i32 + 8];

enum Slot {
    Empty,
    Channel(Arc<Channel>),
    Task(Rc<Handle>),
}

/// An instruction that calls a helper.
pub(super) struct Site {
    pub(super) function: u32,
    pub(super) block: u32,
    pub(super) at: u32,
    /// Whether the function is failing there.
    pub(super) is_failing: bool,
}

impl<'a> AsMut<State<'a>> for Task<'a> {
    fn as_mut(&mut self) -> &mut State<'a> {
        &mut self.state
    }
}

impl<'a> Task<'a> {
    /// Runs a function as the body of a task.
    pub(super) fn run(
        native: &'a Native,
        entry: Entry,
        state: State<'a>,
        function: usize,
        arguments: Vec<Argument>,
    ) -> Ended {
        let mut task = Task {
            left: 0,
            out: [0; 2],
            status: 0,
            thrown: None,
            state,
            native,
            handles: Vec::new(),
            values: Vec::new(),
            nurseries: OpenNurseries::default(),
        };
        let result = task.task(entry, function, arguments);
        Ended { result, spent: task.state.spending.spent }
    }

    fn task(&mut self, entry: Entry, function: usize, arguments: Vec<Argument>) -> Result<i64, Stopped> {
        let stack_left = self.state.begin(function)?;
        let mut values = [0; 8];
        let mut more = Vec::new();
        let values = match arguments.len() {
            count if count <= values.len() => &mut values[..count],
            count => {
                more.resize(count, 0);
                &mut more[..]
            }
        };
        for (value, argument) in values.iter_mut().zip(arguments) {
            *value = match argument {
                Argument::Int(value) => value,
                Argument::Channel(channel) => {
                    self.handles.push(Slot::Channel(channel));
                    (self.handles.len() - 1) as i64
                }
            };
        }
        self.left = self.state.spending.left();
        let status = entry.call(self, values, i64::try_from(stack_left).unwrap_or(i64::MAX));
        if let Some(thrown) = self.thrown.take() {
            resume_unwind(thrown);
        }
        self.state.spending.set_left(self.left);
        let ended = if status < 0 { Err(self.state.error()) } else { Ok(self.out[0]) };
        self.state.end(function, ended)
    }

    /// Does what code asks for. Returns a number for code, or that it failed.
    pub(super) fn help<H: Helper>(&mut self, site: i64, a: i64, b: i64) -> i64 {
        if H::PAYS {
            self.state.spending.set_left(self.left);
        }
        let status = match H::help(self, site, a, b) {
            Ok(value) => value,
            Err(failure) => {
                self.fail(site, failure);
                FAILED
            }
        };
        if H::PAYS {
            self.left = self.state.spending.left();
        }
        status
    }

    fn fail(&mut self, site: i64, failure: Failure) {
        let Site { function, is_failing, .. } = self.native.sites[site as usize];
        self.state.fail(failure, function as usize, self.native.instruction(site).line, is_failing);
    }

    fn channel(&self, handle: i64) -> Arc<Channel> {
        channel(&self.handles, handle)
    }

    fn create(&mut self, site: i64, to: i64) -> Result<i64, Failure> {
        let Task { native, state, nurseries, handles, values, .. } = self;
        let Inst { op: Op::TaskCreate(register, Callee { function, .. }), .. } = native.instruction(site) else {
            unreachable!("code says which instruction it is at")
        };
        let (caller, function) = (native.sites[site as usize].function as usize, function.0 as usize);
        let types = &native.code.function(function).registers;
        let arguments = values.drain(..).zip(types).map(|(value, ty)| match ty {
            Type::Chan => Argument::Channel(channel(handles, value)),
            _ => Argument::Int(value),
        });
        let arguments = arguments.collect();
        let is_awaited = native.code.is_awaited(caller, register.0);
        let created = nurseries.innermost(|nursery| state.create_task(nursery, function, arguments, is_awaited));
        let handle = created.expect("the verifier knows that a nursery is open")?;
        self.handles[to as usize] = handle.map_or(Slot::Empty, |handle| Slot::Task(Rc::new(handle)));
        Ok(0)
    }

    /// Opens a nursery, and goes on in it at a point of the function. Returns the point behind its end, or the one where its end failed.
    fn nursery(&mut self, site: i64, frame: i64, inside: i64) -> Result<i64, Failure> {
        let native = self.native;
        let function = native.sites[site as usize].function as usize;
        let code = native.insides[function].expect("a function that opens nurseries has a way into them");
        let mut arrived_at = None;
        let ended = nursery(self, |task, nursery| {
            task.left = task.state.spending.left();
            let exit = OpenNurseries::with(task, nursery, |task| code.call(task, frame, inside));
            if exit == ABORTED {
                resume_unwind(task.thrown.take().unwrap_or_else(|| Box::new("machine code was aborted")));
            }
            task.state.spending.set_left(task.left);
            arrived_at = Some(exit >> 1);
            Arrived { paid: task.state.spending.settle(), is_failing: exit & 1 != 0 }
        });
        match (ended, arrived_at) {
            (Ok(()), point) => Ok(point.unwrap_or(0)),
            (Err(failure), None) => Err(failure),
            (Err(failure), Some(point)) => {
                self.fail(site, failure);
                Ok(point + 1)
            }
        }
    }
}

fn channel(handles: &[Slot], handle: i64) -> Arc<Channel> {
    match &handles[handle as usize] {
        Slot::Channel(channel) => channel.clone(),
        Slot::Empty | Slot::Task(_) => unreachable!("the verifier knows that it is a channel, and was written"),
    }
}

/// Something that code calls.
pub(super) trait Helper {
    const NAME: &'static str;
    /// Whether it looks at what is owed.
    const PAYS: bool;
    fn help(task: &mut Task<'_>, site: i64, a: i64, b: i64) -> Result<i64, Failure>;
}

/// Defines the helpers: a number for each, and the address that code calls.
macro_rules! helpers {
    ($($(#[$about:meta])* $name:ident $(($pays:ident))? = |$task:ident, $site:pat_param, $a:pat_param, $b:pat_param| $body:expr;)*) => {
        /// A helper, by its number.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(super) enum Help { $($(#[$about])* $name,)* }

        /// A type for each.
        mod each {
            $(pub(super) struct $name;)*
        }

        $(
            impl Helper for each::$name {
                const NAME: &'static str = concat!("janus.", stringify!($name));
                const PAYS: bool = helpers!(@pays $($pays)?);
                fn help($task: &mut Task<'_>, $site: i64, $a: i64, $b: i64) -> Result<i64, Failure> {
                    $body
                }
            }
        )*

        impl Help {
            pub(super) const ALL: &[(Help, &'static str, Shim)] = &[$((Help::$name, each::$name::NAME, shim::<each::$name>),)*];

            /// Whether it looks at what is owed: code writes that before it calls.
            pub(super) const fn pays(self) -> bool {
                match self { $(Help::$name => each::$name::PAYS,)* }
            }
        }
    };
    (@pays) => { false };
    (@pays pays) => { true };
}

/// Kinds of errors that code finds.
pub(super) const OVERFLOW: i64 = 0;
pub(super) const DIVISION_BY_ZERO: i64 = 1;
pub(super) const STACK: i64 = 2;

helpers! {
    /// An error of this kind.
    Fault = |task, _, kind, _| Err(match kind {
        OVERFLOW => FaultKind::Overflow.into(),
        DIVISION_BY_ZERO => FaultKind::DivisionByZero.into(),
        // It is known that there is too little.
        _ => task.state.call(0, 1).err().unwrap_or_else(|| FaultKind::NoResult.into()),
    });
    /// A call failed in a function that was failing before.
    Discard = |task, _, _, _| {
        task.state.discard();
        Ok(0)
    };
    /// Takes so many handles for a frame. Returns the first.
    Enter = |task, _, count, _| {
        let base = task.handles.len();
        task.handles.resize_with(base + count as usize, || Slot::Empty);
        Ok(base as i64)
    };
    /// Gives back all from this one on.
    Leave = |task, _, base, _| {
        task.handles.truncate(base as usize);
        Ok(0)
    };
    /// To a handle, from another.
    Copy = |task, _, to, from| {
        task.handles[to as usize] = match &task.handles[from as usize] {
            Slot::Empty => Slot::Empty,
            Slot::Channel(channel) => Slot::Channel(channel.clone()),
            Slot::Task(handle) => Slot::Task(handle.clone()),
        };
        Ok(0)
    };
    /// A value for what comes next.
    Push = |task, _, value, _| {
        task.values.push(value);
        Ok(0)
    };
    Check(pays) = |task, _, _, _| {
        task.state.spending.check()?;
        Ok(0)
    };
    Yield(pays) = |task, _, _, _| {
        task.state.yield_now()?;
        Ok(0)
    };
    Print(pays) = |task, site, _, _| {
        let Task { native, state, values, .. } = task;
        let Inst { op: Op::Print(pieces), line } = native.instruction(site) else {
            unreachable!("code says which instruction it is at")
        };
        let printed = state.print(native.sites[site as usize].function as usize, pieces, values, *line);
        values.clear();
        printed?;
        Ok(0)
    };
    /// The frame, and the point inside. Returns the point behind the end.
    Nursery(pays) = |task, site, frame, inside| task.nursery(site, frame, inside);
    Create(pays) = |task, site, to, _| task.create(site, to);
    Join(pays) = |task, _, handle, _| {
        let Slot::Task(handle) = &task.handles[handle as usize] else {
            unreachable!("the verifier knows that it is a task, and was written")
        };
        task.out[0] = task.state.join(&handle.clone())?;
        Ok(0)
    };
    ChannelCreate(pays) = |task, _, to, capacity| {
        let channel = task.state.create_channel(capacity)?;
        task.handles[to as usize] = Slot::Channel(channel);
        Ok(0)
    };
    Send(pays) = |task, _, channel, value| {
        task.state.send(&task.channel(channel), value)?;
        Ok(0)
    };
    Receive(pays) = |task, _, channel, _| {
        task.out[0] = task.state.receive(&task.channel(channel))?;
        Ok(0)
    };
    /// The value, and whether there is one.
    Next(pays) = |task, _, channel, _| {
        let value = task.state.next(&task.channel(channel))?;
        task.out = [value.unwrap_or(0), value.is_some().into()];
        Ok(0)
    };
    TrySend(pays) = |task, _, channel, value| {
        task.out[0] = task.state.try_send(&task.channel(channel), value)?.into();
        Ok(0)
    };
    TryReceive(pays) = |task, _, channel, otherwise| {
        task.out[0] = task.state.try_receive(&task.channel(channel), otherwise)?;
        Ok(0)
    };
    Close(pays) = |task, _, channel, _| {
        task.state.close(&task.channel(channel))?;
        Ok(0)
    };
    IsClosed(pays) = |task, _, channel, _| {
        task.out[0] = task.state.is_closed(&task.channel(channel))?.into();
        Ok(0)
    };
    Length(pays) = |task, _, channel, _| {
        task.out[0] = task.state.length(&task.channel(channel))?;
        Ok(0)
    };
    SelectBegin = |task, _, _, _| {
        task.state.select_begin();
        Ok(0)
    };
    SelectReceive = |task, _, channel, _| {
        task.state.select_case(task.channel(channel), None);
        Ok(0)
    };
    SelectSend = |task, _, channel, value| {
        task.state.select_case(task.channel(channel), Some(value));
        Ok(0)
    };
    SelectTimeout = |task, _, time, _| {
        task.state.select_timeout(time)?;
        Ok(0)
    };
    SelectDefault = |task, _, _, _| {
        task.state.select_default();
        Ok(0)
    };
    /// The case, and what it received.
    SelectWait(pays) = |task, _, _, _| {
        let (case, value) = task.state.select_wait()?;
        task.out = [case, value];
        Ok(0)
    };
}
