//! `retry:` and `limits:`, the same in every layer.

use core::cmp::Ordering;
use core::num::NonZeroU32;

use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::{Map, Value, json};

use super::backoff::WrittenBackoff;
use super::by_class::{ByClass, ClassRetry};
use super::fraction::OpenFraction;
use super::lasting::NonZeroTime;
use super::run::RunLimitsRule;
use crate::policy::decode::{Decode, NodeReader, Patch, SchemaOf, Spanned, record};
use crate::policy::form::{Block, Document, Effective, Form, Merged};
use crate::policy::layer_value::{LayerValue, plain_leaf};
use crate::policy::merge::{LayerPosition, ValueHistory};
use crate::policy::{
    AboveMax, AttemptLimit, ClassSet, ErrorClass, RetryBudget, ServerDelay, ServerDelayMode, TimeBound,
    WaitSource, WaitSources,
};
use crate::text::yaml::{YamlData, YamlNode};
use crate::text::{Code, Diagnostic};
use crate::time::Nanos;

/// How failures of one kind of work are retried. What is left out is inherited; `null` goes back to the default.
/// Example: `{"max_attempts": 4, "retry_on": ["rate_limit", "timeout"], "backoff": {"kind": "exponential", "base": "500ms", "factor": 2, "cap": "30s", "jitter": "full"}}`
#[derive(Clone, Debug, Block)]
#[block(fold = fold_with_classes)]
pub struct RetryPolicy<F: Form = Effective> {
    /// `false`: nothing is retried.
    /// Checks: W0223.
    #[key(looser = More)]
    pub enabled: F::Of<bool>,
    /// The first attempt plus retries. `unlimited` needs a `deadline`.
    /// Checks: P0203, W0202, W0203, W0207, W0210.
    /// Example: `3`
    #[key(looser = More)]
    pub max_attempts: F::Of<AttemptLimit>,
    /// The error classes that are retried.
    /// Checks: W0206, W0215, W0224.
    /// Example: `["rate_limit", "timeout"]`
    #[key(looser = More)]
    pub retry_on: F::Of<ClassList>,
    /// The error classes that are never retried, whatever `retry_on` says.
    /// Checks: W0215, W0224.
    /// Example: `{"add": ["permission_denied"]}`
    #[key(looser = Less)]
    pub never_retry: F::Of<ClassList>,
    /// The delay before each next attempt.
    /// Checks: W0260.
    pub backoff: F::Of<WrittenBackoff>,
    /// The delay before the model corrects arguments or a report that were refused; `backoff` is not for those.
    /// Checks: W0261.
    pub correction_backoff: F::Of<WrittenBackoff>,
    /// What a delay asked for by the server (`Retry-After`) does to the next wait.
    /// Checks: W0210.
    pub server_delay: F::Of<ServerDelay>,
    /// From the first attempt on, no attempt starts after this.
    /// Checks: P0203, W0203, W0218.
    /// Example: `2m`
    #[key(looser = More)]
    pub deadline: F::Of<NonZeroTime<TimeBound>>,
    /// What an attempt needs at least: none starts with less time than this left until a deadline.
    /// Example: `2s`
    #[key(looser = Less)]
    pub min_attempt_time: F::Of<Nanos>,
    /// The longest one attempt may take.
    /// Checks: W0210, W0218.
    /// Example: `20s`
    #[key(looser = More)]
    pub attempt_timeout: F::Of<NonZeroTime<TimeBound>>,
    /// The most time spent waiting between the attempts of one call.
    /// Checks: W0203.
    /// Example: `1m`
    #[key(looser = More)]
    pub total_delay: F::Of<TimeBound>,
    /// How many retries there may be across calls.
    pub budget: F::Of<RetryBudget>,
    /// Whether failures are written into the session for the model to see.
    #[key(looser = Neither)]
    pub emit_feedback: F::Of<bool>,
    /// `true`: what would be retried is decided and written down, but not done.
    /// Example: `false`
    #[key(looser = Less)]
    pub shadow: F::Of<bool>,
    /// What is different for failures of some classes.
    /// Checks: W0207, W0216, W0261.
    /// Example: `{"rate_limit": {"max_attempts": 6}}`
    pub by_class: F::In<ByClass<F>>,
}

record! {
    /// Limits on retries. The tightest value of all layers wins; no layer can loosen another's.
    #[part(true)]
    pub(crate) struct LimitsRule {
        /// The most attempts of one call.
        /// Example: `5`
        pub(crate) max_attempts: Option<Spanned<NonZeroU32>>,
        /// The longest deadline.
        /// Example: `5m`
        pub(crate) deadline: Option<Spanned<NonZeroTime<Nanos>>>,
        /// The most time spent waiting between the attempts of one call.
        /// Example: `2m`
        pub(crate) total_delay: Option<Spanned<Nanos>>,
        /// The longest one attempt may take.
        /// Example: `30s`
        pub(crate) attempt_timeout: Option<Spanned<NonZeroTime<Nanos>>>,
        /// Error classes that are never retried; those of all layers together.
        /// Checks: W0215.
        /// Example: `["permission_denied", "quota_exceeded"]`
        pub(crate) never_retry: Option<Spanned<Vec<ErrorClass>>>,
    }
}

record! {
    /// Limits on everything. The tightest value of all layers wins; no layer can loosen another's.
    #[part(true)]
    pub(crate) struct TopLimits {
        /// The most attempts of one call.
        /// Example: `5`
        pub(crate) max_attempts: Option<Spanned<NonZeroU32>>,
        /// The longest deadline.
        /// Example: `5m`
        pub(crate) deadline: Option<Spanned<NonZeroTime<Nanos>>>,
        /// The most time spent waiting between the attempts of one call.
        /// Example: `2m`
        pub(crate) total_delay: Option<Spanned<Nanos>>,
        /// The longest one attempt may take.
        /// Example: `30s`
        pub(crate) attempt_timeout: Option<Spanned<NonZeroTime<Nanos>>>,
        /// Error classes that are never retried; those of all layers together.
        /// Checks: W0215.
        /// Example: `["permission_denied", "quota_exceeded"]`
        pub(crate) never_retry: Option<Spanned<Vec<ErrorClass>>>,
        /// The most turns of a run.
        /// Example: `50`
        pub(crate) max_turns: Option<Spanned<NonZeroU32>>,
        /// What a run may spend: time, tokens, money, calls of models and of tools.
        /// Example: `{"time": "30m", "tokens": 200000}`
        pub(crate) run: Option<RunLimitsRule>,
    }
}

/// A list of error classes, or an edit of the inherited one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ClassList {
    /// Replaces the inherited list.
    Replace(ClassSet),
    /// Changes it: first removes, then adds.
    Edit { add: ClassSet, remove: ClassSet },
}

/// How many failures, or `never`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FailureThreshold(pub(crate) Option<NonZeroU32>);

record! {
    /// A change of the inherited list; what is removed goes first.
    struct ClassEdit {
        /// Classes to add.
        /// Example: `["execution_error"]`
        add: Vec<ErrorClass> = Vec::new(),
        /// Classes to remove.
        /// Example: `["timeout"]`
        remove: Vec<ErrorClass> = Vec::new(),
    }
}

record! {
    /// What a delay asked for by the server does to the next wait. Replaced whole.
    struct ServerDelayRule {
        /// How the hint and the computed delay are combined.
        mode: ServerDelayMode,
        /// How much longer than the computed delay `clamp` lets the wait be.
        /// Example: `5s`
        margin: Option<Spanned<Nanos>>,
        /// Lengthens the wait that is asked for by up to this fraction of it, so that not everybody comes back at once.
        // A whole fleet that reads 30 s returns at the same instant. Spread only lengthens, so nobody is too
        // early.
        spread: Option<OpenFraction>,
        /// Hints below this are raised to it.
        /// Checks: W0212.
        /// Example: `1s`
        min: Nanos = Nanos::ZERO,
        /// The longest hint that is honoured.
        /// Checks: W0212.
        /// Example: `2m`
        max: TimeBound = TimeBound::Unlimited,
        /// What happens above `max`.
        above_max: AboveMax = AboveMax::NextTarget,
        /// Where the server may say it; the first of these that says something counts, and what is left out does not.
        /// Example: `["header", "body"]`
        sources: WaitSources = WaitSources::ALL,
    }
}

plain_leaf! {
    bool => |value| Value::Bool(*value), ordered;
    AttemptLimit => |value| match value {
        AttemptLimit::Limited(count) => count.get().into(),
        AttemptLimit::Unlimited => "unlimited".into(),
    }, ordered;
    TimeBound => |value| match value {
        TimeBound::Within(length) => length.to_string().into(),
        TimeBound::Unlimited => "unlimited".into(),
    }, ordered;
    Nanos => |value| value.to_string().into(), ordered;
    ServerDelay => show_server_delay;
}

fn show_server_delay(value: &ServerDelay) -> Value {
    let mut shown = Map::new();
    let mut show = |key: &str, value: Value| drop(shown.insert(key.to_owned(), value));
    show(
        "mode",
        match value.mode {
            ServerDelayMode::Floor => "floor".into(),
            ServerDelayMode::Replace => "replace".into(),
            ServerDelayMode::Clamp => "clamp".into(),
            ServerDelayMode::Ignore => "ignore".into(),
        },
    );
    if value.mode == ServerDelayMode::Clamp {
        show("margin", value.margin.to_string().into());
    }
    if value.spread_ppm > 0 {
        show("spread", OpenFraction(value.spread_ppm).show());
    }
    show("min", value.min.to_string().into());
    show("max", TimeBound::show_value(&value.max));
    show(
        "above_max",
        match value.above_max {
            AboveMax::GiveUp => "give_up".into(),
            AboveMax::NextTarget => "next_target".into(),
            AboveMax::Clamp => "clamp".into(),
        },
    );
    if value.sources != WaitSources::ALL {
        show("sources", value.sources.iter().map(|source| Value::from(source_name(source))).collect());
    }
    Value::Object(shown)
}

const fn source_name(source: WaitSource) -> &'static str {
    match source {
        WaitSource::ShouldRetry => "should_retry",
        WaitSource::Header => "header",
        WaitSource::Body => "body",
        WaitSource::Reset => "reset",
        WaitSource::Row => "row",
    }
}

impl Decode for WaitSources {
    fn decode(node: &YamlNode, reader: &mut NodeReader<'_>) -> Option<Self> {
        let sources: Vec<WaitSource> = Vec::decode(node, reader)?;
        if sources.is_empty() {
            return reader.out_of_range(node, "must not be empty; `mode: ignore` looks at none");
        }
        Self::new(&sources).or_else(|| reader.out_of_range(node, "must name each source once"))
    }

    fn schema(generator: &mut SchemaGenerator) -> Schema {
        let source = generator.subschema_for::<SchemaOf<WaitSource>>();
        json_schema!({"type": "array", "items": source, "minItems": 1, "uniqueItems": true})
    }
}

impl LayerValue for ClassList {
    type Value = ClassSet;

    fn over(&self, below: Option<&ClassSet>) -> ClassSet {
        match *self {
            Self::Replace(classes) => classes,
            Self::Edit { add, remove } => {
                let below = below.copied().unwrap_or_default();
                // Removed first, so a class that is in both lists is in the result.
                remove.iter().fold(below, ClassSet::without).union(add)
            }
        }
    }

    /// More are those that have all of the others, and more.
    const ORDERED: bool = true;

    fn compare(a: &ClassSet, b: &ClassSet) -> Option<Ordering> {
        let both = a.union(*b);
        match (both == *a, both == *b) {
            (true, true) => Some(Ordering::Equal),
            (true, false) => Some(Ordering::Greater),
            (false, true) => Some(Ordering::Less),
            (false, false) => None,
        }
    }

    fn is_edit(&self) -> bool {
        matches!(self, Self::Edit { .. })
    }

    fn show(&self) -> Value {
        match self {
            Self::Replace(classes) => Self::show_value(classes),
            Self::Edit { add, remove } => {
                let edits = [("add", add), ("remove", remove)].into_iter();
                let edits = edits.filter(|(_, classes)| **classes != ClassSet::EMPTY);
                Value::Object(edits.map(|(edit, classes)| (edit.into(), Self::show_value(classes))).collect())
            }
        }
    }

    fn show_value(value: &ClassSet) -> Value {
        value.iter().map(|class| Value::from(class.name())).collect()
    }
}

impl TopLimits {
    /// Those that hold for retries.
    pub(crate) fn retry(&self) -> LimitsRule {
        LimitsRule {
            max_attempts: self.max_attempts,
            deadline: self.deadline,
            total_delay: self.total_delay,
            attempt_timeout: self.attempt_timeout,
            never_retry: self.never_retry.clone(),
        }
    }
}

impl Decode for AttemptLimit {
    fn decode(node: &YamlNode, reader: &mut NodeReader<'_>) -> Option<Self> {
        match &node.data {
            // Infinity is a word. In Temporal 0 means both unset and unlimited, so a default cannot be lifted
            // (sdk-python 1773).
            YamlData::Text(text) if &**text == "unlimited" => Some(Self::Unlimited),
            // Where retries are counted (Polly, Istio) a 0 is usual, so the message says how to write the same here.
            YamlData::Number(number) if number.as_u64() == Some(0) => {
                let message = format!("{} is out of range", node.describe());
                let problem = Diagnostic::error(Code::OUT_OF_RANGE, node.span, message);
                let problem = problem.label("must be at least 1");
                reader.report(problem.help(
                    "the first attempt counts too: `max_attempts: 1` makes no retry, and `enabled: false` switches retries off",
                ));
                None
            }
            YamlData::Number(_) => NonZeroU32::decode(node, reader).map(Self::Limited),
            _ => reader.wrong_type(node, "a whole number or `unlimited`"),
        }
    }

    fn schema(generator: &mut SchemaGenerator) -> Schema {
        let number = generator.subschema_for::<SchemaOf<NonZeroU32>>();
        json_schema!({"anyOf": [number, {"const": "unlimited"}]})
    }
}

impl Decode for TimeBound {
    fn decode(node: &YamlNode, reader: &mut NodeReader<'_>) -> Option<Self> {
        match &node.data {
            YamlData::Text(text) if &**text == "unlimited" => Some(Self::Unlimited),
            _ => Nanos::decode(node, reader).map(Self::Within),
        }
    }

    fn schema(generator: &mut SchemaGenerator) -> Schema {
        let duration = generator.subschema_for::<SchemaOf<Nanos>>();
        json_schema!({"anyOf": [duration, {"const": "unlimited"}]})
    }
}

impl Decode for FailureThreshold {
    fn decode(node: &YamlNode, reader: &mut NodeReader<'_>) -> Option<Self> {
        match &node.data {
            YamlData::Text(text) if &**text == "never" => Some(Self(None)),
            YamlData::Number(_) => NonZeroU32::decode(node, reader).map(|count| Self(Some(count))),
            _ => reader.wrong_type(node, "a whole number or `never`"),
        }
    }

    fn schema(generator: &mut SchemaGenerator) -> Schema {
        let number = generator.subschema_for::<SchemaOf<NonZeroU32>>();
        json_schema!({"anyOf": [number, {"const": "never"}]})
    }
}

impl LayerValue for FailureThreshold {
    type Value = Option<NonZeroU32>;
    const ORDERED: bool = true;

    /// `never` is more than any number.
    fn compare(a: &Self::Value, b: &Self::Value) -> Option<Ordering> {
        Some(match (a, b) {
            (Some(a), Some(b)) => a.cmp(b),
            (a, b) => a.is_none().cmp(&b.is_none()),
        })
    }

    fn over(&self, _: Option<&Self::Value>) -> Self::Value {
        self.0
    }

    fn show(&self) -> Value {
        Self::show_value(&self.0)
    }

    fn show_value(value: &Self::Value) -> Value {
        value.map_or_else(|| "never".into(), |count| count.get().into())
    }
}

impl Decode for ClassList {
    fn decode(node: &YamlNode, reader: &mut NodeReader<'_>) -> Option<Self> {
        match &node.data {
            YamlData::Map(_) => ClassEdit::decode(node, reader).map(|edit| Self::Edit {
                add: edit.add.into_iter().collect(),
                remove: edit.remove.into_iter().collect(),
            }),
            YamlData::List(_) => {
                Vec::decode(node, reader).map(|list| Self::Replace(list.into_iter().collect()))
            }
            _ => reader.wrong_type(node, "a list of error classes, or `{add: [...], remove: [...]}`"),
        }
    }

    fn schema(generator: &mut SchemaGenerator) -> Schema {
        let list = generator.subschema_for::<SchemaOf<Vec<ErrorClass>>>();
        let edit = generator.subschema_for::<SchemaOf<ClassEdit>>();
        json_schema!({"anyOf": [list, edit]})
    }
}

impl Decode for ServerDelay {
    const NAME: Option<&'static str> = ServerDelayRule::NAME;

    fn decode(node: &YamlNode, reader: &mut NodeReader<'_>) -> Option<Self> {
        let ServerDelayRule { mode, margin, spread, min, max, above_max, sources } =
            ServerDelayRule::decode(node, reader)?;
        let margin = match (mode, margin) {
            (ServerDelayMode::Clamp, Some(margin)) => margin.value,
            (ServerDelayMode::Clamp, None) => {
                reader.missing_field(node, "margin");
                return None;
            }
            // A value without effect is refused, because who wrote it expects one.
            (_, Some(margin)) => {
                let message = "`margin` is only for `mode: clamp`";
                let problem = Diagnostic::error(Code::CONTRADICTION, margin.span, message);
                reader.report(problem.help("remove it, or write `mode: clamp`"));
                return None;
            }
            (ServerDelayMode::Floor | ServerDelayMode::Replace | ServerDelayMode::Ignore, None) => {
                Nanos::ZERO
            }
        };
        let spread_ppm = spread.map_or(0, |spread| spread.0);
        Some(Self { mode, margin, spread_ppm, min, max, above_max, sources })
    }

    fn schema(generator: &mut SchemaGenerator) -> Schema {
        let mut schema = ServerDelayRule::schema(generator);
        schema.insert(
            "if".into(),
            json!({"type": "object", "properties": {"mode": {"const": "clamp"}}, "required": ["mode"]}),
        );
        schema.insert("then".into(), json!({"type": "object", "required": ["margin"]}));
        schema.insert("else".into(), json!({"type": "object", "properties": {"margin": false}}));
        schema
    }
}

impl Decode for ErrorClass {
    fn decode(node: &YamlNode, reader: &mut NodeReader<'_>) -> Option<Self> {
        let names = || Self::ALL.iter().map(|class| class.name()).collect::<Vec<_>>();
        match &node.data {
            YamlData::Text(text) => match Self::from_name(text) {
                Some(class) => Some(class),
                None => reader.choice(node.span, text, &names()).and_then(Self::from_name),
            },
            _ => reader.wrong_choice(node, &names()),
        }
    }

    fn schema(generator: &mut SchemaGenerator) -> Schema {
        generator.subschema_for::<Self>()
    }
}

/// Merges one more layer of a retry policy. What a layer says of one class takes precedence over what it says of all, and below what
/// any higher layer says of all.
pub(crate) fn fold_with_classes(
    merged: &mut RetryPolicy<Merged>,
    layer: &RetryPolicy<Document>,
    at: &LayerPosition,
) {
    // A class that is named for the first time begins with what has held for all classes so far.
    for (class, _) in &layer.by_class.own {
        if !merged.by_class.own.iter().any(|(known, _)| known == class) {
            let rules = inherited(merged);
            merged.by_class.own.push((*class, rules));
        }
    }
    merged.fold_fields(layer, at);
    let mut classes = core::mem::take(&mut merged.by_class.own);
    // What a higher layer says of all classes replaces what lower layers said of one, as with any more general key.
    for (class, rules) in &mut classes {
        rules.max_attempts.fold(&layer.max_attempts, at);
        rules.backoff.fold(&layer.backoff, at);
        rules.server_delay.fold(&layer.server_delay, at);
        // `by_class: null` takes back the rules of all classes, those of this layer excepted.
        if layer.by_class.is_unset() {
            *rules = inherited(merged);
        }
        if let Some(own) = layer.by_class.get(*class) {
            // The name says which class, so that `explain` can show where the value was written.
            let at = LayerPosition { name: format!("{} by_class.{class}", at.name).into(), ..at.clone() };
            fold_own(&mut rules.max_attempts, &own.max_attempts, &merged.max_attempts, &at);
            fold_own(&mut rules.backoff, &own.backoff, &merged.backoff, &at);
            fold_own(&mut rules.server_delay, &own.server_delay, &merged.server_delay, &at);
        }
    }
    merged.by_class.own = classes;
}

/// What holds for all, as the start of what holds for one class.
fn inherited(general: &RetryPolicy<Merged>) -> ClassRetry<Merged> {
    ClassRetry {
        max_attempts: general.max_attempts.inherited(),
        backoff: general.backoff.inherited(),
        server_delay: general.server_delay.inherited(),
    }
}

/// What a layer says of one class; `null` goes back to what holds for all.
fn fold_own<T: LayerValue>(
    trail: &mut ValueHistory<T>,
    said: &Patch<T>,
    general: &ValueHistory<T>,
    at: &LayerPosition,
) {
    match said {
        Patch::Null(_) => *trail = general.inherited(),
        Patch::Absent | Patch::Set(..) => trail.fold_own(said, at),
    }
}
