//! What words of other libraries and protocols mean here: fields, error classes, effects.
//!
//! The one table of synonyms, by library. Sources: the SDKs of `OpenAI` and Anthropic (`_exceptions.py`, `error.type`),
//! `LiteLLM` ("Exception mapping", "Router: retry policy"), `LangChain` (`Runnable.with_retry`, `AgentExecutor`), the agents
//! SDK of `OpenAI` and Vercel's AI SDK (`maxTurns`, `maxSteps`, `maxRetries`), tenacity (`stop_*`, `wait_*`, `retry_*`),
//! backoff (`on_exception`), resilience4j (`RetryConfig`, `CircuitBreakerConfig`, `TimeLimiterConfig`), Polly
//! (`RetryStrategyOptions`), Envoy (`x-envoy-retry-on`), gRPC (status codes), Spring Retry (`@Retryable`), urllib3 (`Retry`),
//! the hints of MCP's tool annotations, and HTTP (RFC 9110).

mod fields;
mod renamed;
mod words;

use fields::FIELDS;
use renamed::{KEYS, WORDS};
use words::{CLASSES, EFFECTS};

use crate::text::did_you_mean::{closest, fold, is_certain};
use crate::text::yaml::{YamlKey, YamlNode};

/// Longer names are looked for nowhere.
const LONGEST: usize = 64;
/// A field by the name it has in other systems.
pub(crate) struct KnownField {
    /// Its name here.
    pub(crate) here: &'static str,
    /// How it is written.
    pub(crate) help: &'static str,
    /// What becomes of a number that is its value there.
    pub(crate) counts: CountedUnit,
}

/// What the numbers of such a field count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CountedUnit {
    /// Attempts that come after the first.
    Retries,
    /// Attempts, the first one too.
    Attempts,
    /// Something else.
    Other,
}

/// What a name means in other systems, if there is a field of that sense here.
pub(crate) fn field(name: &str, fields: &[&str]) -> Option<KnownField> {
    let name = short(name)?;
    let known = |(names, here, ..): &&(&[&str], &str, &str, CountedUnit)| {
        names.contains(&name.as_str()) && fields.contains(here)
    };
    FIELDS.iter().find(known).map(|(_, here, help, counts)| KnownField { here, help, counts: *counts })
}

/// Whether a name has a meaning in other systems: then it is no slip of a name that looks alike.
pub(crate) fn is_known(name: &str) -> bool {
    short(name).is_some_and(|name| FIELDS.iter().any(|(names, ..)| names.contains(&name.as_str())))
}

/// The present name of a key that had another one, if a field of that name is here.
pub(crate) fn renamed_key<'f>(name: &str, fields: &[&'f str]) -> Option<&'f str> {
    let rows = KEYS.iter().filter(|(_, old, _)| *old == name);
    let mut now = rows.filter_map(|(.., new)| fields.iter().copied().find(|field| field == new));
    now.next()
}

/// The present word for one of another time, if it is one of `options`.
pub(crate) fn renamed_word<'o>(word: &str, options: &[&'o str]) -> Option<&'o str> {
    let rows = WORDS.iter().filter(|(_, old, _)| *old == word);
    let mut now = rows.filter_map(|(.., new)| options.iter().copied().find(|option| option == new));
    now.next()
}

/// What a word means in other systems: those of `options` that have its sense.
pub(crate) fn word<'o>(word: &str, options: &[&'o str]) -> Vec<&'o str> {
    let Some(word) = short(word) else { return Vec::new() };
    let rows = CLASSES.iter().chain(EFFECTS).filter(|(words, _)| words.contains(&word.as_str()));
    let meant =
        rows.map(|(_, meant)| options.iter().copied().filter(|option| meant.contains(option)).collect());
    meant.into_iter().find(|meant: &Vec<_>| !meant.is_empty()).unwrap_or_default()
}

/// What was probably meant by a word, of all that is known: by a slip, or by its sense elsewhere. `true`: nothing else.
pub(crate) fn meant<'o>(found: &str, options: &[&'o str]) -> Option<(&'o str, bool)> {
    let near = closest(found, options.iter().copied());
    if let Some(near) = near
        && is_certain(found, near, options.iter().copied())
    {
        return Some((near, true));
    }
    // A status such as 429 covers failures of other classes too, so it is never certain.
    let number = found.bytes().any(|byte| byte.is_ascii_digit());
    match word(found, options).as_slice() {
        [one] => Some((one, !number)),
        [] => near.map(|near| (near, false)),
        _ => None,
    }
}

fn short(name: &str) -> Option<String> {
    (name.len() <= LONGEST).then(|| fold(name))
}

/// Another key of the mapping that is as certainly a slip of the same field.
pub(super) fn rival<'n>(
    // Two keys that may both be meant for one field cannot both be repaired.
    key: &YamlKey,
    meant: &str,
    fields: &[&str],
    entries: &'n [(YamlKey, YamlNode)],
) -> Option<&'n YamlKey> {
    let slip = |other: &&YamlKey| {
        other.span != key.span
            && !fields.contains(&&*other.name)
            && is_certain(&other.name, meant, fields.iter().copied())
    };
    entries.iter().map(|(other, _)| other).find(slip)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::ErrorClass;

    fn classes() -> Vec<&'static str> {
        ErrorClass::ALL.iter().map(|class| class.name()).collect()
    }

    #[test]
    fn words_of_other_libraries_lead_to_the_class_of_their_sense() {
        let classes = classes();
        for (found, class) in [
            ("connection_error", "network_error"),
            ("APIConnectionError", "network_error"),
            ("network", "network_error"),
            ("server_error", "model_error"),
            ("InternalServerError", "model_error"),
            ("ServiceUnavailableError", "overloaded"),
            ("RateLimitError", "rate_limit"),
            ("insufficient_quota", "quota_exceeded"),
            ("ContextWindowExceededError", "context_overflow"),
            ("ContentPolicyViolationError", "content_filter"),
            ("DEADLINE_EXCEEDED", "timeout"),
            ("gateway-error", "model_error"),
            ("time_out", "timeout"),
            ("rate_limt", "rate_limit"),
        ] {
            assert_eq!(meant(found, &classes), Some((class, true)), "{found}");
        }
        for (found, expected) in [
            ("429", &["rate_limit", "quota_exceeded"][..]),
            ("http_429", &["rate_limit", "quota_exceeded"]),
            ("5xx", &["timeout", "overloaded", "model_error"]),
        ] {
            assert_eq!((word(found, &classes), meant(found, &classes)), (expected.to_vec(), None), "{found}");
        }
        assert_eq!(meant("sunshine", &classes), None);
        assert_eq!(meant("writes", &["read_only", "non_idempotent"]), Some(("non_idempotent", true)));
    }

    #[test]
    fn every_word_of_the_table_is_folded_stands_there_once_and_leads_to_a_class() {
        let mut seen = std::collections::BTreeSet::new();
        for (words, meant) in CLASSES {
            assert!(meant.iter().all(|class| ErrorClass::from_name(class).is_some()), "{meant:?}");
            for word in *words {
                assert_eq!(fold(word), *word);
                assert!(seen.insert(*word), "{word} stands in two rows");
                assert!(ErrorClass::ALL.iter().all(|class| fold(class.name()) != *word), "{word} is a class");
            }
        }
        for (names, here, ..) in FIELDS {
            for name in *names {
                assert_eq!(fold(name), *name);
            }
            let twice = FIELDS
                .iter()
                .filter(|(other, at, ..)| at == here && other.iter().any(|one| names.contains(one)));
            assert!(
                twice.count() == 1 || *here == "retry" || *here == "max_attempts" || *here == "turn",
                "{here}"
            );
        }
    }

    #[test]
    fn fields_of_other_libraries_lead_to_the_field_of_their_sense() {
        let retry = ["max_attempts", "attempt_timeout", "deadline", "backoff", "retry_on", "server_delay"];
        for (name, here, counts) in [
            ("num_retries", "max_attempts", CountedUnit::Retries),
            ("stop_after_attempt", "max_attempts", CountedUnit::Attempts),
            ("wait_exponential_jitter", "backoff", CountedUnit::Other),
            ("retryExceptions", "retry_on", CountedUnit::Other),
            ("request_timeout", "attempt_timeout", CountedUnit::Other),
            ("max_elapsed_time", "deadline", CountedUnit::Other),
        ] {
            let found = field(name, &retry).unwrap();
            assert_eq!((found.here, found.counts), (here, counts), "{name}");
        }
        assert_eq!(field("retries", &["retry", "breaker"]).unwrap().counts, CountedUnit::Retries);
        assert!(field("max_tokens", &["tokens"]).is_none() && is_known("max_tokens"));
        for here in ["run", "limits", "max_turns"] {
            assert!(field("max_tokens", &[here]).unwrap().help.contains("limits: {run: {"), "{here}");
        }
        assert!(field("deadline", &["max_turns"]).unwrap().help.contains("limits: {run: {"));
        assert_eq!(field("max_tokens", &["max_turns", "run"]).unwrap().here, "run");
    }
}
