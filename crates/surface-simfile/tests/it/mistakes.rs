//! What is said about mistakes: the value, the limit, the way out.

use crate::problems;

#[test]
fn each_mistake_is_named_with_a_way_out() {
    let hog = "[thread.hog]\ndoes = ['run 1ms']\n";
    for (text, message, help) in [
        ("", "there is no thread in this file", "the smallest file is"),
        ("[thred.hog]\n", "`thred` is not a part of a workload file", "did you mean `thread`?"),
        ("[thread.hog]\n", "thread `hog` has no `does`", "write `does = [\"run 10ms\"]`"),
        ("[thread.hog]\ndoes = 'run 1ms'\n", "`does` takes a list of steps", "write `does = ["),
        ("[thread.hog]\ndoes = []\n", "a thread that does nothing", "write `does = ["),
        ("[thread.hog]\ndoes = ['run']\n", "`run` is not followed by a time: it is empty", "write \"run 1ms\""),
        ("[thread.hog]\ndoes = ['run 5ms..1ms']\n", "its end is before its beginning", "for a random time"),
        ("[thread.hog]\ndoes = ['run 1x']\n", "its unit is none of ns, us, ms, s, m, h", "write \"run 1ms\""),
        ("[thread.hog]\ndoes = ['yield']\n", "these steps take no time", "add a step like"),
        ("[thread.hog]\ndoes = ['run 0..1ms', 'sleep 0s']\n", "these steps take no time", "add a step like"),
        ("[thread.hog]\ndoes = ['receive now']\n", "`receive` takes nothing, and `now` follows", "write \"receive\""),
        ("[thread.hog]\ndoes = ['call hug', 'run 1s']\n", "there is no thread `hug`", "did you mean `hog`?"),
        ("[thread.hog]\ndoes = ['poll xyz']\n", "there is no ring `xyz`", "add a section `[ring.xyz]`"),
        (&format!("{hog}weight = 0\n"), "`weight` is 0, but the minimum is 1", "from 1 to 1048576"),
        (&format!("{hog}context = 'c'\n"), "there is no context `c`", "add a section `[context.c]`"),
        (&format!("{hog}process = 'p'\n"), "there is no process `p`", "add a section `[process.p]`"),
        (&format!("{hog}class = 'quick'\n"), "`class` takes \"fair\", \"idle\" or \"reserved\"", "write `class = "),
        (&format!("{hog}cpus = [1]\n"), "CPU 1 does not exist: the machine has 1", "write `cpus = 2` at the top"),
        (&format!("{hog}cpus = []\n"), "`cpus` is empty", "name at least one CPU"),
        (&format!("{hog}starts = 'soon'\n"), "is not a duration", "write \"300us\""),
        (&format!("cpus = 257\n{hog}"), "`cpus` is 257, but the limit is 256", "from 1 to 256"),
        (&format!("for = '0s'\n{hog}"), "`for` is 0, and has to be more", "write `for = \"2s\"`"),
        (&format!("for = '25h'\n{hog}"), "it is more than 24 hours", "write \"300us\""),
        (&format!("[context.c]\nperiod = '1ms'\n{hog}"), "context `c` has no `budget`", "write `budget = "),
        (
            &format!("[context.c]\nbudget = '2ms'\nperiod = '1ms'\n{hog}"),
            "context `c` has a budget of 2000000 ns",
            "a budget is at most the deadline",
        ),
        (&format!("[lease.l]\n{hog}"), "lease `l` has no `process`", "write `process = "),
        (
            &format!("[ring.r]\nevery = '0s'\ncost = '1us'\n{hog}"),
            "requests of ring `r` may come at once",
            "let `every`",
        ),
        ("[thread.'a b']\ndoes = ['run 1ms']\n", "`a b` cannot be the name of a thread", "letters, digits"),
        (
            "[thread.a]\ncount = 10000\ndoes = ['run 1s']\n[thread.b]\ncount = 10000\ndoes = ['run 1s']\n[thread.c]\ndoes = ['run 1s']\n",
            "more than 20000 threads",
            "lower a `count`",
        ),
        ("thread = 5\n", "`thread` is a section, not the number `5`", "write `[thread.NAME]`"),
    ] {
        let said = problems(text);
        assert!(said.contains(message) && said.contains(help), "{text}\n`{message}` and `{help}` are not in:\n{said}");
    }
}

#[test]
fn all_mistakes_of_a_file_are_found_at_once() {
    let said = problems("cpus = 0\n[thread.a]\nweight = 'x'\n[context.c]\nbudget = 1\nbugdet = 2\n");
    for part in ["`cpus` is 0", "`weight` takes", "did you mean `budget`?"] {
        assert!(said.contains(part), "{part}\n{said}");
    }
}
