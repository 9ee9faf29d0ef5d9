//! The pages that are written by `unfazed reference` are what it writes.

use std::process::Command;

use super::root;

#[test]
fn the_references_are_fresh() {
    let mut check = Command::new(env!("CARGO_BIN_EXE_unfazed"));
    let check = check.args(["reference", "--check"]).arg(root().join("docs")).output().unwrap();
    assert!(check.status.success(), "{}", String::from_utf8_lossy(&check.stderr));
}

#[test]
fn a_page_that_is_stale_is_named_with_the_repair() {
    let folder = tempfile::tempdir().unwrap();
    let run = |flag: &str| {
        let mut reference = Command::new(env!("CARGO_BIN_EXE_unfazed"));
        reference.arg("reference").arg(flag).arg(folder.path()).output().unwrap()
    };
    assert!(run("--write").status.success());
    assert!(run("--check").status.success());
    std::fs::write(folder.path().join("error-tables.md"), "# Old\n").unwrap();
    let stale = run("--check");
    assert_eq!(stale.status.code(), Some(1));
    let said = String::from_utf8_lossy(&stale.stderr).into_owned();
    assert!(said.contains("error-tables.md") && !said.contains("policy-reference.md"), "{said}");
    assert!(said.contains("unfazed reference --write"), "{said}");
}
