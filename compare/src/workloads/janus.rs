//! What the rows of Janus share: the same function in Janus, in Rust and in WebAssembly, and how each is called.
//!
//! Janus fails where arithmetic overflows. So the Rust beside it does, with `checked_add` and its like; plain Rust, which wraps, is shown for orientation. WebAssembly wraps; Wasmtime counts fuel, which is its budget.

use std::hint::black_box;

use bursar::Runtime;
use surface_janus::{Engine, Host, Options, Program, Value};
use wasmtime::{Config, Instance, Module, Store, TypedFunc};

use crate::Failure;
use crate::measure::{Plan, Side};
use crate::table::{Bar, Row};

/// A function from a number to a number, three times. In Janus it is called `work`.
pub struct Subject {
    pub janus: &'static str,
    /// With `work` exported.
    pub wasm: &'static str,
    pub checked: fn(i64) -> Option<i64>,
    pub plain: fn(i64) -> i64,
}

/// A task that calls `work`.
const CALLER: &str = "
async func run(n: i64) -> i64 do
    return work(n)
end
";

/// Compiles a program, and sees that it is machine code.
pub fn compile(source: &str, options: &Options) -> Result<Program, Failure> {
    let program = Program::compile_with(source, options).map_err(|problems| problems.to_string())?;
    match program.prepare() {
        Engine::Native => Ok(program),
        other => Err(format!("the program is not machine code, but runs on {other:?}").into()),
    }
}

/// Calls `run` of a program as a task, and returns what it returns.
pub fn call(runtime: &Runtime, program: &Program, host: &Host, n: i64) -> Result<i64, Failure> {
    let value = runtime.nursery(|nursery| program.spawn_on(host, nursery, "run", &[Value::Int(n)])?.join())?;
    match value {
        Value::Int(value) => Ok(value),
        other => Err(format!("`run` returned {other}, not a number").into()),
    }
}

impl Subject {
    /// The program.
    pub fn program(&self, options: &Options) -> Result<Program, Failure> {
        compile(&format!("{}{CALLER}", self.janus), options)
    }

    fn wasm(&self) -> Result<(Store<()>, TypedFunc<i64, i64>), Failure> {
        let engine = wasmtime::Engine::new(Config::new().consume_fuel(true))?;
        let module = Module::new(&engine, self.wasm)?;
        let mut store = Store::new(&engine, ());
        let instance = Instance::new(&mut store, &module, &[])?;
        let work = instance.get_typed_func(&mut store, "work")?;
        Ok((store, work))
    }

    /// Ours beside Rust and Wasmtime, in nanoseconds of one of `operations`.
    pub fn rows(
        &self,
        plan: &Plan,
        name: &'static str,
        n: i64,
        operations: usize,
        unit: &'static str,
    ) -> Result<Vec<Row>, Failure> {
        let runtime = Runtime::builder().workers(1).build()?;
        let (program, host) = (self.program(&Options::new())?, Host::new());
        let (mut store, work) = self.wasm()?;
        let expected = (self.plain)(n);
        let check = |side: &str, value: Option<i64>| match value {
            Some(value) if value == expected => Ok(()),
            other => Err(Failure::from(format!("{side} returned {other:?}, not {expected}"))),
        };
        let best = plan.best_of(
            operations,
            [
                Side::new("ours", || check("Janus", Some(call(&runtime, &program, &host, n)?))),
                Side::new("rustc, checked", || check("checked Rust", (self.checked)(black_box(n)))),
                Side::new("rustc, plain", || check("plain Rust", Some((self.plain)(black_box(n))))),
                Side::new("wasmtime", || {
                    store.set_fuel(u64::MAX / 2)?;
                    check("Wasmtime", Some(work.call(&mut store, n)?))
                }),
            ],
        )?;
        let [ours, checked, plain, wasm] = best;
        Ok(vec![
            Row::new(name, "rustc -O, checked", [ours, checked], unit, Bar::Times(2.0)),
            Row::new(name, "rustc -O, plain", [ours, plain], unit, Bar::Open),
            Row::new(name, "wasmtime, fuel", [ours, wasm], unit, Bar::Times(1.0)),
        ])
    }
}
