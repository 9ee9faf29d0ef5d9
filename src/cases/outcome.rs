//! How runs of a tool end, as test files say it: in short (`rate_limit x9`, `429 retry-after 3`) or written out.

use core::num::NonZeroU32;

use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};

use crate::engine::{EffectState, Failure, ToolOutcome, WaitHint};
use crate::policy::ErrorClass;
use crate::policy::decode::{Decode, NodeReader, SchemaOf, Spanned, choice_of, record};
use crate::text::yaml::{YamlData, YamlNode};
use crate::text::{Code, Diagnostic, Span, parse_duration};
use crate::time::Nanos;

/// How often one outcome may be repeated; a run that is longer than this does not end.
const MOST_TIMES: u32 = 10_000;

/// One way a run of a tool ends.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct OutcomeRule {
    /// How often in a row.
    pub(crate) times: u32,
    /// How long the run takes; `None`: no time, or all of its timeout if it is a timeout.
    /// Example: `2s`
    pub(crate) takes: Option<Nanos>,
    /// How it ends.
    pub(crate) outcome: ToolOutcome,
}

record! {
    /// The end of a run of a tool, written out: exactly one of `ok`, `error` and `status`.
    struct WrittenOutcome {
        /// It did what it should, with this result.
        /// Example: `{"price": 12.5}`
        ok: Option<Spanned<Value>>,
        /// It failed with this class.
        error: Option<Spanned<ErrorClass>>,
        /// It failed with this HTTP status; the policy's table of errors says which class that is.
        /// Example: `429`
        status: Option<Spanned<u16>>,
        /// The provider's code of the error.
        /// Example: `rate_limit_exceeded`
        code: Option<String>,
        /// The provider's type of the error.
        /// Example: `requests`
        r#type: Option<String>,
        /// What it says about the failure.
        /// Example: `slow down`
        message: Option<String>,
        /// The wait it asks for.
        /// Example: `3s`
        retry_after: Option<Nanos>,
        /// How far it got.
        effect: Option<EffectState>,
        /// How long it takes. Left out: no time, but a timeout takes all the time there is.
        /// Example: `2s`
        takes: Option<Nanos>,
        /// How often in a row.
        /// Example: `9`
        times: NonZeroU32 = NonZeroU32::MIN,
    }
}

choice_of! {
    /// How far a run of a tool got before it failed.
    EffectState {
        /// It certainly did not start.
        NotStarted = "not_started",
        /// It started, and ended by itself.
        Started = "started",
        /// It certainly did what it was asked.
        Committed = "committed",
        /// It may have had side effects; that is unknown.
        Unknown = "unknown",
    }
}

impl Decode for OutcomeRule {
    fn decode(node: &YamlNode, reader: &mut NodeReader<'_>) -> Option<Self> {
        match &node.data {
            YamlData::Text(text) => match short(text) {
                Ok(rule) => Some(rule),
                Err(problem) => {
                    reader.report(Diagnostic::error(Code::BAD_VALUE, node.span, problem).help(
                        "write such as `ok`, `timeout x2`, `429 retry-after 3` or `{error: rate_limit}`",
                    ));
                    None
                }
            },
            YamlData::Number(number) => {
                let status = number.as_u64().and_then(|status| u16::try_from(status).ok());
                failing(status.unwrap_or_default(), node.span, reader)
                    .map(|status| Self::once(of_status(status)))
            }
            YamlData::Map(_) => WrittenOutcome::decode(node, reader)?.rule(node.span, reader),
            _ => reader.wrong_type(node, "an outcome such as `ok`, `rate_limit x9` or `{error: timeout}`"),
        }
    }

    fn schema(generator: &mut SchemaGenerator) -> Schema {
        let written = generator.subschema_for::<SchemaOf<WrittenOutcome>>();
        json_schema!({"anyOf": [
            {
                "type": "string",
                "description": "In short: `ok`, a class or an HTTP status; then `retry-after 3`, `takes 2s`, an \
                                effect, and how often (`x9`).",
                "examples": ["ok", "rate_limit x9", "429 retry-after 3", "timeout not_started"],
            },
            {"type": "integer", "minimum": 300, "maximum": 599, "description": "The HTTP status of a failure."},
            written,
        ]})
    }
}

impl OutcomeRule {
    const fn once(outcome: ToolOutcome) -> Self {
        Self { times: 1, takes: None, outcome }
    }
}

impl WrittenOutcome {
    fn rule(self, span: Span, reader: &mut NodeReader<'_>) -> Option<OutcomeRule> {
        let said = [
            self.ok.as_ref().map(|ok| ok.span),
            self.error.as_ref().map(|error| error.span),
            self.status.as_ref().map(|status| status.span),
        ];
        let said: Vec<Span> = said.into_iter().flatten().collect();
        if said.len() != 1 {
            let at = said.get(1).copied().unwrap_or(span);
            reader.report(Diagnostic::error(
                Code::CONTRADICTION,
                at,
                "an outcome has exactly one of `ok`, `error` and `status`",
            ));
            return None;
        }
        let mut outcome = match (self.ok, self.error, self.status) {
            (Some(ok), _, _) => ToolOutcome::Ok { data: ok.value },
            (_, Some(error), _) => of_class(error.value),
            (_, _, Some(status)) => of_status(failing(status.value, status.span, reader)?),
            (None, None, None) => return None,
        };
        match &mut outcome {
            ToolOutcome::Ok { .. } | ToolOutcome::Done => {
                let failing = self.code.is_some()
                    || self.r#type.is_some()
                    || self.message.is_some()
                    || self.retry_after.is_some()
                    || self.effect.is_some();
                if failing {
                    let message = "`ok` takes nothing that only failures have";
                    reader.report(
                        Diagnostic::error(Code::CONTRADICTION, span, message)
                            .help("remove `code`, `type`, `message`, `retry_after` and `effect`"),
                    );
                    return None;
                }
            }
            ToolOutcome::Failed { failure, effect } => {
                failure.code = self.code;
                failure.kind = self.r#type;
                if let Some(message) = self.message {
                    failure.message = message;
                }
                if let Some(wait) = self.retry_after {
                    failure.retry_after = WaitHint::Wait(wait);
                }
                if let Some(known) = self.effect {
                    *effect = known;
                }
            }
        }
        if self.times.get() > MOST_TIMES {
            let message = format!("at most {MOST_TIMES} times");
            reader.report(Diagnostic::error(Code::OUT_OF_RANGE, span, message));
            return None;
        }
        Some(OutcomeRule { times: self.times.get(), takes: self.takes, outcome })
    }
}

/// Reads several of the short form, between commas.
pub(crate) fn outcomes(text: &str) -> Result<Vec<OutcomeRule>, String> {
    text.split(',').map(|one| short(one.trim())).collect()
}

/// Reads the short form.
fn short(text: &str) -> Result<OutcomeRule, String> {
    let mut words = text.split_whitespace();
    let first = words.next().ok_or("an outcome is missing")?;
    let mut rule = OutcomeRule::once(if first == "ok" {
        ToolOutcome::Ok { data: json!("ok") }
    } else if let Some(class) = ErrorClass::from_name(first) {
        of_class(class)
    } else if let Ok(status) = first.parse() {
        match status {
            300..=599 => of_status(status),
            _ => return Err(no_failure(status)),
        }
    } else {
        return Err(format!("`{first}` is neither `ok` nor a class nor an HTTP status"));
    });
    while let Some(word) = words.next() {
        match (word, &mut rule.outcome) {
            ("retry-after", ToolOutcome::Failed { failure, .. }) => {
                let wait = words.next().ok_or("`retry-after` needs a number of seconds")?;
                // As the header has it: a bare number is seconds.
                let wait = if wait.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
                    format!("{wait}s")
                } else {
                    wait.into()
                };
                failure.retry_after = WaitHint::Wait(parse_duration(&wait).map_err(|error| error.message)?);
            }
            ("takes", _) => {
                let time = words.next().ok_or("`takes` needs a duration")?;
                rule.takes = Some(parse_duration(time).map_err(|error| error.message)?);
            }
            ("not_started", ToolOutcome::Failed { effect, .. }) => *effect = EffectState::NotStarted,
            ("started", ToolOutcome::Failed { effect, .. }) => *effect = EffectState::Started,
            ("committed", ToolOutcome::Failed { effect, .. }) => *effect = EffectState::Committed,
            ("unknown", ToolOutcome::Failed { effect, .. }) => *effect = EffectState::Unknown,
            (times, _) => {
                let number = times.strip_prefix('x').and_then(|number| number.parse().ok());
                rule.times = match number {
                    Some(number @ 1..=MOST_TIMES) => number,
                    Some(_) => return Err(format!("`{times}`: from x1 to x{MOST_TIMES}")),
                    None => return Err(format!("`{times}` is not understood here")),
                };
                if words.next().is_some() {
                    return Err(format!("nothing may follow `{times}`"));
                }
                break;
            }
        }
    }
    Ok(rule)
}

/// A failure of that class, with the effect the class usually means.
pub(crate) fn of_class(class: ErrorClass) -> ToolOutcome {
    let effect = match class {
        ErrorClass::ToolUnavailable | ErrorClass::InvalidArgs | ErrorClass::PermissionDenied => {
            EffectState::NotStarted
        }
        ErrorClass::Timeout | ErrorClass::NetworkError | ErrorClass::Cancelled => EffectState::Unknown,
        _ => EffectState::Started,
    };
    ToolOutcome::Failed { failure: Failure::of(class, class.name()), effect }
}

/// The status, if it is that of a failure.
fn failing(status: u16, span: Span, reader: &mut NodeReader<'_>) -> Option<u16> {
    if matches!(status, 300..=599) {
        return Some(status);
    }
    let problem = Diagnostic::error(Code::OUT_OF_RANGE, span, no_failure(status));
    let help = match status {
        200..=299 => "a result is written as `{ok: RESULT}`",
        _ => "the status of a failure is from 300 to 599",
    };
    reader.report(problem.help(help));
    None
}

fn no_failure(status: u16) -> String {
    match status {
        200..=299 => format!("{status} is the status of a success: write `ok`"),
        _ => format!("{status} is not the HTTP status of a failure"),
    }
}

/// A failure with that HTTP status; its class is the policy's business.
fn of_status(status: u16) -> ToolOutcome {
    let failure = Failure { status: Some(status), message: format!("HTTP {status}"), ..Failure::default() };
    ToolOutcome::Failed { failure, effect: EffectState::Started }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(text: &str) -> (u32, Option<Nanos>, Failure, EffectState) {
        let OutcomeRule { times, takes, outcome } = short(text).unwrap();
        match outcome {
            ToolOutcome::Failed { failure, effect } => (times, takes, failure, effect),
            ToolOutcome::Ok { .. } | ToolOutcome::Done => panic!("{text} is no failure"),
        }
    }

    #[test]
    fn the_short_form() {
        let (times, takes, failure, effect) = failed("rate_limit retry-after 3 takes 2s unknown x9");
        assert_eq!((times, takes, effect), (9, Some(Nanos::from_secs(2)), EffectState::Unknown));
        assert_eq!(failure.class, Some(ErrorClass::RateLimit));
        assert_eq!(failure.retry_after, WaitHint::Wait(Nanos::from_secs(3)));
        let (_, _, failure, _) = failed("429 retry-after 1m30s");
        assert_eq!((failure.status, failure.class), (Some(429), None));
        assert_eq!(failure.retry_after, WaitHint::Wait(Nanos::from_secs(90)));
        let (_, _, failure, _) = failed("429 retry-after 10.001");
        assert_eq!(failure.retry_after, WaitHint::Wait(Nanos::from_millis(10_001)));
        assert_eq!(short("ok x2").unwrap().times, 2);
    }

    #[test]
    fn what_is_not_understood_is_said() {
        for (text, told) in [
            ("rate_limt", "`rate_limt` is neither `ok` nor a class nor an HTTP status"),
            ("timeout 2", "`2` is not understood here"),
            ("timeout x0", "`x0`: from x1 to x10000"),
            ("timeout x2 unknown", "nothing may follow `x2`"),
            ("429 retry-after", "`retry-after` needs a number of seconds"),
            ("ok started", "`started` is not understood here"),
            ("200 takes 2s", "200 is the status of a success: write `ok`"),
            ("99", "99 is not the HTTP status of a failure"),
        ] {
            assert_eq!(short(text).unwrap_err(), told);
        }
    }
}
