//! What the model is told about its own replies and calls: once for each kind of mistake, the worst first, and not for ever.

use super::super::directive::Note;
use super::super::state::Guidance;
use super::Step;
use crate::policy::ErrorClass;
use crate::session::Message;

impl Step<'_> {
    /// Tells the model what is wrong with its reply: in the conversation, or with the attempts of this turn only.
    pub(super) fn guide(&mut self, class: ErrorClass, text: String) {
        if self.policy.turn().guidance.keep.value {
            let guidance = Some(class.name().to_owned());
            return self.note(Note::Append { message: Message::User { text, guidance } }, Vec::new());
        }
        match self.state.model_turn.guidance.iter_mut().find(|known| known.class == class) {
            Some(known) => known.text = text,
            None => self.state.model_turn.guidance.push(Guidance { class, text }),
        }
    }

    /// What goes along with the next attempt: of several, so many of the worst as the policy says.
    pub(super) fn guidance(&self) -> Vec<String> {
        let most = self.policy.turn().guidance.most.value.get();
        let mut due: Vec<&Guidance> = self.state.model_turn.guidance.iter().collect();
        due.sort_by_key(|guidance| weight(guidance.class));
        due.into_iter().take(most as usize).map(|guidance| guidance.text.clone()).collect()
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
