//! The chosen point as a policy that a person reads.

use std::fmt::Write as _;
use std::path::{Component, Path, PathBuf};

use serde_json::Value;

use super::TunedPolicy;
use super::words::{FIGURES, heading, losses, shown};
use crate::cli::text::one_line;
use crate::tune::TunedPoint;

/// The policy, with what each value is worth. It extends those it was made from, as the file at `path` finds them.
pub(super) fn policy(
    tuned: &TunedPolicy<'_, '_>,
    point: &TunedPoint,
    path: &Path,
    layers: &[PathBuf],
) -> String {
    let names: Vec<String> =
        tuned.scenarios.iter().map(|scenario| one_line(scenario.scenario.name())).collect();
    let mut page = format!(
        "# Found by `unfazed tune` for {}, with seed {}, in:\n# {}\n#\n",
        one_line(&tuned.args.policy),
        tuned.args.seed,
        names.join(", ")
    );
    for figure in FIGURES {
        let (was, is) = (shown(&tuned.result.base.measure, figure), shown(&point.measure, figure));
        let _ = writeln!(page, "# {:<14}  {was} -> {is}", heading(figure));
    }
    page.push_str("version: 1\n");
    let extended: Vec<String> = layers.iter().filter_map(|layer| extended(layer, path)).map(plain).collect();
    match extended.as_slice() {
        [] => {}
        [one] => _ = writeln!(page, "extends: {one}"),
        several => _ = writeln!(page, "extends: [{}]", several.join(", ")),
    }
    page.push_str(&tuned.subject.layer(&point.point).lines(&|at| comments(tuned, point, at)));
    page
}

/// The comments on the value of a block: what each key in it was, and what is lost without it.
fn comments(tuned: &TunedPolicy<'_, '_>, point: &TunedPoint, at: &[&str]) -> Vec<String> {
    let keys = (0..point.point.len()).filter(|key| point.point[*key].is_some());
    let own = keys.filter(|key| tuned.subject.block(*key) == at);
    let said = own.map(|key| {
        let name = tuned.subject.keys[key].name.rsplit('.').next().unwrap_or_default();
        let was =
            tuned.subject.before(key).map_or("was not set".into(), |was| format!("was {}", one_line(&was)));
        let without = without(tuned, point, key).map(|without| format!("; {without}")).unwrap_or_default();
        format!("{} {was}{without}", one_line(name))
    });
    said.collect()
}

/// What is lost without the value of a key, in the scenario that needs it most.
fn without(tuned: &TunedPolicy<'_, '_>, point: &TunedPoint, key: usize) -> Option<String> {
    let chosen = tuned.result.chosen.as_ref()?;
    let (_, other) = chosen.without.iter().find(|(of, _)| *of == key)?;
    let each = other.each.iter().zip(&point.each).zip(tuned.scenarios);
    let ((other, own), scenario) = each.max_by_key(|((other, own), _)| {
        tuned.objective.loss(other, &crate::tune::PointMeasure::best([**other, **own]))
    })?;
    let name = Path::new(scenario.scenario.name()).file_stem()?.to_str()?.to_owned();
    let lost = losses(other, own).into_iter().next()?;
    Some(format!("without it {} {lost}", one_line(&name)))
}

/// The path of a layer as a file finds it that extends it; `None`: it is under every policy.
fn extended(layer: &Path, from: &Path) -> Option<String> {
    let name = layer.to_str()?;
    if name == "builtin:default" {
        return None;
    }
    if name.starts_with("builtin:") {
        return Some(name.to_owned());
    }
    let folder = from.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match (folder.canonicalize(), layer.canonicalize()) {
        (Ok(folder), Ok(layer)) => relative(&folder, &layer),
        _ => Some(name.to_owned()),
    }
}

/// A path as YAML takes it.
fn plain(path: String) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/');
    let is_name =
        path.starts_with(|c: char| c.is_ascii_alphabetic() || c == '.') && path.chars().all(is_plain);
    if is_name { path } else { Value::from(path).to_string() }
}

fn relative(folder: &Path, file: &Path) -> Option<String> {
    let (mut from, mut to) = (folder.components().peekable(), file.components().peekable());
    while from.peek().is_some() && from.peek() == to.peek() {
        from.next();
        to.next();
    }
    let up = from.map(|_| Component::ParentDir);
    let path: PathBuf = up.chain(to).collect();
    path.to_str().map(|path| path.replace('\\', "/"))
}
