//! fib(32) in Janus, as calls: nothing but the cost of calls, checks and additions.
//!
//! Bars: half the speed of `rustc -O` for the same checked code, and faster than Wasmtime with fuel.

use crate::Failure;
use crate::measure::Plan;
use crate::table::Row;
use crate::workloads::janus::Subject;

pub const NAME: &str = "janus-fib";

pub const SUBJECT: Subject = Subject {
    janus: "
func work(n: i64) -> i64 do
    if n < 2 do
        return n
    end
    return work(n - 1) + work(n - 2)
end
",
    wasm: r#"(module (func $work (export "work") (param i64) (result i64)
        (if (i64.lt_s (local.get 0) (i64.const 2)) (then (return (local.get 0))))
        (i64.add
            (call $work (i64.sub (local.get 0) (i64.const 1)))
            (call $work (i64.sub (local.get 0) (i64.const 2))))))"#,
    checked,
    plain,
};

fn checked(n: i64) -> Option<i64> {
    if n < 2 {
        return Some(n);
    }
    checked(n.checked_sub(1)?)?.checked_add(checked(n.checked_sub(2)?)?)
}

fn plain(n: i64) -> i64 {
    if n < 2 { n } else { plain(n - 1) + plain(n - 2) }
}

pub fn run(plan: &Plan) -> Result<Vec<Row>, Failure> {
    let n = plan.pick(32, 27) as i64;
    let (mut calls, mut before) = (1, 1);
    for _ in 1..n {
        (calls, before) = (calls + before + 1, calls);
    }
    SUBJECT.rows(plan, NAME, n, calls, "ns/call")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rust_sides_agree() {
        assert_eq!((checked(20), plain(20)), (Some(6765), 6765));
    }
}
