//! What each dialect calls the options of a request, and which it has not.

use std::borrow::Cow;
use std::collections::BTreeSet;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

use super::closed::ClosedSchema;
use super::fields::LeftOut;
use super::request::{AnswerForm, FrontChoice, FrontRequest};
use super::{FittedRequest, GatewayDialect};
use crate::engine::{CallTimeouts, ToolChoice};
use crate::host::AttachedFiles;
use crate::host::model::config::ModelConfig;
use crate::host::model::dropped::demands_call;
use crate::host::model::refusals::{RefusedOptions, ServerRefusals};
use crate::host::model::system_role::instructs;
use crate::host::port::{ByteTraffic, ModelRequest};
use crate::session::Message;

/// The highest temperature that Anthropic and Bedrock take.
const MOST_TEMPERATURE: f64 = 1.0;
/// The highest one that all others take.
const MOST_ELSEWHERE: f64 = 2.0;
/// What the user says first where the conversation begins with the model: "the first message must always use the user role" of
/// Anthropic. Those of Gemini and of Bedrock get the same.
const OPENING: &str = "Continue.";
/// What says of the answer that it is JSON, as both dialects of `OpenAI` want it: "'messages' must contain the word 'json' in some
/// form, to use `response_format` of type `json_object`".
const ASKS_JSON: &str = "Answer with JSON.";

/// Options as fields of a body, and those that the dialect has no field for.
#[derive(Default)]
struct FittedOptions {
    fields: Map<String, Value>,
    left_out: Vec<&'static str>,
    /// The keywords of the schema of the answer that the dialect does not have.
    lost: BTreeSet<String>,
    /// Whether the fields say which tool is called: a second word for it would be refused (litellm#36536).
    says_choice: bool,
}

impl FrontRequest {
    /// The request as that model takes it. Of the file only the most tokens of a reply hold, for Anthropic, where the client says none.
    pub(super) fn fitted(
        &self,
        (config, refusals): (&ModelConfig, &ServerRefusals),
        stream: bool,
    ) -> serde_json::Result<FittedRequest> {
        let dialect = GatewayDialect::of(config.provider);
        let mut options = match dialect {
            Some(GatewayDialect::Chat) => self.for_chat(),
            Some(GatewayDialect::Messages) => self.for_messages(),
            Some(GatewayDialect::Responses) => self.for_responses(),
            Some(GatewayDialect::Gemini) => self.for_gemini(),
            // The one that no client speaks is Bedrock's.
            None => self.for_converse(&config.model),
        };
        let mut temperature = self.temperature;
        let is_lower = matches!(dialect, Some(GatewayDialect::Messages) | None);
        let most = if is_lower { MOST_TEMPERATURE } else { MOST_ELSEWHERE };
        if let Some(said) = temperature.filter(|said| !(0.0..=most).contains(said)) {
            temperature = Some(said.clamp(0.0, most));
            options.left_out.push(self.field_names.temperature);
        }
        options.unless(!self.demands_call() || !self.tools.is_empty(), self.field_names.choice);
        let refuses_temperature =
            temperature.is_some() && refusals.options.has(&RefusedOptions::temperature());
        if refuses_temperature {
            temperature = None;
            options.left_out.push(self.field_names.temperature);
        }
        let mut named = self.left_out.clone();
        self.attachments.left_out(config.provider.tool_form).for_each(|field| named.add(field));
        options.lost.iter().for_each(|name| named.add(&format!("{}.{name}", self.field_names.schema)));
        let mut sent = self.leave_out_refused(
            (dialect, temperature.is_some()),
            &refusals.options,
            &mut options.fields,
            &mut named,
        );
        sent.extend(self.shared.write(dialect, &refusals.options, &mut options.fields, &mut named));
        let strict = self.is_strict(dialect, refusals, &mut named);
        let caches = dialect.is_none() && has_cache(&config.model);
        self.cached.names().filter(|_| !caches).for_each(|mark| named.add(mark));
        if strict {
            sent.push(RefusedOptions::strict());
        }
        // Of chat completions the format learns it.
        if temperature.is_some() && dialect != Some(GatewayDialect::Chat) {
            sent.push(RefusedOptions::temperature());
        }
        let asked = self.most_tokens(dialect, config);
        let max_tokens = asked.map(|asked| refusals.limit.lowered(asked));
        options.unless(self.max_tokens.is_none() || max_tokens == asked, self.field_names.max_tokens);
        let config = ModelConfig { stream, temperature, max_tokens, extra: options.fields, ..config.clone() };
        let mut left_out: Vec<String> = named.names().cloned().collect();
        left_out.extend(options.left_out.into_iter().map(str::to_owned));
        let said = self.asked_for_json(dialect, self.said_to(dialect));
        let messages = refusals.system.sent(&said);
        let opened = self.opening(dialect).is_some();
        let mut request = self.neutral(&messages);
        if options.says_choice {
            request.tool_choice = ToolChoice::Auto;
        }
        if dialect.is_none() && self.never_calls() {
            // Converse has no word for it: tools that the history needs are declared all the same, and forbidden.
            request.tools.clear();
        }
        let form = config.provider.tool_form;
        let format = (config.provider.format)(config);
        refusals.teach(&*format);
        let mut body = refusals.demand.left_out_of(format.write(&request)?);
        if dialect == Some(GatewayDialect::Chat) && self.lacks_temperature(&serde_json::from_slice(&body)?) {
            left_out.push(self.field_names.temperature.to_owned());
        }
        if self.demands_call() && !self.tools.is_empty() && !demands_call(&body) {
            left_out.push(self.field_names.choice.to_owned());
        }
        let caches = caches && !self.cached.is_empty();
        if strict || caches || !self.attachments.is_empty() {
            let mut marked = serde_json::from_slice(&body)?;
            self.attachments.put(form, &mut marked);
            if caches {
                self.cached.put(&mut marked);
            }
            if strict {
                self.hold_to_schemas(&mut marked);
            }
            body = serde_json::to_vec(&marked)?;
        }
        Ok(FittedRequest { body, format, left_out, sent, opened, instructs: instructs(&messages) })
    }

    /// Whether the strict tools of the request are strict for that model. Only the dialects of `OpenAI` mean the same by it: the
    /// schemas that others take so are others.
    fn is_strict(
        &self,
        dialect: Option<GatewayDialect>,
        refusals: &ServerRefusals,
        left_out: &mut LeftOut,
    ) -> bool {
        let has_it = matches!(dialect, Some(GatewayDialect::Chat | GatewayDialect::Responses));
        let strict = has_it && refusals.options.takes_strict();
        if !strict && !self.strict.is_empty() {
            left_out.add(self.field_names.strict);
        }
        strict && !self.strict.is_empty()
    }

    /// Marks the strict tools of a body.
    fn hold_to_schemas(&self, body: &mut Value) {
        let tools = body.get_mut("tools").and_then(Value::as_array_mut);
        for tool in tools.into_iter().flatten() {
            // Chat completions have what a function is in a field of its own.
            let function = if tool.get("function").is_some() { &mut tool["function"] } else { tool };
            let name = function.get("name").and_then(Value::as_str);
            if name.is_some_and(|name| self.strict.contains(name)) {
                function["strict"] = true.into();
            }
        }
    }

    /// Where the user has to say something first, as models of that dialect want it.
    fn opening(&self, dialect: Option<GatewayDialect>) -> Option<usize> {
        match dialect {
            Some(GatewayDialect::Chat | GatewayDialect::Responses) => None,
            Some(GatewayDialect::Messages | GatewayDialect::Gemini) | None => self.begun_by_model(),
        }
    }

    /// The conversation. Where a result has no mark of a failure, as in both dialects of `OpenAI`, its text says so.
    fn said_to(&self, dialect: Option<GatewayDialect>) -> Cow<'_, [Message]> {
        if dialect == Some(GatewayDialect::Messages)
            && let Some(first) = self.opening(dialect)
        {
            let mut messages = self.messages.clone();
            messages.insert(first, Message::user(OPENING));
            return Cow::Owned(messages);
        }
        let is_failed = |message: &Message| matches!(message, Message::Tool { error: true, .. });
        let has_mark = !matches!(dialect, Some(GatewayDialect::Chat | GatewayDialect::Responses));
        if has_mark || !self.messages.iter().any(is_failed) {
            return Cow::Borrowed(&self.messages);
        }
        let mut messages = self.messages.clone();
        for message in &mut messages {
            if let Message::Tool { error: true, text, .. } = message {
                *text = if text.trim().is_empty() {
                    "The tool failed and does not say why.".to_owned()
                } else {
                    format!("The tool failed: {text}")
                };
            }
        }
        Cow::Owned(messages)
    }

    /// The conversation with the word JSON in it, where the dialect wants it.
    fn asked_for_json<'m>(
        &self,
        dialect: Option<GatewayDialect>,
        said: Cow<'m, [Message]>,
    ) -> Cow<'m, [Message]> {
        let wants_it = matches!(dialect, Some(GatewayDialect::Chat | GatewayDialect::Responses));
        if !wants_it || self.form != AnswerForm::Json || said.iter().any(names_json) {
            return said;
        }
        let mut messages = said.into_owned();
        match messages.first_mut() {
            Some(Message::System { text }) => *text = format!("{text}\n\n{ASKS_JSON}"),
            _ => messages.insert(0, Message::System { text: ASKS_JSON.to_owned() }),
        }
        Cow::Owned(messages)
    }

    /// The most tokens of the reply. Anthropic alone requires that they are said.
    fn most_tokens(&self, dialect: Option<GatewayDialect>, config: &ModelConfig) -> Option<u32> {
        let required = config.max_tokens.unwrap_or(ModelConfig::MAX_TOKENS);
        self.max_tokens.or_else(|| (dialect == Some(GatewayDialect::Messages)).then_some(required))
    }

    fn neutral<'m>(&'m self, messages: &'m [Message]) -> ModelRequest<'m> {
        let tool_choice = match &self.choice {
            FrontChoice::Auto | FrontChoice::Never => ToolChoice::Auto,
            FrontChoice::Required => ToolChoice::Required,
            FrontChoice::Tool(name) => ToolChoice::Tool(name.clone()),
        };
        ModelRequest {
            messages,
            tools: self.tools.iter().collect(),
            tool_choice,
            max_output: None,
            timeout: None,
            timeouts: CallTimeouts::default(),
            streamed: None,
            traffic: ByteTraffic::default(),
            files: AttachedFiles::default(),
            cancel: CancellationToken::new(),
        }
    }

    /// Whether the model has to call a tool.
    const fn demands_call(&self) -> bool {
        matches!(self.choice, FrontChoice::Required | FrontChoice::Tool(_))
    }

    /// Whether the client asks for a temperature that a chat does not say.
    const fn lacks_temperature(&self, chat: &SentOptions) -> bool {
        self.temperature.is_some() && chat.temperature.is_none()
    }

    fn never_calls(&self) -> bool {
        self.choice == FrontChoice::Never && !self.tools.is_empty()
    }

    fn calls_one(&self) -> bool {
        self.one_call && !self.tools.is_empty()
    }

    fn for_chat(&self) -> FittedOptions {
        let mut options = FittedOptions::default();
        options.set("top_p", self.top_p.map(Value::from));
        options.set("stop", Some(json!(self.stop)).filter(|_| !self.stop.is_empty()));
        options.set("tool_choice", self.never_calls().then(|| json!("none")));
        options.set("parallel_tool_calls", self.calls_one().then(|| json!(false)));
        options.set(
            "response_format",
            match &self.form {
                AnswerForm::Text => None,
                AnswerForm::Json => Some(json!({"type": "json_object"})),
                AnswerForm::Schema { .. } => {
                    Some(json!({"type": "json_schema", "json_schema": self.schema()}))
                }
            },
        );
        options
    }

    fn for_responses(&self) -> FittedOptions {
        let mut options = FittedOptions::default();
        options.set("top_p", self.top_p.map(Value::from));
        options.set("tool_choice", self.never_calls().then(|| json!("none")));
        options.set("parallel_tool_calls", self.calls_one().then(|| json!(false)));
        options.unless(self.stop.is_empty(), self.field_names.stop);
        let format = match &self.form {
            AnswerForm::Text => None,
            AnswerForm::Json => Some(json!({"type": "json_object"})),
            AnswerForm::Schema { .. } => {
                let kind = [("type".to_owned(), json!("json_schema"))];
                Some(kind.into_iter().chain(self.schema()).collect())
            }
        };
        options.set("text", format.map(|format| json!({"format": format})));
        options
    }

    fn for_messages(&self) -> FittedOptions {
        let mut options = FittedOptions::default();
        options.set("top_p", self.top_p.map(Value::from));
        options.set("stop_sequences", Some(json!(self.stop)).filter(|_| !self.stop.is_empty()));
        let choice = match &self.choice {
            FrontChoice::Never => Some(json!({"type": "none"})),
            _ => self.one_call.then(|| self.choice_of_one()),
        };
        options.set("tool_choice", choice.filter(|_| !self.tools.is_empty()));
        match &self.form {
            AnswerForm::Text => {}
            AnswerForm::Json => options.left_out.push(self.field_names.form),
            AnswerForm::Schema { schema, .. } => {
                let schema = options.closed(schema);
                let format = json!({"format": {"type": "json_schema", "schema": schema}});
                options.set("output_config", Some(format));
            }
        }
        options
    }

    fn for_gemini(&self) -> FittedOptions {
        let mut settings = FittedOptions::default();
        settings.set("topP", self.top_p.map(Value::from));
        settings.set("stopSequences", Some(json!(self.stop)).filter(|_| !self.stop.is_empty()));
        if self.form != AnswerForm::Text {
            settings.set("responseMimeType", Some(json!("application/json")));
        }
        if let AnswerForm::Schema { schema, .. } = &self.form {
            settings.set("responseJsonSchema", Some(schema.clone()));
        }
        let mut options = FittedOptions::default();
        options.set("generationConfig", Some(Value::Object(settings.fields)));
        let none = json!({"functionCallingConfig": {"mode": "NONE"}});
        options.set("toolConfig", self.never_calls().then_some(none));
        options.unless(!self.calls_one(), self.field_names.one_call);
        options
    }

    /// Anthropic's `tool_choice` for one call at most.
    fn choice_of_one(&self) -> Value {
        match &self.choice {
            FrontChoice::Auto | FrontChoice::Never => {
                json!({"type": "auto", "disable_parallel_tool_use": true})
            }
            FrontChoice::Required => json!({"type": "any", "disable_parallel_tool_use": true}),
            FrontChoice::Tool(name) => {
                json!({"type": "tool", "name": name, "disable_parallel_tool_use": true})
            }
        }
    }

    fn for_converse(&self, model: &str) -> FittedOptions {
        let mut settings = FittedOptions::default();
        settings.set("topP", self.top_p.map(Value::from));
        settings.set("stopSequences", Some(json!(self.stop)).filter(|_| !self.stop.is_empty()));
        let mut options = FittedOptions::default();
        options.set(
            "inferenceConfig",
            Some(Value::Object(settings.fields)).filter(|fields| *fields != json!({})),
        );
        let wants_one = self.calls_one() && !self.never_calls();
        if wants_one && calls_one(model) {
            let choice = json!({"tool_choice": self.choice_of_one()});
            options.set("additionalModelRequestFields", Some(choice));
            options.says_choice = true;
        }
        options.unless(!wants_one || options.says_choice, self.field_names.one_call);
        match &self.form {
            AnswerForm::Text => {}
            AnswerForm::Json => options.left_out.push(self.field_names.form),
            AnswerForm::Schema { name, schema, .. } => {
                // The schema is a text.
                let schema = json!({"name": name, "schema": options.closed(schema).to_string()});
                let format = json!({"type": "json_schema", "structure": {"jsonSchema": schema}});
                options.set("outputConfig", Some(json!({ "textFormat": format })));
            }
        }
        options
    }

    /// The schema of the answer with its name.
    fn schema(&self) -> Map<String, Value> {
        let mut named = FittedOptions::default();
        if let AnswerForm::Schema { name, schema, strict } = &self.form {
            named.set("name", Some(json!(name)));
            named.set("schema", Some(schema.clone()));
            named.set("strict", strict.map(Value::from));
        }
        named.fields
    }
}

/// What of a chat some servers do not take, which is known of them or was learned.
#[derive(Deserialize)]
struct SentOptions {
    temperature: Option<IgnoredAny>,
}

impl FittedOptions {
    fn set(&mut self, field: &str, value: Option<Value>) {
        if let Some(value) = value {
            self.fields.insert(field.to_owned(), value);
        }
    }

    /// The schema of the answer as models are held to it that want it closed.
    fn closed(&mut self, schema: &Value) -> Value {
        let ClosedSchema { schema, lost } = ClosedSchema::of(schema);
        self.lost = lost;
        schema
    }

    /// The dialect has no such option; nothing is lost if the client did not use it.
    fn unless(&mut self, unused: bool, option: &'static str) {
        if !unused {
            self.left_out.push(option);
        }
    }
}

/// Whether a message has the word JSON, where a server surely looks for it.
fn names_json(message: &Message) -> bool {
    let (Message::System { text } | Message::User { text, .. }) = message else { return false };
    text.to_ascii_lowercase().contains("json")
}

/// Whether that model of Bedrock's has a cache of prompts.
#[cfg(feature = "bedrock")]
fn has_cache(model: &str) -> bool {
    crate::host::model::wire::converse::ModelFamily::of(model).caches
}

#[cfg(not(feature = "bedrock"))]
const fn has_cache(_model: &str) -> bool {
    false
}

/// Whether that model of Bedrock's may be limited to one call.
#[cfg(feature = "bedrock")]
fn calls_one(model: &str) -> bool {
    use crate::host::model::wire::converse::{ModelFamily, OwnChoice};
    ModelFamily::of(model).choice == OwnChoice::Limits
}

#[cfg(not(feature = "bedrock"))]
const fn calls_one(_model: &str) -> bool {
    false
}
