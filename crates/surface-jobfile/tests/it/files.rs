//! Jobs that read what others make.

use super::plan;

fn problem(text: &str) -> String {
    super::problems(text).to_string()
}

const MAKES: &str = "[job.make]\nrun = 'm'\noutputs = ['out/a.txt']\n";

#[test]
fn a_job_that_reads_what_another_makes_must_wait_for_it() {
    let said = problem(&format!("{MAKES}[job.read]\nrun = 'r'\ninputs = ['./out/../out/a.txt']\n"));
    for part in ["test.toml:6:11", "job `read` reads `out/a.txt`, which `make` makes", "add `make` to its `needs`"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    for input in ["out/*.txt", "out/a.???"] {
        let said = problem(&format!("{MAKES}[job.read]\nrun = 'r'\ninputs = ['{input}']\n"));
        assert!(said.contains("job `read` reads `out/a.txt`"), "{said}");
    }
    let said =
        problem("[job.make]\nrun = 'm'\noutputs = ['dir']\n[job.read]\nrun = 'r'\ncwd = 'dir'\ninputs = ['x']\n");
    assert!(said.contains("job `read` reads `dir`"), "{said}");
    // Through another, or not at all.
    plan(&format!(
        "{MAKES}[job.mid]\nneeds = ['make']\nrun = 'x'\n[job.read]\nneeds = ['mid']\nrun = 'r'\ninputs = ['out/a.txt']\n"
    ));
    for input in ["out/b.txt", "other/*.txt", "*.txt", "out/a.txt.bak"] {
        plan(&format!("{MAKES}[job.read]\nrun = 'r'\ninputs = ['{input}']\n"));
    }
    // Its own.
    plan("[job.make]\nrun = 'm'\ninputs = ['log']\noutputs = ['log']\n");
}

#[test]
fn needs_can_be_left_to_the_inputs() {
    let joined = plan(
        "[job.join]\nneeds = 'inputs'\nrun = 'j'\ninputs = ['part-*', 'Cargo.toml']\n\
         [job.part]\nforeach = { n = '1..3' }\nrun = 'p'\noutputs = ['part-{n}']\n\
         [job.twice]\nforeach = { n = '1..3' }\nneeds = 'inputs'\nrun = 't'\ninputs = ['part-{n}']\noutputs = ['twice-{n}']\n",
    );
    assert_eq!(joined.jobs[0].needs, [1, 2, 3]);
    assert_eq!((&joined.jobs[4].needs[..], &joined.jobs[6].needs[..]), (&[1][..], &[3][..]));
    let said = problem(
        "[job.a]\nneeds = 'inputs'\nrun = 'a'\ninputs = ['b']\noutputs = ['a']\n\
         [job.b]\nneeds = 'inputs'\nrun = 'b'\ninputs = ['a']\noutputs = ['b']\n",
    );
    assert!(said.contains("in a cycle"), "{said}");
}
