//! What a file that somebody names is, and which profile of its policy is chosen.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use crate::host::PolicyFiles;
use crate::policy::Loader;
use crate::text::yaml::{YamlData, YamlNode};
use crate::text::{Problems, Report, SourceId, Sources, Span, did_you_mean, yaml};

use super::exit::CommandFailure;
use super::settings::CliSettings;

/// The setting that chooses a profile where no flag does.
const SETTING: &str = "UNFAZED_PROFILE, or `profile` in the settings file,";

/// A policy, in words.
pub(crate) const POLICY: &str = "a policy";

/// What a file is, by its top-level keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileKind {
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

/// Whether the file is a policy without mistakes.
pub(crate) fn is_policy(path: &Path, bytes: &[u8]) -> bool {
    other_kind(path, bytes) == Some(POLICY)
}

/// What the file certainly is, in words, if it is no agent file.
pub(crate) fn other_kind(path: &Path, bytes: &[u8]) -> Option<&'static str> {
    match kind(bytes) {
        FileKind::Agent => None,
        FileKind::Policy => {
            let source = (path.display().to_string(), bytes.to_vec());
            let loaded = PolicyFiles::new().load_named(&Loader::new(), vec![source]);
            loaded.is_ok().then_some(POLICY)
        }
        FileKind::Script => Some("a script of a model"),
        FileKind::Test => Some("a file of cases"),
        FileKind::Call => Some("a call of a tool"),
        FileKind::Models => Some("a file of models"),
        FileKind::Scenario => Some("a scenario"),
    }
}

/// Says so if the file is something else than the agent file that a command takes.
pub(crate) fn is_agent(path: &Path, bytes: &[u8], command: &str) -> Result<(), CommandFailure> {
    let Some(what) = other_kind(path, bytes) else { return Ok(()) };
    let file = path.display();
    let wants = match what {
        POLICY => "an agent file, which names it under `policy`",
        _ => "an agent file",
    };
    Err(CommandFailure::Usage(format!("{file} is {what}; `unfazed {command}` takes {wants}")))
}

/// What the file is. A test file has cases; a script has replies; a scenario has agents; a call has arguments or a planner; a
/// catalogue has a list of models; an agent has a task, a policy, models with an `api`, tools with a `kind` or servers.
pub(crate) fn kind(bytes: &[u8]) -> FileKind {
    if !may_tell(bytes) {
        return FileKind::Policy;
    }
    let load = |bytes: &[u8]| yaml::load(&mut Sources::new(), &mut Problems::default(), "", bytes).1;
    let Some(root) = beginning(bytes).and_then(load).or_else(|| load(bytes)) else { return FileKind::Policy };
    let any = |key: &str, field: &str| match root.get(key).map(|node| &node.data) {
        Some(YamlData::Map(entries)) => entries.iter().any(|(_, entry)| entry.get(field).is_some()),
        Some(YamlData::List(entries)) => entries.iter().any(|entry| entry.get(field).is_some()),
        _ => false,
    };
    let names = |node: &YamlNode| matches!(&node.data, YamlData::List(rows) if rows.iter().any(|row| row.get("names").is_some()));
    let has = |key: &str| YamlNode::get(&root, key).is_some();
    if has("cases") {
        FileKind::Test
    } else if has("replies") {
        FileKind::Script
    } else if any("models", "api") || any("tools", "kind") || has("task") || has("system") || has("mcp") {
        FileKind::Agent
    } else if has("agents") {
        FileKind::Scenario
    } else if has("policy") {
        FileKind::Agent
    } else if has("arguments") || has("planner") {
        FileKind::Call
    } else if YamlNode::get(&root, "models").is_some_and(names) {
        FileKind::Models
    } else {
        misspelt(&root).unwrap_or(FileKind::Policy)
    }
}

/// What a file is if the key that tells it is misspelt, and no key is a policy's alone.
fn misspelt(root: &YamlNode) -> Option<FileKind> {
    const TELLING: [(&str, FileKind); 5] = [
        ("cases", FileKind::Test),
        ("replies", FileKind::Script),
        ("agents", FileKind::Scenario),
        ("arguments", FileKind::Call),
        ("planner", FileKind::Call),
    ];
    const POLICY: [&str; 10] = [
        "extends", "profiles", "limits", "retry", "turn", "output", "history", "context", "session", "errors",
    ];
    let YamlData::Map(entries) = &root.data else { return None };
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
    let words =
        ["cases", "replies", "task", "system", "agents", "arguments", "planner", "api", "kind", "mcp", "\\"];
    bytes.len() < LONG || words.iter().any(|word| text.contains(word))
}

/// The first lines of a long file, if its keys stand at the beginnings of lines and tell there what it is: what comes
/// later of them changes nothing about the kind.
fn beginning(bytes: &[u8]) -> Option<&[u8]> {
    const LINES: usize = 64 << 10;
    if bytes.len() < 2 * LINES || matches!(bytes.first(), Some(b'{' | b'[')) {
        return None;
    }
    let telling: [&[u8]; 8] =
        [b"cases:", b"replies:", b"task:", b"system:", b"agents:", b"arguments:", b"planner:", b"mcp:"];
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
pub(crate) fn chosen(flag: Option<&str>, settings: &CliSettings) -> Loader {
    match (flag, settings.profile.as_deref()) {
        (Some(name), _) => loader(Some(name)).profile_from("`--profile`"),
        (None, Some(name)) => loader(Some(name)).profile_from(SETTING),
        (None, None) => loader(None),
    }
}

/// The reports without what is said twice: a file may be named by several others.
pub(crate) fn once(reports: Vec<Report>) -> Vec<Report> {
    let mut said = HashSet::new();
    let mut once = Vec::new();
    for report in reports {
        if report.more() > report.all().len().saturating_sub(report.diagnostics().len()) {
            // Some are counted only; it is unknown which.
            once.push(report);
            continue;
        }
        let mut findings = Problems::default();
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
            ("version: 1\nreplies: []\n", FileKind::Script),
            ("{version: 1, models: {m: {api: scripted, script: s}}}", FileKind::Agent),
            ("version: 1\n\"models\":\n  m: {api: openai}\n", FileKind::Agent),
            ("version: 1\ntools: {t: {kind: builtin}}\n", FileKind::Agent),
            ("version: 1\nmcp: {fs: {command: [npx]}}\n", FileKind::Agent),
            ("version: 1\nmodels: {m: {retry: {max_attempts: 2}}}\n", FileKind::Policy),
            ("version: 1\nturn:\n  text: |\n    task: do it\n", FileKind::Policy),
            ("arguments: {item: 42}\n", FileKind::Call),
            ("planner: {retry: {max_attempts: 1}}\n", FileKind::Call),
            ("version: 1\nmodels: [{names: [m], window: 9}]\n", FileKind::Models),
            ("version: 1\nagents: 5\nduration: 1m\nplanner: fail\nmodels: {m: {}}\n", FileKind::Scenario),
            ("version: 1\nmodels: [m]\n", FileKind::Policy),
            ("", FileKind::Policy),
        ] {
            assert_eq!(kind(text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn a_long_line_is_read_only_if_a_word_in_it_may_tell() {
        let slices = (0..9_000).map(|i| format!("s{i}: {{}}, ")).collect::<Vec<_>>().concat();
        assert!(!may_tell(format!("{{version: 1, session: {{slices: {{{slices}}}}}}}").as_bytes()));
        for (key, expected) in
            [("cases", FileKind::Test), ("\"\\u0063ases\"", FileKind::Test), ("task", FileKind::Agent)]
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
        assert_eq!(kind(policy.as_bytes()), FileKind::Policy);
        for (more, expected) in [("cases: []\n", FileKind::Test), ("task: do it\n", FileKind::Agent)] {
            assert_eq!(kind(format!("{policy}{more}").as_bytes()), expected);
        }
    }
}
