//! One call of a tool, or one turn of a model, with given outcomes: what is attempted, waited for and decided, and by
//! which rule of which line.

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

/// So often the planner and people are asked at most; they always say the same.
const ASKED: usize = 1_000;

/// What becomes of one call of a tool, or of one turn of a model.
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
    /// What happened and was decided, in order.
    pub(crate) lines: Vec<TimelineLine>,
    /// How often the tool ran, or a model was called.
    pub attempts: u64,
    /// The waits between the attempts.
    pub delays: Vec<Nanos>,
    /// How long it took.
    pub took: Nanos,
    /// How it ended: `ok`, `answered`, `reported`, `refused`, `failed`, `retry_exhausted`, `stopped`.
    pub status: &'static str,
    /// Why, unless it went well.
    pub reason: Option<String>,
}

/// Why there is no story.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoryError {
    /// An outcome that is not understood.
    #[error("{0}; write such as `timeout x2, ok` or `429 retry-after 3, ok`")]
    Outcome(String),
    /// A tool of the name that the policy takes the final report by.
    #[error(transparent)]
    Names(#[from] NameClash),
    /// The policy bounds what a run may cost, and the price of a model is unknown.
    #[error(transparent)]
    Price(#[from] UnknownPrice),
    /// It cannot be played to its end.
    #[error("{0}")]
    Endless(String),
}

/// A call of a tool.
#[derive(Clone, Debug)]
pub(crate) struct StoryCall<'a> {
    /// The tool.
    pub tool: &'a str,
    /// The arguments.
    pub arguments: Value,
    /// What the tool itself says a run does to the world.
    pub effect: Option<Effect>,
}

impl CallStory {
    /// What becomes of a call whose runs end like that, one after the other; the last one again and again.
    ///
    /// # Errors
    /// If an outcome is not understood, the policy takes the final report by that name, or there is no end.
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
        // It is the only tool, and takes anything.
        let tools = ToolCatalogue::new([spec]).unwrap_or_default();
        tools.fits(policy)?;
        let setup = setup(policy, tools, vec!["main".to_owned()], CasePlot::Calls(vec![planned]), seed);
        let record = play(&setup);
        let attempts = record.calls.len();
        Self::told(record, u64::try_from(attempts).unwrap_or(u64::MAX))
    }

    /// What becomes of a turn whose calls of the models, in order of preference, end like that; the last one again and
    /// again.
    ///
    /// # Errors
    /// If an outcome is not understood, or there is no end.
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
