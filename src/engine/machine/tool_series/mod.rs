//! One tool call of a reply: its arguments are corrected, its tool runs, fails and runs again, and it is answered.
//!
//! It runs nothing before the calls in front of it: its batch says when it is looked at, and carries out what comes of that
//! ([`CallStep`]).

mod approval;
mod attempts;
mod exhausted;
mod results;
mod uncertain_effect;

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::call_queue::CallPermit;
use super::call_refusal::CallRefusal;
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
    /// Shared, as a slot is copied more often than it is written.
    pub(in crate::engine) arguments: Arc<Value>,
    pub(in crate::engine) planner: Option<CallOverride>,
    pub(in crate::engine) series: AttemptSeries,
    /// What is known of its last run.
    #[serde(default, skip_serializing_if = "RunFacts::is_empty")]
    pub(in crate::engine) ran: RunFacts,
    /// Its place among those that run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in crate::engine) place: Option<CallPermit>,
    /// What the attempt that failed last has left: the rules may have changed since, and not let it run again any more.
    #[serde(default = "not_started", skip_serializing_if = "EffectState::is_not_started")]
    pub(in crate::engine) left: EffectState,
    /// The rules have changed since it began, and a person is to be asked before it runs again.
    #[serde(default, skip_serializing_if = "crate::session::is_default")]
    pub(in crate::engine) to_approve: bool,
    pub(in crate::engine) phase: CallPhase,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(in crate::engine) enum CallPhase {
    /// Running, or waiting for another attempt.
    UnderWay,
    /// Its arguments hold, and it waits for a place.
    Waiting,
    /// It has a place, and a person is to be asked about it, one question after the other.
    Unasked,
    /// A person is being asked about it.
    Asked,
    /// Failed, and it is being found out whether it has acted.
    Doubtful(Box<UnverifiedRun>),
    /// Answered, but the planner has still to decide what is done about it.
    WithPlanner(Box<RetryExhausted>),
    /// The final report, answered, while the planner decides what is done about it.
    ReportWithPlanner,
    /// An attempt ended; its turn to be looked at comes when the calls before it are settled.
    Ended(ToolOutcome, Instant, #[serde(skip)] Memo<ClassifiedFailure>),
    /// Refused before it ran; written down when its turn comes.
    Refused(CallRefusal),
    /// The arguments are wrong; counted when its turn comes.
    Invalid(InvalidArguments),
    /// The final report, looked at when its turn comes.
    Report(String),
    /// The host needs it no more; answered when its turn comes.
    Withdrawn(WithdrawnCall),
    /// Answered.
    Settled,
}

/// How far a call had come when the host withdrew it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(in crate::engine) enum WithdrawnCall {
    /// Its tool has not run.
    NotStarted,
    /// Its tool was running, or had failed: it may have had side effects.
    Interrupted,
}

/// A run that failed and may have had side effects.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(in crate::engine) struct UnverifiedRun {
    pub(in crate::engine) failure: Failure,
    pub(in crate::engine) effect: EffectState,
    pub(in crate::engine) at: Instant,
    /// Its class under the rules as they are.
    #[serde(skip)]
    pub(in crate::engine) classified: Memo<ClassifiedFailure>,
}

/// Arguments that do not hold.
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

/// What older sessions do not say decides nothing.
const fn not_started() -> EffectState {
    EffectState::NotStarted
}

impl DigestedPart for ToolSeries {}

/// What a call is decided with, in addition to what the run has.
pub(in crate::engine) struct CallContext<'a> {
    /// The number of its batch.
    pub(in crate::engine) batch: u64,
    /// Its place there.
    pub(in crate::engine) index: usize,
    /// The room that the results of the batch share.
    pub(in crate::engine) room: ResultRoom,
    /// What the model reads after the results of the batch.
    pub(in crate::engine) afterwords: &'a mut Vec<ReplyGuidance>,
}

/// What comes of a look at a call.
#[derive(Debug)]
#[must_use]
pub(in crate::engine) enum CallStep {
    /// It is in flight, or is looked at again in its turn.
    Open,
    /// A person is to be asked about it.
    Question,
    /// It has its result.
    Answered {
        /// What the model reads.
        text: String,
        /// Whether it failed.
        error: bool,
        then: AfterAnswer,
    },
}

/// What is done once a call has its result.
#[derive(Debug)]
pub(in crate::engine) enum AfterAnswer {
    Nothing,
    /// The attempts at it are used up, and the policy has decided this.
    GiveUp(PlannerDecision, RetryExhausted),
    /// The planner decides.
    Consult(RetryExhausted),
}

impl CallStep {
    /// It has its result, and that is all.
    const fn answered(text: String, error: bool) -> Self {
        Self::Answered { text, error, then: AfterAnswer::Nothing }
    }
}

impl CallContext<'_> {
    /// The same for every attempt of the call, and for no other call.
    fn idempotency_key(&self, run: &RunParts<'_>) -> String {
        // Made of what a replay knows. The index in the batch is part of it, so two equal calls of one reply have two
        // keys.
        format!("{}-{}-{}", run.id, self.batch, self.index)
    }
}

impl ToolSeries {
    /// The rules for the call.
    pub(in crate::engine) fn policy(&self, run: &RunParts<'_>) -> Arc<ToolPolicy> {
        run.tool_policy(&self.tool, &self.arguments, self.planner.as_ref())
    }

    /// It gets no further attempt, and it is unknown what came of the last.
    pub(in crate::engine) fn interrupted(&self, run: &mut RunParts<'_>) -> CallStep {
        let policy = self.policy(run);
        let text = run.out.say(&policy.messages.interrupted, json!({ "tool": self.tool }));
        CallStep::answered(text, true)
    }

    /// It does not run any more.
    pub(in crate::engine) fn not_started(&self, run: &mut RunParts<'_>) -> CallStep {
        let policy = self.policy(run);
        let text = run.out.say(&policy.messages.not_started, json!({ "tool": self.tool }));
        CallStep::answered(text, true)
    }

    /// It has ended, and is no longer settled because the run is over: the model learns what it answered.
    pub(in crate::engine) fn ended(
        &self,
        data: Option<&Value>,
        cx: &CallContext<'_>,
        run: &mut RunParts<'_>,
    ) -> CallStep {
        CallStep::answered(self.show(&self.policy(run), data, cx, run), false)
    }

    /// It does not run. A reducer that has something against that is what the model learns then: `true`.
    pub(in crate::engine) fn refuse(
        &self,
        refusal: CallRefusal,
        cx: &CallContext<'_>,
        run: &mut RunParts<'_>,
    ) -> (CallStep, bool) {
        let (call, tool) = (self.call.clone(), self.tool.clone());
        let CallRefusal { class, text, because } = refusal;
        // Reducers see refusals, too: feedback of the session about a call that never ran is kept by them.
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

    /// Why a call that waited does not begin any more, whatever room there is.
    pub(in crate::engine) fn too_late(&self, run: &mut RunParts<'_>) -> Option<CallRefusal> {
        let refusal = run.ending.refuse(&self.tool, run.turn, &mut run.out);
        // The deadline of the run, or that of the proposal: whatever comes first, nothing begins behind it.
        if refusal.is_some() || run.deadline().is_none_or(|deadline| deadline > run.out.now) {
            return refusal;
        }
        let policy = self.policy(run);
        let text = run.out.say(&policy.messages.not_started, json!({ "tool": self.tool }));
        Some(CallRefusal { class: ErrorClass::Timeout, text, because: Vec::new() })
    }

    /// A call that has a place does not run after all.
    pub(in crate::engine) fn refuse_agreed(&mut self, refusal: CallRefusal, run: &mut RunParts<'_>) {
        // It never ran, so it takes nothing from the budget of calls.
        run.spending.uncount_tool_call();
        // A probe that does not run shows nothing, and has to be free for the next call.
        self.return_probe(run);
        self.phase = CallPhase::Refused(refusal);
    }

    /// Gives back the probe that the call has, if it has one: it shows nothing about the tool's health.
    pub(in crate::engine) fn return_probe(&mut self, run: &mut RunParts<'_>) {
        if self.place == Some(CallPermit::Probe) {
            // The permit stays, the lease does not: giving it back twice would free a probe of another call.
            self.place = Some(CallPermit::Run);
            run.tools.return_probe(&self.tool, &mut run.out);
        }
    }

    /// What the model is shown of a result; one that the host keeps to itself, the host shows.
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

/// What the model learns of a reducer that refused the update about a tool call.
fn reducer_text(tool: &str, error: &ReducerError, run: &mut RunParts<'_>) -> String {
    let vars = json!({ "tool": tool, "reducer": error.reducer, "error": error.message });
    run.out.say(&run.policy().tool(tool).messages.reducer_error.clone(), vars)
}
