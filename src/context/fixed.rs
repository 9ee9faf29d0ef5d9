//! The documented overhead that providers add to each request.

use serde_json::Value;

use super::counter::TokenCounter;
use crate::engine::RequestOverhead;

/// The properties of a request that determine its overhead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "facts that go together in any way")]
pub(super) struct RequestShape {
    /// The request enables thinking.
    thinking: bool,
    /// The request requires a reply that follows a schema.
    schema: bool,
    /// The request declares tools.
    tools: bool,
    /// The model must call a tool.
    forced: bool,
    /// The request has its own instructions.
    system: bool,
}

impl RequestShape {
    pub(super) fn of(body: &Value, messages: &[Value]) -> Self {
        let choice = body.get("tool_choice");
        let kind = choice.and_then(|choice| choice.as_str().or_else(|| choice.get("type")?.as_str()));
        let role = messages.first().and_then(|first| first.get("role")?.as_str());
        let thinking = body.get("thinking").and_then(|thinking| thinking.get("type")?.as_str());
        Self {
            thinking: matches!(thinking, Some("enabled" | "adaptive")),
            schema: reply_schema(body).is_some(),
            tools: body.get("tools").and_then(Value::as_array).is_some_and(|tools| !tools.is_empty()),
            forced: matches!(kind, Some("any" | "tool" | "required" | "function")),
            system: body.get("system").is_some() || matches!(role, Some("system" | "developer")),
        }
    }
}

/// The schema for the reply, which models see. Sources: "Structured model outputs", platform.openai.com
/// (`response_format`); "Structured outputs", platform.claude.com (`output_config`, before it `output_format`).
pub(super) fn reply_schema(body: &Value) -> Option<&Value> {
    let chat = body.get("response_format").and_then(|format| format.get("json_schema"));
    let messages = body.get("output_config").and_then(|config| config.get("format"));
    chat.or(messages).or_else(|| body.get("output_format"))?.get("schema")
}

/// Anthropic's system prompt for the use of tools: the start of a model's name, its tokens with the tool choices
/// `auto` and `none`, and with `any` and `tool`. The first match counts. Source: the table "Tool use system prompt
/// token count" of "Tool use with Claude", platform.claude.com; for the models of 2024 the same table at
/// docs.anthropic.com. Of two it has one number only: they refuse `any` and `tool`.
const CLAUDE: [(&str, u64, u64); 22] = [
    ("claude-opus-5-5", 286, 286),
    ("claude-opus-5", 286, 406),
    ("claude-opus-4-8", 290, 410),
    ("claude-opus-4-7", 675, 804),
    ("claude-opus-4-6", 497, 589),
    ("claude-opus-4-5", 496, 588),
    ("claude-opus-4-1", 313, 315),
    ("claude-opus-4", 313, 315),
    ("claude-sonnet-5-5", 286, 286),
    ("claude-sonnet-5", 354, 474),
    ("claude-sonnet-4-6", 497, 589),
    ("claude-sonnet-4-5", 496, 588),
    ("claude-sonnet-4", 313, 315),
    ("claude-haiku-5-5", 286, 406),
    ("claude-haiku-4-5", 496, 588),
    ("claude-3-7-sonnet", 346, 313),
    ("claude-3-5-sonnet-20240620", 294, 261),
    ("claude-3-5-sonnet", 346, 313),
    ("claude-3-5-haiku", 264, 340),
    ("claude-3-opus", 530, 281),
    ("claude-3-sonnet", 159, 235),
    ("claude-3-haiku", 264, 340),
];
/// The same, assumed of a Claude model that the table lacks: what it said of most models of 2025.
const OTHER_CLAUDE: (u64, u64) = (346, 313);

/// The system prompt for `thinking`: measured, as it is not documented.
const CLAUDE_THINKING: u64 = 28;
/// The system prompt that explains the format of a reply with a schema, without the schema: measured. "Structured
/// outputs", platform.claude.com, documents that it exists.
const CLAUDE_SCHEMA: u64 = 110;
/// The Claude models that only see the thinking of the current turn; later models see all of it. Source: "Extended
/// thinking", platform.claude.com.
const FORGETS_THINKING: [&str; 8] = [
    "claude-3",
    "claude-haiku",
    "claude-opus-4-0",
    "claude-opus-4-1",
    "claude-opus-4-2025",
    "claude-sonnet-4-0",
    "claude-sonnet-4-2025",
    "claude-sonnet-4-5",
];

/// Every reply is primed with `<|start|>assistant<|message|>`. Source: "How to count tokens with tiktoken", `OpenAI` cookbook.
/// The other formats begin a reply with about as much.
const PRIMING: u64 = 3;
/// `<|im_start|>system`, "You are Qwen, created by Alibaba Cloud. You are a helpful assistant.", `<|im_end|>`: for
/// requests without instructions. Source: the chat template of Qwen2.5-Instruct.
const QWEN: u64 = 21;
/// The system message with the dates, before the instructions. Source: the chat template of Llama-3.1-Instruct.
const LLAMA: u64 = 26;
/// The line about the environment, and the format of a call. Source: as above.
const LLAMA_TOOLS: u64 = 60;
/// The system message with the dates, the effort and the channels. Source: "`OpenAI` harmony response format", `OpenAI` cookbook.
const HARMONY: u64 = 61;
/// Its line about the channel of calls. Source: as above.
const HARMONY_TOOLS: u64 = 14;

/// The tokens that the provider of a model adds to a request; 0 if undocumented.
pub(super) fn fixed_tokens(model: &str, shape: RequestShape) -> u64 {
    let name = plain(model);
    let tools = |tokens: u64| if shape.tools { tokens } else { 0 };
    // Bedrock and Vertex add words before the name: `us.anthropic.claude-sonnet-4-5`.
    if let Some(claude) = name.find("claude").and_then(|at| name.get(at..)) {
        let (free, forced) = claude_tools(claude).unwrap_or(OTHER_CLAUDE);
        let prompt = if shape.forced { forced } else { free };
        let thinking = if shape.thinking { CLAUDE_THINKING } else { 0 };
        let schema = if shape.schema { CLAUDE_SCHEMA } else { 0 };
        return [tools(prompt), thinking, schema, PRIMING].into_iter().fold(0, u64::saturating_add);
    }
    if name.starts_with("gpt-oss") {
        return HARMONY.saturating_add(tools(HARMONY_TOOLS)).saturating_add(PRIMING);
    }
    if let Some(rules) = signature_rules(model) {
        return tools(rules.end).saturating_add(PRIMING);
    }
    if ["llama-3.1", "llama-3.2", "llama-3.3", "llama3.1", "llama3.2", "llama3.3"]
        .iter()
        .any(|llama| name.contains(llama))
    {
        return LLAMA.saturating_add(tools(LLAMA_TOOLS)).saturating_add(PRIMING);
    }
    if name.starts_with("qwen2.5") || name.starts_with("qwen-2.5") {
        return if shape.system { PRIMING } else { QWEN.saturating_add(PRIMING) };
    }
    0
}

/// What the table has of a model, by its name without server.
fn claude_tools(name: &str) -> Option<(u64, u64)> {
    CLAUDE.iter().find_map(|(begins, free, forced)| {
        let rest = name.strip_prefix(begins)?;
        (!is_another_version(rest)).then_some((*free, *forced))
    })
}

/// Whether the rest of a name makes it that of another version: `-5` does, and neither a date nor `-0`.
fn is_another_version(rest: &str) -> bool {
    let Some(rest) = rest.strip_prefix('-') else {
        return rest.starts_with(|c: char| c.is_ascii_alphanumeric());
    };
    let word = rest.split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or_default();
    word.parse::<u8>().is_ok_and(|number| number > 0)
}

/// Whether a model sees its thinking of earlier turns.
pub(super) fn sees_earlier_thinking(model: &str) -> bool {
    let name = plain(model);
    let claude = name.find("claude").and_then(|at| name.get(at..)).unwrap_or_default();
    !FORGETS_THINKING.iter().any(|begins| claude.starts_with(begins))
}

/// The documented overhead per request of a model's provider, or what is assumed of a Claude model without documentation; `None`:
/// unknown. `system`: whether the requests have instructions.
///
/// ```
/// use unfazed::context::overhead;
/// let claude = overhead("claude-sonnet-4-5", true).unwrap_or_default();
/// assert_eq!((claude.of(false), claude.of(true)), (3, 499));
/// assert_eq!(overhead("unknown-model", true), None);
/// ```
pub fn overhead(model: &str, system: bool) -> Option<RequestOverhead> {
    let fixed = |tools| fixed_tokens(model, RequestShape { tools, system, ..RequestShape::default() });
    let request = fixed(false);
    let overhead = RequestOverhead { request, tools: fixed(true).saturating_sub(request) };
    (overhead != RequestOverhead::default()).then_some(overhead)
}

/// The source of the overhead of a model, and the date it was read; `None`: undocumented.
pub(crate) fn overhead_source(model: &str) -> Option<&'static str> {
    let name = plain(model);
    if let Some(claude) = name.find("claude").and_then(|at| name.get(at..)) {
        claude_tools(claude).map(|_| "\"Tool use with Claude\", platform.claude.com, 2026-11")
    } else if name.starts_with("gpt-oss") {
        Some("\"OpenAI harmony response format\", OpenAI cookbook, 2026-11")
    } else if signature_rules(model).is_some() {
        Some("\"How to count tokens with tiktoken\", OpenAI cookbook, 2026-11")
    } else {
        overhead(model, true).map(|_| "the chat template of the model, 2026-11")
    }
}

/// The model name without its server, in lower case, with hyphens instead of dots.
fn plain(model: &str) -> String {
    let name = model.rsplit('/').next().unwrap_or(model).to_lowercase();
    if name.contains("claude") { name.replace('.', "-") } else { name }
}

/// The rules for models that see tools as function signatures. Source: `num_tokens_for_tools` of "How to count tokens
/// with tiktoken", `OpenAI` cookbook, which uses these names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SignatureRules {
    /// `func_init`.
    function: u64,
    /// `func_end`.
    end: u64,
}

/// The start of a reply that must call one function, without its name: measured.
pub(super) const FORCED: u64 = 7;

/// `prop_init`, `prop_key` and `enum_item`; `enum_init` is minus this value.
const PROPERTY: u64 = 3;

/// The further tokens for GPT-5 models if there are tools: all of 25 reported usages, with one to three tools, are
/// higher by 81 to 88. Undocumented.
const GPT_5_TOOLS: u64 = 83;

/// The rules of a model, if it is an `OpenAI` model.
pub(super) fn signature_rules(model: &str) -> Option<SignatureRules> {
    let name = plain(model);
    let name = name.strip_prefix("ft:").unwrap_or(&name);
    // The first models with tools have more tokens around each function: 10, later 7.
    let first = ["gpt-3.5", "gpt-35"].iter().any(|begins| name.starts_with(begins))
        || name == "gpt-4"
        || ["gpt-4-", "gpt-4:"].iter().any(|begins| name.starts_with(begins));
    let known =
        ["gpt-4", "gpt-5", "chatgpt-", "o1", "o3", "o4-"].iter().any(|begins| name.starts_with(begins));
    let end = if name.starts_with("gpt-5") { 12 + GPT_5_TOOLS } else { 12 };
    (first || known).then_some(SignatureRules { function: if first { 10 } else { 7 }, end })
}

impl SignatureRules {
    /// The tokens of a function declaration.
    pub(super) fn tokens(self, counter: &dyn TokenCounter, function: &Value) -> u64 {
        let text = |value: &Value, field: &str| {
            value.get(field).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        // The cookbook also leaves out the full stop at the end.
        let described = |value: &Value| text(value, "description").trim_end_matches('.').to_owned();
        let head = format!("{}:{}", text(function, "name"), described(function));
        let mut tokens = self.function.saturating_add(counter.count(&head));
        // Nested objects are shown like the outermost one. A list instead of recursion, because a schema may have any
        // depth.
        let mut open: Vec<&Value> = function.get("parameters").into_iter().collect();
        while let Some(schema) = open.pop() {
            open.extend(schema.get("items"));
            let shared =
                ["$defs", "definitions"].into_iter().filter_map(|field| schema.get(field)?.as_object());
            open.extend(shared.flat_map(|shared| shared.values()));
            let choices =
                ["anyOf", "oneOf", "allOf"].into_iter().filter_map(|field| schema.get(field)?.as_array());
            open.extend(choices.flatten());
            let Some(properties) = schema.get("properties").and_then(Value::as_object) else { continue };
            if !properties.is_empty() {
                tokens = tokens.saturating_add(PROPERTY);
            }
            for (name, property) in properties {
                let line = format!("{name}:{}:{}", text(property, "type"), described(property));
                let values = property.get("enum").and_then(Value::as_array);
                let values = values.map_or(0, |values| of_enum(counter, values));
                tokens =
                    [PROPERTY, counter.count(&line), values].into_iter().fold(tokens, u64::saturating_add);
                open.push(property);
            }
        }
        tokens
    }
}

fn of_enum(counter: &dyn TokenCounter, values: &[Value]) -> u64 {
    let each = values.iter().map(|value| {
        let tokens =
            value.as_str().map_or_else(|| counter.count(&value.to_string()), |text| counter.count(text));
        tokens.saturating_add(PROPERTY)
    });
    each.fold(0, u64::saturating_add).saturating_sub(PROPERTY)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn fixed(model: &str, body: &Value) -> u64 {
        fixed_tokens(model, RequestShape::of(body, body["messages"].as_array().map_or(&[], Vec::as_slice)))
    }

    #[test]
    fn each_provider_adds_what_it_documents() {
        let none = json!({"messages": [{"role": "user"}]});
        let tools = json!({"tools": [{}], "messages": [{"role": "system"}]});
        let forced = json!({"tools": [{}], "tool_choice": {"type": "any"}, "messages": []});
        for (model, expected) in [
            ("gpt-4o-mini", (3, 15, 15)),
            ("openai/gpt-4.1", (3, 15, 15)),
            ("claude-sonnet-4-5-20250929", (3, 499, 591)),
            ("anthropic/claude-sonnet-4.5", (3, 499, 591)),
            ("us.anthropic.claude-3-5-haiku-20241022-v1:0", (3, 267, 343)),
            ("claude-3-5-sonnet-20240620", (3, 297, 264)),
            ("claude-opus-5-5", (3, 289, 289)),
            ("claude-haiku-5.5", (3, 289, 409)),
            ("claude-foo-9", (3, 349, 316)),
            ("openai/gpt-oss-120b", (64, 78, 78)),
            ("llama-3.3-70b-versatile", (29, 89, 89)),
            ("Qwen/Qwen2.5-7B-Instruct", (24, 3, 24)),
            ("mistral-large-latest", (0, 0, 0)),
        ] {
            let found = (fixed(model, &none), fixed(model, &tools), fixed(model, &forced));
            assert_eq!(found, expected, "{model}");
        }
    }

    #[test]
    fn an_assumption_has_no_source() {
        for model in [
            "claude-opus-5",
            "claude-opus-5@20260801",
            "global.anthropic.claude-sonnet-5-5",
            "claude-opus-4-0",
            "claude-opus-4.1",
            "claude-sonnet-4-20250514",
            "anthropic.claude-3-haiku-20240307-v1:0",
            "claude-haiku-4-5-latest",
        ] {
            assert!(overhead_source(model).is_some(), "{model}");
        }
        for model in [
            "claude-foo-9",
            "claude-fable-5",
            "claude-mythos-5-1",
            "claude-opus-5-6",
            "claude-opus-4-9-20270101",
            "claude-sonnet-50",
            "claude",
        ] {
            assert_eq!(overhead_source(model), None, "{model}");
            assert_eq!(overhead(model, true).unwrap().tools, OTHER_CLAUDE.0, "{model}");
        }
    }

    #[test]
    fn no_row_is_hidden_by_one_before_it() {
        for (at, (name, ..)) in CLAUDE.iter().enumerate() {
            assert!(CLAUDE[..at].iter().all(|(before, ..)| !name.starts_with(before)), "{name}");
        }
    }
}
