//! Small programs, each with what it prints.

use bursar::capability::{CapSpawn, Ledger};
use bursar::{Budget, NurseryOptions, Reason, budget::Component};
use surface_janus::{FaultKind, Host, Value};

use crate::common::{compile, run, run_in};

#[test]
fn a_program_prints_42() {
    assert_eq!(run("func main() do\n    print(42)\nend\n").printed(), ["42"]);
}

#[test]
fn three_spawned_tasks_all_run_before_the_nursery_ends() {
    let done = run("
        func work(n: i64) do
            print(\"task\", n)
        end

        func main() do
            nursery do
                spawn work(1)
                spawn work(2)
                spawn work(3)
            end
            print(\"all done\")
        end
    ");
    assert_eq!(done.spent.spawns, 3);
    let mut lines = done.printed();
    assert_eq!(lines.pop().as_deref(), Some("all done"));
    lines.sort();
    assert_eq!(lines, ["task 1", "task 2", "task 3"]);
}

#[test]
fn awaiting_gives_the_value_of_a_task() {
    let source = "
        async func square(n: i64) -> i64 do
            return n * n
        end

        func cube(n: i64) -> i64 do
            return n * n * n
        end

        func main() -> i64 do
            let four = square(2)
            var sum = await four + await square(3)
            nursery {
                let eight = spawn cube(2)
                sum = sum + await eight + await eight
            }
            return sum
        end
    ";
    assert_eq!(run(source).result.unwrap(), Value::Int(29));
}

#[test]
fn a_failing_child_fails_its_nursery_with_the_line_of_the_source() {
    let done = run("func bad(n: i64) -> i64 do
    return 1 / n
end

func sleeper(c: chan) do
    let never = c.recv()
    print(\"never\", never)
end

func main() do
    let c = channel(1)
    defer print(\"deferred\")
    nursery do
        spawn sleeper(c)
        spawn bad(0)
    end
    print(\"never\")
end
");
    assert_eq!(done.lines, ["deferred"]);
    let fault = done.failure().fault.clone().unwrap();
    assert_eq!((fault.kind, fault.line, &*fault.function), (FaultKind::DivisionByZero, 2, "bad"));
    let text = done.failure().to_string();
    assert_eq!(text, "main.jan:2: in `bad`: division by zero");
    assert!(done.failure().error.to_string().contains("task `bad`"), "{}", done.failure().error);
}

#[test]
fn awaiting_a_failing_child_fails_with_the_error_of_the_child() {
    for _ in 0..50 {
        let done = run("
            async func bad(n: i64) -> i64 do
                return 1 / n
            end
            func main() do
                defer print(\"deferred\")
                print(await bad(0))
            end
        ");
        assert_eq!(done.lines, ["deferred"]);
        assert_eq!(done.failure().fault.as_ref().unwrap().kind, FaultKind::DivisionByZero);
        assert_eq!(done.failure().error.others().len(), 0, "{}", done.failure().error);
    }
}

#[test]
fn producer_and_consumer_pass_values_through_a_channel() {
    let done = run("
        func produce(c: chan, n: i64) do
            defer c.close()
            for i in 1..n do
                c.send(i)
            end
        end

        async func consume(c: chan) -> i64 do
            var sum = 0
            for value in c do
                sum = sum + value
            end
            return sum
        end

        func main() do
            let c = channel(4)
            nursery do
                spawn produce(c, 100)
                print(await consume(c))
            end
        end
    ");
    assert_eq!(done.spent.channel_ops, 201); // and one that finds it closed
    assert_eq!(done.spent.memory, 64 + 8 * 4);
    assert_eq!(done.printed(), ["5050"]);
}

#[test]
fn a_select_takes_what_is_ready_or_its_limit() {
    let lines = run("
        func main() do
            let empty = channel(1)
            let full = channel(1)
            full.send(7)
            select do
                case v = empty.recv() do print(\"empty\", v) end
                timeout 5 do print(\"timeout\") end
            end
            select do
                case v = empty.recv() do print(\"empty\", v) end
                case v = full.recv() do print(\"full\", v) end
                timeout 60000 do print(\"timeout\") end
            end
            select do
                case v = full.recv() do print(\"full\", v) end
                default do print(\"default\") end
            end
            select do
                case full.send(8) do print(\"sent\", full.len()) end
                default do print(\"default\") end
            end
        end
    ")
    .printed();
    assert_eq!(lines, ["timeout", "full 7", "default", "sent 1"]);
}

/// What the children print, and then the `defer`s.
fn nested(exit: &str) -> String {
    format!(
        "
        func child(n: i64) do
            defer print(\"child ends\", n)
            select do
                timeout 40 / n do end
            end
        end

        func zero() -> i64 do return 0 end

        func work() -> i64 do
            defer print(\"defer of work\")
            for round in 1..2 do
                defer print(\"defer of round\", round)
                nursery do
                    defer print(\"defer of outer nursery\")
                    spawn child(1)
                    nursery do
                        spawn child(2)
                        {exit}
                    end
                    print(\"not left\")
                end
            end
            return 5
        end

        func main() do
            print(work())
        end
    "
    )
}

/// The lines in which children end come first, in any order.
fn split(lines: &[String]) -> (Vec<String>, Vec<String>) {
    let (mut children, others): (Vec<_>, Vec<_>) = lines.iter().cloned().partition(|line| line.starts_with("child"));
    children.sort();
    (children, others)
}

#[test]
fn an_early_return_waits_for_children_before_the_defers_of_the_blocks_around() {
    let lines = run(&nested("return 3")).printed();
    let (children, others) = split(&lines[..2]);
    assert_eq!((children.len(), others.len()), (2, 0), "{lines:?}");
    assert_eq!(lines[2..], ["defer of outer nursery", "defer of round 1", "defer of work", "3"]);
}

#[test]
fn a_break_and_a_continue_wait_for_children_before_the_defers_of_the_blocks_around() {
    let lines = run(&nested("break")).printed();
    assert_eq!(split(&lines[..2]).0, ["child ends 1", "child ends 2"], "{lines:?}");
    assert_eq!(lines[2..], ["defer of outer nursery", "defer of round 1", "defer of work", "5"]);
    let lines = run(&nested("continue")).printed();
    assert_eq!(split(&lines[..2]).0, ["child ends 1", "child ends 2"], "{lines:?}");
    assert_eq!(lines[2..4], ["defer of outer nursery", "defer of round 1"]);
    assert_eq!(split(&lines[4..6]).0, ["child ends 1", "child ends 2"], "{lines:?}");
    assert_eq!(lines[6..], ["defer of outer nursery", "defer of round 2", "defer of work", "5"]);
}

#[test]
fn an_error_waits_for_children_which_it_cancels_before_the_defers_of_the_blocks_around() {
    let done = run(&nested("print(1 / zero())"));
    // Those that began run their `defer`s, though they are cancelled.
    let (_, others) = split(&done.lines);
    assert_eq!(others, ["defer of outer nursery", "defer of round 1", "defer of work"]);
    let first_other = done.lines.iter().position(|line| line.starts_with("defer")).unwrap();
    assert!(done.lines[first_other..].iter().all(|line| !line.starts_with("child")), "{:?}", done.lines);
    assert_eq!(done.failure().fault.as_ref().unwrap().kind, FaultKind::DivisionByZero);
}

#[test]
fn an_error_in_a_defer_does_not_keep_the_others_from_running() {
    let done = run("
        func zero() -> i64 do return 0 end
        func main() do
            defer print(\"first\")
            defer print(1 / zero())
            defer print(\"last\")
            print(9223372036854775807 + zero() + 1)
        end
    ");
    assert_eq!(done.lines, ["last", "first"]);
    assert_eq!(
        done.failure().fault.as_ref().unwrap().kind,
        FaultKind::Overflow,
        "the first error is the one that counts"
    );
}

#[test]
fn deep_recursion_is_a_clean_error_and_shallow_recursion_is_none() {
    let source = "func down(n: i64) -> i64 do
    if n == 0 do return 0 end
    return 1 + down(n - 1)
end

func main() do
    print(down(200))
    print(down(1000000))
end
";
    let done = run(source);
    assert_eq!(done.lines, ["200"]);
    let fault = done.failure().fault.clone().unwrap();
    assert_eq!((fault.kind, fault.line), (FaultKind::Stack { limit: 128 << 10 }, 3));
    let done =
        run_in(&compile(&source.replace("1000000", "20000")), Host::new().stack_bytes(16 << 20), NurseryOptions::new());
    assert_eq!(done.printed(), ["200", "20000"]);
}

#[test]
fn an_endless_loop_is_stopped_by_its_budget_and_spends_exactly_that() {
    let program = compile("func main() do\n    var n = 0\n    while true do\n        n = n + 1\n    end\nend\n");
    for ops in [1, 1000, 5000] {
        let done = run_in(&program, Host::new(), NurseryOptions::new().task_budget(Budget::ops(ops)));
        match done.failure().error.reason() {
            Reason::BudgetExhausted { component: Component::Ops, granted, .. } => assert_eq!(*granted, ops),
            other => panic!("{other}"),
        }
        assert_eq!(done.spent.ops, ops);
        let fault = done.failure().fault.clone().unwrap();
        assert_eq!(fault.line, 3, "{fault}");
        assert!(fault.to_string().contains("OpsBudgetExhausted"), "{fault}");
    }
}

#[test]
fn a_fork_bomb_is_stopped_by_its_capability() {
    let program = compile(
        "
        {.profile: sovereign, needs: spawn.}
        func bomb(n: i64) do
            nursery do
                spawn bomb(n + 1)
                spawn bomb(n + 1)
            end
        end
        func main() do
            bomb(0)
        end
    ",
    );
    assert!(program.needs_spawn());
    let ledger = Ledger::new();
    let capability = ledger.grant(CapSpawn::new().max_tasks(50));
    let without = run_in(&program, Host::new(), NurseryOptions::new());
    assert!(without.failure().to_string().contains("takes a capability"), "{}", without.failure());
    let done = run_in(&program, Host::new().grant_spawn(&capability), NurseryOptions::new().capability(&capability));
    assert!(matches!(done.failure().error.reason(), Reason::NotAllowed(_)), "{}", done.failure().error);
    assert!(done.failure().fault.clone().unwrap().line >= 5);
    // Fifty at a time: some had ended before others began.
    assert!((25..500).contains(&done.spent.spawns), "{}", done.spent);
    assert!(ledger.audit_totals().refusals() >= 1);
}

#[test]
fn a_cancelled_program_runs_its_defers_and_no_more() {
    let program = compile(
        "
        func main() do
            let c = channel(0)
            defer do
                print(\"defer begins\")
                yield
                print(\"defer ends\")
            end
            print(\"waits\")
            print(c.recv())
        end
    ",
    );
    let options = NurseryOptions::new().timeout(std::time::Duration::from_millis(50));
    let done = run_in(&program, Host::new(), options);
    assert_eq!(done.lines, ["waits", "defer begins", "defer ends"]);
    assert!(matches!(done.failure().error.reason(), Reason::DeadlineExceeded { .. }), "{}", done.failure().error);
}

#[test]
fn an_endless_loop_is_cancelled_by_a_deadline() {
    let program = compile("func main() do while true do end end");
    let options = NurseryOptions::new().timeout(std::time::Duration::from_millis(50));
    let done = run_in(&program, Host::new(), options);
    assert!(matches!(done.failure().error.reason(), Reason::DeadlineExceeded { .. }), "{}", done.failure().error);
}

#[test]
fn a_value_that_is_returned_was_taken_before_the_defers_ran() {
    let lines = run("
        func f() -> i64 do
            var x = 1
            defer do
                x = 2
                print(\"deferred\", x)
            end
            return x
        end
        func main() do print(f()) end
    ")
    .printed();
    assert_eq!(lines, ["deferred 2", "1"]);
}

#[test]
fn a_variable_keeps_its_value_until_what_it_is_assigned_is_known() {
    let lines = run("
        func zero() -> i64 do return 0 end
        func main() do
            var x = false
            let yes = true
            x = yes and x
            print(x)
            x = true
            x = not yes or x
            print(x)
            defer print(\"after the error:\", x)
            x = not yes or 1 / zero() == 1
        end
    ")
    .lines;
    assert_eq!(lines, ["false", "true", "after the error: true"]);
}

#[test]
fn a_task_is_stopped_where_its_budget_ends_and_not_at_its_next_check() {
    let source =
        "func main() do\n    var n = 9223372036854775807 - 600\n    while true do\n        n = n + 1\n    end\nend\n";
    let with = |ops| run_in(&compile(source), Host::new(), NurseryOptions::new().task_budget(Budget::ops(ops)));
    let stopped = with(500);
    assert!(matches!(stopped.failure().error.reason(), Reason::BudgetExhausted { .. }), "{}", stopped.failure());
    let fault = stopped.failure().fault.clone().unwrap();
    assert!(matches!(fault.kind, FaultKind::Refused(_)), "{fault}");
    let failed = with(601);
    assert_eq!(failed.failure().fault.as_ref().unwrap().kind, FaultKind::Overflow);
    assert_eq!(failed.spent.ops, 600, "what was done before it failed is paid");
}

#[test]
fn a_cancelled_program_ends_whatever_it_defers() {
    for hog in [
        "while true do end",
        "print(c.recv())",
        "c.send(1)",
        "for v in c do end",
        "recurse(c)",
        "waits(c)",
        "select do case v = c.recv() do end end",
    ] {
        let program = compile(&format!(
            "
            func leaf(c: chan) do print(c.recv()) end
            func recurse(c: chan) do while true do recurse(c) end end
            func waits(c: chan) do nursery do spawn leaf(c) end end
            func main() do
                let c = channel(0)
                defer print(\"first\")
                defer do
                    {hog}
                    print(\"never\")
                end
                defer do
                    select do case v = c.recv() do end; timeout 60000 do print(\"at once\") end end
                end
                print(c.recv())
            end
        "
        ));
        let options = NurseryOptions::new().timeout(std::time::Duration::from_millis(150));
        let done = run_in(&program, Host::new(), options);
        assert_eq!(done.lines[..1], ["at once"], "{hog}");
        // The loop has used up what there was for the others.
        let rest: &[&str] = if hog.starts_with("while") { &[] } else { &["first"] };
        assert_eq!(done.lines[1..], *rest, "{hog}");
        assert!(matches!(done.failure().error.reason(), Reason::DeadlineExceeded { .. }), "{}", done.failure().error);
    }
}

#[test]
fn awaiting_a_failing_task_of_an_outer_block_ends_the_nursery_it_is_awaited_in() {
    let done = run("
        async func bad(n: i64) -> i64 do
            yield
            return 1 / n
        end
        func blocked(c: chan) do
            defer print(\"cancelled\")
            print(c.recv())
        end
        func main() do
            defer print(\"last\")
            let t = bad(0)
            nursery do
                spawn blocked(channel(0))
                yield
                print(await t)
            end
        end
    ");
    assert_eq!(done.lines.last().map(String::as_str), Some("last"), "{:?}", done.lines);
    assert!(!done.lines.iter().any(|line| line == "0"), "{:?}", done.lines);
    assert_eq!(done.failure().fault.as_ref().unwrap().kind, FaultKind::DivisionByZero);
}

#[test]
fn a_host_that_panics_fails_the_task_that_prints_and_its_nursery() {
    let program = compile("func child() do print(1) end\nfunc main() do nursery do spawn child() end end");
    let host = Host::new().output(|line| panic!("no paper for {}", line.text));
    let failure = program.run_main(&[], &host, NurseryOptions::new()).result.unwrap_err();
    assert!(failure.error.is_panic() && failure.error.to_string().contains("no paper for 1"), "{}", failure.error);
}

#[test]
fn functions_are_called_from_outside_with_what_they_take() {
    let program = compile(
        "
        async func add(a: i64, is_double: bool) -> i64 do
            if is_double do return a * 2 end
            return a
        end
        func inner() do end
        func main() do inner() end
    ",
    );
    let call = |name: &str, arguments: &[Value]| {
        bursar::nursery(|n| program.spawn(n, name, arguments)?.join()).map_err(|error| error.to_string())
    };
    assert_eq!(call("add", &[Value::Int(21), Value::Bool(true)]), Ok(Value::Int(42)));
    assert_eq!(call("main", &[]), Ok(Value::Unit));
    for (name, arguments, wanted) in [
        ("adds", &[][..], "did you mean `add`?"),
        ("inner", &[], "declare it `async func inner`"),
        ("add", &[Value::Int(1)], "takes (i64, bool)"),
        ("add", &[Value::Bool(true), Value::Bool(true)], "takes (i64, bool)"),
    ] {
        let error = call(name, arguments).unwrap_err();
        assert!(error.contains(wanted), "{error}");
    }
}
