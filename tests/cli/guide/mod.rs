//! The guide is complete and true: what it shows loads, passes, compiles and prints what it says, and its links lead somewhere.
//!
//! What a block is, the words behind its fence say:
//!
//! - `yaml`: a file. Its first line is its name, `# policy.yaml`. Test files (`*.test.yaml`) pass, agent files
//!   (`agent.yaml`, `gateway.yaml`), scripts (`model.yaml`) and scenarios (`outage.yaml`, `limits.yaml`) can be read, and everything else is a policy without
//!   a problem, lints included. Files may name those that take precedence over them on the page.
//! - `yaml written`: a file that a command above it has written.
//! - `yaml wrong`: a file that has a problem, or a test file of which a case fails. (`docs/rules.md` has a test of its
//!   own, `tests/engine/rules.rs`, and words of its own.)
//! - `console`: commands behind `$`, each with what it prints and, in brackets, its exit code where it is not 0. All of a
//!   page run in one folder, with the files of the blocks above them. `UNFAZED_WRITE_GUIDE=1` writes anew what they print.
//! - `rust`: compiles and runs, by `src/doctests.rs`; in `README.md` a piece of an example.
//! - `python`: runs, and prints the `text` that follows, by `bindings/python/tests/test_docs.py`.
//! - `json`, `jsonl`, `toml`, `sh`, `ini`, `dockerfile`, `text`: nothing is done with them here.

mod blocks;
#[cfg(unix)]
mod commands;
mod complete;
mod events;
mod fresh;
mod links;
mod presets;
mod shown;

use std::fs;
use std::path::{Path, PathBuf};

use crate::command;

/// All pages, as paths from the root.
fn pages() -> Vec<String> {
    let mut pages: Vec<String> = files("docs", "md")
        .iter()
        .map(|path| path.strip_prefix(root()).unwrap().display().to_string())
        .collect();
    pages.push("README.md".to_owned());
    pages
}

fn files(dir: &str, ext: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(root().join(dir)).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let mut paths: Vec<_> = paths.filter(|path| path.extension().is_some_and(|found| found == ext)).collect();
    paths.sort();
    paths
}

fn read(page: &str) -> String {
    let path = root().join(page);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}
