//! Runs the functions of a program that can be tasks, each under a small budget, in virtual time.

use std::sync::OnceLock;
use std::time::Duration;

use bursar::janus::{Host, Program, Value, ir};
use bursar::{Budget, NurseryOptions, Runtime, nursery_with};

/// Functions of one program that are run.
const FUNCTIONS: usize = 4;

/// One thread plays two workers, and time is virtual: no input waits, and each does the same every time.
fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| Runtime::builder().workers(2).seeded(1).build().expect("a runtime can be made"))
}

/// Runs to an end, whatever that is, but never a panic.
pub fn run(program: &Program) {
    let tasks = program.ir().functions.iter().filter(|function| function.tenancy == ir::Tenancy::CpuParallel);
    for function in tasks.take(FUNCTIONS) {
        let arguments = function.registers[..function.parameters].iter().map(|ty| match ty {
            ir::Type::I64 => Some(Value::Int(3)),
            ir::Type::Bool => Some(Value::Bool(true)),
            _ => None,
        });
        let Some(arguments) = arguments.collect::<Option<Vec<_>>>() else { continue };
        let budget = Budget::UNLIMITED.with_ops(2_000).spawns(50).channel_ops(200);
        let options = NurseryOptions::new().task_budget(budget).timeout(Duration::from_secs(3600));
        let host = Host::new().output(|_| ()).memory_bytes(1 << 20);
        let ran = runtime()
            .run(|| nursery_with(options, |n| program.spawn_on(&host, n, &function.name, &arguments)?.join()));
        let error = match ran {
            Ok(Ok(_)) => None,
            Ok(Err(error)) => Some(error),
            Err(error) => error.task_error().cloned(),
        };
        if let Some(error) = error {
            assert!(!error.is_panic(), "{}: {error}", function.name);
        }
        // A task that is stopped has spent what it had, and cleaning up costs a little more.
        assert!(host.spent().ops <= 2_000 + 51 * 10_000, "{}", host.spent());
    }
}
