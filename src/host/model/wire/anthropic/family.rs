//! What Claude models take otherwise than most, as data: by parts of their names, which are the same behind every API.
//!
//! The facts are those of `profiles/anthropic.py` of pydantic-ai 2.68.

/// What is known of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ClaudeFamily {
    /// It takes a request that demands a call. Where it does not, the model chooses.
    pub(crate) forced_calls: bool,
}

/// Most models.
const PLAIN: ClaudeFamily = ClaudeFamily { forced_calls: true };
/// "`tool_choice` forces tool use is not compatible with this model", whether it is asked to think or not.
const UNFORCED: ClaudeFamily = ClaudeFamily { forced_calls: false };
/// Models by a part of their names.
const BY_NAME: &[(&str, ClaudeFamily)] = &[
    ("claude-fable-5-1", UNFORCED),
    ("claude-fable-5-2", UNFORCED),
    ("claude-mythos-5-1", UNFORCED),
    ("claude-mythos-5-2", UNFORCED),
    ("claude-opus-5-5", UNFORCED),
    ("claude-sonnet-5-5", UNFORCED),
];

impl ClaudeFamily {
    /// What is known of the model of that name.
    pub(crate) fn of(model: &str) -> Self {
        // Routers write `claude-opus-5.5`.
        let name = model.to_ascii_lowercase().replace('.', "-");
        BY_NAME.iter().find(|(part, _)| has(&name, part)).map_or(PLAIN, |(_, family)| *family)
    }
}

/// Whether a name has that part. A date may follow a version: `claude-fable-5-20260601` is no 5.2.
fn has(name: &str, part: &str) -> bool {
    name.split_once(part).is_some_and(|(_, rest)| !rest.starts_with(|c: char| c.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_is_known_by_its_name_behind_every_api() {
        for (model, forced_calls) in [
            ("claude-opus-5-5", false),
            ("claude-sonnet-5-5-20261001", false),
            ("us.anthropic.claude-opus-5-5-v1:0", false),
            ("anthropic/claude-fable-5.2", false),
            ("claude-mythos-5-1@20261001", false),
            ("claude-fable-5-20260601", true),
            ("claude-opus-5", true),
            ("claude-haiku-5-5", true),
            ("glm-5", true),
        ] {
            assert_eq!(ClaudeFamily::of(model).forced_calls, forced_calls, "{model}");
        }
    }
}
