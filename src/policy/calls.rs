//! The effective rules for the calls of a reply: how many, how many at once, who agrees to them, and what follows
//! a run that may have acted.

use core::num::NonZeroU32;
use std::sync::Arc;

use super::{Attempts, Bound, Expr, Setting, Template};

/// The calls of one reply.
#[derive(Clone, Debug)]
pub struct CallsPolicy {
    /// How many run at once.
    pub parallel: Setting<Attempts>,
    /// How many of one reply run at all.
    pub most: Setting<Attempts>,
    /// After so many rounds in a row in which no call went well, the model is told to go another way; `None`: never.
    pub failed_rounds: Setting<Option<NonZeroU32>>,
    /// Whether arguments that came as a text of JSON are taken as what the text says.
    pub unpack_arguments: Setting<bool>,
    /// Whether a name that can mean one tool only is taken as its name.
    pub correct_names: Setting<bool>,
    /// How many similar names an unknown tool is answered with.
    pub suggestions: Setting<u32>,
    /// A call beyond `most`. Variables: `tool`, `most`.
    pub too_many_message: Setting<Template>,
    /// No call went well. Variables: `rounds`.
    pub all_failed_message: Setting<Template>,
    /// All calls of tools that the run may make have run. Variables: `tool`, `most`.
    pub no_calls_left_message: Setting<Template>,
}

/// Questions to people.
#[derive(Clone, Debug)]
pub struct ApprovalPolicy {
    /// How long an answer is waited for.
    pub timeout: Setting<Bound>,
    /// What no answer is.
    pub unanswered: Setting<Unanswered>,
}

/// Whether a person is asked before a tool runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Approval {
    /// Nobody is asked.
    Never,
    /// Before every call, unless the person has agreed to all of them.
    Always,
}

/// What it is when nobody answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Unanswered {
    /// A no.
    Refuse,
    /// A yes.
    Approve,
}

/// What is done about a run that failed and may have acted, where another attempt would follow otherwise.
#[derive(Clone, Debug, PartialEq)]
pub enum AfterEffect {
    /// The model is told.
    Tell,
    /// A person is asked whether it may run again.
    Ask,
    /// Another tool is asked whether it acted.
    Verify(Arc<Verification>),
}

/// How it is found out whether a run acted.
#[derive(Clone, Debug)]
pub struct Verification {
    /// The tool that is run; it must be `read_only`.
    pub tool: String,
    /// Its arguments, each an expression over `args` and `tool`.
    pub arguments: Box<[(String, Expr)]>,
    /// Whether the run acted, over `args`, `tool` and `result`.
    pub acted: Expr,
}

impl PartialEq for Verification {
    fn eq(&self, other: &Self) -> bool {
        let arguments = |of: &Self| -> Vec<(String, String)> {
            of.arguments.iter().map(|(name, value)| (name.clone(), value.as_str().to_owned())).collect()
        };
        self.tool == other.tool
            && arguments(self) == arguments(other)
            && self.acted.as_str() == other.acted.as_str()
    }
}
