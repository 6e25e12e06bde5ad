//! Primes below 200,000 in Janus, by trial division: loops with divisions and branches. The language has no arrays, so it is no sieve.
//!
//! Bars: half the speed of `rustc -O` for the same checked code, and faster than Wasmtime with fuel.

use crate::Failure;
use crate::measure::Plan;
use crate::table::Row;
use crate::workloads::janus::Subject;

pub const NAME: &str = "janus-primes";

pub const SUBJECT: Subject = Subject {
    janus: "
func work(n: i64) -> i64 do
    var count = 0
    for i in 2..<n do
        var is_prime = true
        var d = 2
        while d * d <= i do
            if i % d == 0 do
                is_prime = false
                break
            end
            d = d + 1
        end
        if is_prime do
            count = count + 1
        end
    end
    return count
end
",
    wasm: r#"(module (func (export "work") (param $n i64) (result i64)
        (local $count i64) (local $i i64) (local $d i64) (local $prime i32)
        (local.set $i (i64.const 2))
        (block $done (loop $next
            (br_if $done (i64.ge_s (local.get $i) (local.get $n)))
            (local.set $prime (i32.const 1))
            (local.set $d (i64.const 2))
            (block $known (loop $try
                (br_if $known (i64.gt_s (i64.mul (local.get $d) (local.get $d)) (local.get $i)))
                (if (i64.eqz (i64.rem_s (local.get $i) (local.get $d)))
                    (then (local.set $prime (i32.const 0)) (br $known)))
                (local.set $d (i64.add (local.get $d) (i64.const 1)))
                (br $try)))
            (if (local.get $prime) (then (local.set $count (i64.add (local.get $count) (i64.const 1)))))
            (local.set $i (i64.add (local.get $i) (i64.const 1)))
            (br $next)))
        (local.get $count)))"#,
    checked,
    plain,
};

#[inline(never)]
fn checked(n: i64) -> Option<i64> {
    let (mut count, mut i) = (0_i64, 2_i64);
    while i < n {
        let (mut is_prime, mut d) = (true, 2_i64);
        while d.checked_mul(d)? <= i {
            if i.checked_rem(d)? == 0 {
                is_prime = false;
                break;
            }
            d = d.checked_add(1)?;
        }
        if is_prime {
            count = count.checked_add(1)?;
        }
        i = i.checked_add(1)?;
    }
    Some(count)
}

#[inline(never)]
fn plain(n: i64) -> i64 {
    let (mut count, mut i) = (0_i64, 2_i64);
    while i < n {
        let (mut is_prime, mut d) = (true, 2_i64);
        while d * d <= i {
            if i % d == 0 {
                is_prime = false;
                break;
            }
            d += 1;
        }
        count += i64::from(is_prime);
        i += 1;
    }
    count
}

/// How often the inner loop divides.
fn divisions(n: i64) -> usize {
    let tries = |i: i64| (2..).take_while(|d| d * d <= i).position(|d| i % d == 0).map(|at| at + 1);
    (2..n).map(|i| tries(i).unwrap_or_else(|| (2..).take_while(|d| d * d <= i).count())).sum()
}

pub fn run(plan: &Plan) -> Result<Vec<Row>, Failure> {
    let n = plan.pick(200_000, 50_000) as i64;
    SUBJECT.rows(plan, NAME, n, divisions(n), "ns/division")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rust_sides_agree() {
        assert_eq!((checked(1000), plain(1000)), (Some(168), 168));
    }
}
