//! What a guard does about a model that goes round in circles, and how much of results and failures it shows.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};

use super::{Refusal, ToolGuard};
use crate::engine::{
    Found, LoopDetector, LoopPattern, LoopStage, MetricName, RunFacts, ToolResult, canonical, is_asked_for,
    show,
};
use crate::policy::{ErrorClass, ResultForm, ResultPolicy, ToolPolicy, Trigger};
use crate::time::Nanos;

/// What is remembered of the calls of all tools.
#[derive(Default)]
pub(super) struct Repeats {
    /// Whether a failure is remembered, which a success takes back.
    failing: AtomicBool,
    known: Mutex<Remembered>,
}

#[derive(Default)]
struct Remembered {
    lately: LoopDetector,
    /// What the model is to be told and was not yet.
    nudge: Option<String>,
}

impl Repeats {
    /// What the model is to be told, once.
    pub(super) fn take_nudge(&self) -> Option<String> {
        self.lock().nudge.take()
    }

    fn lock(&self) -> MutexGuard<'_, Remembered> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ToolGuard {
    /// What a model is shown of the answer of a call with these arguments, if they are known: as much as `result` of the policy allows, in
    /// its form. The answer counts for the loop guard's `same_result`.
    ///
    /// A guard keeps nothing: with `over: spill` too the rest is cut.
    pub fn show(&self, args: Option<&Value>, answer: &Value) -> String {
        let newer = (self.generation != self.inner.live.generation()).then(|| self.renewed());
        let this = newer.as_deref().unwrap_or(self);
        let policy = match (this.per_call, args) {
            (true, Some(args)) => this.policy_of_call(args),
            _ => std::sync::Arc::clone(&this.policy),
        };
        if let Some(args) = args {
            this.repeats_result(args, answer);
        }
        let rules = &policy.result;
        match rules.form.value {
            ResultForm::Full => {
                let full = ToolResult::succeeded(&this.name, answer.clone(), &RunFacts::default()).full();
                this.capped(rules, &full)
            }
            ResultForm::Json | ResultForm::Text if answer.is_null() => String::new(),
            ResultForm::Json | ResultForm::Text => this.capped(rules, answer),
        }
    }

    /// What a model is shown of a failure: `told` in the words of the policy, or what is wrong as JSON.
    pub(super) fn show_failure(
        &self,
        policy: &ToolPolicy,
        class: ErrorClass,
        error: &str,
        told: String,
    ) -> String {
        let rules = &policy.result;
        let result = || ToolResult::failed(&self.name, error.to_owned(), class, &RunFacts::default());
        match rules.form.value {
            ResultForm::Text => self.capped(rules, &Value::String(told)),
            ResultForm::Json => self.capped(rules, &result().failure()),
            ResultForm::Full => self.capped(rules, &result().full()),
        }
    }

    fn capped(&self, rules: &ResultPolicy, value: &Value) -> String {
        let unit = rules.max.value.size().map_or("", |size| size.unit.name());
        let mut notice = |shown: u64, total: u64| {
            let vars = json!({ "tool": &*self.name, "shown": shown, "total": total, "unit": unit });
            self.say(&rules.notice, &vars)
        };
        show(value, rules, false, &mut notice).text
    }

    /// Looks at a call before it runs. Says why it does not, if it repeats itself too often.
    pub(super) fn repeated(&self, args: &Value) -> Option<Box<Refusal>> {
        let guard = &self.policy.loop_guard;
        if !guard.enabled.value {
            return None;
        }
        let (tool, call) = (canonical::of_texts(&[&self.name]), canonical::call(&self.name, args));
        let found = {
            let mut known = self.inner.session.repeats.lock();
            known.lately.called(call);
            let found = known.lately.worst(guard, tool, call)?;
            if found.stage > LoopStage::Nudge {
                known.lately.held_back(found.pattern, tool, call);
            }
            found
        };
        if found.stage == LoopStage::Nudge {
            self.nudged(found);
            return None;
        }
        self.noted(found);
        let class = ErrorClass::RepeatedCall;
        let mut message = self.say(&guard.messages.block, &found.vars(&self.name));
        let event = json!({ "tool": &*self.name, "error_type": class, "message": message });
        if let Some(error) = self.inner.reduce(&self.rules, Trigger::ToolRefused, &event) {
            message = self.reducer_text(&self.policy, &error);
        }
        let last_turn = found.stage == LoopStage::FinalTurn;
        Some(Box::new(Refusal { class, message, delay: Nanos::ZERO, last_turn }))
    }

    /// A call went well.
    #[inline]
    pub(super) fn recovered(&self) {
        if self.inner.session.repeats.failing.load(Ordering::Relaxed) {
            self.forget_errors();
        }
    }

    #[cold]
    fn forget_errors(&self) {
        if self.policy.loop_guard.enabled.value {
            self.inner.session.repeats.lock().lately.recovered(canonical::of_texts(&[&self.name]));
        }
    }

    /// A call failed for good, or its arguments were refused.
    pub(super) fn repeats_error(&self, class: ErrorClass, message: &str) {
        let (guard, repeats) = (&self.policy.loop_guard, &self.inner.session.repeats);
        if !guard.enabled.value {
            return;
        }
        repeats.failing.store(true, Ordering::Relaxed);
        let error = canonical::of_texts(&[class.name(), message]);
        let count = repeats.lock().lately.failed(canonical::of_texts(&[&self.name]), error);
        if let Some(found) = Found::at_end(guard, LoopPattern::SameError, count) {
            self.nudged(found);
        }
    }

    fn repeats_result(&self, args: &Value, answer: &Value) {
        let guard = &self.policy.loop_guard;
        if !guard.enabled.value || !is_asked_for(guard, LoopPattern::SameResult) {
            return;
        }
        let (call, result) = (canonical::call(&self.name, args), canonical::of(answer));
        let count = self.inner.session.repeats.lock().lately.resulted(call, result);
        if let Some(found) = Found::at_end(guard, LoopPattern::SameResult, count) {
            self.nudged(found);
        }
    }

    /// The model is to be told, unless there is something already that it is to be told.
    fn nudged(&self, found: Found) {
        if self.inner.session.repeats.lock().nudge.is_some() {
            return;
        }
        self.noted(found);
        let text = self.say(&self.policy.loop_guard.messages.nudge, &found.vars(&self.name));
        self.inner.session.repeats.lock().nudge.get_or_insert(text);
    }

    fn noted(&self, found: Found) {
        let Found { pattern, length, count, stage } = found;
        tracing::warn!(
            correlation_id = self.inner.run,
            policy = self.rules.digest(),
            tool = &*self.name,
            pattern = pattern.name(),
            length,
            count,
            stage = stage.name(),
            "loop guard"
        );
        self.inner.count(MetricName::LoopGuardTotal, self.action(), 1);
    }
}
