//! The table of the kinds of nodes.
//!
//! Room: values.
//!
//! # Invariant
//! No two kinds, and no two fields of a kind, have the same name; an example is a value its field takes.
//! Checked by `every_example_of_the_table_is_taken`.

use super::Takes::{Address, Any, Duration, Flag, List, Name, Number, Path, Table, Text, Texts, Whole, Word};
use super::Without::{Means, Required};
use super::{Field, Kind, Port, Role, Takes, Without};

pub(crate) const fn field(
    name: &'static str,
    takes: Takes,
    without: Without,
    about: &'static str,
    example: &'static str,
) -> Field {
    Field { name, takes, without, about, example }
}

const fn port(name: &'static str, about: &'static str) -> Port {
    Port { name, about }
}

const IN: &[Port] = &[port("in", "messages")];
const OUT: &[Port] = &[port("out", "messages")];
const NONE: &[Port] = &[];
/// A count that has no limit of its own.
const MANY: Takes = Whole(1, 1_000_000_000);

const FORMAT: Field =
    field("format", Word(&["lines", "json"]), Means("lines"), "each line is a text, or a JSON value", "\"json\"");
const LONGEST_LINE: Field =
    field("longest_line", Whole(1, 1 << 30), Means("1048576"), "bytes of a line; a longer one is an error", "65536");
const NOT_UTF8: Field = field(
    "not_utf8",
    Word(&["error", "replace"]),
    Means("error"),
    "a line that is not UTF-8 is an error, or U+FFFD replaces the bytes that are not text",
    "\"replace\"",
);
const FIELD: Field = field("field", Name, Means("the message itself"), "the field that is read", "\"celsius\"");
const NOTHING: Without = Means("not checked");

/// The conditions of a filter, a route or a breaker.
pub(crate) const CONDITIONS: &[Field] = &[
    FIELD,
    field("above", Number, NOTHING, "it is a number greater than this", "80"),
    field("below", Number, NOTHING, "it is a number less than this", "20"),
    field("at_least", Number, NOTHING, "it is this number or a greater one", "80"),
    field("at_most", Number, NOTHING, "it is this number or a lesser one", "20"),
    field("equals", Any, NOTHING, "it is this value", "\"error\""),
    field("not", Any, NOTHING, "it is there and is not this value", "\"debug\""),
    field("matches", Text, NOTHING, "it is a text in which this regular expression is found", "\"^ERR\""),
    field("exists", Flag, NOTHING, "it is there and not null, or it is not", "true"),
];

/// An entry of `routes`; it has conditions, too.
pub(crate) const ROUTE: &[Field] = &[field("to", Text, Required, "the output", "\"hot\"")];

/// Fields of every node.
pub(crate) const EVERY_NODE: &[Field] = &[
    field("kind", Text, Required, "what it is", "\"filter\""),
    field(
        "on_error",
        Word(&["skip", "retry", "stop-node", "stop", "dead-letter"]),
        Means("skip"),
        "what happens to a message that fails, or to a line that cannot be read; dead letters leave by the output `dead`",
        "\"skip\"",
    ),
    field(
        "retry",
        Table,
        Means("3 times, first after 10ms, then skip"),
        "how often, the first pause, and what happens then",
        "{ times = 3, first = \"10ms\", then = \"dead-letter\" }",
    ),
    field("tick", Duration, Means("that of the flow"), "how often the node is called without a message", "\"100ms\""),
    field("batch", Whole(1, 1_000_000), Means("that of the flow"), "messages that the node handles in one turn", "64"),
    field(
        "band",
        Word(&["control", "high", "normal"]),
        Means("control if it feeds only control, else normal"),
        "the band of its own turns (to produce, to tick); its inputs have the `priority` of their edges",
        "\"high\"",
    ),
];

/// All kinds.
pub const KINDS: &[Kind] = &[
    Kind {
        name: "command",
        role: Role::Any,
        about: "a program: its standard input is `in`, its standard output is `out`; a last line without a line end is a message if the program ended with code 0, else an error",
        inputs: &[port("in", "each message is a line of its standard input, which is closed after the last message")],
        outputs: &[port("out", "each line of its standard output is a message")],
        fields: &[
            field("run", Text, Means("`command`"), "a line for `sh -c`", "\"python3 imu.py\""),
            field(
                "command",
                Texts,
                Means("`run`"),
                "the program and its arguments, without a shell",
                "[\"sort\", \"-u\"]",
            ),
            FORMAT,
            LONGEST_LINE,
            NOT_UTF8,
            field("restart", Whole(0, 1_000_000), Means("never"), "how often it is restarted after a failure", "3"),
            field("cwd", Path, Means("the folder of the file"), "the folder it runs in", "\"tools\""),
            field("env", Table, Means("none"), "environment variables, besides those of `bursar`", "{ LANG = \"C\" }"),
            field(
                "grace",
                Duration,
                Means("2s"),
                "on a stop: the time from the end of its input (without an input, from SIGTERM) until it and all that it started are killed",
                "\"5s\"",
            ),
        ],
    },
    Kind {
        name: "lines",
        role: Role::Source,
        about: "the lines of a file; the last line needs no line end",
        inputs: NONE,
        outputs: OUT,
        fields: &[
            field("path", Path, Required, "the file", "\"server.log\""),
            field(
                "follow",
                Flag,
                Means("it ends with the file"),
                "wait for appended lines; if the file is renamed and a new one takes its place (rotation), both are read, the old one for a minute; a file that is truncated is read from its beginning",
                "true",
            ),
            field(
                "from",
                Word(&["start", "end"]),
                Means("start"),
                "where reading starts; \"end\" is for `follow`",
                "\"start\"",
            ),
            FORMAT,
            LONGEST_LINE,
            NOT_UTF8,
        ],
    },
    Kind {
        name: "stdin",
        role: Role::Source,
        about: "the lines of the standard input of `bursar`; the last line needs no line end",
        inputs: NONE,
        outputs: OUT,
        fields: &[FORMAT, LONGEST_LINE, NOT_UTF8],
    },
    Kind {
        name: "tcp-in",
        role: Role::Source,
        about: "lines from TCP clients; the last line of a client needs no line end",
        inputs: NONE,
        outputs: OUT,
        fields: &[
            field("listen", Address, Required, "the address to listen on", "\"127.0.0.1:7000\""),
            FORMAT,
            LONGEST_LINE,
            NOT_UTF8,
        ],
    },
    Kind {
        name: "every",
        role: Role::Source,
        about: "a message in every interval",
        inputs: NONE,
        outputs: OUT,
        fields: &[
            field("interval", Duration, Required, "time between two messages", "\"1s\""),
            field("emit", Word(&["count", "time"]), Means("count"), "0, 1, 2, or seconds since the start", "\"time\""),
            field("value", Any, Means("`emit`"), "the message, the same each time", "\"tick\""),
            field("count", MANY, Means("no limit"), "it ends after this many messages", "10"),
        ],
    },
    Kind {
        name: "numbers",
        role: Role::Source,
        about: "whole numbers, for tests",
        inputs: NONE,
        outputs: OUT,
        fields: &[
            field("from", Whole(i64::MIN, i64::MAX), Means("1"), "the first", "0"),
            field("to", Whole(i64::MIN, i64::MAX), Required, "the last", "1000"),
        ],
    },
    Kind {
        name: "values",
        role: Role::Source,
        about: "values written in the file, for tests",
        inputs: NONE,
        outputs: OUT,
        fields: &[
            field("list", List, Required, "the messages", "[1, \"two\", { three = 3 }]"),
            field("repeat", MANY, Means("once"), "how often the whole list is emitted", "2"),
        ],
    },
    Kind {
        name: "random-walk",
        role: Role::Source,
        about: "a random walk of numbers, for demonstrations",
        inputs: NONE,
        outputs: OUT,
        fields: &[
            field("interval", Duration, Means("as fast as they are taken"), "time between two messages", "\"50ms\""),
            field("start", Number, Means("0"), "the first", "20"),
            field("step", Number, Means("1"), "the largest difference between two numbers", "0.5"),
            field("seed", Whole(0, i64::MAX), Means("1"), "the same seed gives the same walk", "42"),
            field("as", Name, Means("a plain number"), "the field of an object that holds the number", "\"celsius\""),
            field("count", MANY, Means("no limit"), "it ends after this many messages", "1000"),
        ],
    },
    Kind {
        name: "map",
        role: Role::Stage,
        about: "changes each message: parse, then rename, pick, drop, scale, offset, set, format",
        inputs: IN,
        outputs: OUT,
        fields: &[
            field("parse", Word(&["json", "number"]), Means("unchanged"), "parse the text as this", "\"json\""),
            field("rename", Table, Means("none"), "fields and their new names", "{ temp = \"celsius\" }"),
            field("pick", Texts, Means("all"), "fields to keep", "[\"celsius\", \"at\"]"),
            field("drop", Texts, Means("none"), "fields to remove", "[\"raw\"]"),
            field(
                "field",
                Name,
                Means("the message itself"),
                "what `parse`, `scale` and `offset` change",
                "\"celsius\"",
            ),
            field("scale", Number, Means("1"), "multiply the number by this", "1.8"),
            field("offset", Number, Means("0"), "then add this", "32"),
            field("set", Table, Means("none"), "fields and their values", "{ unit = \"F\" }"),
            field(
                "format",
                Text,
                Means("unchanged"),
                "a text with {field} in it, or {} for the whole message",
                "\"{name}: {celsius}\"",
            ),
        ],
    },
    Kind {
        name: "filter",
        role: Role::Stage,
        about: "passes on messages that meet all its conditions",
        inputs: IN,
        outputs: OUT,
        fields: CONDITIONS,
    },
    Kind {
        name: "janus",
        role: Role::Stage,
        about: "calls a function of a Janus program for each message, under a budget: what returns a flag filters, what returns a number maps",
        inputs: IN,
        outputs: OUT,
        fields: &[
            field("file", Path, Required, "the program", "\"score.jan\""),
            field(
                "function",
                Text,
                Means("main"),
                "the function; unless it is `main`, it is declared `async func`",
                "\"score\"",
            ),
            field(
                "args",
                Texts,
                Means("the message itself, if the function has one parameter"),
                "fields of the message that are its arguments, in their order: whole numbers for `i64`, true or false for `bool`",
                "[\"celsius\", \"limit\"]",
            ),
            field(
                "as",
                Name,
                Means("the message becomes the number; a flag says whether it is passed on"),
                "the field of the message that gets the result",
                "\"score\"",
            ),
            field("ops", MANY, Means("100000"), "operations that one message may cost", "1000000"),
            field("spawns", Whole(0, 1_000_000), Means("100"), "tasks that one message may start", "10"),
            field(
                "channel_ops",
                Whole(0, 1_000_000_000),
                Means("10000"),
                "sends, receives and selects for one message",
                "500",
            ),
            field("timeout", Duration, Means("1s"), "time that one message may take", "\"250ms\""),
        ],
    },
    Kind {
        name: "router",
        role: Role::Stage,
        about: "sends each message to the first route whose conditions it meets",
        inputs: IN,
        outputs: &[port("NAME", "a route by its name"), port("else", "messages that match no route")],
        fields: &[field(
            "routes",
            List,
            Required,
            "outputs and their conditions, which are those of a filter",
            "[{ to = \"hot\", field = \"celsius\", above = 80 }]",
        )],
    },
    Kind {
        name: "splitter",
        role: Role::Stage,
        about: "sends messages to its outputs in turn (round-robin)",
        inputs: IN,
        outputs: &[port("0, 1, …", "every Nth message, if there are N outputs")],
        fields: &[field("outputs", Whole(2, 256), Required, "how many outputs", "4")],
    },
    Kind {
        name: "merger",
        role: Role::Stage,
        about: "merges the messages of several edges, in the order of arrival",
        inputs: IN,
        outputs: OUT,
        fields: &[],
    },
    Kind {
        name: "batcher",
        role: Role::Stage,
        about: "collects messages into lists",
        inputs: IN,
        outputs: &[port("out", "lists")],
        fields: &[
            field("size", Whole(1, 1_000_000), Required, "messages in a list", "100"),
            field(
                "within",
                Duration,
                Means("until it is full"),
                "a list is emitted at the latest after this time",
                "\"1s\"",
            ),
        ],
    },
    Kind {
        name: "window",
        role: Role::Stage,
        about: "one value for each window of messages",
        inputs: IN,
        outputs: &[port("out", "the aggregate of a window")],
        fields: &[
            field("size", Whole(1, 1_000_000), Means("`span`"), "messages in a window", "10"),
            field("span", Duration, Means("`size`"), "time in a window", "\"1s\""),
            field(
                "slide",
                Any,
                Means("windows do not overlap (tumbling)"),
                "messages, or time, from the start of one window to the next",
                "1",
            ),
            field(
                "aggregate",
                Word(&["count", "sum", "mean", "min", "max", "last", "list"]),
                Means("list"),
                "how the messages of a window become one value",
                "\"mean\"",
            ),
            FIELD,
            field(
                "key",
                Name,
                Means("one window for all messages"),
                "a window for each value of this field: { key, value }",
                "\"path\"",
            ),
            field(
                "keys",
                Whole(1, 1_000_000),
                Means("100000"),
                "limit of keys; for a further key, the oldest window is emitted early",
                "1000",
            ),
        ],
    },
    Kind {
        name: "throttle",
        role: Role::Stage,
        about: "limits the messages per second; further messages wait",
        inputs: IN,
        outputs: OUT,
        fields: &[
            field("rate", Number, Required, "messages per second", "100"),
            field("burst", MANY, Means("1"), "messages that may pass at once after a pause", "10"),
        ],
    },
    Kind {
        name: "debounce",
        role: Role::Stage,
        about: "emits the last message when no other came for a while",
        inputs: IN,
        outputs: OUT,
        fields: &[field("quiet", Duration, Required, "for how long no message must come", "\"200ms\"")],
    },
    Kind {
        name: "sample",
        role: Role::Stage,
        about: "passes on every Nth message",
        inputs: IN,
        outputs: OUT,
        fields: &[field("every", MANY, Required, "N", "10")],
    },
    Kind {
        name: "validator",
        role: Role::Stage,
        about: "passes on objects whose fields have these types",
        inputs: IN,
        outputs: &[port("out", "valid messages"), port("invalid", "invalid messages, as { value, why }")],
        fields: &[field(
            "fields",
            Table,
            Required,
            "fields and their types: number, text, flag, list, object, any; with ? the field may be missing",
            "{ celsius = \"number\", note = \"text?\" }",
        )],
    },
    Kind {
        name: "counter",
        role: Role::Stage,
        about: "counts messages",
        inputs: IN,
        outputs: &[port(
            "out",
            "the count so far, or with `reset` since the last report; with `field`, an object of counts",
        )],
        fields: &[
            field("interval", Duration, Means("1s"), "how often the count is emitted", "\"5s\""),
            field(
                "field",
                Name,
                Means("all together"),
                "count each value of this field separately, up to 1,000 values; further values are counted together as `others`, and messages without the field as `missing`; a text that is one of these words is shown in quotes",
                "\"level\"",
            ),
            field("reset", Flag, Means("the count goes on"), "start at 0 again after each report", "true"),
        ],
    },
    Kind {
        name: "head",
        role: Role::Stage,
        about: "passes on the first messages; then the nodes that feed only this one end, up to the sources",
        inputs: IN,
        outputs: OUT,
        fields: &[field("count", MANY, Required, "how many messages", "10")],
    },
    Kind {
        name: "cache",
        role: Role::Stage,
        about: "removes duplicates: passes on each key once within a time",
        inputs: IN,
        outputs: OUT,
        fields: &[
            field("key", Name, Means("the message itself"), "the field that is the key", "\"id\""),
            field("ttl", Duration, Required, "how long a key is remembered", "\"10m\""),
            field("keys", MANY, Means("100000"), "limit of remembered keys; the oldest are forgotten", "1000"),
        ],
    },
    Kind {
        name: "breaker",
        role: Role::Stage,
        about: "a circuit breaker: after several failures in a row, it rejects all messages for a while",
        inputs: IN,
        outputs: &[
            port("out", "messages that are no failures, while the breaker is closed"),
            port("rejected", "messages while the breaker is open"),
        ],
        fields: &[
            CONDITIONS[0],
            CONDITIONS[1],
            CONDITIONS[2],
            CONDITIONS[3],
            CONDITIONS[4],
            CONDITIONS[5],
            CONDITIONS[6],
            CONDITIONS[7],
            CONDITIONS[8],
            field(
                "failures",
                Whole(1, 1_000_000),
                Means("5"),
                "how many messages in a row must meet the conditions",
                "3",
            ),
            field("cool", Duration, Means("10s"), "how long the breaker stays open", "\"30s\""),
        ],
    },
    Kind {
        name: "timeout",
        role: Role::Stage,
        about: "reports when no message came for a while",
        inputs: IN,
        outputs: &[port("out", "messages"), port("late", "{ silent_ms }, once for each silence")],
        fields: &[field("after", Duration, Required, "for how long no message must come", "\"5s\"")],
    },
    Kind {
        name: "delay",
        role: Role::Stage,
        about: "delays each message; the order stays",
        inputs: IN,
        outputs: OUT,
        fields: &[field("by", Duration, Required, "how much later", "\"100ms\"")],
    },
    Kind {
        name: "correlator",
        role: Role::Stage,
        about: "pairs messages of two inputs that have the same key",
        inputs: &[port("left", "messages"), port("right", "messages")],
        outputs: &[
            port("out", "{ left, right }"),
            port("left", "left messages without a partner"),
            port("right", "right messages without a partner"),
        ],
        fields: &[
            field("key", Name, Required, "the field that is the same in both", "\"id\""),
            field("within", Duration, Means("10s"), "how long a message waits for its partner", "\"1s\""),
            field(
                "keys",
                MANY,
                Means("100000"),
                "limit of waiting messages; beyond it the oldest leave without a partner",
                "1000",
            ),
        ],
    },
    Kind {
        name: "json",
        role: Role::Stage,
        about: "parses texts as JSON",
        inputs: &[port("in", "texts")],
        outputs: OUT,
        fields: &[],
    },
    Kind {
        name: "text",
        role: Role::Stage,
        about: "writes each message as JSON on one line",
        inputs: IN,
        outputs: &[port("out", "texts")],
        fields: &[],
    },
    Kind {
        name: "print",
        role: Role::Sink,
        about: "prints each message as a line on standard output",
        inputs: IN,
        outputs: NONE,
        fields: &[FORMAT],
    },
    Kind {
        name: "write",
        role: Role::Sink,
        about: "writes each message as a line into a file",
        inputs: IN,
        outputs: NONE,
        fields: &[
            field("path", Path, Required, "the file; no other flow may write it at the same time", "\"out.jsonl\""),
            field("append", Flag, Means("the file is overwritten"), "append to the file", "true"),
            FORMAT,
        ],
    },
    Kind {
        name: "tcp-out",
        role: Role::Sink,
        about: "sends each message as a line to a TCP server",
        inputs: IN,
        outputs: NONE,
        fields: &[field("connect", Address, Required, "the address of the server", "\"127.0.0.1:7000\""), FORMAT],
    },
    Kind {
        name: "discard",
        role: Role::Sink,
        about: "takes messages and does nothing",
        inputs: IN,
        outputs: NONE,
        fields: &[],
    },
    Kind {
        name: "stop",
        role: Role::Sink,
        about: "any message ends the graph: a kill switch",
        inputs: IN,
        outputs: NONE,
        fields: &[],
    },
];
