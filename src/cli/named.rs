//! An agent file with the policies and scripts it names, every mistake in all of them at its place.

use std::collections::{HashMap, HashSet};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use indexmap::IndexMap;
use unfazed::context::ModelCatalogue;
use unfazed::host::PolicyFiles;
use unfazed::host::agent_file::{AgentFile, ModelEntry};
use unfazed::host::scripted::Script;
use unfazed::policy::decode::{Document, Spanned};
use unfazed::policy::yaml::{self, Data, Node};
use unfazed::policy::{
    Code, Diagnostic, Findings, Loader, Policy, Price, Report, SourceId, Sources, Span, did_you_mean,
};

use super::exit::Failed;
use super::files;
use super::settings::Settings;

/// The setting that chooses a profile where no flag does.
const SETTING: &str = "UNFAZED_PROFILE, or `profile` in the settings file,";

/// A policy, in words.
const POLICY: &str = "a policy";

/// What a file is, by its top-level keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A policy, or nothing known.
    Policy,
    /// An agent file.
    Agent,
    /// A script of a model.
    Script,
    /// Cases for `unfazed test`.
    Test,
    /// A call for `unfazed explain --call`.
    Call,
    /// A catalogue of models.
    Models,
    /// A scenario for `unfazed simulate`.
    Scenario,
}

/// An agent file and what it names, without mistakes.
pub(crate) struct Named {
    pub(crate) file: Document<AgentFile>,
    pub(crate) policy: Policy,
    /// The scripts by the names of their models.
    pub(crate) scripts: IndexMap<String, Script>,
    /// The user's file of models.
    pub(crate) models: Option<ModelCatalogue>,
}

impl Named {
    /// The files that the agent file at `path` names.
    pub(crate) fn paths(&self, path: &Path) -> Vec<PathBuf> {
        let file = &self.file.value;
        let scripts = file.models.values().filter_map(|entry| match entry {
            ModelEntry::Scripted { script, .. } => Some(script),
            ModelEntry::OpenAi { .. } | ModelEntry::Anthropic { .. } => None,
        });
        let folder = path.parent().unwrap_or(Path::new(""));
        let named = file.policy.0.iter().chain(scripts).chain(&file.model_windows);
        named.map(|named| folder.join(&named.value)).collect()
    }
}

/// Whether the file is a policy without mistakes.
pub(crate) fn is_policy(path: &Path, bytes: &[u8]) -> bool {
    other_kind(path, bytes) == Some(POLICY)
}

/// What the file certainly is, in words, if it is no agent file.
pub(crate) fn other_kind(path: &Path, bytes: &[u8]) -> Option<&'static str> {
    match kind(bytes) {
        Kind::Agent => None,
        Kind::Policy => {
            let source = (path.display().to_string(), bytes.to_vec());
            let loaded = PolicyFiles::new().load_named(&Loader::new(), vec![source]);
            loaded.is_ok().then_some(POLICY)
        }
        Kind::Script => Some("a script of a model"),
        Kind::Test => Some("a file of cases"),
        Kind::Call => Some("a call of a tool"),
        Kind::Models => Some("a file of models"),
        Kind::Scenario => Some("a scenario"),
    }
}

/// Says so if the file is something else than the agent file that a command takes.
pub(crate) fn is_agent(path: &Path, bytes: &[u8], command: &str) -> Result<(), Failed> {
    let Some(what) = other_kind(path, bytes) else { return Ok(()) };
    let file = path.display();
    let wants = match what {
        POLICY => "an agent file, which names it under `policy`",
        _ => "an agent file",
    };
    Err(Failed::Usage(format!("{file} is {what}; `unfazed {command}` takes {wants}")))
}

/// What the file is. A test file has cases; a script has replies; a scenario has agents; a call has arguments or a planner; a
/// catalogue has a list of models; an agent has a task, a policy, models with an `api` or tools with a `kind`.
pub(crate) fn kind(bytes: &[u8]) -> Kind {
    if !may_tell(bytes) {
        return Kind::Policy;
    }
    let load = |bytes: &[u8]| yaml::load(&mut Sources::new(), &mut Findings::default(), "", bytes).1;
    let Some(root) = beginning(bytes).and_then(load).or_else(|| load(bytes)) else { return Kind::Policy };
    let any = |key: &str, field: &str| match root.get(key).map(|node| &node.data) {
        Some(Data::Map(entries)) => entries.iter().any(|(_, entry)| entry.get(field).is_some()),
        Some(Data::List(entries)) => entries.iter().any(|entry| entry.get(field).is_some()),
        _ => false,
    };
    let names = |node: &Node| matches!(&node.data, Data::List(rows) if rows.iter().any(|row| row.get("names").is_some()));
    let has = |key: &str| Node::get(&root, key).is_some();
    if has("cases") {
        Kind::Test
    } else if has("replies") {
        Kind::Script
    } else if any("models", "api") || any("tools", "kind") || has("task") || has("system") {
        Kind::Agent
    } else if has("agents") {
        Kind::Scenario
    } else if has("policy") {
        Kind::Agent
    } else if has("arguments") || has("planner") {
        Kind::Call
    } else if Node::get(&root, "models").is_some_and(names) {
        Kind::Models
    } else {
        misspelt(&root).unwrap_or(Kind::Policy)
    }
}

/// What a file is if the key that tells it is misspelt, and no key is a policy's alone.
fn misspelt(root: &Node) -> Option<Kind> {
    const TELLING: [(&str, Kind); 5] = [
        ("cases", Kind::Test),
        ("replies", Kind::Script),
        ("agents", Kind::Scenario),
        ("arguments", Kind::Call),
        ("planner", Kind::Call),
    ];
    const POLICY: [&str; 10] = [
        "extends", "profiles", "limits", "retry", "turn", "output", "history", "context", "session", "errors",
    ];
    let Data::Map(entries) = &root.data else { return None };
    let mut kind = None;
    for (key, _) in entries.iter().take(TELLING.len().saturating_add(POLICY.len())) {
        if POLICY.contains(&&*key.name) {
            return None;
        }
        let known = TELLING.iter().map(|(name, _)| *name).chain(POLICY).chain(["version", "models", "tools"]);
        let near = did_you_mean(&key.name, known);
        kind = kind.or_else(|| TELLING.iter().find(|(name, _)| near == Some(name)).map(|(_, kind)| *kind));
    }
    kind
}

/// Whether a long text holds any word that makes it something else than a policy: reading it takes longer than looking.
fn may_tell(bytes: &[u8]) -> bool {
    const LONG: usize = 64 << 10;
    let Ok(text) = core::str::from_utf8(bytes) else { return true };
    let words = ["cases", "replies", "task", "system", "agents", "arguments", "planner", "api", "kind", "\\"];
    bytes.len() < LONG || words.iter().any(|word| text.contains(word))
}

/// The first lines of a long file, if its keys stand at the beginnings of lines and tell there what it is: what comes
/// later of them changes nothing about the kind.
fn beginning(bytes: &[u8]) -> Option<&[u8]> {
    const LINES: usize = 64 << 10;
    if bytes.len() < 2 * LINES || matches!(bytes.first(), Some(b'{' | b'[')) {
        return None;
    }
    let telling: [&[u8]; 7] =
        [b"cases:", b"replies:", b"task:", b"system:", b"agents:", b"arguments:", b"planner:"];
    let cut = LINES.saturating_sub(bytes[..LINES].iter().rev().position(|byte| *byte == b'\n')?);
    let (first, rest) = bytes.split_at(cut);
    let tells = |line: &[u8]| {
        telling.iter().any(|key| line.starts_with(key))
            || [&b"models"[..], b"tools", b"calls", b"\"", b"'", b"?", b"{"]
                .iter()
                .any(|start| line.starts_with(start))
    };
    (!rest.split(|byte| *byte == b'\n').any(tells)).then_some(first)
}

/// Loads policies with the profile that was chosen, if one was.
pub(crate) fn loader(profile: Option<&str>) -> Loader {
    profile.map_or_else(Loader::new, |name| Loader::new().profile(name))
}

/// Loads policies with the profile that the command line chooses, or else the settings.
pub(crate) fn chosen(flag: Option<&str>, settings: &Settings) -> Loader {
    match (flag, settings.profile.as_deref()) {
        (Some(name), _) => loader(Some(name)).profile_from("`--profile`"),
        (None, Some(name)) => loader(Some(name)).profile_from(SETTING),
        (None, None) => loader(None),
    }
}

/// Reads an agent file and everything it names. Warnings come along with what was read.
pub(crate) fn read(path: &Path, bytes: &[u8], loader: &Loader) -> (Option<Named>, Vec<Report>) {
    let (file, report) = AgentFile::read_rest(&path.display().to_string(), bytes);
    let mut reports: Vec<Report> = report.into_iter().collect();
    let Some(file) = file else { return (None, reports) };
    let folder = path.parent().unwrap_or(Path::new(""));
    let mut missing = Vec::new();
    let policy = policy(&file.value, folder, loader, &mut missing, &mut reports);
    let mut scripts = IndexMap::new();
    for (name, entry) in &file.value.models {
        if let ModelEntry::Scripted { script, .. } = entry
            && let Some((path, bytes)) = follow(folder, script, "script", &mut missing)
        {
            match Script::from_yaml(&path, &bytes) {
                Ok(script) => drop(scripts.insert(name.clone(), script)),
                Err(report) => reports.push(report),
            }
        }
    }
    let models =
        file.value.model_windows.as_ref().and_then(|named| models(folder, named, &mut missing, &mut reports));
    if let Some(output) = policy.as_ref().and_then(Policy::output) {
        let name = &output.tool.value;
        if file.value.tools.contains_key(name) {
            let message = format!("`{name}` is also the tool the policy takes the final report by");
            let place = policy.as_ref().map(|policy| policy.place(output.tool.origin));
            let problem =
                Diagnostic::error(Code::CONTRADICTION, AgentFile::key(&file, &["tools", name]), message);
            let other = place.map(|place| format!("give one of them another name; the report's: {place}"));
            missing.push(problem.help_if(other));
        }
    }
    if let Some(policy) = &policy {
        unpriced(&file, policy, models.as_ref(), &mut missing);
    }
    if !missing.is_empty() {
        reports.insert(0, file.report(missing));
    }
    let usable = !reports.iter().any(Report::has_errors);
    (policy.filter(|_| usable).map(|policy| Named { file, policy, scripts, models }), reports)
}

/// What the tokens of a model of the agent cost, as its file says, or the file of models that it names.
pub(crate) fn price(entry: &ModelEntry, name: &str, models: Option<&ModelCatalogue>) -> Option<Price> {
    let facts = entry.facts(name);
    facts.price.or_else(|| models?.price(&facts.model))
}

/// Reports the models whose price nobody says, if the policy bounds what a run may cost.
fn unpriced(
    file: &Document<AgentFile>,
    policy: &Policy,
    models: Option<&ModelCatalogue>,
    missing: &mut Vec<Diagnostic>,
) {
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
    match files::bytes(&path) {
        Ok(bytes) => Some((path.display().to_string(), bytes)),
        Err(error) => {
            let why = unfazed::host::file_error(&error);
            let message = format!("cannot read the {what} {}: {why}", path.display());
            let problem = Diagnostic::error(Code::UNKNOWN_NAME, named.span, message);
            let near = unfazed::host::similar_file(&path).filter(|_| error.kind() == ErrorKind::NotFound);
            let near = near.and_then(|near| Some(near.strip_prefix(folder).ok()?.display().to_string()));
            missing.push(match near {
                Some(near) => problem.label(format!("did you mean `{near}`?")),
                None => problem.help("paths start at the folder of this file"),
            });
            None
        }
    }
}

/// The reports without what is said twice: a file may be named by several others.
pub(crate) fn once(reports: Vec<Report>) -> Vec<Report> {
    let mut said = HashSet::new();
    let mut once = Vec::new();
    for report in reports {
        if report.more() > report.all().len().saturating_sub(report.diagnostics().len()) {
            // Some are counted only; nobody knows which.
            once.push(report);
            continue;
        }
        let mut findings = Findings::default();
        let mut any = false;
        let mut paths: HashMap<SourceId, PathBuf> = HashMap::new();
        for problem in report.all() {
            let Span { source, start, .. } = problem.span;
            let path = paths.entry(source).or_insert_with(|| {
                let path = PathBuf::from(report.sources().get(source).map_or("", |source| source.name()));
                path.canonicalize().unwrap_or(path)
            });
            if said.insert((path.clone(), start, problem.code, problem.message.clone())) {
                any = true;
                findings.push(problem.clone());
            }
        }
        if any {
            once.push(findings.into_report(report.sources().clone()));
        }
    }
    once
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_known_by_its_keys() {
        for (text, expected) in [
            ("version: 1\nreplies: []\n", Kind::Script),
            ("{version: 1, models: {m: {api: scripted, script: s}}}", Kind::Agent),
            ("version: 1\n\"models\":\n  m: {api: openai}\n", Kind::Agent),
            ("version: 1\ntools: {t: {kind: builtin}}\n", Kind::Agent),
            ("version: 1\nmodels: {m: {retry: {max_attempts: 2}}}\n", Kind::Policy),
            ("version: 1\nturn:\n  text: |\n    task: do it\n", Kind::Policy),
            ("arguments: {item: 42}\n", Kind::Call),
            ("planner: {retry: {max_attempts: 1}}\n", Kind::Call),
            ("version: 1\nmodels: [{names: [m], window: 9}]\n", Kind::Models),
            ("version: 1\nagents: 5\nduration: 1m\nplanner: fail\nmodels: {m: {}}\n", Kind::Scenario),
            ("version: 1\nmodels: [m]\n", Kind::Policy),
            ("", Kind::Policy),
        ] {
            assert_eq!(kind(text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn a_long_line_is_read_only_if_a_word_in_it_may_tell() {
        let slices = (0..9_000).map(|i| format!("s{i}: {{}}, ")).collect::<Vec<_>>().concat();
        assert!(!may_tell(format!("{{version: 1, session: {{slices: {{{slices}}}}}}}").as_bytes()));
        for (key, expected) in [("cases", Kind::Test), ("\"\\u0063ases\"", Kind::Test), ("task", Kind::Agent)]
        {
            let text = format!("{{version: 1, session: {{slices: {{{slices}}}}}, {key}: []}}");
            assert_eq!(kind(text.as_bytes()), expected);
        }
    }

    #[test]
    fn a_long_file_is_known_by_its_first_lines_only_if_nothing_later_tells_otherwise() {
        let slices = "  s: {initial: 0}\n".repeat(20_000);
        let policy = format!("version: 1\nsession:\n slices:\n{slices}");
        assert!(beginning(policy.as_bytes()).is_some());
        assert_eq!(kind(policy.as_bytes()), Kind::Policy);
        for (more, expected) in [("cases: []\n", Kind::Test), ("task: do it\n", Kind::Agent)] {
            assert_eq!(kind(format!("{policy}{more}").as_bytes()), expected);
        }
    }
}
