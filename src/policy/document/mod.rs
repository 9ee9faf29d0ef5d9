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
mod loop_guard;
mod output;
mod price;
mod result;
mod retry;
mod run;
mod session;
mod targets;
mod text;
mod timeouts;
mod tool;

pub use approval::ApprovalPolicy;
pub use approval::{Approval, Unanswered};
pub(crate) use backoff::WrittenBackoff;
pub use breaker::BreakerPolicy;
pub use breaker::BreakerScope;
pub use budget::BudgetScope;
#[cfg(feature = "host")]
pub(crate) use by_class::PerClass;
pub(crate) use by_class::for_all;
pub use by_class::{ByClass, ClassRetry};
pub use calls::{CallsMessages, CallsPolicy};
pub use context::{BytesPerToken, ContextMessages, ContextPolicy, TokensPolicy};
pub use context::{CountBy, ResultsRoom};
pub(crate) use errors::{ErrorRule, Piece, Sought, Words};
#[cfg(feature = "host")]
pub(crate) use fraction::Fraction;
pub use history::{HistoryCheck, OrphanCalls};
pub use history::{HistoryMessages, HistoryPolicy};
pub(crate) use lasting::Lasting;
pub use loop_guard::Repeats;
pub use loop_guard::{LoopGuardPolicy, LoopMessages, Stages};
pub(crate) use output::OutputLayer;
pub use output::{OutputMessages, OutputPolicy};
pub use price::{Dollars, PriceEntry};
pub use result::ResultPolicy;
pub use result::{Keep, OverMax, ResultForm};
pub use retry::RetryPolicy;
pub use retry::{AboveMax, ServerDelayMode, WaitSource};
pub(crate) use retry::{Classes, LimitsRule, TopLimits};
#[cfg(feature = "host")]
pub(crate) use run::RunLimitsRule;
pub use session::Trigger;
pub(crate) use session::{ReducerEntry, SessionRule};
pub use targets::TargetsPolicy;
pub use targets::{Advance, TargetWait};
pub(crate) use text::Selected;
pub use timeouts::ModelTimeouts;
pub use tool::{AfterPartial, Effect, MalformedCalls, OnExhausted, OnStop, TextOnly};
pub(crate) use tool::{CallRule, ModelLayer, PlannerRule, Prioritized, Priority, ToolLayer};
pub use tool::{GuidancePolicy, ModelPolicy, ToolMessages, ToolPolicy, TurnMessages, TurnPolicy};

use std::sync::Arc;

use schemars::{Schema, SchemaGenerator, json_schema};

use super::decode::{Decode, Described, OneOrMany, Patch, Reader, Spanned, record};
use super::form::{Document, OptionalBlock};
use super::lost::Within;
use super::yaml::{Data, Node};
use super::{Code, Diagnostic};

record! {
    /// A policy: what happens when an agent's tool call or model turn goes wrong.
    #[part(true)]
    pub(crate) struct PolicyFile {
        /// The version of the policy language.
        pub(crate) version: Version,
        /// Files this one stands above: a path relative to this file, or a list, the lowest first.
        /// Checks: P0204.
        /// Example: `["../base.policy.yaml"]`
        pub(crate) extends: Parents = Parents(OneOrMany(Vec::new())),
        /// Variants of the policy by name. The one that is chosen stands above the top-level blocks of all files.
        pub(crate) profiles: Profiles = Profiles(Vec::new()),
        /// Limits that no layer can loosen: the tightest value of all layers wins.
        pub(crate) limits: Option<TopLimits>,
        /// Retries of every kind: tools, models and the final report.
        pub(crate) retry: OptionalBlock<RetryPolicy<Document>>,
        /// Rules for tools, by name or pattern with `*`. A narrower pattern wins.
        /// Checks: P0110, P0207, W0204.
        pub(crate) tools: Selected<ToolLayer> = Selected::default(),
        /// Rules for models, by name or pattern with `*`. A narrower pattern wins.
        /// Checks: P0110, P0207, W0204.
        pub(crate) models: Selected<ModelLayer> = Selected::default(),
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
        /// How failures are told apart: the first row that matches wins, and these come before the built-in ones.
        /// Checks: W0219, W0227.
        pub(crate) errors: Vec<ErrorRule> = Vec::new(),
    }
}

record! {
    /// The blocks of a policy that a profile may have too.
    #[part(true)]
    pub(crate) struct Blocks {
        /// Limits that no layer can loosen: the tightest value of all layers wins.
        pub(crate) limits: Option<TopLimits>,
        /// Retries of every kind: tools, models and the final report.
        pub(crate) retry: OptionalBlock<RetryPolicy<Document>>,
        /// Rules for tools, by name or pattern with `*`. A narrower pattern wins.
        /// Checks: P0110, P0207, W0204.
        pub(crate) tools: Selected<ToolLayer> = Selected::default(),
        /// Rules for models, by name or pattern with `*`. A narrower pattern wins.
        /// Checks: P0110, P0207, W0204.
        pub(crate) models: Selected<ModelLayer> = Selected::default(),
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
        /// How failures are told apart: these rows come before those of the files.
        /// Checks: W0219, W0227.
        pub(crate) errors: Vec<ErrorRule> = Vec::new(),
    }
}

/// Profiles by name, in the order of the text.
#[derive(Clone, Debug)]
pub(crate) struct Profiles(Vec<(String, Blocks)>);

/// The most profiles of a file: each is checked as a policy of its own.
const MOST_PROFILES: usize = 32;

impl Decode for Profiles {
    fn decode(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        let entries = reader.mapping(node)?;
        if let Some((key, _)) = entries.get(MOST_PROFILES) {
            let message = format!("more than {MOST_PROFILES} profiles");
            reader.report(Diagnostic::error(Code::TOO_LARGE, key.span, message));
        }
        let mut profiles = Vec::new();
        for (key, node) in entries.iter().take(MOST_PROFILES) {
            reader.check_name(key);
            let within = Within { profile: Some(Arc::clone(&key.name)), selector: None };
            match reader.below(within, |reader| Blocks::decode(node, reader)) {
                Some(blocks) => profiles.push((key.name.to_string(), blocks)),
                None => reader.lose("profiles"),
            }
        }
        Some(Self(profiles))
    }

    fn schema(generator: &mut SchemaGenerator) -> Schema {
        let blocks = generator.subschema_for::<Described<Blocks>>();
        json_schema!({"type": "object", "additionalProperties": blocks, "maxProperties": MOST_PROFILES})
    }
}

/// A file that is extended, and where that is said.
pub(crate) type Parent = Spanned<String>;

/// The files that are extended.
#[derive(Clone, Debug)]
pub(crate) struct Parents(OneOrMany<Parent>);

impl Decode for Parents {
    fn decode(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        let nodes = match &node.data {
            Data::List(nodes) => nodes,
            _ => core::slice::from_ref(node),
        };
        let read: Vec<Option<Parent>> = nodes.iter().map(|node| reader.value(node)).collect();
        if read.iter().any(Option::is_none) {
            reader.lose_file();
        }
        Some(Self(OneOrMany(read.into_iter().flatten().collect())))
    }

    fn schema(generator: &mut SchemaGenerator) -> Schema {
        <OneOrMany<Parent>>::schema(generator)
    }
}

/// What a file says besides its blocks.
pub(crate) struct Header {
    pub(crate) extends: Vec<Parent>,
    pub(crate) profiles: Vec<(String, Blocks)>,
}

impl PolicyFile {
    /// The blocks, and the rest.
    pub(crate) fn split(self) -> (Header, Blocks) {
        let Self {
            // There is one version yet; another would be told apart here.
            version: Version,
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
        let blocks = Blocks { limits, retry, tools, models, turn, output, history, context, session, errors };
        (Header { extends: extends.0.0, profiles: profiles.0 }, blocks)
    }
}

/// The version of the policy language.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Version;

impl Decode for Version {
    fn decode(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        match &node.data {
            Data::Number(number) if number.as_u64() == Some(1) => Some(Self),
            Data::Number(number) if number.as_f64() == Some(1.0) => {
                reader.wrong_type(node, "a version number (1)")
            }
            Data::Number(number) => {
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

    fn stand_in(_: &Node) -> Option<Self> {
        Some(Self)
    }

    fn schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"const": 1})
    }
}
