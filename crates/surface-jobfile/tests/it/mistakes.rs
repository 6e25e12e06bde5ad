//! What is said about wrong files: the place, the value, the limit, and what to write instead.

use surface_jobfile::{Limits, parse, parse_with};

use crate::problems;

/// A test for each mistake: a file, and all that is said about it.
macro_rules! mistakes {
    ($($name:ident: $file:literal => $said:literal;)*) => {
        $(
            #[test]
            fn $name() {
                assert_eq!(problems($file).to_string(), $said);
            }
        )*
    };
}

mistakes! {
    every_problem_is_reported_in_the_order_of_the_file:
        "[resources]\ncpu = 2\n[job.a]\nrun = 'true'\nram = 'much'\ncpu = 3\nneeds = ['x']\n[job.b]\nforeach = { x = 'y' }\n[job.c]\nrun = 'true'\nfoo = 1"
        => "test.toml:5:7: `ram` is 'much', which is not a size: its unit is none of B, KB, MB, GB, TB, KiB, MiB, GiB, TiB; write \"512 MB\", \"1.5 GiB\", or a plain number of MB\ntest.toml:6:7: job `a` wants 3 cpu, and [resources] has 2; lower it, or write `cpu = 3` under [resources]\ntest.toml:7:10: job `a` needs `x`, and there is no such job; write `[job.x]`, or remove it from `needs`\ntest.toml:8:6: job `b` has nothing to do; write `run = \"…\"` for a shell line, or `command = [\"…\"]`\ntest.toml:9:17: 'y' is not a range; write a range \"1..8\", a list [\"a\", \"b\"], or files \"glob:*.png\"\ntest.toml:12:1: `foo` is not a field of a job; if it is a resource, say how much there is: `foo = 1` under [resources]";
    what_is_for_a_program_needs_one:
        "[job.a]\nrun = 'true'\nops = 5\nargs = [1]"
        => "test.toml:3:7: job `a` has `ops`, which is for a Janus program; write `exec = \"step.jan\"` instead of what it runs, or remove it\ntest.toml:4:8: job `a` has `args`, which is for a Janus program; write `exec = \"step.jan\"` instead of what it runs, or remove it";
    a_place_that_is_none_is_named:
        "[run]\non = 'cloud'\n[job.a]\nrun = 'true'"
        => "test.toml:2:6: `on` takes \"local\" or \"slurm\", not 'cloud'; write `on = \"slurm\"`";
    a_field_that_slurm_has_not_is_compared_with_those_it_has:
        "[slurm]\npartitoin = 'gpu'\n[job.a]\nrun = 'true'"
        => "test.toml:2:1: `partitoin` is not a field of [slurm]; did you mean `partition`?";
    video_memory_has_one_of_two_names_in_slurm:
        "[slurm]\nvram = 'shard'\n[job.a]\nrun = 'true'"
        => "test.toml:2:8: `vram` is `shard`, which names no resource of Slurm; write \"gres:vram\" for a generic resource that counts MiB, or \"gpu\" for whole graphics cards";
    slurmrestd_has_an_address_of_one_of_two_kinds:
        "[slurm]\nrest = 'host:6820'\n[job.a]\nrun = 'true'"
        => "test.toml:2:8: `rest` is `host:6820`, which is no address of slurmrestd; write \"unix:/PATH\" with the path of its socket, or \"http://HOST:PORT\"";
    a_resource_of_slurm_is_a_licence_or_generic:
        "[slurm]\nresources = { oven = 'oven' }\n[job.a]\nrun = 'true'"
        => "test.toml:2:22: `oven` names no resource of Slurm; write `oven = \"license:NAME\"` or `oven = \"gres:NAME\"`";
    arguments_of_a_program_are_scalars:
        "[job.a]\nexec = 'a.jan'\nargs = [[1]]"
        => "test.toml:3:9: `args` takes a list of numbers, true and false, not the list `[1]`; write `args = [20, true, \"{job}\"]`";
    an_empty_file_shows_the_smallest_one:
        ""
        => "test.toml:1:1: there is no job in this file; the smallest file is\n[job.hello]\nrun = \"echo hello\"";
    a_file_of_comments_shows_the_smallest_one:
        "# nothing\n"
        => "test.toml:2:1: there is no job in this file; the smallest file is\n[job.hello]\nrun = \"echo hello\"";
    an_unknown_field_is_compared_with_the_known:
        "[job.a]\nrun = 'true'\nretires = 2"
        => "test.toml:3:1: `retires` is not a field of a job; did you mean `retries`?";
    an_unknown_number_may_be_a_resource:
        "[job.a]\nrun = 'true'\ntokens = 2"
        => "test.toml:3:1: `tokens` is not a field of a job; if it is a resource, say how much there is: `tokens = 1` under [resources]";
    an_unknown_text_lists_the_fields:
        "[job.a]\nrun = 'true'\ncolour = 'red'"
        => "test.toml:3:1: `colour` is not a field of a job; a job has run, command, flow, exec, args, ops, spawns, channel_ops, tasks, nodes, on, needs, foreach, exclude, include, inputs, outputs, budget, period, deadline, shell, cpu, ram, vram, gpus, priority, retries, backoff, timeout, grace, ram_limit, over_ram, log_limit, class, weight, cpus, nice, env, cwd, incomplete, on_crash";
    a_weight_of_nothing_is_none:
        "[job.a]\nrun = 'true'\nweight = 0"
        => "test.toml:3:10: `weight` is 0, but the minimum is 1; write a number from 1 to 10000";
    a_class_is_one_of_four:
        "[job.a]\nrun = 'true'\nclass = 'fast'"
        => "test.toml:3:9: `class` takes \"batch\", \"idle\", \"latency\" or \"normal\", not 'fast'; write `class = \"batch\"`";
    no_cpu_is_no_list_of_cpus:
        "[job.a]\nrun = 'true'\ncpus = []"
        => "test.toml:3:8: `cpus` lists 0 CPUs, but the limit is 4096, and at least 1; leave it out to run on any CPU";
    pin_has_another_name:
        "[job.a]\nrun = 'true'\npin = [0]"
        => "test.toml:3:1: `pin` is not a field of a job; it is called `cpus`";
    a_deadline_needs_a_budget:
        "[job.a]\nrun = 'true'\ndeadline = '5ms'"
        => "test.toml:3:12: job `a` has a `deadline`, but no `budget`: how much CPU time in each period; write `budget = \"2ms\"`; a limit for the whole job is `timeout`";
    a_budget_needs_a_period:
        "[job.a]\nrun = 'true'\nbudget = '5ms'"
        => "test.toml:3:10: job `a` has a `budget`, but no `period`: how often it gets it; write `period = \"10ms\"`";
    a_budget_fits_into_its_deadline_and_that_into_its_period:
        "[job.a]\nrun = 'true'\nbudget = '6ms'\ndeadline = '5ms'\nperiod = '4ms'"
        => "test.toml:3:10: `budget` is 6ms, but it must be had within 5ms; write at most 5ms, or a longer `deadline`\ntest.toml:4:12: `deadline` is 5ms, but the `period` is 4ms; write at most 4ms, or a longer `period`";
    a_period_is_one_that_the_system_takes:
        "[job.a]\nrun = 'true'\nbudget = '1us'\nperiod = '50us'\n[job.b]\nrun = 'true'\nbudget = 1\nperiod = '5s'"
        => "test.toml:4:10: the period is 50us, but Linux takes 100us to 4s; write a `period` from 100us to 4s\ntest.toml:8:10: the period is 5s, but Linux takes 100us to 4s; write a `period` from 100us to 4s";
    a_reservation_has_no_class:
        "[job.a]\nrun = 'true'\nclass = 'batch'\nbudget = '1ms'\nperiod = '5ms'"
        => "test.toml:4:10: job `a` has a `budget` and a `class`, which a reservation does not use; remove one of them: `class` is for jobs without a reservation";
    an_unknown_part_is_compared_with_the_known:
        "[jobs.a]\nrun = 'true'"
        => "test.toml:1:2: `jobs` is not a part of a job file; did you mean `job`?";
    a_table_that_is_no_part_may_be_a_job:
        "[render]\nrun = 'true'"
        => "test.toml:1:2: `render` is not a part of a job file; a job is written `[job.render]`; the parts are name, [resources], [run], [slurm], [defaults], [env] and [job.NAME]";
    a_field_outside_of_a_job_belongs_into_one:
        "retries = 3\n[job.a]\nrun = 'true'"
        => "test.toml:1:1: `retries` is not a part of a job file; write it in a job, `[job.NAME]`, or for all jobs in `[defaults]`";
    a_job_that_is_a_text_is_no_job:
        "[job]\na = 'true'"
        => "test.toml:2:1: job `a` is a section, not the text `'true'`; write `[job.a]` and below it `run = …`";
    a_section_that_is_a_number_is_no_section:
        "resources = 4\n[job.a]\nrun = 'true'"
        => "test.toml:1:1: `resources` is a section, not the number `4`; write `[resources]` on a line of its own, and its fields below";
    a_text_is_no_number:
        "[job.a]\nrun = 'true'\ncpu = 'four'"
        => "test.toml:3:7: `cpu` takes a whole number of slots, not the text `'four'`; write `cpu = 1`";
    a_number_in_quotes_is_shown_without:
        "[job.a]\nrun = 'true'\ncpu = '4'"
        => "test.toml:3:7: `cpu` takes a whole number of slots, and this is a text; write `cpu = 4`, without quotes";
    a_number_is_no_line:
        "[job.a]\nrun = 5"
        => "test.toml:2:7: `run` takes a shell line, not the number `5`; write `run = \"echo hello\"`";
    a_text_is_no_list:
        "[job.a]\nrun = 'true'\nneeds = 'b'"
        => "test.toml:3:9: `needs` takes a list of jobs, or \"inputs\", not the text 'b'; write `needs = ['b']`";
    a_list_of_numbers_is_no_list_of_jobs:
        "[job.a]\nrun = 'true'\nneeds = [1]"
        => "test.toml:3:10: `needs` takes a list of jobs, or \"inputs\", not the number `1`; write `needs = [\"other\"]`";
    a_date_is_no_duration:
        "[job.a]\nrun = 'true'\ntimeout = 2026-01-01"
        => "test.toml:3:11: `timeout` takes a duration, not the date `2026-01-01`; write `timeout = \"10m\"`";
    a_text_is_no_command:
        "[job.a]\ncommand = 'echo hello'"
        => "test.toml:2:11: `command` takes a list of a program and its arguments, not a text; write `run = …` for a shell line, or `command = [\"program\", \"argument\"]`";
    an_empty_command_names_no_program:
        "[job.a]\ncommand = []"
        => "test.toml:2:11: `command` names no program; write `command = [\"program\", \"argument\"]`";
    an_empty_line_is_nothing_to_run:
        "[job.a]\nrun = ' '"
        => "test.toml:2:7: `run` is empty; write `run = \"echo hello\"`, or leave it out";
    two_ways_to_run_are_one_too_many:
        "[job.a]\nrun = 'true'\ncommand = ['true']"
        => "test.toml:3:1: job `a` has both `run` and `command`; keep `run` for a shell line, `command` to do without a shell, `flow` for a flow file, or `exec` for a Janus program";
    no_way_to_run_is_one_too_few:
        "[job.a]\ncpu = 1"
        => "test.toml:1:6: job `a` has nothing to do; write `run = \"…\"` for a shell line, or `command = [\"…\"]`";
    a_shell_without_a_line_is_idle:
        "[job.a]\nshell = 'bash'\ncommand = ['true']"
        => "test.toml:1:6: job `a` has a `shell`, but `command` runs without one; write `run`, or remove `shell`";
    a_key_may_be_written_once:
        "[job.a]\nrun = 'true'\nrun = 'false'"
        => "test.toml:3:1: `run` is written twice; remove one of the two, or give it another name";
    a_job_may_be_written_once:
        "[job.a]\nrun = 'true'\n[job.b]\nrun = 'true'\n[job.a]\nrun = 'true'"
        => "test.toml:5:6: `a` is written twice; remove one of the two, or give it another name";
    text_needs_quotes:
        "name = render\n[job.a]\nrun = 'true'"
        => "test.toml:1:8: this text has no quotes; write \"render\"";
    a_broken_line_is_told_by_its_syntax:
        "[job.a]\nrun 'true'"
        => "test.toml:2:5: key with no value, expected `=`; a line is `key = value`, a job starts with `[job.NAME]`, and text is in quotes";
    an_unknown_need_is_compared_with_the_known:
        "[job.storyboard]\nrun = 'true'\n[job.b]\nneeds = ['storybord']\nrun = 'true'"
        => "test.toml:4:10: job `b` needs `storybord`, and there is no such job; did you mean `storyboard`?";
    an_unknown_need_can_be_written:
        "[job.a]\nneeds = ['zebra']\nrun = 'true'"
        => "test.toml:2:10: job `a` needs `zebra`, and there is no such job; write `[job.zebra]`, or remove it from `needs`";
    a_job_cannot_need_itself:
        "[job.a]\nneeds = ['a']\nrun = 'true'"
        => "test.toml:2:10: job `a` needs itself; remove it from its `needs`";
    an_instance_cannot_need_itself:
        "[job.a]\nforeach = { x = '1..3' }\nneeds = ['a[{x}]']\nrun = '{x}'"
        => "test.toml:3:10: job `a[1]` needs itself; remove it from its `needs`";
    one_of_the_instances_cannot_need_itself:
        "[job.a]\nforeach = { x = '1..3' }\nneeds = ['a[2]']\nrun = '{x}'"
        => "test.toml:3:10: job `a[2]` needs itself; remove it from its `needs`";
    an_unknown_instance_is_reported_with_those_there_are:
        "[job.a]\nforeach = { x = '1..3' }\nrun = '{x}'\n[job.b]\nneeds = ['a[4]']\nrun = 'true'"
        => "test.toml:5:10: job `b` needs `a[4]`, and there is no such instance; there are `a[1]` to `a[3]`";
    an_instance_has_all_its_values:
        "[job.a]\nforeach = { x = '1..3', y = '1..2' }\nrun = '{x}'\n[job.b]\nneeds = ['a[1]']\nrun = 'true'"
        => "test.toml:5:10: the values in `a[1]` are 1, and those of job `a` are 2; write `a[x,y]`, or `a` for all";
    a_job_without_foreach_has_no_instances:
        "[job.a]\nrun = 'true'\n[job.b]\nneeds = ['a[1]']\nrun = 'true'"
        => "test.toml:4:10: `a[1]` names an instance, but job `a` has no `foreach`; write `a`";
    a_bracket_has_an_end:
        "[job.a]\nforeach = { x = '1..3' }\nrun = '{x}'\n[job.b]\nneeds = ['a[1']\nrun = 'true'"
        => "test.toml:5:10: `a[1` is not the name of an instance; write `a[VALUE]`, with values in quotes if they have commas";
    a_cycle_is_named:
        "[job.a]\nneeds = ['b']\nrun = 'true'\n[job.b]\nneeds = ['c']\nrun = 'true'\n[job.c]\nneeds = ['a']\nrun = 'true'"
        => "test.toml:2:10: jobs need each other in a cycle: a -> b -> c -> a; each waits for the next; remove one of these needs";
    a_cycle_of_instances_is_named:
        "[job.a]\nforeach = { x = '1..3' }\nneeds = ['b[{x}]']\nrun = '{x}'\n[job.b]\nforeach = { x = '1..3' }\nneeds = ['a[{x}]']\nrun = '{x}'"
        => "test.toml:3:10: jobs need each other in a cycle: a[1] -> b[1] -> a[1]; each waits for the next; remove one of these needs";
    more_slots_than_there_are_are_never_free:
        "[resources]\ncpu = 4\n[job.a]\nrun = 'true'\ncpu = 8"
        => "test.toml:5:7: job `a` wants 8 cpu, and [resources] has 4; lower it, or write `cpu = 8` under [resources]";
    more_of_a_resource_than_there_is_is_never_free:
        "[resources]\nlicence = 2\n[job.a]\nrun = 'true'\nlicence = 3"
        => "test.toml:5:11: job `a` wants 3 licence, and [resources] has 2; lower it, or write `licence = 3` under [resources]";
    a_default_demand_can_be_too_much_as_well:
        "[resources]\ncpu = 1\n[defaults]\ncpu = 2\n[job.a]\nrun = 'true'"
        => "test.toml:4:7: job `a` wants 2 cpu, and [resources] has 1; lower it, or write `cpu = 2` under [resources]";
    no_slots_are_too_few:
        "[resources]\ncpu = 0\n[job.a]\nrun = 'true'"
        => "test.toml:2:7: `cpu` is 0, but the minimum is 1; write a number from 1 to 1000000000";
    a_field_cannot_name_a_resource:
        "[resources]\nretries = 4\n[job.a]\nrun = 'true'"
        => "test.toml:2:1: `retries` is a field of a job, so it cannot name a resource; give the resource another name";
    a_bad_size_shows_good_ones:
        "[job.a]\nrun = 'true'\nram = '8 G'"
        => "test.toml:3:7: `ram` is '8 G', which is not a size: its unit is none of B, KB, MB, GB, TB, KiB, MiB, GiB, TiB; write \"512 MB\", \"1.5 GiB\", or a plain number of MB";
    a_size_is_not_negative:
        "[job.a]\nrun = 'true'\nram = -1"
        => "test.toml:3:7: `ram` is -1, but the minimum is 0; write a number from 0 to 1000000000000";
    a_bad_duration_shows_good_ones:
        "[job.a]\nrun = 'true'\ntimeout = 'soon'"
        => "test.toml:3:11: `timeout` is 'soon', which is not a duration: its unit is none of ms, s, m, h, d; write \"250ms\", \"10s\", \"1h30m\", or a plain number of seconds";
    a_timeout_of_nothing_is_none:
        "[job.a]\nrun = 'true'\ntimeout = 0"
        => "test.toml:3:11: `timeout` is 0, so the job could never run; leave it out for no timeout";
    a_huge_number_is_reported_with_the_limit:
        "[job.a]\nrun = 'true'\nretries = 99999999999999999999999999999999999999999999"
        => "test.toml:3:11: `retries` is 9999999999999999999999999999999999999999…, but the limit is 1000; write a number from 0 to 1000";
    a_number_below_the_least_is_reported_with_it:
        "[job.a]\nrun = 'true'\nnice = -30"
        => "test.toml:3:8: `nice` is -30, but the minimum is -20; write a number from -20 to 19";
    a_wrong_word_shows_the_right_ones:
        "[job.a]\nrun = 'true'\non_crash = 'panic'"
        => "test.toml:3:12: `on_crash` takes \"adopt\", \"restart\" or \"fail\", not 'panic'; write `on_crash = \"adopt\"`";
    a_bad_range_shows_good_ones:
        "[job.a]\nforeach = { x = '1..z' }\nrun = '{x}'"
        => "test.toml:2:17: '1..z' is not a range: `z` is not a whole number; write a range \"1..8\", a list [\"a\", \"b\"], or files \"glob:*.png\"";
    a_word_is_not_a_range:
        "[job.a]\nforeach = { x = 'abc' }\nrun = '{x}'"
        => "test.toml:2:17: 'abc' is not a range; write a range \"1..8\", a list [\"a\", \"b\"], or files \"glob:*.png\"";
    a_range_runs_forwards:
        "[job.a]\nforeach = { x = '8..1' }\nrun = '{x}'"
        => "test.toml:2:17: the range 8..1 runs backwards, so it is empty; write \"1..8\"";
    a_number_is_no_list_of_values:
        "[job.a]\nforeach = { x = 3 }\nrun = '{x}'"
        => "test.toml:2:17: a key of `foreach` takes values, not the number `3`; write a range \"1..8\", a list [\"a\", \"b\"], or files \"glob:*.png\"";
    an_empty_foreach_makes_no_job:
        "[job.a]\nforeach = {}\nrun = 'true'"
        => "test.toml:2:11: `foreach` of job `a` has no keys, so there would be no job; write `foreach = { scene = \"1..8\" }`, or remove it";
    an_empty_list_makes_no_job:
        "[job.a]\nforeach = { x = [] }\nrun = '{x}'"
        => "test.toml:2:17: this list is empty, so there would be no job; write a range \"1..8\", a list [\"a\", \"b\"], or files \"glob:*.png\"";
    a_value_is_listed_once:
        "[job.a]\nforeach = { x = ['p', 'p'] }\nrun = '{x}'"
        => "test.toml:2:23: `x` has the value `p` twice; remove one";
    job_is_no_key_of_foreach:
        "[job.a]\nforeach = { job = '1..2' }\nrun = 'true'"
        => "test.toml:2:13: `job` cannot be a key of `foreach`; use letters, digits, `_` and `-`; `job` is the name of the instance";
    nothing_strange_can_be_excluded:
        "[job.a]\nforeach = { os = ['linux', 'mac'] }\nexclude = [{ os = 'linx' }]\nrun = '{os}'"
        => "test.toml:3:12: `linx` is not a value of `os`, so nothing is excluded; did you mean `linux`?";
    only_keys_can_be_excluded:
        "[job.a]\nforeach = { os = ['linux', 'mac'] }\nexclude = [{ cpu = 'x' }]\nrun = '{os}'"
        => "test.toml:3:14: `cpu` is not a key of `foreach`; the keys are os";
    not_everything_can_be_excluded:
        "[job.a]\nforeach = { x = '1..1' }\nexclude = [{ x = 1 }]\nrun = '{x}'"
        => "test.toml:3:11: `exclude` leaves nothing of job `a`; exclude less, or remove the job";
    what_is_included_has_all_keys:
        "[job.a]\nforeach = { x = '1..2', y = '1..2' }\ninclude = [{ x = 3 }]\nrun = '{x}'"
        => "test.toml:3:12: this combination has no `y`; add `y = \"…\"`";
    what_is_included_is_new:
        "[job.a]\nforeach = { x = '1..2' }\ninclude = [{ x = 2 }]\nrun = '{x}'"
        => "test.toml:3:12: `{ x = 2 }` is there already; remove it from `include`";
    exclude_needs_a_foreach:
        "[job.a]\nexclude = [{ x = 2 }]\nrun = 'true'"
        => "test.toml:2:11: `exclude` needs a `foreach` to change; write `foreach = { scene = \"1..8\" }`, or remove it";
    a_placeholder_that_is_almost_right_is_wrong:
        "[job.a]\nforeach = { scene = '1..2' }\nrun = 'echo {scnee}'"
        => "test.toml:3:7: `{scnee}` is not a value of job `a`; did you mean `{scene}`? For the text itself write `{{scnee}}`";
    a_need_with_a_wrong_placeholder_is_reported:
        "[job.a]\nforeach = { scene = '1..2' }\nrun = '{scene}'\n[job.b]\nforeach = { scene = '1..2' }\nneeds = ['a[{scnee}]']\nrun = '{scene}'"
        => "test.toml:6:10: `{scnee}` is not a value of job `b`; did you mean `{scene}`?";
    a_name_has_no_spaces:
        "[job.'a b']\nrun = 'true'"
        => "test.toml:1:6: `a b` cannot be the name of a job; start with a letter, and use letters, digits and any of `_-.:+@/`";
    a_variable_has_a_name:
        "[job.a]\nrun = 'true'\nenv = { 'A=B' = 1 }"
        => "test.toml:3:9: `A=B` cannot be the name of a variable; use letters, digits and `_`";
    no_program_takes_a_character_0:
        "[job.a]\nrun = \"a\\u0000b\""
        => "test.toml:2:7: `run` has a NUL character in it, which no program can take; remove `\\u0000`";
    needs_are_no_default:
        "[defaults]\nneeds = ['a']\n[job.a]\nrun = 'true'"
        => "test.toml:2:1: `needs` cannot be in [defaults]; write it in each job";
    two_instances_cannot_write_one_file:
        "[job.a]\nforeach = { x = '1..2' }\nrun = '{x}'\noutputs = ['out']"
        => "test.toml:4:12: jobs `a[1]` and `a[2]` both write `out`; put a value into the name, such as `{x}`";
    two_jobs_cannot_write_one_file:
        "[job.a]\nrun = 'true'\noutputs = ['out']\n[job.b]\nrun = 'true'\noutputs = ['out']"
        => "test.toml:6:12: jobs `a` and `b` both write `out`; give each its own file";
    too_many_jobs_are_refused_before_they_are_made:
        "[job.a]\nforeach = { x = '1..1000000', y = '1..1000000', z = '-9223372036854775808..9223372036854775807' }\nrun = '{x}'"
        => "test.toml:2:35: with `a` there are 1000000000000 jobs or more, but the limit is 1000000; expand less, or split the file";
    too_many_needs_are_refused_before_they_are_made:
        "[job.a]\nforeach = { x = '1..4000' }\nrun = '{x}'\n[job.b]\nforeach = { x = '1..4000' }\nneeds = ['a']\nrun = '{x}'"
        => "test.toml:6:10: with `a` of job `b` there are more than 10000000 needs; put one job between the two groups, which needs the first and is needed by the second";
}

#[test]
fn a_byte_that_is_no_utf_8_has_a_line_and_a_column() {
    let problems = parse_with("test.toml", b"# \xC3\xA4\nname = '\xC3\xA4\xFF'\n", &Limits::default()).unwrap_err();
    assert_eq!(problems.to_string(), "test.toml:2:10: byte 0xFF is not UTF-8; save the file as UTF-8");
}

#[test]
fn a_file_that_is_too_long_is_not_read() {
    let limits = Limits { file_bytes: 4, ..Limits::default() };
    let problems = parse_with("test.toml", b"[job.a]", &limits).unwrap_err();
    let said = "test.toml: has more than 4 bytes, the limit; split it, or let `foreach` write the jobs";
    assert_eq!(problems.to_string(), said);
}

#[test]
fn a_name_has_a_length() {
    let limits = Limits { name_bytes: 5, ..Limits::default() };
    let said = |text: &str| parse_with("test.toml", text.as_bytes(), &limits).unwrap_err().to_string();
    assert_eq!(
        said("[job.abcdef]\nrun = 'true'"),
        "test.toml:1:6: the name `abcdef` has 6 bytes, but the limit is 5; write a shorter one"
    );
    assert_eq!(
        said("[job.abc]\nforeach = { x = '1..2' }\nrun = '{x}'"),
        "test.toml:1:6: the name `abc[1]` has 6 bytes, but the limit is 5; use shorter values"
    );
}

#[test]
fn yaml_is_refused_by_name() {
    let said = "test.yml: is YAML by its name, which is not supported; write it as TOML or JSON";
    assert_eq!(parse("test.yml", "job: {}").unwrap_err().to_string(), said);
}

#[test]
fn mistakes_in_json_have_a_location_too() {
    let said = |text: &str| parse("test.json", text).unwrap_err().to_string();
    let shape = "a job file in JSON is { \"job\": { \"hello\": { \"run\": \"echo hello\" } } }";
    assert_eq!(said(""), format!("test.json:1:1: the file ends in the middle; {shape}"));
    assert_eq!(said("[]"), format!("test.json:1:1: this is not a table; {shape}"));
    assert_eq!(said("{\n  a: 1}"), "test.json:2:3: expected a key; keys are in double quotes");
    assert_eq!(
        said(r#"{"job": {"a": {"run": "x", "run": "y"}}}"#),
        "test.json:1:28: this key is written twice; remove one of the two, or give it another name"
    );
    assert_eq!(
        said(r#"{"job": {"a": {"run": null}}}"#).split(';').next().unwrap(),
        "test.json:1:23: `run` takes a shell line, not the empty value `null`"
    );
    assert_eq!(said(r#"{"job": {}} x"#), "test.json:1:13: there is text after the end; remove it");
    assert_eq!(
        said(r#"{"job": {"a": {"run": "\ud800"}}}"#).split(';').next().unwrap(),
        "test.json:1:24: this escape is half a character"
    );
}

#[test]
fn of_many_problems_the_rest_is_counted() {
    let text: String = (0..80).map(|n| format!("[job.j{n}]\n")).collect();
    let problems = problems(&text);
    assert_eq!((problems.iter().count(), problems.len()), (50, 80));
    assert!(problems.to_string().ends_with("\nand 30 more problems; fix these first"));
}

#[test]
fn a_terminal_is_shown_the_line() {
    let text = format!("[job.a]\nrun = 'true' # {}\n{}cpus = 3", "ä".repeat(300), " ".repeat(4));
    assert_eq!(
        problems(&text).pretty(false),
        "  × `cpus` lists CPUs by their numbers, and this is the number 3
   ╭─[test.toml:3:12]
 3 │     cpus = 3
   ·            ─
   ╰────
  help: write `cpu = 3` for CPU slots, or `cpus = [3]` for that CPU alone
"
    );
    let long =
        format!("[job.a]\nrun = 'true'\nenv = {{ A = '{}', 'B=' = 1, C = '{}' }}", "ä".repeat(300), "ö".repeat(300));
    let shown = problems(&long).pretty(false);
    assert!(shown.contains("test.toml:3:317"), "{shown}");
    assert!(shown.lines().all(|line| line.chars().count() < 180), "{shown}");
}
