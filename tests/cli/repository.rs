//! What the repository ships holds: its policies, its examples, its pages and its package.

use std::path::Path;
use std::process::Command;

use crate::command;

/// Crates of the host, which nobody gets who embeds the interpreter alone.
const OF_THE_HOST: &[&str] = &["tokio", "tokio-util", "reqwest", "axum", "hyper", "rmcp", "tracing", "clap"];

#[test]
fn policies_and_examples_pass_without_a_warning() {
    let output =
        command::unfazed(root(), &["check", "--deny-warnings", "policies", "examples"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[cfg(unix)]
#[test]
fn the_page_of_what_cases_prove_is_fresh() {
    // The page stands beside links to all the rest, so that it names the same files and this writes no file of the repository.
    let copy = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(root()).unwrap().map(Result::unwrap) {
        if entry.file_name() != "docs" {
            std::os::unix::fs::symlink(entry.path(), copy.path().join(entry.file_name())).unwrap();
        }
    }
    std::fs::create_dir(copy.path().join("docs")).unwrap();
    let args = ["test", "tests/cases", "--conformance", "docs/conformance.md"];
    let output = command::unfazed(copy.path(), &args).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let page = |folder: &Path| std::fs::read_to_string(folder.join("docs/conformance.md")).unwrap();
    assert!(page(copy.path()) == page(root()), "`unfazed {}` writes the page anew", args.join(" "));
}

#[test]
fn nothing_of_the_host_comes_with_the_interpreter() {
    let args =
        ["tree", "--no-default-features", "-e", "normal", "--locked", "--prefix", "none", "--format", "{p}"];
    let tree = cargo(&args);
    let crates: Vec<&str> = tree.lines().filter_map(|line| line.split(' ').next()).collect();
    assert!(crates.contains(&"serde_json"), "{tree}");
    let found: Vec<_> = crates.iter().filter(|name| OF_THE_HOST.contains(name)).collect();
    assert!(
        found.is_empty(),
        "{found:?}: `cargo tree --no-default-features -i NAME` shows where it comes from"
    );
}

#[test]
fn the_package_has_no_file_that_is_only_for_work_on_it() {
    let list = cargo(&["package", "--locked", "--allow-dirty", "--list"]);
    let only_for_work = |file: &&str| {
        ["tests/", "benches/", ".ci/"].iter().any(|folder| file.starts_with(folder))
            || Path::new(file).extension().is_some_and(|extension| extension == "snap")
    };
    let found: Vec<_> = list.lines().filter(only_for_work).collect();
    assert!(list.contains("src/lib.rs"), "{list}");
    assert!(found.is_empty(), "leave them out of `include` in Cargo.toml: {found:?}");
}

/// What a command of cargo prints.
fn cargo(args: &[&str]) -> String {
    let output = Command::new(env!("CARGO")).args(args).current_dir(root()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}
