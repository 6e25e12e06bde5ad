//! From the fields of a node to what it does.
//!
//! Room: surface.
//!
//! # Invariant
//! What the table of kinds cannot express is checked here: fields that exclude or need each other, regular expressions, addresses.
//! A kind of the table that is missing here is a failing test, `every_example_of_the_table_is_taken`.

use std::net::SocketAddr;
use std::path::PathBuf;

use bursar::Budget;
use bursar::flow::NotUtf8;
use surface_text::Span;
use surface_text::fields::Values;
use surface_text::units::clip;

use super::fields;
use super::given::{Given, Setting, json};
use crate::action::{Action, Aggregate, Command, Emit, Extent, Format, Janus, Map, Parse, Reading, Walk};
use crate::kinds::Kind;
use crate::value::{Name, Template};

/// The action of a node; `None` after a problem, which was reported.
pub(crate) fn action<'t>(kind: &Kind, given: &Given<'_, 't>, values: &mut Values<'t>) -> Option<Action> {
    let path = |name: &str| given.text(name).map(PathBuf::from);
    let name = |field: &str| given.text(field).map(Name::new);
    let format = || format(given);
    let above_zero = |field: &'static str, values: &mut Values<'t>| -> Option<u64> {
        let ms = given.millis(field)?;
        if ms == 0 {
            let message = format!("`{field}` is 0, and {} needs a time above 0", given.what);
            values.report.add(&given.span(field), message, "write `1ms` or more");
        }
        (ms > 0).then_some(ms)
    };
    Some(match kind.name {
        "command" => Action::Command(command(given, values)?),
        "lines" => {
            let (follow, from_end) = (given.flag("follow"), given.word("from") == Some("end"));
            if from_end && !follow {
                let message =
                    format!("{} starts at the end and does not follow the file, so it reads nothing", given.what);
                values.report.add(&given.span("from"), message, "write `follow = true`, or remove `from`");
                return None;
            }
            Action::Lines { path: path("path")?, follow, from_end, reading: reading(given) }
        }
        "stdin" => Action::Stdin { reading: reading(given) },
        "tcp-in" => Action::TcpIn { listen: address("listen", given, values)?, reading: reading(given) },
        "every" => {
            let emit = match (given.json("value"), given.word("emit")) {
                (Some(_), Some(_)) => return both("emit", "value", given, values),
                (Some(value), None) => Emit::Value(value.clone()),
                (None, Some("time")) => Emit::Time,
                (None, _) => Emit::Count,
            };
            Action::Every { interval_ms: above_zero("interval", values)?, emit, count: given.count("count") }
        }
        "numbers" => {
            let (from, to) = (given.whole("from").unwrap_or(1), given.whole("to")?);
            if from > to {
                let message = format!("`to` is {to}, which is less than `from`, {from}");
                values.report.add(&given.span("to"), message, "swap the two");
                return None;
            }
            Action::Numbers { from, to }
        }
        "values" => Action::Values { list: list(given, values)?, repeat: given.count("repeat").unwrap_or(1) },
        "random-walk" => Action::RandomWalk(Walk {
            interval_ms: if given.has("interval") { Some(above_zero("interval", values)?) } else { None },
            start: given.number("start").unwrap_or(0.0),
            step: given.number("step").unwrap_or(1.0),
            seed: given.count("seed").unwrap_or(1),
            field: name("as").unwrap_or_default(),
            count: given.count("count"),
        }),
        "map" => Action::Map(map(given, values)?),
        "filter" => Action::Filter(fields::condition(given, values)?),
        "janus" => Action::Janus(Box::new(Janus {
            file: path("file")?,
            function: given.text("function").unwrap_or("main").to_owned(),
            args: given.texts("args").map(|names| names.iter().map(|name| Name::new(name.value)).collect()),
            result: name("as"),
            budget: Budget {
                spawns: given.count("spawns").unwrap_or(100),
                channel_ops: given.count("channel_ops").unwrap_or(10_000),
                ..Budget::UNLIMITED.with_ops(given.count("ops").unwrap_or(100_000))
            },
            timeout_ms: if given.has("timeout") { above_zero("timeout", values)? } else { 1_000 },
            program: None, // `programs.rs` compiles it, when all of the file was read
        })),
        "router" => Action::Router(fields::routes(given, values)?),
        "splitter" => Action::Splitter { outputs: given.count("outputs")? },
        "merger" => Action::Merger,
        "batcher" => Action::Batcher {
            size: given.count("size")?,
            within_ms: if given.has("within") { Some(above_zero("within", values)?) } else { None },
        },
        "window" => window(given, values)?,
        "throttle" => {
            let rate = given.number("rate")?;
            if !(0.001..=1e9).contains(&rate) {
                let message = format!("`rate` is {rate} messages a second; it must be from 0.001 to 1000000000");
                values.report.add(&given.span("rate"), message, "write `rate = 100`");
                return None;
            }
            Action::Throttle { rate, burst: given.count("burst").unwrap_or(1) }
        }
        "debounce" => Action::Debounce { quiet_ms: above_zero("quiet", values)? },
        "sample" => Action::Sample { every: given.count("every")? },
        "validator" => Action::Validator { fields: fields::rules(given, values)? },
        "counter" => {
            let interval_ms = if given.has("interval") { above_zero("interval", values)? } else { 1_000 };
            Action::Counter { interval_ms, field: name("field"), reset: given.flag("reset") }
        }
        "head" => Action::Head { count: given.count("count")? },
        "cache" => Action::Cache {
            key: name("key").unwrap_or_default(),
            ttl_ms: above_zero("ttl", values)?,
            keys: given.count("keys").unwrap_or(KEYS),
        },
        "breaker" => Action::Breaker {
            failure: fields::condition(given, values)?,
            failures: given.count("failures").unwrap_or(5),
            cool_ms: if given.has("cool") { above_zero("cool", values)? } else { 10_000 },
        },
        "timeout" => Action::Timeout { after_ms: above_zero("after", values)? },
        "delay" => Action::Delay { by_ms: above_zero("by", values)? },
        "correlator" => Action::Correlator {
            key: name("key")?,
            within_ms: if given.has("within") { above_zero("within", values)? } else { 10_000 },
            keys: given.count("keys").unwrap_or(KEYS),
        },
        "json" => Action::Json,
        "text" => Action::Text,
        "print" => Action::Print { format: format() },
        "write" => Action::Write { path: path("path")?, append: given.flag("append"), format: format() },
        "tcp-out" => Action::TcpOut { connect: address("connect", given, values)?, format: format() },
        "discard" => Action::Discard,
        "stop" => Action::Stop,
        other => unreachable!("the kind `{other}` is in the table and does nothing"),
    })
}

/// The default limit of remembered keys.
const KEYS: usize = 100_000;

fn format(given: &Given<'_, '_>) -> Format {
    if given.word("format") == Some("json") { Format::Json } else { Format::Lines }
}

/// How lines from outside become messages.
fn reading(given: &Given<'_, '_>) -> Reading {
    let otherwise = Reading::default();
    Reading {
        format: format(given),
        longest_line: given.count("longest_line").unwrap_or(otherwise.longest_line),
        not_utf8: if given.word("not_utf8") == Some("replace") { NotUtf8::Replace } else { NotUtf8::Error },
    }
}

fn both<T>(one: &str, other: &str, given: &Given<'_, '_>, values: &mut Values<'_>) -> Option<T> {
    let message = format!("{} has both `{one}` and `{other}`", given.what);
    values.report.add(&given.span(other), message, "remove one of the two");
    None
}

fn neither<T>(one: &str, other: &str, given: &Given<'_, '_>, values: &mut Values<'_>) -> Option<T> {
    let message = format!("{} has neither `{one}` nor `{other}`", given.what);
    values.report.add(&given.at, message, format!("write `{one} = …` or `{other} = …`"));
    None
}

fn address(field: &str, given: &Given<'_, '_>, values: &mut Values<'_>) -> Option<SocketAddr> {
    let text = given.text(field)?;
    // Names are not looked up before the graph runs; `localhost` is the same everywhere.
    let numeric = text.replacen("localhost:", "127.0.0.1:", 1);
    let found = numeric.parse().ok();
    if found.is_none() {
        let message = format!("`{field}` is \"{}\", which is not an address", clip(text));
        values.report.add(&given.span(field), message, "write an IP address and a port, such as \"127.0.0.1:7000\"");
    }
    found
}

fn command<'t>(given: &Given<'_, 't>, values: &mut Values<'t>) -> Option<Command> {
    let argv = match (given.text("run"), given.texts("command")) {
        (Some(_), Some(_)) => return both("run", "command", given, values),
        (None, None) => return neither("run", "command", given, values),
        (Some(line), None) => vec!["sh".to_owned(), "-c".to_owned(), line.to_owned()],
        (None, Some(argv)) if argv.first().is_none_or(|program| program.value.trim().is_empty()) => {
            let message = "`command` names no program";
            values.report.add(&given.span("command"), message, "write `command = [\"program\", \"argument\"]`");
            return None;
        }
        (None, Some(argv)) => argv.iter().map(|part| part.value.to_owned()).collect(),
    };
    let env = match given.node("env") {
        Some(node) => {
            let shown = surface_text::fields::Field::new("env", "a table of variables", "{ LANG = \"C\" }");
            values.env(&shown, node).into_iter().map(|(name, value)| (name, value.value)).collect()
        }
        None => Vec::new(),
    };
    Some(Command {
        argv,
        reading: reading(given),
        restart: given.count("restart").unwrap_or(0),
        cwd: given.text("cwd").map(PathBuf::from),
        env,
        grace_ms: given.millis("grace").unwrap_or(2_000),
    })
}

fn list<'t>(given: &Given<'_, 't>, values: &mut Values<'t>) -> Option<Vec<serde_json::Value>> {
    let node = given.node("list")?;
    match json(node, values)? {
        serde_json::Value::Array(list) if list.is_empty() => {
            values.report.add(&node.at, "`list` is empty", "write a value in it, or remove the node");
            None
        }
        serde_json::Value::Array(list) => Some(list),
        _ => None,
    }
}

fn map<'t>(given: &Given<'_, 't>, values: &mut Values<'t>) -> Option<Map> {
    let names = |field: &str| given.texts(field).map(|texts| texts.iter().map(|text| Name::new(text.value)).collect());
    let parse = given.word("parse").map(|word| if word == "json" { Parse::Json } else { Parse::Number });
    let linear = given.has("scale") || given.has("offset");
    let format = match given.text("format").map(Template::new) {
        Some(Err(why)) => {
            let message = format!("`format` is {}: {why}", values.written(&given.span("format")));
            values.report.add(&given.span("format"), message, "write {field} for a field, and {{ for a brace");
            return None;
        }
        template => template.and_then(Result::ok),
    };
    let map = Map {
        parse,
        rename: fields::pairs("rename", given, values)?,
        pick: names("pick"),
        drop: names("drop").unwrap_or_default(),
        field: given.text("field").map(Name::new).unwrap_or_default(),
        linear: linear.then(|| (given.number("scale").unwrap_or(1.0), given.number("offset").unwrap_or(0.0))),
        set: fields::sets(given, values)?,
        format,
    };
    let nothing = map.parse.is_none()
        && map.rename.is_empty()
        && map.pick.is_none()
        && map.drop.is_empty()
        && map.linear.is_none()
        && map.set.is_empty()
        && map.format.is_none();
    if nothing {
        let message = format!("{} changes nothing", given.what);
        values.report.add(&given.at, message, "write what it changes, such as `set = { unit = \"C\" }`, or remove it");
        return None;
    }
    Some(map)
}

fn window<'t>(given: &Given<'_, 't>, values: &mut Values<'t>) -> Option<Action> {
    let extent = match (given.count::<usize>("size"), given.millis("span")) {
        (Some(_), Some(_)) => return both("size", "span", given, values),
        (None, None) => return neither("size", "span", given, values),
        (Some(size), None) => Extent::Count { size, slide: slide(size as u64, false, given, values)? as usize },
        (None, Some(0)) => {
            values.report.add(&given.span("span"), "`span` is 0, so a window is empty", "write `span = \"1s\"`");
            return None;
        }
        (None, Some(span_ms)) => Extent::Time { span_ms, slide_ms: slide(span_ms, true, given, values)? },
    };
    let aggregate = match given.word("aggregate") {
        Some("count") => Aggregate::Count,
        Some("sum") => Aggregate::Sum,
        Some("mean") => Aggregate::Mean,
        Some("min") => Aggregate::Min,
        Some("max") => Aggregate::Max,
        Some("last") => Aggregate::Last,
        _ => Aggregate::List,
    };
    let name = |field: &str| given.text(field).map(Name::new);
    if given.has("key") && given.has("slide") {
        let message = format!("{} has a `key` and a `slide`, and windows by key do not slide", given.what);
        values.report.add(&given.span("slide"), message, "remove one of the two");
        return None;
    }
    let keys = given.count("keys").unwrap_or(KEYS);
    Some(Action::Window { extent, aggregate, field: name("field").unwrap_or_default(), key: name("key"), keys })
}

/// The distance from one window to the next: `slide`, or the length of the window, which is also its limit.
fn slide(whole: u64, time: bool, given: &Given<'_, '_>, values: &mut Values<'_>) -> Option<u64> {
    let Some(Setting::Json(written)) = given.get("slide") else { return Some(whole) };
    let at: Span = given.span("slide");
    let found = match written {
        serde_json::Value::String(text) if time => surface_text::units::millis(text).ok(),
        serde_json::Value::Number(number) if time => surface_text::units::millis(&number.to_string()).ok(),
        serde_json::Value::Number(number) => number.as_u64(),
        _ => None,
    };
    if let Some(slide) = found.filter(|slide| (1..=whole).contains(slide)) {
        return Some(slide);
    }
    let (other, example) = if time { ("span", "\"100ms\"") } else { ("size", "1") };
    let message = format!("`slide` is {}, and it must be from 1 to `{other}`", values.written(&at));
    values.report.add(&at, message, format!("write `slide = {example}`, or leave it out: then windows do not overlap"));
    None
}
