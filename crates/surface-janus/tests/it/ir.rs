//! The text form of QTJIR, the verifier, and the passes.

use surface_janus::generate::{self, Kind};
use surface_janus::ir::{self, BlockId, Callee, End, FuncId, Inst, Module, Op, Reg, Tenancy, Type};
use surface_janus::{Host, Options, Program};

use bursar::NurseryOptions;

use crate::common::{compile, compile_with, run_in};

#[track_caller]
fn refused(text: &str) -> String {
    let module = ir::parse("test.qtjir", text).unwrap_or_else(|problems| panic!("{problems}"));
    ir::verify(module).expect_err("it is wrong").to_string()
}

#[track_caller]
fn parsed(text: &str) -> Module {
    ir::parse("test.qtjir", text).unwrap_or_else(|problems| panic!("{problems}"))
}

#[test]
fn the_text_of_a_module_is_read_back_as_the_same_module() {
    for seed in 0..300 {
        let kind = if seed % 2 == 0 { Kind::Sequential } else { Kind::Concurrent };
        let program = compile(&generate::program(seed, kind));
        let text = program.ir().to_string();
        assert_eq!(parsed(&text), *program.ir(), "seed {seed}");
        assert_eq!(parsed(&text).to_string(), text, "seed {seed}");
    }
    let odd = compile("func main() do print(\"a\\\"b\\\\c\\n\\td, %1 !3 // é\", -9223372036854775808) end");
    assert_eq!(parsed(&odd.ir().to_string()), *odd.ir());
}

#[test]
fn a_program_shows_the_opcodes_of_its_tasks_and_budgets() {
    let program = compile(
        "func f(n: i64) do end
func main() do
    nursery do
        spawn f(1)
    end
end
",
    );
    let text = program.ir().to_string();
    let wanted = "func @main() -> unit CPU_Parallel {
  %0: task.unit
  %1: i64
bb0:
  nursery_begin 0 !3
  jump bb1 !3
bb1 on_error bb3:
  %1 = const 1 !4
  budget_check !4
  %0 = task_create @f(%1) !4
  jump bb2 !4
bb2:
  nursery_end 0 !4
  return !6
bb3:
  nursery_end 0 !6
  raise !6
}
";
    assert!(text.ends_with(wanted), "{text}");
}

#[test]
fn ir_that_was_written_by_hand_runs() {
    let text = "func @main() -> i64 CPU_Parallel {
  %0: i64
  %1: i64
  %2: bool
bb0:
  %0 = const 3
  %1 = const -1
  jump bb1
bb1:
  %2 = lt %1, %0
  branch %2, bb2, bb3
bb2:
  budget_decrement 1
  budget_check
  print \"round\", %0
  %0 = add %0, %1
  budget_decrement 1
  budget_check
  jump bb1
bb3:
  return %0
}
";
    let program = Program::from_ir(ir::verify(parsed(text)).unwrap(), "hand.qtjir");
    let done = run_in(&program, Host::new(), NurseryOptions::new());
    assert_eq!(done.lines, ["round 3", "round 2", "round 1", "round 0"]);
    assert_eq!(done.spent.ops, 8);
}

/// `main` with these registers, blocks and all.
fn main_of(body: &str) -> String {
    format!(
        "func @main() -> unit CPU_Parallel {{\n{body}\n}}\nfunc @serial() -> unit CPU_Serial {{\nbb0:\n return\n}}\nfunc @task() -> unit CPU_Parallel {{\nbb0:\n return\n}}\n"
    )
}

#[test]
fn what_may_not_run_is_refused_with_its_place() {
    let cases = [
        ("bb0:\n jump bb7", "there is no block bb7"),
        ("bb0:\n %3 = const 1\n return", "there is no register %3"),
        ("%0: i64\nbb0:\n %0 = const true\n return", "%0 is i64, where bool is needed"),
        ("%0: i64\n%1: i64\nbb0:\n %1 = copy %0\n return", "%0 may not be written yet"),
        ("%0: i64\nbb0:\n %0 = const 1\n return %0", "%0 is i64, where unit is needed"),
        ("%0: unit\nbb0:\n return", "`unit` is none"),
        ("bb0:\n raise", "`raise` without an error"),
        ("bb0 on_error bb1:\n yield\n return\nbb1:\n return", "would lose the pending error"),
        ("bb0 on_error bb1:\n yield\n jump bb1\nbb1:\n return", "reached failing on one way, and not on another"),
        ("bb0:\n nursery_begin 0\n return", "the function ends while nursery 0 is open"),
        ("bb0:\n nursery_end 0\n return", "nursery 0 is not open"),
        ("bb0:\n nursery_begin 0\n yield\n nursery_end 0\n return", "it can fail while a nursery is open"),
        ("%0: task.unit\nbb0:\n budget_check\n %0 = task_create @task()\n return", "no nursery is open"),
        (
            "%0: task.unit\nbb0:\n nursery_begin 0\n jump bb1\nbb1 on_error bb2:\n budget_check\n %0 = task_create @serial()\n jump bb2\nbb2:\n nursery_end 0\n return",
            "@serial is CPU_Serial",
        ),
        ("%0: task.unit\nbb0:\n %0 = spawn @task()\n return", "which `passes::asynchronous` lowers"),
        ("bb0:\n call @task()\n return", "0 operations are counted in this block so far, and 1 were done"),
        ("bb0:\n budget_decrement 1\n call @task()\n return", "a `budget_check` is missing behind the last decrement"),
        (
            "%0: i64\n%1: chan\nbb0:\n %0 = const 1\n %1 = channel_create %0\n budget_decrement 1\n budget_check\n channel_close %1\n channel_send %1, %0\n return",
            "a `budget_check` is missing before it",
        ),
        ("bb0:\n budget_decrement 2\n budget_check\n call @task()\n return", "2 operations are counted"),
        ("bb0:\n jump bb0", "0 operations are counted in this block, and 1 were done"),
        ("bb0:\n budget_decrement 1\n jump bb0", "a `budget_check` is missing before it goes back"),
        (
            "%0: bool\nbb0:\n %0 = const true\n jump bb1\nbb1:\n branch %0, bb1, bb2\nbb2:\n return",
            "a branch goes back",
        ),
        ("bb0 on_error bb1:\n yield\n return\nbb1 on_error bb1:\n yield\n raise", "`on_error` goes back"),
        ("bb0:\n select_wait", "there is no instruction"),
        ("%0: i64\n%1: i64\nbb0:\n %0, %1 = select_wait\n return", "no select has begun"),
        ("%0: i64\n%1: i64\nbb0:\n budget_check\n select_begin\n %0, %1 = select_wait\n return", "waits for nothing"),
        ("bb0:\n budget_check\n select_begin\n select_default\n return", "a select ends in the block it begins in"),
        ("bb0:\n budget_decrement 0\n return", "nothing is not owed"),
    ];
    for (body, wanted) in cases {
        let text = main_of(body);
        let message = match ir::parse("test.qtjir", &text) {
            Ok(module) => {
                ir::verify(module).map_or_else(|refused| refused.to_string(), |_| panic!("{body} is accepted"))
            }
            Err(problems) => problems.to_string(),
        };
        assert!(message.contains(wanted), "{body}: {message}");
    }
}

#[test]
fn functions_are_named_once_and_called_with_what_they_take() {
    let twice = "func @f() -> unit CPU_Serial {\nbb0:\n return\n}\n";
    assert!(refused(&format!("{twice}{twice}")).contains("two functions @f"));
    let text = "func @f(%0: i64) -> bool CPU_Serial {\n %1: bool\nbb0:\n budget_decrement 1\n budget_check\n %1 = call @f()\n return %1\n}\n";
    assert!(refused(text).contains("@f takes 1 arguments, here are 0"));
    assert!(refused("func @f() -> chan CPU_Serial {\nbb0:\n return\n}\n").contains("cannot return chan"));
    assert!(
        refused("func @f(%0: task.i64) -> unit CPU_Serial {\nbb0:\n return\n}\n").contains("stays with the function")
    );
}

#[test]
fn a_nursery_that_one_way_does_not_end_is_refused() {
    // Return, break, continue, error: every one of these ends is taken away in turn.
    let program = compile(
        "func f() do end
func work(n: i64) -> i64 do
    for i in 1..n do
        nursery do
            spawn f()
            if i == 3 do return 1 end
            if i == 2 do break end
            if i == 1 do continue end
            print(1 / n)
        end
    end
    return 0
end
func main() do print(work(3)) end
",
    );
    let module = program.ir();
    let mut ends = 0;
    for (function, block, at) in places(module) {
        if !matches!(module.functions[function].blocks[block].code[at].op, Op::NurseryEnd(_)) {
            continue;
        }
        ends += 1;
        let mut without = module.clone();
        without.functions[function].blocks[block].code.remove(at);
        assert!(ir::verify(without).is_err(), "bb{block} of function {function} without its nursery_end");
    }
    assert!(ends >= 5, "{ends} ends");
}

/// Every instruction of a module.
fn places(module: &Module) -> Vec<(usize, usize, usize)> {
    let mut found = Vec::new();
    for (function, body) in module.functions.iter().enumerate() {
        for (block, code) in body.blocks.iter().enumerate() {
            found.extend((0..code.code.len()).map(|at| (function, block, at)));
        }
    }
    found
}

/// Changes one thing. `None` if the change may be harmless, or is not possible there.
fn mutated(module: &Module, seed: u64) -> Option<Module> {
    let places = places(module);
    let (function, block, at) = *places.get(seed as usize / 9 % places.len().max(1))?;
    let mut changed = module.clone();
    let registers = changed.functions[function].registers.len() as u32;
    let blocks = changed.functions[function].blocks.len() as u32;
    let code = &mut changed.functions[function].blocks[block].code;
    let op = code[at].op.clone();
    match (seed % 9, op) {
        (0, Op::BudgetCheck | Op::BudgetDecrement(_) | Op::NurseryBegin(_) | Op::NurseryEnd(_)) => _ = code.remove(at),
        (1, Op::BudgetDecrement(count)) => code[at].op = Op::BudgetDecrement(count + 1),
        (2, Op::NurseryBegin(number) | Op::NurseryEnd(number)) => code[at].op = Op::NurseryEnd(number + 1),
        (3, Op::Arithmetic(operator, to, a, _)) => code[at].op = Op::Arithmetic(operator, to, a, Reg(registers)),
        (4, Op::Call(to, callee)) => {
            let mut arguments = callee.arguments;
            arguments.push(Reg(0));
            code[at].op = Op::Call(to, Callee { arguments, ..callee });
        }
        (5, Op::Compare(operator, to, a, _)) => code[at].op = Op::Compare(operator, to, a, to),
        (6, _) => changed.functions[function].blocks[block].end = End::Jump(BlockId(blocks)),
        (7, Op::TaskCreate(to, callee)) => code[at].op = Op::Spawn(to, callee),
        (8, _) => code.insert(at, Inst { op: Op::BudgetDecrement(1), line: 0 }),
        _ => return None,
    }
    Some(changed)
}

#[test]
fn a_changed_module_is_refused() {
    let mut tried = [0; 9];
    for seed in 0..60 {
        let program = compile(&generate::program(seed, Kind::Concurrent));
        for number in 0..200 {
            let number = number + 1000 * seed;
            let Some(changed) = mutated(program.ir(), number) else { continue };
            tried[number as usize % 9] += 1;
            // A comparison of a bool with itself is the one change that a program may really have.
            let refused = ir::verify(changed.clone());
            let is_fine = number % 9 == 5 && refused.is_ok();
            assert!(
                refused.is_err() || is_fine,
                "program {seed}, change {number}:\n{}\nbecame\n{changed}",
                program.ir()
            );
        }
    }
    assert!(tried.iter().enumerate().all(|(kind, count)| kind == 7 || *count > 5), "{tried:?}");
}

#[test]
fn merging_leaves_fewer_checks_and_the_same_costs() {
    let source = "func f() do end\nfunc main() do\n    let c = channel(1)\n    f()\n    let d = channel(2)\n    print(c.len(), d.len())\nend\n";
    let count = |program: &Program, wanted: fn(&Op) -> u32| -> u32 {
        let blocks = program.ir().functions.iter().flat_map(|function| &function.blocks);
        blocks.flat_map(|block| &block.code).map(|inst| wanted(&inst.op)).sum()
    };
    let (merged, unmerged) = (compile(source), compile_with(source, &Options::new().unmerged()));
    let checks: fn(&Op) -> u32 = |op| u32::from(*op == Op::BudgetCheck);
    let costs: fn(&Op) -> u32 = |op| match op {
        Op::BudgetDecrement(count) => *count,
        _ => 0,
    };
    assert_eq!((count(&unmerged, checks), count(&merged, checks)), (4, 3));
    assert_eq!((count(&unmerged, costs), count(&merged, costs)), (4, 4));
}

#[test]
fn a_function_that_is_not_there_is_refused() {
    let mut module = parsed(
        "func @main() -> unit CPU_Parallel {\nbb0:\n budget_decrement 1\n budget_check\n call @main()\n return\n}\n",
    );
    assert!(ir::verify(module.clone()).is_ok());
    module.functions[0].blocks[0].code[2].op = Op::Call(None, Callee { function: FuncId(1), arguments: Vec::new() });
    assert!(ir::verify(module.clone()).unwrap_err().to_string().contains("no function of number 1"));
    module.functions[0].parameters = 3;
    module.functions[0].registers = vec![Type::I64; 2];
    module.functions[0].tenancy = Tenancy::CpuSerial;
    assert!(ir::verify(module).unwrap_err().to_string().contains("there are fewer"));
}
