//! One tool call, or one model turn, with given outcomes: the attempts, delays and decisions, each with its rule and
//! line.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use serde_json::{Value, json};

use crate::cases::{
    CasePlot, CaseRecord, CaseSetup, CaseTokens, OutcomeRule, PlannedCall, START, TimedAnswer, TimelineLine,
    outcomes, play, timeline,
};
use crate::engine::{self, NameClash, PlannerDecision, ToolCatalogue, ToolSpec};
use crate::policy::{Effect, Policy, UnknownPrice};
use crate::time::Nanos;

/// The maximum number of questions to the planner and people; the answer is always the same.
const ASKED: usize = 1_000;

/// The course of one tool call, or of one model turn.
///
/// ```
/// use unfazed::policy::Policy;
/// use unfazed::simulate::CallStory;
/// let story = CallStory::of_model(&Policy::builtin(), &["main".to_owned()], "overloaded x2, ok", 1)?;
/// assert_eq!((story.attempts, story.status), (3, "answered"));
/// # Ok::<(), unfazed::simulate::StoryError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallStory {
    /// The events and decisions, in order.
    pub(crate) lines: Vec<TimelineLine>,
    /// The number of attempts.
    pub attempts: u64,
    /// The delays between the attempts.
    pub delays: Vec<Nanos>,
    /// The total duration.
    pub took: Nanos,
    /// How it ended: `ok`, `answered`, `reported`, `refused`, `failed`, `retry_exhausted`, `stopped`.
    pub status: &'static str,
    /// The reason, unless the result is a success.
    pub reason: Option<String>,
}

/// Why a story cannot be computed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoryError {
    /// An outcome cannot be parsed.
    #[error("{0}; write such as `timeout x2, ok` or `429 retry-after 3, ok`")]
    Outcome(String),
    /// A tool has the name that the policy reserves for the final report.
    #[error(transparent)]
    Names(#[from] NameClash),
    /// The policy limits the cost of a run, and the price of a model is unknown.
    #[error(transparent)]
    Price(#[from] UnknownPrice),
    /// The story does not end.
    #[error("{0}")]
    Endless(String),
}

/// A tool call.
#[derive(Clone, Debug)]
pub(crate) struct StoryCall<'a> {
    /// The tool.
    pub tool: &'a str,
    /// The arguments.
    pub arguments: Value,
    /// The effect of a run that the tool itself declares.
    pub effect: Option<Effect>,
}

impl CallStory {
    /// Computes a tool call whose runs end with these outcomes in order; the last one is repeated.
    ///
    /// # Errors
    /// An outcome cannot be parsed, the policy reserves the name for the final report, or the story does not end.
    pub(crate) fn of_tool(
        policy: &Policy,
        call: &StoryCall<'_>,
        ends: &str,
        seed: u64,
    ) -> Result<Self, StoryError> {
        let planned = PlannedCall {
            tool: call.tool.to_owned(),
            arguments: call.arguments.to_string(),
            outcomes: Some(again_and_again(ends)?),
            after: Nanos::ZERO,
        };
        let spec = ToolSpec {
            name: call.tool.to_owned(),
            description: String::new(),
            parameters: json!({"type": "object"}),
            effect: call.effect,
        };
        // It is the only tool, and accepts any arguments.
        let tools = ToolCatalogue::new([spec]).unwrap_or_default();
        tools.fits(policy)?;
        let setup = setup(policy, tools, vec!["main".to_owned()], CasePlot::Calls(vec![planned]), seed);
        let record = play(&setup);
        let attempts = record.calls.len();
        Self::told(record, u64::try_from(attempts).unwrap_or(u64::MAX))
    }

    /// Computes a turn whose model calls, in order of preference, end with these outcomes; the last one is repeated.
    ///
    /// # Errors
    /// An outcome cannot be parsed, or the story does not end.
    pub fn of_model(policy: &Policy, models: &[String], ends: &str, seed: u64) -> Result<Self, StoryError> {
        let plot = CasePlot::Turn(again_and_again(ends)?);
        policy.prices(models.iter().map(|model| (model.as_str(), None)))?;
        let record = play(&setup(policy, ToolCatalogue::default(), models.to_vec(), plot, seed));
        let attempts = record.model_calls;
        Self::told(record, attempts.into())
    }

    fn told(record: CaseRecord, attempts: u64) -> Result<Self, StoryError> {
        if let Some(problem) = record.problems.first() {
            return Err(StoryError::Endless(problem.found.clone()));
        }
        Ok(Self {
            lines: timeline(&record),
            attempts,
            took: record.elapsed,
            status: record.ending.status,
            reason: record.ending.reason,
            delays: record.delays,
        })
    }
}

fn again_and_again(text: &str) -> Result<Arc<[OutcomeRule]>, StoryError> {
    let mut rules = outcomes(text).map_err(StoryError::Outcome)?;
    if let Some(last) = rules.last_mut() {
        last.times = u32::MAX;
    }
    Ok(rules.into())
}

fn setup(policy: &Policy, tools: ToolCatalogue, models: Vec<String>, plot: CasePlot, seed: u64) -> CaseSetup {
    CaseSetup {
        policy: policy.clone(),
        tools,
        outcomes: BTreeMap::new(),
        own: HashSet::new(),
        plot,
        models,
        windows: BTreeMap::new(),
        system: String::new(),
        history: Vec::new(),
        task: String::new(),
        order: Vec::new(),
        layers: HashMap::new(),
        decisions: vec![PlannerDecision::TellModel; ASKED],
        answers: vec![TimedAnswer { answer: engine::ApprovalAnswer::Approve, takes: Nanos::ZERO }; ASKED],
        cancel: None,
        stop: None,
        resume_at: Vec::new(),
        start: START,
        deadline: None,
        seed,
        tokens: CaseTokens::default(),
    }
}
