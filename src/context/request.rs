//! The distribution of tokens in a request body, in each wire format.

use serde_json::Value;

use super::counter::TokenCounter;
use super::declared::ToolForm;
use super::files::{CountedFile, DATA, counted as file};
use super::fixed::{
    FORCED, RequestShape, SignatureRules, fixed_tokens, reply_schema, sees_earlier_thinking, signature_rules,
};
use super::images::image_size;
use crate::session::{PER_CALL, PER_MESSAGE, readable};

/// The tokens of a request body by part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestTokens {
    /// The wire format.
    pub form: ToolForm,
    /// The model of the request.
    pub model: Option<String>,
    /// The requested maximum tokens of the reply.
    pub output: Option<u64>,
    /// The instructions outside of messages, and the schema for the reply.
    pub system: u64,
    /// The tools, in order.
    pub(crate) tools: Vec<ToolTokens>,
    /// The messages, in order.
    pub(crate) messages: Vec<MessageTokens>,
    /// The known overhead that the provider adds to each request.
    pub fixed: u64,
}

/// The tokens of the definition of a tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ToolTokens {
    /// Its name.
    pub name: String,
    /// The number of tokens.
    pub tokens: u64,
}

/// The tokens of a message of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MessageTokens {
    /// Its role.
    pub role: String,
    /// The number of tokens, results and images included.
    pub tokens: u64,
    /// The tokens of tool results in the message.
    pub results: u64,
    /// The tokens of its images.
    pub images: u64,
}

/// The counted tokens of a content.
#[derive(Clone, Copy, Default)]
struct CountedContent {
    text: u64,
    results: u64,
    images: u64,
}

impl RequestTokens {
    /// The tokens of a request body; `None`: it has no list of messages. Unknown parts count as their JSON.
    pub fn of(counter: &dyn TokenCounter, body: &Value) -> Option<Self> {
        let messages = body.get("messages")?.as_array()?;
        let form = ToolForm::of(body, messages);
        let model = text(body, "model").unwrap_or_default();
        let (as_signatures, sees_earlier_thinking) = (signature_rules(model), sees_earlier_thinking(model));
        let counting = BodyCounting { counter, form, as_signatures, sees_earlier_thinking };
        let tools = body.get("tools").and_then(Value::as_array);
        // OpenAI's `max_tokens` is deprecated, so the newer field takes precedence.
        let outputs = ["max_completion_tokens", "max_tokens"];
        Some(Self {
            form,
            model: text(body, "model").map(str::to_owned),
            output: outputs.iter().find_map(|field| body.get(*field)?.as_u64()),
            system: counting.system(body),
            tools: tools.into_iter().flatten().map(|tool| counting.tool(tool)).collect(),
            messages: counting.messages(messages),
            fixed: fixed_tokens(model, RequestShape::of(body, messages))
                .saturating_add(counting.forced(body)),
        })
    }

    /// The tokens sent, without the provider's overhead.
    pub fn sent(&self) -> u64 {
        self.total().saturating_sub(self.fixed)
    }

    /// The total tokens.
    pub fn total(&self) -> u64 {
        let tools = self.tools.iter().map(|tool| tool.tokens);
        let messages = self.messages.iter().map(|message| message.tokens);
        tools.chain(messages).fold(self.system.saturating_add(self.fixed), u64::saturating_add)
    }
}

/// The tokens of a part of a content, such as an image or a document, in that wire format. An unknown one counts as its
/// JSON.
pub fn part_tokens(counter: &dyn TokenCounter, form: ToolForm, part: &Value) -> u64 {
    let counting = BodyCounting { counter, form, as_signatures: None, sees_earlier_thinking: true };
    counting.content(part, false).all()
}

impl CountedContent {
    fn all(self) -> u64 {
        self.text.saturating_add(self.results).saturating_add(self.images)
    }

    fn plus(self, other: Self) -> Self {
        Self {
            text: self.text.saturating_add(other.text),
            results: self.results.saturating_add(other.results),
            images: self.images.saturating_add(other.images),
        }
    }
}

/// The rules for counting the parts of a body.
struct BodyCounting<'c> {
    counter: &'c dyn TokenCounter,
    form: ToolForm,
    as_signatures: Option<SignatureRules>,
    sees_earlier_thinking: bool,
}

impl BodyCounting<'_> {
    fn system(&self, body: &Value) -> u64 {
        let system = body.get("system").map_or(0, |system| self.content(system, false).all());
        let schema = reply_schema(body).map_or(0, |schema| self.json(schema));
        system.saturating_add(schema)
    }

    /// The start of a reply that must call one function.
    fn forced(&self, body: &Value) -> u64 {
        let function = body.get("tool_choice").and_then(|choice| text(choice.get("function")?, "name"));
        match function.filter(|_| self.as_signatures.is_some()) {
            Some(name) => FORCED.saturating_add(self.count(name)),
            None => 0,
        }
    }

    fn tool(&self, tool: &Value) -> ToolTokens {
        let name = text(tool, "name").or_else(|| text(tool.get("function")?, "name"));
        let tokens = match (self.as_signatures, tool.get("function")) {
            (Some(rules), Some(function)) => rules.tokens(self.counter, function),
            _ => self.json(tool),
        };
        ToolTokens { name: name.unwrap_or("?").to_owned(), tokens }
    }

    fn messages(&self, messages: &[Value]) -> Vec<MessageTokens> {
        // Anthropic, "Extended thinking": some models do not see the thinking before the last message of the user.
        let current = messages.iter().rposition(is_of_user).filter(|_| !self.sees_earlier_thinking);
        let count = |(at, message)| self.message(message, current.is_some_and(|current| at < current));
        messages.iter().enumerate().map(count).collect()
    }

    /// Counts a message. `before`: a later message of the user exists, and the model does not see earlier thinking.
    fn message(&self, message: &Value, before: bool) -> MessageTokens {
        let role = text(message, "role").unwrap_or("?").to_owned();
        let content = message.get("content").map(|content| self.content(content, before)).unwrap_or_default();
        let fields = message.as_object().into_iter().flatten();
        let besides = fields.map(|(name, value)| match (name.as_str(), value) {
            // Ids are only for the API; models do not see them.
            ("role" | "content" | "tool_call_id", _) => 0,
            ("tool_calls", Value::Array(calls)) => {
                calls.iter().map(|call| self.call(call)).fold(0, u64::saturating_add)
            }
            (_, Value::String(text)) => self.count(text),
            _ => self.json(&readable(value)),
        });
        let tokens = besides.fold(PER_MESSAGE, u64::saturating_add).saturating_add(content.all());
        let results = if role == "tool" { tokens } else { content.results };
        MessageTokens { role, tokens, results, images: content.images }
    }

    /// A call of a tool, in either format.
    fn call(&self, call: &Value) -> u64 {
        let function = call.get("function").unwrap_or(call);
        let name = self.count(text(function, "name").unwrap_or_default());
        let arguments = match function.get("arguments").or_else(|| function.get("input")) {
            Some(Value::String(text)) => self.count(text),
            Some(arguments) => self.json(arguments),
            None => 0,
        };
        [PER_CALL, name, arguments].into_iter().fold(0, u64::saturating_add)
    }

    fn content(&self, content: &Value, before: bool) -> CountedContent {
        let mut counted = CountedContent::default();
        // A list of open parts instead of recursion, because a body may have any depth.
        let mut open: Vec<(&Value, bool)> = vec![(content, false)];
        while let Some((part, of_result)) = open.pop() {
            let tokens = match part {
                Value::Null => 0,
                Value::String(text) => self.count(text),
                Value::Array(parts) => {
                    open.extend(parts.iter().map(|part| (part, of_result)));
                    0
                }
                _ => match text(part, "type") {
                    Some("text" | "input_text" | "output_text") => {
                        self.count(text(part, "text").unwrap_or_default())
                    }
                    Some("image_url" | "input_image" | "image") => {
                        let images = self.image(part);
                        counted = counted.plus(CountedContent { images, ..CountedContent::default() });
                        0
                    }
                    // Sent back, but removed before the model sees it.
                    Some("thinking" | "redacted_thinking") if before => 0,
                    Some("thinking") => self.count(text(part, "thinking").unwrap_or_default()),
                    Some("redacted_thinking") => 0,
                    Some("tool_use") => self.call(part),
                    Some("tool_result") => {
                        open.extend(part.get("content").map(|content| (content, true)));
                        PER_MESSAGE
                    }
                    _ => match file(part) {
                        Some(CountedFile::Tokens(tokens)) => tokens.saturating_add(self.besides(part)),
                        Some(CountedFile::Text(text)) => self.count(&text).saturating_add(self.besides(part)),
                        Some(CountedFile::Parts(parts)) => {
                            open.push((parts, of_result));
                            self.besides(part)
                        }
                        None => self.json(part),
                    },
                },
            };
            let (text, results) = if of_result { (0, tokens) } else { (tokens, 0) };
            counted = counted.plus(CountedContent { text, results, images: 0 });
        }
        counted
    }

    fn image(&self, part: &Value) -> u64 {
        let at = part.get("image_url");
        let url = at.and_then(|at| at.as_str().or_else(|| text(at, "url")));
        let source = part.get("source").and_then(|source| text(source, "data"));
        let data = source.or_else(|| url?.split_once(DATA).map(|(_, data)| data));
        let low = at.and_then(|at| text(at, "detail")).or_else(|| text(part, "detail")) == Some("low");
        self.form.image_rule().tokens(data.and_then(image_size), low)
    }

    /// The tokens of a document's title and context.
    fn besides(&self, document: &Value) -> u64 {
        let told = ["title", "context"].into_iter().filter_map(|field| text(document, field));
        told.map(|text| self.count(text)).fold(0, u64::saturating_add)
    }

    fn json(&self, value: &Value) -> u64 {
        self.count(&value.to_string())
    }

    fn count(&self, text: &str) -> u64 {
        self.counter.count(text)
    }
}

/// Whether the message contains text of the user, alone or with tool results.
fn is_of_user(message: &Value) -> bool {
    // Anthropic puts tool results into messages of the user.
    let is_result = |part: &Value| text(part, "type") == Some("tool_result");
    text(message, "role") == Some("user")
        && !message.get("content").and_then(Value::as_array).is_some_and(|parts| parts.iter().all(is_result))
}

fn text<'v>(value: &'v Value, field: &str) -> Option<&'v str> {
    value.get(field)?.as_str()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::context::ByteEstimate;

    fn of(body: &Value) -> RequestTokens {
        RequestTokens::of(&ByteEstimate, body).unwrap()
    }

    #[test]
    fn a_body_of_chat_completions_is_taken_apart() {
        let tool =
            json!({"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}});
        let counted = of(&json!({
            "model": "gpt-4o", "max_completion_tokens": 900, "tools": [tool],
            "messages": [
                {"role": "system", "content": "12345678"},
                {"role": "user", "content": [
                    {"type": "text", "text": "1234"},
                    {"type": "image_url", "image_url": {"url": "https://x/y.png", "detail": "low"}},
                ]},
                {"role": "tool", "tool_call_id": "c1", "content": "12345678"},
            ],
        }));
        assert_eq!(
            (counted.form, counted.model.as_deref(), counted.output),
            (ToolForm::Chat, Some("gpt-4o"), Some(900))
        );
        assert_eq!(counted.tools[0].name, "look");
        // `func_init`, and `look:`; `func_end` and the priming of the reply.
        assert_eq!((counted.tools[0].tokens, counted.fixed), (7 + 2, 12 + 3));
        let messages: Vec<_> = counted.messages.iter().map(|m| (m.tokens, m.results, m.images)).collect();
        assert_eq!(messages, [(6, 0, 0), (4 + 1 + 85, 0, 85), (6, 6, 0)]);
        assert_eq!(counted.total(), counted.tools[0].tokens + counted.fixed + 6 + 90 + 6);
    }

    #[test]
    fn a_body_of_anthropics_messages_is_taken_apart() {
        let png = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJ";
        let counted = of(&json!({
            "model": "claude-sonnet-4-5", "max_tokens": 100, "system": [{"type": "text", "text": "12345678"}],
            "tools": [{"name": "look", "input_schema": {"type": "object"}}],
            "messages": [
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": [
                    {"type": "text", "text": "12345678"},
                    {"type": "image", "source": {"type": "base64", "data": png}},
                ]}]},
            ],
        }));
        assert_eq!((counted.form, counted.system, counted.output), (ToolForm::Messages, 2, Some(100)));
        assert_eq!(counted.fixed, 496 + 3);
        let message = &counted.messages[0];
        assert_eq!((message.tokens, message.results, message.images), (4 + 4 + 2 + 1, 2, 1));
    }

    #[test]
    fn documents_and_recordings_are_not_counted_as_their_base64() {
        let data = "A".repeat(1 << 20);
        let body = |part: Value| json!({"messages": [{"role": "user", "content": [part]}]});
        for part in [
            json!({"type": "document", "title": "1234", "source": {"type": "base64", "media_type": "application/pdf", "data": data}}),
            json!({"type": "tool_result", "content": [{"type": "document", "source": {"type": "base64", "data": data}}]}),
            json!({"type": "file", "file": {"filename": "a.pdf", "file_data": format!("data:application/pdf;base64,{data}")}}),
            json!({"type": "input_file", "file_data": data}),
        ] {
            let tokens = of(&body(part)).total();
            assert!((36_004..=36_009).contains(&tokens), "{tokens}");
        }
        let sound = json!({"type": "input_audio", "input_audio": {"data": data, "format": "mp3"}});
        assert_eq!(of(&body(sound)).total(), 4 + 500);
        let text = json!({"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "12345678"}});
        assert_eq!(of(&body(text)).total(), 4 + 2);
        let parts = json!({"type": "document", "source": {"type": "content", "content": [{"type": "text", "text": "1234"}]}});
        assert_eq!(of(&body(parts)).total(), 4 + 1);
    }

    #[test]
    fn what_has_no_messages_is_no_request() {
        for body in [json!({}), json!([]), json!({"messages": "hello"}), json!(null)] {
            assert_eq!(RequestTokens::of(&ByteEstimate, &body), None);
        }
    }

    #[test]
    fn a_content_as_deep_as_json_may_be_is_counted() {
        let mut content = json!("x");
        for _ in 0..120 {
            content = json!([content]);
        }
        let body = json!({"messages": [{"role": "user", "content": content}]});
        assert_eq!(of(&body).total(), 5);
    }

    proptest! {
        #[test]
        fn messages_of_every_kind_are_counted(
            kinds in prop::collection::vec((0usize..12, ".{0,12}"), 0..12),
        ) {
            let part = |(kind, text): &(usize, String)| match kind {
                0 => json!({"type": "text", "text": text}),
                1 => json!({"type": "image_url", "image_url": {"url": format!("data:image/png;base64,{text}")}}),
                2 => json!({"type": "image", "source": {"type": "url", "url": text}}),
                3 => json!({"type": "tool_use", "id": text, "name": "t", "input": {"a": text}}),
                4 => json!({"type": "tool_result", "tool_use_id": text, "content": text}),
                5 => json!({"type": "thinking", "thinking": text}),
                6 => json!({"type": text}),
                8 => json!({"type": "document", "source": {"type": "base64", "data": text}}),
                9 => json!({"type": "file", "file": {"file_data": text}}),
                10 => json!({"type": "input_audio", "input_audio": {"data": text}}),
                7 => json!(text),
                _ => json!(null),
            };
            let parts: Vec<Value> = kinds.iter().map(part).collect();
            let body = json!({"messages": [{"role": "user", "content": parts}, {"role": 7}, 3]});
            let counted = of(&body);
            prop_assert_eq!(counted.messages.len(), 3);
            prop_assert!(counted.messages[0].images + counted.messages[0].results <= counted.messages[0].tokens);
        }
    }
}
