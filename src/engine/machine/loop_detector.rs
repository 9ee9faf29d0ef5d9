//! A model that repeats itself: it is warned, then its calls do not run, then the next turn is the last.

use core::iter;

use serde_json::Value;

use super::super::canonical;
use super::super::directive::Note;
use super::super::loop_stage::{FoundRepetition, is_asked_for};
use super::super::metric::MetricName;
use super::super::reason::StoredReason;
use super::super::repeats::{LoopDetector, LoopPattern, LoopStage};
use super::final_turn::FinalTurn;
use super::out::StepOutput;
use super::turn_guidance::ReplyGuidance;
use crate::engine::machine::call_refusal::CallRefusal;
use crate::policy::{ErrorClass, LoopGuardPolicy, Policy, Setting};
use crate::session::{FinalReason, ToolCall};

/// How the end of a call is compared with those before it.
pub(in crate::engine) enum EndOfCall<'a> {
    /// It succeeded: its arguments, and its result.
    Succeeded(&'a Value, Option<&'a Value>),
    /// It failed for good, or was refused for what it says.
    Failed(ErrorClass, &'a str),
}

impl LoopDetector {
    /// Looks at a call before it runs, and returns why it does not run if it repeats itself too often. `turn` is the turn it
    /// belongs to; `warned`: the model was warned in it already; `afterwords` is what the model reads after the results.
    pub(in crate::engine) fn examine(
        &mut self,
        call: &ToolCall,
        arguments: Option<&Value>,
        (ending, turn): (&mut FinalTurn, u32),
        warned: bool,
        afterwords: &mut Vec<ReplyGuidance>,
        out: &mut StepOutput<'_>,
    ) -> Option<CallRefusal> {
        let policy = out.rules.policy.tool(&call.name);
        let guard = &policy.loop_guard;
        if !guard.enabled.value {
            return None;
        }
        let tool = canonical::of_texts(&[&call.name]);
        // Canonical JSON, so that another order of keys or other spaces are the same call: supyagent hashes the raw
        // text, which both evade.
        let number = match arguments {
            Some(arguments) => canonical::call(&call.name, arguments),
            // Arguments that cannot be read are compared as they are; models repeat broken calls, too.
            None => canonical::raw_call(&call.name, &call.arguments),
        };
        self.called(number);
        let found = self.worst(guard, tool, number)?;
        if found.stage == LoopStage::Nudge {
            // The call runs, and the model reads about it after the result: a warning instead of the result would
            // cost a turn.
            nudge(guard, (&call.id, &call.name), found, warned, afterwords, out);
            return None;
        }
        self.held_back(found.pattern, tool, number);
        let why = note(guard, &call.id, &call.name, found, out);
        // Where the final turn is announced already, its first reason stays.
        if found.stage == LoopStage::FinalTurn && !ending.is_near() {
            ending.force(FinalReason::Loop, turn, vec![why.clone().told(out.rules.policy)], out);
        }
        let text = out.say(&guard.messages.block, found.vars(&call.name));
        // Where both counts are reached, each of them alone holds the call back: without one of them it would not run either.
        let block = found.blocks(guard).map(|found| reason(guard, found, out.rules.policy));
        Some(CallRefusal {
            class: ErrorClass::RepeatedCall,
            text,
            because: iter::once(why).chain(block).collect(),
        })
    }

    /// Whether the last call of the tool failed.
    pub(in crate::engine) fn has_failed(&self, tool: &str) -> bool {
        self.knows_failures() && self.errors_of(canonical::of_texts(&[tool])) > 0
    }

    /// A call of the tool went well.
    pub(in crate::engine) fn tool_recovered(&mut self, tool: &str) {
        // Hashing the name costs more than this check, and most runs have no failures.
        if self.knows_failures() {
            self.recovered(canonical::of_texts(&[tool]));
        }
    }

    /// Looks at how a call of a tool ended. That can only be pointed out; it is the next one that may not run.
    pub(in crate::engine) fn ended(
        &mut self,
        (call, tool): (&str, &str),
        end: &EndOfCall<'_>,
        warned: bool,
        afterwords: &mut Vec<ReplyGuidance>,
        out: &mut StepOutput<'_>,
    ) {
        let policy = out.rules.policy.tool(tool);
        let guard = &policy.loop_guard;
        if !guard.enabled.value {
            return;
        }
        let name = canonical::of_texts(&[tool]);
        let (pattern, count) = match end {
            EndOfCall::Succeeded(arguments, data) => {
                self.recovered(name);
                if !is_asked_for(guard, LoopPattern::SameResult) {
                    // A result can be megabytes: it is hashed only if some rule counts results.
                    return;
                }
                // The host keeps the result to itself, so there is nothing to compare.
                let Some(data) = data else { return };
                let number = canonical::call(tool, arguments);
                (LoopPattern::SameResult, self.resulted(number, canonical::of(data)))
            }
            EndOfCall::Failed(class, message) => {
                // The class belongs to it: the same text for a timeout and for a refusal is another failure.
                let error = canonical::of_texts(&[class.name(), message]);
                (LoopPattern::SameError, self.failed(name, error))
            }
        };
        if let Some(found) = FoundRepetition::at_end(guard, pattern, count) {
            nudge(guard, (call, tool), found, warned, afterwords, out);
        }
    }
}

/// Warns the model after the results, once for each turn.
fn nudge(
    guard: &LoopGuardPolicy,
    (call, tool): (&str, &str),
    found: FoundRepetition,
    warned: bool,
    afterwords: &mut Vec<ReplyGuidance>,
    out: &mut StepOutput<'_>,
) {
    // One warning in a turn says it; one for each call would fill the context with the same advice.
    if warned || afterwords.iter().any(|guidance| guidance.class == ErrorClass::RepeatedCall) {
        return;
    }
    note(guard, call, tool, found, out);
    let text = out.say(&guard.messages.nudge, found.vars(tool));
    afterwords.push(ReplyGuidance { class: ErrorClass::RepeatedCall, text });
}

/// Notes the decision, and returns its reason.
fn note(
    guard: &LoopGuardPolicy,
    call: &str,
    tool: &str,
    found: FoundRepetition,
    out: &mut StepOutput<'_>,
) -> StoredReason {
    let policy = out.rules.policy;
    let why = reason(guard, found, policy);
    out.note(Note::LoopGuard(found.of(call, tool)), vec![why.clone().told(policy)]);
    // Models invent names without end. As subjects of a metric they would fill the collector, so they share one.
    let subject = if out.rules.tools.get(tool).is_some() { tool } else { "unknown" };
    out.count(MetricName::LoopGuardTotal, format!("tool {subject}"), 1);
    why
}

/// The count that was reached.
fn reason(guard: &LoopGuardPolicy, found: FoundRepetition, policy: &Policy) -> StoredReason {
    let rule = format!("loop_guard.{}.{}", found.pattern.name(), found.stage.name());
    StoredReason::new(policy, rule, &shown(found.limit(guard)), [found.fact()])
}

fn shown(limit: &Setting<Option<core::num::NonZeroU32>>) -> Setting<String> {
    limit.map(|limit| limit.map_or_else(|| "never".to_owned(), |limit| limit.to_string()))
}
