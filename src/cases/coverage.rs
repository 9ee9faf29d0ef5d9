//! Which values of policy files decided something in at least one case.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use super::record::Record;
use super::run::Setup;
use super::worked::Worked;
use crate::policy::yaml::{self, Data, Node};
use crate::policy::{BUILTIN_TEXTS, Explanation, Findings, Place, Policy, SourceId, Trigger};

/// Mappings that are one value.
const WHOLE: [&str; 8] =
    ["backoff", "server_delay", "retry_on", "never_retry", "schema", "initial", "budget", "do"];
/// Keys that say what a file or a rule is, and decide nothing themselves.
const NO_RULE: [&str; 12] = [
    "version",
    "extends",
    "when",
    "slices",
    "status",
    "code",
    "type",
    "message",
    "detail",
    "provider",
    "request_at_fault",
    "priority",
];

/// A value of a policy file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leaf {
    /// Where it is written.
    pub place: Place,
    /// Its path in the file: `tools.search.retry.max_attempts`.
    pub path: String,
    /// How many cases it decided something in.
    pub cases: u32,
}

/// The values of the policy files of all cases, and what became of them.
#[derive(Debug, Default)]
pub struct Coverage {
    leaves: BTreeMap<Key, (String, u32)>,
    read: HashSet<String>,
}

/// A place, in the order of files and lines.
type Key = (String, u32, u32);

impl Coverage {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Every value, in the order of files and lines.
    pub fn leaves(&self) -> impl Iterator<Item = Leaf> {
        self.leaves.iter().map(|((file, line, column), (path, cases))| Leaf {
            place: Place { file: file.clone(), line: *line, column: *column },
            path: path.clone(),
            cases: *cases,
        })
    }

    /// How many values there are, and how many of them decided something at least once.
    pub fn count(&self) -> (usize, usize) {
        let won = self.leaves.values().filter(|(_, cases)| *cases > 0).count();
        (self.leaves.len(), won)
    }

    /// Counts a case. `own` is the test file, whose inline policies are not counted.
    pub(crate) fn add(&mut self, own: &str, setup: &Setup, record: &Record) {
        self.read(own, &setup.policy);
        let mut won = BTreeSet::new();
        for because in &record.because {
            won.insert(key(&because.place));
        }
        effective(setup, record, &mut won);
        for place in won {
            if let Some((_, cases)) = self.leaves.get_mut(&place) {
                *cases = cases.saturating_add(1);
            }
        }
    }

    /// Finds the values of the files of a policy.
    fn read(&mut self, own: &str, policy: &Policy) {
        if !self.read.insert(format!("{own}\n{}", policy.digest())) {
            return;
        }
        for (index, source) in policy.sources().iter().enumerate().skip(BUILTIN_TEXTS) {
            if source.name() == own {
                continue;
            }
            let Ok(id) = u16::try_from(index) else { continue };
            let id = SourceId(id);
            let Some(node) = yaml::parse(id, source.text(), &mut Findings::default()) else { continue };
            let mut found = Vec::new();
            leaves(&node, String::new(), &mut found);
            for (path, at) in found {
                let (line, column) = source.line_column(at);
                self.leaves.entry((source.name().to_owned(), line, column)).or_insert((path, 0));
            }
        }
    }
}

/// The places of all values that decided something in the case: those that decisions name, with what they are made
/// of, and those that were at work without being named.
fn effective(setup: &Setup, record: &Record, won: &mut BTreeSet<Key>) {
    let policy = &setup.policy;
    let worked = Worked::of(record);
    let mut seen = HashSet::new();
    for (tool, arguments) in &record.used.tools {
        let layer = setup.layers.get(tool);
        let special = layer.is_some() || policy.has_call_rules(tool);
        let subject = format!("tool {tool}");
        if special {
            explained(&policy.explain_call(tool, arguments, layer), &subject, &worked, won);
        } else if seen.insert(tool.as_str()) {
            explained(&policy.explain_tool(tool), &subject, &worked, won);
        }
    }
    let models: BTreeSet<&String> = record.used.models.iter().collect();
    for model in models {
        explained(&policy.explain_model(model), &format!("model {model}"), &worked, won);
    }
    if record.used.turns || !record.used.tools.is_empty() {
        explained(&policy.explain_turn(), "turns", &worked, won);
        explained(&policy.explain_history(), "turns", &worked, won);
    }
    if record.used.report
        && let Some(output) = policy.explain_output()
    {
        explained(&output, "output", &worked, won);
    }
    for failure in record.used.failures.iter().filter(|failure| failure.class.is_none()) {
        if let Some(row) = policy.classify(&failure.evidence()).origin {
            won.insert(key(&policy.place(row)));
        }
    }
    let triggers: Vec<Trigger> = record.used.triggers.clone();
    for reducer in &policy.session().reducers {
        // It ran, and its slice is not what it was at the start.
        let slice = policy.session().slices.get(&reducer.slice);
        let changed =
            slice.is_some_and(|slice| record.state.slices().get(&reducer.slice) != Some(&slice.initial));
        if changed && reducer.on.iter().any(|on| triggers.contains(on)) {
            won.insert(key(&policy.place(reducer.origin)));
        }
    }
}

fn explained(explanation: &Explanation, subject: &str, worked: &Worked, won: &mut BTreeSet<Key>) {
    for value in &explanation.values {
        let at = key(&value.at);
        if !won.contains(&at) && !worked.decides(subject, &value.path, &value.value) {
            continue;
        }
        won.insert(at);
        let limited = value.capped_from.is_some();
        let winners = value.contributions.iter().filter(|said| said.won && !limited);
        won.extend(winners.map(|said| key(&said.at)));
    }
}

fn leaves(node: &Node, path: String, found: &mut Vec<(String, u32)>) {
    match &node.data {
        Data::Map(entries) => {
            for (name, value) in entries.iter() {
                if NO_RULE.contains(&&*name.name) && !path.ends_with("messages") && !path.ends_with("breaker")
                {
                    continue;
                }
                let inner =
                    if path.is_empty() { name.name.to_string() } else { format!("{path}.{}", name.name) };
                if path == "session.reducers" {
                    found.push((inner, name.span.start));
                } else if matches!(value.data, Data::Map(_)) && !WHOLE.contains(&&*name.name) {
                    leaves(value, inner, found);
                } else if matches!(&*name.name, "calls" | "errors") {
                    rows(value, &inner, found);
                } else {
                    found.push((inner, value.span.start));
                }
            }
        }
        _ => found.push((path, node.span.start)),
    }
}

fn rows(node: &Node, path: &str, found: &mut Vec<(String, u32)>) {
    if let Data::List(items) = &node.data {
        for (index, item) in items.iter().enumerate() {
            leaves(item, format!("{path}[{index}]"), found);
        }
    }
}

fn key(place: &Place) -> Key {
    (place.file.clone(), place.line, place.column)
}

/// The values of a text, for tests of their own.
#[cfg(test)]
fn paths(text: &str) -> Vec<String> {
    let node = yaml::parse(SourceId(1), text, &mut Findings::default()).unwrap();
    let mut found = Vec::new();
    leaves(&node, String::new(), &mut found);
    found.into_iter().map(|(path, _)| path).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_that_can_decide_is_a_leaf() {
        let text = "
version: 1
limits: {max_attempts: 4}
retry: {backoff: {kind: constant, delay: 1s}, retry_on: {add: [timeout]}}
tools:
  search:
    messages: {failed: no}
    calls:
      - {when: 'true', retry: {max_attempts: 1}}
session:
  slices: {n: {initial: 0}}
  reducers:
    count: {on: tool_failed, slice: n, do: {kind: increment, value: '1'}}
errors:
  - {status: 429, class: quota_exceeded}
";
        let value = serde_json::json!(paths(text));
        assert_eq!(
            value,
            serde_json::json!([
                "limits.max_attempts",
                "retry.backoff",
                "retry.retry_on",
                "tools.search.messages.failed",
                "tools.search.calls[0].retry.max_attempts",
                "session.reducers.count",
                "errors[0].class",
            ])
        );
    }
}
