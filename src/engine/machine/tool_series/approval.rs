//! Approval of calls by a person: before the first run, and before a repeated run.

use serde_json::{Value, json};

use super::super::call_queue::CallPermit;
use super::super::run_parts::RunParts;
use super::super::work_table::WorkPurpose;
use super::{CallContext, CallPhase, CallStep, ToolSeries};
use crate::engine::ask::{ApprovalAnswer, ApprovalQuestion};
use crate::engine::because::{ShownValue, because};
use crate::engine::directive::AskPerson;
use crate::engine::directive::{DecisionReason, Work};
use crate::engine::ids::WorkId;
use crate::engine::machine::call_refusal::CallRefusal;
use crate::engine::reason::StoredReason;
use crate::policy::{Approval, CallPolicy, ErrorClass, LayerKind, UnansweredMode};

impl ToolSeries {
    /// Starts a call that has its permit; a person is asked first if necessary.
    pub(in crate::engine) fn begin(
        &mut self,
        place: CallPermit,
        cx: &CallContext<'_>,
        run: &mut RunParts<'_>,
    ) -> CallStep {
        self.place = Some(place);
        // The question comes after the permit: an approved call should run at once, under the present rules.
        if self.policy(run).approval.value == Approval::Always {
            self.phase = CallPhase::Unasked;
            return CallStep::Open;
        }
        self.phase = CallPhase::UnderWay;
        self.run_tool(Vec::new(), cx, run)
    }

    /// Asks a person about the call, if this is still necessary.
    pub(in crate::engine) fn ask(&mut self, cx: &CallContext<'_>, run: &mut RunParts<'_>) -> CallStep {
        match &self.phase {
            CallPhase::Unasked => {
                // The call may have waited minutes for its question.
                if let Some(refusal) = self.too_late(run) {
                    self.refuse_agreed(refusal, run);
                } else if run.tools.is_agreed(&self.tool) {
                    return self.begin_agreed(Vec::new(), cx, run);
                } else {
                    self.ask_whether(cx.index, run);
                }
            }
            CallPhase::Doubtful(doubt) => self.ask_again(doubt, cx.index, run),
            CallPhase::UnderWay
            | CallPhase::Paced
            | CallPhase::Waiting
            | CallPhase::Asked
            | CallPhase::WithPlanner(_)
            | CallPhase::ReportWithPlanner
            | CallPhase::Ended(..)
            | CallPhase::Refused(_)
            | CallPhase::Invalid(_)
            | CallPhase::Report(_)
            | CallPhase::Withdrawn(_)
            | CallPhase::Settled => {}
        }
        CallStep::Open
    }

    /// Asks a person whether the call may run.
    fn ask_whether(&mut self, index: usize, run: &mut RunParts<'_>) {
        self.phase = CallPhase::Asked;
        let CallPolicy { policy, left_out } =
            run.policy().call(&self.tool, &self.arguments, self.planner.as_ref());
        // A condition that cannot be evaluated counts as true for an approval: otherwise it would protect nothing.
        // The reason explains why it had no value.
        let unsure = left_out.into_iter().filter(|_| policy.approval.origin.scope == LayerKind::Call);
        let why = because(run.policy(), "approval", &policy.approval.map(ShownValue), unsure);
        self.ask_person(WorkPurpose::Approve(index), ApprovalQuestion::Run, "", why, run);
    }

    /// Handles a person's answer, or the lack of one, whether the call may run.
    pub(in crate::engine) fn on_approved(
        &mut self,
        answer: ApprovalAnswer,
        cx: &CallContext<'_>,
        run: &mut RunParts<'_>,
    ) -> CallStep {
        let unanswered = &run.policy().turn().approval.unanswered;
        let (yes, answered) = match answer {
            ApprovalAnswer::Approve | ApprovalAnswer::ApproveAll => (true, true),
            ApprovalAnswer::Refuse => (false, true),
            // The policy decides about a missing answer; by default it is a refusal, since a call that needs approval
            // can do harm.
            ApprovalAnswer::None => (unanswered.value == UnansweredMode::Approve, false),
        };
        // For this run only: an approval for one task must not apply to the next.
        if answer == ApprovalAnswer::ApproveAll {
            run.tools.agree(&self.tool);
        }
        let policy = self.policy(run);
        let why = if answered {
            let fact = if yes { "the user agreed" } else { "the user did not agree" };
            StoredReason::new(run.policy(), "approval", &policy.approval.map(ShownValue), [fact.to_owned()])
        } else {
            let rule = unanswered.map(ShownValue);
            StoredReason::new(run.policy(), "turn.approval.unanswered", &rule, ["nobody answered".to_owned()])
        };
        if yes {
            return self.begin_agreed(vec![why.told(run.policy())], cx, run);
        }
        let vars: Value = json!({ "tool": self.tool, "answered": answered });
        let text = run.out.say(&policy.messages.not_approved, vars);
        // A refusal by a person is `permission_denied`, which no policy retries by default: repeating the question
        // until the answer is yes is no approval.
        let class = ErrorClass::PermissionDenied;
        self.refuse_agreed(CallRefusal { class, text, because: vec![why] }, run);
        CallStep::Open
    }

    /// Runs an approved call, unless the end of the run or the breaker prevents it now.
    fn begin_agreed(
        &mut self,
        why: Vec<DecisionReason>,
        cx: &CallContext<'_>,
        run: &mut RunParts<'_>,
    ) -> CallStep {
        if let Some(refusal) = self.too_late(run) {
            self.refuse_agreed(refusal, run);
            return CallStep::Open;
        }
        let policy = self.policy(run);
        // The breaker may have opened before the person answered.
        match run.tools.admit_again(&self.tool, self.place, &policy, &mut run.out) {
            Ok(place) => {
                self.place = place;
                self.to_approve = false;
                self.phase = CallPhase::UnderWay;
                self.run_tool(why, cx, run)
            }
            Err(refusal) => {
                self.refuse_agreed(refusal, run);
                CallStep::Open
            }
        }
    }

    pub(super) fn ask_person(
        &self,
        pending: WorkPurpose,
        question: ApprovalQuestion,
        message: &str,
        why: DecisionReason,
        run: &mut RunParts<'_>,
    ) {
        let own = run.policy().turn().approval.timeout.value.length();
        let left = run.deadline().map(|deadline| deadline.since(run.out.now));
        let ask = AskPerson {
            work: WorkId(0),
            question,
            call: self.call.clone(),
            tool: self.tool.clone(),
            arguments: Value::clone(&self.arguments),
            message: message.to_owned(),
            // The question ends with the run's time at the latest; a later answer could not be used.
            timeout: [own, left].into_iter().flatten().min(),
        };
        run.ask(pending, |work| Work::Ask(AskPerson { work, ..ask }), vec![why]);
    }
}
