//! The sizes of the models' context windows, and their sources.

use core::fmt;
use core::num::NonZeroU64;
use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::measure::TurnMeasure;
use crate::policy::{ContextWindow, ModelPolicy, Setting};
use crate::session::Usage;

/// How large a model's window is, and who says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct KnownWindow {
    /// The tokens of a request and its reply together.
    /// Example: `131072`
    pub tokens: NonZeroU64,
    /// Who says so.
    pub source: WindowSource,
    /// The most tokens of a reply, if that is known.
    /// Example: `16384`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<u64>,
}

/// Who says how large a window is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WindowSource {
    /// The policy: `context_window` of the model.
    Policy,
    /// The provider, when it refused a request that was larger.
    Refusal,
    /// The server, when it was asked.
    Server,
    /// A file of models the user named.
    File,
    /// The catalogue of models that ships with the product.
    Catalogue,
    /// Nobody: it is the policy's `assumed_window`.
    Assumed,
}

/// The known context windows of a run's models.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownWindows {
    /// The windows that the host found.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    known: BTreeMap<String, KnownWindow>,
    /// The limits that providers named when they refused a request.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    refused: BTreeMap<String, NonZeroU64>,
}

/// The window that a model's requests are compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EffectiveWindow {
    /// The size of the window.
    pub window: ContextWindow,
    /// The source of the size; `None`: it is unknown.
    pub source: Option<WindowSource>,
}

impl KnownWindows {
    /// Sets the windows known at the start of a run.
    pub(super) fn found(&mut self, known: BTreeMap<String, KnownWindow>) {
        self.known = known;
    }

    /// Records the limit that a provider named when it refused a request. Returns whether it is new: the smallest of
    /// several limits counts.
    // A router may send a model to servers with different windows; only the smallest fits all.
    pub fn refused(&mut self, target: &str, limit: u64) -> bool {
        let Some(limit) = NonZeroU64::new(limit) else { return false };
        let known = self.refused.get(target).copied();
        let news = known.is_none_or(|known| limit < known);
        if news {
            self.refused.insert(target.to_owned(), limit);
        }
        news
    }

    /// The window of a model. The policy takes precedence over the host's finding; a smaller limit from a refusal
    /// takes precedence over both.
    pub fn of(&self, target: &str, policy: &ModelPolicy) -> EffectiveWindow {
        let said = match policy.context_window.value {
            ContextWindow::Tokens(tokens) => Some((tokens, WindowSource::Policy)),
            ContextWindow::Unknown => self
                .known
                .get(target)
                // A host may still report the value of an earlier policy; that is no finding of its own.
                .filter(|known| known.source != WindowSource::Policy)
                .map(|known| (known.tokens, known.source)),
        };
        let refused = self.refused.get(target).map(|limit| (*limit, WindowSource::Refusal));
        // A refusal can only lower the window: it proves that a larger request is too large.
        let smaller = refused.filter(|(limit, _)| said.is_none_or(|(tokens, _)| *limit < tokens));
        match smaller.or(said) {
            Some((tokens, source)) => {
                EffectiveWindow { window: ContextWindow::Tokens(tokens), source: Some(source) }
            }
            None => EffectiveWindow { window: ContextWindow::Unknown, source: None },
        }
    }

    /// Whether a reply has filled the window of which its server told: it was cut there, though it may say that it is whole. llama.cpp stops
    /// where `n_tokens + 1 >= n_ctx`, and its Responses API says `completed` of such a reply.
    pub(super) fn is_filled(&self, target: &str, usage: Usage) -> bool {
        let Some(known) = self.known.get(target).filter(|known| known.source == WindowSource::Server) else {
            return false;
        };
        // Servers count the last token or do not. Where more was taken, the window is another one.
        let left = known.tokens.get().checked_sub(usage.input.saturating_add(usage.output));
        left.is_some_and(|left| left <= 1)
    }

    /// The maximum reply length of a model in tokens, if the host knows it.
    pub(super) fn output(&self, target: &str) -> Option<u64> {
        self.known.get(target)?.output
    }

    /// The models whose windows are assumed, though the policy could set them.
    pub(super) fn assumed(&self) -> impl Iterator<Item = (&String, NonZeroU64)> {
        let assumed = self.known.iter().filter(|(_, known)| known.source == WindowSource::Assumed);
        assumed.map(|(target, known)| (target, known.tokens))
    }

    /// Whether no window is known.
    pub fn is_empty(&self) -> bool {
        self.known.is_empty() && self.refused.is_empty()
    }

    /// The windows kept for the next run of the session: those learned from refusals.
    #[must_use]
    pub(super) fn next_run(&self) -> Self {
        // The host finds its windows again in each run; a limit learned from a refusal has cost a call and is kept.
        Self { known: BTreeMap::new(), refused: self.refused.clone() }
    }
}

impl EffectiveWindow {
    /// Whether the reserve for the reply was chosen for this window: only a policy that sets the window has done so. For other
    /// windows, and for what a client says to every model alike, the reserve is at most half.
    pub(super) fn has_own_reserve(self, measure: TurnMeasure) -> bool {
        self.source == Some(WindowSource::Policy) && measure.reply_tokens.is_none()
    }

    /// The rule for the window and its value in the policy: a learned size appears in no policy file.
    pub(super) fn setting(self, policy: &ModelPolicy) -> (&'static str, Setting<ContextWindow>) {
        match self.source {
            Some(WindowSource::Assumed) => {
                ("assumed_window", Setting::new(self.window, policy.assumed_window.origin))
            }
            _ => ("context_window", policy.context_window),
        }
    }

    /// The source of the size as a fact, if it is not the policy.
    pub(super) fn fact(self) -> Option<String> {
        match self.source? {
            WindowSource::Policy => None,
            source @ WindowSource::Assumed => Some(source.to_string()),
            source => Some(format!("a window of {} tokens: {source}", self.window)),
        }
    }
}

impl fmt::Display for WindowSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Policy => "the policy says so",
            Self::Refusal => "the provider said so when it refused a request",
            Self::Server => "the server says so",
            Self::File => "the file of models says so",
            Self::Catalogue => "the catalogue of models says so",
            Self::Assumed => "it is assumed",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Loader;

    fn policy(window: &str) -> std::sync::Arc<ModelPolicy> {
        let text = format!("version: 1\nmodels: {{main: {{context_window: {window}}}}}\n");
        Loader::new().load(vec![("policy.yaml".into(), text)]).unwrap().model("main")
    }

    fn known(tokens: u64, source: WindowSource) -> BTreeMap<String, KnownWindow> {
        let tokens = NonZeroU64::new(tokens).unwrap();
        BTreeMap::from([("main".to_owned(), KnownWindow { tokens, source, output: None })])
    }

    fn in_force(windows: &KnownWindows, policy: &ModelPolicy) -> (String, Option<WindowSource>) {
        let EffectiveWindow { window, source } = windows.of("main", policy);
        (window.to_string(), source)
    }

    #[test]
    fn what_a_person_wrote_goes_before_what_was_found_out() {
        let mut windows = KnownWindows::default();
        windows.found(known(100, WindowSource::Server));
        assert_eq!(in_force(&windows, &policy("900")), ("900".into(), Some(WindowSource::Policy)));
        assert_eq!(in_force(&windows, &policy("unknown")), ("100".into(), Some(WindowSource::Server)));
    }

    #[test]
    fn a_refusal_that_names_a_smaller_window_is_believed() {
        let mut windows = KnownWindows::default();
        assert!(!windows.refused("main", 0));
        assert!(windows.refused("main", 500) && !windows.refused("main", 500));
        assert_eq!(in_force(&windows, &policy("900")), ("500".into(), Some(WindowSource::Refusal)));
        assert_eq!(in_force(&windows, &policy("400")), ("400".into(), Some(WindowSource::Policy)));
        assert_eq!(in_force(&windows, &policy("unknown")), ("500".into(), Some(WindowSource::Refusal)));
    }

    #[test]
    fn a_window_that_was_learned_is_not_told_as_one_that_is_written() {
        let mut windows = KnownWindows::default();
        windows.refused("main", 500);
        let (written, policy) = (windows.of("main", &policy("900")), policy("900"));
        let (rule, setting) = written.setting(&policy);
        assert_eq!((rule, setting), ("context_window", policy.context_window));
        let fact = "a window of 500 tokens: the provider said so when it refused a request";
        assert_eq!(written.fact().as_deref(), Some(fact));
        let written = KnownWindows::default().of("main", &policy);
        assert_eq!((written.setting(&policy).1.value.to_string(), written.fact()), ("900".into(), None));
    }

    #[test]
    fn a_model_nobody_speaks_of_has_no_window() {
        assert_eq!(in_force(&KnownWindows::default(), &policy("unknown")), ("unknown".into(), None));
    }
}
