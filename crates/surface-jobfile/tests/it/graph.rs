//! How plans are drawn.

use surface_jobfile::{Action, Job, Plan, graph};

use crate::plan;

const DIAMOND: &str = "[resources]\nram = 0\n[job.a]\nrun = 'true'\n[job.c]\nneeds = ['a']\nrun = 'true'\nram = '1.5 GB'\n\
                       [job.b]\nforeach = { x = '1..2' }\nneeds = ['a']\nrun = '{x}'\n[job.d]\nneeds = ['c', 'b']\nrun = 'true'";

#[test]
fn a_diamond_in_a_terminal() {
    assert_eq!(
        graph::text(&plan(DIAMOND)),
        "\
test: 5 jobs in 4 groups · ram unlimited

  a
  ├─ c      ram 1.5 GB
  │  └─ d   also needs b ×2
  └─ b ×2

longest chain: 3 jobs, a → c → d
"
    );
}

#[test]
fn a_diamond_for_graphviz() {
    assert_eq!(
        graph::dot(&plan(DIAMOND)),
        r#"digraph "test" {
  rankdir=LR;
  node [shape=box, style=rounded];
  n0 [label="a"];
  n1 [label="c\nram 1.5 GB"];
  n2 [label="b[1]"];
  n3 [label="b[2]"];
  n4 [label="d"];
  n0 -> n1;
  n0 -> n2;
  n0 -> n3;
  n1 -> n4;
  n2 -> n4;
  n3 -> n4;
}
"#
    );
}

#[test]
fn a_diamond_for_a_browser() {
    let svg = graph::svg(&plan(DIAMOND));
    let boxes: Vec<&str> = svg.lines().filter(|line| line.starts_with("<g>")).collect();
    assert_eq!(
        boxes,
        [
            "<g><title>a </title><rect x=\"16\" y=\"72\" width=\"32\" height=\"40\" rx=\"6\"/><text x=\"28\" y=\"97\">a</text></g>",
            "<g><title>c ram 1.5 GB</title><rect x=\"112\" y=\"16\" width=\"88\" height=\"40\" rx=\"6\"/><text x=\"124\" y=\"34\">c</text><text class=\"d\" x=\"124\" y=\"49\">ram 1.5 GB</text></g>",
            "<g><title>b[1] </title><rect x=\"112\" y=\"72\" width=\"88\" height=\"40\" rx=\"6\"/><text x=\"124\" y=\"97\">b[1]</text></g>",
            "<g><title>b[2] </title><rect x=\"112\" y=\"128\" width=\"88\" height=\"40\" rx=\"6\"/><text x=\"124\" y=\"153\">b[2]</text></g>",
            "<g><title>d </title><rect x=\"264\" y=\"72\" width=\"32\" height=\"40\" rx=\"6\"/><text x=\"276\" y=\"97\">d</text></g>",
        ]
    );
    assert_eq!(svg.lines().filter(|line| line.starts_with("<path")).count(), 6);
    assert!(svg.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"312\" height=\"200\""), "{svg}");
}

#[test]
fn arrows_that_need_not_cross_do_not() {
    let plan = plan(
        "[job.a]\nrun = 'true'\n[job.b]\nrun = 'true'\n[job.x]\nneeds = ['b']\nrun = 'true'\n[job.y]\nneeds = ['a']\nrun = 'true'",
    );
    let svg = graph::svg(&plan);
    let height = |name: &str| {
        let line = svg.lines().find(|line| line.contains(&format!(">{name}</text>"))).unwrap();
        line.split("y=\"").nth(1).unwrap().split('"').next().unwrap().parse::<u32>().unwrap()
    };
    assert_eq!((height("a") < height("b")), (height("y") < height("x")));
}

#[test]
fn more_than_60_jobs_are_folded_into_their_groups() {
    let text = |count| {
        format!("[job.a]\nforeach = {{ x = '1..{count}' }}\nrun = '{{x}}'\n[job.b]\nneeds = ['a']\nrun = 'true'")
    };
    assert_eq!(graph::dot(&plan(&text(59))).matches("label").count(), 60);
    let folded = graph::dot(&plan(&text(60)));
    assert_eq!(folded.matches("label").count(), 2);
    assert!(folded.contains("n0 [label=\"a ×60\"];\n  n1 [label=\"b\"];\n  n0 -> n1;\n"), "{folded}");
    assert!(graph::svg(&plan(&text(60))).contains(">a ×60</text>"));
}

#[test]
fn names_cannot_leave_their_place() {
    let text = "name = '</title><script>\"\\'\n[job.a]\nforeach = { x = ['<b>&\"\\', \"\\u001b[31m\"] }\nrun = '{x}'";
    let plan = plan(text);
    let (dot, svg, drawn) = (graph::dot(&plan), graph::svg(&plan), graph::text(&plan));
    assert!(dot.starts_with(r#"digraph "</title><script>\"\\" {"#), "{dot}");
    assert!(dot.contains(r#"label="a[\"<b>&\\\"\\\\\"]""#), "{dot}");
    assert!(svg.contains("<title>&lt;/title&gt;&lt;script&gt;&quot;\\</title>"), "{svg}");
    assert!(!svg.contains("<b>") && !svg.contains("<script"), "{svg}");
    assert!(![dot, svg, drawn].iter().any(|picture| picture.contains('\u{1b}')));
}

#[test]
fn any_plan_can_be_drawn_also_a_wrong_one() {
    assert_eq!(graph::text(&Plan::default()), ": 0 jobs\n\n");
    graph::svg(&Plan::default());
    let mut plan = Plan::default();
    for needs in [vec![1, 7], vec![0], vec![2], vec![1]] {
        plan.jobs.push(Job { needs, ..Job::new("\u{1b}x", Action::Argv(Vec::new())) });
    }
    assert_eq!(plan.order(), None);
    assert!(!graph::text(&plan).contains('\u{1b}'));
    graph::dot(&plan);
    graph::svg(&plan);
    for (n, job) in plan.jobs.iter_mut().enumerate() {
        job.group = format!("g{n}");
    }
    assert_eq!(graph::text(&plan).lines().count(), 6);
}
