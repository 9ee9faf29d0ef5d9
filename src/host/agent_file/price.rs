//! What an agent file says about a model for telemetry's sake: its price, and who serves it.

use reqwest::Url;

use super::ModelEntry;
use crate::host::ModelFacts;
use crate::policy::Price;

impl ModelEntry {
    /// What telemetry tells about the model of that name.
    pub fn facts(&self, name: &str) -> ModelFacts {
        let (provider, model, price) = match self {
            Self::OpenAi { base_url, model, price, .. } => (provider(&base_url.value), model.as_str(), price),
            Self::Anthropic { model, price, .. } => ("anthropic", model.value.as_str(), price),
            Self::Scripted { price, .. } => ("scripted", name, price),
        };
        ModelFacts {
            provider: provider.to_owned(),
            model: model.to_owned(),
            price: price.as_ref().map(Price::from),
        }
    }
}

/// Who serves models in the `OpenAI` format there, by the names of OpenTelemetry's conventions. A server nobody knows is
/// called by its format.
fn provider(base_url: &str) -> &'static str {
    const KNOWN: [(&str, &str); 8] = [
        ("openai.azure.com", "azure.ai.openai"),
        ("generativelanguage.googleapis.com", "gcp.gemini"),
        ("aiplatform.googleapis.com", "gcp.vertex_ai"),
        ("groq.com", "groq"),
        ("deepseek.com", "deepseek"),
        ("mistral.ai", "mistral_ai"),
        ("x.ai", "x_ai"),
        ("openrouter.ai", "openrouter"),
    ];
    let url = Url::parse(base_url.trim()).ok();
    let host = url.as_ref().and_then(Url::host_str).unwrap_or_default();
    let served = |domain: &str| {
        host == domain || host.strip_suffix(domain).is_some_and(|before| before.ends_with('.'))
    };
    KNOWN.iter().find(|(domain, _)| served(domain)).map_or("openai", |(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::agent_file::AgentFile;

    fn entry(fields: &str) -> Result<ModelEntry, String> {
        let text = format!("version: 1\nmodels:\n  main: {{{fields}}}\n");
        let file = AgentFile::read("agent.yaml", text.as_bytes()).map_err(|report| report.human(false))?;
        Ok(file.value.models["main"].clone())
    }

    #[test]
    fn prices_are_read_exactly() {
        let price = "price: {input: 2.50, output: 10, cache_read: 0.25}";
        let facts = entry(&format!("api: scripted, script: m.yaml, {price}")).unwrap().facts("main");
        let price =
            Price { input: 2_500_000, output: 10_000_000, cache_read: Some(250_000), ..Price::default() };
        let expected = ModelFacts { provider: "scripted".into(), model: "main".into(), price: Some(price) };
        assert_eq!(facts, expected);
    }

    #[test]
    fn a_price_that_is_none_is_refused() {
        for (price, says) in [
            ("{input: -1, output: 1}", "`-1` is not a price"),
            ("{input: 0.0000001, output: 1}", "write fewer decimals"),
            ("{input: cheap, output: 1}", "expected a number of US dollars per million tokens"),
            ("{input: 1}", "`output`"),
        ] {
            let report = entry(&format!("api: scripted, script: m.yaml, price: {price}")).unwrap_err();
            assert!(report.contains(says), "{report}");
        }
    }

    #[test]
    fn a_provider_is_known_by_its_address() {
        for (base_url, name) in [
            ("https://api.openai.com/v1", "openai"),
            ("https://us.openai.azure.com/openai", "azure.ai.openai"),
            ("https://api.groq.com/openai/v1", "groq"),
            ("https://notgroq.com/v1", "openai"),
            ("http://127.0.0.1:8000/v1", "openai"),
            ("https://api.x.ai/v1", "x_ai"),
        ] {
            assert_eq!(provider(base_url), name, "{base_url}");
        }
    }
}
