//! Machine code: its stacks, its limits, and what goes through it.
#![cfg(feature = "native")]

use std::sync::{Arc, Mutex};

use bursar::{Budget, NurseryOptions, Runtime, nursery};
use surface_janus::generate::{self, Kind};
use surface_janus::limits::NATIVE_FUNCTION_MAX;
use surface_janus::{Engine, FaultKind, Host, Program, Value, ir};

use crate::common::{compile, run_in};
use crate::hostile::renumbered;

const ENGINES: [Engine; 2] = [Engine::Native, Engine::Interpreter];

#[test]
fn a_recursion_ends_at_the_same_call_in_both_engines() {
    let program = compile(
        "
        func down(n: i64, a: i64, b: i64) -> i64 do
            defer print(n)
            if n % 2 == 0 do
                return down(n + 1, b, a + n) + a
            end
            return other(n + 1)
        end
        func other(n: i64) -> i64 do
            return down(n + 1, n, n) + 1
        end
        func main() do
            print(down(0, 1, 2))
        end
    ",
    );
    assert_eq!(program.prepare(), Engine::Native);
    for stack_bytes in [1, 100, 1_000, 4_321, 128 << 10, 1 << 20, 4 << 20] {
        let [native, interpreted] = ENGINES.map(|engine| {
            let host = Host::new().engine(engine).stack_bytes(stack_bytes).yield_interval(1 << 30);
            run_in(&program, host, NurseryOptions::new())
        });
        let fault = native.failure().fault.clone().unwrap();
        assert_eq!(fault.kind, FaultKind::Stack { limit: stack_bytes });
        assert_eq!(Some(fault), interpreted.failure().fault, "{stack_bytes} bytes");
        assert_eq!((native.lines, native.spent), (interpreted.lines, interpreted.spent), "{stack_bytes} bytes");
    }
}

#[test]
fn a_host_that_allows_more_stack_than_a_task_can_have_runs_the_interpreter() {
    let program = compile(
        "
        func down(n: i64) -> i64 do
            if n == 0 do return 0 end
            return down(n - 1) + 1
        end
        func main() -> i64 do
            return down(1000000)
        end
    ",
    );
    for stack_bytes in [1 << 28, 1 << 32, u64::MAX] {
        let done = run_in(&program, Host::new().stack_bytes(stack_bytes), NurseryOptions::new());
        assert_eq!(done.result.unwrap(), Value::Int(1_000_000));
    }
}

#[test]
fn a_panic_of_the_host_goes_through_both_engines() {
    let program = compile(
        "
        func child(n: i64) do
            defer print(\"not run\")
            print(\"panic\", n)
        end
        func main() do
            nursery do
                nursery do
                    child(1)
                end
            end
        end
    ",
    );
    for engine in ENGINES {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let seen = lines.clone();
        let host = Host::new().engine(engine).output(move |line| {
            seen.lock().unwrap().push(line.text.to_owned());
            assert!(!line.text.starts_with("panic"), "the output is broken");
        });
        let failure = program.run_main(&[], &host, NurseryOptions::new()).result.unwrap_err();
        assert!(failure.error.is_panic(), "{engine:?}: {}", failure.error);
        assert!(failure.error.to_string().contains("the output is broken"), "{engine:?}: {}", failure.error);
        assert_eq!(*lines.lock().unwrap(), ["panic 1"], "{engine:?}");
    }
}

#[test]
fn code_lives_as_long_as_a_task_that_runs_it() {
    let value = nursery(|n| {
        let task = {
            let program = compile(
                "
                async func slow(n: i64) -> i64 do
                    var sum = 0
                    for i in 1..n do
                        sum = sum + i
                        yield
                    end
                    return sum
                end
                func main() do end
            ",
            );
            assert_eq!(program.prepare(), Engine::Native);
            program.spawn(n, "slow", &[Value::Int(1_000)])?
        };
        task.join()
    });
    assert_eq!(value.unwrap(), Value::Int(500_500));
}

#[test]
fn clif_says_which_function_is_which() {
    let program = compile("func twice(n: i64) -> i64 do return n * 2 end\nfunc main() do print(twice(21)) end\n");
    let clif = program.clif().unwrap();
    for wanted in ["; @twice\nfunction u0:", "; @main\n", "; @main, as a task\n", "smul_overflow", " janus.Print\n"] {
        assert!(clif.contains(wanted), "{wanted} is not in\n{clif}");
    }
}

#[test]
fn a_program_beyond_the_limits_of_machine_code_is_interpreted() {
    let mut source = String::from("func main() -> i64 do\n    var x = 0\n");
    for _ in 0..NATIVE_FUNCTION_MAX / 2 {
        source.push_str("    x = x + 1\n");
    }
    source.push_str("    return x\nend\n");
    let program = compile(&source);
    assert_eq!((program.prepare(), program.clif()), (Engine::Interpreter, None));
    let done = run_in(&program, Host::new(), NurseryOptions::new());
    assert_eq!(done.result.unwrap(), Value::Int(NATIVE_FUNCTION_MAX as i64 / 2));
}

/// What is printed, how it ends, what was spent, and the trace.
fn seen(program: &Program, engine: Engine, seed: u64, ops: u64) -> (Vec<String>, String, surface_janus::Spent, u64) {
    let runtime = Runtime::builder().workers(2).seeded(seed).build().unwrap();
    let budget = Budget::ops(ops).spawns(200).channel_ops(500);
    let options = NurseryOptions::new().task_budget(budget).timeout(std::time::Duration::from_secs(60));
    let done = runtime.run(|| run_in(program, Host::new().engine(engine), options)).unwrap();
    let ended = match done.result {
        Ok(value) => value.to_string(),
        Err(failure) => format!("{:?} {}", failure.fault, failure.error),
    };
    (done.lines, ended, done.spent, runtime.trace().hash())
}

#[test]
fn the_engines_agree_on_ir_that_no_source_gives() {
    let mut state = 7_u64;
    let mut random = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize
    };
    let mut compared = 0;
    for seed in 0..600 {
        let kind = if seed % 2 == 0 { Kind::Concurrent } else { Kind::Tasks };
        let program = Program::compile(&generate::program(seed % 100, kind)).unwrap();
        let changes: Vec<_> = (0..1 + seed % 3).map(|_| (random(), random())).collect();
        let text = renumbered(&program.ir().to_string(), &changes);
        let Ok(module) = ir::parse("x", &text) else { continue };
        let Ok(verified) = ir::verify(module) else { continue };
        compared += 1;
        let program = Program::from_ir(verified, "x");
        let [native, interpreted] = ENGINES.map(|engine| seen(&program, engine, seed, 5_000));
        assert_eq!(native, interpreted, "program {seed}, {changes:?}\n{text}");
    }
    assert!(compared > 100, "{compared}");
}

#[test]
fn a_nursery_is_left_on_every_way_out_with_what_its_function_knew() {
    let source = "
        func leaf(n: i64) do print(\"leaf\", n) end
        func main() -> i64 do
            var sum = 0
            for i in 1..6 do
                nursery do
                    spawn leaf(i)
                    if i == 2 do continue end
                    nursery do
                        spawn leaf(i * 10)
                        if i == 4 do
                            sum = sum + 100
                            break
                        end
                        if i == 3 do continue end
                        sum = sum + i
                    end
                    sum = sum + 1000
                end
            end
            return sum
        end
    ";
    let program = compile(source);
    let [native, interpreted] = ENGINES.map(|engine| seen(&program, engine, 3, 10_000_000));
    assert_eq!(native, interpreted);
    assert_eq!(native.1, "1101");
}

#[test]
fn the_smallest_number_by_minus_one_has_a_remainder_and_no_quotient() {
    let source = "
func rest(a: i64, b: i64) -> i64 do
    return a % b
end
func quotient(a: i64, b: i64) -> i64 do
    return a / b
end
func main() do
    let least = -9223372036854775807 - 1
    print(rest(least, -1), least % -1, rest(7, -1), rest(-7, 2), rest(least, 3), quotient(least + 1, -1))
    print(quotient(least, -1))
end
";
    let program = compile(source);
    for engine in ENGINES {
        let (lines, ended, ..) = seen(&program, engine, 1, 1_000);
        assert_eq!(lines, ["0 0 0 -1 -2 9223372036854775807"], "{engine:?}");
        assert!(ended.contains("in `quotient`: overflow"), "{engine:?}: {ended}");
    }
}

#[test]
fn a_line_costs_as_much_as_it_is_long_in_both_engines() {
    for (bytes, ops) in [(0, 1), (1, 1), (64, 1), (65, 2), (128, 2), (129, 3), (1 << 20, 1 << 14)] {
        let text = "x".repeat(bytes);
        let program = compile(&format!("func main() do print(\"{text}\") end"));
        for engine in ENGINES {
            let (lines, ended, spent, _) = seen(&program, engine, 1, ops);
            assert_eq!((lines.len(), ended.as_str(), spent.ops), (1, "()", ops), "{bytes} bytes, {engine:?}");
            let (lines, ended, spent, _) = seen(&program, engine, 1, (ops - 1).max(1));
            if ops > 1 {
                assert_eq!((lines.len(), spent.ops), (0, ops - 1), "{bytes} bytes, {engine:?}: {ended}");
            }
        }
    }
    // Numbers, and the spaces between, count as what they take.
    let spaces = compile(&format!("func main() do print({}-1) end", "\"\", ".repeat(63)));
    let numbers =
        compile("func main() do print(-9223372036854775807, -9223372036854775807, -9223372036854775807, 12) end");
    for engine in ENGINES {
        assert_eq!(seen(&spaces, engine, 1, 100).2.ops, 2, "{engine:?}");
        assert_eq!(seen(&numbers, engine, 1, 100).2.ops, 2, "{engine:?}");
    }
}
