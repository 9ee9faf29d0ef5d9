//! Guidance for the model about its replies and calls: one text per kind of mistake, the most urgent first, for a
//! limited time.

use serde::{Deserialize, Serialize};

use super::super::directive::Note;
use super::out::StepOutput;
use crate::policy::{ErrorClass, estimated_tokens};
use crate::session::Message;

/// Guidance sent only with the attempts of one turn.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(in crate::engine) struct TurnGuidance(Vec<ReplyGuidance>);

/// Guidance about one kind of mistake.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::engine) struct ReplyGuidance {
    pub(in crate::engine) class: ErrorClass,
    pub(in crate::engine) text: String,
}

impl TurnGuidance {
    /// Adds guidance about a reply: to the conversation, or only to the attempts of this turn.
    pub(in crate::engine) fn guide(&mut self, class: ErrorClass, text: String, out: &mut StepOutput<'_>) {
        // Both variants exist in ai-agent: its document describes a notice for the attempts of one turn, its later
        // code a line that stays.
        if out.rules.policy.turn().guidance.keep.value {
            let guidance = Some(class.name().to_owned());
            return out.note(Note::Append { message: Message::User { text, guidance } }, Vec::new());
        }
        // One text per kind: otherwise every attempt would repeat the same advice.
        match self.0.iter_mut().find(|known| known.class == class) {
            Some(known) => known.text = text,
            None => self.0.push(ReplyGuidance { class, text }),
        }
    }

    /// Rejects the turn, with guidance about the reason.
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

    /// The guidance for the next attempt: at most `most` texts, the most urgent first.
    pub(in crate::engine) fn worst(&self, most: u32) -> Vec<String> {
        let mut due: Vec<&ReplyGuidance> = self.0.iter().collect();
        // Stable, so that texts of equal weight keep their order; ai-agent sends the two most urgent, too.
        due.sort_by_key(|guidance| weight(guidance.class));
        due.into_iter().take(most as usize).map(|guidance| guidance.text.clone()).collect()
    }

    /// The estimated tokens of all guidance.
    pub(in crate::engine) fn tokens(&self) -> u64 {
        self.0.iter().map(|guidance| estimated_tokens(&guidance.text)).fold(0, u64::saturating_add)
    }

    /// Removes all guidance after an accepted reply.
    pub(in crate::engine) fn clear(&mut self) {
        self.0.clear();
    }

    /// Whether there is no guidance.
    pub(in crate::engine) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The urgency of a kind of guidance; lower is more urgent.
const fn weight(class: ErrorClass) -> u8 {
    match class {
        // Possible side effects come first: the model must read about them before its next call. Advice on form can
        // wait.
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
