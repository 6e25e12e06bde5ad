//! Help texts with examples of every command, all of which parse.
//!
//! Room: surface.
//!
//! Checked by `every_example_of_the_help_is_understood`.

/// The help of `bursar` itself.
pub(crate) const TOP: &str = "\
Examples:
  bursar run render.toml           run the jobs of a file, as many at once as fit
  bursar run --ram 4GB -- make -j4   run one command, when 4 GB are free
  bursar run --resume              continue a run that was interrupted
  bursar check render.toml         check a file, and show its graph
  bursar ps                        show what is running now
  bursar why image[8]              explain what a job waits for, and when it may start
  bursar logs -f compose           follow the log of a job
  bursar pause r-7f3a              pause a run, and release its CPUs
  bursar resume r-7f3a             resume it
  bursar report latest             write an HTML report of the newest run
  bursar flow run sensors.toml     run a dataflow graph, and watch it
  bursar exec miner.jan --ops 1000000   run a Janus program under a budget
  bursar policy serve policy.toml  publish profiles of CPU time to running programs
  bursar sim hogs.toml --compare   simulate threads on CPUs under several policies

A run is named by its id (r-7f3a), the beginning of its id, or `latest`. A job is named as in the file \
(compose, image[8]; in zsh with quotes: 'image[8]'); without a run, it is a job of an active run. \
Runs are kept in $BURSAR_STATE_DIR, else $XDG_STATE_HOME/bursar, else ~/.local/state/bursar.

Exit codes:
  0    success
  1    a job failed, or another error; the last line of stderr says what, and what to do
  2    the arguments are not valid
  3    the job file is not valid; its problems are shown
  4    there is no such run or job
  130  interrupted by Ctrl-C";

pub(crate) const PS: &str = "\
Examples:
  bursar ps                        active runs, with their running and waiting jobs
  bursar ps --all                  also jobs that have ended
  bursar ps --json | jq '.[].id'   for scripts";

pub(crate) const WHY: &str = "\
Examples:
  bursar why image[8]              a job, in the newest run that has it
  bursar why image                 every job of a group
  bursar why image[8] --run r-7f3a

An active run answers itself: which resource is short, which jobs hold it and for how long, \
and which jobs come first. For a run that has ended, the journal says how the job ended.";

pub(crate) const PAUSE: &str = "\
Examples:
  bursar pause                     the only active run
  bursar pause r-7f3a              that run
  bursar pause image[8]            one job
  bursar pause r-7f3a image        every job of a group, in that run
  bursar pause storyboard --subtree   a job and all jobs that need it

It returns when everything is paused. A paused job releases its CPU slots and keeps its memory.";

pub(crate) const RESUME: &str = "\
Examples:
  bursar resume r-7f3a             that run
  bursar resume image[8]           one job

Jobs continue as soon as their CPU slots are free. To continue a run whose process is gone, use `bursar run --resume`.";

pub(crate) const CANCEL: &str = "\
Examples:
  bursar cancel r-7f3a             that run
  bursar cancel image[8]           one job, and all jobs that need it
  bursar cancel image[8] --now     kill it at once

It returns when all of its processes have ended.";

pub(crate) const RETRY: &str = "\
Examples:
  bursar retry image[3]            a failed job, and what was cancelled because of it
  bursar retry r-7f3a              all failed jobs of an active run

For a run that has ended: bursar run --resume RUN --retry-failed";

pub(crate) const LOGS: &str = "\
Examples:
  bursar logs compose              a job, in the newest run that has it
  bursar logs -f image[8]          follow until it ends; exit code 1 if it fails
  bursar logs -n 20 image[8]       the last 20 lines
  bursar logs image[8] --attempt 1 --run r-7f3a
  bursar logs compose --path       print the path of the log";

pub(crate) const CHECK: &str = "\
Examples:
  bursar check render.toml         its problems with their lines, or its graph
  bursar check render.toml --json

Exit code 3 if the file is not valid.";

pub(crate) const GRAPH: &str = "\
Examples:
  bursar graph render.toml | dot -Tpdf -o graph.pdf
  bursar graph render.toml -o graph.svg
  bursar graph r-7f3a --text       the plan of a run, for the terminal";

pub(crate) const REPORT: &str = "\
Examples:
  bursar report                    the newest run, into bursar-RUN.html
  bursar report r-7f3a -o run.html

One self-contained file: failures, timeline, critical path, use of resources.";

pub(crate) const RUNS: &str = "\
Examples:
  bursar runs                      the newest 20 runs
  bursar runs --status interrupted   runs that `bursar run --resume` can continue
  bursar runs -n 100 --json";

pub(crate) const SHOW: &str = "\
Examples:
  bursar show                      the newest run: its jobs, their results and resources
  bursar show r-7f3a --failed
  bursar show latest --json";

pub(crate) const PRUNE: &str = "\
Examples:
  bursar prune --older 30d                   remove runs that ended more than 30 days ago
  bursar prune --keep 100 --dry-run          print what would be removed to keep the newest 100
  bursar prune --size 2GB --logs             remove the oldest logs until they take at most 2 GB

With several rules a run is removed if one of them chooses it. Runs that are active, can be resumed, or have running jobs are kept.
Records of up-to-date outputs, and estimates from earlier successes, are kept.";

pub(crate) const SIM: &str = "\
Examples:
  bursar sim hogs.toml             simulate the threads of a file: shares, waits, a timeline
  bursar sim hogs.toml --compare   the same workload under EEVDF, fair queueing and round robin
  bursar sim hogs.toml --policy eevdf,rr --cpus 2 --for 5s
  bursar sim hogs.toml --window 200ms..300ms --svg timeline.svg
  bursar sim hogs.toml --seed 7 --json

A small workload:
  cpus = 1
  [thread.hog]
  count = 2
  does = [\"run 50ms\"]                  again and again
  [thread.sleeper]
  weight = 2048                          twice the share of a hog
  does = [\"run 200us\", \"sleep 1ms..20ms\"]

Time is virtual, and the seed decides what is random: the same command gives the same run. A thread WAITS from the event that wakes it until it has a CPU. \
Policies: eevdf (earliest eligible virtual deadline), wfq (start-time fair queueing: weights, no deadlines), rr (round robin: no weights). Threads with a \
context have their time first, under each policy. Laws of the scheduler are checked at every event; one that breaks ends the run with exit code 1, its seed, \
and the command that shows it again. `bursar help simfile` lists all keys; two examples are in examples/sim-hog.toml and examples/sim-audio.toml.";

pub(crate) const COMPLETIONS: &str = "\
Examples:
  bursar completions bash          save as ~/.local/share/bash-completion/completions/bursar
  bursar completions zsh           save as _bursar in a folder of $fpath
  bursar completions fish          save as ~/.config/fish/completions/bursar.fish";

pub(crate) const MAN: &str = "\
Examples:
  bursar man | man -l -            of `bursar` itself
  bursar man flow run | man -l -   of a command
  bursar man --all ~/.local/share/man/man1   all of them, where `man bursar-run` finds them";

pub(crate) const HELP: &str = "\
Examples:
  bursar help run                  the help of a command
  bursar help jobfile              all keys of job files: meaning, values and defaults
  bursar help flowfile             the same for flow files, with all kinds of nodes
  bursar help policyfile           the same for policy files
  bursar help simfile              the same for workload files of `bursar sim`
  bursar help jobfile --json       as JSON Schema, for completion and checks in editors
  bursar help jobfile --markdown   as Markdown
  bursar help events               the events of `run --json`, `flow run --json` and sockets";
