//! One tool call of a reply: corrections of its arguments, runs, retries, and the result.
//!
//! A call is not processed before the earlier calls: its batch determines when, and carries out the resulting
//! [`CallStep`].

mod approval;
mod attempts;
mod exhausted;
mod pace;
mod results;
mod uncertain_effect;

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::call_queue::CallPermit;
use super::call_refusal::CallRefusal;
use super::pace_pools::PaceTicket;
use super::run_parts::RunParts;
use super::turn_guidance::ReplyGuidance;
use crate::engine::ask::PlannerDecision;
use crate::engine::attempt_series::AttemptSeries;
use crate::engine::directive::Note;
use crate::engine::event::RunFacts;
use crate::engine::event::ToolOutcome;
use crate::engine::failure::{EffectState, Failure};
use crate::engine::memo::Memo;
use crate::engine::reason::told;
use crate::engine::tracked::DigestedPart;
use crate::policy::{CallOverride, ClassifiedFailure, ErrorClass, ToolPolicy, Trigger};
use crate::session::{ReducerError, RetryExhausted};
use crate::text::SchemaProblem;
use crate::time::Instant;
pub(in crate::engine) use results::ResultRoom;

/// One tool call of the batch in flight.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(in crate::engine) struct ToolSeries {
    pub(in crate::engine) call: String,
    pub(in crate::engine) tool: String,
    /// The arguments; shared, as a slot is copied more often than it is written.
    pub(in crate::engine) arguments: Arc<Value>,
    pub(in crate::engine) planner: Option<CallOverride>,
    pub(in crate::engine) series: AttemptSeries,
    /// The facts about its last run.
    #[serde(default, skip_serializing_if = "RunFacts::is_empty")]
    pub(in crate::engine) ran: RunFacts,
    /// The permit of the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in crate::engine) place: Option<CallPermit>,
    /// The effect of the last failed attempt, for the check whether changed rules still allow another run.
    #[serde(default = "not_started", skip_serializing_if = "EffectState::is_not_started")]
    pub(in crate::engine) left: EffectState,
    /// Whether changed rules require approval before the next run.
    #[serde(default, skip_serializing_if = "crate::session::is_default")]
    pub(in crate::engine) to_approve: bool,
    /// Its age under the pace of its tool.
    #[serde(default, skip_serializing_if = "crate::session::is_default")]
    pub(in crate::engine) ticket: PaceTicket,
    pub(in crate::engine) phase: CallPhase,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(in crate::engine) enum CallPhase {
    /// Running, or waiting for another attempt.
    UnderWay,
    /// The call has a permit, and waits for its turn under the pace of its tool. Without a recorded attempt it has not
    /// run.
    Paced,
    /// The arguments are valid, and the call waits for a permit.
    Waiting,
    /// The call has a permit, and waits for a question to a person.
    Unasked,
    /// A person is being asked about the call.
    Asked,
    /// Failed, and the effect is being verified.
    Doubtful(Box<UnverifiedRun>),
    /// Answered; the planner has not decided yet.
    WithPlanner(Box<RetryExhausted>),
    /// The final report, answered; the planner has not decided yet.
    ReportWithPlanner,
    /// An attempt ended; processed when the earlier calls are settled.
    Ended(ToolOutcome, Instant, #[serde(skip)] Memo<ClassifiedFailure>),
    /// Refused before it ran; recorded when the earlier calls are settled.
    Refused(CallRefusal),
    /// The arguments are invalid; counted when the earlier calls are settled.
    Invalid(InvalidArguments),
    /// The final report; processed when the earlier calls are settled.
    Report(String),
    /// Withdrawn by the host; answered when the earlier calls are settled.
    Withdrawn(WithdrawnCall),
    /// Answered.
    Settled,
}

/// The progress of a call when the host withdrew it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(in crate::engine) enum WithdrawnCall {
    /// The tool has not run.
    NotStarted,
    /// The tool was running, or had failed: it may have had side effects.
    Interrupted,
}

/// A run that failed and may have had side effects.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(in crate::engine) struct UnverifiedRun {
    pub(in crate::engine) failure: Failure,
    pub(in crate::engine) effect: EffectState,
    pub(in crate::engine) at: Instant,
    /// The class under the present rules.
    #[serde(skip)]
    pub(in crate::engine) classified: Memo<ClassifiedFailure>,
}

/// Invalid arguments.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::engine) struct InvalidArguments {
    pub(in crate::engine) class: ErrorClass,
    pub(in crate::engine) problems: Vec<SchemaProblem>,
}

impl CallPhase {
    /// Whether the tool has run, or is running.
    // Only these hold a permit and may have had side effects.
    pub(in crate::engine) const fn has_begun(&self) -> bool {
        match self {
            Self::UnderWay | Self::Doubtful(_) | Self::Ended(..) => true,
            Self::Waiting
            | Self::Unasked
            | Self::Asked
            | Self::Paced
            | Self::WithPlanner(_)
            | Self::ReportWithPlanner
            | Self::Refused(_)
            | Self::Invalid(_)
            | Self::Report(_)
            | Self::Withdrawn(_)
            | Self::Settled => false,
        }
    }
}

/// The default for older sessions; it forbids nothing.
const fn not_started() -> EffectState {
    EffectState::NotStarted
}

impl DigestedPart for ToolSeries {}

/// What processing a call needs in addition to the state of the run.
pub(in crate::engine) struct CallContext<'a> {
    /// The number of the batch.
    pub(in crate::engine) batch: u64,
    /// The index of the call in the batch.
    pub(in crate::engine) index: usize,
    /// The tokens that the results of the batch share.
    pub(in crate::engine) room: ResultRoom,
    /// Texts that the model reads after the results of the batch.
    pub(in crate::engine) afterwords: &'a mut Vec<ReplyGuidance>,
}

/// The result of processing a call.
#[derive(Debug)]
#[must_use]
pub(in crate::engine) enum CallStep {
    /// The call is in flight, or is processed again later.
    Open,
    /// A person must be asked about the call.
    Question,
    /// The call has its result.
    Answered {
        /// The text for the model.
        text: String,
        /// Whether the call failed.
        error: bool,
        then: AfterAnswer,
    },
}

/// What follows the result of a call.
#[derive(Debug)]
pub(in crate::engine) enum AfterAnswer {
    Nothing,
    /// The attempts are exhausted, and the policy has made this decision.
    GiveUp(PlannerDecision, RetryExhausted),
    /// The planner decides.
    Consult(RetryExhausted),
}

impl CallStep {
    /// A result without consequences.
    const fn answered(text: String, error: bool) -> Self {
        Self::Answered { text, error, then: AfterAnswer::Nothing }
    }
}

impl CallContext<'_> {
    /// The idempotency key: identical for every attempt of the call, different for other calls.
    fn idempotency_key(&self, run: &RunParts<'_>) -> String {
        // Built from facts that a replay has. It contains the index in the batch, so two equal calls of one reply
        // have different keys.
        format!("{}-{}-{}", run.id, self.batch, self.index)
    }
}

impl ToolSeries {
    /// The policy for the call.
    pub(in crate::engine) fn policy(&self, run: &RunParts<'_>) -> Arc<ToolPolicy> {
        run.tool_policy(&self.tool, &self.arguments, self.planner.as_ref())
    }

    /// Ends the call because the effect of the last attempt is unknown.
    pub(in crate::engine) fn interrupted(&self, run: &mut RunParts<'_>) -> CallStep {
        let policy = self.policy(run);
        let text = run.out.say(&policy.messages.interrupted, json!({ "tool": self.tool }));
        CallStep::answered(text, true)
    }

    /// Ends the call because its run or its wait is stopped.
    pub(in crate::engine) fn stopped(&self, run: &mut RunParts<'_>) -> CallStep {
        if self.phase == CallPhase::Paced && self.series.history.is_empty() {
            self.not_started(run)
        } else {
            self.interrupted(run)
        }
    }

    /// Ends the call because it will not run.
    pub(in crate::engine) fn not_started(&self, run: &mut RunParts<'_>) -> CallStep {
        CallStep::answered(self.not_started_text(false, run), true)
    }

    /// Ends a call that ended before the end of the run, with its own result.
    pub(in crate::engine) fn ended(
        &self,
        data: Option<&Value>,
        cx: &CallContext<'_>,
        run: &mut RunParts<'_>,
    ) -> CallStep {
        CallStep::answered(self.show(&self.policy(run), data, cx, run), false)
    }

    /// Refuses the call. Returns whether a reducer objected; the model then reads the objection.
    pub(in crate::engine) fn refuse(
        &self,
        refusal: CallRefusal,
        cx: &CallContext<'_>,
        run: &mut RunParts<'_>,
    ) -> (CallStep, bool) {
        let (call, tool) = (self.call.clone(), self.tool.clone());
        let CallRefusal { class, text, because } = refusal;
        // Reducers see refusals, too, so that they can keep feedback about calls that never ran.
        let objection = run.out.reduce(
            Trigger::ToolRefused,
            || json!({ "tool": tool, "call": call, "error_type": class, "message": text }),
        );
        let text = match &objection {
            Some(error) => reducer_text(&tool, error, run),
            None => text,
        };
        run.out.note(
            Note::Refused { call, tool, error_type: class, message: text.clone() },
            told(run.policy(), because),
        );
        let text = cx.room.show_failure(self, class, &text.clone(), text, run);
        (CallStep::answered(text, true), objection.is_some())
    }

    /// Why a waiting call no longer starts, even with free permits.
    pub(in crate::engine) fn too_late(&self, run: &mut RunParts<'_>) -> Option<CallRefusal> {
        let refusal = run.ending.refuse(&self.tool, run.turn, &mut run.out);
        // The deadline of the run or that of the proposal, whichever is earlier.
        if refusal.is_some() || run.deadline().is_none_or(|deadline| deadline > run.out.now) {
            return refusal;
        }
        let text = self.not_started_text(true, run);
        // A deadline of the host is no rule of the policy.
        let because = run.run_budget().out_of_time().into_iter().collect();
        Some(CallRefusal { class: ErrorClass::Timeout, text, because })
    }

    /// The text for the model about a call that never began.
    fn not_started_text(&self, late: bool, run: &mut RunParts<'_>) -> String {
        let policy = self.policy(run);
        run.out.say(&policy.messages.not_started, json!({ "tool": self.tool, "late": late, "beside": "" }))
    }

    /// Refuses a call that already has a permit.
    pub(in crate::engine) fn refuse_agreed(&mut self, refusal: CallRefusal, run: &mut RunParts<'_>) {
        // The call never ran, so it does not count against the budget of calls.
        run.spending.uncount_tool_call();
        // A probe that does not run shows nothing, and must be free for the next call.
        self.return_probe(run);
        self.phase = CallPhase::Refused(refusal);
    }

    /// Returns the probe of the call, if it has one, without a result.
    pub(in crate::engine) fn return_probe(&mut self, run: &mut RunParts<'_>) {
        if self.place == Some(CallPermit::Probe) {
            // The permit stays, the probe does not: returning it twice would free the probe of another call.
            self.place = Some(CallPermit::Run);
            run.tools.return_probe(&self.tool, &mut run.out);
        }
    }

    /// The form of a result that the model sees; a result that the host withholds is shown by the host.
    fn show(
        &self,
        policy: &ToolPolicy,
        data: Option<&Value>,
        cx: &CallContext<'_>,
        run: &mut RunParts<'_>,
    ) -> String {
        data.map_or_else(String::new, |data| cx.room.show_result(self, policy, data, run))
    }
}

/// The text for the model about a reducer that refused the update for a tool call.
fn reducer_text(tool: &str, error: &ReducerError, run: &mut RunParts<'_>) -> String {
    let vars = json!({ "tool": tool, "reducer": error.reducer, "error": error.message });
    run.out.say(&run.policy().tool(tool).messages.reducer_error.clone(), vars)
}
