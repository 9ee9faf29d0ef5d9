//! What generations of Gemini want otherwise than the first ones, as data: by the number in their names.

/// What is known of a generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct GeminiFamily {
    /// The first call of each turn must have a thought signature ("Thought signatures", ai.google.dev).
    pub(super) requires_signatures: bool,
}

/// The first ones, and names without a number: their refusals teach the rest.
const PLAIN: GeminiFamily = GeminiFamily { requires_signatures: false };
/// From which generation on it is otherwise, the newest first.
const SINCE: &[(u32, GeminiFamily)] = &[(3, GeminiFamily { requires_signatures: true })];

impl GeminiFamily {
    /// What is known of the model with that name, before which a collection may stand.
    pub(super) fn of(model: &str) -> Self {
        let version = model.rsplit('/').next().and_then(|name| name.strip_prefix("gemini-"));
        let digits = version.and_then(|version| version.split(|c: char| !c.is_ascii_digit()).next());
        let generation = digits.and_then(|digits| digits.parse::<u32>().ok()).unwrap_or_default();
        SINCE.iter().find(|(first, _)| generation >= *first).map_or(PLAIN, |(_, family)| *family)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_generation_is_known_by_its_number() {
        for (model, requires_signatures) in [
            ("gemini-2.5-pro", false),
            ("gemini-3-pro", true),
            ("models/gemini-3.5-flash", true),
            ("publishers/google/models/gemini-12-pro", true),
            ("gemini-flash-latest", false),
            ("endpoints/7", false),
        ] {
            assert_eq!(GeminiFamily::of(model), GeminiFamily { requires_signatures }, "{model}");
        }
    }
}
