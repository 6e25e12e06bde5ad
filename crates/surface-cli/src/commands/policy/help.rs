//! Help texts of `bursar policy`, with examples.
//!
//! Room: surface.
//!
//! Checked by `every_example_of_the_help_is_understood`.

pub(super) const POLICY: &str = "\
Examples:
  bursar policy check policy.toml          check a file
  bursar policy explain policy.toml --for service:mixer-1   who gets what, and why
  bursar policy explain policy.toml --hint batch
  bursar policy serve policy.toml          publish it, and every change of it
  bursar policy status                     the epoch in force, and what programs took
  bursar policy log                        what was accepted and refused, and why

A policy is a file of profiles (weight, slice, reserved time, CPUs), hints and rules; `bursar help policyfile` has every key. \
A service publishes it under a growing number, an epoch. Programs listen by `bursar::policy::PolicyClient`, check every epoch themselves, and keep the last \
good one if the service dies, hangs or sends something wrong.

Exit codes:
  0    success
  1    another error
  2    the arguments are not valid
  3    the policy file is not valid; its problems are shown
  4    no service listens
  130  interrupted by Ctrl-C";

pub(super) const CHECK: &str = "\
Examples:
  bursar policy check policy.toml          all problems, with their lines
  bursar policy check policy.toml --cpus 64   for another machine
  bursar policy check policy.toml --json | jq .problems

Profiles that nothing leads to, and rules that never decide, are warnings. Exit code 3 if the file is not valid.";

pub(super) const EXPLAIN: &str = "\
Examples:
  bursar policy explain policy.toml --for service:mixer-1
  bursar policy explain policy.toml --for nightly-backup
  bursar policy explain policy.toml --hint latency-sensitive --json

A name gets the profile of the first rule that matches; else the profile of that name; else the default. A name may say whose it is: `service:`, `account:` or \
`session:`. It also says whether this machine can promise the time that the profile reserves, beside all others of the file.";

pub(super) const SERVE: &str = "\
Examples:
  bursar policy serve policy.toml
  bursar policy serve policy.toml --socket /run/user/1000/policy.sock
  bursar policy serve policy.toml --after 41   when programs have epoch 41 in force and refuse smaller numbers

It runs until it is ended. When the file changes, the new policy is the next epoch; a file with a problem is reported and changes nothing. SIGHUP \
looks at the file at once. Numbers continue after a restart: the last one is in PATH.epoch, beside the socket.

Exit codes:
  0    ended by SIGTERM
  3    the policy file is not valid; its problems are shown
  130  interrupted by Ctrl-C";

pub(super) const STATUS: &str = "\
Examples:
  bursar policy status
  bursar policy status --socket /run/user/1000/policy.sock
  bursar policy status --json | jq .epoch

Programs say what they decided as long as the service is there. What a program decides while it is not, it says when a service is there again. Exit code 4 if no service listens.";

pub(super) const LOG: &str = "\
Examples:
  bursar policy log                        the newest 50 decisions
  bursar policy log -n 1000 --json | jq 'select(.verdict == \"refused\")'

The log is beside the socket, in PATH.log, and can be read when the service is not there. It keeps the newest megabytes.";
