//! A model that goes round in circles: it is told, then its calls do not run, then the next turn is the last.

use serde_json::Value;

use super::super::canonical;
use super::super::directive::Note;
use super::super::event::Drive;
use super::super::loop_stage::{Found, is_asked_for};
use super::super::metric::MetricName;
use super::super::reason::Reason;
use super::super::repeats::{LoopPattern, LoopStage};
use super::super::state::{Guidance, LastTurn, Refusal, Slot};
use super::Step;
use crate::policy::{ErrorClass, LoopGuardPolicy, Setting};
use crate::session::{FinalReason, ToolCall};

impl Step<'_> {
    /// Looks at a call before it runs. Says why it does not, if it repeats itself too often.
    pub(super) fn repeated(&mut self, call: &ToolCall, arguments: Option<&Value>) -> Option<Refusal> {
        let policy = self.policy.tool(&call.name);
        let guard = &policy.loop_guard;
        if !guard.enabled.value {
            return None;
        }
        let tool = canonical::of_texts(&[&call.name]);
        let number = match arguments {
            Some(arguments) => canonical::call(&call.name, arguments),
            None => canonical::raw_call(&call.name, &call.arguments),
        };
        self.state.lately.called(number);
        let found = self.state.lately.worst(guard, tool, number)?;
        if found.stage == LoopStage::Nudge {
            self.nudged(guard, &call.id, &call.name, found);
            return None;
        }
        self.state.lately.held_back(found.pattern, tool, number);
        let why = self.noted(guard, &call.id, &call.name, found);
        if found.stage == LoopStage::FinalTurn
            && self.state.context.drive == Drive::Turns
            && self.state.ending.last_turn == LastTurn::No
        {
            self.force_last_turn(FinalReason::Loop, vec![why.clone().told(self.policy)]);
        }
        let text = self.say(&guard.block_message, found.vars(&call.name));
        Some(Refusal { class: ErrorClass::RepeatedCall, text, because: vec![why] })
    }

    /// A call that ran went well.
    pub(super) fn repeats_result(&mut self, slot: &Slot, data: &Value) {
        let policy = self.policy.tool(&slot.tool);
        let guard = &policy.loop_guard;
        if !guard.enabled.value {
            return;
        }
        self.state.lately.recovered(canonical::of_texts(&[&slot.tool]));
        if !is_asked_for(guard, LoopPattern::SameResult) {
            // Nobody asks, and results can be long.
            return;
        }
        let number = canonical::call(&slot.tool, &slot.arguments);
        let count = self.state.lately.resulted(number, canonical::of(data));
        self.ended_alike(guard, &slot.call, &slot.tool, LoopPattern::SameResult, count);
    }

    /// A call failed for good, or was refused for what it says.
    pub(super) fn repeats_error(&mut self, call: &str, tool: &str, class: ErrorClass, message: &str) {
        let policy = self.policy.tool(tool);
        let guard = &policy.loop_guard;
        if !guard.enabled.value {
            return;
        }
        let error = canonical::of_texts(&[class.name(), message]);
        let count = self.state.lately.failed(canonical::of_texts(&[tool]), error);
        self.ended_alike(guard, call, tool, LoopPattern::SameError, count);
    }

    /// How a call ended can only be told; the next one may not run.
    fn ended_alike(
        &mut self,
        guard: &LoopGuardPolicy,
        call: &str,
        tool: &str,
        pattern: LoopPattern,
        count: u32,
    ) {
        if let Some(found) = Found::at_end(guard, pattern, count) {
            self.nudged(guard, call, tool, found);
        }
    }

    /// The model is told after the results, once for each batch.
    fn nudged(&mut self, guard: &LoopGuardPolicy, call: &str, tool: &str, found: Found) {
        if self.state.batch.afterwords.iter().any(|told| told.class == ErrorClass::RepeatedCall) {
            return;
        }
        self.noted(guard, call, tool, found);
        let text = self.say(&guard.nudge_message, found.vars(tool));
        self.state.batch.afterwords.push(Guidance { class: ErrorClass::RepeatedCall, text });
    }

    /// Writes the decision down, and returns the reason.
    fn noted(&mut self, guard: &LoopGuardPolicy, call: &str, tool: &str, found: Found) -> Reason {
        let rule = format!("loop_guard.{}.{}", found.pattern.name(), found.stage.name());
        let why = Reason::new(self.policy, rule, &shown(found.limit(guard)), [found.fact()]);
        let repetition = found.of(call, tool);
        self.note(Note::LoopGuard(repetition), vec![why.clone().told(self.policy)]);
        // Names that a model made up are no subjects: there is no end of them.
        let subject = if self.tools.get(tool).is_some() { tool } else { "unknown" };
        self.count(MetricName::LoopGuardTotal, format!("tool {subject}"), 1);
        why
    }
}

fn shown(limit: &Setting<Option<core::num::NonZeroU32>>) -> Setting<String> {
    limit.map(|limit| limit.map_or_else(|| "never".to_owned(), |limit| limit.to_string()))
}
