//! The pages that are written by `unfazed reference` are what it writes.

use super::{command, root};

#[test]
fn the_references_are_fresh() {
    let check = command::unfazed(root(), &["reference", "--check", "docs"]).output().unwrap();
    assert!(check.status.success(), "{}", String::from_utf8_lossy(&check.stderr));
}

#[test]
fn a_page_that_is_stale_is_named_with_the_repair() {
    let folder = tempfile::tempdir().unwrap();
    let run = |flag: &str| command::unfazed(folder.path(), &["reference", flag, "."]).output().unwrap();
    assert!(run("--write").status.success());
    assert!(run("--check").status.success());
    std::fs::write(folder.path().join("error-tables.md"), "# Old\n").unwrap();
    let stale = run("--check");
    assert_eq!(stale.status.code(), Some(1));
    let said = String::from_utf8_lossy(&stale.stderr).into_owned();
    assert!(said.contains("error-tables.md") && !said.contains("policy-reference.md"), "{said}");
    assert!(said.contains("unfazed reference --write"), "{said}");
}
