//! Which values were at work in a case, though no decision names them: texts that were told, timeouts that struck,
//! breakers that stayed open, conditions that were held against something.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::record::Record;

/// What happened to a tool, a model or the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fact {
    /// It was tried again.
    Retried,
    /// An attempt took longer than it may.
    TimedOut,
    /// Its breaker opened.
    Opened,
    /// Its breaker let a probe through.
    Probed,
    /// It ran, or was held against conditions.
    Ran,
    /// It failed in the end.
    Failed,
    /// Its attempts were used up.
    Exhausted,
    /// A reducer objected to its result.
    Objected,
    /// It was found out that a run that failed has acted.
    Acted,
}

/// What happened to a subject, and the classes it was refused with.
#[derive(Debug, Default)]
struct Happened {
    facts: BTreeSet<Fact>,
    refused: BTreeSet<String>,
}

/// What happened in a case, by subject.
#[derive(Debug, Default)]
pub(super) struct Worked {
    subjects: BTreeMap<String, Happened>,
    guidance: BTreeSet<String>,
    told: bool,
    longest_told: usize,
    answered: bool,
    interrupted: bool,
    /// What was done to the history.
    repairs: BTreeSet<&'static str>,
}

impl Worked {
    pub(super) fn of(record: &Record) -> Self {
        let mut worked = Self::default();
        // Which subject a piece of work is for, and the tool that ended last.
        let mut work: BTreeMap<u64, String> = BTreeMap::new();
        let mut last = String::new();
        for moment in &record.moments {
            if moment.directive {
                worked.directive(&moment.json, &mut work, &mut last);
            } else {
                worked.event(&moment.json, &work);
            }
        }
        worked
    }

    fn event(&mut self, json: &Value, work: &BTreeMap<u64, String>) {
        let failure = match word(json, "event") {
            "model_failed" => json.get("failure"),
            "tool_finished" => json.get("outcome").and_then(|outcome| outcome.get("failure")),
            "cancelled" => {
                self.interrupted = true;
                None
            }
            _ => None,
        };
        let subject = json.get("work").and_then(Value::as_u64).and_then(|number| work.get(&number));
        if let (Some("timeout"), Some(subject)) = (failure.map(|failure| word(failure, "class")), subject) {
            self.fact(subject, Fact::TimedOut, true);
        }
    }

    fn directive(&mut self, json: &Value, work: &mut BTreeMap<u64, String>, last: &mut String) {
        let tool = || format!("tool {}", word(json, "tool"));
        match word(json, "directive") {
            kind @ ("run_tool" | "call_model") => {
                let subject =
                    if kind == "run_tool" { tool() } else { format!("model {}", word(json, "target")) };
                let again = json.get("attempt").and_then(Value::as_u64).is_some_and(|attempt| attempt > 1);
                self.fact(&subject, Fact::Ran, true);
                self.fact(&subject, Fact::Retried, again);
                if let Some(number) = json.get("work").and_then(Value::as_u64) {
                    work.insert(number, subject);
                }
            }
            "refused" => {
                self.on(&tool()).refused.insert(word(json, "error_type").to_owned());
            }
            "breaker" => {
                self.fact(&tool(), Fact::Opened, word(json, "state") == "open");
                self.fact(&tool(), Fact::Probed, word(json, "state") == "half_open");
            }
            "tool_ended" => {
                *last = tool();
                self.fact(last, Fact::Failed, !word(json, "error_type").is_empty());
            }
            "exhausted" => {
                let exhausted = json.get("exhausted").unwrap_or(&Value::Null);
                let used_up = matches!(
                    word(exhausted, "reason"),
                    "attempts" | "deadline" | "budget" | "server_delay" | "total_delay"
                );
                self.fact(word(exhausted, "action"), Fact::Exhausted, used_up);
            }
            "effect_checked" => self.fact(&tool(), Fact::Acted, word(json, "effect") == "committed"),
            "reducer_error" => self.fact(last, Fact::Objected, true),
            "output_accepted" => self.fact("output", Fact::Ran, true),
            "output_refused" => {
                self.fact("output", Fact::Ran, true);
                self.fact("output", Fact::Retried, true);
                self.on("output").refused.insert("invalid_output".to_owned());
            }
            "orphan_tool_calls_pruned" => {
                let any = |key: &str| json.get(key).and_then(Value::as_u64).is_some_and(|count| count > 0);
                self.repairs.extend(["injected_count", "pruned_count"].into_iter().filter(|key| any(key)));
            }
            "append" => self.append(json.get("message").unwrap_or(&Value::Null)),
            "finish" => {
                let outcome = json.get("outcome").unwrap_or(&Value::Null);
                self.answered |= word(outcome, "status") == "answered";
            }
            _ => {}
        }
    }

    fn append(&mut self, message: &Value) {
        if word(message, "role") == "assistant" {
            return;
        }
        self.guidance.insert(word(message, "guidance").to_owned());
        if message.get("error") == Some(&Value::Bool(true)) || !word(message, "guidance").is_empty() {
            self.told = true;
            self.longest_told = self.longest_told.max(word(message, "text").chars().count());
        }
    }

    /// Whether a value of a subject was at work. Most values are named by the decisions they make.
    pub(super) fn decides(&self, subject: &str, path: &str, value: &Value) -> bool {
        let nothing = Happened::default();
        let happened = self.subjects.get(subject).unwrap_or(&nothing);
        let was = |fact: Fact| happened.facts.contains(&fact);
        let refused = |class: &str| happened.refused.contains(class);
        let guided = |name: &str| self.guidance.contains(name);
        match (subject, path) {
            ("turns", "text_only") => guided("text_only") || self.answered,
            ("turns", "feedback_chars") => {
                let most = value.as_u64().and_then(|most| usize::try_from(most).ok());
                self.told && most.is_some_and(|most| self.longest_told >= most)
            }
            ("turns", "repair_json") => {
                self.subjects.values().any(|any| any.refused.contains("malformed_tool_call"))
            }
            ("turns", "messages.text_only") => guided("text_only"),
            ("turns", "messages.empty") => guided("empty_response"),
            ("turns", "messages.final_turn") => guided("final_turn"),
            ("turns", "messages.pruned" | "argument_chars") => self.repairs.contains("pruned_count"),
            ("turns", "messages.injected") => self.repairs.contains("injected_count"),
            ("turns", "calls.suggestions") => {
                self.subjects.values().any(|any| any.refused.contains("tool_not_found"))
            }
            ("turns", "calls.messages.all_failed") => guided("execution_error"),
            ("turns", "messages.no_tools" | "calls.messages.too_many" | "calls.messages.no_calls_left") => {
                self.subjects.values().any(|any| any.refused.contains("tool_unavailable"))
            }
            ("turns", "messages.reducer_error") => guided("reducer_error"),
            ("output", "tool" | "description" | "schema" | "validate")
            | (_, "loop_guard.enabled" | "loop_guard.count") => was(Fact::Ran),
            ("output", "messages.invalid") => refused("invalid_output"),
            (_, "retry.enabled" | "retry.shadow" | "retry.emit_feedback" | "effect") => was(Fact::Retried),
            (_, "retry.attempt_timeout") => was(Fact::TimedOut),
            // Any other number is named when it is reached.
            (_, "breaker.failures") => was(Fact::Failed) && value.as_str() == Some("never"),
            (_, "breaker.count" | "breaker.scope") => was(Fact::Failed),
            (_, "breaker.open_for") => was(Fact::Opened),
            (_, "breaker.probes" | "breaker.successes") => was(Fact::Probed),
            (_, "loop_guard.messages.nudge") => guided("repeated_call"),
            (_, "loop_guard.messages.block") => refused("repeated_call"),
            (_, "breaker.message") => refused("circuit_open"),
            (_, "validate") => was(Fact::Ran) || refused("invalid_args"),
            (_, "messages.invalid_args") => refused("invalid_args") || refused("malformed_tool_call"),
            (_, "messages.failed") => was(Fact::Failed) && !was(Fact::Exhausted),
            (_, "messages.exhausted") => was(Fact::Exhausted),
            (_, "messages.not_found") => refused("tool_not_found"),
            (_, "messages.reducer_error") => was(Fact::Objected),
            (_, "messages.interrupted" | "messages.not_started") => self.interrupted,
            (_, "messages.not_approved") => refused("permission_denied"),
            (_, "messages.acted") => was(Fact::Acted),
            _ => false,
        }
    }

    fn fact(&mut self, subject: &str, fact: Fact, holds: bool) {
        if holds {
            self.on(subject).facts.insert(fact);
        }
    }

    fn on(&mut self, subject: &str) -> &mut Happened {
        self.subjects.entry(subject.to_owned()).or_default()
    }
}

fn word<'a>(json: &'a Value, key: &str) -> &'a str {
    json.get(key).and_then(Value::as_str).unwrap_or_default()
}
