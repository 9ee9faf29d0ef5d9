//! `turn.calls:`: the calls of one reply.

use super::retry::FailureThreshold;
use super::text::{TemplateText, variables};

use crate::policy::AttemptLimit;
use crate::policy::form::{Block, Effective, Form};

variables! {
    /// What is known of a call beyond the most there may be.
    Surplus = ["tool", "most"];
    /// What is known when no call went well.
    AllFailed = ["rounds"];
}

/// The calls of one reply: how many, how many at once, and how far their names and arguments are put right.
#[derive(Clone, Debug, Block)]
pub struct CallsPolicy<F: Form = Effective> {
    /// How many calls run at once, or `unlimited`. The others wait, in their order; a call keeps its place until
    /// it and all before it have their results.
    /// Example: `4`
    #[key(looser = More)]
    pub parallel: F::Of<AttemptLimit>,
    /// How many calls of one reply run at all, or `unlimited`. Those beyond get a result that says so.
    /// Example: `10`
    #[key(looser = More)]
    pub max: F::Of<AttemptLimit>,
    /// After so many rounds in a row in which no call went well the model is asked to go another way; then it is
    /// counted anew. Or `never`.
    /// Example: `2`
    #[key(looser = Neither)]
    pub nudge_after_failed_rounds: F::Of<FailureThreshold>,
    /// Whether arguments that came as a text of JSON are taken as what the text says, if the schema holds then:
    /// all of them, or single fields.
    #[key(looser = Neither)]
    pub unpack_arguments: F::Of<bool>,
    /// Whether the name of a tool there is not is taken for that of the one tool it can mean, if its schema
    /// holds.
    #[key(looser = Neither)]
    pub correct_names: F::Of<bool>,
    /// How many similar names an unknown tool is answered with.
    /// Example: `3`
    #[key(looser = Neither)]
    pub suggestions: F::Of<u32>,
    /// The message to the model.
    pub messages: F::In<CallsMessages<F>>,
}

/// What the model learns about the calls of a reply.
#[derive(Clone, Debug, Block)]
pub struct CallsMessages<F: Form = Effective> {
    /// The result of a call beyond the most there may be.
    /// Example: `{{ tool }} did not run: a reply may have {{ most }} calls.`
    pub too_many: F::Of<TemplateText<Surplus>>,
    /// Guidance after rounds in which no call went well.
    /// Example: `No call went well {{ rounds }} times. Go another way.`
    pub all_failed: F::Of<TemplateText<AllFailed>>,
    /// The result of a call when all calls of tools that `limits.run.tool_calls` grants have run.
    /// Example: `{{ tool }} did not run: {{ most }} calls were made. Answer now.`
    pub no_calls_left: F::Of<TemplateText<Surplus>>,
}
