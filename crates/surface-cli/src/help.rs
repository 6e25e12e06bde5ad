//! The help that teaches: examples of every command, all of which parse.
//!
//! Checked by `every_example_of_the_help_is_understood`.

/// Of `bursar` itself.
pub(crate) const TOP: &str = "\
Examples:
  bursar run render.toml           run the jobs of a file, as many at once as fit
  bursar run --ram 4GB -- make -j4   run one command, when 4 GB are free
  bursar run --resume              go on with a run that was interrupted
  bursar check render.toml         is the file right? what would run, and in which order?
  bursar ps                        what is running now
  bursar why image[8]              what a job waits for, who holds it, when it may start
  bursar logs -f compose           what a job prints, as it prints it
  bursar pause r-7f3a              freeze a run and give back its CPUs
  bursar resume r-7f3a             let it go on
  bursar report latest             the newest run as one HTML file
  bursar flow run sensors.toml     run a graph of nodes that pass messages, and watch it

A run is named by its id (r-7f3a), the beginning of its id, or `latest`. A job is named as in the file \
(compose, image[8]; zsh wants quotes round it: 'image[8]'); without a run, it is one of a run that goes on. \
Runs are kept in $BURSAR_STATE_DIR, else $XDG_STATE_HOME/bursar, else ~/.local/state/bursar.

Exit codes:
  0    everything went as it should
  1    a job failed, or something broke; the last line of stderr says what, and what to do
  2    the arguments make no sense
  3    the job file is not valid; its lines are shown
  4    there is no such run or job
  130  interrupted by Ctrl-C";

pub(crate) const PS: &str = "\
Examples:
  bursar ps                        the runs that go on, with what runs and waits in them
  bursar ps --all                  also their jobs that have ended
  bursar ps --json | jq '.[].id'   for scripts";

pub(crate) const WHY: &str = "\
Examples:
  bursar why image[8]              of the newest run that has it
  bursar why image                 of every job of the group
  bursar why image[8] --run r-7f3a

While the run goes on it answers itself, from what it decides by: what is short, who holds it and for how long, \
who comes first. Of a run that has ended, the journal tells how the job ended.";

pub(crate) const PAUSE: &str = "\
Examples:
  bursar pause                     the run that goes on
  bursar pause r-7f3a              that run
  bursar pause image[8]            one job
  bursar pause r-7f3a image        every job of a group, in that run
  bursar pause storyboard --subtree   a job and what needs it

It returns when everything stands still. A paused job gives back its CPU slots and keeps its memory.";

pub(crate) const RESUME: &str = "\
Examples:
  bursar resume r-7f3a             that run
  bursar resume image[8]           one job

What was running goes on as soon as its CPU slots are free. To continue a run whose process is gone, use `bursar run --resume`.";

pub(crate) const CANCEL: &str = "\
Examples:
  bursar cancel r-7f3a             that run
  bursar cancel image[8]           one job; what needs it is cancelled with it
  bursar cancel image[8] --now     kill it, without asking first

It returns when everything has ended, with all the processes it started.";

pub(crate) const RETRY: &str = "\
Examples:
  bursar retry image[3]            a job that failed, and what was cancelled because of it
  bursar retry r-7f3a              every failed job of a run that goes on

For a run that has ended: bursar run --resume RUN --retry-failed";

pub(crate) const LOGS: &str = "\
Examples:
  bursar logs compose              of the newest run that has it
  bursar logs -f image[8]          until it ends; exit code 1 if it does not end well
  bursar logs -n 20 image[8]       the last 20 lines
  bursar logs image[8] --attempt 1 --run r-7f3a
  bursar logs compose --path       where the file is";

pub(crate) const CHECK: &str = "\
Examples:
  bursar check render.toml         its problems with their lines, or a drawing of its jobs
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

One file without a network: timeline, critical path, use of resources, failures first.";

pub(crate) const RUNS: &str = "\
Examples:
  bursar runs                      the newest twenty
  bursar runs --status interrupted   what `bursar run --resume` could go on with
  bursar runs -n 100 --json";

pub(crate) const SHOW: &str = "\
Examples:
  bursar show                      the newest run: its jobs, how they ended, what they took
  bursar show r-7f3a --failed
  bursar show latest --json";

pub(crate) const PRUNE: &str = "\
Examples:
  bursar prune --older 30d                   forget runs that ended more than 30 days ago
  bursar prune --keep 100 --dry-run          what would go if only the newest 100 stayed
  bursar prune --size 2GB --logs             the oldest logs, until all logs take no more than 2 GB

With several rules a run goes if one of them says so. Runs that go on, that could be resumed, or whose jobs still run stay.
What is up to date, and what earlier successes needed, stays known.";

pub(crate) const COMPLETIONS: &str = "\
Examples:
  bursar completions bash          put it into ~/.local/share/bash-completion/completions/bursar
  bursar completions zsh           put it into a file _bursar in a folder of $fpath
  bursar completions fish          put it into ~/.config/fish/completions/bursar.fish";

pub(crate) const MAN: &str = "\
Examples:
  bursar man | man -l -            of `bursar` itself
  bursar man flow run | man -l -   of a command
  bursar man --all ~/.local/share/man/man1   all of them, where `man bursar-run` finds them";

pub(crate) const HELP: &str = "\
Examples:
  bursar help run                  of a command
  bursar help jobfile              every key of a job file: what it takes, means and is without
  bursar help flowfile             the same of a flow file, with all kinds of nodes
  bursar help jobfile --json       as JSON Schema: editors complete and check job files with it
  bursar help jobfile --markdown   as a page
  bursar help events               what `run --json` and `flow run --json` print, and who subscribes gets";
