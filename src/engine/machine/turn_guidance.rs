//! What the model learns about its own replies and calls: once for each kind of mistake, the worst first, and not for ever.

use serde::{Deserialize, Serialize};

use super::super::directive::Note;
use super::out::StepOutput;
use crate::policy::{ErrorClass, estimated_tokens};
use crate::session::Message;

/// What the model reads with the attempts of one turn only.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(in crate::engine) struct TurnGuidance(Vec<ReplyGuidance>);

/// What the model reads about a kind of mistake in its replies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::engine) struct ReplyGuidance {
    pub(in crate::engine) class: ErrorClass,
    pub(in crate::engine) text: String,
}

impl TurnGuidance {
    /// Tells the model what is wrong with its reply: in the conversation, or with the attempts of this turn only.
    pub(in crate::engine) fn guide(&mut self, class: ErrorClass, text: String, out: &mut StepOutput<'_>) {
        // The one choice of ai-agent's document (a notice for the attempts of one turn) and of its later code (a line
        // that stays).
        if out.rules.policy.turn().guidance.keep.value {
            let guidance = Some(class.name().to_owned());
            return out.note(Note::Append { message: Message::User { text, guidance } }, Vec::new());
        }
        // One text for each kind: with every attempt the same advice would be sent once more.
        match self.0.iter_mut().find(|known| known.class == class) {
            Some(known) => known.text = text,
            None => self.0.push(ReplyGuidance { class, text }),
        }
    }

    /// Rejects the turn: the model learns why.
    pub(in crate::engine) fn reject_turn(
        &mut self,
        error_type: ErrorClass,
        message: String,
        why: Vec<super::super::directive::DecisionReason>,
        out: &mut StepOutput<'_>,
    ) {
        self.guide(error_type, message.clone(), out);
        out.note(Note::RejectTurn { error_type, message }, why);
    }

    /// What is sent with the next attempt: `most` texts, the worst first.
    pub(in crate::engine) fn worst(&self, most: u32) -> Vec<String> {
        let mut due: Vec<&ReplyGuidance> = self.0.iter().collect();
        // Stable, so that texts of one weight keep their order; ai-agent sends the two most urgent, too.
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

/// The order in which kinds of guidance take precedence over each other: the lower first.
const fn weight(class: ErrorClass) -> u8 {
    match class {
        // What may have happened already comes first: the model must not act again before it has read that. Advice on
        // its form can wait.
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
