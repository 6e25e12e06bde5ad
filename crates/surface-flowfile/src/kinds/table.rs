//! The table itself.
//!
//! Room: surface, values only.
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
/// A count without a limit of its own.
const MANY: Takes = Whole(1, 1_000_000_000);

const FORMAT: Field =
    field("format", Word(&["lines", "json"]), Means("lines"), "each line is a text, or a JSON value", "\"json\"");
const LONGEST_LINE: Field =
    field("longest_line", Whole(1, 1 << 30), Means("1048576"), "bytes of a line; a longer one is an error", "65536");
const NOT_UTF8: Field = field(
    "not_utf8",
    Word(&["error", "replace"]),
    Means("error"),
    "a line that is not UTF-8 is an error, or has U+FFFD in place of what is no text",
    "\"replace\"",
);
const FIELD: Field = field("field", Name, Means("the message itself"), "the field that is looked at", "\"celsius\"");
const NOTHING: Without = Means("not asked");

/// What a filter, a route or a breaker asks of a message.
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

/// An entry of `routes`, which has conditions besides.
pub(crate) const ROUTE: &[Field] = &[field("to", Text, Required, "the output", "\"hot\"")];

/// Fields of every node.
pub(crate) const EVERY_NODE: &[Field] = &[
    field("kind", Text, Required, "what it is", "\"filter\""),
    field(
        "on_error",
        Word(&["skip", "retry", "stop-node", "stop", "dead-letter"]),
        Means("skip"),
        "what becomes of a message it fails at, or of a line it cannot read; dead letters leave by the output `dead`",
        "\"skip\"",
    ),
    field(
        "retry",
        Table,
        Means("3 times, first after 10ms, then skip"),
        "how often, with which pause at first, and what then",
        "{ times = 3, first = \"10ms\", then = \"dead-letter\" }",
    ),
    field("tick", Duration, Means("that of the flow"), "how often it is called without a message", "\"100ms\""),
    field("batch", Whole(1, 1_000_000), Means("that of the flow"), "messages it handles in one turn", "64"),
    field(
        "band",
        Word(&["control", "high", "normal"]),
        Means("control if it feeds only control, else normal"),
        "where it has its own turns: to produce, to tick; its inputs have the `priority` of their edges",
        "\"high\"",
    ),
];

/// Every kind there is.
pub const KINDS: &[Kind] = &[
    Kind {
        name: "command",
        role: Role::Any,
        about: "a program: its standard input is `in`, its standard output is `out`; a last line without its end is a message if the program ended with code 0, else an error",
        inputs: &[port("in", "a line of its standard input each; closed when the last came")],
        outputs: &[port("out", "a line of its standard output each")],
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
            field("restart", Whole(0, 1_000_000), Means("never"), "it is started again so often if it fails", "3"),
            field("cwd", Path, Means("the folder of the file"), "where it starts", "\"tools\""),
            field("env", Table, Means("nothing"), "variables it gets besides ours", "{ LANG = \"C\" }"),
            field("grace", Duration, Means("2s"), "from the end of its input to its being killed, on a stop", "\"5s\""),
        ],
    },
    Kind {
        name: "lines",
        role: Role::Source,
        about: "the lines of a file; a last line needs no end",
        inputs: NONE,
        outputs: OUT,
        fields: &[
            field("path", Path, Required, "the file", "\"server.log\""),
            field(
                "follow",
                Flag,
                Means("it ends with the file"),
                "wait for what is appended; if the file is renamed and another takes its place, both are read, the old one for a minute; one that is cut off is read from its beginning",
                "true",
            ),
            field(
                "from",
                Word(&["start", "end"]),
                Means("start"),
                "where it begins; the end is for `follow`",
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
        about: "the lines of our own standard input; the last needs no end",
        inputs: NONE,
        outputs: OUT,
        fields: &[FORMAT, LONGEST_LINE, NOT_UTF8],
    },
    Kind {
        name: "tcp-in",
        role: Role::Source,
        about: "lines from TCP clients; the last line of a client needs no end",
        inputs: NONE,
        outputs: OUT,
        fields: &[
            field("listen", Address, Required, "where to listen", "\"127.0.0.1:7000\""),
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
            field("interval", Duration, Required, "from one to the next", "\"1s\""),
            field("emit", Word(&["count", "time"]), Means("count"), "0, 1, 2, or seconds since the start", "\"time\""),
            field("value", Any, Means("`emit`"), "the message, the same each time", "\"tick\""),
            field("count", MANY, Means("without end"), "it ends after so many", "10"),
        ],
    },
    Kind {
        name: "numbers",
        role: Role::Source,
        about: "whole numbers, for trials",
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
        about: "values written in the file, for trials",
        inputs: NONE,
        outputs: OUT,
        fields: &[
            field("list", List, Required, "the messages", "[1, \"two\", { three = 3 }]"),
            field("repeat", MANY, Means("once"), "how often the whole list", "2"),
        ],
    },
    Kind {
        name: "random-walk",
        role: Role::Source,
        about: "numbers that go up and down, for demonstrations",
        inputs: NONE,
        outputs: OUT,
        fields: &[
            field("interval", Duration, Means("as fast as they are taken"), "from one to the next", "\"50ms\""),
            field("start", Number, Means("0"), "the first", "20"),
            field("step", Number, Means("1"), "how far one is from the next at most", "0.5"),
            field("seed", Whole(0, i64::MAX), Means("1"), "the same seed gives the same walk", "42"),
            field("as", Name, Means("a plain number"), "the field of an object it is in", "\"celsius\""),
            field("count", MANY, Means("without end"), "it ends after so many", "1000"),
        ],
    },
    Kind {
        name: "map",
        role: Role::Stage,
        about: "changes each message: parse, then rename, pick, drop, scale, offset, set, format",
        inputs: IN,
        outputs: OUT,
        fields: &[
            field("parse", Word(&["json", "number"]), Means("as it is"), "what the text is read as", "\"json\""),
            field("rename", Table, Means("none"), "fields and their new names", "{ temp = \"celsius\" }"),
            field("pick", Texts, Means("all"), "fields that stay", "[\"celsius\", \"at\"]"),
            field("drop", Texts, Means("none"), "fields that go", "[\"raw\"]"),
            field(
                "field",
                Name,
                Means("the message itself"),
                "what `parse`, `scale` and `offset` change",
                "\"celsius\"",
            ),
            field("scale", Number, Means("1"), "the number times this", "1.8"),
            field("offset", Number, Means("0"), "and then plus this", "32"),
            field("set", Table, Means("none"), "fields and their values", "{ unit = \"F\" }"),
            field(
                "format",
                Text,
                Means("as it is"),
                "a text with {field} in it, or {} for all",
                "\"{name}: {celsius}\"",
            ),
        ],
    },
    Kind {
        name: "filter",
        role: Role::Stage,
        about: "lets through what meets all its conditions",
        inputs: IN,
        outputs: OUT,
        fields: CONDITIONS,
    },
    Kind {
        name: "router",
        role: Role::Stage,
        about: "sends each message to the first route whose conditions it meets",
        inputs: IN,
        outputs: &[port("NAME", "a route by its name"), port("else", "what no route takes")],
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
        about: "deals messages out to its outputs in turn",
        inputs: IN,
        outputs: &[port("0, 1, …", "every so manieth message")],
        fields: &[field("outputs", Whole(2, 256), Required, "how many", "4")],
    },
    Kind {
        name: "merger",
        role: Role::Stage,
        about: "all messages of several edges, as they come",
        inputs: IN,
        outputs: OUT,
        fields: &[],
    },
    Kind {
        name: "batcher",
        role: Role::Stage,
        about: "lists of messages",
        inputs: IN,
        outputs: &[port("out", "a list each")],
        fields: &[
            field("size", Whole(1, 1_000_000), Required, "messages in a list", "100"),
            field("within", Duration, Means("until it is full"), "a list waits no longer than this", "\"1s\""),
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
            field("slide", Any, Means("a new window: tumbling"), "messages, or time, from one window to the next", "1"),
            field(
                "aggregate",
                Word(&["count", "sum", "mean", "min", "max", "last", "list"]),
                Means("list"),
                "what becomes of the messages of a window",
                "\"mean\"",
            ),
            FIELD,
            field(
                "key",
                Name,
                Means("one for all"),
                "a window for each value of this field: { key, value }",
                "\"path\"",
            ),
            field(
                "keys",
                Whole(1, 1_000_000),
                Means("100000"),
                "keys at most; for another, the oldest is told early",
                "1000",
            ),
        ],
    },
    Kind {
        name: "throttle",
        role: Role::Stage,
        about: "no more messages a second than this; the others wait",
        inputs: IN,
        outputs: OUT,
        fields: &[
            field("rate", Number, Required, "messages a second", "100"),
            field("burst", MANY, Means("1"), "messages at once after a pause", "10"),
        ],
    },
    Kind {
        name: "debounce",
        role: Role::Stage,
        about: "the last message when no other came for a while",
        inputs: IN,
        outputs: OUT,
        fields: &[field("quiet", Duration, Required, "how long", "\"200ms\"")],
    },
    Kind {
        name: "sample",
        role: Role::Stage,
        about: "one of so many messages",
        inputs: IN,
        outputs: OUT,
        fields: &[field("every", MANY, Required, "of how many", "10")],
    },
    Kind {
        name: "validator",
        role: Role::Stage,
        about: "lets through objects whose fields have these types",
        inputs: IN,
        outputs: &[port("out", "good ones"), port("invalid", "the others, as { value, why }")],
        fields: &[field(
            "fields",
            Table,
            Required,
            "fields and their types: number, text, flag, list, object, any; with ? it may be missing",
            "{ celsius = \"number\", note = \"text?\" }",
        )],
    },
    Kind {
        name: "counter",
        role: Role::Stage,
        about: "how many messages came so far",
        inputs: IN,
        outputs: &[port(
            "out",
            "the number so far, or with `reset` since the last; with `field`, an object of numbers",
        )],
        fields: &[
            field("interval", Duration, Means("1s"), "how often it tells", "\"5s\""),
            field(
                "field",
                Name,
                Means("all together"),
                "count each value of this field by itself, the first 1,000 of them; the rest together as `others`, and messages without the field as `missing`; a text that is one of these words is shown with its quotes",
                "\"level\"",
            ),
            field("reset", Flag, Means("it goes on"), "begin at 0 again after each time it told", "true"),
        ],
    },
    Kind {
        name: "head",
        role: Role::Stage,
        about: "the first messages; then what feeds only it ends, up to the sources",
        inputs: IN,
        outputs: OUT,
        fields: &[field("count", MANY, Required, "how many", "10")],
    },
    Kind {
        name: "cache",
        role: Role::Stage,
        about: "lets each key through once in a while",
        inputs: IN,
        outputs: OUT,
        fields: &[
            field("key", Name, Means("the message itself"), "the field that is the key", "\"id\""),
            field("ttl", Duration, Required, "how long a key is remembered", "\"10m\""),
            field("keys", MANY, Means("100000"), "keys remembered at most; the oldest go", "1000"),
        ],
    },
    Kind {
        name: "breaker",
        role: Role::Stage,
        about: "after so many failures in a row lets nothing through for a while",
        inputs: IN,
        outputs: &[
            port("out", "messages while it is closed, without failures"),
            port("rejected", "messages while it is open"),
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
            field("failures", Whole(1, 1_000_000), Means("5"), "messages that meet the conditions, in a row", "3"),
            field("cool", Duration, Means("10s"), "how long it stays open", "\"30s\""),
        ],
    },
    Kind {
        name: "timeout",
        role: Role::Stage,
        about: "tells when no message came for a while",
        inputs: IN,
        outputs: &[port("out", "messages"), port("late", "{ silent_ms }, once for each silence")],
        fields: &[field("after", Duration, Required, "how long", "\"5s\"")],
    },
    Kind {
        name: "delay",
        role: Role::Stage,
        about: "each message later, in order",
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
            port("left", "what found no right one"),
            port("right", "what found no left one"),
        ],
        fields: &[
            field("key", Name, Required, "the field that is the same in both", "\"id\""),
            field("within", Duration, Means("10s"), "how long one waits for the other", "\"1s\""),
            field("keys", MANY, Means("100000"), "messages that wait at most; the oldest go", "1000"),
        ],
    },
    Kind {
        name: "json",
        role: Role::Stage,
        about: "texts to what they say in JSON",
        inputs: &[port("in", "texts")],
        outputs: OUT,
        fields: &[],
    },
    Kind {
        name: "text",
        role: Role::Stage,
        about: "messages to JSON in one line",
        inputs: IN,
        outputs: &[port("out", "texts")],
        fields: &[],
    },
    Kind {
        name: "print",
        role: Role::Sink,
        about: "a line of our standard output for each message",
        inputs: IN,
        outputs: NONE,
        fields: &[FORMAT],
    },
    Kind {
        name: "write",
        role: Role::Sink,
        about: "a line of a file for each message",
        inputs: IN,
        outputs: NONE,
        fields: &[
            field("path", Path, Required, "the file; no other flow may write it at the same time", "\"out.jsonl\""),
            field("append", Flag, Means("the file is made anew"), "keep what is there", "true"),
            FORMAT,
        ],
    },
    Kind {
        name: "tcp-out",
        role: Role::Sink,
        about: "a line to a server for each message",
        inputs: IN,
        outputs: NONE,
        fields: &[field("connect", Address, Required, "who listens", "\"127.0.0.1:7000\""), FORMAT],
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
