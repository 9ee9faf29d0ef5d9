//! The policy that ships with the product: the values, and the tables that tell failures apart.

use std::sync::LazyLock;

use super::classify::ErrorTable;
use super::decode;
use super::document::PolicyFile;
use super::findings::Findings;
use super::origin::LayerKind;
use crate::text::{SourceId, Sources};

/// The lowest layer of every policy. It sets every value.
pub(crate) const DEFAULT: &str = include_str!("../../policies/default.yaml");
/// Its name in places.
pub(crate) const DEFAULT_NAME: &str = "builtin:default";

/// The error tables with their names in places, in the order in which their rows are asked.
pub(crate) const TABLES: &[(&str, &str)] = &[
    ("builtin:errors/validation", include_str!("../../policies/errors/validation.yaml")),
    // DashScope sends `insufficient_quota` for a limit per minute, so its rows are asked before those of OpenAI,
    // where the code means that the money is gone.
    ("builtin:errors/qwen", include_str!("../../policies/errors/qwen.yaml")),
    ("builtin:errors/zai", include_str!("../../policies/errors/zai.yaml")),
    ("builtin:errors/openai", include_str!("../../policies/errors/openai.yaml")),
    ("builtin:errors/anthropic", include_str!("../../policies/errors/anthropic.yaml")),
    ("builtin:errors/gemini", include_str!("../../policies/errors/gemini.yaml")),
    ("builtin:errors/mistral", include_str!("../../policies/errors/mistral.yaml")),
    ("builtin:errors/azure", include_str!("../../policies/errors/azure.yaml")),
    ("builtin:errors/github_models", include_str!("../../policies/errors/github_models.yaml")),
    ("builtin:errors/bedrock", include_str!("../../policies/errors/bedrock.yaml")),
    ("builtin:errors/openrouter", include_str!("../../policies/errors/openrouter.yaml")),
    ("builtin:errors/cohere", include_str!("../../policies/errors/cohere.yaml")),
    ("builtin:errors/groq", include_str!("../../policies/errors/groq.yaml")),
    ("builtin:errors/deepseek", include_str!("../../policies/errors/deepseek.yaml")),
    ("builtin:errors/moonshot", include_str!("../../policies/errors/moonshot.yaml")),
    ("builtin:errors/xai", include_str!("../../policies/errors/xai.yaml")),
    ("builtin:errors/cerebras", include_str!("../../policies/errors/cerebras.yaml")),
    ("builtin:errors/fireworks", include_str!("../../policies/errors/fireworks.yaml")),
    ("builtin:errors/together", include_str!("../../policies/errors/together.yaml")),
    ("builtin:errors/minimax", include_str!("../../policies/errors/minimax.yaml")),
    ("builtin:errors/volcano", include_str!("../../policies/errors/volcano.yaml")),
    ("builtin:errors/siliconflow", include_str!("../../policies/errors/siliconflow.yaml")),
    ("builtin:errors/watsonx", include_str!("../../policies/errors/watsonx.yaml")),
    ("builtin:errors/cloudflare", include_str!("../../policies/errors/cloudflare.yaml")),
    ("builtin:errors/databricks", include_str!("../../policies/errors/databricks.yaml")),
    ("builtin:errors/vercel", include_str!("../../policies/errors/vercel.yaml")),
    ("builtin:errors/litellm", include_str!("../../policies/errors/litellm.yaml")),
    ("builtin:errors/portkey", include_str!("../../policies/errors/portkey.yaml")),
    ("builtin:errors/ollama", include_str!("../../policies/errors/ollama.yaml")),
    ("builtin:errors/llama_cpp", include_str!("../../policies/errors/llama_cpp.yaml")),
    ("builtin:errors/sglang", include_str!("../../policies/errors/sglang.yaml")),
    ("builtin:errors/vllm", include_str!("../../policies/errors/vllm.yaml")),
    ("builtin:errors/tgi", include_str!("../../policies/errors/tgi.yaml")),
    ("builtin:errors/lm_studio", include_str!("../../policies/errors/lm_studio.yaml")),
    // These rows look at little but the status, so they come last.
    ("builtin:errors/generic", include_str!("../../policies/errors/generic.yaml")),
];

/// Policies after other systems, by the names files extend them by.
pub(crate) const PRESETS: &[(&str, &str)] = &[
    ("builtin:presets/ai-agent", include_str!("../../policies/presets/ai-agent.yaml")),
    ("builtin:presets/ai-agent-current", include_str!("../../policies/presets/ai-agent-current.yaml")),
    ("builtin:presets/localcowork", include_str!("../../policies/presets/localcowork.yaml")),
    ("builtin:presets/localcowork-current", include_str!("../../policies/presets/localcowork-current.yaml")),
    ("builtin:presets/supyagent", include_str!("../../policies/presets/supyagent.yaml")),
    ("builtin:presets/supyagent-current", include_str!("../../policies/presets/supyagent-current.yaml")),
    ("builtin:presets/swarm-sdk", include_str!("../../policies/presets/swarm-sdk.yaml")),
    ("builtin:presets/swarm-sdk-current", include_str!("../../policies/presets/swarm-sdk-current.yaml")),
    ("builtin:presets/weakincentives", include_str!("../../policies/presets/weakincentives.yaml")),
    (
        "builtin:presets/weakincentives-current",
        include_str!("../../policies/presets/weakincentives-current.yaml"),
    ),
];

/// The rows of the tables. They are two thirds of what is built in, and a policy needs them at the first failure only.
pub(crate) static BUILTIN_ROWS: LazyLock<ErrorTable> = LazyLock::new(|| read_rows(&mut Findings::default()));

/// Reads the tables. Their texts have the numbers that they have in every policy: after that of the default.
fn read_rows(findings: &mut Findings) -> ErrorTable {
    let mut sources = Sources::new();
    sources.add(DEFAULT_NAME, DEFAULT);
    let mut rows = Vec::new();
    for (name, text) in TABLES {
        let read = decode::read_into::<PolicyFile>(&mut sources, findings, name, text.as_bytes());
        let errors = read.map(|(_, file)| file.split().1.errors).unwrap_or_default();
        rows.extend(errors.iter().map(|rule| rule.row(LayerKind::Builtin)));
    }
    // A test keeps the tables free of mistakes, and far from being too large.
    ErrorTable::new(rows).unwrap_or_default()
}

/// How many texts come before the first file of a policy.
pub(crate) const BUILTIN_TEXTS: usize = TABLES.len() + 1;

/// Whether a text of a policy ships with the product.
pub(crate) fn is_builtin(source: SourceId) -> bool {
    usize::from(source.0) < BUILTIN_TEXTS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_has_no_mistakes_and_reads_no_slice() {
        let (mut sources, mut findings) = (Sources::new(), Findings::default());
        let read =
            decode::read_into::<PolicyFile>(&mut sources, &mut findings, DEFAULT_NAME, DEFAULT.as_bytes());
        assert!(read.is_some() && findings.slices_read().is_empty());
        let report = findings.into_report(sources);
        assert!(report.is_empty(), "{report}");
    }

    #[test]
    fn the_tables_have_no_mistakes_and_the_places_that_policies_give_them() {
        let mut findings = Findings::default();
        let rows = read_rows(&mut findings);
        assert!(!findings.has_errors() && rows.rows().count() > 300, "{}", rows.rows().count());
        let policy = crate::policy::Policy::builtin();
        for row in rows.rows() {
            let file = policy.place(row.origin).file;
            assert!(TABLES.iter().any(|(name, _)| *name == file), "{file}");
        }
    }
}
