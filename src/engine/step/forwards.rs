//! What the calls of a batch ask of the parts of the run that they share.

use serde_json::Value;

use super::super::directive::{Because, Directive, Note, Order, Work};
use super::super::failure::Failure;
use super::super::machine::{Failed, Pending, Subject};
use super::super::metric::MetricName;
use super::super::reason::Reason;
use super::super::retry::{Case, Obstacle, Progress, Verdict};
use super::Step;
use crate::policy::{
    Budget, CallOverride, Classified, Effect, ErrorClass, RetryPolicy, Seed, Setting, Template, ToolPolicy,
    Trigger,
};
use crate::session::{FinalReason, Message, ReducerError, StopReason};
use crate::time::{Instant, Nanos};

impl Step<'_> {
    pub(super) fn note(&mut self, note: Note, because: Vec<Because>) {
        let run = &mut self.split().run;
        run.out.note(note, because);
    }

    pub(super) fn warn(&mut self, message: impl Into<String>) {
        let run = &mut self.split().run;
        run.out.warn(message);
    }

    pub(super) fn count(&mut self, name: MetricName, subject: String, value: u64) {
        let run = &mut self.split().run;
        run.out.count(name, subject, value);
    }

    pub(super) fn say(&mut self, template: &Setting<Template>, vars: Value) -> String {
        let run = &mut self.split().run;
        run.out.say(template, vars)
    }

    pub(super) fn reduce(&mut self, trigger: Trigger, event: impl FnOnce() -> Value) -> Option<ReducerError> {
        let run = &mut self.split().run;
        run.out.reduce(trigger, event)
    }

    pub(super) fn feedback(&mut self, retry: &RetryPolicy, failed: &Failed<'_>) -> Option<ReducerError> {
        let run = &mut self.split().run;
        run.out.feedback(retry, failed)
    }

    pub(super) fn verdict(
        &mut self,
        action: &str,
        retry: &RetryPolicy,
        progress: Progress,
        case: &mut Case,
        seed: Seed,
    ) -> Verdict {
        let run = &mut self.split().run;
        run.verdict(action, retry, progress, case, seed)
    }

    pub(super) fn why_stopped(
        &mut self,
        action: &str,
        retry: &RetryPolicy,
        progress: Progress,
        case: &Case,
        reason: StopReason,
    ) -> Vec<Because> {
        let run = &mut self.split().run;
        run.why_stopped(action, retry, progress, case, reason)
    }

    pub(super) fn charge(&mut self, action: &str, retry: &RetryPolicy, class: ErrorClass) {
        let run = &mut self.split().run;
        run.charge(action, retry, class);
    }

    pub(super) fn earn(&mut self, action: &str, budget: &Budget, after: Option<ErrorClass>) {
        let run = &mut self.split().run;
        run.earn(action, budget, after);
    }

    pub(super) fn count_overdrawn(&mut self, action: &str, reason: StopReason) {
        let run = &mut self.split().run;
        run.count_overdrawn(action, reason);
    }

    pub(super) fn case(&mut self, class: ErrorClass, hint: Option<Nanos>, obstacle: Obstacle) -> Case {
        let run = &mut self.split().run;
        run.case(class, hint, obstacle)
    }

    pub(super) fn case_of(
        &mut self,
        failure: &Failure,
        classified: Classified,
        retry: &RetryPolicy,
        obstacle: Obstacle,
    ) -> Case {
        let run = &mut self.split().run;
        run.case_of(failure, classified, retry, obstacle)
    }

    pub(super) fn wait(&mut self, pending: Pending, delay: Nanos, subject: Subject, why: Vec<Because>) {
        let run = &mut self.split().run;
        run.wait(pending, delay, subject, why);
    }

    pub(super) fn hold(&mut self, delay: Nanos, subject: Subject, because: Vec<Reason>) {
        let run = &mut self.split().run;
        let now = run.out.now;
        run.turns.hold(delay, subject, because, now);
    }

    pub(super) fn append(&mut self, message: Message) {
        let run = &mut self.split().run;
        run.append(message);
    }

    pub(super) fn force_last_turn(&mut self, reason: FinalReason, why: Vec<Because>) -> bool {
        let run = &mut self.split().run;
        run.force_last_turn(reason, why)
    }

    pub(super) fn deadline(&mut self) -> Option<Instant> {
        let run = &mut self.split().run;
        run.deadline()
    }

    pub(super) fn effect_of(&mut self, tool: &str, policy: &ToolPolicy) -> Effect {
        let run = &mut self.split().run;
        run.effect_of(tool, policy)
    }

    pub(super) fn ask(&mut self, work: Work, because: Vec<Because>) {
        self.directives.push(Directive { order: Order::Work(work), because });
    }

    pub(super) fn seed(&self, scope: &str, call: &str) -> Seed {
        Seed::new(self.state.context.seed, scope, call)
    }

    pub(super) fn tool_policy(
        &self,
        tool: &str,
        arguments: &Value,
        planner: Option<&CallOverride>,
    ) -> std::sync::Arc<ToolPolicy> {
        self.policy.call(tool, arguments, planner).policy
    }

    /// Ends the run because attempts at a tool are used up.
    pub(super) fn failed_by_tool(&mut self, exhausted: crate::session::RetryExhausted) {
        self.route(super::super::machine::Then::fail(exhausted, Vec::new()));
    }
}
