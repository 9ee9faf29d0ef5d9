//! The final turn, which allows only the final report: whether it has come, and why.

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

/// The end of a run that comes before its model is done.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(in crate::engine) struct FinalTurn {
    last_turn: LastTurn,
    /// Why the final turn is the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reason: Option<FinalReason>,
    /// Why the run was asked to end: no wait is begun any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stop: Option<String>,
    /// Whether a turn that the host proposed has ended as the last, and no report came since.
    #[serde(default, skip_serializing_if = "crate::session::is_default")]
    answered: bool,
}

/// Whether the current turn allows only the final report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum LastTurn {
    #[default]
    No,
    /// The next one will.
    Next,
    /// This one does.
    Now,
}

impl FinalTurn {
    /// Whether this turn is the last.
    pub(in crate::engine) fn is_now(&self) -> bool {
        self.last_turn == LastTurn::Now
    }

    /// Whether the next turn is the last.
    pub(in crate::engine) fn is_next(&self) -> bool {
        self.last_turn == LastTurn::Next
    }

    /// Whether this turn or the next is the last.
    pub(in crate::engine) fn is_near(&self) -> bool {
        self.last_turn != LastTurn::No
    }

    /// A turn that the host proposed has ended.
    pub(in crate::engine) fn turn_ended(&mut self) {
        self.answered = self.is_now();
    }

    /// A report was delivered.
    pub(in crate::engine) const fn report_came(&mut self) {
        self.answered = false;
    }

    /// Whether the host has had its final turn, and no report came of it.
    pub(in crate::engine) const fn is_answered(&self) -> bool {
        self.answered
    }

    /// Why the final turn is the last, once that was decided.
    pub(in crate::engine) const fn reason(&self) -> Option<FinalReason> {
        self.reason
    }

    /// Why the run was asked to end, if it was.
    pub(in crate::engine) fn stop(&self) -> Option<&str> {
        self.stop.as_deref()
    }

    /// The run is asked to end: from now on nothing is waited for.
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
        // One final turn, with the reason that came first: a second reason must not renew it, or the run would not
        // end.
        match self.last_turn {
            // It has begun; another one after it would be a turn more than the limit allows.
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

    /// Makes the turn in flight the last, although the next one may have been announced as it. Returns what the model reads.
    pub(in crate::engine) fn begin_early(
        &mut self,
        reason: FinalReason,
        turn: u32,
        why: Vec<DecisionReason>,
        out: &mut StepOutput<'_>,
    ) -> Message {
        if self.is_next() {
            // The announced turn is replaced by this one, so its reason is replaced, too.
            self.reason = None;
        }
        self.begin(reason, turn, why, out)
    }

    /// Makes the turn that begins the last. Returns what the model reads: it has nothing but the report to deliver.
    pub(in crate::engine) fn begin(
        &mut self,
        reason: FinalReason,
        turn: u32,
        why: Vec<DecisionReason>,
        out: &mut StepOutput<'_>,
    ) -> Message {
        self.last_turn = LastTurn::Now;
        // A reason that was announced earlier decided; reaching the limit of turns as well changes nothing.
        if self.reason.is_none() {
            self.reason = Some(reason);
            let max_turns = out.rules.policy.turn().max_turns.value.get();
            out.note(Note::FinalTurn { reason, turn, max_turns }, why);
        }
        let (template, vars) = final_turn(out.rules.policy, turn, self.reason_of_end());
        let text = out.say(template, vars);
        Message::User { text, guidance: Some("final_turn".into()) }
    }

    /// Why a call of a tool does not run in the final turn, or once the end was asked for.
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
        // Without a report the final turn ends with a plain answer, so the message asks for that.
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

    /// The rule by which only the end is allowed. Where another rule than the limit made a turn the last, a note said so then:
    /// of those only the rules are named again that have no other meaning.
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
            // These were noted when they decided, with their facts; naming them at every refusal would repeat the
            // note.
            FinalReason::Context | FinalReason::RetryExhaustion | FinalReason::Loop | FinalReason::Budget => {
                None
            }
        }
    }

    /// Why only the end is allowed.
    fn reason_of_end(&self) -> FinalReason {
        match self.last_turn {
            LastTurn::Now => self.reason.unwrap_or(FinalReason::MaxTurns),
            // The user asked to stop in a turn that is not the final one: that is why calls are refused in it.
            LastTurn::No | LastTurn::Next => FinalReason::UserStop,
        }
    }
}

/// The limit of turns, if this turn reaches it.
pub(in crate::engine) fn out_of_turns(policy: &Policy, turn: u32) -> Option<DecisionReason> {
    let limit = &policy.turn().max_turns;
    (turn >= limit.value.get())
        .then(|| because(policy, "turn.max_turns", limit, [format!("turn {turn} is the last")]))
}

/// What the model reads in its final turn: the text, and what fills it.
pub(crate) fn final_turn(policy: &Policy, number: u32, reason: FinalReason) -> (&Setting<Template>, Value) {
    let (turn, output) = (policy.turn(), policy.output());
    let vars = json!({
        "tool": output.map(|output| &output.tool.value), "turn": number,
        "max_turns": turn.max_turns.value.get(), "reason": reason,
    });
    (if output.is_some() { &turn.messages.final_turn } else { &turn.messages.summary }, vars)
}
