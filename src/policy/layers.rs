//! The layers of all files in their order of precedence, and the merge of those that concern a subject.
//!
//! Lowest first: the built-in file with all its scopes, then the user's files: global blocks in load order, those of
//! the profile, selectors from less to more specific, calls whose `when` holds, the planner.

use core::cmp::Ordering;
use core::num::NonZeroU32;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::decode::{Patch, Spanned};
use super::document::{
    CallRule, ContextPolicy, HistoryPolicy, LimitsRule, ModelLayer, ModelPolicy, OutputLayer, OutputPolicy,
    PlannerRule, RetryPolicy, TokensPolicy, ToolLayer, ToolPolicy, TopLimits, TurnPolicy, for_all,
};
use super::form::{self, Document, Merged, MergedBlock as _, OptionalBlock};
use super::key_value::KeyValue;
use super::merge::LayerPosition;
use super::rules::{RuleList, SelectorRule};
use super::{Approval, LayerKind, Origin, RunLimits, Selector};
use crate::policy::layer_value::LayerValue;
use crate::policy::part::{PartKind, PolicyPart};
use crate::policy::tightest_limits::TightestLimits;
use crate::text::Span;

/// The layers of the built-in file, and those of the user's.
#[derive(Debug, Default)]
pub(crate) struct PolicyLayers {
    builtin: LayerTier,
    user: LayerTier,
    /// Where a report is asked for.
    output_wanted: Option<Span>,
    pub(crate) any_calls: bool,
}

/// Layers of one precedence, by scope.
#[derive(Debug, Default)]
struct LayerTier {
    retry: Vec<(OptionalBlock<RetryPolicy<Document>>, LayerPosition)>,
    tools: RuleList<ToolLayer>,
    models: RuleList<ModelLayer>,
    turn: Vec<(OptionalBlock<TurnPolicy<Document>>, LayerPosition)>,
    output: Vec<(OutputLayer, LayerPosition)>,
    tokens: Vec<(OptionalBlock<TokensPolicy<Document>>, LayerPosition)>,
    history: Vec<(OptionalBlock<HistoryPolicy<Document>>, LayerPosition)>,
    context: Vec<(OptionalBlock<ContextPolicy<Document>>, LayerPosition)>,
    limits: Vec<TopLimits>,
}

/// Rules as they are found, in the order of the files.
#[derive(Default)]
struct FoundRules {
    tools: Vec<SelectorRule<ToolLayer>>,
    models: Vec<SelectorRule<ModelLayer>>,
}

/// A layer above the tool's own: a call's or the planner's.
#[derive(Clone)]
pub(crate) struct CallOverrides<'a> {
    retry: Cow<'a, RetryPolicy<Document>>,
    approval: Option<&'a Patch<Approval>>,
    limits: Option<&'a LimitsRule>,
    at: LayerPosition,
}

impl PolicyLayers {
    /// The layers of parts, lowest first. The first is the built-in one.
    pub(crate) fn new(parts: &[&PolicyPart]) -> Self {
        let mut layers = Self::default();
        let (mut builtin, mut user) = (FoundRules::default(), FoundRules::default());
        for (number, part) in parts.iter().enumerate() {
            let found = if part.kind == PartKind::Builtin { &mut builtin } else { &mut user };
            layers.add(number, part, found);
        }
        // Each tier sorts its selectors alone. Sorted together, a specific selector of the built-in file would
        // override a general one of the user's.
        for (tier, found) in [(&mut layers.builtin, builtin), (&mut layers.user, user)] {
            tier.tools = RuleList::new(found.tools);
            tier.models = RuleList::new(found.models);
        }
        layers
    }

    fn add(&mut self, number: usize, PolicyPart { kind, blocks, .. }: &PolicyPart, found: &mut FoundRules) {
        let builtin = *kind == PartKind::Builtin;
        let tier = if builtin { &mut self.builtin } else { &mut self.user };
        let (prefix, global) = match kind {
            PartKind::Builtin => (String::new(), LayerKind::Builtin),
            PartKind::File => (String::new(), LayerKind::Global),
            PartKind::Profile(name) => (format!("profiles.{name}."), LayerKind::Profile),
        };
        let block = |name: &str| LayerPosition::new(global, format!("{prefix}{name}")).of(number);
        let selected = |scope: LayerKind, of: &str, selector: &Selector| {
            let name = format!("{prefix}{of}[\"{}\"]", selector.as_str());
            LayerPosition::new(if builtin { LayerKind::Builtin } else { scope }, name)
                .of(number)
                .under(selector)
        };
        // Without rules for single calls no arguments are evaluated: the common case pays nothing.
        self.any_calls |= blocks.tools.0.iter().any(|(_, tool)| !tool.calls.is_empty());
        tier.retry.push((blocks.retry.clone(), block("retry")));
        for (Spanned { value, span }, layer) in &blocks.tools.0 {
            let at = selected(LayerKind::Tool, "tools", value);
            found.tools.push(SelectorRule::new(value.clone(), *span, Arc::clone(layer), at));
        }
        for (Spanned { value, span }, layer) in &blocks.models.0 {
            let at = selected(LayerKind::Model, "models", value);
            found.models.push(SelectorRule::new(value.clone(), *span, Arc::clone(layer), at));
        }
        tier.turn.push((blocks.turn.clone(), block("turn")));
        tier.tokens.push((blocks.context.tokens.clone(), block("context")));
        tier.history.push((blocks.history.clone(), block("history")));
        tier.context.push((blocks.context.clone(), block("context")));
        match &blocks.output {
            Patch::Absent => {}
            Patch::Null(_) => {
                // `output: null` also withdraws the report that lower layers ask for.
                tier.output.clear();
                self.output_wanted = None;
            }
            Patch::Set(layer, span) => {
                tier.output.push((layer.clone(), block("output")));
                // The built-in file has values for a report, but only a file of the user asks for one.
                self.output_wanted = (!builtin).then_some(*span);
            }
        }
        tier.limits.extend(blocks.limits.clone());
    }

    fn tiers(&self) -> [&LayerTier; 2] {
        [&self.builtin, &self.user]
    }

    /// The rules of the user's files for tools.
    pub(crate) const fn tool_rules(&self) -> &RuleList<ToolLayer> {
        &self.user.tools
    }

    /// The rules of the user's files for models.
    pub(crate) const fn model_rules(&self) -> &RuleList<ModelLayer> {
        &self.user.models
    }

    /// Where a report is asked for; `None`: none is.
    pub(crate) const fn output_wanted(&self) -> Option<Span> {
        self.output_wanted
    }

    /// The layers for single calls of a tool, in their order.
    pub(crate) fn calls(&self, tool: &str) -> Vec<(&CallRule, CallOverrides<'_>)> {
        let mut calls = Vec::new();
        for rule in self.tiers().into_iter().flat_map(|tier| tier.tools.matching(tool)) {
            for (i, call) in rule.layer.calls.iter().enumerate() {
                let at = LayerPosition::new(LayerKind::Call, format!("{}.calls[{i}]", rule.at.name))
                    .of(rule.at.part);
                let (retry, approval) = (Cow::Borrowed(&*call.retry), Some(&call.approval));
                calls.push((call, CallOverrides { retry, approval, limits: call.limits.as_ref(), at }));
            }
        }
        calls
    }

    /// Merges what concerns a tool, and these layers above it.
    pub(crate) fn tool(&self, name: &str, above: &[CallOverrides<'_>]) -> ToolPolicy<Merged> {
        self.tool_and_limits(name, above).0
    }

    /// As [`tool`](Self::tool), with the limits that were applied.
    pub(crate) fn tool_and_limits(
        &self,
        name: &str,
        above: &[CallOverrides<'_>],
    ) -> (ToolPolicy<Merged>, TightestLimits) {
        let mut merged = ToolPolicy::<Merged>::default();
        let mut limits = self.limits();
        for tier in self.tiers() {
            // The `retry` block at the top is for all tools, so what a selector says is folded after it and wins.
            tier.fold_retry(&mut merged.retry);
            for rule in tier.tools.matching(name) {
                form::fold(&mut merged, &rule.layer, &rule.at);
                rule.layer.limits.iter().for_each(|rule| limits.fold(rule));
            }
        }
        fold_above(&mut merged.retry, &mut limits, above);
        for layer in above {
            layer.approval.iter().for_each(|patch| merged.approval.fold(patch, &layer.at));
        }
        // Limits are applied after all layers. Applied in between, a later layer could loosen them again.
        limits.apply(&mut merged.retry);
        (merged, limits)
    }

    /// What a layer above others says that makes the rules of a tool tighter, and nothing else of it. For conditions without a
    /// value: who cannot tell whether a gate is for a call keeps it shut, and opens none.
    pub(crate) fn tightening<'a>(
        &self,
        name: &str,
        above: &[CallOverrides<'a>],
        layer: &CallOverrides<'a>,
    ) -> CallOverrides<'a> {
        // Both merges are compared key by key, because what a layer does depends on those below it.
        let values = |above: &[CallOverrides<'_>]| {
            let mut values = BTreeMap::new();
            self.tool(name, above).each("", &mut |path, key, trail| {
                values.extend(trail.key_value(key).map(|value| (path, value)));
            });
            values
        };
        let all = [above, core::slice::from_ref(layer)].concat();
        let (old, new) = (values(above), values(&all));
        let loosened = |path: &str| {
            fn value<'v>(values: &'v BTreeMap<String, KeyValue>, path: &str) -> Option<&'v KeyValue> {
                values.get(path).or_else(|| values.get(&for_all(path)?))
            }
            KeyValue::loosened(value(&old, path), value(&new, path))
        };
        // A value for all failures also holds for each class without a value of its own, and may be looser there
        // than what held before. It is kept only if no such class becomes looser.
        let said: Vec<String> = layer.entries().into_iter().map(|(path, ..)| path).collect();
        let of_class = |path: &str, class: &str| for_all(class).is_some_and(|all| all == path);
        let loosens = |path: &str| {
            let mut classes =
                old.keys().chain(new.keys()).filter(|class| of_class(path, class) && !said.contains(class));
            classes.any(|class| loosened(class) == Some(Ordering::Greater))
        };
        let keep = |path: &str| loosened(path) == Some(Ordering::Less) && !loosens(path);
        let mut kept = layer.clone();
        kept.retry = Cow::Owned(form::retain(&*layer.retry, "retry", &mut |path, _| keep(path)));
        kept.approval = layer.approval.filter(|_| keep("approval"));
        // `explain` shows the layer by this name, so a reader sees why only a part of it applies.
        kept.at.name = format!("{} (no value)", layer.at.name).into();
        kept
    }

    /// Merges what concerns the retries of a tool.
    pub(crate) fn tool_retry(&self, name: &str, above: &[CallOverrides<'_>]) -> RetryPolicy<Merged> {
        let mut merged = RetryPolicy::<Merged>::default();
        let mut limits = self.limits();
        for tier in self.tiers() {
            tier.fold_retry(&mut merged);
            for rule in tier.tools.matching(name) {
                form::fold(&mut merged, &rule.layer.retry, &rule.at);
                rule.layer.limits.iter().for_each(|rule| limits.fold(rule));
            }
        }
        fold_above(&mut merged, &mut limits, above);
        limits.apply(&mut merged);
        merged
    }

    /// Merges what concerns a model.
    pub(crate) fn model(&self, name: &str) -> ModelPolicy<Merged> {
        self.model_and_limits(name).0
    }

    /// As [`model`](Self::model), with the limits that were applied.
    pub(crate) fn model_and_limits(&self, name: &str) -> (ModelPolicy<Merged>, TightestLimits) {
        let mut merged = ModelPolicy::<Merged>::default();
        let mut limits = self.limits();
        for tier in self.tiers() {
            tier.fold_retry(&mut merged.retry);
            tier.tokens.iter().for_each(|(layer, at)| form::fold(&mut merged.tokens, layer, at));
            for rule in tier.models.matching(name) {
                form::fold(&mut merged, &rule.layer, &rule.at);
                rule.layer.limits.iter().for_each(|rule| limits.fold(rule));
            }
        }
        limits.apply(&mut merged.retry);
        (merged, limits)
    }

    /// Merges what concerns the retries of a model.
    pub(crate) fn model_retry(&self, name: &str) -> RetryPolicy<Merged> {
        self.model(name).retry
    }

    /// Merges what concerns the final report.
    pub(crate) fn output(&self) -> OutputPolicy<Merged> {
        self.output_and_limits().0
    }

    /// As [`output`](Self::output), with the limits that were applied.
    pub(crate) fn output_and_limits(&self) -> (OutputPolicy<Merged>, TightestLimits) {
        let mut merged = OutputPolicy::<Merged>::default();
        let mut limits = self.limits();
        for tier in self.tiers() {
            tier.fold_retry(&mut merged.retry);
            for (layer, at) in &tier.output {
                form::fold(&mut merged, layer, at);
                layer.limits.iter().for_each(|rule| limits.fold(rule));
            }
        }
        limits.apply(&mut merged.retry);
        (merged, limits)
    }

    /// Merges what concerns the loop of turns.
    pub(crate) fn turn(&self) -> TurnPolicy<Merged> {
        let mut merged = TurnPolicy::<Merged>::default();
        for tier in self.tiers() {
            tier.turn.iter().for_each(|(layer, at)| form::fold(&mut merged, layer, at));
        }
        // A limit only tightens: fewer turns than it allows stay as they are.
        if let (Some(limit), Some(turns)) = (self.max_turns(), merged.max_turns.get())
            && *turns > limit.value
        {
            merged.max_turns.tighten(limit.value, limit.span.origin(LayerKind::Limit));
        }
        merged
    }

    /// Merges what concerns the validity of the history.
    pub(crate) fn history(&self) -> HistoryPolicy<Merged> {
        let mut merged = HistoryPolicy::<Merged>::default();
        for tier in self.tiers() {
            tier.history.iter().for_each(|(layer, at)| form::fold(&mut merged, layer, at));
        }
        merged
    }

    /// Merges what concerns the windows of models.
    pub(crate) fn context(&self) -> ContextPolicy<Merged> {
        let mut merged = ContextPolicy::<Merged>::default();
        for tier in self.tiers() {
            tier.context.iter().for_each(|(layer, at)| form::fold(&mut merged, layer, at));
        }
        merged
    }

    /// The tightest limit on turns.
    pub(crate) fn max_turns(&self) -> Option<Spanned<NonZeroU32>> {
        let most = self.tiers().into_iter().flat_map(|tier| &tier.limits).filter_map(|l| l.max_turns);
        most.min_by_key(|limit| limit.value)
    }

    /// The budgets of a run: of the user's files the tightest, of the built-in ones what those leave out.
    pub(crate) fn run_limits(&self) -> RunLimits {
        let [builtin, user] = self.tiers().map(|tier| {
            let mut limits = RunLimits::default();
            tier.limits.iter().filter_map(|top| top.run.as_ref()).for_each(|rule| limits.fold(rule));
            limits
        });
        // Built-in budgets are no limits that anybody chose, so those of the user replace them.
        user.or(&builtin)
    }

    fn limits(&self) -> TightestLimits {
        let mut limits = TightestLimits::default();
        for top in self.tiers().into_iter().flat_map(|tier| &tier.limits) {
            limits.fold(&top.retry());
        }
        limits
    }
}

fn fold_above(merged: &mut RetryPolicy<Merged>, limits: &mut TightestLimits, above: &[CallOverrides<'_>]) {
    for layer in above {
        form::fold(merged, &layer.retry, &layer.at);
        layer.limits.iter().for_each(|rule| limits.fold(rule));
    }
}

impl LayerTier {
    fn fold_retry(&self, merged: &mut RetryPolicy<Merged>) {
        self.retry.iter().for_each(|(layer, at)| form::fold(merged, layer, at));
    }
}

impl<'a> CallOverrides<'a> {
    /// What it says: path, place, and the value; null unsets one.
    pub(crate) fn entries(&self) -> Vec<(String, Span, Value)> {
        let mut found = Vec::new();
        form::entries(&*self.retry, "retry", &mut found);
        if let Some((patch, span)) = self.approval.and_then(|patch| Some((patch, patch.span()?))) {
            let shown = patch.as_set().map(LayerValue::show).unwrap_or_default();
            found.push(("approval".to_owned(), span, shown));
        }
        let mut limits = TightestLimits::default();
        self.limits.iter().for_each(|rule| limits.fold(rule));
        let limits = limits.each().into_iter();
        let at = |origin: Origin| Span::new(origin.source, origin.at, origin.at);
        found.extend(limits.map(|(name, limit)| (format!("limits.{name}"), at(limit.origin), limit.shown)));
        found
    }

    /// The planner's layer.
    pub(crate) fn planner(rule: &'a PlannerRule) -> Self {
        let at = LayerPosition::new(LayerKind::Planner, "planner");
        Self { retry: Cow::Borrowed(&rule.retry), approval: None, limits: rule.limits.as_ref(), at }
    }
}

/// Where attempts have no end: neither their number nor a deadline.
pub(crate) fn unbounded(retry: &RetryPolicy) -> Option<Origin> {
    // A deadline ends even unlimited attempts, and disabled retries make none.
    if !retry.enabled.value || retry.deadline.value != super::TimeBound::Unlimited {
        return None;
    }
    // One class with unlimited attempts is enough for a call without end.
    let all =
        core::iter::once(&retry.max_attempts).chain(retry.by_class.iter().map(|(_, own)| &own.max_attempts));
    all.into_iter()
        .find(|attempts| attempts.value == super::AttemptLimit::Unlimited)
        .map(|attempts| attempts.origin)
}
