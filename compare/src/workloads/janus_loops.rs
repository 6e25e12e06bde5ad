//! Nested loops in Janus: a multiplication, an addition and a branch in each turn.
//!
//! Bars: half the speed of `rustc -O` for the same checked code, and faster than Wasmtime with fuel.

use crate::Failure;
use crate::measure::Plan;
use crate::table::Row;
use crate::workloads::janus::Subject;

pub const NAME: &str = "janus-loops";

pub const SUBJECT: Subject = Subject {
    janus: "
func work(n: i64) -> i64 do
    var sum = 0
    for i in 1..n do
        for j in 1..n do
            sum = sum + i * j
            if sum > 1000000007 do
                sum = sum - 1000000007
            end
        end
    end
    return sum
end
",
    wasm: r#"(module (func (export "work") (param $n i64) (result i64)
        (local $sum i64) (local $i i64) (local $j i64)
        (local.set $i (i64.const 1))
        (block $done (loop $outer
            (br_if $done (i64.gt_s (local.get $i) (local.get $n)))
            (local.set $j (i64.const 1))
            (block $row (loop $inner
                (br_if $row (i64.gt_s (local.get $j) (local.get $n)))
                (local.set $sum (i64.add (local.get $sum) (i64.mul (local.get $i) (local.get $j))))
                (if (i64.gt_s (local.get $sum) (i64.const 1000000007))
                    (then (local.set $sum (i64.sub (local.get $sum) (i64.const 1000000007)))))
                (local.set $j (i64.add (local.get $j) (i64.const 1)))
                (br $inner)))
            (local.set $i (i64.add (local.get $i) (i64.const 1)))
            (br $outer)))
        (local.get $sum)))"#,
    checked,
    plain,
};

#[inline(never)]
fn checked(n: i64) -> Option<i64> {
    let mut sum = 0_i64;
    for i in 1..=n {
        for j in 1..=n {
            sum = sum.checked_add(i.checked_mul(j)?)?;
            if sum > 1_000_000_007 {
                sum = sum.checked_sub(1_000_000_007)?;
            }
        }
    }
    Some(sum)
}

#[inline(never)]
fn plain(n: i64) -> i64 {
    let mut sum = 0_i64;
    for i in 1..=n {
        for j in 1..=n {
            sum += i * j;
            if sum > 1_000_000_007 {
                sum -= 1_000_000_007;
            }
        }
    }
    sum
}

pub fn run(plan: &Plan) -> Result<Vec<Row>, Failure> {
    let n = plan.pick(3_000, 1_000);
    SUBJECT.rows(plan, NAME, n as i64, n * n, "ns/turn")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rust_sides_agree() {
        assert_eq!(checked(500), Some(plain(500)));
    }
}
