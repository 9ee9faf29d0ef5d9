//! Calls of several rounds (the protocol's version 2026-07-28): a result asks the client for something, and the same call comes
//! once more with the answers. To the policy and to the server the rounds are one call.

use std::collections::VecDeque;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use super::ask;
use super::params::CallParams;
use crate::engine::ApprovalAnswer;

/// The most rounds that are remembered: a client need not end what it began.
const MOST_ROUNDS: usize = 1000;
/// What the states begin with that the relay gives out.
const OWN_STATE: &str = "unfazed-";
/// The name of the relay's question.
const QUESTION: &str = "approval";

/// Calls of which a further round may come, the oldest first.
#[derive(Debug, Default)]
pub(super) struct OpenRounds(VecDeque<OpenRound>);

/// A call of which a further round may come.
#[derive(Debug)]
struct OpenRound {
    /// What the client is to send back; `None`: the server gave nothing out.
    state: Option<String>,
    /// The call, as the client wrote it.
    name: String,
    arguments: Value,
    past: PastRounds,
    /// What the relay asked; `None`: the question is the server's.
    asked: Option<AskedRound>,
}

/// A question of the relay.
#[derive(Debug)]
struct AskedRound {
    /// The result if the person does not agree; `None`: the policy decides.
    otherwise: Option<String>,
    /// When an answer comes too late; `None`: never.
    until: Option<Instant>,
    /// What belongs to the server's own rounds in the call that was asked about.
    carried: Vec<(&'static str, Box<RawValue>)>,
}

/// What is known of a call from its earlier rounds.
#[derive(Clone, Debug)]
pub(super) struct PastRounds {
    /// What the policy knows the tool by.
    pub(super) tool: String,
    /// The arguments, which the policy has checked.
    pub(super) arguments: Value,
    /// The key of its attempts; `None`: there was none.
    pub(super) key: Option<String>,
}

/// What a call is, by its state.
pub(super) enum CallRound {
    First,
    /// With what was answered to the question whether it may run; a round of the server's own may.
    Further(PastRounds, ApprovalAnswer),
    /// The person did not agree that it runs again: the result of the call.
    Refused(String),
    /// The state was given out for another call, or not at all.
    Unknown,
}

impl OpenRounds {
    /// What a call is. Of a state that the relay gave out, what belongs to the server's rounds takes its place.
    pub(super) fn of(&mut self, params: &mut CallParams) -> CallRound {
        if !CallParams::ROUND_FIELDS.iter().any(|field| params.field::<IgnoredAny>(field).is_some()) {
            return CallRound::First;
        }
        let state: Option<String> = params.field("requestState");
        let is_own = state.as_ref().is_some_and(|state| state.starts_with(OWN_STATE));
        let arguments = params.parsed_arguments();
        let at = self.0.iter().rposition(|round| {
            round.state == state && round.name == params.name() && round.arguments == arguments
        });
        let Some(at) = at else { return if is_own { CallRound::Unknown } else { CallRound::First } };
        if !is_own {
            // Once: what was approved for one call must not run again and again. A further question of the server opens another.
            let past = self.0.remove(at).map(|round| round.past);
            return past.map_or(CallRound::First, |past| CallRound::Further(past, ApprovalAnswer::Approve));
        }
        // An answer counts once.
        let Some(OpenRound { past, asked: Some(asked), .. }) = self.0.remove(at) else {
            return CallRound::Unknown;
        };
        let is_late = asked.until.is_some_and(|until| Instant::now() > until);
        let answer = if is_late { ApprovalAnswer::None } else { answer_in(params) };
        params.carry(asked.carried);
        match asked.otherwise.filter(|_| answer != ApprovalAnswer::Approve) {
            Some(otherwise) => CallRound::Refused(otherwise),
            None => CallRound::Further(past, answer),
        }
    }

    /// The server asks the client for something.
    pub(super) fn server_asks(&mut self, state: Option<String>, params: &CallParams, past: PastRounds) {
        self.open(OpenRound { asked: None, ..OpenRound::of_call(state, params, past) });
    }

    /// The relay asks the person: the result that does.
    pub(super) fn ask(
        &mut self,
        params: &CallParams,
        past: PastRounds,
        (message, until): (&str, Option<Instant>),
        otherwise: Option<String>,
    ) -> String {
        let state = format!("{OWN_STATE}{}", crate::host::new_uuid());
        let carried =
            CallParams::ROUND_FIELDS.iter().filter_map(|field| Some((*field, params.field(field)?)));
        let asked = AskedRound { otherwise, until, carried: carried.collect() };
        self.open(OpenRound { asked: Some(asked), ..OpenRound::of_call(Some(state.clone()), params, past) });
        let schema = json!({ "type": "object", "properties": {} });
        let question = json!({ "mode": "form", "message": message, "requestedSchema": schema });
        let question = json!({ "method": "elicitation/create", "params": question });
        let questions: Map<String, Value> = [(QUESTION.to_owned(), question)].into_iter().collect();
        json!({ "resultType": "input_required", "inputRequests": questions, "requestState": state })
            .to_string()
    }

    fn open(&mut self, round: OpenRound) {
        self.0.push_back(round);
        if self.0.len() > MOST_ROUNDS {
            self.0.pop_front();
        }
    }
}

impl OpenRound {
    fn of_call(state: Option<String>, params: &CallParams, past: PastRounds) -> Self {
        let (name, arguments) = (params.name().to_owned(), params.parsed_arguments());
        Self { state, name, arguments, past, asked: None }
    }
}

/// A result that asks the client for something.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct InputRequired {
    result_type: String,
    /// What the server gives out for the next round.
    #[serde(default)]
    pub(super) request_state: Option<String>,
}

impl InputRequired {
    /// Of a result; `None`: it asks for nothing.
    pub(super) fn of(result: &RawValue) -> Option<Self> {
        let read: Self = serde_json::from_str(result.get()).ok()?;
        Some(read).filter(|read| read.result_type == "input_required")
    }
}

/// What the person answered to what the relay asked.
fn answer_in(params: &CallParams) -> ApprovalAnswer {
    let answers: Option<Map<String, Value>> = params.field("inputResponses");
    let answer = answers.as_ref().and_then(|answers| answers.get(QUESTION));
    answer.and_then(|answer| answer.get("action")?.as_str()).map_or(ApprovalAnswer::None, ask::answer_of)
}
