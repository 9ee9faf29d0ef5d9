//! Which values of policy files decide something in at least one case: those that a decision names as its reason, and those
//! without which the case would come out otherwise.
//!
//! The second is tried, not guessed: the case is played again under the same policy without the value (mutation testing).
//! Nothing has to say which keys are at work where.

use core::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde_json::Value;

use super::record::CaseRecord;
use super::run::{CaseSetup, run};
use crate::policy::Policy;
use crate::text::{Place, Span};
use crate::time::Nanos;

/// A value of a policy file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CoveredValue {
    /// Where it is written.
    pub place: Place,
    /// Its path in the file: `tools.search.retry.max_attempts`.
    pub path: String,
    /// How many cases it decided something in.
    pub cases: u32,
}

/// The values of the policy files of all cases, and what became of them.
#[derive(Debug, Default)]
pub struct PolicyCoverage {
    leaves: BTreeMap<ValuePlace, (String, u32)>,
    /// What is known of each policy, by its digest and the test file.
    policies: HashMap<(String, String), Vec<WrittenValue>>,
    inline: bool,
}

/// A place, in the order of files and lines.
type ValuePlace = (String, u32, u32);

/// A value that a policy file writes.
#[derive(Debug)]
struct WrittenValue {
    key: ValuePlace,
    span: Span,
    /// The policy without it, once it was needed; `None`: there is none.
    without: OnceCell<Option<Policy>>,
}

impl PolicyCoverage {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Counts the values of policies that are written in test files, too.
    #[must_use]
    pub const fn with_inline_policies(mut self) -> Self {
        self.inline = true;
        self
    }

    /// Every value, in the order of files and lines.
    pub fn leaves(&self) -> impl Iterator<Item = CoveredValue> {
        self.leaves.iter().map(|((file, line, column), (path, cases))| CoveredValue {
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

    /// Counts a case. `own` is the test file.
    pub(crate) fn add(&mut self, own: &str, setup: &CaseSetup, record: &CaseRecord) {
        let named: BTreeSet<ValuePlace> = record.because.iter().map(|because| key(&because.place)).collect();
        let known = (own.to_owned(), setup.policy.digest().to_owned());
        if !self.policies.contains_key(&known) {
            let values = self.read(own, &setup.policy);
            self.policies.insert(known.clone(), values);
        }
        let mut decisions = None;
        for value in self.policies.get(&known).into_iter().flatten() {
            let decides = named.contains(&value.key) || {
                let without = value.without.get_or_init(|| setup.policy.without_value(value.span));
                let decisions = decisions.get_or_insert_with(|| self::decisions(record));
                without.as_ref().is_some_and(|policy| {
                    let otherwise = run(&CaseSetup { policy: policy.clone(), ..setup.clone() });
                    self::decisions(&otherwise) != *decisions
                })
            };
            if let Some((_, cases)) = self.leaves.get_mut(&value.key).filter(|_| decides) {
                *cases = cases.saturating_add(1);
            }
        }
    }

    /// Finds the values of the files of a policy.
    fn read(&mut self, own: &str, policy: &Policy) -> Vec<WrittenValue> {
        let mut values = Vec::new();
        for (path, span) in policy.written_values() {
            let place = policy.sources().place_of(span);
            if place.file == own && !self.inline {
                continue;
            }
            let key = key(&place);
            self.leaves.entry(key.clone()).or_insert((path, 0));
            // `null` in the place of a block is written once, and is a value of each of its keys.
            if values.last().is_none_or(|last: &WrittenValue| last.key != key) {
                values.push(WrittenValue { key, span, without: OnceCell::new() });
            }
        }
        values
    }
}

/// What happened and when, without the reasons, and without how many attempts there could have been.
fn decisions(record: &CaseRecord) -> Vec<(Nanos, Value)> {
    let decision = record.moments.iter().map(|moment| {
        let mut decision = moment.json.clone();
        if let Value::Object(fields) = &mut decision {
            fields.shift_remove("because");
            fields.shift_remove("max_attempts");
        }
        (moment.at, decision)
    });
    decision.collect()
}

fn key(place: &Place) -> ValuePlace {
    (place.file.clone(), place.line, place.column)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_that_is_written_is_a_leaf_once() {
        let text = "
version: 1
limits: {max_attempts: 4, run: {tokens: 9000}}
retry: {backoff: {kind: constant, delay: 1s}, retry_on: {add: [timeout]}, by_class: {timeout: {max_attempts: 2}}}
models: {m: {timeouts: null}}
profiles: {p: {turn: {max_turns: 3}}}
tools:
  search:
    messages: {failed: It failed.}
    calls:
      - {when: 'true', retry: {max_attempts: 1}}
session:
  slices: {n: {initial: 0}}
  reducers:
    count: {on: tool_failed, slice: n, do: {kind: increment, value: '1'}}
errors:
  - {status: 429, class: quota_exceeded, wait: 1m}
";
        let policy = Policy::from_yaml("p.yaml", text).unwrap();
        let mut coverage = PolicyCoverage::new();
        coverage.read("t.test.yaml", &policy);
        let paths: Vec<_> = coverage.leaves().map(|leaf| leaf.path).collect();
        assert_eq!(
            paths,
            [
                "limits.max_attempts",
                "limits.run.tokens",
                "retry.backoff",
                "retry.retry_on",
                "retry.by_class.timeout.max_attempts",
                "models.m.timeouts.connect",
                "profiles.p.turn.max_turns",
                "tools.search.messages.failed",
                "tools.search.calls[0].retry.max_attempts",
                "session.reducers.count",
                "errors[0].class",
                "errors[0].wait",
            ]
        );
        for leaf in policy.written_values() {
            assert!(policy.without_value(leaf.1).is_some(), "{}", leaf.0);
        }
    }

    #[test]
    fn a_value_that_cannot_be_left_out_leaves_no_policy() {
        let text = "version: 1\nretry: {max_attempts: unlimited, deadline: 1m}\n";
        let policy = Policy::from_yaml("p.yaml", text).unwrap();
        let without = |path: &str| {
            let values = policy.written_values();
            let (_, span) = values.iter().find(|(written, _)| written == path).unwrap();
            policy.without_value(*span)
        };
        assert!(without("retry.deadline").is_none(), "attempts without end are no policy");
        assert!(without("retry.max_attempts").is_some());
    }
}
