//! What the refusals of a server teach about what it takes: the request is written otherwise and sent once more, and so are
//! all that follow.

use std::sync::{Arc, Mutex, PoisonError};

use super::server::{ChatServer, MaxTokens, ReasoningRule};
use crate::engine::Failure;
use crate::host::model::wire::ids::IdForm;
use crate::host::model::wire::refusal_words::RefusalWords;

/// One thing that a refusal teaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LearnedForm {
    /// The most tokens of a reply are set by this field.
    MaxTokens(MaxTokens),
    /// Ids of calls have this form.
    CallIds(IdForm),
    /// The temperature is the server's own.
    NoTemperature,
    /// What is reported at the end of a stream cannot be asked for.
    NoStreamOptions,
    /// Nothing of what other servers sent with a message is taken.
    NothingBack,
    /// A call comes with reasoning.
    ReasoningOnCalls,
    /// What a user says after a result is put into the result.
    GuidanceInResults,
    /// A system says nothing behind the beginning.
    SystemFirst,
}

/// What was learned of one model's server. All clones learn together.
#[derive(Clone, Debug, Default)]
pub(crate) struct LearnedForms(Arc<Mutex<Vec<LearnedForm>>>);

impl LearnedForms {
    /// What is known of the server now.
    pub(super) fn applied_to(&self, mut server: ChatServer) -> ChatServer {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().for_each(|form| form.apply(&mut server));
        server
    }

    /// What a refusal teaches that was not known, in words. `sends`: whether the request has that option.
    pub(super) fn learn(
        &self,
        failure: &Failure,
        model: &str,
        known: ChatServer,
        sends: impl Fn(&str) -> bool,
    ) -> Option<String> {
        let form = LearnedForm::of(failure)?;
        // A refusal that names an option which was not sent is about something else.
        if form.option().is_some_and(|option| !sends(option)) {
            return None;
        }
        let (before, mut after) = (self.applied_to(known), self.applied_to(known));
        form.apply(&mut after);
        let mut learned = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // One form of each kind: a server that refuses both forms would otherwise have the request sent again for
        // ever.
        let again = |known: &LearnedForm| core::mem::discriminant(known) == core::mem::discriminant(&form);
        if before == after || learned.iter().any(again) {
            return None;
        }
        learned.push(form);
        Some(format!("`{model}` refused the request, which is sent again {}", form.told()))
    }
}

impl LearnedForm {
    fn apply(self, server: &mut ChatServer) {
        match self {
            Self::MaxTokens(field) => server.max_tokens = field,
            Self::CallIds(form) => server.call_ids = form,
            Self::NoTemperature => server.refuses.temperature = true,
            Self::NoStreamOptions => server.refuses.stream_options = true,
            Self::NothingBack => server.takes_back = Some(&[]),
            Self::ReasoningOnCalls => server.reasoning = ReasoningRule::Always,
            Self::GuidanceInResults => server.guidance_in_results = true,
            Self::SystemFirst => server.system_first = true,
        }
    }

    /// The option it is about.
    const fn option(self) -> Option<&'static str> {
        match self {
            Self::MaxTokens(_) => Some("max_tokens"),
            Self::NoTemperature => Some("temperature"),
            Self::NoStreamOptions => Some("stream_options"),
            _ => None,
        }
    }

    fn of(failure: &Failure) -> Option<Self> {
        // vLLM answers what a template raises with 500.
        // Other statuses say nothing about the form of the request.
        if !matches!(failure.status, Some(400 | 422 | 500)) {
            return None;
        }
        let refusal = RefusalWords::of(failure);
        refusal.of_ids().or_else(|| refusal.of_messages()).or_else(|| refusal.of_option())
    }

    /// What is other in the request from now on.
    fn told(self) -> &'static str {
        match self {
            Self::MaxTokens(MaxTokens::New) => "with `max_completion_tokens` for `max_tokens`",
            Self::MaxTokens(MaxTokens::Old) => "with `max_tokens` for `max_completion_tokens`",
            Self::CallIds(_) => "with ids of tool calls in the form that it takes",
            Self::NoTemperature => "without `temperature`",
            Self::NoStreamOptions => "without `stream_options`",
            Self::NothingBack => "without the fields that replies came with",
            Self::ReasoningOnCalls => "with `reasoning_content` at every tool call",
            Self::GuidanceInResults => "with the guidance after a result inside the result",
            Self::SystemFirst => "with later system messages as those of a user",
        }
    }
}

impl RefusalWords {
    /// "Tool call id was `turn1_0` but must be a-z, A-Z, 0-9, with a length of 9."; "Invalid 'messages[2].`tool_calls`[0].id':
    /// string too long."
    fn of_ids(&self) -> Option<LearnedForm> {
        if !self.says(&[
            "tool call id",
            "tool_call_id",
            "call_id",
            "tool_calls[",
            "tool_calls.",
            "tool_use.id",
        ]) {
            return None;
        }
        if self.says(&["length of 9", "length 9", "9 characters", "9 alphanumeric"]) {
            return Some(LearnedForm::CallIds(IdForm::Nine));
        }
        let is_id = self.says(&["tool call id", "tool_call_id", "call_id", "].id", ".id'", ".id:", ".id "]);
        let form = self.says(&["too long", "above_max_length", "at most", "pattern"]);
        (is_id && form).then_some(LearnedForm::CallIds(IdForm::Word { also: "_-", most: 40 }))
    }

    /// "`reasoning_content` is missing in assistant tool call message at index 2"; "Unexpected role 'user' after role 'tool'";
    /// "'messages.2': property '`reasoning_content`' is unsupported".
    fn of_messages(&self) -> Option<LearnedForm> {
        if self.says(&["reasoning_content"]) && self.says(&["missing", "must be passed back", "is required"])
        {
            return Some(LearnedForm::ReasoningOnCalls);
        }
        if self.says(&["role 'user' after role 'tool'"]) {
            return Some(LearnedForm::GuidanceInResults);
        }
        if self.says(&["system message must be at the beginning", "role 'system' after role"]) {
            return Some(LearnedForm::SystemFirst);
        }
        let field = self.says(&[
            "reasoning",
            "extra_content",
            "annotations",
            "refusal",
            "thought_signature",
            "citations",
        ]);
        (field && self.refuses() && self.says(&["messages", "assistant"])).then_some(LearnedForm::NothingBack)
    }

    /// "Unsupported parameter: '`max_tokens`' is not supported with this model. Use '`max_completion_tokens`' instead."
    fn of_option(&self) -> Option<LearnedForm> {
        // A size teaches nothing about the form: "`max_tokens` (10000) cannot exceed 8192" (Databricks).
        if !self.refuses_option() {
            return None;
        }
        let (old, new) = (self.names("max_tokens"), self.names("max_completion_tokens"));
        // Providers name the refused field first and then the one to use instead, so the order tells which is which.
        match (old, new) {
            (Some(old), Some(new)) if old < new => return Some(LearnedForm::MaxTokens(MaxTokens::New)),
            (Some(_), None) => return Some(LearnedForm::MaxTokens(MaxTokens::New)),
            (_, Some(_)) => return Some(LearnedForm::MaxTokens(MaxTokens::Old)),
            (None, None) => {}
        }
        let options =
            [("temperature", LearnedForm::NoTemperature), ("stream_options", LearnedForm::NoStreamOptions)];
        options.into_iter().find_map(|(field, form)| self.names(field).map(|_| form))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(status: u16, message: &str) -> Option<LearnedForm> {
        LearnedForm::of(&Failure { status: Some(status), message: message.to_owned(), ..Failure::default() })
    }

    #[test]
    fn a_refusal_teaches_what_the_server_takes() {
        let word = LearnedForm::CallIds(IdForm::Word { also: "_-", most: 40 });
        for (status, message, form) in [
            (
                400,
                "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
                LearnedForm::MaxTokens(MaxTokens::New),
            ),
            (
                422,
                "Extra inputs are not permitted: body.max_completion_tokens",
                LearnedForm::MaxTokens(MaxTokens::Old),
            ),
            (
                400,
                "`max_completion_tokens` is not supported here, use `max_tokens`",
                LearnedForm::MaxTokens(MaxTokens::Old),
            ),
            (
                400,
                "Unsupported value: 'temperature' does not support 0.2 with this model. Only the default (1) value is supported.",
                LearnedForm::NoTemperature,
            ),
            (400, "Unrecognized request argument supplied: stream_options", LearnedForm::NoStreamOptions),
            (
                400,
                "Tool call id was turn1_0 but must be a-z, A-Z, 0-9, with a length of 9.",
                LearnedForm::CallIds(IdForm::Nine),
            ),
            (
                500,
                "Tool call IDs should be alphanumeric strings with length 9!",
                LearnedForm::CallIds(IdForm::Nine),
            ),
            (
                400,
                "Invalid 'messages[2].tool_calls[0].id': string too long. Expected a string with maximum length 40",
                word,
            ),
            (
                400,
                "'messages.2' : for 'role:assistant' the following must be satisfied[('messages.2' : property 'reasoning_content' is unsupported)]",
                LearnedForm::NothingBack,
            ),
            (
                400,
                "thinking is enabled but reasoning_content is missing in assistant tool call message at index 2",
                LearnedForm::ReasoningOnCalls,
            ),
            (400, "Unexpected role 'user' after role 'tool'", LearnedForm::GuidanceInResults),
            (400, "System message must be at the beginning.", LearnedForm::SystemFirst),
            (400, "Unexpected role 'system' after role 'assistant'", LearnedForm::SystemFirst),
            (
                400,
                "[{'type': 'extra_forbidden', 'loc': ('body', 'max_completion_tokens'), 'msg': 'Extra inputs are not permitted'}]",
                LearnedForm::MaxTokens(MaxTokens::Old),
            ),
        ] {
            assert_eq!(of(status, message), Some(form), "{message}");
        }
    }

    #[test]
    fn other_refusals_teach_nothing() {
        for (status, message) in [
            (429, "Unsupported parameter: 'max_tokens'"),
            (400, "tool_choice='required' is not supported yet."),
            (400, "max_tokens is too large: 100000. This model supports at most 16384 completion tokens."),
            (400, "max_tokens (10000) cannot exceed 8192."),
            (400, "Invalid 'messages[2].tool_calls[0].function.arguments': string too long."),
            (
                400,
                "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'.",
            ),
            (
                400,
                "This model's maximum context length is 8192 tokens; you requested 9000 tokens (1000 in max_tokens).",
            ),
            (400, "max_tokens_to_sample is not supported"),
        ] {
            assert_eq!(of(status, message), None, "{message}");
        }
    }

    #[test]
    fn nothing_is_learned_twice() {
        let learned_forms = LearnedForms::default();
        let failure =
            |message: &str| Failure { status: Some(400), message: message.to_owned(), ..Failure::default() };
        let old = failure("Unsupported parameter: 'max_tokens'");
        assert!(learned_forms.learn(&old, "m", ChatServer::default(), |_| true).is_some());
        assert_eq!(learned_forms.learn(&old, "m", ChatServer::default(), |_| true), None);
        assert_eq!(
            learned_forms.learn(
                &failure("unknown: 'max_completion_tokens'"),
                "m",
                ChatServer::default(),
                |_| true
            ),
            None
        );
        assert_eq!(learned_forms.applied_to(ChatServer::default()).max_tokens, MaxTokens::New);
        // What was not sent was not refused.
        let temperature = failure("Unsupported value: 'temperature'");
        assert_eq!(LearnedForms::default().learn(&temperature, "m", ChatServer::default(), |_| false), None);
    }
}
