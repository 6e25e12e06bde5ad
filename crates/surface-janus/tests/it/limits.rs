//! What a program may have of everything.

use bursar::{Budget, NurseryOptions};
use surface_janus::limits::OPEN_NURSERIES_MAX;
use surface_janus::{FaultKind, Host};

use crate::common::{compile, run, run_in};

#[test]
fn nurseries_of_one_task_nest_up_to_their_limit_and_no_deeper() {
    let source = |depth: usize| {
        format!(
            "
            func leaf() do end
            func down(n: i64) do
                if n == 0 do return end
                nursery do
                    spawn leaf()
                    down(n - 1)
                end
            end
            func main() do
                down({depth})
                print(\"done\")
            end
        "
        )
    };
    assert_eq!(run(&source(OPEN_NURSERIES_MAX)).printed(), ["done"]);
    let done = run(&source(OPEN_NURSERIES_MAX + 1));
    assert_eq!(done.failure().fault.as_ref().unwrap().kind, FaultKind::Nurseries);
}

#[test]
fn channels_have_sizes_and_take_memory() {
    let done = run("func main() do\n    let n = -1\n    let c = channel(n)\n    c.close()\nend\n");
    let fault = done.failure().fault.clone().unwrap();
    assert_eq!((fault.kind, fault.line), (FaultKind::Capacity(-1), 3));
    let program = compile(
        "func main() do\n    for i in 1..10 do\n        let c = channel(100)\n        c.close()\n        print(i)\n    end\nend\n",
    );
    let done = run_in(&program, Host::new().memory_bytes(3 * 864), NurseryOptions::new());
    assert_eq!(done.lines, ["1", "2", "3"]);
    assert_eq!(done.failure().fault.as_ref().unwrap().kind, FaultKind::Memory { limit: 2592 });
    assert_eq!(done.spent.memory, 2592);
}

#[test]
fn a_closed_channel_takes_nothing_and_gives_what_it_has() {
    let done = run("
        func main() do
            let c = channel(2)
            c.send(1)
            c.close()
            print(c.is_closed(), c.try_send(2), c.recv(), c.try_recv(9))
            print(c.recv())
        end
    ");
    assert_eq!(done.lines, ["true false 1 9"]);
    assert_eq!(done.failure().fault.as_ref().unwrap().kind, FaultKind::Closed);
}

#[test]
fn the_budget_of_main_pays_for_all_tasks_of_a_program() {
    let program = compile(
        "
        func work() do
            for i in 1..1000 do end
        end
        func main() do
            nursery do
                for i in 1..10 do
                    spawn work()
                end
            end
        end
    ",
    );
    let with = |budget| run_in(&program, Host::new(), NurseryOptions::new().task_budget(budget));
    let plenty = with(Budget::ops(100_000).spawns(100));
    assert_eq!((plenty.spent.ops, plenty.spent.spawns), (10 * 1000 + 10 + 10, 10), "{:?}", plenty.result);
    let few = with(Budget::ops(100_000).spawns(5));
    assert!(few.failure().error.to_string().contains("SpawnBudgetExhausted"), "{}", few.failure().error);
    assert_eq!(few.spent.spawns, 5);
    assert_eq!(few.failure().fault.as_ref().map(|fault| fault.line), Some(8));
    let little = with(Budget::ops(5_000).spawns(100));
    assert!(little.failure().error.to_string().contains("OpsBudgetExhausted"), "{}", little.failure().error);
    assert!(little.spent.ops <= 5_000, "{}", little.spent);
}

#[test]
fn the_budget_of_main_pays_for_tasks_of_tasks() {
    let program = compile(
        "
        async func fib(n: i64) -> i64 do
            if n < 2 do return n end
            let a = fib(n - 1)
            let b = fib(n - 2)
            return await a + await b
        end
        func main() do
            print(await fib(12))
        end
    ",
    );
    let with = |budget| run_in(&program, Host::new(), NurseryOptions::new().task_budget(budget));
    // Tasks that wait keep a share each, so it takes more than is spent in the end.
    let plenty = with(Budget::ops(100_000_000).spawns(1_000_000));
    assert_eq!((plenty.spent.spawns, plenty.spent.ops), (465, 466), "{:?}", plenty.result);
    assert_eq!(plenty.printed(), ["144"]);
    let few = with(Budget::ops(100_000_000).spawns(300));
    assert!(few.failure().error.to_string().contains("SpawnBudgetExhausted"), "{}", few.failure().error);
    let little = with(Budget::ops(400).spawns(100_000));
    assert!(little.failure().error.to_string().contains("OpsBudgetExhausted"), "{}", little.failure().error);
}

#[test]
fn a_long_program_compiles_and_runs() {
    let mut source = String::new();
    for n in 0..1_000 {
        source.push_str(&format!(
            "func f{n}(a: i64) -> i64 do\n    var x = a\n    for i in 1..3 do\n        if x % 2 == 0 do\n            x = x + i * {n}\n        else\n            x = x - 1\n        end\n    end\n    return x\nend\n"
        ));
    }
    source.push_str("func main() do\n    var sum = 0\n");
    // One function that is long by itself, with variables and calls in every line.
    for n in 0..1_000 {
        source.push_str(&format!("    let v{n} = f{n}({n}) % 1000\n    sum = sum + v{n}\n"));
    }
    source.push_str("    print(sum)\nend\n");
    assert!(source.lines().count() > 13_000);
    let before = std::time::Instant::now();
    let program = compile(&source);
    println!("{} lines in {:?}", source.lines().count(), before.elapsed());
    let done = run_in(&program, Host::new(), NurseryOptions::new());
    assert_eq!(done.spent.ops, 1_000 * 4 + 1);
    assert_eq!(done.printed().len(), 1);
}
