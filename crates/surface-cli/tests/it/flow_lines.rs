//! Lines of flows, wherever they come from.

use std::fs;
use std::io::Write as _;
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use crate::flow::site;
use crate::text;

#[test]
fn lines_of_files_pipes_programs_and_sockets_are_read_by_the_same_rules() {
    const LINES: &[u8] = b"one\n\xfftwo\nfar too long\nlast\n";
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let listens = format!("kind = 'tcp-in'\nlisten = '{address}'");
    for source in
        ["kind = 'lines'\npath = 'in'", "kind = 'stdin'", "kind = 'command'\ncommand = ['cat', 'in']", &listens]
    {
        for (policy, wanted) in [("error", &["one", "last"][..]), ("replace", &["one", "\u{fffd}two", "last"])] {
            let count = wanted.len();
            let site = site(&format!(
                "edges = ['a -> h -> z']\n[node.a]\n{source}\nlongest_line = 5\nnot_utf8 = '{policy}'\n\
                 [node.h]\nkind = 'head'\ncount = {count}\n[node.z]\nkind = 'print'\n"
            ));
            fs::write(site.path("in"), LINES).unwrap();
            let mut command = site.command(["flow", "run", "flow.toml"]);
            let child = command.stdin(fs::File::open(site.path("in")).unwrap()).spawn().unwrap();
            if source == listens {
                let connect = || TcpStream::connect(address).ok();
                let mut peer = test_support::until_some(Duration::from_secs(30), "it listens", connect);
                peer.write_all(LINES).unwrap();
            }
            let output = child.wait_with_output().unwrap();
            let said = text(&output.stderr);
            assert_eq!(text(&output.stdout).lines().collect::<Vec<_>>(), wanted, "{source}, {policy}: {said}");
            assert!(said.contains("longer than 5 bytes"), "{source}, {policy}: {said}");
        }
    }
}
