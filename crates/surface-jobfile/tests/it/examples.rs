//! The examples people start from are right.

use std::path::PathBuf;

use surface_jobfile::{Plan, graph, load};

fn example(name: &str) -> Plan {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(name);
    load(&path).unwrap_or_else(|problems| panic!("{problems}"))
}

#[test]
fn show() {
    for name in ["quickstart.toml", "media.toml", "matrix.toml"] {
        println!("{}", graph::text(&example(name)));
    }
}
