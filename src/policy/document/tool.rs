//! `tools:`, `models:` and `turn:`.

use core::num::NonZeroU32;
use std::sync::Arc;

use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};

use super::approval::{ApprovalLayer, MergedApproval};
use super::breaker::{BreakerLayer, MergedBreaker};
use super::calls::{CallsLayer, MergedCalls};
use super::context::{MergedTokens, TokensLayer};
use super::loop_guard::{LoopGuardLayer, MergedLoopGuard};
use super::result::{MergedResult, ResultLayer};
use super::retry::{Classes, LimitsRule, MergedRetry, RetryLayer};
use super::targets::{MergedTargets, TargetsLayer};
use super::text::{Cel, Text, Variables, variables};
use super::timeouts::{MergedTimeouts, TimeoutsLayer};
use crate::policy::decode::{Decode, Object, Patch, Reader, Spanned, choice_of, decode_fields, record};
use crate::policy::merge::{Block, Layer as _, Leaf, Trail, Under, layer, plain_leaf};
use crate::policy::yaml::{Data, Node};
use crate::policy::{
    AfterEffect, AfterPartial, Approval, Attempts, Bound, ContextWindow, Effect, GuidancePolicy,
    MalformedCalls, ModelPolicy, ModelPrice, OnExhausted, OnStop, Provider, Scope, Setting, Span, TextOnly,
    ToolMessages, ToolPolicy, TurnPolicy, Validator,
};

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
    /// What is known in the last turn.
    LastTurn = ["tool", "turn", "max_turns", "reason"];
    /// A call in a last turn without a report.
    LastCall = ["tool", "turn", "max_turns", "reason"];
    /// What is known in the last turn of a run without a report.
    Summary = ["turn", "max_turns", "reason"];
    /// What is known when a run ends without a report.
    NoReport = ["reason", "turns", "max_turns", "attempts", "error_type", "last_error"];
}

layer! {
    /// Rules for the tools a selector names.
    /// Example: `{"effect": "read_only", "retry": {"max_attempts": 4}}`
    pub(crate) struct ToolLayer => MergedTool {
        leaves {
            /// What a run of the tool does to the world. A tool that may have acted is run again only if that does no harm.
            effect: Effect,
            /// Checks of the arguments beyond the schema. Replaced whole.
            validate: Checks<Call>,
            /// What is decided when attempts are exhausted.
            on_exhausted: OnExhausted,
            /// Whether a person is asked before it runs.
            approval: Approval,
            /// How many calls of it run at once, or `unlimited`.
            /// Example: `1`
            concurrency: Attempts,
            /// What is done about a run that failed and may have acted. Replaced whole.
            after_effect: AfterEffect,
        }
        blocks {
            /// Retries of a call that failed, and corrections of a call that was refused.
            retry: RetryLayer => MergedRetry,
            /// When to stop calling it.
            breaker: BreakerLayer => MergedBreaker,
            /// What is done when the model repeats itself.
            loop_guard: LoopGuardLayer => MergedLoopGuard,
            /// How much of its results a model is shown, and what becomes of the rest.
            result: ResultLayer => MergedResult,
            /// What the model is told.
            messages: MessagesLayer => MergedMessages,
        }
        rest {
            /// Decides between patterns that overlap: the higher wins, whichever is narrower. 0 if left out.
            priority: Patch<Priority> = Patch::Absent,
            /// Limits that no layer can loosen.
            limits: Option<LimitsRule> = None,
            /// Layers for single calls: those whose `when` holds, in this order.
            calls: Vec<CallRule> = Vec::new(),
        }
    }
}

layer! {
    /// What the model is told about a tool call that did not succeed.
    pub(crate) struct MessagesLayer => MergedMessages {
        leaves {
            /// The arguments were refused.
            /// Example: `{{ tool }} did not run: {{ problems }}. Call it again.`
            invalid_args: Text<Refused>,
            /// The tool failed for good.
            /// Example: `{{ tool }} failed ({{ error_type }}): {{ error }}`
            failed: Text<Failed>,
            /// Attempts are exhausted.
            /// Example: `{{ tool }} failed {{ attempts }} times: {{ error }}. Go another way.`
            exhausted: Text<Failed>,
            /// There is no such tool.
            /// Example: `There is no tool {{ tool }}.`
            not_found: Text<Unknown>,
            /// A reducer refused the result.
            /// Example: `It was not written down: {{ reducer }}: {{ error }}`
            reducer_error: Text<ReducerFailed>,
            /// The run ended before the call did; it may have run.
            /// Example: `The run ended while {{ tool }} was called. It may have run.`
            interrupted: Text<Interrupted>,
            /// The run ended before the call began; it has not run.
            /// Example: `{{ tool }} did not run: the run ended.`
            not_started: Text<Interrupted>,
            /// A person did not agree to the call, or (`answered` is false) nobody answered.
            /// Example: `{{ tool }} did not run: it was not approved.`
            not_approved: Text<NotApproved>,
            /// The run failed, but has acted: `by` a tool or a person that was asked.
            /// Example: `{{ tool }} reported {{ error }}, but it did act.`
            acted: Text<Acted>,
        }
    }
}

record! {
    /// A layer for single calls of a tool.
    #[part(true)]
    pub(crate) struct CallRule {
        /// Holds for the calls it is meant for.
        /// Example: `args.priority == "high"`
        pub(crate) when: Spanned<Cel<Call>>,
        /// Retries of these calls.
        pub(crate) retry: Block<RetryLayer>,
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
        pub(crate) retry: Block<RetryLayer>,
        /// Limits that no layer can loosen.
        pub(crate) limits: Option<LimitsRule>,
    }
}

layer! {
    /// Rules for the models a selector names.
    /// Example: `{"retry": {"max_attempts": 6, "deadline": "5m"}}`
    pub(crate) struct ModelLayer => MergedModel {
        leaves {
            /// What is decided when attempts are exhausted.
            on_exhausted: OnExhausted,
            /// The error classes after which no other model is asked in the turn.
            /// Example: `["auth_error", "quota_exceeded"]`
            abort_on: Classes,
            /// How long the model is passed over by later turns once it was given up, or another one was called instead of
            /// it, for a failure of its own, if another one is there. A longer wait it asked for counts instead.
            /// Example: `5m`
            cool_down: Bound,
            /// Models of one provider are passed over together. `own`: this one alone.
            /// Example: `openai`
            provider: Provider,
            /// How many tokens a request and its reply may have together. A model whose window is too small for a turn
            /// is passed over.
            context_window: ContextWindow,
            /// The window of a model that nobody knows: neither the policy nor its server nor a catalogue of models.
            /// `unknown`: it is asked whatever the size.
            assumed_window: ContextWindow,
            /// How many tokens of the window are kept for the reply.
            /// Example: `8192`
            output_reserve: NonZeroU32,
            /// What its tokens cost, in US dollars per million; `unknown`: what the agent file or its file of models says.
            /// Example: `{"input": 2.50, "output": 10, "cache_read": 0.25}`
            price: ModelPrice,
        }
        blocks {
            /// Retries of a model call that failed.
            retry: RetryLayer => MergedRetry,
            /// How long each step of one call may take.
            timeouts: TimeoutsLayer => MergedTimeouts,
            /// How its tokens are counted.
            tokens: TokensLayer => MergedTokens,
        }
        rest {
            /// Decides between patterns that overlap: the higher wins, whichever is narrower. 0 if left out.
            priority: Patch<Priority> = Patch::Absent,
            /// Limits that no layer can loosen.
            limits: Option<LimitsRule> = None,
        }
    }
}

layer! {
    /// The loop of turns.
    pub(crate) struct TurnLayer => MergedTurn {
        leaves {
            /// The most turns of a run; the last one allows only the final report.
            /// Example: `30`
            max_turns: NonZeroU32,
            /// The most time spent waiting for models in one turn, whichever of them is waited for.
            /// Example: `2m`
            total_delay: Bound,
            /// The most time spent waiting for models in a run, over all its turns.
            /// Example: `20m`
            run_delay: Bound,
            /// What plain text without tool calls is.
            text_only: TextOnly,
            /// The most characters of feedback or guidance the model is shown at once.
            /// Example: `4000`
            feedback_chars: NonZeroU32,
            /// Whether arguments and reports that are not JSON are repaired where they can mean one thing only.
            repair_json: bool,
            /// Whether tool calls that a model wrote into its text are taken as calls.
            /// Example: `false`
            leaked_calls: bool,
            /// What is done about tool calls whose arguments cannot be read.
            malformed_calls: MalformedCalls,
            /// What is done when a model call fails after a part of its answer was streamed. That part is taken back.
            after_partial: AfterPartial,
            /// Whether the next turn is the last one after a report was delivered and refused.
            /// Example: `true`
            collapse: bool,
            /// Whether a text that holds as the report, though text is refused, is taken when the run would end without
            /// one.
            /// Example: `false`
            pending_report: bool,
            /// What is done when the run is asked to stop.
            on_stop: OnStop,
        }
        blocks {
            /// In which order the models are asked.
            targets: TargetsLayer => MergedTargets,
            /// What becomes of what the model is told about its replies.
            guidance: GuidanceLayer => MergedGuidance,
            /// The calls of one reply.
            calls: CallsLayer => MergedCalls,
            /// Questions to people.
            approval: ApprovalLayer => MergedApproval,
            /// What the model is told.
            messages: TurnMessagesLayer => MergedTurnMessages,
        }
    }
}

layer! {
    /// What becomes of what the model is told about replies that are not what was due.
    pub(crate) struct GuidanceLayer => MergedGuidance {
        leaves {
            /// Whether it stays in the conversation, with the reply it is about. Otherwise it goes with the attempts of
            /// the turn only, and texts that were refused are left out.
            /// Example: `false`
            keep: bool,
            /// The most kinds of it that go with one attempt, if it does not stay.
            /// Example: `2`
            most: NonZeroU32,
        }
    }
}

layer! {
    /// What the model is told about a turn that brought nothing.
    pub(crate) struct TurnMessagesLayer => MergedTurnMessages {
        leaves {
            /// Guidance after plain text.
            /// Example: `Call a tool, or deliver the report with {{ tool }}.`
            text_only: Text<Guidance>,
            /// Guidance after an empty reply.
            /// Example: `Your reply was empty. Go on.`
            empty: Text<Guidance>,
            /// Guidance after a reply that is reasoning only.
            /// Example: `You thought, but said nothing. Answer, or call a tool.`
            reasoning_only: Text<Guidance>,
            /// The instruction of the last turn.
            /// Example: `This is the last turn. Deliver the report with {{ tool }} now.`
            final_turn: Text<LastTurn>,
            /// A tool was called in the last turn of a run without a report.
            /// Example: `This was the last turn; {{ tool }} did not run.`
            no_tools: Text<LastCall>,
            /// The instruction of the last turn of a run without a report.
            /// Example: `This is the last turn. Say what was done, and what was not.`
            summary: Text<Summary>,
            /// The report there is when the model delivers none.
            /// Example: `There is no report: {{ reason }}.`
            no_report: Text<NoReport>,
            /// A reducer refused a reply, or the news that the model failed.
            /// Example: `It was not written down: {{ reducer }}: {{ error }}`
            reducer_error: Text<ReducerFailed>,
        }
    }
}

/// What decides between selectors that overlap, before their specificity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Priority(pub(crate) i32);

/// Rules of which a selector may have several.
pub(crate) trait Prioritized {
    /// The block that holds them.
    const BLOCK: &'static str;

    /// What one of them says about the priority of the selector.
    fn priority(&self) -> Patch<Priority>;

    /// What one of them says for single calls, by paths that name the condition.
    fn conditional(&self) -> Vec<(String, Span, Value)> {
        Vec::new()
    }
}

impl Prioritized for ToolLayer {
    const BLOCK: &'static str = "tools";

    fn priority(&self) -> Patch<Priority> {
        self.priority
    }

    fn conditional(&self) -> Vec<(String, Span, Value)> {
        let mut found = Vec::new();
        for call in &self.calls {
            let under = format!("calls[{}].retry", call.when.value.source());
            call.retry.entries(&Under::new(&under), &mut found);
            if let Some(span) = call.approval.span() {
                let shown = call.approval.as_set().map(Leaf::show).unwrap_or_default();
                found.push((format!("calls[{}].approval", call.when.value.source()), span, shown));
            }
        }
        found
    }
}

impl Prioritized for ModelLayer {
    const BLOCK: &'static str = "models";

    fn priority(&self) -> Patch<Priority> {
        self.priority
    }
}

impl Decode for Priority {
    fn decode(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        match &node.data {
            Data::Number(number) if !number.is_f64() => {
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
pub(crate) struct Checks<V>(Arc<[Spanned<ValidatorRule<V>>]>);

/// A check, and what the model is told when it does not hold.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ValidatorRule<V> {
    name: String,
    check: Cel<V>,
    message: Text<V>,
}

impl<V: Variables> Decode for ValidatorRule<V> {
    fn decode(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        let entries = reader.mapping(node)?;
        decode_fields!(node, entries, reader, "", Self { name: String, check: Cel<V>, message: Text<V> })
    }

    fn schema(generator: &mut SchemaGenerator) -> Schema {
        let mut object = Object::new(&["A check, and what the model is told when it does not hold."]);
        object.field::<String>(generator, "name", &["Its name in reports. Example: `query`"], false);
        object.field::<Cel<V>>(generator, "check", &["Must hold."], false);
        let message = "What is wrong and what to do. Example: `The text is too short. Write a sentence.`";
        object.field::<Text<V>>(generator, "message", &[message], false);
        object.finish()
    }
}

impl<V: Variables> Decode for Checks<V> {
    fn decode(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        Vec::decode(node, reader).map(|checks| Self(checks.into()))
    }

    fn schema(generator: &mut SchemaGenerator) -> Schema {
        <Vec<Spanned<ValidatorRule<V>>>>::schema(generator)
    }
}

impl<V: Variables + Clone + PartialEq> Leaf for Checks<V> {
    type Value = Self;

    fn over(&self, _: Option<&Self>) -> Self {
        self.clone()
    }

    fn show(&self) -> Value {
        let show = |check: &ValidatorRule<V>| json!({"name": check.name, "check": check.check.source(), "message": check.message.source()});
        self.0.iter().map(|check| show(&check.value)).collect()
    }

    fn show_value(value: &Self) -> Value {
        value.show()
    }
}

impl<V> Checks<V> {
    /// As the interpreter sees them.
    pub(crate) fn validators(&self, scope: Scope) -> Arc<[Validator]> {
        let validator = |check: &Spanned<ValidatorRule<V>>| Validator {
            name: check.value.name.clone(),
            check: check.value.check.expr.clone(),
            message: check.value.message.template(),
            origin: check.span.origin(scope),
        };
        self.0.iter().map(validator).collect()
    }
}

/// The checks of a trail as the interpreter sees them.
pub(super) fn validators<V: Variables + Clone + PartialEq>(
    trail: &Trail<Checks<V>>,
) -> Option<Setting<Arc<[Validator]>>> {
    let Setting { value, origin } = trail.setting()?;
    Some(Setting::new(value.validators(origin.scope), origin))
}

impl MergedTool {
    /// The plain values; `None` if the layers leave one open, which the built-in default does not.
    pub(crate) fn policy(&self) -> Option<ToolPolicy> {
        let Self {
            effect,
            validate,
            on_exhausted,
            approval,
            concurrency,
            after_effect,
            retry,
            breaker,
            loop_guard,
            result,
            messages,
        } = self;
        Some(ToolPolicy {
            retry: retry.policy()?,
            effect: effect.setting()?,
            breaker: breaker.policy()?,
            loop_guard: loop_guard.policy()?,
            result: result.policy()?,
            validators: validators(validate)?,
            on_exhausted: on_exhausted.setting()?,
            approval: approval.setting()?,
            concurrency: concurrency.setting()?,
            after_effect: after_effect.setting()?,
            messages: ToolMessages {
                invalid_args: messages.invalid_args.setting()?,
                failed: messages.failed.setting()?,
                exhausted: messages.exhausted.setting()?,
                not_found: messages.not_found.setting()?,
                reducer_error: messages.reducer_error.setting()?,
                interrupted: messages.interrupted.setting()?,
                not_started: messages.not_started.setting()?,
                not_approved: messages.not_approved.setting()?,
                acted: messages.acted.setting()?,
            },
        })
    }
}

impl MergedModel {
    /// The plain values, as for tools.
    pub(crate) fn policy(&self) -> Option<ModelPolicy> {
        Some(ModelPolicy {
            retry: self.retry.policy()?,
            timeouts: self.timeouts.policy()?,
            on_exhausted: self.on_exhausted.setting()?,
            abort_on: self.abort_on.setting()?,
            cool_down: self.cool_down.setting()?,
            provider: self.provider.setting()?,
            context_window: self.context_window.setting()?,
            assumed_window: self.assumed_window.setting()?,
            tokens: self.tokens.policy()?,
            output_reserve: self.output_reserve.setting()?,
            price: self.price.setting()?,
        })
    }
}

impl MergedTurn {
    /// The plain values, as for tools.
    pub(crate) fn policy(&self) -> Option<TurnPolicy> {
        Some(TurnPolicy {
            max_turns: self.max_turns.setting()?,
            total_delay: self.total_delay.setting()?,
            run_delay: self.run_delay.setting()?,
            text_only: self.text_only.setting()?,
            text_only_message: self.messages.text_only.setting()?,
            empty_message: self.messages.empty.setting()?,
            reasoning_only_message: self.messages.reasoning_only.setting()?,
            final_turn_message: self.messages.final_turn.setting()?,
            no_tools_message: self.messages.no_tools.setting()?,
            reducer_error_message: self.messages.reducer_error.setting()?,
            summary_message: self.messages.summary.setting()?,
            no_report_message: self.messages.no_report.setting()?,
            collapse: self.collapse.setting()?,
            pending_report: self.pending_report.setting()?,
            on_stop: self.on_stop.setting()?,
            feedback_chars: self.feedback_chars.setting()?,
            repair_json: self.repair_json.setting()?,
            leaked_calls: self.leaked_calls.setting()?,
            malformed_calls: self.malformed_calls.setting()?,
            after_partial: self.after_partial.setting()?,
            targets: self.targets.policy()?,
            calls: self.calls.policy()?,
            approval: self.approval.policy()?,
            guidance: GuidancePolicy {
                keep: self.guidance.keep.setting()?,
                most: self.guidance.most.setting()?,
            },
        })
    }
}

choice_of! {
    /// What a run of the tool does to the world.
    Effect {
        /// Nothing; it may run any number of times.
        ReadOnly = "read_only",
        /// The same whether it runs once or more often.
        Idempotent = "idempotent",
        /// Something new each time.
        NonIdempotent = "non_idempotent",
        /// Nobody said.
        Unknown = "unknown",
    }
}

choice_of! {
    /// What is decided when attempts are exhausted.
    OnExhausted {
        /// The model is told and goes on.
        TellModel = "tell_model",
        /// One last turn, in which only the final report is allowed.
        FinalTurn = "final_turn",
        /// The run ends as failed, with the history of attempts.
        Fail = "fail",
        /// The host's planner decides.
        AskPlanner = "ask_planner",
    }
}

choice_of! {
    /// What plain text without tool calls is.
    TextOnly {
        /// The final answer, if it passes the output's rules.
        Accept = "accept",
        /// A mistake: the model is told to use a tool or to report.
        Reject = "reject",
    }
}

choice_of! {
    /// What is done about tool calls whose arguments cannot be read.
    MalformedCalls {
        /// They stay in the conversation, with a result that says what is wrong.
        Answer = "answer",
        /// They are taken out of the reply, and guidance says what is wrong. A reply that has no other call is a failed
        /// attempt of the turn.
        Drop = "drop",
    }
}

choice_of! {
    /// What is done when a model call fails after a part of its answer was streamed.
    AfterPartial {
        /// What for any failed call: it is tried again if the rules grant it.
        Retry = "retry",
        /// It is not tried again, at this model or another: who was shown that part is not shown a second answer.
        Fail = "fail",
    }
}

choice_of! {
    /// What is done when the run is asked to stop.
    OnStop {
        /// It ends. Tools under way are stopped.
        End = "end",
        /// What is under way ends, nothing is waited for, and one last turn allows only the report.
        FinalTurn = "final_turn",
    }
}

plain_leaf! {
    AfterPartial => |value| json!(value),
    MalformedCalls => |value| json!(value),
    OnStop => |value| json!(value),
    Effect => |value| json!(value),
    OnExhausted => |value| json!(value),
    TextOnly => |value| json!(value),
    NonZeroU32 => |value| json!(value.get()),
    String => |value| json!(value),
}
