//! The layers of all files in their order of precedence, and the merge of those that concern a subject.
//!
//! Lowest first: the built-in file with all its scopes, then the user's files: global blocks in load order,
//! selectors from less to more specific, calls whose `when` holds, the planner.

use core::num::NonZeroU32;

use serde_json::Value;

use super::decode::{Patch, Spanned};
use super::document::{
    CallRule, LimitsRule, MergedModel, MergedOutput, MergedRetry, MergedTool, MergedTurn, ModelLayer,
    OutputLayer, PlannerRule, PolicyFile, RetryLayer, ToolLayer, TopLimits, TurnLayer, Version,
};
use super::merge::{At, Layer as _, Limits};
use super::{Origin, Scope, Selector, Span};

/// The layers of the built-in file, and those of the user's.
#[derive(Debug, Default)]
pub(crate) struct Layers {
    builtin: Tier,
    user: Tier,
    output_wanted: bool,
    pub(crate) any_calls: bool,
}

/// Layers of one precedence, by scope.
#[derive(Debug, Default)]
struct Tier {
    retry: Vec<(RetryLayer, At)>,
    tools: Vec<Rule<ToolLayer>>,
    models: Vec<Rule<ModelLayer>>,
    turn: Vec<(TurnLayer, At)>,
    output: Vec<(OutputLayer, At)>,
    limits: Vec<TopLimits>,
}

/// What a file says about the subjects a selector names.
#[derive(Debug)]
pub(crate) struct Rule<T> {
    pub(crate) selector: Selector,
    pub(crate) span: Span,
    pub(crate) layer: T,
    at: At,
}

/// A layer above the tool's own: a call's or the planner's.
#[derive(Clone)]
pub(crate) struct Above<'a> {
    retry: &'a RetryLayer,
    limits: Option<&'a LimitsRule>,
    at: At,
}

impl Layers {
    /// Adds a file above those added before. The first is the built-in one.
    pub(crate) fn add(&mut self, file: PolicyFile, builtin: bool) {
        // There is one version yet; another would be told apart here.
        let Version = file.version;
        let tier = if builtin { &mut self.builtin } else { &mut self.user };
        let global = |name: &str| At::new(if builtin { Scope::Builtin } else { Scope::Global }, name);
        let scope = |scope: Scope| if builtin { Scope::Builtin } else { scope };
        self.any_calls |= file.tools.0.iter().any(|(_, tool)| !tool.calls.is_empty());
        tier.retry.push((file.retry.0, global("retry")));
        for (selector, layer) in file.tools.0 {
            let name = format!("tools[\"{}\"]", selector.value.as_str());
            let at = At::new(scope(Scope::Tool), name);
            tier.tools.push(Rule { selector: selector.value, span: selector.span, layer, at });
        }
        for (selector, layer) in file.models.0 {
            let name = format!("models[\"{}\"]", selector.value.as_str());
            let at = At::new(scope(Scope::Model), name);
            tier.models.push(Rule { selector: selector.value, span: selector.span, layer, at });
        }
        tier.turn.push((file.turn.0, global("turn")));
        match file.output {
            Patch::Absent => {}
            Patch::Null(_) => {
                tier.output.clear();
                self.output_wanted = false;
            }
            Patch::Set(layer, _) => {
                tier.output.push((layer, global("output")));
                self.output_wanted = !builtin;
            }
        }
        tier.limits.extend(file.limits);
        // Stable: within one selector the order of the files stands.
        tier.tools.sort_by(|a, b| a.selector.cmp(&b.selector));
        tier.models.sort_by(|a, b| a.selector.cmp(&b.selector));
    }

    fn tiers(&self) -> [&Tier; 2] {
        [&self.builtin, &self.user]
    }

    /// The rules of the user's files for tools.
    pub(crate) fn tool_rules(&self) -> &[Rule<ToolLayer>] {
        &self.user.tools
    }

    /// The rules of the user's files for models.
    pub(crate) fn model_rules(&self) -> &[Rule<ModelLayer>] {
        &self.user.models
    }

    /// Whether a report is asked for.
    pub(crate) const fn output_wanted(&self) -> bool {
        self.output_wanted
    }

    /// The layers for single calls of a tool, in their order.
    pub(crate) fn calls(&self, tool: &str) -> impl Iterator<Item = (&CallRule, Above<'_>)> {
        let tool = tool.to_owned();
        let rules = self.tiers().into_iter().flat_map(|tier| &tier.tools);
        rules.filter(move |rule| rule.selector.matches(&tool)).flat_map(|rule| {
            rule.layer.calls.iter().enumerate().map(|(i, call)| {
                let at = At::new(Scope::Call, format!("{}.calls[{i}]", rule.at.name));
                (call, Above { retry: &call.retry.0, limits: call.limits.as_ref(), at })
            })
        })
    }

    /// Merges what concerns a tool, and these layers above it.
    pub(crate) fn tool(&self, name: &str, above: &[Above<'_>]) -> MergedTool {
        self.tool_and_limits(name, above).0
    }

    /// As [`tool`](Self::tool), with the limits that were applied.
    pub(crate) fn tool_and_limits(&self, name: &str, above: &[Above<'_>]) -> (MergedTool, Limits) {
        let mut merged = MergedTool::default();
        let mut limits = self.limits();
        for tier in self.tiers() {
            tier.fold_retry(&mut merged.retry);
            for rule in tier.tools.iter().filter(|rule| rule.selector.matches(name)) {
                merged.fold(&rule.layer, &rule.at);
                rule.layer.limits.iter().for_each(|rule| limits.fold(rule));
            }
        }
        for layer in above {
            merged.retry.fold(layer.retry, &layer.at);
            layer.limits.iter().for_each(|rule| limits.fold(rule));
        }
        limits.apply(&mut merged.retry);
        (merged, limits)
    }

    /// Merges what concerns a model.
    pub(crate) fn model(&self, name: &str) -> MergedModel {
        self.model_and_limits(name).0
    }

    /// As [`model`](Self::model), with the limits that were applied.
    pub(crate) fn model_and_limits(&self, name: &str) -> (MergedModel, Limits) {
        let mut merged = MergedModel::default();
        let mut limits = self.limits();
        for tier in self.tiers() {
            tier.fold_retry(&mut merged.retry);
            for rule in tier.models.iter().filter(|rule| rule.selector.matches(name)) {
                merged.fold(&rule.layer, &rule.at);
                rule.layer.limits.iter().for_each(|rule| limits.fold(rule));
            }
        }
        limits.apply(&mut merged.retry);
        (merged, limits)
    }

    /// Merges what concerns the final report.
    pub(crate) fn output(&self) -> MergedOutput {
        self.output_and_limits().0
    }

    /// As [`output`](Self::output), with the limits that were applied.
    pub(crate) fn output_and_limits(&self) -> (MergedOutput, Limits) {
        let mut merged = MergedOutput::default();
        let mut limits = self.limits();
        for tier in self.tiers() {
            tier.fold_retry(&mut merged.retry);
            for (layer, at) in &tier.output {
                merged.fold(layer, at);
                layer.limits.iter().for_each(|rule| limits.fold(rule));
            }
        }
        limits.apply(&mut merged.retry);
        (merged, limits)
    }

    /// Merges what concerns the loop of turns.
    pub(crate) fn turn(&self) -> MergedTurn {
        let mut merged = MergedTurn::default();
        for tier in self.tiers() {
            tier.turn.iter().for_each(|(layer, at)| merged.fold(layer, at));
        }
        if let (Some(limit), Some(turns)) = (self.max_turns(), merged.max_turns.get())
            && *turns > limit.value
        {
            merged.max_turns.tighten(limit.value, limit.span.origin(Scope::Limit));
        }
        merged
    }

    /// The tightest limit on turns.
    pub(crate) fn max_turns(&self) -> Option<Spanned<NonZeroU32>> {
        let most = self.tiers().into_iter().flat_map(|tier| &tier.limits).filter_map(|l| l.max_turns);
        most.min_by_key(|limit| limit.value)
    }

    fn limits(&self) -> Limits {
        let mut limits = Limits::default();
        for top in self.tiers().into_iter().flat_map(|tier| &tier.limits) {
            limits.fold(&top.retry());
        }
        limits
    }
}

impl Tier {
    fn fold_retry(&self, merged: &mut MergedRetry) {
        self.retry.iter().for_each(|(layer, at)| merged.fold(layer, at));
    }
}

impl<'a> Above<'a> {
    /// What it says: path, place, and the value; null unsets one.
    pub(crate) fn entries(&self) -> Vec<(String, Span, Value)> {
        let mut found = Vec::new();
        self.retry.entries("retry", &mut found);
        let mut limits = Limits::default();
        self.limits.iter().for_each(|rule| limits.fold(rule));
        let limits = limits.each().into_iter();
        let at = |origin: Origin| Span::new(origin.source, origin.at, origin.at);
        found.extend(limits.map(|(name, value, origin)| (format!("limits.{name}"), at(origin), value)));
        found
    }

    /// The planner's layer.
    pub(crate) fn planner(rule: &'a PlannerRule) -> Self {
        Self { retry: &rule.retry.0, limits: rule.limits.as_ref(), at: At::new(Scope::Planner, "planner") }
    }
}

/// Where attempts have no end: neither their number nor a deadline.
pub(crate) fn unbounded(retry: &super::RetryPolicy) -> Option<Origin> {
    let endless = retry.enabled.value
        && retry.max_attempts.value == super::Attempts::Unlimited
        && retry.deadline.value == super::Bound::Unlimited;
    endless.then_some(retry.max_attempts.origin)
}
