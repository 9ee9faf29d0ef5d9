//! What the model is told about its own replies and calls: once for each kind of mistake, the worst first, and not for ever.

use serde::{Deserialize, Serialize};

use super::super::directive::Note;
use super::out::Out;
use crate::policy::{ErrorClass, estimated_tokens};
use crate::session::Message;

/// What the model reads with the attempts of one turn only.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(in crate::engine) struct TurnGuidance(Vec<Guidance>);

/// What the model reads about a kind of mistake in its replies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::engine) struct Guidance {
    pub(in crate::engine) class: ErrorClass,
    pub(in crate::engine) text: String,
}

impl TurnGuidance {
    /// Tells the model what is wrong with its reply: in the conversation, or with the attempts of this turn only.
    pub(in crate::engine) fn guide(&mut self, class: ErrorClass, text: String, out: &mut Out<'_>) {
        if out.rules.policy.turn().guidance.keep.value {
            let guidance = Some(class.name().to_owned());
            return out.note(Note::Append { message: Message::User { text, guidance } }, Vec::new());
        }
        match self.0.iter_mut().find(|known| known.class == class) {
            Some(known) => known.text = text,
            None => self.0.push(Guidance { class, text }),
        }
    }

    /// Rejects the turn: the model is told why.
    pub(in crate::engine) fn reject_turn(
        &mut self,
        error_type: ErrorClass,
        message: String,
        why: Vec<super::super::directive::Because>,
        out: &mut Out<'_>,
    ) {
        self.guide(error_type, message.clone(), out);
        out.note(Note::RejectTurn { error_type, message }, why);
    }

    /// What is sent with the next attempt: `most` texts, the worst first.
    pub(in crate::engine) fn worst(&self, most: u32) -> Vec<String> {
        let mut due: Vec<&Guidance> = self.0.iter().collect();
        due.sort_by_key(|guidance| weight(guidance.class));
        due.into_iter().take(most as usize).map(|guidance| guidance.text.clone()).collect()
    }

    /// The tokens of all of it, as they are estimated.
    pub(in crate::engine) fn tokens(&self) -> u64 {
        self.0.iter().map(|guidance| estimated_tokens(&guidance.text)).fold(0, u64::saturating_add)
    }

    /// Forgets it: a reply was taken.
    pub(in crate::engine) fn clear(&mut self) {
        self.0.clear();
    }

    /// Whether there is none.
    pub(in crate::engine) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The order in which kinds of guidance go before each other: the lower first.
const fn weight(class: ErrorClass) -> u8 {
    match class {
        // What may have been done already goes before what is to be done.
        ErrorClass::OrphanToolCall | ErrorClass::ReducerError | ErrorClass::InvalidOutput => 0,
        ErrorClass::TextOnly | ErrorClass::TruncatedOutput | ErrorClass::MalformedToolCall => 1,
        ErrorClass::EmptyResponse
        | ErrorClass::ReasoningOnly
        | ErrorClass::InvalidArgs
        | ErrorClass::ToolNotFound
        | ErrorClass::ToolUnavailable
        | ErrorClass::ExecutionError
        | ErrorClass::Timeout
        | ErrorClass::PermissionDenied
        | ErrorClass::NetworkError
        | ErrorClass::RateLimit
        | ErrorClass::QuotaExceeded
        | ErrorClass::Overloaded
        | ErrorClass::AuthError
        | ErrorClass::NotFound
        | ErrorClass::InvalidRequest
        | ErrorClass::ModelError
        | ErrorClass::ContextOverflow
        | ErrorClass::ContentFilter
        | ErrorClass::CircuitOpen
        | ErrorClass::RepeatedCall
        | ErrorClass::Cancelled => 2,
    }
}
