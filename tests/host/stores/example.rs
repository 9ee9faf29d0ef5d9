//! The example of sessions in a database, as a person would run it.

use std::process::{Command, Output};

use super::server::Database;

fn example(url: Option<&str>) -> Output {
    let mut command = Command::new(env!("CARGO"));
    command.args(["run", "--quiet", "--example", "postgres_store"]).current_dir(env!("CARGO_MANIFEST_DIR"));
    // What cargo tells this test of its package would be a change to crates that ask for it, and build them all anew.
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("CARGO_PKG_")) {
        command.env_remove(name);
    }
    command.env_remove("CARGO_MANIFEST_DIR").env_remove("CARGO_MANIFEST_PATH");
    match url {
        Some(url) => command.env("UNFAZED_PG_URL", url),
        None => command.env_remove("UNFAZED_PG_URL"),
    };
    command.output().unwrap()
}

#[test]
#[ignore = "it needs PostgreSQL: see the top of mod.rs"]
fn the_example_goes_on_with_the_session_of_another_host() {
    let database = Database::empty();
    let output = example(Some(&database.url()));
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    for expected in [
        "tables: version 2 (was 0)",
        "another host: ",
        "found by a word of it: true",
        "messages so far: 2",
        "messages now: 4; answered: At noon.",
        "kept as `the train to Oslo`, 2 runs",
    ] {
        assert!(said.contains(expected), "the example does not say: {expected}\n{said}");
    }
    assert_eq!(database.sql("select count(*) from unfazed_session"), "0");
}

#[test]
#[ignore = "it is built anew: see the top of mod.rs"]
fn the_example_says_what_it_needs() {
    let output = example(None);
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("set UNFAZED_PG_URL to its address"));
}
