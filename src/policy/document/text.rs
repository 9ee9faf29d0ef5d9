//! Text with a meaning of its own: expressions, templates, durations, selectors.

use core::fmt;
use core::marker::PhantomData;
use std::sync::Arc;

use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};

use crate::policy::decode::{Decode, NodeReader, SchemaOf, Spanned, list};
use crate::policy::layer_value::LayerValue;
use crate::policy::{Selector, SelectorError};
use crate::text::did_you_mean::closest;
use crate::text::duration::duration_schema;
use crate::text::template::{SESSION, place};
use crate::text::yaml::{YamlData, YamlNode};
use crate::text::{Code, Diagnostic, Expr, Span, Template, excerpt, parse_duration};
use crate::time::Nanos;

/// What a template takes; it is kept as text until it is rendered.
const TEMPLATE_COST: usize = 10;
/// What it takes to read an expression, besides its nodes.
const EXPRESSION_COST: usize = 3;
/// What an expression that is refused takes: it is not kept, but may have taken long to look at.
const REFUSED_COST: usize = 2_500;
/// The same for a template that is refused.
const REFUSED_TEMPLATE_COST: usize = 500;

/// What is known of feedback.
const FEEDBACK: [&str; 3] = ["latest", "all", "tools"];

/// The variables an expression or template may use.
pub trait ScopeVariables: Clone + fmt::Debug + PartialEq + 'static {
    /// Their names.
    const NAMES: &'static [&'static str];
    /// An expression over them that may be shown; empty: each field shows its own.
    const EXAMPLE: &'static str = "";
    /// Whether an expression over them is the condition of a gate.
    const GATE: bool = false;
}

macro_rules! variables {
    ($($(#[doc = $doc:literal])+ $name:ident = [$($variable:literal),+] $(, $example:literal)? $(, gate: $gate:literal)?;)+) => {$(
        $(#[doc = $doc])+
        #[derive(Clone, Copy, Debug, PartialEq)]
        #[allow(unreachable_pub, reason = "some are named by the keys of public blocks")]
        pub enum $name {}

        impl $crate::policy::document::text::ScopeVariables for $name {
            const NAMES: &'static [&'static str] = &[$($variable),+];
            $(const EXAMPLE: &'static str = $example;)?
            $(const GATE: bool = $gate;)?
        }
    )+};
}

pub(crate) use variables;

/// An expression in CEL over those variables.
pub(crate) struct CelText<V> {
    pub(crate) expr: Expr,
    source: Arc<str>,
    variables: PhantomData<fn() -> V>,
}

/// A template over those variables.
pub struct TemplateText<V> {
    template: Template,
    source: Arc<str>,
    variables: PhantomData<fn() -> V>,
}

impl<V: ScopeVariables> Decode for CelText<V> {
    fn decode(node: &YamlNode, reader: &mut NodeReader<'_>) -> Option<Self> {
        let source = string(node, reader, "an expression in a string")?;
        // A file may hold any number of expressions, and parsing each costs more than reading its text.
        if reader.is_spent() {
            return None;
        }
        let parsed =
            // A gate that has no value must not open, so its conditions are held to stricter rules.
            if V::GATE { Expr::parse_gate(&source, V::NAMES) } else { Expr::parse(&source, V::NAMES) };
        match parsed {
            Ok(expr) => {
                reader.spend(expr.cost().saturating_add(EXPRESSION_COST), node.span)?;
                Some(Self { expr, source, variables: PhantomData })
            }
            Err(error) => {
                let span = reader.inside(node.span, &source, error.at);
                // A wrong operator (`=` for `==`) has one meaning only, so its repair is certain.
                let slip = error.message.ends_with("is not an operator");
                let meant = error.help.as_deref().and_then(|help| {
                    help.strip_prefix("did you mean `")?
                        .strip_suffix("`?")
                        .filter(|_| slip)
                        .map(str::to_owned)
                });
                let written = error.message.split('`').nth(1).unwrap_or_default();
                // The repair replaces what stands there, and that must be the operator itself, not an escaped form
                // of it.
                let exact = reader.text(span) == written;
                let problem = Diagnostic::error(Code::EXPRESSION, span, &*error.message);
                reader.report(match meant.filter(|_| exact) {
                    Some(meant) => problem.label(format!("did you mean `{meant}`?")).fix_as(span, meant),
                    None => problem.help_if(error.help),
                });
                // A file of broken expressions must not take longer than one of good ones.
                reader.spend(REFUSED_COST, node.span)?;
                None
            }
        }
    }

    fn schema(_: &mut SchemaGenerator) -> Schema {
        let description = format!("An expression in CEL over {}.", list(V::NAMES));
        let mut schema = json_schema!({"type": "string", "description": description, "x-checks": ["P0107"]});
        if !V::EXAMPLE.is_empty() {
            schema.insert("examples".into(), json!([V::EXAMPLE]));
        }
        schema
    }
}

impl<V: ScopeVariables> Decode for TemplateText<V> {
    fn decode(node: &YamlNode, reader: &mut NodeReader<'_>) -> Option<Self> {
        let source = string(node, reader, "a template in a string")?;
        if reader.is_shipped() {
            return Some(Self { template: Template::shipped(&source), source, variables: PhantomData });
        }
        reader.spend(TEMPLATE_COST, node.span)?;
        // Messages are shown to models and written to logs, so a key in one would leave the process.
        reader.refuse_secrets(node);
        match Template::parse(&source, &known::<V>()) {
            Ok(template) => {
                session(&template, &source, node, reader)?;
                Some(Self { template, source, variables: PhantomData })
            }
            Err(error) => {
                let span = reader.inside(node.span, &source, error.at);
                let problem = Diagnostic::error(Code::TEMPLATE, span, error.message);
                reader.report(problem.help_if(error.help));
                reader.spend(REFUSED_TEMPLATE_COST, node.span)?;
                None
            }
        }
    }

    fn schema(_: &mut SchemaGenerator) -> Schema {
        let description = format!("A template over {}.", list(&known::<V>()));
        let of_session: &[&str] = if V::EXAMPLE.is_empty() { &["P0201"] } else { &[] };
        let checks = [&["P0108"], of_session].concat();
        json_schema!({"type": "string", "description": description, "x-checks": checks})
    }
}

/// The variables of a text. One that stands beside an expression is made of those of the expression alone.
fn known<V: ScopeVariables>() -> Vec<&'static str> {
    let session = SESSION.into_iter().filter(|_| V::EXAMPLE.is_empty());
    V::NAMES.iter().copied().chain(session).collect()
}

/// What is read of the session: fields that feedback does not have are a mistake. Slices are known later.
fn session(template: &Template, source: &str, node: &YamlNode, reader: &mut NodeReader<'_>) -> Option<()> {
    for path in template.session() {
        let mut words = path.split('.');
        let (Some(of), Some(name)) = (words.next(), words.next()) else { continue };
        let span = reader.inside(node.span, source, place(source, path));
        if of == "slices" {
            reader.reads_slice(name, span);
        } else if !FEEDBACK.contains(&name) {
            let problem = Diagnostic::error(Code::TEMPLATE, span, format!("`feedback` has no `{name}`"));
            let meant = closest(name, FEEDBACK).map(|meant| format!("did you mean `feedback.{meant}`?"));
            reader.report(problem.help(meant.unwrap_or_else(|| format!("it has {}", list(&FEEDBACK)))));
            return None;
        }
    }
    Some(())
}

impl<V: ScopeVariables> LayerValue for TemplateText<V> {
    type Value = Template;

    fn over(&self, _: Option<&Template>) -> Template {
        self.template.clone()
    }

    fn show(&self) -> Value {
        Value::from(&*self.source)
    }

    fn show_value(value: &Template) -> Value {
        Value::from(value.as_str())
    }
}

impl<V> TemplateText<V> {
    pub(crate) fn template(&self) -> Template {
        self.template.clone()
    }
}

impl<V> CelText<V> {
    pub(crate) fn source(&self) -> &str {
        &self.source
    }
}

impl Decode for Nanos {
    const NAME: Option<&'static str> = Some("Duration");

    fn decode(node: &YamlNode, reader: &mut NodeReader<'_>) -> Option<Self> {
        let YamlData::Text(text) = &node.data else {
            if let YamlData::Number(number) = &node.data {
                let problem = Diagnostic::error(Code::DURATION, node.span, format!("`{number}` has no unit"));
                let problem = match number.as_u64() {
                    // Some systems count in seconds and some in milliseconds, so neither is assumed.
                    Some(number) => problem.help(format!("write a unit: `{number}s` or `{number}ms`")),
                    None => problem.help("write a duration such as `500ms` or `1m30s`"),
                };
                reader.report(problem);
                return None;
            }
            return reader.wrong_type(node, "a duration such as `500ms` or `1m30s`");
        };
        match parse_duration(text) {
            Ok(duration) => Some(duration),
            Err(error) => {
                let problem = Diagnostic::error(Code::DURATION, node.span, error.message);
                reader.report(problem.help_if(error.help));
                None
            }
        }
    }

    fn schema(_: &mut SchemaGenerator) -> Schema {
        let mut schema = duration_schema();
        let more = json!({
            "description": "A length of time: numbers, each with a unit (ns, us, ms, s, m, h, d). At most 366d.",
            "examples": ["500ms", "30s", "1m30s"],
            "x-unit": "With a unit: ms, s, m, h, d.",
            "x-checks": ["P0106"],
        });
        if let Value::Object(more) = more {
            schema.extend(more);
        }
        schema.into()
    }
}

/// The most selectors of each kind, of all files together.
pub(crate) const MOST_SELECTORS: usize = 10_000;

/// Values by selector, in the order of the text.
#[derive(Clone, Debug)]
pub(crate) struct SelectorMap<T>(pub(crate) Vec<(Spanned<Selector>, Arc<T>)>);

impl<T> Default for SelectorMap<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T: Decode> Decode for SelectorMap<T> {
    fn decode(node: &YamlNode, reader: &mut NodeReader<'_>) -> Option<Self> {
        let mut selected = Vec::new();
        let entries = reader.mapping(node)?;
        if let Some((key, _)) = entries.get(MOST_SELECTORS) {
            reader.report(too_many_selectors(key.span));
        }
        for (key, value) in entries.iter().take(MOST_SELECTORS) {
            reader.check_name(key);
            let selector = match Selector::parse(&key.name) {
                Ok(selector) => {
                    // The rules below it are read all the same, so that their mistakes are reported too.
                    if let Some(error) = never(T::NAME, &selector) {
                        let problem = Diagnostic::error(Code::SELECTOR, key.span, error.message);
                        reader.report(problem.help_if(error.help));
                    }
                    Some(selector)
                }
                Err(error) => {
                    let problem = Diagnostic::error(Code::SELECTOR, key.span, error.message);
                    reader.report(problem.help_if(error.help));
                    None
                }
            };
            let rules = T::NAME.unwrap_or_default();
            let within = reader.under(rules, selector.clone());
            let rule = reader.below(within, |reader| {
                // `tools: {retry: …}` instead of `tools: {search: {retry: …}}` is the usual slip, and would make a
                // tool named `retry`.
                if is_too_shallow(&key.name, value) {
                    too_shallow(&key.name, value, rules, reader);
                    reader.lose(rules);
                    return None;
                }
                let rule = reader.value::<T>(value);
                // Rules under a selector that cannot be read may be for any name.
                if rule.is_none() || selector.is_none() {
                    reader.lose(rules);
                }
                rule
            });
            if let Some((value, rule)) = selector.zip(rule) {
                selected.push((Spanned { value, span: key.span }, Arc::new(rule)));
            }
        }
        Some(Self(selected))
    }

    fn schema(generator: &mut SchemaGenerator) -> Schema {
        let values = generator.subschema_for::<SchemaOf<T>>();
        // The schema refuses what `Selector` refuses, so editors mark it while it is typed.
        let (title, refused, example) = match T::NAME {
            Some(MODELS) => ("model", r"\*\*|[|,;?{}^$\\]", "gpt-*"),
            _ => ("tool", r#"\*\*|[|,;?!\[\]{}()<>^$+=&%\\"'`\s]"#, "search*"),
        };
        json_schema!({
            "type": "object",
            "propertyNames": {
                "title": title,
                "description": format!("The name of a {title}, or a pattern with `*` such as `{example}`."),
                "minLength": 1,
                "maxLength": 256,
                "not": {"pattern": refused},
                "examples": [example],
            },
            "additionalProperties": values,
        })
    }
}

/// The keys of rules for a tool or a model.
const RULE_KEYS: [&str; 22] = [
    "effect",
    "validate",
    "on_exhausted",
    "approval",
    "concurrency",
    "on_uncertain_effect",
    "retry",
    "breaker",
    "loop_guard",
    "result",
    "messages",
    "priority",
    "limits",
    "calls",
    "timeouts",
    "context_window",
    "provider",
    "tokens",
    "no_fallback_on",
    "cooldown",
    "assumed_window",
    "output_reserve",
];

/// Whether what stands there as the name of a tool or model is one of the keys of its rules: they are no mapping, or one of
/// other keys.
fn is_too_shallow(name: &str, rules: &YamlNode) -> bool {
    match &rules.data {
        YamlData::Reported | YamlData::Null => false,
        YamlData::Map(entries) => {
            let known = |key: &str| RULE_KEYS.contains(&key);
            // A tool may be named like a key, as long as its rules have keys of rules.
            known(name) && !entries.is_empty() && !entries.iter().any(|(key, _)| known(&key.name))
        }
        _ => true,
    }
}

/// Reports a key that is one level too shallow.
fn too_shallow(name: &str, value: &YamlNode, rules: &str, reader: &mut NodeReader<'_>) {
    let what = if rules == MODELS { "model" } else { "tool" };
    if crate::text::yaml::pair(reader.text(value.span)).is_some() {
        reader.wrong_type::<()>(value, "a mapping");
        return;
    }
    let name = excerpt(name, 60);
    let but = match &value.data {
        YamlData::Map(_) => String::new(),
        _ => format!(", whose rules are a mapping and not {}", value.describe()),
    };
    let message = format!("`{name}` is read as the name of a {what} here{but}");
    let span = if but.is_empty() {
        Span { end: value.span.start.saturating_add(1), ..value.span }
    } else {
        value.span
    };
    let problem = Diagnostic::error(Code::WRONG_TYPE, span, message);
    reader.report(problem.help(format!(
        "`{name}` is one level too shallow: indent it below the name of its {what}, or write it inside its braces"
    )));
}

/// The type of the rules for models.
const MODELS: &str = "ModelLayer";

/// Why nothing has a name that the selector of such rules selects.
fn never(rules: Option<&str>, selector: &Selector) -> Option<SelectorError> {
    if rules == Some(MODELS) { selector.never_a_model() } else { selector.never_a_tool() }
}

fn string(node: &YamlNode, reader: &mut NodeReader<'_>, expected: &str) -> Option<Arc<str>> {
    match &node.data {
        YamlData::Text(_) if reader.is_ambiguous(node) => None,
        YamlData::Text(text) => Some(Arc::clone(text)),
        _ => reader.wrong_type(node, expected),
    }
}

impl<V> Clone for CelText<V> {
    fn clone(&self) -> Self {
        Self { expr: self.expr.clone(), source: Arc::clone(&self.source), variables: PhantomData }
    }
}

impl<V> Clone for TemplateText<V> {
    fn clone(&self) -> Self {
        Self { template: self.template.clone(), source: Arc::clone(&self.source), variables: PhantomData }
    }
}

impl<V> PartialEq for CelText<V> {
    fn eq(&self, other: &Self) -> bool {
        self.source == other.source
    }
}

impl<V> PartialEq for TemplateText<V> {
    fn eq(&self, other: &Self) -> bool {
        self.source == other.source
    }
}

impl<V> fmt::Debug for CelText<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.source, f)
    }
}

impl<V> fmt::Debug for TemplateText<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.source, f)
    }
}

/// Says that there are too many selectors.
pub(crate) fn too_many_selectors(span: Span) -> Diagnostic {
    let message = format!("more than {MOST_SELECTORS} selectors");
    Diagnostic::error(Code::TOO_LARGE, span, message).help("use fewer, wider patterns with `*`")
}
