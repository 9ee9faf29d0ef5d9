//! The policy document, version 1: what a file may say, with the place of everything it says.
//!
//! Expressions, templates, schemas, durations and selectors are parsed while reading, so that their mistakes are
//! reported with all others.

mod after_effect;
mod approval;
mod backoff;
mod breaker;
mod budget;
mod by_class;
mod calls;
mod context;
mod errors;
mod fraction;
mod history;
mod lasting;
mod layer;
mod loop_guard;
mod output;
mod pace;
mod price;
mod result;
mod retry;
mod run;
mod session;
mod targets;
mod text;
mod timeouts;
mod tool;

pub use approval::{Approval, ApprovalPolicy, UnansweredMode};
pub(crate) use backoff::WrittenBackoff;
pub use breaker::BreakerPolicy;
#[cfg(feature = "host")]
pub(crate) use by_class::PerClass;
pub(crate) use by_class::for_all;
pub use by_class::{ByClass, ClassRetry};
pub use calls::{CallsMessages, CallsPolicy};
pub use context::{BytesPerToken, ContextMessages, ContextPolicy, CountBy, ResultsRoom, TokensPolicy};
pub(crate) use errors::ErrorRule;
#[cfg(feature = "host")]
pub(crate) use fraction::OpenFraction;
pub use history::{HistoryCheck, HistoryMessages, HistoryPolicy, OrphanCalls};
pub(crate) use lasting::NonZeroTime;
pub use loop_guard::{LoopGuardPolicy, LoopMessages, LoopStages, RepeatScope};
pub(crate) use output::OutputLayer;
pub use output::{OutputMessages, OutputPolicy};
pub use pace::{ModelPace, PaceLearning, ToolPace};
pub(crate) use price::{CostLimit, PriceEntry};
pub use result::{KeptPart, OverMax, ResultForm, ResultPolicy};
pub use retry::RetryPolicy;
pub(crate) use retry::{ClassList, LimitsRule, TopLimits};
#[cfg(feature = "host")]
pub(crate) use run::RunLimitsRule;
pub(crate) use session::{ReducerEntry, SessionRule};
pub use targets::{TargetWait, TargetsPolicy};
pub(crate) use text::{MOST_SELECTORS, SelectorMap, too_many_selectors};
pub use timeouts::ModelTimeouts;
pub use tool::{
    AfterPartial, Effect, GuidancePolicy, MalformedCalls, ModelPolicy, OnExhausted, OnStop, TextOnly,
    ToolMessages, ToolPolicy, TurnMessages, TurnPolicy,
};
pub(crate) use tool::{CallRule, ModelLayer, PlannerRule, PrioritizedRule, SelectorPriority, ToolLayer};

use std::sync::Arc;

use schemars::{Schema, SchemaGenerator, json_schema};

use super::decode::{Decode, NodeReader, OneOrMany, Patch, SchemaOf, Spanned, record};
use super::form::{Document, OptionalBlock};
use super::lost::UnreadScope;
use crate::text::yaml::{YamlData, YamlNode};
use crate::text::{Code, Diagnostic};

record! {
    /// A policy: what happens when an agent's tool call or model turn goes wrong.
    #[part(true)]
    pub(crate) struct PolicyFile {
        /// The version of the policy language.
        pub(crate) version: LanguageVersion,
        /// Files this one extends: a path relative to this file, or a list, the lowest first.
        /// Checks: P0204.
        /// Example: `["../base.policy.yaml"]`
        pub(crate) extends: ParentFiles = ParentFiles(OneOrMany(Vec::new())),
        /// Variants of the policy by name. The one that is chosen takes precedence over the top-level blocks of all files.
        pub(crate) profiles: ProfileMap = ProfileMap(Vec::new()),
        /// Limits that no layer can loosen: the tightest value of all layers wins.
        pub(crate) limits: Option<TopLimits>,
        /// Retries of every kind: tools, models and the final report.
        pub(crate) retry: OptionalBlock<RetryPolicy<Document>>,
        /// Rules for tools, by name or pattern with `*`. A more specific pattern wins.
        /// Checks: P0110, P0207, W0204.
        pub(crate) tools: SelectorMap<ToolLayer> = SelectorMap::default(),
        /// Rules for models, by name or pattern with `*`. A more specific pattern wins.
        /// Checks: P0110, P0207, W0204.
        pub(crate) models: SelectorMap<ModelLayer> = SelectorMap::default(),
        /// The loop of turns.
        pub(crate) turn: OptionalBlock<TurnPolicy<Document>>,
        /// The final report. Left out: no report is asked for.
        pub(crate) output: Patch<OutputLayer>,
        /// What is done about a history that providers refuse: calls without a result, results without a call.
        pub(crate) history: OptionalBlock<HistoryPolicy<Document>>,
        /// How a conversation is measured, and kept within the window of a model.
        pub(crate) context: OptionalBlock<ContextPolicy<Document>>,
        /// What the session remembers.
        pub(crate) session: Option<SessionRule>,
        /// How failures are distinguished: the first row that matches wins, and these come before the built-in ones.
        /// Checks: W0219, W0227.
        pub(crate) errors: Vec<ErrorRule> = Vec::new(),
    }
}

record! {
    /// The blocks of a policy that a profile may have too.
    #[part(true)]
    pub(crate) struct PolicyBlocks {
        /// Limits that no layer can loosen: the tightest value of all layers wins.
        pub(crate) limits: Option<TopLimits>,
        /// Retries of every kind: tools, models and the final report.
        pub(crate) retry: OptionalBlock<RetryPolicy<Document>>,
        /// Rules for tools, by name or pattern with `*`. A more specific pattern wins.
        /// Checks: P0110, P0207, W0204.
        pub(crate) tools: SelectorMap<ToolLayer> = SelectorMap::default(),
        /// Rules for models, by name or pattern with `*`. A more specific pattern wins.
        /// Checks: P0110, P0207, W0204.
        pub(crate) models: SelectorMap<ModelLayer> = SelectorMap::default(),
        /// The loop of turns.
        pub(crate) turn: OptionalBlock<TurnPolicy<Document>>,
        /// The final report.
        pub(crate) output: Patch<OutputLayer>,
        /// What is done about a history that providers refuse: calls without a result, results without a call.
        pub(crate) history: OptionalBlock<HistoryPolicy<Document>>,
        /// How a conversation is measured, and kept within the window of a model.
        pub(crate) context: OptionalBlock<ContextPolicy<Document>>,
        /// What the session remembers.
        pub(crate) session: Option<SessionRule>,
        /// How failures are distinguished: these rows come before those of the files.
        /// Checks: W0219, W0227.
        pub(crate) errors: Vec<ErrorRule> = Vec::new(),
    }
}

/// Profiles by name, in the order of the text.
#[derive(Clone, Debug)]
pub(crate) struct ProfileMap(Vec<(String, PolicyBlocks)>);

/// The most profiles of a file: each is checked as a policy of its own.
const MOST_PROFILES: usize = 32;

impl Decode for ProfileMap {
    fn decode(node: &YamlNode, reader: &mut NodeReader<'_>) -> Option<Self> {
        let entries = reader.mapping(node)?;
        if let Some((key, _)) = entries.get(MOST_PROFILES) {
            let message = format!("more than {MOST_PROFILES} profiles");
            reader.report(Diagnostic::error(Code::TOO_LARGE, key.span, message));
        }
        let mut profiles = Vec::new();
        for (key, node) in entries.iter().take(MOST_PROFILES) {
            // A profile named `no` would have another name to other readers.
            reader.check_name(key);
            let within = UnreadScope { profile: Some(Arc::clone(&key.name)), selector: None };
            // What is unread in one profile must not silence the checks of the others.
            match reader.below(within, |reader| PolicyBlocks::decode(node, reader)) {
                Some(blocks) => profiles.push((key.name.to_string(), blocks)),
                None => reader.lose("profiles"),
            }
        }
        Some(Self(profiles))
    }

    fn schema(generator: &mut SchemaGenerator) -> Schema {
        let blocks = generator.subschema_for::<SchemaOf<PolicyBlocks>>();
        json_schema!({"type": "object", "additionalProperties": blocks, "maxProperties": MOST_PROFILES})
    }
}

/// A file that is extended, and where that is said.
pub(crate) type ParentFile = Spanned<String>;

/// The files that are extended.
#[derive(Clone, Debug)]
pub(crate) struct ParentFiles(OneOrMany<ParentFile>);

impl Decode for ParentFiles {
    fn decode(node: &YamlNode, reader: &mut NodeReader<'_>) -> Option<Self> {
        let nodes = match &node.data {
            YamlData::List(nodes) => nodes,
            _ => core::slice::from_ref(node),
        };
        let read: Vec<Option<ParentFile>> = nodes.iter().map(|node| reader.value(node)).collect();
        // Without a parent the rules are not complete, so checks across rules are left out.
        if read.iter().any(Option::is_none) {
            reader.lose_file();
        }
        Some(Self(OneOrMany(read.into_iter().flatten().collect())))
    }

    fn schema(generator: &mut SchemaGenerator) -> Schema {
        <OneOrMany<ParentFile>>::schema(generator)
    }
}

/// What a file says besides its blocks.
pub(crate) struct FileHeader {
    pub(crate) extends: Vec<ParentFile>,
    pub(crate) profiles: Vec<(String, PolicyBlocks)>,
}

impl PolicyFile {
    /// The blocks, and the rest.
    pub(crate) fn split(self) -> (FileHeader, PolicyBlocks) {
        let Self {
            // There is one version yet; another would be distinguished here.
            version: LanguageVersion,
            extends,
            profiles,
            limits,
            retry,
            tools,
            models,
            turn,
            output,
            history,
            context,
            session,
            errors,
        } = self;
        let blocks =
            PolicyBlocks { limits, retry, tools, models, turn, output, history, context, session, errors };
        (FileHeader { extends: extends.0.0, profiles: profiles.0 }, blocks)
    }
}

/// The version of the policy language.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LanguageVersion;

impl Decode for LanguageVersion {
    fn decode(node: &YamlNode, reader: &mut NodeReader<'_>) -> Option<Self> {
        match &node.data {
            YamlData::Number(number) if number.as_u64() == Some(1) => Some(Self),
            // `1.0` would promise a version 1.1.
            YamlData::Number(number) if number.as_f64() == Some(1.0) => {
                reader.wrong_type(node, "a version number (1)")
            }
            YamlData::Number(number) => {
                let message = format!("version {number} of the policy language is not known");
                reader.report(
                    Diagnostic::error(Code::BAD_VALUE, node.span, message)
                        .help("this program reads version 1"),
                );
                None
            }
            _ => reader.wrong_type(node, "a version number (1)"),
        }
    }

    fn stand_in(_: &YamlNode) -> Option<Self> {
        // The wrong version has been reported. The rest is read as version 1, so that its mistakes are reported
        // too.
        Some(Self)
    }

    fn schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"const": 1})
    }
}
