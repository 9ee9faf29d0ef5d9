//! Test files: what a person writes to say how a policy is to behave.

use core::num::NonZeroU32;

use indexmap::IndexMap;
use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::Value;

use super::answered::TimedAnswer;
use super::expect::CaseExpectations;
use super::inline::InlinePolicy;
use super::lenient::LenientPart;
use super::message::MessageCase;
use super::outcome::OutcomeRule;
use super::proves::{ByDocument, ElsewhereRule, FittingWords, StatementList, UnmetRule};
use super::tokens::CaseTokens;
use crate::engine::PlannerDecision;
use crate::host::scripted::ReplyFile;
use crate::policy::decode::{Decode, NodeReader, OneOrMany, Spanned, VersionOne, choice_of, record};
use crate::policy::{CallOverride, Effect, WrittenSchema};
use crate::text::yaml::YamlNode;
use crate::text::{Code, Diagnostic};
use crate::time::{Instant, Nanos};

record! {
    /// Cases that say how policies behave, run by `unfazed test` in virtual time.
    #[part(true)]
    pub(crate) struct TestFile {
        /// The version of this format.
        pub(crate) version: VersionOne,
        /// What the cases are about, for readers.
        /// Example: `How prices are looked up when the shop is slow.`
        pub(crate) about: Option<String>,
        /// The policy files, the later ones above the earlier ones; paths start at this file's folder.
        /// Example: `policy.yaml`
        pub(crate) policy: LenientPart<OneOrMany<Spanned<String>>> = LenientPart(Some(OneOrMany(Vec::new()))),
        /// A policy written here, above the files. `version` may be left out.
        pub(crate) inline: LenientPart<Option<InlinePolicy>>,
        /// The profile of the policy that is chosen.
        /// Example: `night`
        pub(crate) profile: Option<Spanned<String>>,
        /// The tools, by name.
        /// Example: `{"search": {"effect": "read_only"}}`
        pub(crate) tools: LenientPart<IndexMap<String, ToolCase>> = LenientPart(Some(IndexMap::new())),
        /// The documents whose statements are proved, and what they are. If any test file says so, there are no others.
        /// Example: `{"handbook": "How our agents treat the shop."}`
        pub(crate) documents: ByDocument<FittingWords>,
        /// Statements that no case can show, and the tests of programs that do.
        /// Example: `[{"document": "handbook", "statement": "a session survives a kill", "file": "../kill.rs", "test": "a_kill"}]`
        pub(crate) tested_elsewhere: Vec<ElsewhereRule> = Vec::new(),
        /// Statements of documents that do not hold, or that no policy can say.
        /// Example: `[{"document": "handbook", "statement": "a failure is classified by mail", "result": "not_expressible", "because": "nothing here sends mail"}]`
        pub(crate) unmet: Vec<UnmetRule> = Vec::new(),
        /// The cases.
        /// Example: `[{"name": "a search that succeeds", "tool": "search", "outcomes": ["ok"], "expect": {"attempts": 1}}]`
        pub(crate) cases: Spanned<Vec<Spanned<LenientPart<CaseRule>>>>,
    }
}

record! {
    /// A case: what happens to an agent, and what the policy is expected to make of it. It is one call of a tool
    /// (`tool`), several of them one after the other (`calls`), or a run with a scripted model (`replies` or
    /// `script`).
    pub(crate) struct CaseRule {
        /// What the case shows, in a few words.
        /// Example: `two failures, then a result`
        pub(crate) name: Spanned<String>,
        /// The situation in words, for readers.
        /// Example: `The shop answers slowly twice.`
        pub(crate) given: Option<String>,
        /// The statements it proves, by the documents that make them.
        /// Example: `{"handbook": "a tool that failed three times is not run a fourth time"}`
        pub(crate) proves: ByDocument<StatementList>,
        /// A policy for this case, above that of the file.
        pub(crate) inline: Option<InlinePolicy>,
        /// The profile that is chosen, instead of that of the file.
        /// Example: `night`
        pub(crate) profile: Option<Spanned<String>>,
        /// The tool that is called.
        /// Example: `search`
        pub(crate) tool: Option<Spanned<String>>,
        /// The arguments of the call: a mapping, or a string that is taken as the model wrote it, be it JSON or not.
        /// Example: `{"query": "price of item 42"}`
        pub(crate) arguments: Option<Spanned<Value>>,
        /// How the runs of the tool end, in order.
        /// Example: `["timeout x2", "ok"]`
        pub(crate) outcomes: Option<Spanned<Vec<OutcomeRule>>>,
        /// Several calls, one after the other.
        /// Example: `[{"tool": "search", "outcomes": ["ok"]}]`
        pub(crate) calls: Option<Spanned<Vec<Spanned<CallCase>>>>,
        /// What the model replies, in order, as in a script of the scripted model.
        /// Example: `[{"text": "The price is 12.50."}]`
        pub(crate) replies: Option<Spanned<Vec<Spanned<ReplyFile>>>>,
        /// A script file instead of `replies`; the path starts at this file's folder.
        /// Example: `model.yaml`
        pub(crate) script: Option<Spanned<String>>,
        /// The models of the run, in order of preference. Left out: one called `main`.
        /// Example: `["main", "spare"]`
        pub(crate) models: Vec<String> = Vec::new(),
        /// How large the windows of the models are, as their servers say.
        /// Example: `{"main": 8192}`
        pub(crate) windows: IndexMap<String, NonZeroU32> = IndexMap::new(),
        /// Instructions above the conversation.
        /// Example: `You look up prices.`
        pub(crate) system: String = String::new(),
        /// The conversation there was before, in the form that the session keeps; the arguments of its calls may be
        /// mappings. The task continues with it.
        /// Example: `[{"role": "user", "text": "What does item 41 cost?"}]`
        pub(crate) history: Option<Spanned<Vec<MessageCase>>>,
        /// What the user wants.
        /// Example: `What does item 42 cost?`
        pub(crate) task: String = String::new(),
        /// Tools of this case, or what is different about the tools of the file.
        /// Example: `{"search": {"effect": "read_only"}}`
        pub(crate) tools: IndexMap<String, ToolCase> = IndexMap::new(),
        /// The order in which parallel calls end that end at the same time, by their numbers in the reply.
        /// Example: `[2, 1]`
        pub(crate) order: Vec<Spanned<NonZeroU32>> = Vec::new(),
        /// What the host's planner says.
        pub(crate) planner: PlannerCase = PlannerCase::default(),
        /// What a person answers when one is asked, in order: `approve`, `approve_all`, `refuse` or `none`, and how
        /// long it takes: `approve takes 10s`.
        /// Example: `["approve", "refuse takes 10s"]`
        pub(crate) answers: Vec<TimedAnswer> = Vec::new(),
        /// When the run is stopped from outside, from its start.
        /// Example: `90s`
        pub(crate) cancel: Option<Nanos>,
        /// When the run is asked to end, from its start; `turn.on_stop` says how it does.
        /// Example: `90s`
        pub(crate) stop: Option<Nanos>,
        /// The numbers of events after which the state is written down and read back, as after a restart.
        /// Example: `3`
        pub(crate) resume_at: OneOrMany<Spanned<NonZeroU32>> = OneOrMany(Vec::new()),
        /// The time at the start, RFC 3339.
        /// Example: `2026-01-01T00:00:00Z`
        pub(crate) start: StartTime = StartTime(START),
        /// The longest the run may take.
        /// Example: `5m`
        pub(crate) deadline: Option<Nanos>,
        /// The seed of every jittered delay.
        /// Example: `42`
        pub(crate) seed: u64 = 0,
        /// How tokens are counted.
        /// Example: `{"per_char": 10}`
        pub(crate) tokens: CaseTokens = CaseTokens::default(),
        /// What is expected.
        /// Example: `{"attempts": 3, "final": "ok"}`
        pub(crate) expect: CaseExpectations,
    }
}

record! {
    /// A call of a tool.
    pub(crate) struct CallCase {
        /// The tool.
        /// Example: `search`
        pub(crate) tool: Spanned<String>,
        /// The arguments: a mapping, or a string that is taken as the model wrote it.
        /// Example: `{"query": "price of item 42"}`
        pub(crate) arguments: Option<Spanned<Value>>,
        /// How the runs of the tool end, in order.
        /// Example: `["timeout x2", "ok"]`
        pub(crate) outcomes: Option<Spanned<Vec<OutcomeRule>>>,
        /// How long after the call before it.
        /// Example: `10s`
        pub(crate) after: Nanos = Nanos::ZERO,
    }
}

record! {
    /// A tool.
    #[derive(Default)]
    pub(crate) struct ToolCase {
        /// What it does, for the model.
        /// Example: `Searches the catalogue.`
        pub(crate) description: Option<String>,
        /// JSON Schema of the arguments. Left out: any mapping.
        /// Example: `{"type": "object", "required": ["query"]}`
        pub(crate) parameters: Option<Spanned<WrittenSchema>>,
        /// What the tool itself says a run does to the world.
        pub(crate) effect: Option<Effect>,
        /// How its runs end, in the order they start.
        /// Example: `["timeout x2", "ok"]`
        pub(crate) outcomes: Option<Spanned<Vec<OutcomeRule>>>,
    }
}

record! {
    /// What the host's planner says.
    #[derive(Default)]
    pub(crate) struct PlannerCase {
        /// The layer it gives to each call of a tool, by the tool's name.
        /// Example: `{"search": {"retry": {"max_attempts": 2}}}`
        pub(crate) calls: IndexMap<String, CallOverride> = IndexMap::new(),
        /// What it decides when it is asked, in order.
        /// Example: `["final_turn"]`
        pub(crate) decisions: Vec<PlannerDecision> = Vec::new(),
    }
}

choice_of! {
    /// What is done when attempts are exhausted.
    PlannerDecision {
        /// The model is informed and continues.
        TellModel = "tell_model",
        /// One final turn, in which only the final report is allowed.
        FinalTurn = "final_turn",
        /// The run ends as failed.
        Fail = "fail",
    }
}

/// 2026-01-01T00:00:00Z.
pub(crate) const START: Instant = Instant(1_767_225_600_000_000_000);

/// The time at the start of a case.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StartTime(pub(crate) Instant);

impl Decode for StartTime {
    fn decode(node: &YamlNode, reader: &mut NodeReader<'_>) -> Option<Self> {
        let text = String::decode(node, reader)?;
        let since =
            humantime::parse_rfc3339(&text).ok().and_then(|at| at.duration_since(std::time::UNIX_EPOCH).ok());
        let since = since.and_then(|since| u64::try_from(since.as_nanos()).ok());
        if since.is_none() {
            let problem = Diagnostic::error(Code::BAD_VALUE, node.span, "this is not a time");
            reader.report(problem.help("write one such as `2026-01-01T00:00:00Z`"));
        }
        since.map(|nanos| Self(Instant(nanos)))
    }

    fn schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "pattern": r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?Z$",
        })
    }
}
