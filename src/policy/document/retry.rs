//! `retry:` and `limits:`, the same in every layer.

use crate::policy::form::{Block, Effective, Form};
use core::cmp::Ordering;
use core::num::NonZeroU32;

use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::{Map, Value, json};

use super::backoff::WrittenBackoff;
use super::by_class::{ByClass, fold_with_classes};
use super::fraction::Fraction;
use super::lasting::Lasting;
use super::run::RunLimitsRule;
use crate::policy::decode::{Decode, Described, Reader, Spanned, choice, record};
use crate::policy::merge::{Leaf, plain_leaf};
use crate::policy::yaml::{Data, Node};
use crate::policy::{
    Attempts, Bound, Budget, ClassSet, Code, Diagnostic, ErrorClass, ServerDelay, WaitSources,
};
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
    pub max_attempts: F::Of<Attempts>,
    /// The error classes that are retried.
    /// Checks: W0206, W0215, W0224.
    /// Example: `["rate_limit", "timeout"]`
    #[key(looser = More)]
    pub retry_on: F::Of<Classes>,
    /// The error classes that are never retried, whatever `retry_on` says.
    /// Checks: W0215, W0224.
    /// Example: `{"add": ["permission_denied"]}`
    #[key(looser = Less)]
    pub never_retry: F::Of<Classes>,
    /// The delay before each next attempt.
    /// Checks: W0260.
    pub backoff: F::Of<WrittenBackoff>,
    /// The delay before the model corrects arguments or a report that were refused; `backoff` is not for those.
    /// Checks: W0261.
    pub correction_backoff: F::Of<WrittenBackoff>,
    /// What a delay asked for by the other side (`Retry-After`) does to the next wait.
    /// Checks: W0210.
    pub server_delay: F::Of<ServerDelay>,
    /// From the first attempt on, no attempt starts after this.
    /// Checks: P0203, W0203, W0218.
    /// Example: `2m`
    #[key(looser = More)]
    pub deadline: F::Of<Lasting<Bound>>,
    /// What an attempt needs at least: none starts with less time than this left until a deadline.
    /// Example: `2s`
    #[key(looser = Less)]
    pub min_attempt_time: F::Of<Nanos>,
    /// The longest one attempt may take.
    /// Checks: W0210, W0218.
    /// Example: `20s`
    #[key(looser = More)]
    pub attempt_timeout: F::Of<Lasting<Bound>>,
    /// The most time spent waiting between the attempts of one call.
    /// Checks: W0203.
    /// Example: `1m`
    #[key(looser = More)]
    pub total_delay: F::Of<Bound>,
    /// How many retries there may be across calls.
    pub budget: F::Of<Budget>,
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
        pub(crate) deadline: Option<Spanned<Lasting<Nanos>>>,
        /// The most time spent waiting between the attempts of one call.
        /// Example: `2m`
        pub(crate) total_delay: Option<Spanned<Nanos>>,
        /// The longest one attempt may take.
        /// Example: `30s`
        pub(crate) attempt_timeout: Option<Spanned<Lasting<Nanos>>>,
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
        pub(crate) deadline: Option<Spanned<Lasting<Nanos>>>,
        /// The most time spent waiting between the attempts of one call.
        /// Example: `2m`
        pub(crate) total_delay: Option<Spanned<Nanos>>,
        /// The longest one attempt may take.
        /// Example: `30s`
        pub(crate) attempt_timeout: Option<Spanned<Lasting<Nanos>>>,
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
pub enum Classes {
    /// Replaces the inherited list.
    Replace(ClassSet),
    /// Changes it: first removes, then adds.
    Edit { add: ClassSet, remove: ClassSet },
}

/// How many failures, or `never`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Failures(pub(crate) Option<NonZeroU32>);

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
    /// What a delay asked for by the other side does to the next wait. Replaced whole.
    struct ServerDelayRule {
        /// How the hint and the computed delay are combined.
        mode: ServerDelayMode,
        /// How much longer than the computed delay `clamp` lets the wait be.
        /// Example: `5s`
        margin: Option<Spanned<Nanos>>,
        /// Lengthens the wait that is asked for by up to this fraction of it, so that not everybody comes back at once.
        spread: Option<Fraction>,
        /// Hints below this are raised to it.
        /// Checks: W0212.
        /// Example: `1s`
        min: Nanos = Nanos::ZERO,
        /// The longest hint that is honoured.
        /// Checks: W0212.
        /// Example: `2m`
        max: Bound = Bound::Unlimited,
        /// What happens above `max`.
        above_max: AboveMax = AboveMax::NextTarget,
        /// Where the server may say it; the first of these that says something counts, and what is left out does not.
        /// Example: `["header", "body"]`
        sources: WaitSources = WaitSources::ALL,
    }
}

choice! {
    /// Where a server says how long to wait.
    pub enum WaitSource {
        /// `x-should-retry`: `false` ends the attempts at this target; after `true` what would be `invalid_request`
        /// is `model_error`.
        ShouldRetry = "should_retry",
        /// `retry-after-ms`, `x-ms-retry-after-ms`, `retry-after`.
        Header = "header",
        /// A field of the body (`RetryInfo`, `retry_after`), or a number in its text: the longest of them.
        Body = "body",
        /// The end of a limit of which nothing is left (`x-ratelimit-reset*`, `anthropic-*-reset`, `RateLimit`).
        Reset = "reset",
        /// `wait` of the row of `errors` by which the failure is classified; never longer than `max`.
        Row = "row",
    }
}

choice! {
    /// How a hint and the computed delay are combined.
    pub enum ServerDelayMode {
        /// The longer of the two.
        Floor = "floor",
        /// The hint alone.
        Replace = "replace",
        /// The hint, but neither shorter than the computed delay nor longer than that and `margin`.
        Clamp = "clamp",
        /// The hint is not looked at.
        Ignore = "ignore",
    }
}

choice! {
    /// What happens when a hint is longer than `max`.
    pub enum AboveMax {
        /// Stop now; the hint is passed on.
        GiveUp = "give_up",
        /// Stop now, and ask the next model if there is one; for tools and reports as `give_up`.
        NextTarget = "next_target",
        /// Wait the maximum.
        Clamp = "clamp",
    }
}

plain_leaf! {
    bool => |value| Value::Bool(*value), ordered;
    Attempts => |value| match value {
        Attempts::Limited(count) => count.get().into(),
        Attempts::Unlimited => "unlimited".into(),
    }, ordered;
    Bound => |value| match value {
        Bound::Within(length) => length.to_string().into(),
        Bound::Unlimited => "unlimited".into(),
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
        show("spread", Fraction(value.spread_ppm).show());
    }
    show("min", value.min.to_string().into());
    show("max", Bound::show_value(&value.max));
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
    fn decode(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        let sources: Vec<WaitSource> = Vec::decode(node, reader)?;
        if sources.is_empty() {
            return reader.out_of_range(node, "must not be empty; `mode: ignore` looks at none");
        }
        Self::new(&sources).or_else(|| reader.out_of_range(node, "must name each source once"))
    }

    fn schema(generator: &mut SchemaGenerator) -> Schema {
        let source = generator.subschema_for::<Described<WaitSource>>();
        json_schema!({"type": "array", "items": source, "minItems": 1, "uniqueItems": true})
    }
}

impl Leaf for Classes {
    type Value = ClassSet;

    fn over(&self, below: Option<&ClassSet>) -> ClassSet {
        match *self {
            Self::Replace(classes) => classes,
            Self::Edit { add, remove } => {
                let below = below.copied().unwrap_or_default();
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

impl Decode for Attempts {
    fn decode(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        match &node.data {
            Data::Text(text) if &**text == "unlimited" => Some(Self::Unlimited),
            Data::Number(number) if number.as_u64() == Some(0) => {
                let message = format!("{} is out of range", node.describe());
                let problem = Diagnostic::error(Code::OUT_OF_RANGE, node.span, message);
                let problem = problem.label("must be at least 1");
                reader.report(problem.help(
                    "the first attempt counts too: `max_attempts: 1` makes no retry, and `enabled: false` switches retries off",
                ));
                None
            }
            Data::Number(_) => NonZeroU32::decode(node, reader).map(Self::Limited),
            _ => reader.wrong_type(node, "a whole number or `unlimited`"),
        }
    }

    fn schema(generator: &mut SchemaGenerator) -> Schema {
        let number = generator.subschema_for::<Described<NonZeroU32>>();
        json_schema!({"anyOf": [number, {"const": "unlimited"}]})
    }
}

impl Decode for Bound {
    fn decode(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        match &node.data {
            Data::Text(text) if &**text == "unlimited" => Some(Self::Unlimited),
            _ => Nanos::decode(node, reader).map(Self::Within),
        }
    }

    fn schema(generator: &mut SchemaGenerator) -> Schema {
        let duration = generator.subschema_for::<Described<Nanos>>();
        json_schema!({"anyOf": [duration, {"const": "unlimited"}]})
    }
}

impl Decode for Failures {
    fn decode(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        match &node.data {
            Data::Text(text) if &**text == "never" => Some(Self(None)),
            Data::Number(_) => NonZeroU32::decode(node, reader).map(|count| Self(Some(count))),
            _ => reader.wrong_type(node, "a whole number or `never`"),
        }
    }

    fn schema(generator: &mut SchemaGenerator) -> Schema {
        let number = generator.subschema_for::<Described<NonZeroU32>>();
        json_schema!({"anyOf": [number, {"const": "never"}]})
    }
}

impl Leaf for Failures {
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

impl Decode for Classes {
    fn decode(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        match &node.data {
            Data::Map(_) => ClassEdit::decode(node, reader).map(|edit| Self::Edit {
                add: edit.add.into_iter().collect(),
                remove: edit.remove.into_iter().collect(),
            }),
            Data::List(_) => Vec::decode(node, reader).map(|list| Self::Replace(list.into_iter().collect())),
            _ => reader.wrong_type(node, "a list of error classes, or `{add: [...], remove: [...]}`"),
        }
    }

    fn schema(generator: &mut SchemaGenerator) -> Schema {
        let list = generator.subschema_for::<Described<Vec<ErrorClass>>>();
        let edit = generator.subschema_for::<Described<ClassEdit>>();
        json_schema!({"anyOf": [list, edit]})
    }
}

impl Decode for ServerDelay {
    const NAME: Option<&'static str> = ServerDelayRule::NAME;

    fn decode(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        let ServerDelayRule { mode, margin, spread, min, max, above_max, sources } =
            ServerDelayRule::decode(node, reader)?;
        let margin = match (mode, margin) {
            (ServerDelayMode::Clamp, Some(margin)) => margin.value,
            (ServerDelayMode::Clamp, None) => {
                reader.missing_field(node, "margin");
                return None;
            }
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
    fn decode(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        let names = || Self::ALL.iter().map(|class| class.name()).collect::<Vec<_>>();
        match &node.data {
            Data::Text(text) => match Self::from_name(text) {
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
