//! The final report: accepted, or refused with a correction as often as the policy allows.

mod refusal;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::reply::repair_text;
use super::run_parts::RunParts;
use super::then::NextMachine;
use super::turn_guidance::TurnGuidance;
use super::work_table::WorkPurpose;
use crate::engine::ask::PlannerDecision;
use crate::engine::attempt_series::AttemptSeries;
use crate::engine::because::because;
use crate::engine::directive::{Note, Outcome};
use crate::engine::event::{DriveMode, FinishReason};
use crate::engine::ids::ProposalId;
use crate::engine::metric::MetricName;
use crate::engine::problems::{changed, parse, parse_said, reported};
use crate::engine::reason::told;
use crate::policy::{ErrorClass, OutputPolicy, Policy, Trigger};
use crate::session::{FinalReason, Message, ReportSource, RetryExhausted, StopReason};
use crate::text::SchemaProblem;
pub(in crate::engine) use refusal::say_problems;
use refusal::{RefusedReport, ReportFault};

/// The attempts at the final report.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(in crate::engine) struct ReportSeries {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    series: Option<AttemptSeries>,
    /// The number of reports delivered and refused.
    #[serde(default, skip_serializing_if = "crate::session::is_default")]
    refused: u32,
    /// A text that is valid as the report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pending: Option<Value>,
    /// The accepted report, and its proposal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    accepted: Option<(ProposalId, Value)>,
    /// The exhausted attempts that the planner decides about, by proposal.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    consulted: BTreeMap<ProposalId, RetryExhausted>,
}

/// The result of a report that came as a tool call.
pub(in crate::engine) enum DeliveredReport {
    /// This text; the run continues.
    Answered { text: String, error: bool },
    /// This text; no further report is requested.
    GivenUp { text: String, reason: StopReason },
}

impl ReportSeries {
    /// Whether the state is empty.
    pub(in crate::engine) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The number of reports delivered and refused.
    pub(in crate::engine) const fn refused(&self) -> u32 {
        self.refused
    }

    /// Whether a report was accepted.
    pub(in crate::engine) const fn is_accepted(&self) -> bool {
        self.accepted.is_some()
    }

    /// Takes the accepted report.
    pub(in crate::engine) fn take_accepted(&mut self) -> Option<Value> {
        self.accepted.take().map(|(_, report)| report)
    }

    /// Whether the accepted report belongs to this proposal.
    pub(in crate::engine) fn is_accepted_of(&self, proposal: ProposalId) -> bool {
        self.accepted.as_ref().is_some_and(|(of, _)| *of == proposal)
    }

    /// Removes the state of this proposal.
    pub(in crate::engine) fn forget(&mut self, proposal: ProposalId) {
        self.consulted.remove(&proposal);
    }

    /// Takes the text that was set aside and is valid as the report.
    pub(in crate::engine) const fn take_pending(&mut self) -> Option<Value> {
        self.pending.take()
    }

    /// Handles a report that came as a tool call.
    pub(in crate::engine) fn on_called(
        &mut self,
        output: &OutputPolicy,
        raw: &str,
        run: &mut RunParts<'_>,
    ) -> DeliveredReport {
        // The first report counts, as in ai-agent: a second one may contradict what the host received.
        if self.is_accepted() {
            return DeliveredReport::Answered { text: "a report was accepted already".into(), error: true };
        }
        match check(output, raw, run) {
            Ok(report) => {
                self.accept(report, ReportSource::ToolCall, run);
                DeliveredReport::Answered { text: "accepted".into(), error: false }
            }
            Err(fault) => match self.refuse_delivered(output, &fault, run) {
                RefusedReport::Again { text, .. } => DeliveredReport::Answered { text, error: true },
                RefusedReport::GivenUp { text, reason } => DeliveredReport::GivenUp { text, reason },
            },
        }
    }

    /// Handles a report that came as plain text, or from a host with its own loop.
    pub(in crate::engine) fn on_text(
        &mut self,
        raw: String,
        guidance: &mut TurnGuidance,
        run: &mut RunParts<'_>,
    ) -> NextMachine {
        let Some(output) = run.policy().output() else {
            return NextMachine::finished(Outcome::Answered { text: raw });
        };
        // Repaired before it is validated, like the arguments of a call.
        let raw = repair_text(&raw, "", "", &mut run.out).unwrap_or(raw);
        match check(output, &raw, run) {
            Ok(report) => {
                let source = match run.context.drive {
                    DriveMode::Turns => ReportSource::Text,
                    DriveMode::Calls => ReportSource::Host,
                };
                self.accept(report, source, run);
                NextMachine::AfterReport
            }
            Err(fault) => {
                let refused = self.refuse_delivered(output, &fault, run);
                self.tell(output, fault.class(), refused, guidance, run)
            }
        }
    }

    /// Handles plain text where a report is required.
    pub(in crate::engine) fn on_text_instead(
        &mut self,
        class: ErrorClass,
        raw: &str,
        guidance: &mut TurnGuidance,
        run: &mut RunParts<'_>,
    ) -> NextMachine {
        let policy = run.policy();
        let Some(output) = policy.output() else { return NextMachine::Host };
        // Kept before the refusal: if no better report comes, this text is the result of the run.
        if class == ErrorClass::TextOnly {
            self.keep_text(raw, policy);
        }
        let attempt = self.series.as_ref().map_or(1, AttemptSeries::attempt);
        let vars = json!({
            "tool": output.tool.value, "attempt": attempt, "max_attempts": output.retry.max_attempts.value.limit(),
        });
        let text = run.out.say(&policy.turn().messages.text_only, vars);
        let refused = self.refuse(output, &ReportFault::Text(class, text), run);
        self.tell(output, class, refused, guidance, run)
    }

    /// Handles other calls instead of the report in the final turn: they count as an attempt. If no report is
    /// required, the run ends.
    pub(in crate::engine) fn on_other_calls(&mut self, run: &mut RunParts<'_>) -> NextMachine {
        // No report is required, so the final turn only had to answer, and it called tools instead.
        let Some(output) = run.policy().output() else {
            let why = told(run.policy(), run.ending.why(run.out.rules, []));
            return NextMachine::run_failed(StopReason::Attempts, why);
        };
        let message = format!("other tools were called instead of `{}`", output.tool.value);
        let fault = ReportFault::Invalid(vec![SchemaProblem { pointer: String::new(), message }]);
        // The other calls already have results; only the missing report has to be refused.
        match self.refuse(output, &fault, run) {
            RefusedReport::Again { .. } => NextMachine::AfterReport,
            RefusedReport::GivenUp { reason, .. } => self.given_up(output, reason, run),
        }
    }

    /// Keeps a text that is valid as the report, for the case that no other report comes.
    pub(in crate::engine) fn keep_text(&mut self, raw: &str, policy: &Policy) {
        // If the option is off, text is never used as a report: ai-agent removed this cache because it accepted
        // unfinished text.
        let Some(output) = policy.output().filter(|_| policy.turn().report_from_text.value) else { return };
        let Ok(report) = parse(policy, raw) else { return };
        // Validated like a report, since it may become the result of the run.
        if reported(output, &report).is_empty() {
            self.pending = Some(report);
        }
    }

    /// Counts a refused report; if the policy says so, the next turn becomes the final one.
    pub(in crate::engine) fn on_delivered(&mut self, run: &mut RunParts<'_>) {
        self.refused = self.refused.saturating_add(1);
        run.ending.report_came();
        let turn = run.policy().turn();
        let left = turn.max_turns.value.get().saturating_sub(run.turn);
        // At most one turn remains after a refused report (ai-agent collapses `maxTurns` to the next turn): otherwise
        // the model could begin new work.
        if turn.final_turn_after_rejection.value && left > 1 && run.turn > 0 {
            let facts = [format!("{left} turns were left")];
            let why = because(
                run.policy(),
                "turn.final_turn_after_rejection",
                &turn.final_turn_after_rejection,
                facts,
            );
            run.force_final_turn(FinalReason::ReportAttempt, vec![why]);
        }
    }

    /// Handles the planner's decision about the report. `Err`: the run ends.
    pub(in crate::engine) fn on_decided(
        &mut self,
        decision: PlannerDecision,
        run: &mut RunParts<'_>,
    ) -> Result<(), NextMachine> {
        match self.consulted.remove(&run.proposal) {
            Some(exhausted) => self.give_up(decision, exhausted, run),
            None => Ok(()),
        }
    }

    /// Ends the attempts at the report. Returns `false` if the planner has to decide. `Err`: the run ends.
    pub(in crate::engine) fn exhausted(
        &mut self,
        output: &OutputPolicy,
        reason: StopReason,
        run: &mut RunParts<'_>,
    ) -> Result<bool, NextMachine> {
        let attempts = self.series.as_ref().map(|series| series.history.clone()).unwrap_or_default();
        let number = u64::try_from(attempts.len()).unwrap_or(u64::MAX);
        let exhausted = RetryExhausted { action: "output".into(), reason, attempts, retry_after: None };
        run.out.count(MetricName::RetryAttempts, "output".into(), number);
        run.count_overdrawn("output", reason);
        let mut why = Vec::new();
        // A reducer objects to the content, which the model can change in the remaining turns; neither the end nor a
        // planner is needed for this.
        let decision = match reason {
            StopReason::ReducerError => Some(PlannerDecision::TellModel),
            _ => run.decide(&output.on_exhausted, reason, &mut why),
        };
        run.out.note(Note::Exhausted { exhausted: exhausted.clone(), decision }, why);
        if let Some(decision) = decision {
            self.give_up(decision, exhausted, run)?;
        } else {
            self.consulted.insert(run.proposal, exhausted.clone());
            run.consult(WorkPurpose::ConsultOutput, exhausted);
        }
        Ok(decision.is_some())
    }

    fn refuse_delivered(
        &mut self,
        output: &OutputPolicy,
        fault: &ReportFault,
        run: &mut RunParts<'_>,
    ) -> RefusedReport {
        let refused = self.refuse(output, fault, run);
        self.on_delivered(run);
        refused
    }

    fn tell(
        &mut self,
        output: &OutputPolicy,
        class: ErrorClass,
        refused: RefusedReport,
        guidance: &mut TurnGuidance,
        run: &mut RunParts<'_>,
    ) -> NextMachine {
        match refused {
            RefusedReport::Again { text, why } => {
                guidance.reject_turn(class, text, why, &mut run.out);
                NextMachine::AfterReport
            }
            RefusedReport::GivenUp { text, reason } => {
                // Kept in the conversation, because no later turn could carry it as guidance.
                run.append(Message::User { text, guidance: Some(class.name().into()) });
                self.given_up(output, reason, run)
            }
        }
    }

    fn given_up(&mut self, output: &OutputPolicy, reason: StopReason, run: &mut RunParts<'_>) -> NextMachine {
        match self.exhausted(output, reason, run) {
            Ok(true) => NextMachine::AfterReport,
            Ok(false) => NextMachine::Host,
            Err(end) => end,
        }
    }

    fn accept(&mut self, report: Value, source: ReportSource, run: &mut RunParts<'_>) {
        // A report came, so the text that was set aside is useless.
        self.pending = None;
        let series = self.series.take();
        let attempts = series.as_ref().map_or(1, AttemptSeries::attempt);
        let after = series.and_then(|series| series.history.last().map(|record| record.error_type));
        if let Some(output) = run.policy().output() {
            run.earn("output", &output.retry.budget.value, after);
        }
        run.out.count(MetricName::RetryAttempts, "output".into(), attempts.into());
        run.out.note(Note::OutputAccepted { output: report.clone(), source }, Vec::new());
        run.ending.report_came();
        self.accepted = Some((run.proposal, report));
    }

    /// Handles the end of the attempts: a final turn, continuation, or the end.
    fn give_up(
        &mut self,
        decision: PlannerDecision,
        exhausted: RetryExhausted,
        run: &mut RunParts<'_>,
    ) -> Result<(), NextMachine> {
        let continues = match decision {
            PlannerDecision::FinalTurn => run.force_final_turn(FinalReason::RetryExhaustion, Vec::new()),
            // After the final turn there is nothing to continue with.
            PlannerDecision::TellModel => !run.ending.is_now(),
            PlannerDecision::Fail => false,
        };
        if !continues {
            return Err(NextMachine::fail(exhausted, Vec::new()));
        }
        if decision == PlannerDecision::FinalTurn {
            // The final turn is a new request with another instruction, so it does not inherit exhausted attempts.
            self.series = None;
        }
        Ok(())
    }
}

/// The report of a reply that stopped for that reason, or the problems found by the schema and the validators.
pub(in crate::engine) fn parsed_report(
    output: &OutputPolicy,
    (raw, finish): (&str, Option<&FinishReason>),
    policy: &Policy,
) -> Result<Value, Vec<SchemaProblem>> {
    let report = parse_said(policy, raw, finish).map_err(|problem| vec![problem])?;
    // As for calls: a number that would be rounded is reported before the schema checks the rounded value.
    let mut problems: Vec<SchemaProblem> = changed(raw).into_iter().collect();
    if problems.is_empty() {
        problems = reported(output, &report);
    }
    if problems.is_empty() { Ok(report) } else { Err(problems) }
}

/// Checks a report by the schema, the validators and the reducers.
fn check(output: &OutputPolicy, raw: &str, run: &mut RunParts<'_>) -> Result<Value, ReportFault> {
    // Validated before it is accepted, as in ai-agent (`validatePayload` before `commitFinalReport`): an accepted
    // report cannot be refused later.
    let said = (raw, run.last.finish.as_ref());
    let report = parsed_report(output, said, run.policy()).map_err(ReportFault::Invalid)?;
    let turn = run.turn;
    // Reducers come last: they change the session, so they only see a valid report.
    match run.out.reduce(Trigger::OutputAccepted, || json!({ "output": report, "turn": turn })) {
        None => Ok(report),
        Some(error) => Err(ReportFault::Reducer(Box::new(error))),
    }
}
