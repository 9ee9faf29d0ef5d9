//! Why a value is what it is: every layer's word on it, won or lost, and what a retry policy costs at worst.

mod bounds;
mod brief;
mod call_file;
mod delays;
mod ends;
mod key;
mod on_error;
mod render;
mod worst;
#[cfg(feature = "yaml-value")]
mod yaml;

use core::num::NonZeroU32;

use serde_json::{Map, Value};

pub use bounds::{CostBounds, ModelBounds, RunBounds, ToolBounds, VerifierRuns};
pub use call_file::CallFile;
pub(crate) use delays::{DelayRow, DelayTable, RetryDelays};
pub use on_error::{ErrorAction, ErrorExplanation, PlacedRule, RequestCure};
pub use worst::WorstCase;

pub(super) use worst::{AttemptKind, AttemptedWork, add};

use crate::policy::document::CallRule;
use crate::policy::form::MergedBlock as _;
use crate::policy::key_value::KeyValue;
use crate::policy::layers::{CallOverrides, unbounded};
use crate::policy::merge::AnyTrail;
use crate::policy::tightest_limits::TightestLimits;
use crate::policy::{CallOverride, FailureCounting, LayerKind, Policy, RetryPolicy, ToolPolicy};
use crate::text::Place;

/// So many layers for single calls are combined in every way.
const MOST_COMBINED: u32 = 10;

/// The effective policy of a subject with the reasons for each value.
#[derive(Clone, Debug)]
pub struct PolicyExplanation {
    /// What it is about: ``tool `search` ``.
    pub(crate) subject: String,
    /// Every value.
    pub(crate) values: Vec<ExplainedValue>,
    /// What its retries cost at worst; `None` for a subject that is not retried.
    pub(crate) delays: Option<RetryDelays>,
    /// The limits that hold, those that change nothing among them.
    pub(crate) limits: Vec<EffectiveLimit>,
    /// The budgets of the run (`limits.run`), which bound this and all else in it.
    pub(crate) budgets: Vec<ExplainedValue>,
    /// Layers that hold for some calls only.
    pub(crate) conditional: Vec<CallLayer>,
    /// Rules for the call that do not apply, and why.
    pub(crate) left_out: Vec<String>,
    /// Whether a planner may ask for other rules; if so, the most attempts the limits let it have.
    #[expect(
        clippy::option_option,
        reason = "whether one may ask, and whether a limit bounds what it asks for"
    )]
    pub(crate) planner: Option<Option<NonZeroU32>>,
    /// Where these rules stand in a policy: `tools`, `search`.
    path: Vec<String>,
    /// How failures are retried, and of what.
    rules: Option<(RetryPolicy, AttemptedWork)>,
    /// What people ask first, each with its title, where nothing is retried.
    opening: Vec<(&'static str, String)>,
    /// Of a call: whether it would run, for people and for machines.
    verdict: Option<(String, Value)>,
    /// Of a model: the bound of the turn or the run on waits, where it is shorter than its own.
    patience: Option<EffectiveLimit>,
    /// Of a model: the rule by which it and the others are called in turns, if one does.
    together: Option<PlacedRule>,
}

/// A limit, and whether it makes the value tighter than the layers say.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct EffectiveLimit {
    /// Its name: `max_attempts`.
    pub name: &'static str,
    /// The limit.
    pub value: Value,
    /// Where it is written.
    pub at: Place,
    /// Whether the value would be another without it.
    pub binds: bool,
}

/// A layer for the calls that a condition holds for.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CallLayer {
    /// The condition.
    pub when: String,
    /// Where it is written.
    pub at: Place,
    /// What it says: the path, the value (null unsets one), and where it is written.
    pub says: Vec<(String, Value, Place)>,
    /// Whether it holds for the call that is explained; `None`: no call in particular is.
    pub holds: Option<ConditionState>,
}

/// Whether a condition holds for a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ConditionState {
    /// It does.
    Yes,
    /// It does not.
    No,
    /// It has no value for these arguments, so that only what tightens applies; with what is wrong.
    NoValue(String),
}

/// A value and everything that layers set for it.
#[derive(Clone, Debug)]
pub(crate) struct ExplainedValue {
    /// Its path: `retry.max_attempts`.
    pub path: String,
    /// The effective value.
    pub value: Value,
    /// The layer it comes from.
    pub scope: LayerKind,
    /// Where it is written.
    pub at: Place,
    /// What it would be without a limit, if one made it tighter.
    pub capped_from: Option<Value>,
    /// What each layer says, highest first.
    pub(crate) contributions: Vec<LayerContribution>,
}

/// What one layer says about a value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LayerContribution {
    /// Whether it still counts.
    pub won: bool,
    /// What it sets, or the edit it makes; `None`: it unsets the value.
    pub set: Option<Value>,
    /// The layer: `tools["http.*"]`.
    pub layer: String,
    /// Its kind.
    pub scope: LayerKind,
    /// Where it is written.
    pub at: Place,
}

impl Policy {
    /// Why the rules for a tool are what they are, for a call that no `when` holds for.
    pub fn explain_tool(&self, name: &str) -> PolicyExplanation {
        let (merged, limits) = self.layers().tool_and_limits(name, &[]);
        let mut values = Vec::new();
        merged.each("", &mut |path, _, trail| values.extend(self.explained(path, trail)));
        let conditional = self.call_layers(name, None);
        let layers = self.layers().calls(name);
        let above: Vec<_> = layers.into_iter().map(|(_, above)| above).collect();
        let rules = merged.policy().map(|policy| (policy.retry.clone(), work(&policy)));
        let delays = rules.as_ref().map(|(retry, work)| {
            let mut delays = RetryDelays::of(retry, *work);
            delays.worst = self.worst(name, &above, delays.worst, &worst_run);
            delays
        });
        PolicyExplanation {
            limits: self.in_force(&limits, &values),
            delays,
            conditional,
            planner: Some(limits.max_attempts()),
            rules,
            ..PolicyExplanation::of(format!("tool `{name}`"), vec!["tools".into(), name.into()], values)
        }
    }

    /// The values for calls of a tool that these layers hold for, without what they cost.
    pub(super) fn explain_values_of_tool(
        &self,
        name: &str,
        above: &[CallOverrides<'_>],
    ) -> PolicyExplanation {
        let mut values = Vec::new();
        let (merged, _) = self.layers().tool_and_limits(name, above);
        merged.each("", &mut |path, _, trail| values.extend(self.explained(path, trail)));
        PolicyExplanation::of(format!("tool `{name}`"), vec!["tools".into(), name.into()], values)
    }

    /// Why the rules for one call are what they are. A `when` without a value for these arguments does not hold.
    pub fn explain_call(
        &self,
        name: &str,
        arguments: &Value,
        planner: Option<&CallOverride>,
    ) -> PolicyExplanation {
        let (mut above, _) = self.above(name, arguments, planner);
        // Layers that leave the attempts without end do not apply.
        let endless =
            self.layers().tool_retry(name, &above).policy().is_some_and(|retry| unbounded(&retry).is_some());
        if endless {
            above.clear();
        }
        let (merged, limits) = self.layers().tool_and_limits(name, &above);
        let rules = merged.policy().map(|policy| (policy.retry.clone(), work(&policy)));
        let mut values = Vec::new();
        merged.each("", &mut |path, _, trail| values.extend(self.explained(path, trail)));
        let subject = format!("tool `{name}` called with {arguments}");
        PolicyExplanation {
            limits: self.in_force(&limits, &values),
            delays: rules.as_ref().map(|(retry, work)| RetryDelays::of(retry, *work)),
            conditional: self.call_layers(name, Some(arguments)),
            // Conditions without a value are reported with their layers.
            left_out: self
                .call(name, arguments, planner)
                .left_out
                .pop()
                .into_iter()
                .filter(|_| endless)
                .collect(),
            rules,
            ..PolicyExplanation::of(subject, vec!["tools".into(), name.into()], values)
        }
    }

    /// The layers for single calls of a tool, and whether each holds for one with these arguments.
    fn call_layers(&self, name: &str, arguments: Option<&Value>) -> Vec<CallLayer> {
        let variables = arguments.map(|args| {
            Map::from_iter([("args".to_owned(), args.clone()), ("tool".to_owned(), name.into())])
        });
        let holds = |rule: &CallRule| {
            variables.as_ref().map(|variables| match rule.when.value.expr.holds(variables) {
                Ok(true) => ConditionState::Yes,
                Ok(false) => ConditionState::No,
                Err(error) => ConditionState::NoValue(error.to_string()),
            })
        };
        let layers = self.layers().calls(name).into_iter().map(|(rule, above)| CallLayer {
            when: rule.when.value.source().to_owned(),
            at: self.sources().place_of(rule.when.span),
            says: above
                .entries()
                .into_iter()
                .map(|(path, span, value)| (path, value, self.sources().place_of(span)))
                .collect(),
            holds: holds(rule),
        });
        layers.collect()
    }

    /// Why the rules for a model are what they are.
    pub fn explain_model(&self, name: &str) -> PolicyExplanation {
        let (merged, limits) = self.layers().model_and_limits(name);
        let mut values = Vec::new();
        merged.each("", &mut |path, _, trail| values.extend(self.explained(path, trail)));
        let work = AttemptedWork { asks: true, ..AttemptedWork::default() };
        let turn = self.turn();
        let (mut rules, mut patience) = (merged.retry.policy(), None);
        for (name, most) in [("turn.total_delay", turn.total_delay), ("turn.run_delay", turn.run_delay)] {
            rules = rules.map(|retry| {
                let within = retry.clone().within(most);
                if within.total_delay.value != retry.total_delay.value {
                    let at = self.sources().place(most.origin);
                    patience =
                        Some(EffectiveLimit { name, value: most.value.to_string().into(), at, binds: true });
                }
                within
            });
        }
        let rules = rules.map(|retry| (retry, work));
        let path = vec!["models".into(), name.into()];
        let together = self.explain_turn().counts_together();
        PolicyExplanation {
            patience,
            together,
            ..self.of_retries(format!("model `{name}`"), path, values, &limits, rules)
        }
    }

    /// Why the rules for the final report are what they are; `None`: no report is asked for.
    pub fn explain_output(&self) -> Option<PolicyExplanation> {
        self.output()?;
        let (merged, limits) = self.layers().output_and_limits();
        let mut values = Vec::new();
        merged.each("", &mut |path, _, trail| values.extend(self.explained(path, trail)));
        let as_report = AttemptedWork { kind: AttemptKind::Report, ..AttemptedWork::default() };
        let rules = merged.retry.policy().map(|retry| (retry, as_report));
        Some(self.of_retries("the final report".into(), vec!["output".into()], values, &limits, rules))
    }

    /// What is retried, and has no layers for single calls.
    fn of_retries(
        &self,
        subject: String,
        path: Vec<String>,
        values: Vec<ExplainedValue>,
        limits: &TightestLimits,
        rules: Option<(RetryPolicy, AttemptedWork)>,
    ) -> PolicyExplanation {
        PolicyExplanation {
            limits: self.in_force(limits, &values),
            delays: rules.as_ref().map(|(retry, work)| RetryDelays::of(retry, *work)),
            rules,
            ..PolicyExplanation::of(subject, path, values)
        }
    }

    /// Why the rules for the loop of turns are what they are.
    pub fn explain_turn(&self) -> PolicyExplanation {
        let mut values: Vec<ExplainedValue> = Vec::new();
        self.layers().turn().each("", &mut |path, _, trail| values.extend(self.explained(path, trail)));
        let limit = self.layers().max_turns().map(|limit| EffectiveLimit {
            name: "max_turns",
            value: limit.value.get().into(),
            at: self.sources().place_of(limit.span),
            binds: values.iter().any(|value| value.path == "max_turns" && value.capped_from.is_some()),
        });
        PolicyExplanation {
            limits: limit.into_iter().chain(self.budgets()).collect(),
            ..PolicyExplanation::of("the loop of turns".into(), vec!["turn".into()], values)
        }
    }

    /// The budgets of a run, with their places.
    fn budgets(&self) -> Vec<EffectiveLimit> {
        let run = self.run_limits().each().into_iter();
        let run = run.map(|(name, limit)| {
            let at = self.sources().place(limit.origin);
            EffectiveLimit { name, value: limit.shown, at, binds: true }
        });
        run.collect()
    }

    /// The same with the budgets of a run, which hold whatever is explained.
    #[must_use]
    pub(crate) fn with_budgets(&self, explanation: PolicyExplanation) -> PolicyExplanation {
        let explained = |(name, limit): (&str, KeyValue)| {
            let (value, origin) = (limit.shown, limit.origin);
            let (scope, at) = (origin.scope, self.place(origin));
            let layer = "limits.run".to_owned();
            let says =
                LayerContribution { won: true, set: Some(value.clone()), layer, scope, at: at.clone() };
            let (path, contributions) = (format!("limits.{name}"), vec![says]);
            ExplainedValue { path, value, scope, at, capped_from: None, contributions }
        };
        PolicyExplanation {
            budgets: self.run_limits().each().into_iter().map(explained).collect(),
            ..explanation
        }
    }

    /// Why the rules for the validity of the history are what they are.
    pub fn explain_history(&self) -> PolicyExplanation {
        let mut values: Vec<ExplainedValue> = Vec::new();
        self.layers().history().each("", &mut |path, _, trail| values.extend(self.explained(path, trail)));
        PolicyExplanation::of("the history".into(), vec!["history".into()], values)
    }

    /// Why the rules for the windows of models are what they are.
    pub fn explain_context(&self) -> PolicyExplanation {
        let mut values: Vec<ExplainedValue> = Vec::new();
        self.layers().context().each("", &mut |path, _, trail| values.extend(self.explained(path, trail)));
        PolicyExplanation::of("the context".into(), vec!["context".into()], values)
    }

    /// The worst case with any of these layers above the tool's own. Of more layers than can be combined in every way
    /// no bound is reported.
    fn worst(
        &self,
        name: &str,
        layers: &[CallOverrides<'_>],
        alone: WorstCase,
        of: &dyn Fn(&ToolPolicy) -> WorstCase,
    ) -> WorstCase {
        let count = u32::try_from(layers.len()).unwrap_or(u32::MAX);
        if count > MOST_COMBINED {
            return WorstCase::UNBOUNDED;
        }
        let holds =
            |set: u32, i: usize| set.checked_shr(u32::try_from(i).unwrap_or(u32::MAX)).unwrap_or(0) & 1 == 1;
        let sets = 1..1_u32.checked_shl(count).unwrap_or(1);
        let pick =
            |set| layers.iter().enumerate().filter(move |(i, _)| holds(set, *i)).map(|(_, layer)| layer);
        let chosen = sets.map(|set| pick(set).collect::<Vec<_>>());
        chosen.fold(alone, |worst, chosen| {
            let above: Vec<_> = chosen.into_iter().cloned().collect();
            match self.layers().tool(name, &above).policy() {
                // Layers that leave the attempts without end do not apply.
                Some(policy) if unbounded(&policy.retry).is_none() => worst.or(of(&policy)),
                _ => worst,
            }
        })
    }

    fn in_force(&self, limits: &TightestLimits, values: &[ExplainedValue]) -> Vec<EffectiveLimit> {
        let in_force = limits.each().into_iter().map(|(name, KeyValue { shown: value, origin, .. })| {
            let from = values.iter().find(|held| held.path.strip_prefix("retry.") == Some(name));
            let binds = from.and_then(|held| held.capped_from.as_ref()).is_some_and(|from| {
                let Some(classes) = value.as_array() else { return true };
                classes.iter().any(|class| from.as_array().is_none_or(|from| !from.contains(class)))
            });
            EffectiveLimit { name, value, at: self.place(origin), binds }
        });
        in_force.collect()
    }

    fn explained(&self, path: String, trail: &dyn AnyTrail) -> Option<ExplainedValue> {
        let (value, origin) = trail.value()?;
        let contributions = trail.contributions().into_iter().rev().map(|said| LayerContribution {
            won: said.won,
            set: said.set,
            layer: said.layer.to_string(),
            scope: said.origin.scope,
            at: self.place(said.origin),
        });
        Some(ExplainedValue {
            path,
            value,
            scope: origin.scope,
            at: self.place(origin),
            capped_from: trail.capped_from(),
            contributions: contributions.collect(),
        })
    }
}

/// The worst case of the runs of one call.
fn worst_run(policy: &ToolPolicy) -> WorstCase {
    WorstCase::of(&policy.retry, work(policy))
}

/// What is attempted when a tool is called.
pub(super) fn work(policy: &ToolPolicy) -> AttemptedWork {
    // Among the failures of a window others may stand that went well, and results grow old.
    let certain = !matches!(policy.breaker.count.value, FailureCounting::Window(_));
    AttemptedWork {
        kind: AttemptKind::Run,
        breaker: policy.breaker.failures.value.filter(|_| certain),
        asks: true,
    }
}

impl PolicyExplanation {
    /// The values of a subject, of which nothing else is known yet.
    const fn of(subject: String, path: Vec<String>, values: Vec<ExplainedValue>) -> Self {
        Self {
            subject,
            values,
            delays: None,
            limits: Vec::new(),
            budgets: Vec::new(),
            conditional: Vec::new(),
            left_out: Vec::new(),
            planner: None,
            path,
            rules: None,
            opening: Vec::new(),
            verdict: None,
            patience: None,
            together: None,
        }
    }

    /// The same with lines before its values in the short form.
    pub(crate) fn opened(self, opening: Vec<(&'static str, String)>) -> Self {
        Self { opening, ..self }
    }

    /// The same with what becomes of the call.
    pub(crate) fn with_verdict(self, text: String, json: Value) -> Self {
        Self { verdict: Some((text, json)), ..self }
    }

    /// A text as it is shown: in one line, and cut.
    pub(crate) fn shown(text: &str) -> String {
        render::short(&text.into(), render::LONGEST)
    }

    /// The value at a path.
    pub(crate) fn get(&self, path: &str) -> Option<&ExplainedValue> {
        self.values.iter().find(|value| value.path == path)
    }

    /// The effective values alone, by their paths.
    pub fn effective(&self) -> Value {
        let mut root = Map::new();
        for explained in &self.values {
            put(&mut root, &explained.path, explained.value.clone());
        }
        Value::Object(root)
    }

    /// A policy that says the same by itself: the values, the limits, and the layers for some calls.
    pub fn document(&self) -> Value {
        let mut root = Map::from_iter([("version".to_owned(), Value::from(1))]);
        let mut here = match self.effective() {
            Value::Object(values) => values,
            _ => Map::new(),
        };
        let limits = limits(self.limits.iter().map(|limit| (limit.name, &limit.value)));
        // Turns have no limits of their own; the one for them is at the top.
        let of_turns = self.path.iter().any(|step| step == "turn");
        if !limits.is_empty() {
            if of_turns { &mut root } else { &mut here }.insert("limits".into(), limits.into());
        }
        // Those that were tried on a call are in the values, or do not concern it.
        let open: Vec<_> = self.conditional.iter().filter(|layer| layer.holds.is_none()).collect();
        if !open.is_empty() {
            here.insert("calls".into(), open.into_iter().map(CallLayer::document).collect());
        }
        let wrap = |inner: Value, step: &String| Value::Object(Map::from_iter([(step.clone(), inner)]));
        if let Value::Object(wrapped) = self.path.iter().rev().fold(Value::Object(here), wrap) {
            root.extend(wrapped);
        }
        Value::Object(root)
    }
}

impl CallLayer {
    fn document(&self) -> Value {
        let mut layer = Map::from_iter([("when".to_owned(), Value::from(self.when.as_str()))]);
        for (path, value, _) in &self.says {
            put(&mut layer, path, value.clone());
        }
        Value::Object(layer)
    }
}

/// Limits as they are written; the classes of several are written as one list.
fn limits<'a>(limits: impl Iterator<Item = (&'a str, &'a Value)>) -> Map<String, Value> {
    let mut written = Map::new();
    for (name, value) in limits {
        match (written.get_mut(name), value) {
            (Some(Value::Array(held)), Value::Array(more)) => held.extend(more.iter().cloned()),
            _ => {
                written.insert(name.to_owned(), value.clone());
            }
        }
    }
    written
}

fn put(map: &mut Map<String, Value>, path: &str, value: Value) {
    match path.split_once('.') {
        None => {
            map.insert(path.to_owned(), value);
        }
        Some((first, rest)) => {
            if let Value::Object(inner) = map.entry(first).or_insert_with(|| Value::Object(Map::new())) {
                put(inner, rest, value);
            }
        }
    }
}

#[cfg(test)]
mod tests;
