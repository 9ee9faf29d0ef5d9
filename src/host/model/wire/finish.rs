//! Why a model stopped, in the words of all providers, and whether its answer is one at all.

use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::lenient;
use crate::engine::{Failure, FinishReason, ModelReply, ProposedCall};
use crate::host::model::failure::unreadable;
use crate::host::model::wire::objects::of_objects;
use crate::host::redact::presentable;

/// The most characters of a reason that are kept.
const LONGEST: usize = 80;
/// Parts of words that say that the answer is not whole, whoever says them.
const NOT_WHOLE: [&str; 15] = [
    "abort",
    "cancel",
    "error",
    "fail",
    "image_other",
    "insufficient",
    "interrupt",
    "malformed",
    "missing",
    "no_image",
    "overload",
    "pause",
    "timeout",
    "too_many",
    "unexpected",
];

/// Why the model stopped. A reason that is unknown is kept as it is.
///
/// # Errors
/// The reason says that something went wrong. The failure's code is its word in small letters: the policy's table makes
/// a class of it.
pub(super) fn finish(said: Option<String>) -> Result<FinishReason, Failure> {
    let Some(said) = said else { return Ok(FinishReason::Unsaid) };
    // Some say who stopped it before the reason: `function_call_filter: MALFORMED_FUNCTION_CALL`.
    let word = said.rsplit(':').next().unwrap_or_default().trim().to_ascii_lowercase();
    Ok(match word.as_str() {
        "stop" | "end_turn" | "stop_sequence" | "eos" | "eos_token" | "complete" => FinishReason::Stop,
        "tool_calls" | "tool_call" | "tool_use" | "function_call" => FinishReason::ToolCalls,
        "length" | "max_tokens" | "max_output_tokens" | "incomplete" | "continuation" => FinishReason::Length,
        "model_context_window_exceeded" | "model_length" => FinishReason::ContextWindow,
        "content_filter"
        | "content_filtered"
        | "safety"
        | "refusal"
        | "recitation"
        | "blocklist"
        | "prohibited_content"
        | "spii"
        | "image_safety"
        | "image_prohibited_content"
        | "image_recitation"
        | "language"
        | "escalation"
        | "model_armor"
        | "pup_limited_disabled"
        | "sensitive"
        | "guardrail_intervened"
        | "error_toxic" => FinishReason::ContentFilter,
        _ if !is_said(&word) => FinishReason::Unsaid,
        _ if NOT_WHOLE.iter().any(|part| word.contains(part)) => return Err(not_whole(&said, &word)),
        // An unknown word must stay visible. LiteLLM turns it into `stop`, and a failed answer passes for a good
        // one.
        _ => FinishReason::Other(short(&said)),
    })
}

/// Why the model stopped, as a field of an answer has it. A value of another type does not count.
pub(super) fn reason<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    let Value::String(said) = Value::deserialize(from)? else { return Ok(None) };
    Ok(Some(said).filter(|said| is_said(said)))
}

/// Whether a stream that says `said` after `before`, without more of the answer between them, stopped for `said`. Servers close a
/// stream with `stop` or `end_turn`, whatever they wrote before: that makes nothing whole.
pub(super) fn replaces(said: &str, before: Option<&str>) -> bool {
    before.is_none_or(|before| weight(before) <= weight(said))
}

/// How much a reason says beyond that the model has ended.
fn weight(said: &str) -> u8 {
    match finish(Some(said.to_owned())) {
        Ok(FinishReason::Unsaid | FinishReason::Stop) => 0,
        Ok(FinishReason::ToolCalls) => 1,
        Ok(
            FinishReason::Length
            | FinishReason::ContextWindow
            | FinishReason::ContentFilter
            | FinishReason::Other(_),
        )
        | Err(_) => 2,
    }
}

/// Whether a reason is one. What has none yet is written as such a word too: by servers in Python (`str(None)`), and by Gemini's.
pub(super) fn is_said(reason: &str) -> bool {
    let none = ["", "null", "none", "finish_reason_unspecified"];
    !none.iter().any(|word| reason.trim().eq_ignore_ascii_case(word))
}

/// A reply whose calls stop in the middle, at the limit of its tokens, though it says otherwise: vLLM streams `tool_calls` as the reason
/// of each answer with a call (vllm-project/vllm#53269, #58228, #47963). `body`: its request, in any dialect.
pub(in crate::host) fn cut_at_limit<B: AsRef<[u8]>>(
    mut reply: ModelReply,
    body: impl FnOnce() -> Option<B>,
) -> ModelReply {
    let is_half = reply.calls.iter().any(|proposal| is_half(&proposal.call.arguments));
    let used = reply.usage.map_or(0, |usage| usage.output);
    let is_full = || body().and_then(|body| output_limit(body.as_ref())).is_some_and(|most| used >= most);
    let may_be_whole = !matches!(reply.finish, FinishReason::ContextWindow | FinishReason::ContentFilter);
    if is_half && may_be_whole && used > 0 && is_full() {
        reply.finish = FinishReason::Length;
    }
    reply
}

/// Whether arguments of a call stop before their end. Broken ones are the model's doing.
pub(super) fn is_half(arguments: &str) -> bool {
    let arguments = arguments.trim();
    !arguments.is_empty() && serde_json::from_str::<IgnoredAny>(arguments).is_err_and(|error| error.is_eof())
}

/// The most tokens that a request asks for.
fn output_limit(body: &[u8]) -> Option<u64> {
    let limits: RequestLimits = serde_json::from_slice(body).ok()?;
    let nested = [limits.inference, limits.generation].into_iter().flatten();
    let nested = nested.flat_map(|settings| [settings.max_tokens, settings.max_output]);
    [limits.max_tokens, limits.max_completion, limits.max_output].into_iter().chain(nested).flatten().max()
}

/// The fields of a request that say it.
#[derive(Deserialize)]
#[serde(remote = "Self")]
struct RequestLimits {
    #[serde(default, deserialize_with = "lenient::number")]
    max_tokens: Option<u64>,
    #[serde(default, rename = "max_completion_tokens", deserialize_with = "lenient::number")]
    max_completion: Option<u64>,
    #[serde(default, rename = "max_output_tokens", deserialize_with = "lenient::number")]
    max_output: Option<u64>,
    #[serde(default, rename = "inferenceConfig", deserialize_with = "lenient::if_readable")]
    inference: Option<NestedLimits>,
    #[serde(default, rename = "generationConfig", deserialize_with = "lenient::if_readable")]
    generation: Option<NestedLimits>,
}

/// The same, of Bedrock and of Gemini.
#[derive(Deserialize)]
#[serde(remote = "Self")]
struct NestedLimits {
    #[serde(default, rename = "maxTokens", deserialize_with = "lenient::number")]
    max_tokens: Option<u64>,
    #[serde(default, rename = "maxOutputTokens", deserialize_with = "lenient::number")]
    max_output: Option<u64>,
}

/// The calls of an answer that stopped so, each with arguments. Servers write none for a tool that takes none. In an answer that was
/// stopped the model may not have begun to write them: what such a call would have become is unknown, so it is dropped.
pub(super) fn begun(mut calls: Vec<ProposedCall>, finish: &FinishReason) -> Vec<ProposedCall> {
    let stopped =
        matches!(finish, FinishReason::Length | FinishReason::ContextWindow | FinishReason::ContentFilter);
    calls.retain(|proposal| !stopped || !proposal.call.arguments.trim().is_empty());
    for call in calls.iter_mut().map(|proposal| &mut proposal.call) {
        if call.arguments.trim().is_empty() {
            "{}".clone_into(&mut call.arguments);
        }
    }
    calls
}

/// The same of a server that stops for a call only if there is one.
///
/// # Errors
/// The answer has no call: the part of the answer that had it is lost.
pub(super) fn found(calls: Vec<ProposedCall>, finish: &FinishReason) -> Result<Vec<ProposedCall>, Failure> {
    if calls.is_empty() && *finish == FinishReason::ToolCalls {
        return Err(unreadable("the model stopped for a call, but the answer has none"));
    }
    Ok(begun(calls, finish))
}

/// An answer that stopped with that word before it was whole.
pub(super) fn not_whole(said: &str, word: &str) -> Failure {
    let what = match word {
        "pause_turn" => "the server paused the turn before the answer was whole".to_owned(),
        _ => format!("the model stopped with `{}` before the answer was whole", short(said)),
    };
    Failure { code: Some(short(word)), message: what, ..Failure::default() }
}

fn short(said: &str) -> String {
    presentable(said).chars().take(LONGEST).collect()
}

of_objects!(RequestLimits, NestedLimits);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{ErrorClass, Policy};
    use crate::session::{ToolCall, Usage};

    fn told(said: &str) -> Result<FinishReason, Failure> {
        finish(Some(said.to_owned()))
    }

    #[test]
    fn a_reason_is_known_in_the_words_of_each_provider() {
        for (reason, words) in [
            (FinishReason::Stop, &["stop", "STOP", "end_turn", "eos", "COMPLETE"][..]),
            (FinishReason::ToolCalls, &["tool_calls", "tool_use", "function_call", "TOOL_CALL"]),
            (FinishReason::Length, &["length", "max_tokens", "MAX_TOKENS", "incomplete", "CONTINUATION"]),
            (FinishReason::ContextWindow, &["model_context_window_exceeded", "model_length"]),
            (
                FinishReason::ContentFilter,
                &[
                    "content_filter",
                    "SAFETY",
                    "refusal",
                    "content_filter: RECITATION",
                    "PROHIBITED_CONTENT",
                    "LANGUAGE",
                    "MODEL_ARMOR",
                    "IMAGE_RECITATION",
                ],
            ),
            (FinishReason::Unsaid, &["", "null", "None", "FINISH_REASON_UNSPECIFIED"]),
            (FinishReason::Other("compaction".into()), &["compaction"]),
            (FinishReason::Other("OTHER".into()), &["OTHER"]),
        ] {
            for word in words {
                assert_eq!(told(word), Ok(reason.clone()), "{word}");
            }
        }
        assert_eq!(finish(None), Ok(FinishReason::Unsaid));
    }

    #[test]
    fn a_call_without_arguments_is_one_unless_the_answer_was_stopped() {
        let call = |arguments: &str| -> ProposedCall {
            ToolCall { id: "a".into(), name: "look".into(), arguments: arguments.into() }.into()
        };
        let all = || vec![call(" "), call("{}"), call("{\"x\": ")];
        for finish in [FinishReason::Length, FinishReason::ContextWindow, FinishReason::ContentFilter] {
            assert_eq!(begun(all(), &finish), [call("{}"), call("{\"x\": ")], "{finish:?}");
        }
        for finish in [FinishReason::Stop, FinishReason::ToolCalls, FinishReason::Unsaid] {
            assert_eq!(begun(all(), &finish), [call("{}"), call("{}"), call("{\"x\": ")], "{finish:?}");
        }
    }

    #[test]
    fn a_call_that_stops_at_the_limit_of_the_request_is_cut() {
        let reply = |arguments: &str, output| {
            let call = ToolCall { id: "a".into(), name: "look".into(), arguments: arguments.into() };
            ModelReply {
                calls: vec![call.into()],
                finish: FinishReason::ToolCalls,
                usage: Some(Usage { output, ..Usage::default() }),
                ..ModelReply::default()
            }
        };
        let finish = |arguments: &str, output, body: &str| {
            cut_at_limit(reply(arguments, output), || Some(body.to_owned())).finish
        };
        let half = "{\"path\": \"/a";
        for body in [
            r#"{"max_tokens": 9, "messages": []}"#,
            r#"{"max_completion_tokens": 9}"#,
            r#"{"max_output_tokens": 9}"#,
            r#"{"inferenceConfig": {"maxTokens": 9}}"#,
            r#"{"generationConfig": {"maxOutputTokens": 9}}"#,
        ] {
            assert_eq!(finish(half, 9, body), FinishReason::Length, "{body}");
            assert_eq!(finish(half, 8, body), FinishReason::ToolCalls, "{body}");
            assert_eq!(finish("{}", 9, body), FinishReason::ToolCalls, "{body}");
            assert_eq!(finish("{]", 9, body), FinishReason::ToolCalls, "{body}");
        }
        assert_eq!(finish(half, 9, "{}"), FinishReason::ToolCalls);
    }

    #[test]
    fn a_reason_that_says_that_something_went_wrong_is_a_failure_of_its_class() {
        let policy = Policy::builtin();
        for (word, class) in [
            ("error", ErrorClass::ModelError),
            ("ERROR", ErrorClass::ModelError),
            ("abort", ErrorClass::ModelError),
            ("generation_cancelled", ErrorClass::ModelError),
            ("insufficient_system_resource", ErrorClass::Overloaded),
            ("network_error", ErrorClass::NetworkError),
            ("TIMEOUT", ErrorClass::Timeout),
            ("MALFORMED_FUNCTION_CALL", ErrorClass::MalformedToolCall),
            ("function_call_filter: MALFORMED_FUNCTION_CALL", ErrorClass::MalformedToolCall),
            ("UNEXPECTED_TOOL_CALL", ErrorClass::MalformedToolCall),
            ("MALFORMED_RESPONSE", ErrorClass::ModelError),
            ("TOO_MANY_TOOL_CALLS", ErrorClass::ModelError),
            ("MISSING_THOUGHT_SIGNATURE", ErrorClass::InvalidRequest),
            ("malformed_tool_use", ErrorClass::MalformedToolCall),
            ("malformed_model_output", ErrorClass::ModelError),
        ] {
            let failure = told(word).unwrap_err();
            assert_eq!(failure.classified(&policy).class, class, "{word}");
            assert_eq!(
                failure.message,
                format!("the model stopped with `{word}` before the answer was whole")
            );
        }
    }
}
