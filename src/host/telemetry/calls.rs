//! What is counted of calls of models, whoever makes them: a run or a guard.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::attempt::{AttemptStatus, ModelAttempt};
use super::price::ModelFacts;
use crate::host::metrics::{MetricId, Metrics};
use crate::policy::Cost;
use crate::policy::{ContextWindow, CooldownScope, Policy};
use crate::time::Nanos;

/// What the conventions for generative AI call a call of a model.
const CHAT: &str = "chat";
/// When the guard of the context looks: before a turn.
pub(super) const TRIGGER: &str = "turn_preflight";

/// The models of a host, by what is known of them.
#[derive(Debug, Default)]
pub(in crate::host) struct ModelCalls {
    pub(super) metrics: Arc<Metrics>,
    pub(in crate::host) models: BTreeMap<String, ModelFacts>,
}

/// Which call of a model.
pub(in crate::host) struct CallRef<'a> {
    pub(in crate::host) run: &'a str,
    pub(in crate::host) turn: u32,
    pub(in crate::host) attempt: u32,
    pub(in crate::host) max_attempts: Option<u32>,
    pub(in crate::host) target: &'a str,
}

impl ModelCalls {
    pub(in crate::host) const fn new(metrics: Arc<Metrics>, models: BTreeMap<String, ModelFacts>) -> Self {
        Self { metrics, models }
    }

    /// The record of a call that took so long and brought what was due, unless another event replaces it.
    pub(in crate::host) fn record(
        &self,
        which: &CallRef<'_>,
        latency: Nanos,
        policy: &Policy,
    ) -> ModelAttempt {
        let [provider, model] = self.names(which.target, policy);
        ModelAttempt {
            correlation_id: which.run.to_owned(),
            turn: which.turn,
            attempt: which.attempt,
            max_attempts: which.max_attempts,
            target: which.target.to_owned(),
            provider,
            model,
            status: AttemptStatus::Success,
            latency_ms: latency.millis(),
            latency: latency.to_std(),
            bytes_in: 0,
            bytes_out: 0,
            error_type: None,
            http_status: None,
            message: String::new(),
            input_tokens: None,
            output_tokens: None,
            cache_read_tokens: None,
            cache_write_tokens: None,
            reasoning_tokens: None,
            cost_usd: None,
            action: None,
            delay_ms: 0,
            next_target: None,
            reason: None,
        }
    }

    /// Counts a call that is over. Returns what it cost.
    pub(in crate::host) fn count(&self, attempt: &mut ModelAttempt) -> Option<Cost> {
        let metrics = &self.metrics;
        let names = [attempt.target.as_str(), &attempt.provider, &attempt.model];
        let [target, provider, model] = names;
        let status = [target, provider, model, attempt.status.name()];
        metrics.add(MetricId::LlmRequests, &status, 1);
        let latency = Nanos::from(attempt.latency).0;
        metrics.add(MetricId::LlmLatency, &status, latency);
        // A model without a wire has no bytes.
        for (meter, bytes) in
            [(MetricId::LlmBytesIn, attempt.bytes_in), (MetricId::LlmBytesOut, attempt.bytes_out)]
        {
            if bytes > 0 {
                metrics.add(meter, &names, bytes);
            }
        }
        let error = attempt.error_name();
        if !error.is_empty() {
            metrics.add(MetricId::LlmErrors, &[target, provider, model, error], 1);
        }
        if attempt.is_followed() {
            metrics.add(MetricId::LlmRetries, &[target, provider, model, error], 1);
        }
        // The conventions know errors of the call only: a reply that is not what was due is none.
        let call = if attempt.status == AttemptStatus::Rejected { "" } else { error };
        metrics.add(MetricId::GenAiOperationDuration, &[CHAT, provider, model, call], latency);
        let tokens = attempt.tokens()?;
        for (meter, count) in [
            (MetricId::LlmPromptTokens, tokens.input),
            (MetricId::LlmCompletionTokens, tokens.output),
            (MetricId::LlmCacheReadTokens, tokens.cache_read),
            (MetricId::LlmCacheWriteTokens, tokens.cache_write),
        ] {
            metrics.add(meter, &names, count);
        }
        for (kind, count) in [("input", tokens.input), ("output", tokens.output)] {
            metrics.add(MetricId::GenAiTokenUsage, &[CHAT, provider, model, kind], count);
        }
        let price = self.models.get(target).and_then(|facts| facts.price)?;
        let cost = tokens.cost(price);
        metrics.add(MetricId::LlmCost, &names, cost.0);
        attempt.cost_usd = Some(cost);
        Some(cost)
    }

    /// A model was passed over before it was asked: its window is too small.
    pub(in crate::host) fn passed_over(&self, target: &str, policy: &Policy) {
        let [provider, model] = self.names(target, policy);
        let labels = [target, &provider, &model, TRIGGER, "skipped_provider"];
        self.metrics.add(MetricId::ContextGuardEvents, &labels, 1);
    }

    /// A turn of so many tokens begins with that model.
    pub(in crate::host) fn remaining(&self, target: &str, tokens: u64, policy: &Policy) {
        let rules = policy.model(target);
        if let ContextWindow::Tokens(window) = rules.context_window.value {
            let reserve = u64::from(rules.output_reserve.value.get());
            let [provider, model] = self.names(target, policy);
            let left = window.get().saturating_sub(tokens).saturating_sub(reserve);
            self.metrics.add(MetricId::ContextRemaining, &[target, &provider, &model], left);
        }
    }

    /// Who serves a model, and its name there. What the policy calls the provider goes first.
    pub(super) fn names(&self, target: &str, policy: &Policy) -> [String; 2] {
        let facts = self.models.get(target).cloned().unwrap_or_default();
        let provider = match &policy.model(target).provider.value {
            CooldownScope::Named(name) => name.to_string(),
            CooldownScope::Own => facts.provider,
        };
        [provider, facts.model]
    }
}
