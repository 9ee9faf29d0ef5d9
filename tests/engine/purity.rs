//! The order of the house: which module may use which, what the interpreter may not touch, and how tests run the command.

use std::fs;
use std::path::{Path, PathBuf};

/// The modules from the bottom up, each with those it may use besides itself and `time`.
const ORDER: &[(&str, &[&str])] = &[
    ("time", &[]),
    ("text", &[]),
    ("policy", &["text"]),
    ("session", &["text", "policy"]),
    ("engine", &["text", "policy", "session"]),
    ("context", &["text", "policy", "session", "engine"]),
    ("analysis", &["text", "policy", "session", "engine", "context"]),
    ("replay", &["text", "policy", "session", "engine"]),
    ("host", &["text", "policy", "session", "engine", "context", "analysis"]),
    ("store", &["text", "policy", "session", "engine", "context", "host"]),
    ("cases", &["text", "policy", "session", "engine", "context", "analysis", "host"]),
    ("simulate", &["text", "policy", "session", "engine", "context", "analysis", "host", "cases"]),
    ("tune", &["text", "policy", "engine", "analysis", "simulate"]),
    ("fuzzing", &["text", "policy", "session", "engine", "analysis", "replay", "host", "store"]),
    (
        "cli",
        &[
            "text", "policy", "session", "engine", "context", "analysis", "replay", "host", "cases",
            "simulate", "tune", "store",
        ],
    ),
];

/// The modules that are built without any feature: the interpreter.
const CORE: &[&str] = &["time", "text", "policy", "session", "engine", "context", "analysis", "replay"];

/// What the interpreter may not name outside its tests: clocks, files, the network, the environment, threads,
/// random streams.
const FORBIDDEN: &[&str] = &[
    "std::time::Instant",
    "SystemTime::now",
    "Instant::now",
    "std::fs",
    "std::net",
    "std::env",
    "std::process",
    "std::thread",
    "tokio::",
    "reqwest::",
    "rand::",
    "getrandom",
    "RandomState",
];

/// The files of the interpreter that hash, and what keeps that cheap for keys made to collide: where there is no source of
/// randomness, as in WebAssembly, everybody knows how the standard library hashes.
const HASHING: &[(&str, &str)] = &[
    ("src/context/history/repair.rs", "the keys are places in a list"),
    (
        "src/policy/classify/index.rs",
        "the keys are those of a table of at most 4 MiB, which its author reads",
    ),
    ("src/policy/classify/search.rs", "the keys are numbers of states"),
    ("src/policy/load.rs", "at most 1,024 names are kept"),
    (
        "src/policy/selector_index.rs",
        "the keys are selectors of a policy of at most 4 MiB, which its author reads",
    ),
    ("src/text/expr/json.rs", "CEL takes no other map; an expression takes at most 100,000 values"),
];

#[test]
fn every_module_uses_only_those_below_it() {
    let mut wrong = Vec::new();
    for (module, below) in ORDER {
        for file in sources(module) {
            for (number, line) in code(&file) {
                for used in uses(&line) {
                    if used.is_empty() {
                        wrong.push(format!("{}:{number}: one `use` for each module, please", file.display()));
                    }
                    let allowed = used == *module || used == "time" || below.contains(&used.as_str());
                    if ORDER.iter().any(|(known, _)| *known == used) && !allowed {
                        wrong.push(format!("{}:{number}: `{module}` uses `{used}`", file.display()));
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_module_of_the_library_has_its_place_in_the_order() {
    let lib = read(&root().join("src/lib.rs"));
    let modules = lib
        .lines()
        .filter_map(|line| line.trim_start_matches("pub ").strip_prefix("mod ")?.strip_suffix(';'));
    let modules = modules.filter(|module| Path::new(&root().join("src").join(module)).is_dir());
    let unknown: Vec<_> = modules.filter(|module| !ORDER.iter().any(|(known, _)| known == module)).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
}

#[test]
fn the_page_of_the_architecture_shows_the_order() {
    let page = read(&root().join("docs/architecture.md"));
    let (_, table) =
        page.split_once("| module | what is in it | may use |\n").expect("the table of the modules");
    let rows = table.lines().skip(1).take_while(|line| line.starts_with('|'));
    let mut shown: Vec<(Vec<String>, Vec<String>)> = rows
        .map(|row| row.trim_matches('|').split(" | ").collect::<Vec<_>>())
        .map(|cells| (quoted(cells[0]), quoted(cells[cells.len() - 1])))
        .collect();
    let mut held: Vec<(Vec<String>, Vec<String>)> =
        ORDER.iter().map(|(module, below)| (vec![(*module).to_owned()], owned(below))).collect();
    shown.sort();
    held.sort();
    assert_eq!(shown, held);
}

#[test]
fn the_page_of_the_architecture_says_what_the_interpreter_is() {
    let page = read(&root().join("docs/architecture.md"));
    let (_, sentence) = page.split_once("**The interpreter** is ").expect("the sentence");
    let (sentence, _) = sentence.split_once('.').expect("its end");
    assert_eq!(quoted(sentence), owned(CORE));
}

#[test]
fn the_interpreter_is_what_is_built_without_features() {
    let lib = read(&root().join("src/lib.rs"));
    let (mut built, mut gated) = (Vec::new(), false);
    for line in lib.lines() {
        match line.strip_prefix("pub mod ").and_then(|rest| rest.strip_suffix(';')) {
            Some(module) if !gated => built.push(module.to_owned()),
            _ => {}
        }
        gated = line.starts_with("#[") && (gated || line.starts_with("#[cfg("));
    }
    let mut core = owned(CORE);
    core.sort();
    assert_eq!(built, core);
}

#[test]
fn the_interpreter_touches_no_clock_no_file_and_no_chance() {
    let mut wrong = Vec::new();
    for file in CORE.iter().flat_map(|module| sources(module)) {
        for (number, line) in code(&file) {
            let named = FORBIDDEN.iter().filter(|name| names(&line, name));
            wrong.extend(named.map(|name| format!("{}:{number}: {name}", file.display())));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_interpreter_orders_what_others_may_make_collide() {
    let mut hashing: Vec<String> = Vec::new();
    for file in CORE.iter().flat_map(|module| sources(module)) {
        let hashes = |(_, line): &(usize, String)| names(line, "HashMap") || names(line, "HashSet");
        if code(&file).iter().any(hashes) {
            hashing.push(file.strip_prefix(root()).unwrap().display().to_string());
        }
    }
    hashing.sort();
    let known: Vec<&str> = HASHING.iter().map(|(file, _)| *file).collect();
    assert_eq!(hashing, known, "a BTreeMap is as good, or say here what bounds the keys");
}

/// A machine owns its state alone: it reaches neither the whole of it nor the step that asks it.
#[test]
fn no_machine_reaches_the_whole_state() {
    let mut wrong = Vec::new();
    let is_of_machine = |file: &PathBuf| file.components().any(|part| part.as_os_str() == "machine");
    let files: Vec<PathBuf> = sources("engine").into_iter().filter(is_of_machine).collect();
    assert!(files.len() > 5, "{files:?}");
    for file in files {
        for (number, line) in code(&file) {
            let words = |name: &&str| {
                line.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == *name)
            };
            let paths = |name: &&str| line.contains(*name);
            let named = ["State", "Step"].into_iter().filter(words);
            let named = named.chain(["super::step", "engine::step"].into_iter().filter(paths));
            wrong.extend(named.map(|name| format!("{}:{number}: {name}", file.display())));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn what_is_forbidden_would_be_found() {
    assert!(names("let now = std::time::Instant::now();", "std::time::Instant"));
    assert!(names("use rand::Rng;", "rand::"));
    assert!(!names("let operand::<u8>", "rand::"));
    assert_eq!(uses("use crate::host::Agent; fn f(_: crate::store::Fsync) {}"), ["host", "store"]);
    // Neither of these says here what is used.
    assert_eq!(uses("use crate::{host, store};"), [""]);
    assert_eq!(uses("use crate::*;"), [""]);
}

#[test]
fn every_test_of_the_command_runs_it_by_one_function() {
    let mut files = Vec::new();
    walk(&root().join("tests"), &mut files);
    let named = concat!("Command::new(env!(\"", "CARGO_BIN_EXE_unfazed\"");
    files.retain(|file| read(file).contains(named));
    assert!(files.is_empty(), "tests/cli/command.rs keeps the settings of whoever runs them away: {files:?}");
}

/// All files of a module.
fn sources(module: &str) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let src = root().join("src");
    let file = src.join(format!("{module}.rs"));
    if file.is_file() {
        files.push(file);
    } else {
        walk(&src.join(module), &mut files);
    }
    assert!(!files.is_empty(), "there is no module `{module}`");
    files
}

pub(crate) fn walk(dir: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            // A folder of tests may ask whatever it holds the module against.
            if !path.ends_with("tests") {
                walk(&path, files);
            }
        } else if path.extension().is_some_and(|ext| ext == "rs") && !path.ends_with("tests.rs") {
            files.push(path);
        }
    }
}

/// The lines of a file that are neither comment nor test, with their numbers.
pub(crate) fn code(file: &Path) -> Vec<(usize, String)> {
    let text = read(file);
    // Tests stand last.
    let end = text.find("#[cfg(test)]\nmod ").unwrap_or(text.len());
    let lines = text[..end].lines().enumerate();
    let code = lines.filter(|(_, line)| !line.trim_start().starts_with("//"));
    code.map(|(index, line)| (index + 1, line.to_owned())).collect()
}

/// The words a text has in back quotes.
pub(crate) fn quoted(text: &str) -> Vec<String> {
    text.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

fn owned(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// The modules of this crate a line names. A group or a glob gives an empty name: what it brings in is not read.
fn uses(line: &str) -> Vec<String> {
    let after = line.split("crate::").skip(1);
    after.map(|rest| rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()).collect()
}

/// Whether the line names `name` as a word of its own.
pub(crate) fn names(line: &str, name: &str) -> bool {
    line.match_indices(name).any(|(at, _)| {
        !line[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_')
            && (name.ends_with(':')
                || !line[at + name.len()..].starts_with(|c: char| c.is_alphanumeric() || c == '_'))
    })
}

pub(crate) fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}
