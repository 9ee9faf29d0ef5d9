//! How large a model's window is: who is believed first.

use std::num::NonZeroU64;

use crate::context::{ModelCatalogue, ModelLimits};
use crate::engine::{KnownWindow, WindowSource};
use crate::policy::{ContextWindow, ModelPolicy};

/// How large the window of a model is, and who says so: the policy, the server, the user's file of models, the catalogue
/// that ships with the product; at last what the policy assumes. `None`: it assumes nothing.
///
/// `model` is the model's name on its server. What a provider says when it refuses a request is learned in the run.
pub(crate) fn known_window(
    policy: &ModelPolicy,
    told: Option<ModelLimits>,
    file: Option<&ModelCatalogue>,
    model: &str,
) -> Option<KnownWindow> {
    let named = || file.and_then(|file| file.find(model));
    let listed = || ModelCatalogue::builtin().find(model);
    let output = || told.or_else(named).or_else(listed).and_then(|limits| limits.output);
    let alone = |tokens: NonZeroU64, source| Some(KnownWindow { tokens, source, output: output() });
    if let ContextWindow::Tokens(tokens) = policy.context_window.value {
        return alone(tokens, WindowSource::Policy);
    }
    let of = |limits: ModelLimits, source| KnownWindow { tokens: limits.window, source, output: output() };
    told.map(|limits| of(limits, WindowSource::Server))
        .or_else(|| named().map(|limits| of(limits, WindowSource::File)))
        .or_else(|| listed().map(|limits| of(limits, WindowSource::Catalogue)))
        .or_else(|| match policy.assumed_window.value {
            ContextWindow::Tokens(tokens) => alone(tokens, WindowSource::Assumed),
            ContextWindow::Unknown => None,
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Loader;

    #[test]
    fn each_is_believed_where_those_before_say_nothing() {
        let policy = |rule: &str| {
            let text = format!("version: 1\nmodels: {{main: {{{rule}}}}}\n");
            Loader::new().load(vec![("p.yaml".into(), text)]).unwrap().model("main")
        };
        let silent = policy("output_reserve: 100");
        let told = Some(ModelLimits { window: NonZeroU64::new(500).unwrap(), output: None });
        let file = ModelCatalogue::litellm(br#"{"gpt-4o": {"max_input_tokens": 600}}"#).unwrap();
        let known = |policy: &ModelPolicy, told, file, model: &str| {
            known_window(policy, told, file, model)
                .map(|known| (known.tokens.get(), known.source, known.output))
        };
        let output = Some(16_384);
        assert_eq!(
            known(&policy("context_window: 400"), told, Some(&file), "gpt-4o"),
            Some((400, WindowSource::Policy, None))
        );
        assert_eq!(known(&silent, told, Some(&file), "gpt-4o"), Some((500, WindowSource::Server, None)));
        assert_eq!(known(&silent, None, Some(&file), "gpt-4o"), Some((600, WindowSource::File, None)));
        assert_eq!(known(&silent, None, None, "gpt-4o"), Some((128_000, WindowSource::Catalogue, output)));
        assert_eq!(known(&silent, None, None, "who-am-i"), Some((32_768, WindowSource::Assumed, None)));
        assert_eq!(known(&policy("assumed_window: unknown"), None, None, "who-am-i"), None);
    }
}
