//! A program of 10,000 lines, from its text to machine code.
//!
//! Bar: 1 s. For orientation: without machine code.

use std::fmt::Write;

use surface_janus::{Options, Program};

use crate::Failure;
use crate::measure::{Plan, Side};
use crate::table::{Bar, LIMIT, Row};
use crate::workloads::janus::compile;

pub const NAME: &str = "janus-compile";

/// Functions of 20 lines that call each other, and a main that calls them all.
fn source(lines: usize) -> String {
    let mut source = String::new();
    let count = lines / 21;
    for n in 0..count {
        _ = write!(
            source,
            "func f{n}(a: i64, b: i64) -> i64 do
    var x = a
    var y = b
    for i in 1..10 do
        if x % 2 == 0 do
            x = x + i * {n}
        else if y > 100 do
            y = y - x % 7
        else
            y = y * 3 + 1
        end
        while x > 1000 do
            x = x / 2
        end
    end
    match y do
        0 => return x
        1..9 => return x + y
        _ => x = x - y
    end
    return x % 1000 + {}
end
",
            if n + 1 < count { format!("f{}(y % 10, x % 10)", n + 1) } else { "0".to_owned() },
        );
    }
    source.push_str("func main() do\n");
    for n in 0..count {
        _ = writeln!(source, "    print(f{n}({n}, 1))");
    }
    source.push_str("end\n");
    source
}

pub fn run(plan: &Plan) -> Result<Vec<Row>, Failure> {
    let source = source(10_000);
    let lines = source.lines().count();
    let best = plan.best_of(
        lines,
        [
            Side::new("native", || compile(&source, &Options::new()).map(|_| ())),
            Side::new("checked IR alone", || {
                Program::compile(&source).map_err(|problems| problems.to_string())?;
                Ok(())
            }),
        ],
    )?;
    let [native, checked] = best.map(|nanoseconds| nanoseconds * 10_000.0 / 1e9);
    Ok(vec![
        Row::new(NAME, LIMIT, [native, 1.0], "s", Bar::Below),
        Row::new(NAME, "without machine code", [native, checked], "s", Bar::Open),
    ])
}
