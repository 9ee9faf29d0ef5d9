//! A decision about a request, and the values that made it.

use serde::Serialize;

use crate::engine::DecisionReason;
use crate::host::gateway::quota::KeyRefusal;
use crate::time::Instant;

/// The most characters of a value and of each fact: a value may be a long list.
const MOST: usize = 160;

/// A decision about a request.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Decision {
    /// When, in milliseconds since 1970.
    pub(crate) at_ms: u64,
    /// How often it was made; refusals by the same limit are one.
    pub(crate) times: u64,
    /// The number of the request; `None`: it was refused.
    pub(crate) request: Option<u64>,
    /// The name of the client's key; empty: keys are not taken.
    pub(crate) client: String,
    /// The model that the client asked for.
    pub(crate) model: String,
    /// What was decided.
    pub(crate) what: DecisionKind,
    /// The model that it is about.
    pub(crate) target: String,
    /// The model that is called next; `None`: none is, or the same one.
    pub(crate) next: Option<String>,
    /// What went wrong.
    pub(crate) error_type: Option<&'static str>,
    /// How long the request waits.
    pub(crate) delay_ms: u64,
    /// The values that decided.
    pub(crate) because: Vec<ShownReason>,
}

/// What was decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum DecisionKind {
    /// Another attempt is made.
    Retry,
    /// The call waits for its turn.
    Pace,
    /// Another model is called.
    Fallback,
    /// A model is passed over: the request is too large for it.
    Skip,
    /// Calls and results of the conversation were repaired.
    Repair,
    /// Messages of the conversation were left out or shortened, so that it fits a window.
    Reduce,
    /// Calls or the text of the answer were repaired.
    Mend,
    /// The answer passes, though it is not what the request asks for.
    Pass,
    /// No further attempt is made.
    GiveUp,
    /// The request is refused: its key has used what it may.
    Refuse,
}

impl Decision {
    /// A limit of a key refuses a request.
    pub(in crate::host::gateway) fn refused(
        client: &str,
        model: String,
        refusal: &KeyRefusal,
        now: Instant,
    ) -> Self {
        let KeyRefusal { rule, value, place, until, .. } = refusal;
        Self {
            at_ms: now.since(Instant::default()).millis(),
            times: 1,
            request: None,
            client: client.to_owned(),
            model,
            what: DecisionKind::Refuse,
            target: String::new(),
            next: None,
            error_type: None,
            delay_ms: until.since(now).millis(),
            because: vec![ShownReason {
                rule: format!("keys.{client}.{rule}"),
                value: value.clone(),
                place: place.clone(),
                facts: Vec::new(),
            }],
        }
    }

    /// Whether another refusal is the same again.
    pub(super) fn is_again(&self, other: &Self) -> bool {
        (self.what, other.what) == (DecisionKind::Refuse, DecisionKind::Refuse)
            && (&self.client, &self.because) == (&other.client, &other.because)
    }
}

/// A value that decided.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct ShownReason {
    /// Its path in the policy.
    pub(crate) rule: String,
    pub(crate) value: String,
    /// The file, the line and the column.
    pub(crate) place: String,
    /// What it was compared with.
    pub(crate) facts: Vec<String>,
}

impl From<&DecisionReason> for ShownReason {
    fn from(reason: &DecisionReason) -> Self {
        Self {
            rule: reason.rule.clone(),
            value: brief(&reason.value),
            place: reason.place.to_string(),
            facts: reason.facts.iter().map(|fact| brief(fact)).collect(),
        }
    }
}

fn brief(text: &str) -> String {
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}
