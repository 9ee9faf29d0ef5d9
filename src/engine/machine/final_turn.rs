//! The final turn, which allows only the final report: whether it has begun, and why.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::super::because::{ShownValue, because};
use super::super::directive::{DecisionReason, Note};
use super::super::reason::StoredReason;
use super::out::{StepOutput, StepRules};
use crate::engine::machine::call_refusal::CallRefusal;
use crate::policy::{ErrorClass, Policy, Setting};
use crate::session::{FinalReason, Message};
use crate::text::Template;

/// The state of the final turn of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(in crate::engine) struct FinalTurn {
    last_turn: LastTurn,
    /// Why the turn is the final one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reason: Option<FinalReason>,
    /// Why the run was asked to stop; no new wait begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stop: Option<String>,
    /// Whether a final turn that the host proposed has ended, and no report has come since.
    #[serde(default, skip_serializing_if = "crate::session::is_default")]
    answered: bool,
}

/// Whether the current turn allows only the final report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum LastTurn {
    #[default]
    No,
    /// The next turn does.
    Next,
    /// The current turn does.
    Now,
}

impl FinalTurn {
    /// Whether the current turn is the final turn.
    pub(in crate::engine) fn is_now(&self) -> bool {
        self.last_turn == LastTurn::Now
    }

    /// Whether the next turn is the final turn.
    pub(in crate::engine) fn is_next(&self) -> bool {
        self.last_turn == LastTurn::Next
    }

    /// Whether the current or the next turn is the final turn.
    pub(in crate::engine) fn is_near(&self) -> bool {
        self.last_turn != LastTurn::No
    }

    /// Records that a turn proposed by the host has ended.
    pub(in crate::engine) fn turn_ended(&mut self) {
        self.answered = self.is_now();
    }

    /// Records that a report was delivered.
    pub(in crate::engine) const fn report_came(&mut self) {
        self.answered = false;
    }

    /// Whether the host has had its final turn without a report.
    pub(in crate::engine) const fn is_answered(&self) -> bool {
        self.answered
    }

    /// Why the turn is the final one, once this is decided.
    pub(in crate::engine) const fn reason(&self) -> Option<FinalReason> {
        self.reason
    }

    /// Why the run was asked to stop, if it was.
    pub(in crate::engine) fn stop(&self) -> Option<&str> {
        self.stop.as_deref()
    }

    /// Records a request to stop: no new wait begins.
    pub(in crate::engine) fn ask_to_stop(&mut self, reason: String) {
        self.stop = Some(reason);
    }

    pub(in crate::engine) fn force(
        &mut self,
        reason: FinalReason,
        turn: u32,
        why: Vec<DecisionReason>,
        out: &mut StepOutput<'_>,
    ) -> bool {
        // There is one final turn, with the first reason: a second reason must not renew it, or the run would not
        // end.
        match self.last_turn {
            // It has begun; another final turn would exceed the limit by one.
            LastTurn::Now => false,
            LastTurn::Next => true,
            LastTurn::No => {
                self.last_turn = LastTurn::Next;
                self.reason = Some(reason);
                let max_turns = out.rules.policy.turn().max_turns.value.get();
                out.note(Note::FinalTurn { reason, turn: turn.saturating_add(1), max_turns }, why);
                true
            }
        }
    }

    /// Makes the turn in flight the final turn, although the next one may have been announced. Returns the text for
    /// the model.
    pub(in crate::engine) fn begin_early(
        &mut self,
        reason: FinalReason,
        turn: u32,
        why: Vec<DecisionReason>,
        out: &mut StepOutput<'_>,
    ) -> Message {
        if self.is_next() {
            // The announced turn is replaced by this one, and its reason as well.
            self.reason = None;
        }
        self.begin(reason, turn, why, out)
    }

    /// Makes the turn that begins the final turn. Returns the text for the model, which may only deliver the report.
    pub(in crate::engine) fn begin(
        &mut self,
        reason: FinalReason,
        turn: u32,
        why: Vec<DecisionReason>,
        out: &mut StepOutput<'_>,
    ) -> Message {
        self.last_turn = LastTurn::Now;
        // The reason announced earlier decided; reaching the turn limit as well changes nothing.
        if self.reason.is_none() {
            self.reason = Some(reason);
            let max_turns = out.rules.policy.turn().max_turns.value.get();
            out.note(Note::FinalTurn { reason, turn, max_turns }, why);
        }
        let (template, vars) = final_turn(out.rules.policy, turn, self.reason_of_end());
        let text = out.say(template, vars);
        Message::User { text, guidance: Some("final_turn".into()) }
    }

    /// The refusal of a tool call in the final turn, or after a request to stop.
    pub(in crate::engine) fn refuse(
        &self,
        tool: &str,
        turn: u32,
        out: &mut StepOutput<'_>,
    ) -> Option<CallRefusal> {
        // After a request to stop, calls of the turn in flight are refused, too: each of them could take minutes.
        if !self.is_now() && self.stop.is_none() {
            return None;
        }
        let rules = out.rules.policy.turn();
        // If the policy has no report, the final turn ends with a plain answer, and the message asks for one.
        let (template, tool, fact) = match out.rules.policy.output() {
            Some(output) => {
                (&rules.messages.final_turn, output.tool.value.as_str(), "only the report is allowed")
            }
            None => (&rules.messages.no_tools, tool, "only an answer is allowed"),
        };
        let vars = json!({
            "tool": tool, "turn": turn, "max_turns": rules.max_turns.value.get(), "reason": self.reason_of_end(),
        });
        let text = out.say(template, vars);
        let because = self.why(out.rules, [fact.to_owned()]).into_iter().collect();
        Some(CallRefusal { class: ErrorClass::ToolUnavailable, text, because })
    }

    /// The reasons why only the report is allowed. If the turn limit was not the cause, a note named the rule
    /// earlier; such a rule is repeated only if it has no other meaning.
    pub(in crate::engine) fn why(
        &self,
        rules: StepRules<'_>,
        facts: impl IntoIterator<Item = String>,
    ) -> Option<StoredReason> {
        let (policy, turn) = (rules.policy, rules.policy.turn());
        match self.reason_of_end() {
            FinalReason::MaxTurns => {
                Some(StoredReason::new(policy, "turn.max_turns", &turn.max_turns, facts))
            }
            FinalReason::ReportAttempt => Some(StoredReason::new(
                policy,
                "turn.final_turn_after_rejection",
                &turn.final_turn_after_rejection,
                facts,
            )),
            FinalReason::UserStop => {
                Some(StoredReason::new(policy, "turn.on_stop", &turn.on_stop.map(ShownValue), facts))
            }
            // A note named these with their facts; repeating them at every refusal would duplicate the note.
            FinalReason::Context | FinalReason::RetryExhaustion | FinalReason::Loop | FinalReason::Budget => {
                None
            }
        }
    }

    /// The reason why only the report is allowed.
    fn reason_of_end(&self) -> FinalReason {
        match self.last_turn {
            LastTurn::Now => self.reason.unwrap_or(FinalReason::MaxTurns),
            // The user asked to stop in a turn that is not the final one, so its calls are refused.
            LastTurn::No | LastTurn::Next => FinalReason::UserStop,
        }
    }
}

/// The turn limit, if this turn reaches it.
pub(in crate::engine) fn out_of_turns(policy: &Policy, turn: u32) -> Option<DecisionReason> {
    let limit = &policy.turn().max_turns;
    (turn >= limit.value.get())
        .then(|| because(policy, "turn.max_turns", limit, [format!("turn {turn} is the last")]))
}

/// The template for the final turn, and its variables.
pub(crate) fn final_turn(policy: &Policy, number: u32, reason: FinalReason) -> (&Setting<Template>, Value) {
    let (turn, output) = (policy.turn(), policy.output());
    let vars = json!({
        "tool": output.map(|output| &output.tool.value), "turn": number,
        "max_turns": turn.max_turns.value.get(), "reason": reason,
    });
    (if output.is_some() { &turn.messages.final_turn } else { &turn.messages.summary }, vars)
}
