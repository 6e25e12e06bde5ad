//! A million tasks that a Janus program spawns and its nursery waits for. 2 workers.
//!
//! Bar: 1 M/s, as machine code. The interpreter is shown for orientation, since the cost is that of a task.

use bursar::Runtime;
use surface_janus::{Engine, Host, Options};

use crate::Failure;
use crate::measure::{Plan, Side};
use crate::table::{Bar, LIMIT, Row};
use crate::workloads::janus::{call, compile};

pub const NAME: &str = "janus-spawn";

const SOURCE: &str = "
func leaf() do end

async func run(n: i64) -> i64 do
    nursery do
        for i in 1..n do
            spawn leaf()
        end
    end
    return n
end
";

pub fn run(plan: &Plan) -> Result<Vec<Row>, Failure> {
    let count = plan.pick(1_000_000, 200_000);
    let runtime = Runtime::builder().workers(2).build()?;
    let program = compile(SOURCE, &Options::new())?;
    let [native, interpreter] = [Engine::Native, Engine::Interpreter].map(|engine| Host::new().engine(engine));
    let best = plan.best_of(
        count,
        [
            Side::new("native", || call(&runtime, &program, &native, count as i64).map(|_| ())),
            Side::new("interpreter", || call(&runtime, &program, &interpreter, count as i64).map(|_| ())),
        ],
    )?;
    let [native, interpreter] = best.map(|nanoseconds| 1e3 / nanoseconds);
    Ok(vec![
        Row::new(NAME, LIMIT, [native, 1.0], "M/s", Bar::AtLeast),
        Row::new(NAME, "interpreter", [native, interpreter], "M/s", Bar::Open),
    ])
}
