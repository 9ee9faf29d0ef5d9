//! The workload of one run: the required tool calls in order, and then an answer. This is the virtual model: it
//! receives the results of its calls, and chooses the next ones.

use serde_json::{Map, json};

use super::figures::RunEnd;
use super::scenario::{Scenario, ToolRules};
use super::service::ServiceFault;
use crate::cases::is_answer;
use crate::engine::{CallModel, Failure, FinishReason, ModelReply, Outcome};
use crate::policy::ErrorClass;
use crate::session::{ToolCall, Usage};

/// A workload in progress.
#[derive(Debug, Default)]
pub(super) struct ScriptedWorkload {
    /// The required tool calls processed so far.
    needs: Vec<NeededCall>,
    /// The total number of tool calls.
    calls: usize,
    /// The number of settled calls at the start of the list.
    settled: usize,
    /// The number of requested steps, the answer included.
    asked: usize,
    /// Whether the previous call had no reply, so that the next one replaces it.
    unanswered: bool,
}

/// A required tool call.
#[derive(Clone, Copy, Debug, Default)]
struct NeededCall {
    state: NeedState,
    /// How often the model has requested it.
    asked: u32,
    /// How often it failed.
    failed: u32,
    /// The number of the request in which its tool ran last; 0: never.
    ran: u32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum NeedState {
    #[default]
    Open,
    Done,
    Missed,
}

/// The next reply of the model.
#[derive(Debug)]
pub(super) enum NextReply {
    /// These tool calls, by number.
    Calls(Vec<usize>),
    /// The answer.
    Answer,
}

impl ScriptedWorkload {
    /// Resets the workload.
    pub(super) fn begin(&mut self, scenario: &Scenario) {
        let calls = if scenario.tools.is_empty() { 0 } else { scenario.file.work.calls.0 };
        self.needs.clear();
        self.calls = usize::try_from(calls).unwrap_or(usize::MAX);
        self.settled = 0;
        self.asked = 0;
        self.unanswered = false;
    }

    /// The next reply in the conversation, and whether it is requested for the first time and does not replace a
    /// missing reply, as in a final turn after a failure.
    pub(super) fn next(&mut self, scenario: &Scenario, call: &CallModel) -> (NextReply, bool) {
        let parallel = usize::try_from(scenario.file.work.parallel.get()).unwrap_or(usize::MAX);
        let mut numbers = Vec::new();
        for number in self.settled..self.calls {
            if numbers.len() >= parallel {
                break;
            }
            if number >= self.needs.len() {
                self.needs.push(NeededCall::default());
            }
            if let Some(need) = self.needs.get_mut(number)
                && need.state == NeedState::Open
            {
                match tool(scenario, number) {
                    Some(tool) if call.tools.contains(&tool.service.name) => numbers.push(number),
                    // The tool is hidden: the model continues without it.
                    _ => need.state = NeedState::Missed,
                }
            }
        }
        let step = match numbers.last() {
            Some(last) => last.saturating_add(1),
            None => self.calls.saturating_add(1),
        };
        let first = step > self.asked && !self.unanswered;
        self.asked = self.asked.max(step);
        (if numbers.is_empty() { NextReply::Answer } else { NextReply::Calls(numbers) }, first)
    }

    /// Records a model call, and whether it had a reply.
    pub(super) const fn called(&mut self, replied: bool) {
        self.unanswered = !replied;
    }

    /// The model's reply, either good or with a fault of this class; or a failure.
    pub(super) fn reply(
        &mut self,
        scenario: &Scenario,
        report: Option<&str>,
        next: &NextReply,
        usage: Usage,
        fault: Option<ServiceFault>,
    ) -> Result<ModelReply, Failure> {
        if let Some(fault) = fault.filter(|fault| !is_answer(fault.class)) {
            return Err(fault.failure());
        }
        let good = self.good(scenario, report, next, usage);
        let Some(ServiceFault { class, .. }) = fault else { return Ok(good) };
        let bare = ModelReply { usage: good.usage, finish: FinishReason::Stop, ..ModelReply::default() };
        Ok(match class {
            ErrorClass::EmptyResponse => bare,
            ErrorClass::ReasoningOnly => ModelReply {
                extra: Map::from_iter([("reasoning".to_owned(), json!("Let me think."))]),
                ..bare
            },
            ErrorClass::TextOnly => ModelReply { text: "I will look into it.".to_owned(), ..bare },
            ErrorClass::TruncatedOutput => {
                ModelReply { text: "As far as".to_owned(), finish: FinishReason::Length, ..bare }
            }
            ErrorClass::ContentFilter => ModelReply { finish: FinishReason::ContentFilter, ..bare },
            ErrorClass::MalformedToolCall => written(good, "<tool_call item=;"),
            ErrorClass::InvalidArgs | ErrorClass::InvalidOutput => written(good, "[]"),
            ErrorClass::ToolNotFound => {
                let mut reply = good;
                for proposal in &mut reply.calls {
                    "a_tool_that_is_not_there".clone_into(&mut proposal.call.name);
                }
                reply
            }
            _ => good,
        })
    }

    fn good(
        &mut self,
        scenario: &Scenario,
        report: Option<&str>,
        next: &NextReply,
        usage: Usage,
    ) -> ModelReply {
        let calls = match (next, report) {
            (NextReply::Calls(numbers), _) => {
                numbers.iter().filter_map(|number| self.call(scenario, *number)).collect()
            }
            (NextReply::Answer, Some(tool)) => {
                self.asked = self.asked.saturating_add(1);
                let id = format!("report-{}", self.asked);
                vec![ToolCall { id, name: tool.to_owned(), arguments: scenario.file.work.report.to_string() }]
            }
            (NextReply::Answer, None) => Vec::new(),
        };
        let text = if calls.is_empty() { "It is done.".to_owned() } else { String::new() };
        let finish = if calls.is_empty() { FinishReason::Stop } else { FinishReason::ToolCalls };
        let calls = calls.into_iter().map(Into::into).collect();
        ModelReply { text, calls, finish, usage: Some(usage), ..ModelReply::default() }
    }

    fn call(&mut self, scenario: &Scenario, number: usize) -> Option<ToolCall> {
        let tool = tool(scenario, number)?;
        let need = self.needs.get_mut(number)?;
        need.asked = need.asked.saturating_add(1);
        let arguments = tool.arguments.replace("{n}", &number.saturating_add(1).to_string());
        Some(ToolCall { id: format!("{number}-{}", need.asked), name: tool.service.name.clone(), arguments })
    }

    /// Records that a tool runs for a call. Returns whether it is the first time.
    pub(super) fn runs(&mut self, call: &str) -> bool {
        self.need(call).is_some_and(|need| core::mem::replace(&mut need.ran, need.asked) == 0)
    }

    /// Records a successful call.
    pub(super) fn went_well(&mut self, call: &str) {
        if let Some(need) = self.need(call) {
            need.state = NeedState::Done;
        }
        self.settle();
    }

    /// Records a call that failed or did not run. The model requests it again as often as the scenario says; invalid
    /// calls are always requested again.
    pub(super) fn went_wrong(&mut self, call: &str, class: ErrorClass, again: u32) {
        let written = matches!(
            class,
            ErrorClass::InvalidArgs | ErrorClass::MalformedToolCall | ErrorClass::ToolNotFound
        );
        if let Some(need) = self.need(call).filter(|need| !written || need.ran == need.asked) {
            need.failed = need.failed.saturating_add(1);
            if need.state == NeedState::Open && need.failed > again {
                need.state = NeedState::Missed;
            }
        }
        self.settle();
    }

    /// The end of the run.
    pub(super) fn ended(&self, outcome: &Outcome) -> RunEnd {
        match outcome {
            Outcome::Answered { .. } | Outcome::Reported { .. } => {
                let all = self.needs.iter().all(|need| need.state == NeedState::Done);
                if all && self.needs.len() >= self.calls { RunEnd::Complete } else { RunEnd::Partial }
            }
            Outcome::Failed { .. } | Outcome::Stopped { .. } => RunEnd::Failed,
        }
    }

    fn settle(&mut self) {
        let open = self.needs.iter().skip(self.settled).position(|need| need.state == NeedState::Open);
        self.settled = open.map_or(self.needs.len(), |open| self.settled.saturating_add(open));
    }

    /// The required call that a call belongs to: its id begins with the number.
    fn need(&mut self, call: &str) -> Option<&mut NeededCall> {
        let number: usize = call.split_once('-')?.0.parse().ok()?;
        self.needs.get_mut(number)
    }
}

/// The tool of the call with this number; tools take turns.
fn tool(scenario: &Scenario, number: usize) -> Option<&ToolRules> {
    scenario.tools.get(number.checked_rem(scenario.tools.len())?)
}

/// The reply with other arguments in its calls.
fn written(mut reply: ModelReply, arguments: &str) -> ModelReply {
    reply.calls.iter_mut().for_each(|proposal| arguments.clone_into(&mut proposal.call.arguments));
    reply
}
