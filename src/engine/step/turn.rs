//! The loop of turns: prepare, call the model, and the last turn that allows only the report.

use super::super::because::because;
use super::super::call_timeouts::CallTimeouts;
use super::super::directive::{Because, CallModel, Note, Outcome, PrepareTurn, ToolChoice, Wait, Work};
use super::super::event::TurnMeasure;
use super::super::machine::out_of_turns;
use super::super::reason::{Reason, told};
use super::super::retry;
use super::super::state::{Hold, Pending, Series, Subject};
use super::super::targets::{Rotation, passed_over};
use super::Step;
use super::context::Asked;
use crate::policy::{ErrorClass, Policy};
use crate::session::{FinalReason, RetryExhausted, StopReason};
use crate::time::Nanos;

impl Step<'_> {
    /// Goes on to the next turn, ends the run if there is a report, or waits if a wait is due.
    pub(super) fn next_turn(&mut self) {
        if let Some(output) = self.state.report.accepted.take() {
            return self.finish(Outcome::Reported { output }, Vec::new());
        }
        if self.is_past_deadline() {
            return self.run_failed(StopReason::Deadline, Vec::new());
        }
        let turn = self.policy.turn();
        let mut why = Vec::new();
        if !self.state.ending.is_now() {
            self.state.turn = self.state.turn.saturating_add(1);
            self.begin_turn_of_tools();
            why.extend(out_of_turns(self.policy, self.state.turn));
            let mut reason = FinalReason::MaxTurns;
            if why.is_empty() && !self.state.ending.is_near() {
                reason = FinalReason::Budget;
                why.extend(self.run_budget().out_of_budget());
            }
            if !why.is_empty() || self.state.ending.is_next() {
                self.begin_last_turn(reason, why.clone());
            }
        }
        let work = self.state.issue(Pending::Prepare);
        let prepare = PrepareTurn {
            work,
            turn: self.state.turn,
            max_turns: turn.max_turns.value.get(),
            last: self.state.ending.is_now(),
        };
        self.ask(Work::PrepareTurn(prepare), why);
    }

    /// Waits until what was scheduled may start, then goes on to the next turn.
    pub(super) fn next_turn_when_due(&mut self) {
        match self.state.pace.hold.take() {
            Some(Hold { until, subject, because })
                if until > self.state.now
                    && self.state.report.accepted.is_none()
                    && self.state.ending.stop().is_none() =>
            {
                let why = told(self.policy, because);
                self.wait(Pending::WaitTurn, until.since(self.state.now), subject, why);
            }
            _ => self.next_turn(),
        }
    }

    /// The next turn does not start before `delay` is over. Of several holds the longest counts.
    pub(super) fn hold(&mut self, delay: Nanos, subject: Subject, because: Vec<Reason>) {
        let until = self.state.now.saturating_add(delay);
        if self.state.pace.hold.as_ref().is_none_or(|hold| hold.until < until) {
            self.state.pace.hold = Some(Hold { until, subject, because });
        }
    }

    /// Chooses the model the turn begins with: the first that does not rest and whose window is large enough.
    pub(super) fn choose_model(&mut self, measure: TurnMeasure) {
        let counted = measure.message_tokens.saturating_add(measure.tool_tokens);
        self.state.model_turn.counted = Some(counted);
        let asked = self.asked(measure);
        let too_small: Vec<(usize, &Asked)> =
            asked.iter().enumerate().filter(|(_, asked)| !asked.is_open(self)).collect();
        let all = !too_small.is_empty() && too_small.len() == asked.len();
        let (state, now) = (&*self.state, self.state.now);
        let rests = |place: usize| {
            asked.get(place).is_some_and(|asked| state.models.rests(&asked.target, &asked.policy, now))
        };
        // A window that is too small for all may still be enough for the last turn.
        let left = |place: usize| all || !too_small.iter().any(|(number, ..)| *number == place);
        let rotation = if state.model_turn.asked_turn == state.turn {
            let mut rotation = state.model_turn.rotation.clone();
            rotation.begin_again(&self.policy.turn().targets, state.context.targets.len(), rests, left);
            rotation
        } else {
            Rotation::begin(state.context.targets.len(), rests, left)
        };
        let remaining = rotation.remaining(state.context.targets.len());
        let next = state.context.targets.get(rotation.current()).cloned();
        self.state.model_turn.rotation = rotation;
        if all {
            return self.too_large_for_all(&asked);
        }
        for (_, asked) in too_small {
            let tokens = self.sent(&asked.target, counted);
            let retry = passed_over(asked.target.clone(), next.clone(), remaining, tokens);
            let why = too_small_for(self.policy, asked);
            self.note(Note::TurnRetry(retry), vec![why]);
        }
        self.call_model();
    }

    /// No window is large enough. If that is for the messages, this turn is the last and allows only the report; if the
    /// tools alone are too large, it is said, and their provider has to decide.
    fn too_large_for_all(&mut self, asked: &[Asked]) {
        let rooms = || asked.iter().filter_map(|asked| Some((&asked.target, asked.room?)));
        if self.state.ending.is_now() {
            let budget = asked.iter().any(Asked::is_by_budget);
            let whole = if budget { "what the budget of the run has left" } else { "every window" };
            let facts: Vec<String> = asked.iter().filter_map(Asked::computed).collect();
            self.warn(format!("the last turn is too large for {whole}: {}", facts.join("; ")));
        } else if let Some((target, room)) = rooms().find(|(_, room)| room.is_filled_by_tools()) {
            let text = format!(
                "the definitions of the tools alone are too large for the window of {target}: {room}"
            );
            self.warn(text);
        } else {
            let why = asked.iter().map(|asked| too_small_for(self.policy, asked)).collect();
            self.end_with_this_turn(FinalReason::Context, why);
        }
        self.call_model();
    }

    /// Asks for one call of the current target.
    pub(super) fn call_model(&mut self) {
        if self.is_past_deadline() {
            return self.run_failed(StopReason::Deadline, Vec::new());
        }
        let Some(target) = self.state.target().cloned() else {
            self.warn("the run has no model to call");
            return self.run_failed(StopReason::Attempts, Vec::new());
        };
        let policy = self.policy.model(&target);
        if let Some((failed, reason)) = self.no_longer_retried(&target, &policy) {
            return self.model_exhausted(failed, reason);
        }
        let request = self.with_added(&target, self.counted_now());
        let granted = match self.run_budget().grant(&target, request, || self.conversation()) {
            Ok(granted) => granted,
            Err(why) if !self.state.ending.is_now() => return self.final_turn_now(why),
            Err(why) => return self.run_failed(StopReason::RunBudget, vec![why]),
        };
        let (now, deadline) = (self.state.now, self.deadline());
        let (max_output, why) = granted.lowered.clone().unzip();
        let started = self.state.model_turn.series.get_or_insert_with(|| Series::begin(now)).started;
        let rules = match self.last_at_model() {
            Some(failed) => policy.retry.for_class(failed.error_type),
            None => policy.retry.for_others(),
        };
        let attempt = self.attempt_at_model();
        let last = self.state.ending.is_now();
        let output = self.policy.output().map(|output| output.tool.value.clone());
        let mut tools: Vec<String> = if last { Vec::new() } else { self.shown_tools() };
        tools.extend(output.clone());
        self.state.model_turn.asked_turn = self.state.turn;
        self.forget_count_of_less(last);
        let work = self.state.issue(Pending::Model);
        let call = CallModel {
            work,
            turn: self.state.turn,
            attempt,
            max_attempts: rules.max_attempts.value.limit(),
            target,
            tools,
            tool_choice: match output {
                Some(tool) if last => ToolChoice::Tool(tool),
                _ => ToolChoice::Auto,
            },
            guidance: self.guidance(),
            max_output,
            timeout: retry::attempt_timeout(&policy.retry, started, deadline, now),
            timeouts: CallTimeouts::from(&policy.timeouts),
        };
        self.reserve(granted);
        self.ask(Work::CallModel(call), why.into_iter().collect());
    }

    /// Asks for a wait; whatever is pending goes on when it is over.
    pub(super) fn wait(&mut self, pending: Pending, delay: Nanos, subject: Subject, why: Vec<Because>) {
        let work = self.state.issue(pending);
        let wait = Wait {
            work,
            delay,
            until: self.state.now.saturating_add(delay),
            subject: subject.name,
            attempt: subject.attempt,
            max_attempts: subject.max_attempts,
            error_type: subject.error_type,
            message: subject.message,
        };
        self.ask(Work::Wait(wait), why);
    }

    /// Whether the deadline of the run has passed; the end of its time has a final turn before it.
    pub(super) fn is_past_deadline(&self) -> bool {
        self.state.context.deadline.is_some_and(|deadline| deadline <= self.state.now)
    }

    /// Ends the run for a reason that is not the failure of one action.
    pub(super) fn run_failed(&mut self, reason: StopReason, why: Vec<Because>) {
        let exhausted =
            RetryExhausted { action: "run".into(), reason, attempts: Vec::new(), retry_after: None };
        self.failed_for_good(exhausted, why);
    }

    pub(super) fn reject_turn(&mut self, error_type: ErrorClass, message: String, why: Vec<Because>) {
        self.guide(error_type, message.clone());
        self.note(Note::RejectTurn { error_type, message }, why);
    }
}

fn too_small_for(policy: &Policy, asked: &Asked) -> Because {
    let (rule, setting) = asked.setting();
    because(policy, rule, &setting, asked.facts())
}
