//! Calls of tools that cost no step: where the rules leave the first attempt to the host, and the run has nothing to remember
//! about the tool. The guard of Rust has the same without a lock (`host/guard/plain.rs`).

use std::collections::BTreeMap;
use std::sync::Arc;

use pyo3::prelude::*;
use serde_json::Value;
use unfazed::Policy;
use unfazed::engine::{Directives, Event, PlainCall, PlainEnd, PlainRules, ProposalId, State, ToolOutcome};
use unfazed::policy::TimeBound;
use unfazed::time::Instant;

use crate::parts::EngineParts;

/// The tools of which calls may be in flight that the run does not count.
#[derive(Default)]
pub(crate) struct PlainTools(BTreeMap<String, PlainTool>);

struct PlainTool {
    /// The most calls of it in flight that the run need not count.
    most: u32,
    /// Whether arguments are looked at by more than a schema.
    looks: bool,
    /// Calls in flight that the run does not count.
    unseen: u32,
}

/// The arguments of a call that is to begin.
pub(crate) enum GivenArguments {
    /// The host keeps them to itself, or there are none.
    Nothing,
    Read(Arc<Value>),
    /// Python's own encoder has to look at them.
    Unread,
}

/// A call that was begun without a step.
#[pyclass(frozen, module = "unfazed._unfazed")]
pub(crate) struct PlainEntry {
    number: u64,
    /// The same for each attempt of the call, and for no other call.
    #[pyo3(get)]
    idempotency_key: String,
    arguments: Option<Arc<Value>>,
}

/// What the first attempt of such a call knows.
pub(crate) struct PlainTerms {
    pub(crate) max_attempts: Option<u32>,
    /// In nanoseconds.
    pub(crate) timeout: Option<u64>,
}

impl PlainTerms {
    /// What is known of the calls of a tool; `None`: the rules leave none of them to the host.
    pub(crate) fn of(policy: &Policy, tool: &str) -> Option<Self> {
        let rules = policy.tool(tool);
        // Only who has a deadline has to know when its first attempt has begun.
        let is_plain =
            PlainRules::of(policy, tool).success && rules.retry.deadline.value == TimeBound::Unlimited;
        is_plain.then(|| Self {
            max_attempts: rules.retry.max_attempts.value.limit(),
            timeout: match rules.retry.attempt_timeout.value {
                TimeBound::Within(length) => Some(length.0),
                TimeBound::Unlimited => None,
            },
        })
    }
}

impl PlainTool {
    fn of(policy: &Policy, tool: &str) -> Self {
        let rules = policy.tool(tool);
        let (failures, concurrency) = (rules.breaker.failures.value, rules.concurrency.value.limit());
        // So many failures the breaker bears, and so many calls may run at once.
        let most = failures.map(Into::into).into_iter().chain(concurrency).min().unwrap_or(u32::MAX);
        let most = if PlainTerms::of(policy, tool).is_some() { most } else { 0 };
        let looks = rules.loop_guard.enabled.value || !rules.validate.value.is_empty();
        Self { most, looks, unseen: 0 }
    }
}

impl PlainTools {
    /// Begins a call of the tool, if the run need not know of it and has nothing to say about its arguments.
    pub(crate) fn enter(
        &mut self,
        engine: &mut EngineParts,
        tool: &str,
        given: GivenArguments,
    ) -> Option<PlainEntry> {
        let EngineParts { interpreter, state, .. } = engine;
        let known = self.of(interpreter.policy(), tool)?;
        let spec = interpreter.tools().get(tool)?;
        if known.unseen >= known.most
            || !state.is_open_ended()
            || state.knows_for_turn()
            || !state.is_quiet(tool)
        {
            return None;
        }
        let is_looked_at =
            || known.looks || spec.parameters.as_object().is_none_or(|schema| !schema.is_empty());
        let arguments = match given {
            GivenArguments::Read(arguments) => {
                let rules = interpreter.policy().tool(tool);
                if is_looked_at() && !interpreter.plain_begins(state, (tool, &rules), &arguments) {
                    return None;
                }
                Some(arguments)
            }
            GivenArguments::Unread if is_looked_at() => return None,
            GivenArguments::Nothing | GivenArguments::Unread => None,
        };
        known.unseen = known.unseen.saturating_add(1);
        let number = state.batches().saturating_add(1);
        state.count_batches(number);
        Some(PlainEntry {
            number,
            idempotency_key: PlainCall::idempotency_key(&state.run, number),
            arguments,
        })
    }

    /// Ends such a call. `None`: there is nothing to say of it.
    pub(crate) fn leave(
        &mut self,
        engine: &mut EngineParts,
        tool: &str,
        (end, now): (PlainEnd, Instant),
    ) -> Option<Directives> {
        let EngineParts { interpreter, state, .. } = engine;
        let known = self.of(interpreter.policy(), tool)?;
        if let Some(left) = known.unseen.checked_sub(1) {
            known.unseen = left;
            return None;
        }
        let rules = interpreter.policy().tool(tool);
        Some(interpreter.plain_ended(state, (tool, &rules), end, now))
    }

    /// Hands such a call over to the run after its first attempt: it is a proposal from now on.
    pub(crate) fn adopt(
        &mut self,
        engine: &mut EngineParts,
        (tool, entry): (&str, &PlainEntry),
        outcome: ToolOutcome,
        now: Instant,
    ) -> (ProposalId, Directives) {
        self.hand_over(&mut engine.state, tool);
        let mut call = PlainCall::begun(entry.number, Instant::default());
        if let Some(arguments) = &entry.arguments {
            call = call.with_arguments(Arc::clone(arguments));
        }
        engine.interpreter.adopt(&mut engine.state, tool, call, outcome, now)
    }

    /// Before a step: the run counts the calls in flight of the tools that it is about.
    pub(crate) fn before(&mut self, state: &mut State, event: &Event) {
        let Event::ToolsProposed { calls, .. } = event else { return };
        for proposed in calls {
            self.hand_over(state, &proposed.call.name);
        }
        if state.knows_for_turn() {
            // Calls of other tools that are in flight are of the same turn, and this one begins no other.
            let tools: Vec<String> = self.0.keys().cloned().collect();
            for tool in &tools {
                self.hand_over(state, tool);
            }
        }
    }

    fn hand_over(&mut self, state: &mut State, tool: &str) {
        if let Some(known) = self.0.get_mut(tool) {
            state.occupy(tool, core::mem::take(&mut known.unseen));
        }
    }

    fn of(&mut self, policy: &Policy, tool: &str) -> Option<&mut PlainTool> {
        if !self.0.contains_key(tool) {
            self.0.insert(tool.to_owned(), PlainTool::of(policy, tool));
        }
        self.0.get_mut(tool)
    }
}
