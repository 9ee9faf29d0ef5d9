//! Estimates tokens from the bytes of a text, depending on the kind of text.

use super::counter::TokenCounter;
use crate::policy::TokensPolicy;
use crate::text::GrowthFactor;

/// The number of bytes of a text that are examined for program code.
const LOOKED_AT: usize = 8192;
/// A text with more than a tenth of these bytes is program code.
const OF_CODE: &[u8] = b"{}()[];";

/// The kind of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ContentKind {
    /// Any other text.
    Prose,
    /// JSON.
    Json,
    /// Program code.
    Code,
}

/// An estimate by the policy: bytes per token by kind of text, times `safety`.
///
/// ```
/// use unfazed::context::{TokenEstimator, TokenCounter};
/// use unfazed::policy::Policy;
/// let estimator = TokenEstimator::from(&Policy::builtin().model("main").tokens);
/// assert_eq!(estimator.count("These are nine tokens or so, I think."), 10);
/// assert_eq!(estimator.count(r#"{"city":"Oslo"}"#), 6);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenEstimator {
    /// Bytes of prose per token.
    pub(crate) prose: GrowthFactor,
    /// Bytes of JSON per token.
    pub(crate) json: GrowthFactor,
    /// Bytes of program code per token.
    pub(crate) code: GrowthFactor,
    /// The factor for the estimate.
    pub(crate) safety: GrowthFactor,
}

impl ContentKind {
    /// The kind of a text. Only its ends and its start are examined, so the cost does not depend on its length.
    pub(super) fn of(text: &str) -> Self {
        let text = text.trim();
        let between = |open, close| text.starts_with(open) && text.ends_with(close);
        // A text that begins and ends like JSON counts as JSON: parsing a result of megabytes would cost more than it
        // gains.
        if between('{', '}') || between('[', ']') {
            return Self::Json;
        }
        let head = text.as_bytes();
        let head = head.get(..LOOKED_AT).unwrap_or(head);
        let of_code = head.iter().filter(|byte| OF_CODE.contains(byte)).count();
        if of_code.saturating_mul(10) > head.len() { Self::Code } else { Self::Prose }
    }
}

impl From<&TokensPolicy> for TokenEstimator {
    fn from(rules: &TokensPolicy) -> Self {
        Self {
            prose: rules.bytes_per_token.prose.value,
            json: rules.bytes_per_token.json.value,
            code: rules.bytes_per_token.code.value,
            safety: rules.safety.value,
        }
    }
}

impl TokenCounter for TokenEstimator {
    fn count(&self, text: &str) -> u64 {
        let bytes = match ContentKind::of(text) {
            ContentKind::Prose => self.prose,
            ContentKind::Json => self.json,
            ContentKind::Code => self.code,
        };
        let times = |number: u128, factor: u64| number.saturating_mul(factor.into());
        let tokens = times(times(text.len() as u128, bytes.den()), self.safety.num());
        let each = times(bytes.num().into(), self.safety.den());
        // Neither part of a ratio is zero.
        // Rounded up: too low a count overflows the window, and too high a one costs a token.
        u64::try_from(tokens.div_ceil(each.max(1))).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::ByteEstimate;
    use crate::policy::Policy;

    fn builtin() -> TokenEstimator {
        TokenEstimator::from(&Policy::builtin().model("main").tokens)
    }

    fn ratio(text: &str) -> GrowthFactor {
        text.parse().unwrap()
    }

    #[test]
    fn a_text_is_prose_json_or_a_program() {
        for (text, kind) in [
            ("", ContentKind::Prose),
            ("Call me (not before noon).", ContentKind::Prose),
            (" {\"a\": 1}\n", ContentKind::Json),
            ("[]", ContentKind::Json),
            ("[1, 2", ContentKind::Code),
            ("if (x) { y(); }", ContentKind::Code),
        ] {
            assert_eq!(ContentKind::of(text), kind, "{text}");
        }
    }

    #[test]
    fn each_kind_has_its_bytes_for_a_token() {
        let estimator = TokenEstimator { prose: ratio("3.2"), ..builtin() };
        assert_eq!(estimator.count(&"a".repeat(100)), 32);
        assert_eq!(estimator.count("hello"), 2);
        assert_eq!(estimator.count(&format!("[{}]", "1".repeat(14))), 6);
        assert_eq!(estimator.count("f(); g(); "), 3);
        assert_eq!(estimator.count(""), 0);
    }

    #[test]
    fn safety_multiplies_before_it_is_rounded() {
        let safe = TokenEstimator { safety: ratio("1.2"), ..builtin() };
        assert_eq!((safe.count("a"), safe.count(&"a".repeat(400))), (1, 120));
    }

    #[test]
    fn the_built_in_policy_estimates_as_nobody_does() {
        for text in ["", "some prose", "{\"a\": [1, 2]}", "ünïcödé"] {
            assert_eq!(builtin().count(text), ByteEstimate.count(text), "{text}");
        }
    }
}
