//! An agent file with the policies and scripts it names, every mistake in all of them at its place.

use std::fmt;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use indexmap::IndexMap;

use super::{AgentFile, ModelEntry, routes};
use crate::context::ModelCatalogue;
use crate::host::read_file::{MOST, read_file};
use crate::host::scripted::Script;
use crate::host::{PolicyFiles, file_error, similar_file};
use crate::policy::decode::{DecodedDocument, Spanned};
use crate::policy::{Loader, Policy, Price};
use crate::text::{Code, Diagnostic, Report};

/// An agent file and what it names, without mistakes.
#[derive(Clone)]
#[non_exhaustive]
pub struct NamedAgent {
    /// The path of the agent file.
    pub path: PathBuf,
    /// The agent file.
    pub(crate) file: DecodedDocument<AgentFile>,
    /// The policy that it names.
    pub policy: Policy,
    /// The scripts by the names of their models.
    pub scripts: IndexMap<String, Script>,
    /// The user's file of models.
    pub models: Option<ModelCatalogue>,
    /// What its policy was loaded with.
    pub(super) loader: Loader,
}

/// Where it is and the digest of its policy; the file may have what nobody is to see.
impl fmt::Debug for NamedAgent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("NamedAgent");
        shown.field("path", &self.path).field("policy", &self.policy.digest()).finish_non_exhaustive()
    }
}

impl NamedAgent {
    /// Reads an agent file and everything it names. `path` is where the file with these bytes is: what it names is found from
    /// there. Warnings come along with what was read; with an error among the reports there is no agent.
    pub fn read(path: &Path, bytes: &[u8], loader: &Loader) -> (Option<Self>, Vec<Report>) {
        let (file, report) = AgentFile::read_rest(&path.display().to_string(), bytes);
        let mut reports: Vec<Report> = report.into_iter().collect();
        let Some(file) = file else { return (None, reports) };
        let folder = path.parent().unwrap_or(Path::new(""));
        let mut missing = Vec::new();
        let policy = policy(&file.value, folder, loader, &mut missing, &mut reports);
        let scripts = scripts(&file.value, folder, &mut missing, &mut reports);
        let models = file
            .value
            .model_windows
            .as_ref()
            .and_then(|named| models(folder, named, &mut missing, &mut reports));
        if let Some(policy) = &policy {
            missing.extend(taken_name(&file, policy));
            unpriced(&file, policy, models.as_ref(), &mut missing);
            missing.extend(unpriced_keys(&file, policy, models.as_ref()));
        }
        missing.extend(routes::problems(&file));
        if !missing.is_empty() {
            reports.insert(0, file.report(missing));
        }
        let usable = !reports.iter().any(Report::has_errors);
        let named = policy.filter(|_| usable).map(|policy| Self {
            path: path.to_path_buf(),
            file,
            policy,
            scripts,
            models,
            loader: loader.clone(),
        });
        (named, reports)
    }

    /// The files that the agent file names.
    pub fn paths(&self) -> Vec<PathBuf> {
        let file = &self.file.value;
        let scripts = file.models.values().filter_map(ModelEntry::script);
        let named = file.policy.0.iter().chain(scripts).chain(&file.model_windows);
        named.map(|named| self.folder().join(&named.value)).collect()
    }

    /// The files of its policy, the later ones above the earlier ones.
    pub(crate) fn policy_paths(&self) -> Vec<PathBuf> {
        self.file.value.policy.0.iter().map(|named| self.folder().join(&named.value)).collect()
    }

    /// The folder that paths in the file start at.
    pub(super) fn folder(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new(""))
    }

    /// What the tokens of a model of the agent cost.
    pub(super) fn price(&self, name: &str) -> Option<Price> {
        price(self.file.value.models.get(name)?, name, self.models.as_ref())
    }
}

/// What the tokens of a model of the agent cost, as its file says, or the file of models that it names, or the catalogue that
/// ships with the product. That has the prices of hosted models, which a server of the user's own does not ask.
fn price(entry: &ModelEntry, name: &str, models: Option<&ModelCatalogue>) -> Option<Price> {
    let facts = entry.facts(name);
    let hosted = || entry.api().is_some_and(|api| api.config.is_hosted());
    let listed = || hosted().then(|| ModelCatalogue::builtin().price(&facts.model)).flatten();
    facts.price.or_else(|| models?.price(&facts.model)).or_else(listed)
}

/// A tool of the agent that has the name of the one that takes the final report.
fn taken_name(file: &DecodedDocument<AgentFile>, policy: &Policy) -> Option<Diagnostic> {
    let tool = &policy.output()?.tool;
    let name = &tool.value;
    file.value.tools.contains_key(name).then(|| {
        let message = format!("`{name}` is also the tool the policy takes the final report by");
        let problem = Diagnostic::error(Code::CONTRADICTION, AgentFile::key(file, &["tools", name]), message);
        let place = policy.place(tool.origin);
        problem.help(format!("give one of them another name; the report's: {place}"))
    })
}

/// Reports the models whose price nobody says, if the policy bounds what a run may cost.
fn unpriced(
    file: &DecodedDocument<AgentFile>,
    policy: &Policy,
    models: Option<&ModelCatalogue>,
    missing: &mut Vec<Diagnostic>,
) {
    if policy.run_limits().cost.is_none() {
        return;
    }
    for (name, entry) in &file.value.models {
        let Err(error) = policy.prices([(name.as_str(), price(entry, name, models))]) else { continue };
        let message = format!(
            "the price of the model `{name}` is unknown, and `limits.run.cost` bounds what a run may spend"
        );
        let problem = Diagnostic::error(Code::NO_PRICE, AgentFile::key(file, &["models", name]), message);
        missing.push(problem.help(format!(
            "write `price: {{input: 2.50, output: 10}}` here, in US dollars per million tokens; the budget is at {}",
            error.place
        )));
    }
}

/// The models whose price nobody says, if a key that may use them has a budget of money.
fn unpriced_keys(
    file: &DecodedDocument<AgentFile>,
    policy: &Policy,
    models: Option<&ModelCatalogue>,
) -> Vec<Diagnostic> {
    let is_unknown = |name: &str, entry: &ModelEntry| {
        price(entry, name, models).is_none() && policy.model(name).price.value.known().is_none()
    };
    let unpriced = file.value.models.iter().filter(|(name, entry)| is_unknown(name, entry));
    let problem = |(name, _): (&String, &ModelEntry)| {
        let key = routes::keys_with_costs(&file.value).find(|key| key.models.contains(&name.as_str()))?;
        let message = format!(
            "the price of the model `{name}` is unknown, and the budget of the key `{}` is in US dollars",
            key.name
        );
        let place = file.sources().place_of(key.cost);
        let problem = Diagnostic::error(Code::NO_PRICE, AgentFile::key(file, &["models", name]), message);
        Some(problem.help(format!(
            "write `price: {{input: 2.50, output: 10}}` here, in US dollars per million tokens; the budget is at {place}"
        )))
    };
    unpriced.filter_map(problem).collect()
}

fn policy(
    file: &AgentFile,
    folder: &Path,
    loader: &Loader,
    missing: &mut Vec<Diagnostic>,
    reports: &mut Vec<Report>,
) -> Option<Policy> {
    let sources: Vec<_> =
        file.policy.0.iter().filter_map(|path| follow(folder, path, "policy", missing)).collect();
    // The layers that are there may hold only together with those that are not.
    let complete = sources.len() == file.policy.0.len();
    let loader = if complete { loader.clone() } else { loader.clone().incomplete() };
    match PolicyFiles::new().load_named(&loader, sources) {
        Ok(policy) => {
            reports.extend(policy.warnings().cloned());
            Some(policy)
        }
        Err(report) => {
            reports.extend(Some(report).filter(|report| !report.is_empty()));
            None
        }
    }
}

/// The scripts by the names of their models. Several models may have one: its mistakes are reported once.
fn scripts(
    file: &AgentFile,
    folder: &Path,
    missing: &mut Vec<Diagnostic>,
    reports: &mut Vec<Report>,
) -> IndexMap<String, Script> {
    let (mut scripts, mut read) = (IndexMap::new(), IndexMap::<String, Option<Script>>::new());
    for (name, entry) in &file.models {
        let Some(named) = entry.script() else { continue };
        let Some((path, bytes)) = follow(folder, named, "script", missing) else { continue };
        let script = read.entry(path).or_insert_with_key(|path| {
            Script::from_yaml(path, &bytes).map_err(|report| reports.push(report)).ok()
        });
        scripts.extend(script.clone().map(|script| (name.clone(), script)));
    }
    scripts
}

/// The file of models that is named there, or a problem at that place.
fn models(
    folder: &Path,
    named: &Spanned<String>,
    missing: &mut Vec<Diagnostic>,
    reports: &mut Vec<Report>,
) -> Option<ModelCatalogue> {
    let (path, bytes) = follow(folder, named, "file of models", missing)?;
    if Path::new(&path).extension().is_some_and(|end| end == "yaml" || end == "yml") {
        return ModelCatalogue::read(&path, &bytes).map_err(|report| reports.push(report)).ok();
    }
    match ModelCatalogue::litellm(&bytes) {
        Ok(models) => Some(models),
        Err(error) => {
            let message = format!("cannot use {path}: {error}");
            missing.push(Diagnostic::error(Code::BAD_VALUE, named.span, message));
            None
        }
    }
}

/// The file that is named there, or a problem at that place.
fn follow(
    folder: &Path,
    named: &Spanned<String>,
    what: &str,
    missing: &mut Vec<Diagnostic>,
) -> Option<(String, Vec<u8>)> {
    let path = folder.join(&named.value);
    match read_file(&path, MOST) {
        Ok(bytes) => Some((path.display().to_string(), bytes)),
        Err(error) => {
            let why = file_error(&error);
            let message = format!("cannot read the {what} {}: {why}", path.display());
            let problem = Diagnostic::error(Code::UNKNOWN_NAME, named.span, message);
            let near = similar_file(&path).filter(|_| error.kind() == ErrorKind::NotFound);
            let near = near.and_then(|near| Some(near.strip_prefix(folder).ok()?.display().to_string()));
            missing.push(match near {
                Some(near) => problem.label(format!("did you mean `{near}`?")),
                None => problem.help("paths start at the folder of this file"),
            });
            None
        }
    }
}
