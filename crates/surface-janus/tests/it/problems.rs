//! What is wrong with a program is said with its place and a way out, all of it at once.

use surface_janus::{Options, Problems, Profile, Program};

#[track_caller]
fn problems(source: &str) -> Problems {
    Program::compile(source).expect_err("it is wrong")
}

/// Each as `LINE:COLUMN: message`.
#[track_caller]
fn messages(source: &str) -> Vec<String> {
    let shown = |problem: &surface_janus::Problem| {
        let at = problem.location.map(|at| format!("{}:{}", at.line, at.column)).unwrap_or_default();
        format!("{at}: {}", problem.message)
    };
    problems(source).iter().map(shown).collect()
}

#[test]
fn a_problem_has_a_caret_and_a_hint() {
    let text = problems("func main() do\n    let n = 1\n    print(m)\nend\n").pretty(false);
    assert!(text.contains("print(m)") && text.contains("there is no variable `m` here"), "{text}");
    assert!(text.contains("main.jan:3:11") && text.contains("help:"), "{text}");
}

#[test]
fn all_problems_are_reported_and_not_only_the_first() {
    let found = messages(
        "func main() do
    let a =
    let b = 1 +
    if true
        print(1)
    end
    while false do print(2) end
    x = = 3
    print(4
end
",
    );
    assert_eq!(
        found,
        [
            "2:12: an expression is missing: found the end of the line",
            "4:5: an expression is missing: found `if`",
            "4:12: `do` is missing: found the end of the line",
            "8:9: an expression is missing: found `=`",
            "9:12: `,` is missing: found the end of the line",
        ]
    );
    let found = messages(
        "func f(a: i64, b: strng) -> chan do
    return a + true
end
func main() do
    f(1)
    let x: bool = 3
    y = 2
    1 + 2
    lett(3)
end
",
    );
    assert_eq!(
        found,
        [
            "1:19: there is no type `strng`",
            "1:29: a function cannot return `chan`",
            "2:16: this is bool, where i64 is needed",
            "5:5: `f` takes 2 arguments, here are 1",
            "6:19: this is i64, where bool is needed",
            "7:5: there is no variable `y` here",
            "8:5: this does nothing",
            "9:5: there is no function `lett`",
        ]
    );
}

#[test]
fn a_missing_end_is_reported_where_it_was_opened() {
    let found = messages("func main() do\n    while true do\n        print(1)\nend\n\nfunc other() do\nend\n");
    assert_eq!(found, ["1:13: this `do` has no `end`"]);
    let found = messages("func main() do\n    if true do print(1)\n");
    assert!(found.contains(&"2:5: this `if` has no `end`".to_owned()), "{found:?}");
}

#[test]
fn spawn_outside_a_nursery_is_n1001() {
    let found = messages("func f() do end\nfunc main() do\n    spawn f()\nend\n");
    assert_eq!(found, ["3:5: N1001: `spawn` outside a nursery"]);
    let found = messages("async func f() do end\nfunc g() do\n    f()\nend\nfunc main() do end\n");
    assert!(found[0].starts_with("3:5: N1001: `f` is async"), "{found:?}");
    assert!(Program::compile("func f() do end\nfunc main() do\n nursery { spawn f() }\nend").is_ok());
    // A nursery of the caller is not one of the function.
    let found = messages("func f() do end\nfunc g() do spawn f() end\nfunc main() do nursery do g() end end\n");
    assert_eq!(found, ["2:13: N1001: `spawn` outside a nursery"]);
}

#[test]
fn await_outside_an_async_function_is_n1002_and_main_may() {
    let source = "func f() -> i64 do return 1 end\nKIND func g() do\n    nursery do\n        let t = spawn f()\n        print(await t)\n    end\nend\nfunc main() do end\n";
    let found = messages(&source.replace("KIND ", ""));
    assert_eq!(found, ["5:15: N1002: `await` outside an async function"]);
    assert!(Program::compile(&source.replace("KIND", "async")).is_ok());
    assert!(Program::compile("async func f() -> i64 do return 1 end\nfunc main() do print(await f()) end").is_ok());
}

#[test]
fn core_refuses_everything_concurrent_with_n1003() {
    let source = "{.profile: core.}
async func f() do end
func main() do
    nursery do
        spawn f()
    end
    await f()
    let c = channel(1)
    select do
        default do end
    end
    yield
end
";
    let found = messages(source);
    let lines: Vec<_> = found.iter().filter(|problem| problem.contains("N1003")).map(|problem| &problem[..2]).collect();
    assert_eq!(lines, ["2:", "4:", "5:", "7:", "8:", "9:", "12"], "{found:#?}");
    let in_service = Program::compile_with(source, &Options::new().profile(Profile::Service));
    assert!(in_service.is_ok(), "the host decides: {in_service:?}");
    assert!(Program::compile("{.profile: core.}\nfunc main() do print(1) end").is_ok());
}

#[test]
fn sovereign_refuses_tasks_without_a_capability_with_n1004() {
    let body = "func f() do end\nfunc main() do\n    nursery do\n        spawn f()\n    end\nend\n";
    let found = problems(&format!("{{.profile: sovereign.}}\n{body}"));
    let first = found.iter().next().unwrap();
    assert!(first.message.starts_with("N1004"), "{found}");
    assert!(first.help.contains("needs: spawn"), "{found}");
    let granted = Program::compile(&format!("{{.profile: sovereign, needs: spawn.}}\n{body}")).unwrap();
    assert!(granted.needs_spawn() && granted.profile() == Profile::Sovereign);
}

#[test]
fn pragmas_that_mean_nothing_are_refused() {
    let found = messages("{.profile: servce.}\n{.profil: core.}\n{.needs: money.}\nfunc main() do end\n");
    assert_eq!(
        found,
        [
            "1:12: there is no profile `servce`",
            "2:3: there is no pragma `profil`",
            "3:10: there is no capability `money`"
        ]
    );
}

#[test]
fn a_defer_neither_leaves_nor_starts_anything() {
    let found = messages(
        "async func f() do end
func main() do
    while true do
        defer do
            break
            return
        end
        nursery do
            defer spawn f()
            defer await f()
            defer nursery do end
        end
    end
end
",
    );
    assert_eq!(found.len(), 6, "{found:#?}");
    assert!(found[0].contains("`break` outside a loop") && found[1].contains("`return` in a `defer`"), "{found:#?}");
}

#[test]
fn a_function_with_a_result_returns_on_every_way() {
    let source = |body: &str| format!("func f(n: i64) -> i64 do\n{body}\nend\nfunc main() do end\n");
    for body in [
        "return 1",
        "if n > 0 do return 1 else return 2 end",
        "while true do end",
        "match n do\n 1 => return 1\n _ => return 2\n end",
        "nursery do return 1 end",
        "select do\n default do return 1 end\n end",
    ] {
        assert!(Program::compile(&source(body)).is_ok(), "{body}");
    }
    for body in ["", "if n > 0 do return 1 end", "while n > 0 do return 1 end", "while true do break end"] {
        let found = messages(&source(body));
        assert!(found[0].contains("`f` can reach its end without a value"), "{body}: {found:?}");
    }
}

#[test]
fn a_match_says_what_becomes_of_every_value() {
    let source = |arms: &str| format!("func main() do\n let n = 1\n let b = true\n match {arms} end\nend\n");
    assert!(Program::compile(&source("n do\n 1..2, 9 => print(1)\n _ => print(2)\n")).is_ok());
    assert!(Program::compile(&source("b do\n true => print(1)\n false => print(2)\n")).is_ok());
    for (arms, problem) in [
        ("n do\n 1 => print(1)\n", "does not say what becomes of every value"),
        ("b do\n true => print(1)\n", "does not say what becomes of every value"),
        ("n do\n _ => print(1)\n 2 => print(2)\n", "no value gets to this arm"),
        ("n do\n 3..1 => print(1)\n _ => print(2)\n", "3..1 has no value"),
        ("n do\n true => print(1)\n _ => print(2)\n", "the pattern is bool, the value is not"),
    ] {
        let found = messages(&source(arms));
        assert!(found[0].contains(problem), "{arms}: {found:?}");
    }
}

#[test]
fn what_nests_too_deeply_is_refused_and_nothing_overflows() {
    for (open, close, most) in [("(", ")", 100_000), ("-", "", 100_000), ("not ", "", 100_000), ("1 + ", "", 100_000)] {
        let value = if open == "not " { "true" } else { "1" };
        let source = format!("func main() do\n    print({}{value}{})\nend\n", open.repeat(most), close.repeat(most));
        assert!(problems(&source).to_string().contains("nested more than 128 deep"), "{open}");
    }
    let source = format!("func main() do\n{}\n{}\nend\n", "while true do\n".repeat(50_000), "end\n".repeat(50_000));
    assert!(problems(&source).to_string().contains("nested more than 64 deep"));
    let source = format!("func main() do\nif true do{}\nend\nend\n", "\nelse if true do".repeat(50_000));
    assert!(problems(&source).to_string().contains("more than 64 `else if`"));
    assert!(problems(&"x".repeat(5 << 20)).to_string().contains("4194304 bytes, the limit"));
}

#[test]
fn the_ends_of_numbers_can_be_written() {
    let done = crate::common::run("func main() do print(-9223372036854775808, 0x7fff_ffff_ffff_ffff, 1_000) end");
    assert_eq!(done.printed(), ["-9223372036854775808 9223372036854775807 1000"]);
    assert!(messages("func main() do print(9223372036854775808) end")[0].contains("above 9223372036854775807"));
    assert!(messages("func main() do print(99999999999999999999) end")[0].contains("not a number of 64 bits"));
}

#[test]
fn as_many_else_if_are_taken_as_the_limit_says() {
    let chain = |count: usize| {
        let more: String = (1..=count).map(|n| format!("else if n == {n} do print({n})\n")).collect();
        format!("func f(n: i64) do\nif n == 0 do print(0)\n{more}else print(-1)\nend\nend\nfunc main() do f(64) end\n")
    };
    assert_eq!(crate::common::run(&chain(64)).printed(), ["64"]);
    assert!(messages(&chain(65))[0].contains("more than 64 `else if`"));
}

#[test]
fn a_byte_order_mark_is_no_part_of_a_program_and_one_within_it_is_named() {
    let source = "\u{feff}func main() do print(1) end";
    assert_eq!(crate::common::run(source).printed(), ["1"]);
    let problem = &problems("\u{feff}func main() do prnt(1) end").to_string();
    assert!(problem.starts_with("main.jan:1:16: "), "{problem}");
    for (within, name) in [
        ("\u{feff}", "`\\u{feff}`"),
        ("\u{200b}", "`\\u{200b}`"),
        ("\u{1}", "`\\u{1}`"),
        ("é", "`é`"),
        ("?", "`?`"),
        ("\\", "`\\`"),
    ] {
        let found = messages(&format!("func main() do {within} end"));
        assert!(found[0].contains(&format!("{name} means nothing here")), "{found:?}");
    }
}

#[test]
fn no_message_is_as_long_as_a_name() {
    let name = "x".repeat(100_000);
    for source in [
        format!("func main() do {name}() end"),
        format!("func {name}() do end"),
        format!("func main() do let {name} = 1 end"),
        format!("func main(n: {name}) do end"),
        format!("{{.{name}: core.}}"),
        format!("func main() do\n{name}\nend"),
    ] {
        let shown = problems(&source).pretty(false);
        assert!(shown.len() < 2_000, "{} bytes: {}", shown.len(), &shown[..1_000]);
        assert!(shown.contains("has more than 255 letters, the limit"), "{shown}");
    }
    let longest = "x".repeat(255);
    assert_eq!(
        crate::common::run(&format!("func {longest}() do print(1) end\nfunc main() do {longest}() end")).printed(),
        ["1"]
    );
}
