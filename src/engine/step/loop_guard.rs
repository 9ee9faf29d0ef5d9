//! A model that goes round in circles: it is told, then its calls do not run, then the next turn is the last.

use serde_json::{Value, json};

use super::super::because::because;
use super::super::canonical;
use super::super::directive::{Because, Note};
use super::super::event::Drive;
use super::super::metric::MetricName;
use super::super::repeats::{LoopPattern, LoopStage, Repetition};
use super::super::state::{Guidance, LastTurn, Refusal, Slot};
use super::Step;
use crate::policy::{ErrorClass, LoopGuardPolicy, Setting, Stages};
use crate::session::{FinalReason, ToolCall};

/// What a call or its end repeats.
#[derive(Clone, Copy)]
struct Found {
    pattern: LoopPattern,
    length: u32,
    count: u32,
    stage: LoopStage,
}

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
        let found = self.worst(guard, tool, number)?;
        if found.stage == LoopStage::Nudge {
            self.nudged(guard, &call.id, &call.name, found);
            return None;
        }
        self.state.lately.held_back(found.pattern, tool, number);
        let why = self.noted(guard, &call.id, &call.name, found);
        if found.stage == LoopStage::FinalTurn
            && self.state.drive == Drive::Turns
            && self.state.last_turn == LastTurn::No
        {
            self.force_last_turn(FinalReason::Loop, vec![why.clone()]);
        }
        let text = self.say(&guard.block_message, vars(&call.name, found));
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
        let Stages { nudge, block, final_turn } = &guard.same_result;
        if [nudge, block, final_turn].iter().all(|stage| stage.value.is_none()) {
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
        let nudge = stages(guard, pattern).nudge.value;
        if nudge.is_some_and(|nudge| count >= nudge.get()) {
            self.nudged(guard, call, tool, Found { pattern, length: 1, count, stage: LoopStage::Nudge });
        }
    }

    /// The last stage that any pattern has reached with the call.
    fn worst(&self, guard: &LoopGuardPolicy, tool: u64, call: u64) -> Option<Found> {
        let lately = &self.state.lately;
        let cycle = lately.cycle();
        let counts = [
            (LoopPattern::SameCall, 1, lately.same_calls(guard.count.value)),
            (
                LoopPattern::Cycle,
                cycle.map_or(0, |cycle| cycle.length),
                cycle.map_or(0, |cycle| cycle.rounds),
            ),
            (LoopPattern::SameResult, 1, lately.results_of(call)),
            (LoopPattern::SameError, 1, lately.errors_of(tool)),
        ];
        let mut worst: Option<Found> = None;
        for (pattern, length, count) in counts {
            let Some(stage) = LoopStage::at(count, stages(guard, pattern)) else { continue };
            let told_already = match pattern {
                LoopPattern::SameCall => false,
                LoopPattern::Cycle => cycle.is_some_and(|cycle| !cycle.completes),
                // That was said when it ended so.
                LoopPattern::SameResult | LoopPattern::SameError => true,
            };
            if (stage > LoopStage::Nudge || !told_already) && worst.is_none_or(|worst| stage > worst.stage) {
                worst = Some(Found { pattern, length, count, stage });
            }
        }
        worst
    }

    /// The model is told after the results, once for each batch.
    fn nudged(&mut self, guard: &LoopGuardPolicy, call: &str, tool: &str, found: Found) {
        if self.state.afterwords.iter().any(|told| told.class == ErrorClass::RepeatedCall) {
            return;
        }
        self.noted(guard, call, tool, found);
        let text = self.say(&guard.nudge_message, vars(tool, found));
        self.state.afterwords.push(Guidance { class: ErrorClass::RepeatedCall, text });
    }

    /// Writes the decision down, and returns the reason.
    fn noted(&mut self, guard: &LoopGuardPolicy, call: &str, tool: &str, found: Found) -> Because {
        let Found { pattern, length, count, stage } = found;
        let rules = stages(guard, pattern);
        let limit = match stage {
            LoopStage::Nudge => &rules.nudge,
            LoopStage::Block => &rules.block,
            LoopStage::FinalTurn => &rules.final_turn,
        };
        let rule = format!("loop_guard.{}.{}", pattern.name(), stage.name());
        let why = because(self.policy, rule, &shown(limit), [fact(found)]);
        let repetition = Repetition { call: call.into(), tool: tool.into(), pattern, length, count, stage };
        self.note(Note::LoopGuard(repetition), vec![why.clone()]);
        // Names that a model made up are no subjects: there is no end of them.
        let subject = if self.tools.get(tool).is_some() { tool } else { "unknown" };
        self.count(MetricName::LoopGuardTotal, format!("tool {subject}"), 1);
        why
    }
}

const fn stages(guard: &LoopGuardPolicy, pattern: LoopPattern) -> &Stages {
    match pattern {
        LoopPattern::SameCall => &guard.same_call,
        LoopPattern::Cycle => &guard.cycle,
        LoopPattern::SameResult => &guard.same_result,
        LoopPattern::SameError => &guard.same_error,
    }
}

fn shown(limit: &Setting<Option<core::num::NonZeroU32>>) -> Setting<String> {
    limit.map(|limit| limit.map_or_else(|| "never".to_owned(), |limit| limit.to_string()))
}

fn fact(found: Found) -> String {
    let Found { pattern, length, count, .. } = found;
    match pattern {
        LoopPattern::SameCall => format!("the same call {count} times"),
        LoopPattern::Cycle => format!("{count} rounds of the same {length} calls"),
        LoopPattern::SameResult => format!("the same result {count} times"),
        LoopPattern::SameError => format!("the same failure {count} times"),
    }
}

fn vars(tool: &str, found: Found) -> Value {
    json!({ "tool": tool, "count": found.count, "pattern": found.pattern, "length": found.length })
}
