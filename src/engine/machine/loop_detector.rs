//! Loop detection: the model is warned, then its calls are blocked, then the next turn is the final one.

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

/// The end of a call, for comparison with earlier ones.
pub(in crate::engine) enum EndOfCall<'a> {
    /// The call succeeded: its arguments, and its result.
    Succeeded(&'a Value, Option<&'a Value>),
    /// The call failed for good, or was refused because of its content.
    Failed(ErrorClass, &'a str),
}

impl LoopDetector {
    /// Checks a call before it runs, and returns a refusal if it repeats too often. `turn` is its turn; `warned`: the
    /// model was already warned in this turn; `afterwords` are texts the model reads after the results.
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
        // Canonical JSON makes calls with other key order or white space identical. supyagent hashes the raw text,
        // which misses them.
        let number = match arguments {
            Some(arguments) => canonical::call(&call.name, arguments),
            // Arguments that cannot be parsed are compared as text; models repeat broken calls, too.
            None => canonical::raw_call(&call.name, &call.arguments),
        };
        self.called(number);
        let found = self.worst(guard, tool, number)?;
        if found.stage == LoopStage::Nudge {
            // The call runs, and the warning follows its result: a warning instead of the result would cost a turn.
            nudge(guard, (&call.id, &call.name), found, warned, afterwords, out);
            return None;
        }
        self.held_back(found.pattern, tool, number);
        let why = note(guard, &call.id, &call.name, found, out);
        // If the final turn is already announced, its first reason stays.
        if found.stage == LoopStage::FinalTurn && !ending.is_near() {
            ending.force(FinalReason::Loop, turn, vec![why.clone().told(out.rules.policy)], out);
        }
        let text = out.say(&guard.messages.block, found.vars(&call.name));
        // If both limits are reached, either of them alone blocks the call, so both are named.
        let block = found.blocks(guard).map(|found| reason(guard, found, out.rules.policy));
        Some(CallRefusal {
            class: ErrorClass::RepeatedCall,
            text,
            because: iter::once(why).chain(block).collect(),
        })
    }

    /// Records a call that repeats nothing. `false`: it repeats something, and nothing has changed.
    pub(in crate::engine) fn pass(
        &mut self,
        guard: &LoopGuardPolicy,
        (tool, arguments): (&str, &Value),
    ) -> bool {
        if !guard.enabled.value {
            return true;
        }
        let number = canonical::call(tool, arguments);
        // Counted on a copy: a repetition is counted by the step that decides about it.
        let mut after = self.clone();
        after.called(number);
        let is_new = after.worst(guard, canonical::of_texts(&[tool]), number).is_none();
        if is_new {
            *self = after;
        }
        is_new
    }

    /// Whether the last call of the tool failed.
    pub(in crate::engine) fn has_failed(&self, tool: &str) -> bool {
        self.knows_failures() && self.errors_of(canonical::of_texts(&[tool])) > 0
    }

    /// Records a success of the tool.
    pub(in crate::engine) fn tool_recovered(&mut self, tool: &str) {
        // This check costs less than hashing the name, and most runs have no failures.
        if self.knows_failures() {
            self.recovered(canonical::of_texts(&[tool]));
        }
    }

    /// Checks how a tool call ended. This can only warn; the next call may be blocked.
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
                    // A result can be megabytes: it is hashed only if a rule counts results.
                    return;
                }
                // The host withholds the result, so there is nothing to compare.
                let Some(data) = data else { return };
                let number = canonical::call(tool, arguments);
                (LoopPattern::SameResult, self.resulted(number, canonical::of(data)))
            }
            EndOfCall::Failed(class, message) => {
                // The class is part of the hash: the same text for a timeout and for a refusal is another failure.
                let error = canonical::of_texts(&[class.name(), message]);
                (LoopPattern::SameError, self.failed(name, error))
            }
        };
        if let Some(found) = FoundRepetition::at_end(guard, pattern, count) {
            nudge(guard, (call, tool), found, warned, afterwords, out);
        }
    }
}

/// Warns the model after the results, once per turn.
fn nudge(
    guard: &LoopGuardPolicy,
    (call, tool): (&str, &str),
    found: FoundRepetition,
    warned: bool,
    afterwords: &mut Vec<ReplyGuidance>,
    out: &mut StepOutput<'_>,
) {
    // One warning per turn is enough; one per call would fill the context with the same advice.
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
    // Models invent any number of tool names. As metric subjects they would overload the collector, so they share
    // one.
    let subject = if out.rules.tools.get(tool).is_some() { tool } else { "unknown" };
    out.count(MetricName::LoopGuardTotal, format!("tool {subject}"), 1);
    why
}

/// The reason with the limit that the count reached.
fn reason(guard: &LoopGuardPolicy, found: FoundRepetition, policy: &Policy) -> StoredReason {
    let rule = format!("loop_guard.{}.{}", found.pattern.name(), found.stage.name());
    StoredReason::new(policy, rule, &shown(found.limit(guard)), [found.fact()])
}

fn shown(limit: &Setting<Option<core::num::NonZeroU32>>) -> Setting<String> {
    limit.map(|limit| limit.map_or_else(|| "never".to_owned(), |limit| limit.to_string()))
}
