//! What families of models behind Converse take otherwise than most, as data: by parts of their ids.
//!
//! The facts are those of `providers/bedrock.py` of pydantic-ai 2.68 and of `LiteLLM`'s `exception_mapping_utils.py`.

/// What is known of a family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ModelFamily {
    /// What a user says after results has to be a part of the last one.
    pub(crate) results_alone: bool,
    /// A field of the family's own forbids calls where tools are declared for the history alone: Converse has no word for it.
    pub(crate) forbids_calls: bool,
}

/// Most families.
const PLAIN: ModelFamily = ModelFamily { results_alone: true, forbids_calls: false };
/// Anthropic's: text may stand beside results, and `tool_choice` passes through.
const CLAUDE: ModelFamily = ModelFamily { results_alone: false, forbids_calls: true };
/// Families by a part of the ids of their models: an ARN of a profile may have a name alone.
const BY_ID: &[(&str, ModelFamily)] = &[("anthropic", CLAUDE), ("claude", CLAUDE)];

impl ModelFamily {
    /// What is known of the model with that id.
    pub(crate) fn of(model: &str) -> Self {
        BY_ID.iter().find(|(part, _)| model.contains(part)).map_or(PLAIN, |(_, family)| *family)
    }
}
