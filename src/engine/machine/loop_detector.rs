//! A model that repeats itself: it is warned, then its calls do not run, then the next turn is the last.

use serde_json::Value;

use super::super::canonical;
use super::super::directive::Note;
use super::super::loop_stage::{Found, is_asked_for};
use super::super::metric::MetricName;
use super::super::reason::Reason;
use super::super::repeats::{LoopDetector, LoopPattern, LoopStage};
use super::final_turn::FinalTurn;
use super::out::Out;
use super::tool_series::Refusal;
use super::turn_guidance::Guidance;
use crate::policy::{ErrorClass, LoopGuardPolicy, Setting};
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
        afterwords: &mut Vec<Guidance>,
        out: &mut Out<'_>,
    ) -> Option<Refusal> {
        let policy = out.rules.policy.tool(&call.name);
        let guard = &policy.loop_guard;
        if !guard.enabled.value {
            return None;
        }
        let tool = canonical::of_texts(&[&call.name]);
        let number = match arguments {
            Some(arguments) => canonical::call(&call.name, arguments),
            None => canonical::raw_call(&call.name, &call.arguments),
        };
        self.called(number);
        let found = self.worst(guard, tool, number)?;
        if found.stage == LoopStage::Nudge {
            nudge(guard, (&call.id, &call.name), found, warned, afterwords, out);
            return None;
        }
        self.held_back(found.pattern, tool, number);
        let why = note(guard, &call.id, &call.name, found, out);
        if found.stage == LoopStage::FinalTurn && !ending.is_near() {
            ending.force(FinalReason::Loop, turn, vec![why.clone().told(out.rules.policy)], out);
        }
        let text = out.say(&guard.messages.block, found.vars(&call.name));
        Some(Refusal { class: ErrorClass::RepeatedCall, text, because: vec![why] })
    }

    /// Looks at how a call of a tool ended. That can only be pointed out; it is the next one that may not run.
    pub(in crate::engine) fn ended(
        &mut self,
        (call, tool): (&str, &str),
        end: &EndOfCall<'_>,
        warned: bool,
        afterwords: &mut Vec<Guidance>,
        out: &mut Out<'_>,
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
                    // No rule counts them, and results can be long.
                    return;
                }
                // What the host keeps to itself cannot be compared.
                let Some(data) = data else { return };
                let number = canonical::call(tool, arguments);
                (LoopPattern::SameResult, self.resulted(number, canonical::of(data)))
            }
            EndOfCall::Failed(class, message) => {
                let error = canonical::of_texts(&[class.name(), message]);
                (LoopPattern::SameError, self.failed(name, error))
            }
        };
        if let Some(found) = Found::at_end(guard, pattern, count) {
            nudge(guard, (call, tool), found, warned, afterwords, out);
        }
    }
}

/// Warns the model after the results, once for each turn.
fn nudge(
    guard: &LoopGuardPolicy,
    (call, tool): (&str, &str),
    found: Found,
    warned: bool,
    afterwords: &mut Vec<Guidance>,
    out: &mut Out<'_>,
) {
    if warned || afterwords.iter().any(|guidance| guidance.class == ErrorClass::RepeatedCall) {
        return;
    }
    note(guard, call, tool, found, out);
    let text = out.say(&guard.messages.nudge, found.vars(tool));
    afterwords.push(Guidance { class: ErrorClass::RepeatedCall, text });
}

/// Notes the decision, and returns its reason.
fn note(guard: &LoopGuardPolicy, call: &str, tool: &str, found: Found, out: &mut Out<'_>) -> Reason {
    let policy = out.rules.policy;
    let rule = format!("loop_guard.{}.{}", found.pattern.name(), found.stage.name());
    let why = Reason::new(policy, rule, &shown(found.limit(guard)), [found.fact()]);
    out.note(Note::LoopGuard(found.of(call, tool)), vec![why.clone().told(policy)]);
    // Names that a model made up are no subjects: there is no end of them.
    let subject = if out.rules.tools.get(tool).is_some() { tool } else { "unknown" };
    out.count(MetricName::LoopGuardTotal, format!("tool {subject}"), 1);
    why
}

fn shown(limit: &Setting<Option<core::num::NonZeroU32>>) -> Setting<String> {
    limit.map(|limit| limit.map_or_else(|| "never".to_owned(), |limit| limit.to_string()))
}
