//! An attempt that failed, with what the server answered.

use super::mask::AnswerMask;
use super::{ConvertedRequest, WholeAnswer};
use crate::engine::Failure;
use crate::host::redact::SecretRedactor;

/// An attempt that failed.
#[derive(Clone, Debug)]
pub(in crate::host) struct RelayFailure {
    pub(in crate::host) failure: Failure,
    /// What the server answered, if it was the failure.
    pub(in crate::host) answer: Option<WholeAnswer>,
    /// Whether the server says it in the dialect of the client.
    pub(in crate::host) is_own: bool,
    /// The fields of the client's request that the model did not get.
    pub(in crate::host) left_out: Vec<String>,
}

impl RelayFailure {
    /// One with what the server answered, if it was the failure.
    pub(super) fn with(failure: Failure, answer: Option<WholeAnswer>) -> Self {
        Self { failure, answer, is_own: false, left_out: Vec::new() }
    }

    /// The same of a request that was converted, or went out as it came.
    pub(super) fn sent_as(self, converted: Option<&ConvertedRequest<'_>>) -> Self {
        let left_out = converted.map(|converted| converted.left_out.clone()).unwrap_or_default();
        Self { is_own: converted.is_none(), left_out, ..self }
    }

    /// The same without secrets.
    pub(super) fn redacted(mut self, redactor: &SecretRedactor, mask: &AnswerMask<'_>) -> Self {
        self.failure = redactor.failure(self.failure, None);
        // One that does not hold, and is passed on all the same, is an answer like others.
        if self.answer.as_ref().is_some_and(|answer| answer.head.status.is_success()) {
            self.answer = self.answer.map(|answer| answer.masked(mask));
        } else if let Some(answer) = &mut self.answer {
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
        Self::with(failure, None)
    }
}

#[cfg(test)]
mod tests {
    use reqwest::StatusCode;
    use reqwest::header::HeaderMap;

    use super::super::AnswerHead;
    use super::*;
    use crate::policy::ErrorClass;

    #[test]
    fn an_answer_that_does_not_hold_is_no_error() {
        // What stands for a key at servers that want none.
        let redactor = SecretRedactor::new(["none".into()]);
        let mask = AnswerMask::new(&redactor);
        for (status, said, expected) in [
            (200, "none of these", "none of these"),
            (401, "none of these", "[redacted] of these"),
            (401, r"n\u006fne of these", "[redacted] of these"),
        ] {
            let head =
                AnswerHead { status: StatusCode::from_u16(status).unwrap(), headers: HeaderMap::new() };
            let answer = Some(WholeAnswer { head, body: said.into() });
            let failure = Failure::of(ErrorClass::InvalidArgs, "no");
            let passed = RelayFailure::with(failure, answer).redacted(&redactor, &mask);
            assert_eq!(passed.answer.unwrap().body, expected);
        }
    }
}
