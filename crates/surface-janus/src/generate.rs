//! Programs by chance, for comparing engines with each other: a seed gives the same program for ever.
//!
//! Room: decisions.
//!
//! # Invariant
//! Every program compiles, ends by itself, and what it prints does not depend on the order in which its tasks run.
//!
//! # Why it holds
//! Loops count down, and functions call only those behind them, or recurse as often as a number says. What is printed names its task, and a channel that tasks share has one sender and one receiver.

use std::fmt::Write;

/// What programs may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One task.
    Sequential,
    /// Nurseries, tasks and channels, too.
    Concurrent,
    /// Mostly those; channels that tasks share, and recursion.
    Tasks,
}

/// What programs of [`Kind::Tasks`] call besides their own functions.
const LIBRARY: &str = r#"func produce(c: chan, n: i64) do
    defer c.close()
    for i in 1..n do
        c.send(i * n)
        if i == 3 do yield end
    end
end

async func consume(c: chan) -> i64 do
    var sum = 0
    for value in c do sum = sum + value end
    return sum
end

func pass(c: chan, n: i64) -> i64 do
    let same = c
    let other = channel(1)
    same.send(n)
    other.send(c.recv())
    return other.recv() + other.len()
end

func down(n: i64) -> i64 do
    if n <= 0 do return n end
    return down(n - 1) + 1
end

func fall(n: i64) -> i64 do
    defer print("fall", n, down(n))
    if n <= 0 do return 1 / n end
    return fall(n - 1)
end

"#;

/// A program of this seed.
pub fn program(seed: u64, kind: Kind) -> String {
    let mut generator = Generator {
        state: seed,
        kind,
        text: String::new(),
        depth: 0,
        names: 0,
        functions: Vec::new(),
        scopes: Vec::new(),
        loops: 0,
        nurseries: 0,
        in_defer: false,
        current: 0,
        calls_left: 0,
    };
    generator.program();
    generator.text
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Type {
    Unit,
    I64,
    Bool,
}

#[derive(Clone)]
struct Function {
    parameters: Vec<Type>,
    result: Type,
    is_async: bool,
}

struct Variable {
    name: String,
    ty: Type,
    is_var: bool,
}

struct Generator {
    state: u64,
    kind: Kind,
    text: String,
    depth: usize,
    names: usize,
    functions: Vec<Function>,
    scopes: Vec<Variable>,
    loops: usize,
    nurseries: usize,
    in_defer: bool,
    /// The function that is written; those with a larger number may be called.
    current: usize,
    /// Calls in one function, or the run would take for ever.
    calls_left: usize,
}

const DEPTH_MAX: usize = 4;

impl Generator {
    /// A number below `among` (splitmix64).
    fn below(&mut self, among: usize) -> usize {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((mixed ^ (mixed >> 31)) % among as u64) as usize
    }

    fn one_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    fn pick<'a>(&mut self, among: &[&'a str]) -> &'a str {
        let at = self.below(among.len());
        among[at]
    }

    fn name(&mut self, prefix: &str) -> String {
        self.names += 1;
        format!("{prefix}{}", self.names)
    }

    fn line(&mut self, line: &str) {
        let indent = "    ".repeat(self.depth);
        _ = writeln!(self.text, "{indent}{line}"); // a string takes everything
    }

    fn ty(&mut self) -> Type {
        if self.one_in(3) { Type::Bool } else { Type::I64 }
    }

    fn program(&mut self) {
        if self.kind == Kind::Tasks {
            self.text.push_str(LIBRARY);
        }
        let count = 1 + self.below(4);
        for _ in 0..count {
            let parameters = (0..self.below(3)).map(|_| self.ty()).collect();
            let result = if self.one_in(4) { Type::Unit } else { self.ty() };
            let is_async = self.kind != Kind::Sequential && self.one_in(3);
            self.functions.push(Function { parameters, result, is_async });
        }
        for number in 0..count {
            let function = self.functions[number].clone();
            self.current = number + 1;
            self.calls_left = 3;
            self.scopes.clear();
            let mut parameters = Vec::new();
            for ty in &function.parameters {
                let name = self.name("p");
                parameters.push(format!("{name}: {}", type_name(*ty)));
                self.scopes.push(Variable { name, ty: *ty, is_var: false });
            }
            let kind = if function.is_async { "async func" } else { "func" };
            let result = if function.result == Type::Unit {
                String::new()
            } else {
                format!(" -> {}", type_name(function.result))
            };
            self.line(&format!("{kind} f{number}({}){result} do", parameters.join(", ")));
            self.body(function.result, number);
        }
        self.current = 0;
        self.calls_left = 4;
        self.scopes.clear();
        self.line("func main() -> i64 do");
        self.body(Type::I64, usize::MAX);
    }

    fn body(&mut self, result: Type, number: usize) {
        self.depth += 1;
        let label = if number == usize::MAX { "main".to_owned() } else { format!("f{number}") };
        self.line(&format!("print(\"{label} begins\")"));
        self.statements(result);
        if result != Type::Unit {
            let value = self.expression(result, 2);
            self.line(&format!("return {value}"));
        }
        self.depth -= 1;
        self.line("end");
        self.text.push('\n');
    }

    /// A block's statements, with variables of its own.
    fn statements(&mut self, result: Type) {
        let seen = self.scopes.len();
        for _ in 0..1 + self.below(4) {
            self.statement(result);
        }
        self.scopes.truncate(seen);
    }

    fn inner(&mut self, result: Type) {
        self.depth += 1;
        self.statements(result);
        self.depth -= 1;
    }

    fn statement(&mut self, result: Type) {
        if self.depth > DEPTH_MAX {
            return self.print();
        }
        let choice = match self.kind {
            Kind::Sequential => self.below(13),
            Kind::Concurrent => self.below(17),
            Kind::Tasks => [2, 3, 4, 5, 6, 8, 10, 11, 13, 13, 14, 14, 14, 15, 16, 17, 17, 18, 19][self.below(19)],
        };
        match choice {
            0 | 1 => self.bind(),
            2 => self.assign(),
            3 => self.print(),
            4 => {
                let condition = self.expression(Type::Bool, 2);
                self.line(&format!("if {condition} do"));
                self.inner(result);
                if self.one_in(2) {
                    self.line("else");
                    self.inner(result);
                }
                self.line("end");
            }
            5 => self.counted_loop(result),
            6 => self.range(result),
            7 => self.match_on(result),
            8 if !self.in_defer => {
                self.line("defer do");
                let (loops, nurseries) = (std::mem::take(&mut self.loops), std::mem::take(&mut self.nurseries));
                self.in_defer = true;
                self.inner(result);
                self.in_defer = false;
                (self.loops, self.nurseries) = (loops, nurseries);
                self.line("end");
            }
            9 if self.loops > 0 => {
                let condition = self.expression(Type::Bool, 1);
                let word = self.pick(&["break", "continue"]);
                self.line(&format!("if {condition} do {word} end"));
            }
            10 if !self.in_defer => {
                let condition = self.expression(Type::Bool, 2);
                let value = if result == Type::Unit { String::new() } else { self.expression(result, 1) };
                self.line(&format!("if {condition} do return {value} end"));
            }
            11 => {
                if let Some(call) = self.call(None, false) {
                    self.line(&call);
                }
            }
            12 => {
                self.line("do");
                self.inner(result);
                self.line("end");
            }
            13 if !self.in_defer => {
                self.line("nursery do");
                self.nurseries += 1;
                self.inner(result);
                self.nurseries -= 1;
                self.line("end");
            }
            14 if self.nurseries > 0 => {
                if let Some(call) = self.call(None, true) {
                    self.line(&format!("spawn {call}"));
                }
            }
            15 => self.line("yield"),
            16 => self.channel(),
            17 if !self.in_defer => self.shared_channel(),
            18 => {
                let (function, count) = (self.pick(&["down", "down", "fall"]), self.below(9));
                self.line(&format!("print({function}({count}))"));
            }
            19 => {
                let (name, value) = (self.name("c"), self.expression(Type::I64, 1));
                self.line(&format!("let {name} = channel(1)"));
                self.line(&format!("print(pass({name}, {value}))"));
            }
            _ => self.print(),
        }
    }

    fn bind(&mut self) {
        let ty = self.ty();
        let value = self.expression(ty, 2);
        let (name, is_var) = (self.name("v"), self.one_in(2));
        let word = if is_var { "var" } else { "let" };
        self.line(&format!("{word} {name} = {value}"));
        self.scopes.push(Variable { name, ty, is_var });
    }

    fn assign(&mut self) {
        let vars: Vec<(String, Type)> =
            self.scopes.iter().filter(|v| v.is_var).map(|v| (v.name.clone(), v.ty)).collect();
        if vars.is_empty() {
            return self.bind();
        }
        let (name, ty) = vars[self.below(vars.len())].clone();
        let value = self.expression(ty, 2);
        self.line(&format!("{name} = {value}"));
    }

    fn print(&mut self) {
        let ty = self.ty();
        let (value, tag) = (self.expression(ty, 1), self.name("at "));
        self.line(&format!("print(\"{tag}\", {value})"));
    }

    fn counted_loop(&mut self, result: Type) {
        let (counter, rounds) = (self.name("w"), 1 + self.below(4));
        self.line(&format!("var {counter} = {rounds}"));
        let condition = if self.one_in(3) { format!(" and {}", self.expression(Type::Bool, 1)) } else { String::new() };
        self.line(&format!("while {counter} > 0{condition} do"));
        self.depth += 1;
        self.line(&format!("{counter} = {counter} - 1"));
        self.loops += 1;
        self.statements(result);
        self.loops -= 1;
        self.depth -= 1;
        self.line("end");
    }

    /// A loop that only works out numbers, which is run in another way than others; many of them fail in one of their turns.
    fn working_loop(&mut self) {
        let (sum, index) = (self.name("s"), self.name("i"));
        let (from, count) = (self.below(9) as i64 - 4, 1 + self.below(60) as i64);
        let (from, to) = if self.one_in(8) { (i64::MAX - count, i64::MAX) } else { (from, from + count) };
        let first = self.below(50);
        self.line(&format!("var {sum} = {first}"));
        self.line(&format!("for {index} in {from}..{to} do"));
        for _ in 0..1 + self.below(3) {
            let number = 1 + self.below(200);
            let statement = match self.below(7) {
                0 => format!("{sum} = {sum} * {index}"),
                1 => format!("{sum} = {sum} / ({index} - {number})"),
                2 => format!("{sum} = {sum} - {index} % 7"),
                3 => format!("if {sum} > {number} do {sum} = {sum} - {number} end"),
                4 => format!("if {index} % 3 == 1 do {sum} = {number} else {sum} = {sum} + {index} end"),
                5 => format!("if {sum} < {number} do {sum} = 9223372036854775800 + {number} / {sum} end"),
                _ => format!("{sum} = {sum} + {number} * {index}"),
            };
            self.line(&format!("    {statement}"));
        }
        self.line("end");
        self.line(&format!("print(\"{sum}\", {sum})"));
    }

    fn range(&mut self, result: Type) {
        if self.one_in(3) {
            return self.working_loop();
        }
        let (name, from, count) = (self.name("i"), self.below(9) as i64 - 4, self.below(5) as i64);
        let dots = self.pick(&["..", "..<"]);
        // Also at the end of what an i64 can be.
        let (from, to) = if self.one_in(12) { (i64::MAX - count, i64::MAX) } else { (from, from + count - 1) };
        self.line(&format!("for {name} in {from}{dots}{to} do"));
        let seen = self.scopes.len();
        self.scopes.push(Variable { name, ty: Type::I64, is_var: false });
        self.loops += 1;
        self.inner(result);
        self.loops -= 1;
        self.scopes.truncate(seen);
        self.line("end");
    }

    fn match_on(&mut self, result: Type) {
        let value = self.expression(Type::I64, 2);
        self.line(&format!("match {value} do"));
        self.depth += 1;
        for pattern in ["0, 1", "-3..5", "7"] {
            if self.one_in(2) {
                self.line(&format!("{pattern} => do"));
                self.inner(result);
                self.line("end");
            }
        }
        self.line("_ => do");
        self.inner(result);
        self.line("end");
        self.depth -= 1;
        self.line("end");
    }

    /// A channel that no other task has.
    fn channel(&mut self) {
        let (name, value) = (self.name("c"), self.expression(Type::I64, 1));
        self.line(&format!("let {name} = channel(2)"));
        self.line(&format!("{name}.send({value})"));
        match self.below(3) {
            0 => self.line(&format!("print({name}.recv(), {name}.try_recv(-1))")),
            1 => self
                .line(&format!("select do case r = {name}.recv() do print(r) end; default do print(\"none\") end end")),
            _ => {
                self.line(&format!("{name}.close()"));
                self.line(&format!("for r in {name} do print(r, {name}.len()) end"));
            }
        }
    }

    /// A channel between two tasks.
    fn shared_channel(&mut self) {
        let (name, capacity, count) = (self.name("c"), self.below(3), self.below(6));
        self.line(&format!("let {name} = channel({capacity})"));
        self.line("nursery do");
        self.depth += 1;
        self.line(&format!("spawn produce({name}, {count})"));
        if self.current == 0 && self.one_in(2) {
            self.line(&format!("print(await consume({name}))"));
        } else {
            self.line(&format!("for r in {name} do print(\"{name}\", r) end"));
        }
        self.depth -= 1;
        self.line("end");
    }

    /// A call of a function behind the current one; `None` if there is none, or none with this result.
    fn call(&mut self, result: Option<Type>, spawned: bool) -> Option<String> {
        if self.calls_left == 0 {
            return None;
        }
        let fits = |function: &Function| {
            result.is_none_or(|result| function.result == result) && (spawned || !function.is_async)
        };
        let found: Vec<usize> = (self.current..self.functions.len()).filter(|at| fits(&self.functions[*at])).collect();
        if found.is_empty() {
            return None;
        }
        self.calls_left -= 1;
        let number = found[self.below(found.len())];
        let parameters = self.functions[number].parameters.clone();
        let arguments: Vec<_> = parameters.into_iter().map(|ty| self.expression(ty, 1)).collect();
        Some(format!("f{number}({})", arguments.join(", ")))
    }

    fn expression(&mut self, ty: Type, height: usize) -> String {
        if height > 0 && !self.in_defer && self.current == 0 && self.kind != Kind::Sequential && self.one_in(8) {
            // `main` may await, and the task belongs to the block.
            let is_async = self.functions.clone();
            if let Some(call) = self.call(Some(ty), true) {
                let number: usize = call[1..call.find('(').unwrap_or(1)].parse().unwrap_or(0);
                return if is_async[number].is_async { format!("await {call}") } else { call };
            }
        }
        if height > 0
            && self.one_in(6)
            && let Some(call) = self.call(Some(ty), false)
        {
            return call;
        }
        match ty {
            Type::Bool => self.bool(height),
            _ => self.integer(height),
        }
    }

    fn variable(&mut self, ty: Type) -> Option<String> {
        let found: Vec<String> = self.scopes.iter().filter(|v| v.ty == ty).map(|v| v.name.clone()).collect();
        (!found.is_empty()).then(|| found[self.below(found.len())].clone())
    }

    fn integer(&mut self, height: usize) -> String {
        if height > 0 && !self.one_in(3) {
            let (left, right) = (self.expression(Type::I64, height - 1), self.expression(Type::I64, height - 1));
            return match self.below(7) {
                0 | 1 => format!("({left} + {right})"),
                2 | 3 => format!("({left} - {right})"),
                4 => format!("({left} * {right})"),
                5 if self.one_in(4) => format!("({left} / {right})"),
                5 => format!("({left} / {})", 1 + self.below(9)),
                _ => format!("(-({left}) % {})", 1 + self.below(9)),
            };
        }
        if self.one_in(3) {
            let value = match self.below(12) {
                0 => i64::MAX - self.below(3) as i64,
                1 => i64::MIN + self.below(3) as i64,
                _ => self.below(21) as i64 - 10,
            };
            return value.to_string();
        }
        self.variable(Type::I64).unwrap_or_else(|| "3".into())
    }

    fn bool(&mut self, height: usize) -> String {
        if height > 0 && !self.one_in(4) {
            return match self.below(5) {
                0 => format!(
                    "({} and {})",
                    self.expression(Type::Bool, height - 1),
                    self.expression(Type::Bool, height - 1)
                ),
                1 => format!(
                    "({} or {})",
                    self.expression(Type::Bool, height - 1),
                    self.expression(Type::Bool, height - 1)
                ),
                2 => format!("(not {})", self.expression(Type::Bool, height - 1)),
                3 => format!(
                    "({} != {})",
                    self.expression(Type::Bool, height - 1),
                    self.expression(Type::Bool, height - 1)
                ),
                _ => {
                    let operator = self.pick(&["==", "!=", "<", "<=", ">", ">="]);
                    format!(
                        "({} {operator} {})",
                        self.expression(Type::I64, height - 1),
                        self.expression(Type::I64, height - 1)
                    )
                }
            };
        }
        let constant = self.pick(&["true", "false"]).to_owned();
        self.variable(Type::Bool).unwrap_or(constant)
    }
}

fn type_name(ty: Type) -> &'static str {
    match ty {
        Type::Unit => "",
        Type::I64 => "i64",
        Type::Bool => "bool",
    }
}
