//! What a case expects.

use indexmap::IndexMap;
use schemars::{Schema, SchemaGenerator};

use super::pattern::{
    CallFields, DirectiveFields, EventFields, ExpectedValue, FeedbackFields, HappeningFields, MessageFields,
    RecordPattern, RefusedFields, WaitFields,
};
use crate::policy::decode::{Decode, NodeReader, OneOrMany, Spanned, choice, record};
use crate::text::yaml::YamlNode;
use crate::text::{Code, Diagnostic, Span};
use crate::time::Nanos;

/// What a case expects; `None` if it cannot be read. What is wrong with it has been reported, and does not hide what is
/// wrong with the rest of the case.
#[derive(Clone, Debug)]
pub(crate) struct CaseExpectations(pub(crate) Option<ExpectRule>);

impl Decode for CaseExpectations {
    const NAME: Option<&'static str> = ExpectRule::NAME;

    fn decode(node: &YamlNode, reader: &mut NodeReader<'_>) -> Option<Self> {
        let rule = ExpectRule::decode(node, reader);
        let problems = rule.iter().flat_map(|rule| rule.problems(node.span));
        problems.for_each(|problem| reader.report(problem));
        Some(Self(rule))
    }

    fn schema(generator: &mut SchemaGenerator) -> Schema {
        ExpectRule::schema(generator)
    }
}

record! {
    /// What is expected. Lists of `calls`, `waits`, `refused` and `feedback` are complete; of `messages`, `directives` and
    /// `events` those that matter are named, in their order. Records name the fields that matter.
    pub(crate) struct ExpectRule {
        /// How often tools run, or, in a run with a scripted model, how often models are called.
        /// Example: `3`
        pub(crate) attempts: Option<Spanned<u32>>,
        /// Every wait, in order: exact durations.
        /// Example: `["200ms", "400ms"]`
        pub(crate) delays: Option<Spanned<Vec<Nanos>>>,
        /// Every wait, in order, as a record or by its subject.
        /// Example: `[{"subject": "tool search", "delay": "200ms"}]`
        pub(crate) waits: Option<Spanned<Vec<RecordPattern<WaitFields>>>>,
        /// Every run of a tool, in order: its name, `name x3` for three runs, or a record.
        /// Example: `["search", {"tool": "search", "attempt": 2}]`
        pub(crate) calls: Option<Spanned<Vec<RecordPattern<CallFields>>>>,
        /// Every call that is refused before it runs, in order.
        /// Example: `[{"tool": "search", "error_type": "invalid_args"}]`
        pub(crate) refused: Option<Spanned<Vec<RecordPattern<RefusedFields>>>>,
        /// Every record of feedback, in order.
        /// Example: `[{"error_type": "timeout", "attempt": 1}]`
        pub(crate) feedback: Option<Spanned<Vec<RecordPattern<FeedbackFields>>>>,
        /// Pieces of the message to the model, in order.
        /// Example: `["did not run", "Go another way"]`
        pub(crate) told: Option<Spanned<OneOrMany<String>>>,
        /// Messages of the conversation, in order.
        /// Example: `[{"role": "tool", "error": true}]`
        pub(crate) messages: Option<Spanned<Vec<RecordPattern<MessageFields>>>>,
        /// Directives, in order.
        /// Example: `["wait", {"directive": "run_tool", "attempt": 2}]`
        pub(crate) directives: Option<Spanned<Vec<RecordPattern<DirectiveFields>>>>,
        /// Events, in order.
        /// Example: `["timer_fired"]`
        pub(crate) events: Option<Spanned<Vec<RecordPattern<EventFields>>>>,
        /// The slices at the end, by name.
        /// Example: `{"recent_failures": []}`
        pub(crate) slices: Option<Spanned<ExpectedValue>>,
        /// The state at the end, as far as it matters.
        /// Example: `{"turn": 2}`
        pub(crate) state: Option<Spanned<ExpectedValue>>,
        /// How it ends.
        /// Example: `ok`
        pub(crate) r#final: Option<Spanned<ExpectedEnd>>,
        /// Why it ends so: the reason that no further attempt is made, or that the run was stopped for.
        /// Example: `attempts`
        pub(crate) reason: Option<Spanned<String>>,
        /// The report, or the answer.
        /// Example: `{"price": 12.5}`
        pub(crate) output: Option<Spanned<ExpectedValue>>,
        /// How many turns there are.
        /// Example: `2`
        pub(crate) turns: Option<Spanned<u32>>,
        /// How long it takes from start to end.
        /// Example: `600ms`
        pub(crate) elapsed: Option<Spanned<Nanos>>,
        /// Which rule of which place decides: the path of a value, and `FILE`, `FILE:LINE`, `FILE:LINE:COLUMN`, a layer
        /// (`builtin`, `global`, `tool`, `model`, `call`, `planner`, `limit`), or `LAYER@FILE`.
        /// Example: `{"retry.max_attempts": "policy.yaml:4"}`
        pub(crate) why: Option<Spanned<IndexMap<String, OneOrMany<Spanned<String>>>>>,
        /// How many of the outcomes, replies and decisions of the case are never used. Left out: none.
        /// Example: `1`
        pub(crate) unused: Option<Spanned<u32>>,
        /// What must not happen.
        /// Example: `[{"directive": "finish", "outcome": {"status": "failed"}}]`
        pub(crate) never: Option<Spanned<OneOrMany<RecordPattern<HappeningFields>>>>,
    }
}

choice! {
    /// How a call or a run ends.
    #[derive(unfazed_macros::Named)]
    pub(crate) enum ExpectedEnd {
        /// The last call ended well.
        Ok = "ok",
        /// The last call was refused before it ran.
        Refused = "refused",
        /// With the report.
        Reported = "reported",
        /// With a plain answer.
        Answered = "answered",
        /// It failed, whether attempts were used up or none was made.
        Failed = "failed",
        /// It was stopped from outside.
        Stopped = "stopped",
        /// It failed after its attempts were used up.
        RetryExhausted = "retry_exhausted",
    }
}

impl ExpectRule {
    /// What is wrong with the expectations: none at all, or some that hold whatever happens.
    fn problems(&self, span: Span) -> Vec<Diagnostic> {
        let empty = [
            ("told", self.told.as_ref().map(|told| (told.span, said_nothing(&told.value.0)))),
            ("messages", self.messages.as_ref().map(|list| (list.span, list.value.is_empty()))),
            ("directives", self.directives.as_ref().map(|list| (list.span, list.value.is_empty()))),
            ("events", self.events.as_ref().map(|list| (list.span, list.value.is_empty()))),
            ("never", self.never.as_ref().map(|list| (list.span, list.value.0.is_empty()))),
            ("why", self.why.as_ref().map(|map| (map.span, map.value.is_empty()))),
            ("slices", self.slices.as_ref().map(|value| (value.span, nothing(&value.value)))),
            ("state", self.state.as_ref().map(|value| (value.span, nothing(&value.value)))),
        ];
        let mut problems: Vec<_> = empty
            .into_iter()
            .filter_map(|(name, said)| match said {
                Some((span, true)) => Some(
                    Diagnostic::error(Code::MISSING_FIELD, span, format!("`{name}` expects nothing"))
                        .help("write what is expected, or remove the line"),
                ),
                _ => None,
            })
            .collect();
        if self.is_empty() {
            let problem = Diagnostic::error(Code::MISSING_FIELD, span, "the case expects nothing");
            problems.push(problem.help("write such as `expect: {attempts: 3, delays: [1s, 2s]}`"));
        }
        if let Some(why) = &self.why {
            for (rule, _) in why.value.iter().filter(|(_, places)| places.0.is_empty()) {
                let message = format!("`why` names no place for `{rule}`");
                problems.push(Diagnostic::error(Code::MISSING_FIELD, why.span, message));
            }
            for place in why.value.values().flat_map(|places| &places.0) {
                if let Some(problem) = super::why::ExpectedPlace::parse(&place.value).err() {
                    problems.push(Diagnostic::error(Code::BAD_VALUE, place.span, problem));
                }
            }
        }
        problems
    }

    fn is_empty(&self) -> bool {
        let Self {
            attempts,
            delays,
            waits,
            calls,
            refused,
            feedback,
            told,
            messages,
            directives,
            events,
            slices,
            state,
            r#final,
            reason,
            output,
            turns,
            elapsed,
            why,
            unused,
            never,
        } = self;
        attempts.is_none()
            && delays.is_none()
            && waits.is_none()
            && calls.is_none()
            && refused.is_none()
            && feedback.is_none()
            && told.is_none()
            && messages.is_none()
            && directives.is_none()
            && events.is_none()
            && slices.is_none()
            && state.is_none()
            && r#final.is_none()
            && reason.is_none()
            && output.is_none()
            && turns.is_none()
            && elapsed.is_none()
            && why.is_none()
            // Without it the same is expected.
            && unused.as_ref().is_none_or(|unused| unused.value == 0)
            && never.is_none()
    }
}

/// Every text has an empty piece.
fn said_nothing(pieces: &[String]) -> bool {
    pieces.is_empty() || pieces.iter().any(String::is_empty)
}

fn nothing(wanted: &ExpectedValue) -> bool {
    wanted.0.as_object().is_some_and(serde_json::Map::is_empty)
}
