//! No circles between the files of a module: of two that use each other, neither can be read first.
//!
//! The children of a module are its files and folders; what stands in the folder's own file (`mod.rs`) is the module itself. A child
//! uses another if a path in its files leads there, straight or by what the module exports.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::purity::{code, root, walk};

/// The segments of a path, from the root of the crate.
pub(crate) type ModulePath = Vec<String>;

/// A file as a module.
struct Module {
    file: PathBuf,
    /// The paths it names, as they are written, each with its line.
    named: Vec<(usize, Vec<String>)>,
    /// What it brings in or exports, by its name here.
    imports: BTreeMap<String, ModulePath>,
}

pub(crate) struct Modules(BTreeMap<ModulePath, Module>);

/// The arrows between the children of a module, each with the places that make it.
type Arrows = BTreeMap<(String, String), Vec<String>>;

#[test]
fn no_files_of_a_module_use_each_other_in_circles() {
    let mut found = Vec::new();
    for (module, arrows) in Modules::read().arrows() {
        for circle in circles(&arrows) {
            let children = circle.join(" ");
            found.push(format!("{}: {children}\n{}", module.join("::"), shown(&circle, &arrows)));
        }
    }
    assert!(found.is_empty(), "circles:\n{}", found.join("\n"));
}

#[test]
fn circles_are_found() {
    let arrows = |list: &[(&str, &str)]| -> Arrows {
        list.iter().map(|(a, b)| (((*a).to_owned(), (*b).to_owned()), vec![])).collect()
    };
    let of = |list| circles(&arrows(list));
    assert_eq!(of(&[("a", "b"), ("b", "c"), ("a", "c")]), Vec::<Vec<String>>::new());
    assert_eq!(of(&[("a", "b"), ("b", "a"), ("b", "c"), ("d", "a")]), [["a", "b"]]);
    assert_eq!(of(&[("a", "b"), ("b", "c"), ("c", "a")]), [["a", "b", "c"]]);
}

#[test]
fn trees_of_paths_are_read() {
    let text = "use super::{a::{B, self}, c as d};\nlet x = crate::e::<F>::g();\n";
    let paths = paths(text);
    let written: Vec<String> =
        paths.iter().map(|(line, path)| format!("{line} {}", path.join("::"))).collect();
    assert_eq!(written, ["1 super::a::B", "1 super::a::self", "1 super::c", "2 crate::e"]);
    let imports = |text: &str| imported(text, &["x".to_owned()]);
    assert_eq!(imports("pub(crate) use super::{a::B as C};\n")["C"], ["a", "B"]);
    assert_eq!(imports("pub use a::{self, B};\n")["B"], ["x", "a", "B"]);
    assert_eq!(imports("pub use a::{self, B};\n")["a"], ["x", "a"]);
}

impl Modules {
    pub(crate) fn read() -> Self {
        let src = root().join("src");
        let mut files = Vec::new();
        walk(&src, &mut files);
        let module = |file: PathBuf| {
            let path = module_path(file.strip_prefix(&src).unwrap());
            let lines: BTreeMap<usize, String> = code(&file).into_iter().collect();
            let last = lines.keys().last().copied().unwrap_or(0);
            let text: Vec<&str> =
                (1..=last).map(|number| lines.get(&number).map_or("", String::as_str)).collect();
            let text = text.join("\n");
            let file = file.strip_prefix(root()).unwrap().to_owned();
            let module = Module { file, named: paths(&text), imports: imported(&text, &path) };
            (path, module)
        };
        Self(files.into_iter().map(module).collect())
    }

    fn arrows(&self) -> BTreeMap<ModulePath, Arrows> {
        let mut all: BTreeMap<ModulePath, Arrows> = BTreeMap::new();
        for (from, module) in &self.0 {
            for (line, written) in &module.named {
                let to = self.module_of(&absolute(from, written), 0);
                let shared = from.iter().zip(&to).take_while(|(a, b)| a == b).count();
                if let (Some(a), Some(b)) = (from.get(shared), to.get(shared)) {
                    let arrows = all.entry(from[..shared].to_vec()).or_default();
                    let place = format!("{}:{line}: {}", module.file.display(), written.join("::"));
                    arrows.entry((a.clone(), b.clone())).or_default().push(place);
                }
            }
        }
        all
    }

    /// The module in which it is that a path leads to: what one exports of another is in the other.
    pub(crate) fn module_of(&self, path: &[String], depth: usize) -> ModulePath {
        let known = (0..=path.len()).rev().find(|length| self.0.contains_key(&path[..*length]));
        let (module, rest) = path.split_at(known.unwrap_or(0));
        let exported = rest.first().and_then(|name| self.0.get(module)?.imports.get(name));
        match exported {
            Some(target) if depth < 8 && target[..] != path[..] => {
                self.module_of(&[&target[..], &rest[1..]].concat(), depth + 1)
            }
            _ => module.to_vec(),
        }
    }
}

pub(crate) fn module_path(file: &Path) -> ModulePath {
    let mut path: ModulePath =
        file.with_extension("").iter().map(|part| part.to_string_lossy().into_owned()).collect();
    if path.last().is_some_and(|name| ["mod", "lib", "main"].contains(&&**name)) {
        path.pop();
    }
    path
}

/// A path that is written in a module, from the root of the crate.
pub(crate) fn absolute(module: &[String], written: &[String]) -> ModulePath {
    let mut base = module.to_vec();
    let mut rest = written;
    while let [first, after @ ..] = rest {
        match first.as_str() {
            "crate" => base.clear(),
            "super" => drop(base.pop()),
            "self" => {}
            _ => break,
        }
        rest = after;
    }
    // `a::self` is `a`.
    let named = rest.iter().filter(|name| *name != "self").cloned();
    base.into_iter().chain(named).collect()
}

/// The paths of a text that begin at the crate, at the module above or here, with the lines they begin in. A tree is all its paths.
pub(crate) fn paths(text: &str) -> Vec<(usize, Vec<String>)> {
    let mut found = Vec::new();
    for start in ["crate::", "super::", "self::"] {
        for (at, _) in text.match_indices(start) {
            if text[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == ':') {
                continue;
            }
            let line = text[..at].matches('\n').count() + 1;
            let mut leaves = Vec::new();
            tree(&text[at..], &[], &mut leaves);
            found.extend(leaves.into_iter().map(|(path, _)| (line, path)));
        }
    }
    found.sort();
    found
}

/// Reads a path or a tree of them, and returns what follows. Each leaf has the name it gets here.
fn tree<'t>(text: &'t str, before: &[String], leaves: &mut Vec<(Vec<String>, String)>) -> &'t str {
    let mut path = before.to_vec();
    let mut rest = text.trim_start();
    loop {
        if let Some(mut inner) = rest.strip_prefix('{') {
            loop {
                inner = inner.trim_start_matches([' ', '\n', ',']);
                match inner.strip_prefix('}') {
                    Some(after) => return after,
                    None if inner.is_empty() => return inner,
                    None => inner = tree(inner, &path, leaves),
                }
            }
        }
        let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
        let (name, after) = rest.split_at(end);
        if name.is_empty() {
            // A glob, or the generics of a value.
            leaves.push((path, String::new()));
            return rest.get(1..).unwrap_or_default();
        }
        path.push(name.to_owned());
        match after.strip_prefix("::") {
            Some(next) if !next.starts_with('<') => rest = next,
            _ => {
                let alias = after.trim_start().strip_prefix("as ").map(str::trim_start);
                let end =
                    |text: &str| text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
                let renamed = alias.map(|alias| alias[..end(alias)].to_owned());
                let own =
                    if name == "self" { path.iter().rev().nth(1).cloned() } else { Some(name.to_owned()) };
                let after = alias.map_or(after, |alias| &alias[end(alias)..]);
                leaves.push((path, renamed.or(own).unwrap_or_default()));
                return after;
            }
        }
    }
}

/// What a module brings in, by the names it has there.
pub(crate) fn imported(text: &str, module: &[String]) -> BTreeMap<String, ModulePath> {
    let mut all = BTreeMap::new();
    for line_start in text.match_indices("use ").map(|(at, _)| at) {
        let before = text[..line_start].rsplit('\n').next().unwrap_or_default().trim();
        if !(before.is_empty() || before.starts_with("pub")) {
            continue;
        }
        let mut leaves = Vec::new();
        tree(&text[line_start + 4..], &[], &mut leaves);
        for (path, name) in leaves.into_iter().filter(|(_, name)| !name.is_empty()) {
            all.insert(name, absolute(module, &path));
        }
    }
    all
}

/// The sets of children that reach each other.
fn circles(arrows: &Arrows) -> Vec<Vec<String>> {
    let children: BTreeSet<&String> = arrows.keys().flat_map(|(a, b)| [a, b]).collect();
    let reached = |from: &String| {
        let (mut reached, mut left) = (BTreeSet::new(), vec![from]);
        while let Some(at) = left.pop() {
            for (_, to) in arrows.keys().filter(|(a, _)| a == at) {
                if reached.insert(to) {
                    left.push(to);
                }
            }
        }
        reached
    };
    let reach: BTreeMap<&String, BTreeSet<&String>> =
        children.iter().map(|child| (*child, reached(child))).collect();
    let mut found: BTreeSet<Vec<String>> = BTreeSet::new();
    for (child, to) in &reach {
        let circle: Vec<String> =
            to.iter().filter(|other| reach[*other].contains(child)).map(|other| (*other).clone()).collect();
        if circle.len() > 1 {
            found.insert(circle);
        }
    }
    found.into_iter().collect()
}

/// The arrows of a circle, each with its first places.
fn shown(circle: &[String], arrows: &Arrows) -> String {
    let inside = arrows.iter().filter(|((a, b), _)| circle.contains(a) && circle.contains(b));
    let line = |((a, b), places): (&(String, String), &Vec<String>)| {
        let first: Vec<&str> = places.iter().take(3).map(String::as_str).collect();
        format!("        {a} -> {b} ({}): {}", places.len(), first.join("; "))
    };
    inside.map(line).collect::<Vec<_>>().join("\n")
}
