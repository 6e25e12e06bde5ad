//! `flow run`: messages that fail, and the exit code.

use std::fs;

use crate::flow::site;
use crate::run_site::assert_code;
use crate::text;

#[test]
fn a_node_that_fails_at_every_message_fails_the_flow_and_one_that_fails_at_most_does_not() {
    let flow = |list: &str, more: &str, edges: &str| {
        format!(
            "edges = [\"words -> id -> number -> show\"{edges}]\n[node.words]\nkind = \"values\"\nlist = {list}\n[node.id]\nkind = \"delay\"\nby = \"1ms\"\n\
             [node.number]\nkind = \"map\"\nparse = \"number\"\n{more}[node.show]\nkind = \"print\"\n"
        )
    };
    let all = r#"["one", "two", "three", "four"]"#;
    let most = r#"["one", "two", "three", "4"]"#;
    for (list, more, edges, code) in [
        (all, "", "", 1),
        (all, "on_error = \"skip\"\n", "", 1),
        (all, "on_error = \"retry\"\nretry = { times = 1, first = \"1ms\" }\n", "", 1),
        (most, "on_error = \"skip\"\n", "", 0),
        (all, "on_error = \"dead-letter\"\n", ", \"number:dead -> show\"", 0),
    ] {
        let output = site(&flow(list, more, edges)).bursar("flow run flow.toml");
        assert_code(&output, code);
        let told = text(&output.stderr);
        let named = told.contains("bursar: `number` failed at every message it got (4 messages); ");
        assert_eq!(named, code == 1, "{told}");
        assert!(told.contains(if list == most { " 3 failed" } else { " 4 failed" }), "{told}");
    }
    // It succeeds once, though nothing comes of it.
    let site = site(
        "edges = ['in -> x -> out']\n[node.in]\nkind = 'values'\nlist = [0, 0, 1, 0]\n[node.x]\nkind = 'janus'\nfile = 'x.jan'\nfunction = 'f'\n\
         [node.out]\nkind = 'print'\n",
    );
    fs::write(site.path("x.jan"), "async func f(n: i64) -> bool do return 1 / n > 5 end\n").unwrap();
    let output = site.bursar("flow run flow.toml");
    assert_code(&output, 0);
    assert!(text(&output.stderr).contains("1 message delivered, 3 failed"), "{}", text(&output.stderr));
}
