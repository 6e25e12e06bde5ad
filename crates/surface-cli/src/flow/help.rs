//! The help that teaches flows by example.
//!
//! Checked by `every_example_of_the_help_is_understood`.

pub(crate) const FLOW: &str = "\
Examples:
  bursar flow run sensors.toml             run the graph of a file, and watch it
  bursar flow check sensors.toml           is the file right? what would run?
  bursar flow graph sensors.toml -o sensors.svg
  bursar flow kinds                        what nodes there are
  bursar flow ps                           flows that go on
  bursar flow set imu,log capacity=512     change an edge of a live flow
  bursar flow why imu                      what a node waits for

A flow is named by its id (f-7f3a) or the beginning of it; without one, it is the only one that goes on. An edge is called \
imu:out->filter:in, which a shell wants in quotes; imu:out,filter:in, imu,filter or any part that only one edge has will do.

Exit codes:
  0    everything went as it should
  1    a node stopped the flow because it failed, or something broke
  2    the arguments make no sense
  3    the flow file is not valid; its lines are shown
  4    there is no such flow, node, edge or kind
  130  interrupted by Ctrl-C";

pub(crate) const RUN: &str = "\
Examples:
  bursar flow run sensors.toml             with a live table, and keys to steer it: press ? to see them
  bursar flow run sensors.toml --workers 2   independent nodes at the same time
  bursar flow run sensors.toml --for 10s   drain and end after ten seconds
  bursar flow run clean.toml --plain       lines about the flow on stderr; stdout has what nodes print
  bursar flow run sensors.toml --json | jq .event

It ends when all sources have ended and everything is delivered. Ctrl-C once delivers what is on its way, for at most the \
`drain` of the file (5 s); twice stops at once. On a terminal, keys: k stops at once, q drains, space pauses all sources, \
up and down choose an edge, + and - double and halve its capacity, p gives it the next band.

The last line counts what became of every message that was put on an edge, so its numbers add up to what the sources gave, once for each edge on the way: \
`delivered` to a node that took it; `lost`, `failed`, `not wanted`; `dropped`, `replaced by newer` or `merged` by a full edge, or dropped because the node \
behind it was over; `left behind` on an edge when the flow was stopped. `--json` has them in `totals`, with their sum, `put`. Errors are counted by themselves, \
and so is what went to outputs without an edge. `failed` is what a node failed at and gave up, or made a dead letter, which is another message. `lost` is what a node took and could not finish with: what a program that failed had not \
read, unless it is started again (`restart`) and gets it; what a `delay`, a program or a connection still had when the flow was stopped; what could \
not be written. `not wanted` is what a program that ended well had not read, as with `head`. If anything is lost, the exit code is not 0. What a \
program read ahead into its own memory before it failed counts as delivered: a pipe does not tell.

Exit codes:
  0    all sources ended, or somebody wanted it to end, and everything was delivered
  1    a node failed for good, as a program that ends with another code than 0, or its policy stops the flow; or messages were lost; or the time to drain was over
  3    the flow file is not valid; its lines are shown
  130  interrupted by Ctrl-C, or stopped at once; 143 by SIGTERM, 129 by SIGHUP";

pub(crate) const CHECK: &str = "\
Examples:
  bursar flow check sensors.toml           its problems with their lines, or its nodes and edges
  bursar flow check sensors.toml --json

Exit code 3 if the file is not valid.";

pub(crate) const GRAPH: &str = "\
Examples:
  bursar flow graph sensors.toml | dot -Tpdf -o graph.pdf
  bursar flow graph sensors.toml -o graph.svg
  bursar flow graph sensors.toml --text    for the terminal";

pub(crate) const KINDS: &str = "\
Examples:
  bursar flow kinds                        all of them, a line each
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
  bursar flow why imu                      for messages, for room on a full edge, for its next try…
  bursar flow why f-7f3a imu,log           what the target of an edge waits for";

pub(crate) const SET: &str = "\
Examples:
  bursar flow set imu,log capacity=512     how many messages may wait
  bursar flow set 'imu:out->log:in' priority=high
  bursar flow set f-7f3a lidar capacity=8 priority=0   the one edge with `lidar` in its name, of that flow

A smaller capacity loses nothing on an edge that blocks: it takes no more until it is below. The policy of an edge cannot be changed \
while the flow runs.";

pub(crate) const PAUSE: &str = "\
Examples:
  bursar flow pause imu                    it stands still; what waits for it keeps waiting
  bursar flow pause f-7f3a imu";

pub(crate) const RESUME: &str = "\
Examples:
  bursar flow resume imu";

pub(crate) const STOP: &str = "\
Examples:
  bursar flow stop                         deliver what is on its way, then end
  bursar flow stop f-7f3a --now            end at once

It returns when the flow is over, and says how many messages were lost, or left behind. Its exit code is 0 all the same; that of `flow run` is not.";
