//! Files that flows write.

use crate::plan;
use crate::run::run_plan;

#[test]
fn a_file_that_another_flow_writes_is_not_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out");
    for append in [false, true] {
        std::fs::write(&path, "").unwrap();
        let text = |count: u64| {
            format!(
                "edges = ['a -> z']\n[node.a]\nkind = 'every'\ninterval = '1ms'\ncount = {count}\n[node.z]\nkind = 'write'\npath = '{}'\nappend = {append}",
                path.display()
            )
        };
        let (_, ended) = run_plan(&plan(&text(100_000)), |first| {
            while std::fs::read_to_string(&path).unwrap().is_empty() {
                std::thread::yield_now();
            }
            let (_, second) = run_plan(&plan(&text(3)), |_| ());
            let why = second.stats.node("z").unwrap().failure.clone().unwrap();
            assert!(why.contains("is locked by another program"), "{why}");
            assert!(why.contains(&format!("process {}", std::process::id())), "{why}");
            assert!(!std::fs::read_to_string(&path).unwrap().is_empty(), "the second did not cut it off");
            first.shutdown();
        });
        assert_eq!(ended.stats.failures().count(), 0);
        // When it is over, the file is free.
        let (_, third) = run_plan(&plan(&text(3)), |_| ());
        assert_eq!(third.stats.failures().count(), 0);
    }
}
