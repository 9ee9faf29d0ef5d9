//! An attempt that failed, with what the server answered.

use super::WholeAnswer;
use super::mask::AnswerMask;
use crate::engine::Failure;
use crate::host::redact::SecretRedactor;

/// An attempt that failed.
#[derive(Clone, Debug)]
pub(in crate::host) struct RelayFailure {
    pub(in crate::host) failure: Failure,
    /// What the server answered, if it was the failure.
    pub(in crate::host) answer: Option<WholeAnswer>,
}

impl RelayFailure {
    /// The same without secrets.
    pub(super) fn redacted(mut self, redactor: &SecretRedactor, mask: &AnswerMask<'_>) -> Self {
        self.failure = redactor.failure(self.failure, None);
        if let Some(answer) = &mut self.answer {
            // Some servers repeat the key that they refuse.
            answer.body = match String::from_utf8(answer.body.to_vec()) {
                Ok(text) => redactor.text(text).into(),
                Err(_) => mask.masked(core::mem::take(&mut answer.body)),
            };
            let hides = |value: &str| redactor.text(value.to_owned()) != value;
            let secret: Vec<_> = answer
                .head
                .headers
                .iter()
                .filter(|(_, value)| value.to_str().is_ok_and(hides))
                .map(|(name, _)| name.clone())
                .collect();
            for name in secret {
                answer.head.headers.remove(name);
            }
        }
        self
    }
}

impl From<Failure> for RelayFailure {
    fn from(failure: Failure) -> Self {
        Self { failure, answer: None }
    }
}
