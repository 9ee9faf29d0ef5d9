//! One chunk of an answer, and the reply that all parts make.

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Map, Value};

use super::parts::{Part, call, is_thought, kept, said, word};
use crate::engine::{Failure, FinishReason, ModelReply, ProposedCall};
use crate::host::model::failure;
use crate::host::model::wire::answer_fields::AnswerFields;
use crate::host::model::wire::drawn::or_images;
use crate::host::model::wire::extras::CONTENT;
use crate::host::model::wire::finish::{begun, finish, reason};
use crate::host::model::wire::ids::CallIds;
use crate::host::model::wire::lenient;
use crate::host::model::wire::objects::of_objects;
use crate::host::model::wire::usage::newer;
use crate::host::redact::presentable;
use crate::policy::ErrorClass;
use crate::session::{Message, ToolCall, Usage};

/// The most characters of what a server says about an end.
const LONGEST: usize = 300;

/// The fields of an answer, or of a piece of it, that are read or say which one it is. All others are kept.
pub(super) const OF_ANSWER: [&str; 7] =
    ["candidates", "promptFeedback", "usageMetadata", "error", "responseId", "modelVersion", "createTime"];
/// Those of a candidate that are read.
pub(super) const OF_CANDIDATE: [&str; 5] =
    ["index", "content", "finishReason", "finishMessage", "tokenCount"];

/// A whole answer, or a piece of it, from which all is taken that is not read: both have one form.
#[derive(Default, Deserialize)]
#[serde(remote = "Self")]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct AnswerChunk {
    #[serde(default)]
    pub(super) candidates: Option<Vec<Candidate>>,
    #[serde(default)]
    pub(super) prompt_feedback: Option<PromptFeedback>,
    #[serde(default, deserialize_with = "lenient::if_readable")]
    pub(super) usage_metadata: Option<WireUsage>,
    #[serde(default)]
    pub(super) error: Option<IgnoredAny>,
    // Which answer it is.
    #[serde(default, rename = "responseId")]
    _id: IgnoredAny,
    #[serde(default, rename = "modelVersion")]
    _model: IgnoredAny,
    #[serde(default, rename = "createTime")]
    _created: IgnoredAny,
}

#[derive(Deserialize)]
#[serde(remote = "Self")]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Candidate {
    #[serde(default, deserialize_with = "lenient::number")]
    pub(super) index: Option<u64>,
    #[serde(default)]
    pub(super) content: Option<CandidateContent>,
    #[serde(default, deserialize_with = "reason")]
    pub(super) finish_reason: Option<String>,
    #[serde(default, deserialize_with = "lenient::text")]
    pub(super) finish_message: Option<String>,
    #[serde(default, rename = "tokenCount")]
    _tokens: IgnoredAny,
}

#[derive(Deserialize)]
#[serde(remote = "Self")]
pub(super) struct CandidateContent {
    #[serde(default)]
    pub(super) parts: Option<Vec<Value>>,
}

#[derive(Deserialize)]
#[serde(remote = "Self")]
#[serde(rename_all = "camelCase")]
pub(super) struct PromptFeedback {
    #[serde(default, deserialize_with = "lenient::text")]
    block_reason: Option<String>,
    #[serde(default, deserialize_with = "lenient::text")]
    block_reason_message: Option<String>,
    #[serde(flatten)]
    pub(super) more: Map<String, Value>,
}

/// Tokens. They are repeated in several chunks, and the last ones hold.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(remote = "Self")]
pub(super) struct WireUsage {
    #[serde(default, rename = "promptTokenCount", deserialize_with = "lenient::number")]
    prompt: Option<u64>,
    #[serde(default, rename = "toolUsePromptTokenCount", deserialize_with = "lenient::number")]
    tool_use: Option<u64>,
    #[serde(default, rename = "cachedContentTokenCount", deserialize_with = "lenient::number")]
    cached: Option<u64>,
    #[serde(default, rename = "candidatesTokenCount", deserialize_with = "lenient::number")]
    candidates: Option<u64>,
    #[serde(default, rename = "thoughtsTokenCount", deserialize_with = "lenient::number")]
    thoughts: Option<u64>,
    #[serde(default, rename = "totalTokenCount", deserialize_with = "lenient::number")]
    total: Option<u64>,
}

impl WireUsage {
    /// The counts of a later event.
    pub(super) fn then(self, later: Self) -> Self {
        Self {
            prompt: newer(self.prompt, later.prompt),
            tool_use: newer(self.tool_use, later.tool_use),
            cached: newer(self.cached, later.cached),
            candidates: newer(self.candidates, later.candidates),
            thoughts: newer(self.thoughts, later.thoughts),
            total: newer(self.total, later.total),
        }
    }

    fn usage(self) -> Usage {
        // `total_token_count` is the sum of these; the prompt includes the cache, the candidates exclude the thoughts
        // (`types.py` of google-genai).
        let sum =
            |a: Option<u64>, b: Option<u64>| a.unwrap_or_default().saturating_add(b.unwrap_or_default());
        let input = sum(self.prompt, self.tool_use);
        // Some say the sum and the prompt alone: the rest of the sum is the output.
        let rest = || match (self.prompt, self.total) {
            (Some(_), Some(total)) => total.saturating_sub(input),
            _ => 0,
        };
        let output = match (self.candidates, self.thoughts) {
            (None, thoughts) => rest().max(thoughts.unwrap_or_default()),
            (candidates, thoughts) => sum(candidates, thoughts),
        };
        Usage {
            input,
            output,
            cache_read: self.cached.unwrap_or_default(),
            cache_write: 0,
            reasoning: self.thoughts.unwrap_or_default(),
        }
    }
}

impl PromptFeedback {
    /// The failure that a refused prompt is; `None`: it was not refused.
    pub(super) fn blocked(self) -> Option<Failure> {
        let reason = self.block_reason.filter(|reason| !reason.is_empty())?;
        let message = self.block_reason_message.map(|message| format!(": {message}")).unwrap_or_default();
        let told = format!("the provider blocked the prompt with `{reason}`{message}");
        Some(Failure::of(ErrorClass::ContentFilter, shortened(&told)))
    }
}

/// The reply that complete parts are.
///
/// # Errors
/// The model stopped because something went wrong.
pub(super) fn to_reply(
    parts: &[Part],
    (reason, message): (String, Option<String>),
    usage: Option<WireUsage>,
    mut fields: AnswerFields,
    (conversation, issuer): (&[Message], &str),
) -> Result<ModelReply, Failure> {
    let mut finish = finish(Some(reason)).map_err(|failure| explained(failure, message.as_deref()))?;
    fields.take_word("finishMessage", message.as_deref(), 0);
    let mime = |part: &Part| Some(part.get("inlineData")?.get("mimeType")?.as_str()?.starts_with("image/"));
    let is_image = |part: &&Part| mime(part) == Some(true) && !is_thought(part);
    let text = or_images(parts.iter().filter_map(said).collect(), parts.iter().filter(is_image).count());
    let mut ids = None;
    let calls: Vec<ProposedCall> = parts
        .iter()
        .filter_map(call)
        .map(|call| proposal(call, ids.get_or_insert_with(|| CallIds::of(conversation))))
        .collect();
    // There is no reason of its own for calls.
    if finish == FinishReason::Stop && !calls.is_empty() {
        finish = FinishReason::ToolCalls;
    }
    let ids: Vec<String> = calls.iter().map(|proposal| proposal.call.id.clone()).collect();
    let mut extra = kept(parts, &ids, issuer).map(|kept| (CONTENT.to_owned(), kept)).into_iter().collect();
    fields.keep(&mut extra, Some(issuer));
    let calls = begun(calls, &finish);
    Ok(ModelReply { text, calls, finish, usage: usage.map(WireUsage::usage), extra, ..ModelReply::default() })
}

fn proposal(call: &Map<String, Value>, ids: &mut CallIds) -> ProposedCall {
    let id = ids.next(Some(word(call, "id").to_owned()));
    ToolCall { id, name: word(call, "name").to_owned(), arguments: lenient::read_input(call.get("args")) }
        .into()
}

fn explained(mut failure: Failure, message: Option<&str>) -> Failure {
    if let Some(message) = message.filter(|message| !message.is_empty()) {
        failure.message = format!("{}: {}", failure.message, shortened(message));
    }
    failure
}

fn shortened(text: &str) -> String {
    presentable(text).chars().take(LONGEST).collect()
}

/// JSON of another shape than the format's.
pub(super) fn unexpected(error: &serde_json::Error) -> Failure {
    failure::unreadable(format!("the answer is not one of Gemini: {error}"))
}

of_objects!(AnswerChunk, Candidate, CandidateContent, PromptFeedback, WireUsage);
