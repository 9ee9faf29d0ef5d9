//! What servers of the chat-completions format do otherwise than `OpenAI`'s, as data: by their addresses, and by the
//! names of models where the model's template decides.
//!
//! The facts are those of the providers' own SDKs and of `pydantic-ai` 2.68, `LiteLLM` 1.109 and the AI SDK; an issue is
//! named where it is the only source. A server that is not known here takes what most take, and its refusals teach the
//! rest ([`LearnedForms`](super::learned::LearnedForms)).

use serde_json::{Map, Value};

use crate::host::model::wire::ids::IdForm;

/// What is known of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own about the server")]
pub(crate) struct ChatServer {
    /// Who serves its models, by the names of OpenTelemetry's conventions; those it has none for are called by the format.
    pub(crate) name: &'static str,
    /// It says how large the windows of its models are, or may.
    pub(crate) tells_window: bool,
    /// The ids of calls it takes.
    pub(crate) call_ids: IdForm,
    /// The field by which it takes the most tokens of a reply.
    pub(crate) max_tokens: MaxTokens,
    /// It takes the old field whatever the model, though some refuse that one elsewhere.
    pub(crate) old_field_only: bool,
    /// It refuses what a user says right after the result of a tool.
    pub(crate) guidance_in_results: bool,
    /// It may leave out why the model stopped.
    pub(crate) finish_optional: bool,
    /// What it takes back of what came with a message; `None`: whatever it was.
    pub(crate) takes_back: Option<&'static [&'static str]>,
    /// Which calls it refuses without the reasoning before them.
    pub(crate) reasoning: ReasoningRule,
    /// Parts of the names of its models that always think.
    pub(crate) thinkers: &'static [&'static str],
    /// When it takes a request that demands a call.
    pub(crate) forced_calls: ForcedCalls,
    /// It refuses what a system says behind the beginning, which is sent as what a user says.
    pub(crate) system_first: bool,
    /// It takes documents in the parts of a message, if its models do.
    pub(crate) documents: bool,
    /// Options that it refuses.
    pub(crate) refuses: RefusedOptions,
}

/// The field that sets the most tokens of a reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum MaxTokens {
    /// As most servers call it.
    #[default]
    Old,
    /// As `OpenAI` calls it since o1, whose models refuse the other.
    New,
}

/// Which calls go back with reasoning, an empty one where none is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ReasoningRule {
    /// Those that came with it.
    #[default]
    AsItCame,
    /// All, if one came with it.
    IfAny,
    /// All.
    Always,
}

/// When a request may demand a call (`tool_choice`). Where it may not, the model chooses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ForcedCalls {
    #[default]
    Always,
    /// While the model does not think, which it does if nothing is said.
    UnlessThinking,
    /// The same, of a model that thinks only if it is asked to.
    UnlessAskedToThink,
    Never,
}

/// Options of the agent's own that a server has refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RefusedOptions {
    pub(crate) temperature: bool,
    pub(crate) stream_options: bool,
}

impl ForcedCalls {
    /// Whether it may with these fields, which say to `DeepSeek` and Qwen whether to think.
    pub(crate) fn are_taken(self, extra: &Map<String, Value>) -> bool {
        let by_kind = extra.get("thinking").and_then(|thinking| thinking.get("type")).and_then(Value::as_str);
        let by_flag = extra.get("enable_thinking").and_then(Value::as_bool);
        let said = by_flag.or_else(|| by_kind.map(|kind| kind != "disabled"));
        match self {
            Self::Always => true,
            Self::UnlessThinking => said == Some(false),
            Self::UnlessAskedToThink => said != Some(true),
            Self::Never => false,
        }
    }
}

impl MaxTokens {
    pub(crate) const fn field(self) -> &'static str {
        match self {
            Self::Old => "max_tokens",
            Self::New => "max_completion_tokens",
        }
    }
}

/// Most servers.
const PLAIN: ChatServer = ChatServer {
    name: "openai",
    tells_window: true,
    call_ids: IdForm::Any,
    max_tokens: MaxTokens::Old,
    old_field_only: false,
    guidance_in_results: false,
    finish_optional: false,
    takes_back: None,
    reasoning: ReasoningRule::AsItCame,
    thinkers: &[],
    forced_calls: ForcedCalls::Always,
    system_first: false,
    documents: true,
    refuses: RefusedOptions { temperature: false, stream_options: false },
};

/// `OpenAI`: an id is refused from 41 characters on (langgenius/dify#28987), and so is a field it does not know.
const OPENAI: ChatServer = ChatServer {
    tells_window: false,
    call_ids: IdForm::Word { also: "_-", most: 40 },
    max_tokens: MaxTokens::New,
    takes_back: Some(&["refusal", "audio", "name", "function_call"]),
    ..PLAIN
};

/// Azure takes the old field for all but the newer models of `OpenAI`, and no documents (`pydantic-ai`, `providers/azure.py`).
const AZURE: ChatServer =
    ChatServer { name: "azure.ai.openai", max_tokens: MaxTokens::Old, documents: false, ..OPENAI };

/// Mistral: its template raises on other ids (nearai/ironclaw#1241), its API on other fields and on a user's word after a
/// result.
const MISTRAL: ChatServer = ChatServer {
    name: "mistral_ai",
    call_ids: IdForm::Nine,
    guidance_in_results: true,
    takes_back: Some(&["prefix"]),
    ..PLAIN
};

/// `DeepSeek` and Moonshot want the reasoning back with every call of a model that thinks (rikkahub/rikkahub#1690,
/// continuedev/continue#11600).
const REASONING: ChatServer = ChatServer {
    reasoning: ReasoningRule::IfAny,
    thinkers: &["reasoner", "thinking", "deepseek-v4", "deepseek-flash"],
    ..PLAIN
};

/// `DeepSeek` passes over the new field without a word.
const DEEPSEEK: ChatServer =
    ChatServer { name: "deepseek", tells_window: false, old_field_only: true, ..REASONING };

/// Moonshot's models take no demand: those that think refuse both forms of it ("`tool_choice` 'required' is incompatible with
/// thinking enabled", `35-moonshot.toml` of harn-vm), the others do not know `required` (`LiteLLM`, `moonshot`).
const MOONSHOT: ChatServer = ChatServer { forced_calls: ForcedCalls::Never, ..REASONING };

/// Alibaba's: no call can be demanded of a model that thinks (cloudwego/eino#994), and there are no documents (`pydantic-ai`,
/// `providers/alibaba.py`).
const QWEN: ChatServer = ChatServer {
    forced_calls: ForcedCalls::UnlessAskedToThink,
    thinkers: &["thinking", "qwq"],
    documents: false,
    ..PLAIN
};

/// Workers AI: "System message must be at the beginning" (anomalyco/opencode#46481).
const CLOUDFLARE: ChatServer = ChatServer { system_first: true, ..PLAIN };

/// Groq and Cerebras refuse the fields of others: `property 'reasoning_content' is unsupported`.
const GROQ: ChatServer = ChatServer { takes_back: Some(&["reasoning", "name", "function_call"]), ..PLAIN };

/// Bedrock's own form of ids.
const BEDROCK: ChatServer = ChatServer { call_ids: IdForm::Word { also: "_.:-", most: 64 }, ..PLAIN };

/// Streams that end without a reason: Claude behind Snowflake's Cortex (`pydantic-ai`, `models/snowflake.py`), calls behind
/// NVIDIA's NIM (earendil-works/pi#6226), `OpenCode`'s gateway (anomalyco/opencode#43882).
const WITHOUT_REASON: ChatServer = ChatServer { finish_optional: true, ..PLAIN };

/// GitHub Copilot refuses the old field.
const COPILOT: ChatServer = ChatServer { max_tokens: MaxTokens::New, ..PLAIN };

/// `OpenRouter` documents no other field than the old one.
const OPENROUTER: ChatServer = ChatServer { name: "openrouter", old_field_only: true, ..PLAIN };

/// Servers by the ends of their addresses.
const BY_HOST: &[(&str, ChatServer)] = &[
    ("openai.com", OPENAI),
    ("openai.azure.com", AZURE),
    ("cognitiveservices.azure.com", AZURE),
    ("services.ai.azure.com", ChatServer { tells_window: true, ..AZURE }),
    ("mistral.ai", MISTRAL),
    ("deepseek.com", DEEPSEEK),
    ("moonshot.ai", MOONSHOT),
    ("moonshot.cn", MOONSHOT),
    ("kimi.com", MOONSHOT),
    ("aliyuncs.com", QWEN),
    ("cloudflare.com", CLOUDFLARE),
    ("cohere.ai", ChatServer { name: "cohere", ..PLAIN }),
    ("cohere.com", ChatServer { name: "cohere", ..PLAIN }),
    ("groq.com", ChatServer { name: "groq", ..GROQ }),
    ("cerebras.ai", GROQ),
    ("amazonaws.com", BEDROCK),
    ("snowflakecomputing.com", WITHOUT_REASON),
    ("api.nvidia.com", WITHOUT_REASON),
    ("opencode.ai", WITHOUT_REASON),
    ("githubcopilot.com", COPILOT),
    ("generativelanguage.googleapis.com", ChatServer { name: "gcp.gemini", tells_window: false, ..PLAIN }),
    ("aiplatform.googleapis.com", ChatServer { name: "gcp.vertex_ai", ..PLAIN }),
    ("x.ai", ChatServer { name: "x_ai", ..PLAIN }),
    ("openrouter.ai", OPENROUTER),
];
/// How the names of `DeepSeek`'s models begin that think unless a request says otherwise, and refuse a demand then, whoever serves them
/// (deepseek-ai/DeepSeek-V3#1376; `pydantic-ai`, `providers/together.py`).
const DEEPSEEKS: &[&str] = &["deepseek-reasoner", "deepseek-v4", "deepseek-flash"];
/// How the names of Qwen's models begin of which no call can be demanded (`pydantic-ai`, `profiles/qwen.py`).
const QWEN_CODERS: &str = "qwen-3-coder";
/// How the names of Mistral's models begin: their template asks for its ids wherever it runs.
const MISTRALS: &[&str] = &[
    "mistral",
    "ministral",
    "mixtral",
    "codestral",
    "devstral",
    "magistral",
    "pixtral",
    "voxtral",
    "open-mistral",
    "open-mixtral",
    "labs-mistral",
    "labs-devstral",
];

/// The ends of the addresses of the servers that are known.
#[cfg(all(test, feature = "serve"))]
pub(crate) fn known_hosts() -> impl Iterator<Item = &'static str> {
    BY_HOST.iter().map(|(host, _)| *host)
}

impl Default for ChatServer {
    fn default() -> Self {
        PLAIN
    }
}

impl ChatServer {
    /// What is known of the server at that address, for that model.
    pub(crate) fn of(host: &str, model: &str) -> Self {
        // The whole name or one below it: `notopenai.com` is somebody else's.
        let ends = |end: &str| host == end || host.strip_suffix(end).is_some_and(|rest| rest.ends_with('.'));
        let mut server = BY_HOST.iter().find(|(end, _)| ends(end)).map_or(PLAIN, |(_, server)| *server);
        // Routers write the provider before the name: `mistralai/Mistral-Small`.
        let name = model.rsplit('/').next().unwrap_or_default().to_ascii_lowercase();
        if MISTRALS.iter().any(|begin| name.starts_with(begin)) {
            server.call_ids = IdForm::Nine;
            server.max_tokens = MaxTokens::Old;
        } else if wants_new_field(&name) && !server.old_field_only {
            server.max_tokens = MaxTokens::New;
        }
        let thinks = server.thinkers.iter().any(|part| name.contains(part));
        if name.starts_with(QWEN_CODERS) {
            server.forced_calls = ForcedCalls::Never;
        } else if DEEPSEEKS.iter().any(|begin| name.starts_with(begin))
            || (thinks && server.forced_calls == ForcedCalls::UnlessAskedToThink)
        {
            server.forced_calls = ForcedCalls::UnlessThinking;
        }
        // A model that always thinks wants the field even where no call came with one.
        if thinks && server.reasoning == ReasoningRule::IfAny {
            server.reasoning = ReasoningRule::Always;
        }
        server
    }
}

/// Whether a model is one of `OpenAI`'s that refuse `max_tokens`: o1, o3, o4 and GPT-5 and later. Azure calls an old one
/// `gpt-35-turbo`.
fn wants_new_field(name: &str) -> bool {
    let number = |rest: &str| {
        let digits = rest.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
        let ends = rest
            .get(digits.len()..)
            .is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_alphanumeric()));
        digits.parse::<u32>().ok().filter(|_| ends)
    };
    let reasons = name.strip_prefix('o').and_then(number).is_some();
    reasons
        || name.strip_prefix("gpt-").and_then(number).is_some_and(|generation| (5..30).contains(&generation))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_newer_field_goes_to_those_that_refuse_the_older_one() {
        for (host, model, field) in [
            ("api.openai.com", "gpt-4o", MaxTokens::New),
            ("eu.api.openai.com", "gpt-5.6-mini", MaxTokens::New),
            ("notopenai.com", "gpt-4o", MaxTokens::Old),
            ("res.openai.azure.com", "gpt-4o", MaxTokens::Old),
            ("res.openai.azure.com", "o3-mini", MaxTokens::New),
            ("res.services.ai.azure.com", "Mistral-Large-3", MaxTokens::Old),
            ("localhost", "openai/gpt-6-astra", MaxTokens::New),
            ("localhost", "gpt-oss-120b", MaxTokens::Old),
            ("localhost", "gpt-35-turbo", MaxTokens::Old),
            ("localhost", "olmo-2", MaxTokens::Old),
            ("openrouter.ai", "openai/gpt-5", MaxTokens::Old),
            ("api.deepseek.com", "deepseek-chat", MaxTokens::Old),
            ("api.githubcopilot.com", "claude-sonnet-4.5", MaxTokens::New),
        ] {
            assert_eq!(ChatServer::of(host, model).max_tokens, field, "{host} {model}");
        }
    }

    #[test]
    fn mistrals_template_asks_for_its_ids_wherever_it_runs() {
        for (host, model) in [
            ("api.mistral.ai", "zai-glm-5-3"),
            ("localhost", "mistralai/Mistral-Small-3.2-24B"),
            ("127.0.0.1", "devstral-2512"),
            ("openrouter.ai", "mistralai/mistral-large"),
        ] {
            assert_eq!(ChatServer::of(host, model).call_ids, IdForm::Nine, "{host} {model}");
        }
        assert_eq!(ChatServer::of("localhost", "kimi-k2").call_ids, IdForm::Any);
    }

    #[test]
    fn a_call_is_demanded_where_it_may_be() {
        let off = json!({"thinking": {"type": "disabled"}});
        let (on, no) = (json!({"enable_thinking": true}), json!({"enable_thinking": false}));
        for (host, model, extra, taken) in [
            ("api.openai.com", "gpt-5", &on, true),
            ("api.moonshot.ai", "kimi-k2.6", &off, false),
            ("api.moonshot.cn", "moonshot-v1-8k", &json!({}), false),
            ("api.deepseek.com", "deepseek-v4-flash", &json!({}), false),
            ("api.deepseek.com", "deepseek-v4-flash", &off, true),
            ("api.deepseek.com", "deepseek-chat", &json!({}), true),
            ("openrouter.ai", "deepseek/deepseek-v4-pro", &json!({}), false),
            ("dashscope.aliyuncs.com", "qwen3-max", &json!({}), true),
            ("dashscope-intl.aliyuncs.com", "qwen3.5-plus", &on, false),
            ("dashscope.aliyuncs.com", "qwen3-30b-a3b-thinking-2507", &json!({}), false),
            ("dashscope.aliyuncs.com", "qwq-plus", &no, true),
            ("api.cerebras.ai", "qwen-3-coder-480b", &json!({}), false),
        ] {
            let extra = extra.as_object().unwrap();
            assert_eq!(
                ChatServer::of(host, model).forced_calls.are_taken(extra),
                taken,
                "{host} {model} {extra:?}"
            );
        }
    }

    #[test]
    fn a_server_that_ends_without_a_reason_is_known_by_its_address() {
        assert!(ChatServer::of("acme.snowflakecomputing.com", "claude-4-sonnet").finish_optional);
        assert!(ChatServer::of("integrate.api.nvidia.com", "z-ai/glm-5.1").finish_optional);
        assert!(!ChatServer::of("api.openai.com", "gpt-4o").finish_optional);
    }
}
