//! The policy document, version 1: what a file may say, with the place of everything it says.
//!
//! Expressions, templates, schemas, durations and selectors are parsed while reading, so that their mistakes are
//! reported with all others.

mod backoff;
mod errors;
mod lasting;
mod output;
mod retry;
mod session;
mod text;
mod tool;

pub(crate) use errors::ErrorRule;
pub(crate) use lasting::Lasting;
pub(crate) use output::{MergedOutput, OutputLayer};
pub(crate) use retry::{Classes, LimitsRule, MergedRetry, RetryLayer, TopLimits};
pub(crate) use session::{ReducerEntry, SessionRule};
pub(crate) use text::Selected;
pub(crate) use tool::{
    CallRule, MergedModel, MergedTool, MergedTurn, ModelLayer, PlannerRule, ToolLayer, TurnLayer,
};

use schemars::{Schema, SchemaGenerator, json_schema};

use super::decode::{Decode, Patch, Reader, record};
use super::merge::Block;
use super::yaml::{Data, Node};
use super::{Code, Diagnostic};

record! {
    /// A policy: what happens when an agent's tool call or model turn goes wrong.
    pub(crate) struct PolicyFile {
        /// The version of the policy language.
        pub(crate) version: Version,
        /// Limits that no layer can loosen: the tightest value of all layers wins.
        pub(crate) limits: Option<TopLimits>,
        /// Retries of every kind: tools, models and the final report.
        pub(crate) retry: Block<RetryLayer>,
        /// Rules for tools, by name or pattern with `*`. A narrower pattern wins.
        pub(crate) tools: Selected<ToolLayer> = Selected::default(),
        /// Rules for models, by name or pattern with `*`. A narrower pattern wins.
        pub(crate) models: Selected<ModelLayer> = Selected::default(),
        /// The loop of turns.
        pub(crate) turn: Block<TurnLayer>,
        /// The final report. Left out: no report is asked for.
        pub(crate) output: Patch<OutputLayer>,
        /// What the session remembers.
        pub(crate) session: Option<SessionRule>,
        /// How failures are told apart: the first row that matches wins, and these come before the built-in ones.
        pub(crate) errors: Vec<ErrorRule> = Vec::new(),
    }
}

/// The version of the policy language.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Version;

impl Decode for Version {
    fn decode(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        match &node.data {
            Data::Number(number) if number.as_u64() == Some(1) => Some(Self),
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

    fn schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"const": 1})
    }
}
