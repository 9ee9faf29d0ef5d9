//! How long a model call may take, for calls that are not streamed piece by piece here.

use crate::engine::CallTimeouts;
use crate::policy::ErrorClass;
use crate::time::Nanos;

/// The longest a call may take. When its first piece must be there says nothing of how long a whole answer takes; a
/// call that brings no answer at all is over by then.
pub(crate) fn longest(whole: Option<Nanos>, steps: CallTimeouts, is_answered: bool) -> Option<Nanos> {
    let first_token = steps.first_token.filter(|_| !is_answered);
    [whole, first_token].into_iter().flatten().min()
}

/// Whether a model that fails so has answered: it takes as long as any answer.
pub(crate) const fn is_answer(class: ErrorClass) -> bool {
    matches!(
        class,
        ErrorClass::EmptyResponse
            | ErrorClass::ReasoningOnly
            | ErrorClass::TextOnly
            | ErrorClass::TruncatedOutput
            | ErrorClass::ContentFilter
            | ErrorClass::MalformedToolCall
            | ErrorClass::InvalidArgs
            | ErrorClass::InvalidOutput
            | ErrorClass::ToolNotFound
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_brings_no_answer_is_bound_by_the_first_piece() {
        let secs = Nanos::from_secs;
        let steps = CallTimeouts { first_token: Some(secs(3)), ..CallTimeouts::default() };
        assert_eq!(longest(Some(secs(5)), steps, true), Some(secs(5)));
        assert_eq!(longest(Some(secs(5)), steps, false), Some(secs(3)));
        assert_eq!(longest(Some(secs(2)), steps, false), Some(secs(2)));
        assert_eq!(longest(None, steps, true), None);
    }
}
