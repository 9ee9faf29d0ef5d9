//! A call that a person is asked about: whether it may run, and whether it may run again.

use serde_json::{Value, json};

use super::super::call_queue::Place;
use super::super::run_parts::RunParts;
use super::super::work_table::Pending;
use super::{CallContext, CallPhase, CallStep, Refusal, ToolSeries};
use crate::engine::ask::{Answer, Ask, Question};
use crate::engine::because::{Shown, because};
use crate::engine::directive::{Because, Work, WorkId};
use crate::engine::reason::Reason;
use crate::policy::{Approval, CallPolicy, ErrorClass, Scope, Unanswered};

impl ToolSeries {
    /// It has got its place: it runs, or a person is asked first.
    pub(in crate::engine) fn begin(
        &mut self,
        place: Place,
        cx: &CallContext<'_>,
        run: &mut RunParts<'_>,
    ) -> CallStep {
        self.place = Some(place);
        if self.policy(run).approval.value == Approval::Always {
            self.phase = CallPhase::Unasked;
            return CallStep::Open;
        }
        self.phase = CallPhase::UnderWay;
        self.run_tool(Vec::new(), cx, run)
    }

    /// A person can be asked about it now: that is done, if it is still to be.
    pub(in crate::engine) fn ask(&mut self, cx: &CallContext<'_>, run: &mut RunParts<'_>) -> CallStep {
        match &self.phase {
            CallPhase::Unasked => {
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

    /// Asks whether the call may run.
    fn ask_whether(&mut self, index: usize, run: &mut RunParts<'_>) {
        self.phase = CallPhase::Asked;
        let CallPolicy { policy, left_out } =
            run.policy().call(&self.tool, &self.arguments, self.planner.as_ref());
        // A condition that cannot be told keeps its gate shut: the reason is told beside the rule.
        let unsure = left_out.into_iter().filter(|_| policy.approval.origin.scope == Scope::Call);
        let why = because(run.policy(), "approval", &policy.approval.map(Shown), unsure);
        self.ask_person(Pending::Approve(index), Question::Run, "", why, run);
    }

    /// A person has answered whether the call may run, or nobody has.
    pub(in crate::engine) fn on_approved(
        &mut self,
        answer: Answer,
        cx: &CallContext<'_>,
        run: &mut RunParts<'_>,
    ) -> CallStep {
        let unanswered = &run.policy().turn().approval.unanswered;
        let (yes, answered) = match answer {
            Answer::Approve | Answer::ApproveAll => (true, true),
            Answer::Refuse => (false, true),
            Answer::None => (unanswered.value == Unanswered::Approve, false),
        };
        if answer == Answer::ApproveAll {
            run.tools.agree(&self.tool);
        }
        let policy = self.policy(run);
        let why = if answered {
            let fact = if yes { "the user agreed" } else { "the user did not agree" };
            Reason::new(run.policy(), "approval", &policy.approval.map(Shown), [fact.to_owned()])
        } else {
            let rule = unanswered.map(Shown);
            Reason::new(run.policy(), "turn.approval.unanswered", &rule, ["nobody answered".to_owned()])
        };
        if yes {
            return self.begin_agreed(vec![why.told(run.policy())], cx, run);
        }
        let vars: Value = json!({ "tool": self.tool, "answered": answered });
        let text = run.out.say(&policy.messages.not_approved, vars);
        let class = ErrorClass::PermissionDenied;
        self.refuse_agreed(Refusal { class, text, because: vec![why] }, run);
        CallStep::Open
    }

    /// A call that had to be agreed to runs now, unless something has come up against it meanwhile.
    fn begin_agreed(&mut self, why: Vec<Because>, cx: &CallContext<'_>, run: &mut RunParts<'_>) -> CallStep {
        if let Some(refusal) = self.too_late(run) {
            self.refuse_agreed(refusal, run);
            return CallStep::Open;
        }
        let policy = self.policy(run);
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
        pending: Pending,
        question: Question,
        message: &str,
        why: Because,
        run: &mut RunParts<'_>,
    ) {
        let own = run.policy().turn().approval.timeout.value.length();
        let left = run.deadline().map(|deadline| deadline.since(run.out.now));
        let ask = Ask {
            work: WorkId(0),
            question,
            call: self.call.clone(),
            tool: self.tool.clone(),
            arguments: Value::clone(&self.arguments),
            message: message.to_owned(),
            // Nobody is waited for longer than the run has time.
            timeout: [own, left].into_iter().flatten().min(),
        };
        run.ask(pending, |work| Work::Ask(Ask { work, ..ask }), vec![why]);
    }
}
