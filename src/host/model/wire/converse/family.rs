//! What families of models behind Converse take otherwise than most, as data: by parts of their ids.
//!
//! The facts are those of `providers/bedrock.py` of pydantic-ai 2.68 and of `LiteLLM`'s `exception_mapping_utils.py`.

/// What is known of a family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ModelFamily {
    /// What a user says after results has to be a part of the last one.
    pub(crate) results_alone: bool,
    /// The `tool_choice` of the family's own: Converse has no word for part of it.
    pub(crate) choice: OwnChoice,
    /// It keeps tools, instructions and messages in a cache where the request marks them, and refuses no mark.
    pub(crate) caches: bool,
}

/// What a field of the family's own says about calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OwnChoice {
    /// Nothing: it has no such field.
    Missing,
    /// That none is made, where tools are declared for the history alone.
    Forbids,
    /// The same, and that one is made at most.
    Limits,
}

/// Most families.
const PLAIN: ModelFamily = ModelFamily { results_alone: true, choice: OwnChoice::Missing, caches: false };
/// Anthropic's: text may stand beside results, and `tool_choice` passes through.
const CLAUDE: ModelFamily = ModelFamily { results_alone: false, choice: OwnChoice::Limits, caches: true };
/// Those of before Claude 4.5 refuse `disable_parallel_tool_use` (anthropic-sdk-typescript#592); later ones take it through
/// Converse too (litellm#34347).
const UNLIMITED: ModelFamily = ModelFamily { choice: OwnChoice::Forbids, ..CLAUDE };
/// Those of before Claude 3.7 that have no cache ("Prompt caching" of the user guide of Bedrock lists who has).
const UNCACHED: ModelFamily = ModelFamily { caches: false, ..UNLIMITED };
/// Families by a part of the ids of their models: an ARN of a profile may have a name alone.
const BY_ID: &[(&str, ModelFamily)] = &[
    ("claude-v2", UNCACHED),
    ("claude-instant", UNCACHED),
    ("claude-3-opus", UNCACHED),
    ("claude-3-sonnet", UNCACHED),
    ("claude-3-haiku", UNCACHED),
    ("claude-3-5-sonnet-20240620", UNCACHED),
    ("claude-3", UNLIMITED),
    ("claude-sonnet-4-20250514", UNLIMITED),
    ("claude-opus-4-20250514", UNLIMITED),
    ("claude-opus-4-1-", UNLIMITED),
    ("anthropic", CLAUDE),
    ("claude", CLAUDE),
];

impl ModelFamily {
    /// What is known of the model with that id.
    pub(crate) fn of(model: &str) -> Self {
        BY_ID.iter().find(|(part, _)| model.contains(part)).map_or(PLAIN, |(_, family)| *family)
    }
}
