//! How models and tools fail.

use unfazed::engine::{Failure, WaitHint};
use unfazed::policy::{ErrorClass, Policy};
use unfazed::time::Nanos;

use super::tape::Tape;

pub(crate) fn class_of(policy: &Policy, failure: &Failure) -> ErrorClass {
    failure.classified(policy).class
}

pub(crate) fn failure(t: &mut Tape) -> Failure {
    let mut failure = Failure::of(t.of(ErrorClass::ALL), "it broke");
    if t.once_in(4) {
        failure.class = None;
        failure.status = Some(t.of(&[429, 500, 503, 401, 404]));
    }
    failure.retry_after = match t.below(6) {
        0 => WaitHint::Wait(Nanos(t.of(&[0, 1, 700_000_000, 3_000_000_000, 90_000_000_000, u64::MAX]))),
        1 => WaitHint::Ignored("tomorrow".into()),
        _ => WaitHint::None,
    };
    if failure.class == Some(ErrorClass::MalformedToolCall) && t.once_in(2) {
        let shown = r#"raw='{"name": "alpha", "arguments": {"n": 1}', err=unexpected end of JSON input"#;
        failure.message = format!("error parsing tool call: {shown}");
    }
    failure.received = t.of(&[0, 0, 0, 1, 500]);
    failure
}
