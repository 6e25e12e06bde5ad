//! Folders of `crates/`, and what their packages are called.
//!
//! A folder says its floor and what is in it: `sched-tasks`. The name of a package is unique in a registry: `bursar-sched-tasks`. The command is the package
//! that people install, so its name is short.

/// Packages that are not called by the rule: a folder, and its package.
const BY_NAME: &[(&str, &str)] = &[
    ("bursar", "bursar"),
    ("bursar-macros", "bursar-macros"),
    ("surface-cli", "bursar-cli"),
    ("test-support", "test-support"),
];

/// The package of a folder of `crates/`.
pub(crate) fn package_of(folder: &str) -> String {
    match BY_NAME.iter().find(|(named, _)| *named == folder) {
        Some((_, package)) => (*package).to_owned(),
        None => format!("bursar-{folder}"),
    }
}

/// The folder of a package; of one that is not ours, its name.
pub(crate) fn folder_of(package: &str) -> &str {
    match BY_NAME.iter().find(|(_, named)| *named == package) {
        Some((folder, _)) => folder,
        None => package.strip_prefix("bursar-").unwrap_or(package),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_is_found_by_its_folder_and_a_folder_by_its_package() {
        for (folder, package) in
            [("sched-tasks", "bursar-sched-tasks"), ("surface-cli", "bursar-cli"), ("bursar", "bursar")]
        {
            assert_eq!((package_of(folder).as_str(), folder_of(package)), (package, folder));
        }
        assert_eq!(folder_of("serde"), "serde");
    }

    #[test]
    fn what_is_outside_the_workspace_calls_our_packages_by_their_names() {
        for manifest in ["compare/Cargo.toml", "fuzz/Cargo.toml"] {
            let text = std::fs::read_to_string(crate::root().join(manifest)).expect("it is there");
            let table: toml::Table = text.parse().expect("it is TOML");
            let mut ours = 0;
            for (name, entry) in table["dependencies"].as_table().expect("a table") {
                let Some(folder) = entry.get("path").and_then(|path| path.as_str()?.strip_prefix("../crates/")) else {
                    continue;
                };
                let package = entry.get("package").and_then(toml::Value::as_str).unwrap_or(name);
                assert_eq!(package, package_of(folder), "{manifest}: {name}");
                ours += 1;
            }
            assert!(ours > 0, "{manifest} uses nothing of ours");
        }
    }
}
