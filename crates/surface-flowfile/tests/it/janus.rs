//! Functions of Janus programs as nodes.

use std::fs;

use surface_flowfile::{Plan, Problems, load};

use crate::run::run_plan;

const PROGRAM: &str = "
async func is_hot(celsius: i64, limit: i64) -> bool do
    return celsius > limit
end

async func square(n: i64) -> i64 do
    return n * n
end

async func inverse(n: i64) -> i64 do
    return 100 / n
end

async func negated(flag: bool) -> bool do
    return not flag
end

async func spin(n: i64) -> i64 do
    while n > 2 do end
    return n
end

async func wait(n: i64) do
    if n > 2 do
        print(channel(0).recv())
    end
end

async func shout(n: i64) do
    print(\"saw\", n)
end

func helper(n: i64) -> i64 do
    return n
end

async func listen(c: chan) do
    print(c.recv())
end

func main() do
    print(helper(1))
end
";

/// Reads a flow file beside the program `p.jan`.
fn read(program: &str, flow: &str) -> Result<Plan, Problems> {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("p.jan"), program).unwrap();
    fs::write(folder.path().join("flow.toml"), flow).unwrap();
    load(&folder.path().join("flow.toml"))
}

/// What a flow prints: these messages go through one node `x`.
fn through(values: &str, node: &str) -> Vec<String> {
    let flow = format!(
        "edges = ['in -> x -> out']\n[node.in]\nkind = 'values'\nlist = {values}\n[node.x]\nkind = 'janus'\nfile = 'p.jan'\n{node}\n\
         [node.out]\nkind = 'print'\n"
    );
    let plan = read(PROGRAM, &flow).unwrap_or_else(|problems| panic!("{problems}"));
    run_plan(&plan, |_| ()).0
}

#[test]
fn what_returns_a_flag_filters() {
    let lines = through(
        "[{ t = 90, max = 80 }, { t = 70, max = 80 }, { t = 81.0, max = 80, room = 'a' }]",
        "function = 'is_hot'\nargs = ['t', 'max']",
    );
    assert_eq!(lines, [r#"{"t":90,"max":80}"#, r#"{"t":81.0,"max":80,"room":"a"}"#]);
    assert_eq!(through("[true, false]", "function = 'negated'"), ["false"]);
}

#[test]
fn what_returns_a_number_maps_and_a_named_field_gets_the_result() {
    assert_eq!(through("[3, -4]", "function = 'square'"), ["9", "16"]);
    let lines = through("[{ n = 3, name = 'x' }]", "function = 'square'\nargs = ['n']\nas = 'n.squared'");
    assert_eq!(lines, [r#"{"n":{"squared":9},"name":"x"}"#]);
    let lines = through("[{ a = 1, b = 2 }]", "function = 'is_hot'\nargs = ['a', 'b']\nas = 'hot'");
    assert_eq!(lines, [r#"{"a":1,"b":2,"hot":false}"#]);
}

#[test]
fn what_returns_nothing_passes_the_message_on_and_may_print() {
    assert_eq!(through("[{ n = 7 }]", "function = 'shout'\nargs = ['n']"), ["saw 7", r#"{"n":7}"#]);
}

/// The errors of dead letters.
fn dead(values: &str, node: &str) -> Vec<String> {
    let flow = format!(
        "edges = ['in -> x -> out', 'x:dead -> why -> dead']\n[node.in]\nkind = 'values'\nlist = {values}\n[node.x]\nkind = 'janus'\nfile = 'p.jan'\non_error = 'dead-letter'\n{node}\n\
         [node.out]\nkind = 'discard'\n[node.why]\nkind = 'map'\nformat = '{{why}}'\n[node.dead]\nkind = 'print'\n"
    );
    let plan = read(PROGRAM, &flow).unwrap_or_else(|problems| panic!("{problems}"));
    run_plan(&plan, |_| ()).0
}

#[test]
fn a_message_that_fails_is_an_error_of_the_node_with_the_line_of_the_program() {
    let said = dead("[5, 0, 4]", "function = 'inverse'");
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].ends_with("p.jan:11: in `inverse`: division by zero"), "{said:?}");
    let said = dead("['five', 1.5, true, 9223372036854775807]", "function = 'square'");
    for (said, part) in said.iter().zip(["the message is \"five\", not a whole number", "1.5", "true", "overflow"]) {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert_eq!(said.len(), 4);
    let said = dead("[{ b = 1 }]", "function = 'square'\nargs = ['a']");
    assert!(said[0].contains("field `a` is missing"), "{said:?}");
}

#[test]
fn a_message_that_hogs_or_waits_costs_its_budget_and_the_next_one_has_its_own() {
    let said = dead("[1, 3, 2, 4]", "function = 'spin'\nops = 5000");
    assert_eq!(said.len(), 2, "{said:?}");
    for said in said {
        assert!(
            said.contains("p.jan:19: in `spin`: stopped: the budget of a message is spent (ops 5000); raise"),
            "{said}"
        );
    }
    // Long enough for what does not wait, also on a busy machine.
    let said = dead("[1, 3, 2]", "function = 'wait'\ntimeout = '2s'");
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].contains("the message took longer than 2000 ms; raise `timeout`"), "{said:?}");
}

fn problems(program: &str, node: &str) -> String {
    let flow = format!(
        "edges = ['in -> x -> out']\n[node.in]\nkind = 'stdin'\nformat = 'json'\n[node.x]\nkind = 'janus'\n{node}\n[node.out]\nkind = 'discard'\n"
    );
    let problems = read(program, &flow).unwrap_err();
    let pretty = problems.pretty(false);
    assert!(!pretty.is_empty());
    problems.to_string() + "\n" + &pretty
}

#[test]
fn what_is_wrong_with_a_program_is_shown_with_the_lines_of_the_program() {
    let said = problems("func main(n: i64) do\n    prnt(n)\n    let x: bool = 1\nend\n", "file = 'p.jan'");
    for part in ["p.jan:2:5: there is no function `prnt`", "p.jan:3:", "    prnt(n)", "did you mean `print`?"] {
        assert!(said.contains(part), "`{part}` is missing from:\n{said}");
    }
    for (file, part) in [
        ("q.jan", "flow.toml:5:7: node `x` runs q.jan, which cannot be read: No such file"),
        (".", "node `x` runs ., which cannot be read: it is not a file"),
    ] {
        let said = problems(PROGRAM, &format!("file = '{file}'"));
        assert!(said.contains(part), "{said}");
    }
}

#[test]
fn a_function_that_cannot_be_called_for_a_message_is_a_problem_of_the_file() {
    for (node, part) in [
        ("function = 'sqare'", "did you mean `square`?"),
        ("function = 'nofn'", "has no function `nofn`; write `async func nofn() do … end`"),
        ("function = 'helper'", "declare it `async func helper`"),
        ("function = 'listen'", "`listen` of p.jan takes a channel"),
        ("function = 'is_hot'", "`is_hot` takes 2 arguments (i64, i64), and node `x` gives 1"),
        ("function = 'square'\nargs = ['a', 'b']", "`square` takes 1 arguments (i64), and node `x` gives 2"),
        ("timeout = 0", "`timeout` is 0"),
    ] {
        let said = problems(PROGRAM, &format!("file = 'p.jan'\n{node}"));
        assert!(said.contains(part), "{node}: `{part}` is missing from:\n{said}");
    }
}

#[test]
fn a_message_about_a_function_does_not_repeat_a_long_name() {
    let name = "x".repeat(100_000);
    let said = problems(PROGRAM, &format!("file = 'p.jan'\nfunction = '{name}'"));
    assert!(said.len() < 5_000, "{} bytes", said.len());
}

#[test]
fn a_program_that_needs_a_capability_which_no_flow_grants_is_a_problem_of_the_file() {
    let program = "{.profile: sovereign, needs: spawn.}\nasync func main(n: i64) -> i64 do return n end\n";
    let said = problems(program, "file = 'p.jan'");
    assert!(said.contains("node `x` runs p.jan, which is of profile `sovereign` and needs to start tasks"), "{said}");
}

#[test]
fn messages_of_a_type_that_the_function_does_not_take_are_found_before_they_come() {
    let flow = "edges = ['in -> x -> out']\n[node.in]\nkind = 'stdin'\n[node.x]\nkind = 'janus'\nfile = 'p.jan'\nfunction = 'square'\n[node.out]\nkind = 'discard'\n";
    let said = read(PROGRAM, flow).unwrap_err().to_string();
    assert!(said.contains("`in:out` gives texts, and `x:in` takes numbers: its function takes a number"), "{said}");
    let flow = "edges = ['in -> x -> pick -> out']\n[node.in]\nkind = 'numbers'\nto = 3\n[node.x]\nkind = 'janus'\nfile = 'p.jan'\nfunction = 'square'\n\
                [node.pick]\nkind = 'filter'\nfield = 'a'\nabove = 1\n[node.out]\nkind = 'discard'\n";
    let said = read(PROGRAM, flow).unwrap_err().to_string();
    assert!(said.contains("`x:out` gives numbers, and `pick:in` takes objects"), "{said}");
}
