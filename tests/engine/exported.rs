//! The host uses of the interpreter only what every host has: what the library exports.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::circles::{Modules, absolute, imported, module_path, paths};
use crate::purity::{code, names, root, walk};

/// The modules whose crate-private items a host does without.
const CORE: [&str; 4] = ["policy", "session", "engine", "context"];

/// What only reads files and tells what happened, and decides nothing: the host's own files are read, and its log lines told, as
/// the policy's and those of the command are.
const WORDS: [&[&str]; 3] = [&["policy", "decode"], &["policy", "document"], &["engine", "narrate"]];

#[test]
fn the_host_uses_what_the_library_exports() {
    let (hidden, methods) = (CORE.map(|module| (module, hidden(module))), hidden_methods());
    assert!(hidden.iter().any(|(_, hidden)| hidden.contains("orphans")), "{hidden:?}");
    assert!(methods.len() > 20, "{methods:?}");
    let hidden = BTreeMap::from(hidden);
    let (modules, mut wrong) = (Modules::read(), Vec::new());
    for file in files("src/host") {
        let lines = code(&file);
        let text: Vec<&str> = lines.iter().map(|(_, line)| line.as_str()).collect();
        let module = module_path(file.strip_prefix(root().join("src")).unwrap());
        for (line, written) in paths(&text.join("\n")) {
            let path = absolute(&module, &written);
            let defined = modules.module_of(&path, 0);
            if let [first, second, ..] = &path[..]
                && !WORDS
                    .iter()
                    .any(|words| defined.iter().zip(*words).filter(|(a, b)| a == b).count() == words.len())
                && hidden.get(first.as_str()).is_some_and(|hidden| hidden.contains(second))
            {
                wrong.push(format!("{}:{}: {first}::{second}", file.display(), lines[line - 1].0));
            }
        }
        for (number, line) in &lines {
            let called = methods.iter().filter(|name| {
                [format!(".{name}("), format!("::{name}(")].iter().any(|call| line.contains(call))
            });
            wrong.extend(called.map(|name| format!("{}:{number}: {name}()", file.display())));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What the modules may re-export together. Each further name is one that users read, and that cannot be taken back: if a new one
/// is needed, make another one private, and lower this when names go.
const MOST_NAMES: usize = 453;

#[test]
fn the_library_has_few_names() {
    let mut names = BTreeSet::new();
    for file in files("src").iter().filter(|file| file.ends_with("mod.rs")) {
        let module = file.strip_prefix(root().join("src")).unwrap().parent().unwrap();
        if module.components().count() == 1
            && !["cli", "tune", "fuzzing"].iter().any(|own| module.ends_with(own))
        {
            names.extend(
                used(file, "pub use ").into_iter().map(|name| format!("{}::{name}", module.display())),
            );
        }
    }
    assert!(names.contains("engine::Directive"), "{names:?}");
    assert!(names.len() <= MOST_NAMES, "{} names, at most {MOST_NAMES}: {names:#?}", names.len());
}

/// The names that a file takes from others by such a statement.
fn used(file: &Path, how: &str) -> BTreeSet<String> {
    let text = code(file).into_iter().map(|(_, line)| line).collect::<Vec<_>>().join("\n");
    let statements =
        text.split_inclusive(';').filter_map(|statement| Some(&statement[statement.find(how)?..]));
    statements.flat_map(|statement| imported(statement, &[]).into_keys()).collect()
}

/// The items of a module that only this crate can name.
fn hidden(module: &str) -> BTreeSet<String> {
    let lines = code(&root().join("src").join(module).join("mod.rs"));
    let text = lines.into_iter().map(|(_, line)| line).collect::<Vec<_>>().join("\n");
    let mut hidden = BTreeSet::new();
    for statement in text.split_inclusive(';') {
        if let Some(at) = statement.find("pub(crate) use ") {
            hidden.extend(imported(&statement[at..], &[]).into_keys());
        }
        if let Some((_, rest)) = statement.split_once("pub(crate) mod ") {
            hidden.extend(rest.strip_suffix(';').map(str::to_owned));
        }
    }
    hidden
}

/// The methods of these modules that only this crate can call, as far as no other function of the crate has their name.
fn hidden_methods() -> BTreeSet<String> {
    let mut defined: BTreeMap<String, Vec<bool>> = BTreeMap::new();
    for file in files("src") {
        let place = file.strip_prefix(root()).unwrap().display().to_string();
        let is_core = CORE.iter().any(|module| place.starts_with(&format!("src/{module}/")));
        for (_, line) in code(&file) {
            let Some((before, rest)) = line.split_once("fn ") else { continue };
            let name = rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
            let hidden = before.starts_with("    ") && names(before, "pub(crate)");
            defined.entry(name).or_default().push(
                is_core
                    && hidden
                    && !WORDS.iter().any(|words| place.starts_with(&format!("src/{}", words.join("/")))),
            );
        }
    }
    let hidden = defined.into_iter().filter(|(_, hidden)| hidden.iter().all(|hidden| *hidden));
    hidden.map(|(name, _)| name).collect()
}

fn files(folder: impl AsRef<Path>) -> Vec<PathBuf> {
    let mut files = Vec::new();
    walk(&root().join(folder), &mut files);
    files
}
