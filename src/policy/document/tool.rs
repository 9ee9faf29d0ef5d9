//! `tools:`, `models:` and `turn:`.

use core::cmp::Ordering;

use core::num::NonZeroU32;
use std::sync::Arc;

use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};

use super::context::TokensPolicy;

use super::retry::{ClassList, LimitsRule, RetryPolicy};

use super::approval::ApprovalPolicy;
use super::breaker::BreakerPolicy;
use super::calls::CallsPolicy;
use super::loop_guard::LoopGuardPolicy;
use super::pace::{ModelPace, ToolPace};
use super::result::ResultPolicy;
use super::targets::TargetsPolicy;
use super::text::{CelText, ScopeVariables, TemplateText, variables};
use super::timeouts::ModelTimeouts;

use crate::policy::decode::{
    Decode, NodeReader, ObjectSchema, Patch, Spanned, choice, decode_fields, record,
};
use crate::policy::document::layer::layer;
use crate::policy::form::{self, Block, Document, Effective, Form, OptionalBlock};
use crate::policy::layer_value::{LayerValue, plain_leaf};
use crate::policy::{
    AfterEffect, Approval, AttemptLimit, ContextWindow, CooldownScope, ModelPrice, TimeBound, Validator,
};
use crate::text::Span;
use crate::text::yaml::{YamlData, YamlNode};

variables! {
    /// What is known when arguments are refused.
    Refused = ["tool", "attempt", "max_attempts", "problems"];
    /// What is known when a tool has failed.
    Failed = ["tool", "error", "error_type", "attempts", "may_have_acted"];
    /// What is known when there is no such tool.
    Unknown = ["tool", "suggestions"];
    /// What is known when a reducer has refused a result.
    ReducerFailed = ["tool", "reducer", "error"];
    /// What is known when a run ended before a call did.
    Interrupted = ["tool"];
    /// What is known when a call never began.
    NotStarted = ["tool", "late", "beside"];
    /// What is known when a person did not agree to a call.
    NotApproved = ["tool", "answered"];
    /// What is known when it was found out that a run has acted.
    Acted = ["tool", "error", "error_type", "by"];
    /// What is known before a call.
    Call = ["args", "tool"], "size(args.query) >= 3", gate: true;
    /// What is known when a report is checked.
    Reported = ["output"], "size(output.answer) >= 3";
    /// What is known when the model gave text or nothing.
    Guidance = ["tool", "attempt", "max_attempts"];
    /// What is known in the final turn.
    LastTurn = ["tool", "turn", "max_turns", "reason"];
    /// A call in a final turn without a report.
    LastCall = ["tool", "turn", "max_turns", "reason"];
    /// What is known in the final turn of a run without a report.
    Summary = ["turn", "max_turns", "reason"];
    /// What is known when a run ends without a report.
    NoReport = ["reason", "turns", "max_turns", "attempts", "error_type", "last_error"];
}

/// Rules for the tools a selector names.
#[derive(Clone, Debug, Block)]
pub struct ToolPolicy<F: Form = Effective> {
    /// What a run of the tool does to the world. A tool that may have had side effects is run again only if that does no harm.
    /// Checks: W0207.
    #[key(looser = More)]
    pub effect: F::Of<Effect>,
    /// Checks of the arguments beyond the schema. Replaced whole.
    #[key(looser = Less)]
    pub validate: F::Of<CheckList<Call>>,
    /// What is decided when attempts are exhausted.
    /// Checks: W0209.
    pub on_exhausted: F::Of<OnExhausted>,
    /// Whether a person is asked before it runs.
    #[key(looser = Less)]
    pub approval: F::Of<Approval>,
    /// How many calls of it run at once, or `unlimited`.
    /// Example: `1`
    #[key(looser = More)]
    pub concurrency: F::Of<AttemptLimit>,
    /// What is done about a run that failed and may have had side effects. Replaced whole.
    pub on_uncertain_effect: F::Of<AfterEffect>,
    /// Retries of a call that failed, and corrections of a call that was refused.
    pub retry: F::In<RetryPolicy<F>>,
    /// When to stop calling it.
    pub breaker: F::In<BreakerPolicy<F>>,
    /// How often it is called.
    pub pace: F::In<ToolPace<F>>,
    /// What is done when the model repeats itself.
    pub loop_guard: F::In<LoopGuardPolicy<F>>,
    /// How much of its results a model is shown, and what becomes of the rest.
    pub result: F::In<ResultPolicy<F>>,
    /// The message to the model.
    pub messages: F::In<ToolMessages<F>>,
}

layer! {
    /// Rules for the tools a selector names.
    /// Example: `{"effect": "read_only", "retry": {"max_attempts": 4}}`
    pub(crate) struct ToolLayer of ToolPolicy {
        /// Decides between patterns that overlap: the higher wins, whichever is more specific. 0 if left out.
        priority: Patch<SelectorPriority> = Patch::Absent,
        /// Limits that no layer can loosen.
        limits: Option<LimitsRule> = None,
        /// Layers for single calls: those whose `when` holds, in this order.
        /// Checks: W0222.
        calls: Vec<CallRule> = Vec::new(),
    }
}

/// What the model learns about a tool call that did not succeed.
#[derive(Clone, Debug, Block)]
pub struct ToolMessages<F: Form = Effective> {
    /// The arguments were refused.
    /// Example: `{{ tool }} did not run: {{ problems }}. Call it again.`
    pub invalid_args: F::Of<TemplateText<Refused>>,
    /// The tool failed for good.
    /// Example: `{{ tool }} failed ({{ error_type }}): {{ error }}`
    pub failed: F::Of<TemplateText<Failed>>,
    /// Attempts are exhausted.
    /// Example: `{{ tool }} failed {{ attempts }} times: {{ error }}. Go another way.`
    pub exhausted: F::Of<TemplateText<Failed>>,
    /// There is no such tool.
    /// Example: `There is no tool {{ tool }}.`
    pub not_found: F::Of<TemplateText<Unknown>>,
    /// A reducer refused the result.
    /// Example: `It was not written down: {{ reducer }}: {{ error }}`
    pub reducer_error: F::Of<TemplateText<ReducerFailed>>,
    /// The run ended before the call did; it may have run.
    /// Example: `The run ended while {{ tool }} was called. It may have run.`
    pub interrupted: F::Of<TemplateText<Interrupted>>,
    /// The run ended before the call began, its deadline had passed (`late` is true), or the call of the tool `beside` in the same
    /// reply was refused; it has not run.
    /// Example: `{{ tool }} did not run: {% if late %}no time was left{% else %}the run ended{% endif %}.`
    pub not_started: F::Of<TemplateText<NotStarted>>,
    /// A person did not agree to the call, or (`answered` is false) nobody answered.
    /// Example: `{{ tool }} did not run: it was not approved.`
    pub not_approved: F::Of<TemplateText<NotApproved>>,
    /// The run failed, but has acted: `by` a tool or a person that was asked.
    /// Example: `{{ tool }} reported {{ error }}, but it did act.`
    pub acted: F::Of<TemplateText<Acted>>,
}

record! {
    /// A layer for single calls of a tool.
    #[part(true)]
    pub(crate) struct CallRule {
        /// Holds for the calls it is meant for.
        /// Checks: W0217, W0221, W0266.
        /// Example: `args.priority == "high"`
        pub(crate) when: Spanned<CelText<Call>>,
        /// Retries of these calls.
        pub(crate) retry: OptionalBlock<RetryPolicy<Document>>,
        /// Whether a person is asked before these calls run.
        pub(crate) approval: Patch<Approval>,
        /// Limits that no layer can loosen.
        pub(crate) limits: Option<LimitsRule>,
    }
}

record! {
    /// What a planner says about a single call.
    #[part(true)]
    pub(crate) struct PlannerRule {
        /// Retries of this call.
        pub(crate) retry: OptionalBlock<RetryPolicy<Document>>,
        /// Limits that no layer can loosen.
        pub(crate) limits: Option<LimitsRule>,
    }
}

/// Rules for the models a selector names.
#[derive(Clone, Debug, Block)]
pub struct ModelPolicy<F: Form = Effective> {
    /// What is decided when attempts are exhausted.
    pub on_exhausted: F::Of<OnExhausted>,
    /// The error classes after which no other model is asked in the turn.
    /// Example: `["auth_error", "quota_exceeded"]`
    #[key(looser = Less)]
    pub no_fallback_on: F::Of<ClassList>,
    /// How long the model is passed over by later turns once it was given up, or another one was called instead of
    /// it, for a failure of its own, if another one is there. A longer wait it asked for counts instead.
    /// Example: `5m`
    #[key(looser = Neither)]
    pub cooldown: F::Of<TimeBound>,
    /// Models of one provider are passed over together. `own`: this one alone.
    /// Example: `openai`
    pub provider: F::Of<CooldownScope>,
    /// How many tokens a request and its reply may have together. A model whose window is too small for a turn
    /// is passed over.
    /// Checks: W0246.
    pub context_window: F::Of<ContextWindow>,
    /// The window of a model that is unknown: neither the policy nor its server nor a catalogue of models.
    /// `unknown`: it is asked whatever the size.
    pub assumed_window: F::Of<ContextWindow>,
    /// How many tokens of the window are kept for the reply.
    /// Checks: W0246.
    /// Example: `8192`
    #[key(looser = Neither)]
    pub output_reserve: F::Of<NonZeroU32>,
    /// What its tokens cost, in US dollars per million; `unknown`: what the agent file, its file of models or the catalogue says.
    /// Checks: P0206.
    /// Example: `{"input": 2.50, "output": 10, "cache_read": 0.25}`
    pub price: F::Of<ModelPrice>,
    /// Retries of a model call that failed.
    pub retry: F::In<RetryPolicy<F>>,
    /// How long each step of one call may take.
    pub timeouts: F::In<ModelTimeouts<F>>,
    /// How often it is called.
    pub pace: F::In<ModelPace<F>>,
    /// How its tokens are counted.
    pub tokens: F::In<TokensPolicy<F>>,
}

layer! {
    /// Rules for the models a selector names.
    /// Example: `{"retry": {"max_attempts": 6, "deadline": "5m"}}`
    pub(crate) struct ModelLayer of ModelPolicy {
        /// Decides between patterns that overlap: the higher wins, whichever is more specific. 0 if left out.
        priority: Patch<SelectorPriority> = Patch::Absent,
        /// Limits that no layer can loosen.
        limits: Option<LimitsRule> = None,
    }
}

/// The loop of turns.
#[derive(Clone, Debug, Block)]
pub struct TurnPolicy<F: Form = Effective> {
    /// The most turns of a run; the last one allows only the final report.
    /// Example: `30`
    #[key(looser = More)]
    pub max_turns: F::Of<NonZeroU32>,
    /// The most time spent waiting for models in one turn, whichever of them is waited for.
    /// Example: `2m`
    #[key(looser = More)]
    pub total_delay: F::Of<TimeBound>,
    /// The most time spent waiting for models in a run, over all its turns.
    /// Example: `20m`
    #[key(looser = More)]
    pub run_delay: F::Of<TimeBound>,
    /// What plain text without tool calls is.
    #[key(looser = Less)]
    pub text_only: F::Of<TextOnly>,
    /// The most characters of feedback or guidance the model is shown at once.
    /// Example: `4000`
    #[key(looser = Neither)]
    pub max_feedback_chars: F::Of<NonZeroU32>,
    /// Whether arguments and reports that are not JSON are repaired where they can mean one thing only.
    #[key(looser = Neither)]
    pub repair_json: F::Of<bool>,
    /// Whether tool calls that a model wrote into its text are taken as calls, in the forms of the open models.
    /// Example: `false`
    #[key(looser = Neither)]
    pub text_tool_calls: F::Of<bool>,
    /// What is done about tool calls whose arguments cannot be read.
    pub malformed_calls: F::Of<MalformedCalls>,
    /// What is done when a model call fails after a part of its answer was streamed. That part is taken back.
    #[key(looser = Less)]
    pub after_partial: F::Of<AfterPartial>,
    /// Whether the next turn is the last one after a report was delivered and refused.
    /// Example: `true`
    #[key(looser = Neither)]
    pub final_turn_after_rejection: F::Of<bool>,
    /// Whether a text that holds as the report, though text is refused, is taken when the run would end without
    /// one.
    /// Example: `false`
    #[key(looser = Neither)]
    pub report_from_text: F::Of<bool>,
    /// What is done when the run is asked to stop.
    pub on_stop: F::Of<OnStop>,
    /// In which order the models are asked.
    pub targets: F::In<TargetsPolicy<F>>,
    /// What becomes of what the model learns about its replies.
    pub guidance: F::In<GuidancePolicy<F>>,
    /// The calls of one reply.
    pub calls: F::In<CallsPolicy<F>>,
    /// Questions to people.
    pub approval: F::In<ApprovalPolicy<F>>,
    /// The message to the model.
    pub messages: F::In<TurnMessages<F>>,
}

/// What becomes of what the model learns about replies that are not what was due.
#[derive(Clone, Debug, Block)]
pub struct GuidancePolicy<F: Form = Effective> {
    /// Whether it stays in the conversation, with the reply it is about. Otherwise it goes with the attempts of
    /// the turn only, and texts that were refused are left out.
    /// Example: `false`
    #[key(looser = Neither)]
    pub keep: F::Of<bool>,
    /// The most kinds of it that go with one attempt, if it does not stay.
    /// Example: `2`
    #[key(looser = Neither)]
    pub max: F::Of<NonZeroU32>,
}

/// What the model learns about a turn that brought nothing.
#[derive(Clone, Debug, Block)]
pub struct TurnMessages<F: Form = Effective> {
    /// Guidance after plain text.
    /// Example: `Call a tool, or deliver the report with {{ tool }}.`
    pub text_only: F::Of<TemplateText<Guidance>>,
    /// Guidance after an empty reply.
    /// Example: `Your reply was empty. Continue.`
    pub empty: F::Of<TemplateText<Guidance>>,
    /// Guidance after a reply that is reasoning only.
    /// Example: `You thought, but said nothing. Answer, or call a tool.`
    pub reasoning_only: F::Of<TemplateText<Guidance>>,
    /// The instruction of the final turn.
    /// Example: `This is the final turn. Deliver the report with {{ tool }} now.`
    pub final_turn: F::Of<TemplateText<LastTurn>>,
    /// A tool was called in the final turn of a run without a report.
    /// Example: `This was the final turn; {{ tool }} did not run.`
    pub no_tools: F::Of<TemplateText<LastCall>>,
    /// The instruction of the final turn of a run without a report.
    /// Example: `This is the final turn. Say what was done, and what was not.`
    pub summary: F::Of<TemplateText<Summary>>,
    /// The report there is when the model delivers none.
    /// Example: `There is no report: {{ reason }}.`
    pub no_report: F::Of<TemplateText<NoReport>>,
    /// A reducer refused a reply, or the news that the model failed.
    /// Example: `It was not written down: {{ reducer }}: {{ error }}`
    pub reducer_error: F::Of<TemplateText<ReducerFailed>>,
}

/// What decides between selectors that overlap, before their specificity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SelectorPriority(pub(crate) i32);

/// Rules of which a selector may have several.
pub(crate) trait PrioritizedRule: Decode {
    /// The block that holds them.
    const BLOCK: &'static str;

    /// What one of them says, by paths: the place, and the text.
    fn entries(&self) -> Vec<(String, Span, Value)>;

    /// What one of them says about the priority of the selector.
    fn priority(&self) -> Patch<SelectorPriority>;

    /// What one of them says for single calls, by paths that name the condition.
    fn conditional(&self) -> Vec<(String, Span, Value)> {
        Vec::new()
    }
}

impl PrioritizedRule for ToolLayer {
    const BLOCK: &'static str = "tools";

    fn entries(&self) -> Vec<(String, Span, Value)> {
        let mut found = Vec::new();
        form::entries(&self.rules, "", &mut found);
        found
    }

    fn priority(&self) -> Patch<SelectorPriority> {
        self.priority
    }

    fn conditional(&self) -> Vec<(String, Span, Value)> {
        let mut found = Vec::new();
        for call in &self.calls {
            // The condition is a part of the path, so rules with the same condition are compared with each other.
            let under = format!("calls[{}].retry", call.when.value.source());
            form::entries(&*call.retry, &under, &mut found);
            if let Some(span) = call.approval.span() {
                let shown = call.approval.as_set().map(LayerValue::show).unwrap_or_default();
                found.push((format!("calls[{}].approval", call.when.value.source()), span, shown));
            }
        }
        found
    }
}

impl PrioritizedRule for ModelLayer {
    const BLOCK: &'static str = "models";

    fn entries(&self) -> Vec<(String, Span, Value)> {
        let mut found = Vec::new();
        form::entries(&self.rules, "", &mut found);
        found
    }

    fn priority(&self) -> Patch<SelectorPriority> {
        self.priority
    }
}

impl Decode for SelectorPriority {
    fn decode(node: &YamlNode, reader: &mut NodeReader<'_>) -> Option<Self> {
        match &node.data {
            YamlData::Number(number) if !number.is_f64() => {
                let priority = number.as_i64().and_then(|number| i32::try_from(number).ok());
                priority.map(Self).or_else(|| reader.out_of_range(node, "must fit into 32 bits"))
            }
            _ => reader.wrong_type(node, "a whole number"),
        }
    }

    fn schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "integer", "minimum": i32::MIN, "maximum": i32::MAX})
    }
}

/// Checks in the order they are made.
#[derive(Clone, Debug, PartialEq)]
pub struct CheckList<V>(Arc<[Spanned<ValidatorRule<V>>]>);

/// A check, and what the model learns when it does not hold.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ValidatorRule<V> {
    name: String,
    check: CelText<V>,
    message: TemplateText<V>,
}

impl<V: ScopeVariables> Decode for ValidatorRule<V> {
    fn decode(node: &YamlNode, reader: &mut NodeReader<'_>) -> Option<Self> {
        let entries = reader.mapping(node)?;
        decode_fields!(node, entries, reader, "", Self { name: String, check: CelText<V>, message: TemplateText<V> })
    }

    fn schema(generator: &mut SchemaGenerator) -> Schema {
        let mut object = ObjectSchema::new(&["A check, and what the model learns when it does not hold."]);
        object.field::<String>(
            generator,
            "name",
            &["Its name in reports. Checks: W0225. Example: `query`"],
            false,
        );
        object.field::<CelText<V>>(generator, "check", &["Must hold. Checks: W0217."], false);
        let message = "What is wrong and what to do. Example: `The text is too short. Write a sentence.`";
        object.field::<TemplateText<V>>(generator, "message", &[message], false);
        object.finish()
    }
}

impl<V: ScopeVariables> Decode for CheckList<V> {
    fn decode(node: &YamlNode, reader: &mut NodeReader<'_>) -> Option<Self> {
        Vec::decode(node, reader).map(|checks| Self(checks.into()))
    }

    fn schema(generator: &mut SchemaGenerator) -> Schema {
        <Vec<Spanned<ValidatorRule<V>>>>::schema(generator)
    }
}

impl<V: ScopeVariables> LayerValue for CheckList<V> {
    type Value = Arc<[Validator]>;

    /// More are those that have all of the others, and more.
    const ORDERED: bool = true;

    fn compare(a: &Self::Value, b: &Self::Value) -> Option<Ordering> {
        // Checks have no order of strength, so only a list that has all of another's is tighter than it.
        let within = |a: &[Validator], b: &[Validator]| {
            a.iter().all(|check| b.iter().any(|other| check.says_the_same(other)))
        };
        match (within(a, b), within(b, a)) {
            (true, true) => Some(Ordering::Equal),
            (true, false) => Some(Ordering::Less),
            (false, true) => Some(Ordering::Greater),
            (false, false) => None,
        }
    }

    fn over(&self, _: Option<&Self::Value>) -> Self::Value {
        let validator = |check: &Spanned<ValidatorRule<V>>| Validator {
            name: check.value.name.clone(),
            check: check.value.check.expr.clone(),
            message: check.value.message.template(),
            span: check.span,
        };
        self.0.iter().map(validator).collect()
    }

    fn show(&self) -> Value {
        Self::show_value(&self.over(None))
    }

    fn show_value(value: &Self::Value) -> Value {
        let show = |check: &Validator| json!({"name": check.name, "check": check.check.as_str(), "message": check.message.as_str()});
        value.iter().map(show).collect()
    }
}

impl LayerValue for Effect {
    type Value = Self;
    const ORDERED: bool = true;

    /// More are those after which a run may be repeated sooner; it makes no difference of the last two.
    fn compare(a: &Self, b: &Self) -> Option<Ordering> {
        let rank = |effect: &Self| match effect {
            Self::NonIdempotent => 0,
            Self::Unknown => 1,
            Self::Idempotent | Self::ReadOnly => 2,
        };
        Some(rank(a).cmp(&rank(b)))
    }

    fn over(&self, _: Option<&Self>) -> Self {
        *self
    }

    fn show(&self) -> Value {
        Self::show_value(self)
    }

    fn show_value(value: &Self) -> Value {
        json!(value)
    }
}

// The distinctions of RFC 9110, section 9.2 (safe, idempotent), and of MCP's tool annotations (`readOnlyHint`,
// `idempotentHint`).
choice! {
    /// What a run of the tool does to the world.
    #[derive(Hash, serde::Serialize, serde::Deserialize, schemars::JsonSchema, unfazed_macros::Named)]
    #[serde(rename_all = "snake_case")]
    pub enum Effect {
        /// Nothing; it may run any number of times.
        ReadOnly = "read_only",
        /// The same whether it runs once or more often.
        Idempotent = "idempotent",
        /// Something new each time.
        NonIdempotent = "non_idempotent",
        /// It is not declared.
        Unknown = "unknown",
    }
}

impl Effect {
    /// The effect by the policy, or else by the tool's own declaration.
    // MCP servers send `readOnlyHint` and `idempotentHint` with their tools.
    pub(crate) fn or_declared(self, declared: Option<Self>) -> Self {
        match self {
            Self::Unknown => declared.unwrap_or(Self::Unknown),
            known => known,
        }
    }
}

choice! {
    /// What is decided when attempts are exhausted.
    #[derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
    #[serde(rename_all = "snake_case")]
    pub enum OnExhausted {
        /// The model is informed and continues.
        TellModel = "tell_model",
        /// One final turn, in which only the final report is allowed.
        FinalTurn = "final_turn",
        /// The run ends as failed, with the history of attempts.
        // weakincentives, "Retry exhaustion": a terminal error with the history of attempts, or the planner decides.
        Fail = "fail",
        /// The host's planner decides.
        AskPlanner = "ask_planner",
    }
}

choice! {
    /// What plain text without tool calls is.
    #[derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema, PartialOrd)]
    #[serde(rename_all = "snake_case")]
    pub enum TextOnly {
        /// The final answer, if it passes the output's rules.
        Accept = "accept",
        /// A mistake: the model is asked to use a tool or to report.
        // ai-agent, "Content Without Tools": the text does not enter the conversation, and a message asks for a
        // tool.
        Reject = "reject",
    }
}

choice! {
    /// What is done about tool calls whose arguments cannot be read.
    #[derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
    #[serde(rename_all = "snake_case")]
    pub enum MalformedCalls {
        /// They stay in the conversation, with a result that says what is wrong.
        Answer = "answer",
        /// They are taken out of the reply, and guidance says what is wrong. A reply that has no other call is a failed
        /// attempt of the turn.
        // ai-agent, "Invalid Tool Parameters": the call is dropped, and a message says what is wrong.
        Drop = "drop",
    }
}

#[expect(clippy::derivable_impls, reason = "`choice!` reads no mark of a default")]
impl Default for MalformedCalls {
    fn default() -> Self {
        Self::Answer
    }
}

impl MalformedCalls {
    /// Whether they stay in the conversation.
    #[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
    pub(crate) const fn is_answer(&self) -> bool {
        matches!(self, Self::Answer)
    }
}

choice! {
    /// What is done when a model call fails after a part of its answer was streamed.
    #[derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema, PartialOrd)]
    #[serde(rename_all = "snake_case")]
    pub enum AfterPartial {
        /// What for any failed call: it is tried again if the rules grant it.
        Retry = "retry",
        /// It is not tried again, at this model or another: who was shown that part is not shown a second answer.
        Fail = "fail",
    }
}

choice! {
    /// What is done when the run is asked to stop.
    #[derive(serde::Serialize)]
    #[serde(rename_all = "snake_case")]
    pub enum OnStop {
        /// It ends. Tools in flight are stopped.
        End = "end",
        /// What is in flight ends, nothing is waited for, and one final turn allows only the report.
        FinalTurn = "final_turn",
    }
}

plain_leaf! {
    AfterPartial => |value| json!(value), ordered;
    MalformedCalls => |value| json!(value);
    OnStop => |value| json!(value);
    OnExhausted => |value| json!(value);
    TextOnly => |value| json!(value), ordered;
    NonZeroU32 => |value| json!(value.get()), ordered;
    String => |value| json!(value);
}
