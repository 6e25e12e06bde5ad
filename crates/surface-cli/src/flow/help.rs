//! Help texts of `bursar flow`, with examples.
//!
//! Room: surface.
//!
//! Checked by `every_example_of_the_help_is_understood`.

pub(crate) const FLOW: &str = "\
Examples:
  bursar flow run sensors.toml             run the graph of a file, and watch it
  bursar flow check sensors.toml           check a file, and show its graph
  bursar flow graph sensors.toml -o sensors.svg
  bursar flow kinds                        list the kinds of nodes
  bursar flow ps                           list active flows
  bursar flow set imu,log capacity=512     change an edge of a live flow
  bursar flow why imu                      explain what a node waits for

A flow is named by its id (f-7f3a) or the beginning of its id; without one, the only active flow is meant. An edge is called \
imu:out->filter:in, which needs quotes in a shell; imu:out,filter:in, imu,filter or any part that only one edge has works, too.

Exit codes:
  0    success
  1    a node failed and stopped the flow, or another error
  2    the arguments are not valid
  3    the flow file is not valid; its problems are shown
  4    there is no such flow, node, edge, kind or part
  8    the broker of an edge cannot be used: it is away, refuses the login, or does not keep the stream
  9    another process runs our part: it sends to the edge, or receives from it
  130  interrupted by Ctrl-C";

pub(crate) const RUN: &str = "\
Examples:
  bursar flow run sensors.toml             with a live table and keys; press ? for help
  bursar flow run sensors.toml --workers 2   run up to two nodes at the same time
  bursar flow run sensors.toml --for 10s   drain and end after ten seconds
  bursar flow run fleet.toml --part robot  the nodes of `[part.robot]`; others run the other parts
  bursar flow run clean.toml --plain       events on stderr; stdout has what nodes print
  bursar flow run sensors.toml --json | jq .event

It ends when all sources have ended and everything is delivered. Ctrl-C once drains: messages on their way are delivered, for at most the \
`drain` time of the file (5 s); twice stops at once. Keys on a terminal: k stops at once, q drains, space pauses all sources, \
up and down select an edge, + and - double and halve its capacity, p gives it the next band.

The last line counts what happened to every message that was put on an edge, once for each edge on its way, so the numbers add up: \
`delivered` to a node that took it; `lost`, `failed`, `not wanted`; `dropped`, `replaced by newer` or `merged` by a full edge, or dropped because its target \
had ended; `left behind` on an edge when the flow was stopped. `--json` has them in `flow_ended`, with their sum, `put`. Errors, and messages to outputs without an \
edge, are counted separately.
`failed`: a node failed at the message and gave up, or made it a dead letter, which is another message. `lost`: a node took the message and could not finish it: a program \
failed before it read it and is not restarted (`restart`), a `delay`, a program or a connection still held it when the flow was stopped, or it could not \
be written. `not wanted`: a program that ended successfully had not read it, as with `head`. If a message is lost, the exit code is not 0. Messages that failed and \
were skipped, as `on_error` says, do not change the exit code, unless a node failed at every message it got and made no dead letters. What a \
program has read into its own memory before it fails counts as delivered.

Exit codes:
  0    all sources ended, or the flow was asked to stop, and everything was delivered, but for what policies of the file leave out: `on_error`, full edges
  1    a node failed for good, or at every message it got; messages were lost, or the drain timeout expired
  3    the flow file is not valid; its problems are shown
  4    the file has no such part
  8    the broker of an edge cannot be used: it is away, refuses the login, or does not keep the stream; nothing was started
  9    another process runs our part: it sends to the edge, or receives from it; nothing was started
  130  interrupted by Ctrl-C, or stopped at once; 143 by SIGTERM, 129 by SIGHUP";

pub(crate) const CHECK: &str = "\
Examples:
  bursar flow check sensors.toml           its problems with their lines, or its graph
  bursar flow check sensors.toml --json

Exit code 3 if the file is not valid.";

pub(crate) const GRAPH: &str = "\
Examples:
  bursar flow graph sensors.toml | dot -Tpdf -o graph.pdf
  bursar flow graph sensors.toml -o graph.svg
  bursar flow graph sensors.toml --text    for the terminal";

pub(crate) const KINDS: &str = "\
Examples:
  bursar flow kinds                        all kinds, a line each
  bursar flow kinds window                 its ports and fields
  bursar flow kinds --json | jq '.[].name'";

pub(crate) const PS: &str = "\
Examples:
  bursar flow ps
  bursar flow ps --json | jq '.[].flow'";

pub(crate) const STATS: &str = "\
Examples:
  bursar flow stats                        depth, rates and losses of edges, latency and errors of nodes
  bursar flow stats f-7f3a --json
  bursar flow stats --prometheus           for a collector";

pub(crate) const WHY: &str = "\
Examples:
  bursar flow why imu                      a node: for messages, for room on a full edge, for its next retry…
  bursar flow why f-7f3a imu,log           the target of an edge";

pub(crate) const SET: &str = "\
Examples:
  bursar flow set imu,log capacity=512     how many messages may wait on the edge
  bursar flow set 'imu:out->log:in' priority=high
  bursar flow set imu:out,log:in capacity=64   the same edge, without quotes
  bursar flow set f-7f3a lidar capacity=8 priority=0   the edge with `lidar` in its name

On an edge that blocks, a smaller capacity loses no messages: it accepts no more until it is below. The policy of an edge cannot be changed \
while the flow runs.";

pub(crate) const PAUSE: &str = "\
Examples:
  bursar flow pause imu                    its messages wait
  bursar flow pause f-7f3a imu";

pub(crate) const RESUME: &str = "\
Examples:
  bursar flow resume imu";

pub(crate) const STOP: &str = "\
Examples:
  bursar flow stop                         deliver messages on their way, then end
  bursar flow stop f-7f3a --now            end at once

It returns when the flow has ended, and prints how many messages were lost or left behind. Its exit code is 0 even then; that of `flow run` is not.";
