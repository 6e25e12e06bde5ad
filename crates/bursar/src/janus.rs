//! Janus: programs that you let into your process and do not trust with it.
//!
//! Room: interface.
//!
//! A [`Program`] is compiled from a text; [`Program::spawn`] puts one of its functions into any nursery, under its budgets, capabilities, seeds and traces. A plug-in so started cannot keep a worker, leave a task behind,
//! or spend more than the nursery has; if it fails, that is the error of its task, with the line of the source. No toolchain is needed, and no separate process.
//! The language is described in the guide `docs/janus.md`; `bursar exec FILE.jan` runs a program from a shell.
//!
//! ```
//! use bursar::{Budget, NurseryOptions, Reason, nursery_with};
//! use bursar::capability::{CapSpawn, Ledger};
//! use bursar::janus::{Fault, Program, Value};
//!
//! // What a tenant sent us.
//! let plugin = Program::compile("
//!     async func square(n: i64) -> i64 do
//!         return n * n
//!     end
//!
//!     async func sum_of_squares(n: i64) -> i64 do
//!         var sum = 0
//!         for i in 1..n do
//!             sum = sum + await square(i)
//!         end
//!         return sum
//!     end
//!
//!     async func hog() do
//!         while true do end
//!     end
//!
//!     async func divide(a: i64, b: i64) -> i64 do
//!         return a / b
//!     end
//! ")?;
//!
//! // What the tenant may do: 8 tasks at a time, 10,000 operations and 100 tasks for each call.
//! let ledger = Ledger::new();
//! let capability = ledger.grant(CapSpawn::new().max_tasks(8));
//! let tenant = || {
//!     let budget = Budget::ops(10_000).spawns(100);
//!     NurseryOptions::new().name("tenant-7").capability(&capability).task_budget(budget)
//! };
//! let call = |function: &str, arguments: &[Value]| {
//!     nursery_with(tenant(), |n| plugin.spawn(n, function, arguments)?.join())
//! };
//!
//! assert_eq!(call("sum_of_squares", &[Value::Int(10)])?, Value::Int(385));
//!
//! let hogged = call("hog", &[]).unwrap_err(); // did not keep us
//! assert!(matches!(hogged.reason(), Reason::BudgetExhausted { granted: 10_000, .. }));
//!
//! let failed = call("divide", &[Value::Int(1), Value::Int(0)]).unwrap_err();
//! let fault = failed.downcast_ref::<Fault>().expect("an error of the program");
//! assert_eq!((fault.line, fault.kind.to_string().as_str()), (19, "division by zero"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A [`Host`] says what becomes of what a program prints, adds up what it spends, and knows the line also where the runtime stopped it, for a budget or a capability:
//!
//! ```
//! use bursar::{Budget, NurseryOptions, nursery_with};
//! use bursar::janus::{Host, Program};
//!
//! let plugin = Program::compile("func main() do\n    print(6 * 7)\n    while true do end\nend")?;
//! let host = Host::new().output(|line| assert_eq!(line.text, "42"));
//! let options = NurseryOptions::new().task_budget(Budget::ops(500));
//! let stopped = nursery_with(options, |n| plugin.spawn_on(&host, n, "main", &[])?.join()).unwrap_err();
//! assert_eq!(stopped.reason().name(), "OpsBudgetExhausted");
//! assert_eq!((host.spent().ops, host.fault().map(|fault| fault.line)), (500, Some(3)));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#[doc(inline)]
pub use surface_janus::{
    CallError, Engine, Failure, Fault, FaultKind, Host, Location, Options, Outcome, Printed, Problem, Problems,
    Profile, Program, Spent, Value,
};

/// QTJIR, what programs are compiled to: blocks, instructions, their text form, and the verifier that everything passes before it runs.
pub mod ir {
    #[doc(inline)]
    pub use surface_janus::ir::{
        Arithmetic, Block, BlockId, Callee, Comparison, End, FuncId, Function, Inst, Module, Op, Piece, Refused, Reg,
        Tenancy, Type, Verified, parse, verify,
    };
}

/// How large a program may be.
pub mod limits {
    #[doc(inline)]
    pub use surface_janus::limits::{
        CHANNEL_CAPACITY_MAX, CLEANUP_OPS_MAX, EXPRESSION_HEIGHT_MAX, FUNCTIONS_MAX, INSTRUCTIONS_MAX, IR_BYTES_MAX,
        NESTING_MAX, OPEN_NURSERIES_MAX, PARAMETERS_MAX, REGISTERS_MAX, SELECT_CASES_MAX, SOURCE_BYTES_MAX,
    };
}
