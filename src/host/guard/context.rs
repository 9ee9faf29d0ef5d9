//! Conversations that are too large for a window, for a host that keeps them itself.

use super::{Guard, in_span, without_tools};
use crate::context::{TokenCounter, message_tokens, reduce};
use crate::engine::{ContextReduced, Note, TurnMeasure};
use crate::host::trace;
use crate::policy::ReduceStep;
use crate::session::{Message, splice};

impl Guard {
    /// Whether a conversation is to be reduced before it goes into a request: in the window of the first target there is
    /// less room left than `context.compact_at_free` in the policy says. `tool_tokens` are those of the definitions of the tools
    /// ([`tool_tokens`](crate::context::tool_tokens)). `false` for a target whose window is unknown; what its
    /// provider has reported of its window and of the tokens it counts holds here, too.
    pub fn is_short_of_room(
        &self,
        messages: &[Message],
        tool_tokens: u64,
        counter: &dyn TokenCounter,
    ) -> bool {
        let rules = self.inner.live.current();
        let message_tokens = messages.iter().map(|message| message_tokens(counter, message)).sum();
        let measure = TurnMeasure { message_tokens, tool_tokens, ..TurnMeasure::default() };
        let interpreter = without_tools(rules);
        self.inner.targets.first().is_some_and(|target| {
            let measure = self.inner.overhead(target).on(measure);
            self.inner.run.read(|state| interpreter.is_short_of_room(state, target, measure))
        })
    }

    /// Reduces a conversation that is [short of room](Self::is_short_of_room), step by step as `context.reduce` in the
    /// policy says, until there is room enough. A step by which a model sums up is passed over: a guard calls nobody.
    /// Returns what was done.
    ///
    /// ```
    /// use unfazed::context::ByteEstimate;
    /// use unfazed::host::{Guard, GuardConfig};
    /// use unfazed::policy::Policy;
    /// use unfazed::session::Message;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), unfazed::text::Report> {
    /// let text = "version: 1\nmodels: {main: {context_window: 2000, output_reserve: 500}}\n";
    /// let guard = Guard::new(GuardConfig::new(Policy::from_yaml("policy.yaml", text)?).targets(["main"]));
    /// let mut messages: Vec<Message> = (0..50).map(|n| Message::user(format!("{n}: {}", "x".repeat(200)))).collect();
    /// let done = guard.reduce_context(&mut messages, 0, &ByteEstimate);
    /// assert_eq!(done[0].step, "digest");
    /// assert!(!guard.is_short_of_room(&messages, 0, &ByteEstimate));
    /// # Ok(())
    /// # }
    /// ```
    pub fn reduce_context(
        &self,
        messages: &mut Vec<Message>,
        tool_tokens: u64,
        counter: &dyn TokenCounter,
    ) -> Vec<ContextReduced> {
        let rules = self.inner.live.current();
        let context = rules.context();
        let mut done = Vec::new();
        if !self.is_short_of_room(messages, tool_tokens, counter) {
            return done;
        }
        let interpreter = without_tools(rules.clone());
        let target = self.inner.targets.first().map_or("", String::as_str);
        let tools = TurnMeasure { tool_tokens, ..TurnMeasure::default() };
        let tools = self.inner.overhead(target).on(tools);
        for (number, step) in context.reduce.value.iter().enumerate() {
            if matches!(step, ReduceStep::Summary { .. }) {
                continue;
            }
            let weights: Vec<u64> = messages.iter().map(|message| message_tokens(counter, message)).collect();
            let tokens_before = weights.iter().copied().fold(0, u64::saturating_add);
            let plan = self
                .inner
                .run
                .read(|state| interpreter.reduce_plan(state, target, tools, tokens_before, number));
            let Some(plan) = plan else { continue };
            let reduction = reduce(&rules, &plan, messages, &weights, counter);
            if reduction.splices.is_empty() {
                continue;
            }
            splice(messages, &reduction.splices);
            let told = ContextReduced {
                target: target.to_owned(),
                step: step.name().to_owned(),
                tokens_before,
                tokens_after: reduction.message_tokens,
                shortened: reduction.shortened,
                left_out: reduction.dropped,
            };
            let because = format!("context.reduce ({})", rules.place(context.reduce.origin));
            let note = Note::ContextReduced(told.clone());
            in_span(&self.inner.id, &rules, || trace::note(note, Some(because)));
            done.push(told);
        }
        done
    }
}
