//! The text form of QTJIR, read.
//!
//! Room: surface.
//!
//! # Invariant
//! Any text gives a module, which still has to be verified, or the first line that is wrong. Memory is in proportion to the text: no number in it makes anything larger.

use std::collections::HashMap;

use surface_text::{Problems, Report};

use super::{
    Arithmetic, Block, BlockId, Callee, Comparison, End, FuncId, Function, Inst, Module, Op, Piece, Reg, Tenancy, Type,
};
use crate::limits::{FUNCTIONS_MAX, IR_BYTES_MAX, REGISTERS_MAX};

/// What is wrong with a line.
struct Wrong(String);
type Read<T> = Result<T, Wrong>;

fn wrong<T>(message: impl Into<String>) -> Read<T> {
    Err(Wrong(message.into()))
}

/// Reads a module. `name` is used in messages.
///
/// # Errors
/// The first line that cannot be read.
pub fn parse(name: &str, text: &str) -> Result<Module, Problems> {
    if text.len() > IR_BYTES_MAX {
        let message = format!("has more than {IR_BYTES_MAX} bytes, the limit");
        return Err(Problems::of_file(name, message, "divide the program into several"));
    }
    let mut reader = Reader { names: names(text), module: Module::default(), open: None };
    let mut at = 0;
    for line in text.split('\n') {
        if let Err(Wrong(message)) = reader.line(line) {
            return Err(problem(name, text, at..at + line.len(), message));
        }
        at += line.len() + 1;
    }
    if reader.open.is_some() {
        return Err(problem(name, text, text.len()..text.len(), "the last function has no `}`".into()));
    }
    Ok(reader.module)
}

fn problem(name: &str, text: &str, at: std::ops::Range<usize>, message: String) -> Problems {
    let mut report = Report::default();
    report.add(&at, message, "the text form is what `--emit qtjir` prints");
    report.finish(name, text.as_bytes())
}

/// Functions by name: a call may stand before the function. If two have one name, `verify` says so.
fn names(text: &str) -> HashMap<&str, FuncId> {
    let headers = text.split('\n').filter_map(|line| {
        let line = line.trim_start();
        let line = line.strip_prefix("async ").unwrap_or(line);
        line.strip_prefix("func @")?.split('(').next()
    });
    headers.zip(0..).map(|(name, id)| (name, FuncId(id))).collect()
}

struct Reader<'t> {
    names: HashMap<&'t str, FuncId>,
    module: Module,
    open: Option<Open>,
}

/// A function whose `}` has not come yet.
struct Open {
    function: Function,
    /// Of the block that is being read: its `on_error`, and its code.
    block: Option<(Option<BlockId>, Vec<Inst>)>,
}

impl Reader<'_> {
    fn line(&mut self, line: &str) -> Read<()> {
        let line = line.trim();
        if line.is_empty() || line.starts_with("//") {
            return Ok(());
        }
        let Some(open) = &mut self.open else {
            if self.module.functions.len() == FUNCTIONS_MAX {
                return wrong(format!("more than {FUNCTIONS_MAX} functions, the limit"));
            }
            self.open = Some(Open { function: header(line)?, block: None });
            return Ok(());
        };
        if line == "}" {
            if open.block.is_some() {
                return wrong("a block ends with `jump`, `branch`, `return` or `raise`");
            }
            self.module.functions.extend(self.open.take().map(|open| open.function));
            return Ok(());
        }
        let mut words = Cursor { rest: line, names: &self.names };
        open.line(&mut words)
    }
}

fn header(line: &str) -> Read<Function> {
    let none = HashMap::new();
    let mut words = Cursor { rest: line, names: &none };
    let is_async = words.take("async ");
    words.expect("func @")?;
    let name = words.name()?.to_owned();
    words.expect("(")?;
    let mut registers = Vec::new();
    while !words.take(")") {
        if !registers.is_empty() {
            words.expect(",")?;
        }
        words.declaration(&mut registers)?;
    }
    words.expect("->")?;
    let result = words.ty()?;
    words.skip();
    let Some((tenancy, text)) = Tenancy::ALL.iter().find(|(_, text)| words.rest.starts_with(text)) else {
        return wrong("a function is CPU_Serial or CPU_Parallel");
    };
    words.expect(text)?;
    words.expect("{")?;
    words.end()?;
    let parameters = registers.len();
    Ok(Function { name, tenancy: *tenancy, is_async, parameters, registers, result, blocks: Vec::new() })
}

impl Open {
    fn line(&mut self, words: &mut Cursor<'_>) -> Read<()> {
        let Some((on_error, code)) = &mut self.block else {
            if words.rest.starts_with('%') {
                if !self.function.blocks.is_empty() {
                    return wrong("registers are declared before the first block");
                }
                words.declaration(&mut self.function.registers)?;
                return words.end();
            }
            let BlockId(number) = words.block()?;
            if number as usize != self.function.blocks.len() {
                return wrong(format!("here comes block bb{}", self.function.blocks.len()));
            }
            let on_error = if words.take("on_error") { Some(words.block()?) } else { None };
            words.expect(":")?;
            words.end()?;
            self.block = Some((on_error, Vec::new()));
            return Ok(());
        };
        if let Some(end) = words.block_end()? {
            let end_line = words.source_line()?;
            let (on_error, code) = (*on_error, std::mem::take(code));
            self.function.blocks.push(Block { on_error, code, end, end_line });
            self.block = None;
        } else {
            let op = words.op()?;
            code.push(Inst { op, line: words.source_line()? });
        }
        Ok(())
    }
}

/// The rest of a line.
struct Cursor<'t> {
    rest: &'t str,
    names: &'t HashMap<&'t str, FuncId>,
}

impl<'t> Cursor<'t> {
    fn skip(&mut self) {
        self.rest = self.rest.trim_start();
    }

    fn take(&mut self, text: &str) -> bool {
        self.skip();
        let rest = self.rest.strip_prefix(text);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn expect(&mut self, text: &str) -> Read<()> {
        if self.take(text) { Ok(()) } else { wrong(format!("`{text}` is missing")) }
    }

    fn end(&mut self) -> Read<()> {
        self.skip();
        if self.rest.is_empty() { Ok(()) } else { wrong("there is more in this line than belongs to it") }
    }

    fn take_while(&mut self, is_part: impl Fn(char) -> bool) -> &'t str {
        self.skip();
        let end = self.rest.find(|c| !is_part(c)).unwrap_or(self.rest.len());
        let (found, rest) = self.rest.split_at(end);
        self.rest = rest;
        found
    }

    fn name(&mut self) -> Read<&'t str> {
        match self.take_while(|c| c.is_ascii_alphanumeric() || c == '_') {
            "" => wrong("a name is missing"),
            name => Ok(name),
        }
    }

    fn number<T: std::str::FromStr>(&mut self) -> Read<T> {
        let digits = self.take_while(|c| c.is_ascii_digit() || c == '-');
        digits.parse().or_else(|_| wrong(format!("`{digits}` is not a number that fits")))
    }

    fn reg(&mut self) -> Read<Reg> {
        self.expect("%")?;
        Ok(Reg(self.number()?))
    }

    fn block(&mut self) -> Read<BlockId> {
        self.expect("bb")?;
        Ok(BlockId(self.number()?))
    }

    fn ty(&mut self) -> Read<Type> {
        let name = self.take_while(|c| c.is_ascii_alphanumeric() || c == '.');
        let found = Type::ALL.iter().find(|(_, known)| *known == name);
        found.map_or_else(|| wrong(format!("there is no type `{name}`")), |(ty, _)| Ok(*ty))
    }

    fn declaration(&mut self, registers: &mut Vec<Type>) -> Read<()> {
        let Reg(number) = self.reg()?;
        if number as usize != registers.len() {
            return wrong(format!("here comes register %{}", registers.len()));
        }
        if registers.len() == REGISTERS_MAX {
            return wrong(format!("more than {REGISTERS_MAX} registers, the limit"));
        }
        self.expect(":")?;
        registers.push(self.ty()?);
        Ok(())
    }

    /// ` !12`, if it is there, and nothing else.
    fn source_line(&mut self) -> Read<u32> {
        let line = if self.take("!") { self.number()? } else { 0 };
        self.end()?;
        Ok(line)
    }

    fn block_end(&mut self) -> Read<Option<End>> {
        let before = self.rest;
        let word = self.take_while(|c| c.is_ascii_lowercase() || c == '_');
        Ok(Some(match word {
            "jump" => End::Jump(self.block()?),
            "branch" => {
                let on = self.reg()?;
                self.expect(",")?;
                let then = self.block()?;
                self.expect(",")?;
                End::Branch(on, then, self.block()?)
            }
            "return" => {
                self.skip();
                End::Return(if self.rest.starts_with('%') { Some(self.reg()?) } else { None })
            }
            "raise" => End::Raise,
            _ => {
                self.rest = before;
                return Ok(None);
            }
        }))
    }

    fn callee(&mut self) -> Read<Callee> {
        self.expect("@")?;
        let name = self.name()?;
        let Some(&function) = self.names.get(name) else { return wrong(format!("there is no function @{name}")) };
        self.expect("(")?;
        let mut arguments = Vec::new();
        while !self.take(")") {
            if !arguments.is_empty() {
                self.expect(",")?;
            }
            arguments.push(self.reg()?);
        }
        Ok(Callee { function, arguments })
    }

    fn two(&mut self) -> Read<(Reg, Reg)> {
        let first = self.reg()?;
        self.expect(",")?;
        Ok((first, self.reg()?))
    }

    fn text(&mut self) -> Read<String> {
        self.expect("\"")?;
        let mut value = String::new();
        let mut chars = self.rest.char_indices();
        while let Some((at, c)) = chars.next() {
            match c {
                '"' => {
                    self.rest = &self.rest[at + 1..];
                    return Ok(value);
                }
                '\\' => value.push(match chars.next() {
                    Some((_, 'n')) => '\n',
                    Some((_, 'r')) => '\r',
                    Some((_, 't')) => '\t',
                    Some((_, other @ ('"' | '\\'))) => other,
                    _ => return wrong("`\\` begins no escape that there is"),
                }),
                other => value.push(other),
            }
        }
        wrong("the text has no end")
    }

    fn op(&mut self) -> Read<Op> {
        self.skip();
        if !self.rest.starts_with('%') {
            return self.without_result();
        }
        let to = self.reg()?;
        if self.take(",") {
            let second = self.reg()?;
            self.expect("=")?;
            return match self.name()? {
                "channel_next" => Ok(Op::ChannelNext(to, second, self.reg()?)),
                "select_wait" => Ok(Op::SelectWait(to, second)),
                other => wrong(format!("`{other}` does not give two values")),
            };
        }
        self.expect("=")?;
        self.with_result(to)
    }

    fn without_result(&mut self) -> Read<Op> {
        Ok(match self.name()? {
            "call" => Op::Call(None, self.callee()?),
            "print" => Op::Print(self.pieces()?),
            "budget_check" => Op::BudgetCheck,
            "budget_decrement" => Op::BudgetDecrement(self.number()?),
            "yield" => Op::Yield,
            "nursery_begin" => Op::NurseryBegin(self.number()?),
            "nursery_end" => Op::NurseryEnd(self.number()?),
            "await" => Op::Await(None, self.reg()?),
            "task_join" => Op::TaskJoin(None, self.reg()?),
            "channel_send" => {
                let (channel, value) = self.two()?;
                Op::ChannelSend(channel, value)
            }
            "channel_close" => Op::ChannelClose(self.reg()?),
            "select_begin" => Op::SelectBegin,
            "select_recv" => Op::SelectRecv(self.reg()?),
            "select_send" => {
                let (channel, value) = self.two()?;
                Op::SelectSend(channel, value)
            }
            "select_timeout" => Op::SelectTimeout(self.reg()?),
            "select_default" => Op::SelectDefault,
            other => return wrong(format!("there is no instruction `{other}` without a result")),
        })
    }

    fn pieces(&mut self) -> Read<Vec<Piece>> {
        let mut pieces = Vec::new();
        loop {
            self.skip();
            match self.rest.chars().next() {
                Some('"') => pieces.push(Piece::Text(self.text()?)),
                Some('%') => pieces.push(Piece::Value(self.reg()?)),
                _ if pieces.is_empty() => return Ok(pieces),
                _ => return wrong("a text or a register is missing"),
            }
            if !self.take(",") {
                return Ok(pieces);
            }
        }
    }

    fn with_result(&mut self, to: Reg) -> Read<Op> {
        let word = self.name()?;
        if let Some((operator, _)) = Arithmetic::ALL.iter().find(|(_, name)| *name == word) {
            let (a, b) = self.two()?;
            return Ok(Op::Arithmetic(*operator, to, a, b));
        }
        if let Some((operator, _)) = Comparison::ALL.iter().find(|(_, name)| *name == word) {
            let (a, b) = self.two()?;
            return Ok(Op::Compare(*operator, to, a, b));
        }
        Ok(match word {
            "const" if self.take("true") => Op::ConstBool(to, true),
            "const" if self.take("false") => Op::ConstBool(to, false),
            "const" => Op::Const(to, self.number()?),
            "copy" => Op::Copy(to, self.reg()?),
            "neg" => Op::Neg(to, self.reg()?),
            "not" => Op::Not(to, self.reg()?),
            "call" => Op::Call(Some(to), self.callee()?),
            "spawn" => Op::Spawn(to, self.callee()?),
            "async_call" => Op::AsyncCall(to, self.callee()?),
            "task_create" => Op::TaskCreate(to, self.callee()?),
            "await" => Op::Await(Some(to), self.reg()?),
            "task_join" => Op::TaskJoin(Some(to), self.reg()?),
            "channel_create" => Op::ChannelCreate(to, self.reg()?),
            "channel_recv" => Op::ChannelRecv(to, self.reg()?),
            "channel_try_send" => {
                let (channel, value) = self.two()?;
                Op::ChannelTrySend(to, channel, value)
            }
            "channel_try_recv" => {
                let (channel, otherwise) = self.two()?;
                Op::ChannelTryRecv(to, channel, otherwise)
            }
            "channel_is_closed" => Op::ChannelIsClosed(to, self.reg()?),
            "channel_len" => Op::ChannelLen(to, self.reg()?),
            other => return wrong(format!("there is no instruction `{other}` with a result")),
        })
    }
}
