//! A key that a command prints.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::text::read;
use crate::engine::{Failure, ToolOutcome, ToolSpec};
use crate::host::model::lead;
use crate::host::redact::SecretRedactor;
use crate::host::{
    BoxFuture, KeySupplier, OutputFormat, ProcessConfig, ProcessTool, ProgressReporter, StdinMode,
    SuppliedKey, Tool, ToolInput,
};
use crate::policy::ErrorClass;

/// The most bytes that a command may print: tokens have a few thousand.
const MOST: usize = 64 * 1024;

/// A shorter word of an error is no token.
const SHORTEST_TOKEN: usize = 16;

/// A key that a command prints: as plain text, or as JSON with the time at which it expires. It gets no input, and no shell
/// reads it.
///
/// ```
/// use unfazed::host::{CommandKey, ModelConfig, Provider, RenewedKey};
/// let key = RenewedKey::new(CommandKey::new(["gcloud", "auth", "print-access-token"]));
/// let config = ModelConfig { renewed_key: Some(key), bearer: true, ..ModelConfig::new(Provider::GEMINI, "gemini-2.5-pro") };
/// # let _ = config;
/// ```
#[derive(Clone, Debug)]
pub struct CommandKey {
    config: ProcessConfig,
    timeout: Duration,
    lifetime: Duration,
}

impl CommandKey {
    /// What this command prints, within 30 s; a key that does not say when it expires is asked for again after 12 min.
    pub fn new<S: Into<String>>(command: impl IntoIterator<Item = S>) -> Self {
        let spec = ToolSpec {
            name: "key".to_owned(),
            description: String::new(),
            parameters: Value::Null,
            effect: None,
        };
        let config = ProcessConfig::new(spec, command).output(OutputFormat::Text).stdin(StdinMode::Nothing);
        Self {
            config: config.max_output(MOST).hide_output(),
            timeout: Duration::from_secs(30),
            lifetime: Duration::from_secs(15 * 60),
        }
    }

    /// Sets where it runs; without it, where the host runs.
    #[must_use]
    pub fn working_dir(mut self, folder: impl Into<PathBuf>) -> Self {
        self.config = self.config.working_dir(folder);
        self
    }

    /// Adds variables of the host's environment that it sees, besides those that every command sees.
    #[must_use]
    pub fn pass_env<S: Into<String>>(mut self, names: impl IntoIterator<Item = S>) -> Self {
        self.config = self.config.pass_env(names);
        self
    }

    /// Sets how long it may take.
    #[must_use]
    pub const fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sets how long a key is valid that does not say it.
    #[must_use]
    pub const fn lifetime(mut self, lifetime: Duration) -> Self {
        self.lifetime = lifetime;
        self
    }

    async fn printed(&self) -> Result<SuppliedKey, Failure> {
        let nothing = json!({});
        let input = ToolInput {
            arguments: &nothing,
            attempt: 1,
            idempotency_key: "",
            timeout: Some(self.timeout),
            cancel: CancellationToken::new(),
            aside: ProgressReporter::default(),
        };
        match ProcessTool::new(self.config.clone()).run(input).await {
            ToolOutcome::Ok { data: Value::String(text) } if text.len() < MOST => {
                let (key, expires) = read(&text).map_err(|what| {
                    let message = format!("the command of the key {} {what}", self.config.named());
                    Failure::of(ErrorClass::AuthError, message)
                })?;
                let again = expires.is_none().then(|| self.lifetime.saturating_sub(lead(self.lifetime)));
                Ok(SuppliedKey { key, expires, ask_again: again })
            }
            ToolOutcome::Ok { .. } | ToolOutcome::Done => {
                let message = format!(
                    "the command of the key {} printed more than {} KiB",
                    self.config.named(),
                    MOST / 1024
                );
                Err(Failure::of(ErrorClass::AuthError, message))
            }
            ToolOutcome::Failed { failure, .. } => Err(failed(failure)),
        }
    }
}

impl KeySupplier for CommandKey {
    fn supply(&self) -> BoxFuture<'_, Result<SuppliedKey, Failure>> {
        Box::pin(self.printed())
    }
}

/// There is no key. Only a command that took too long may do better the next time.
fn failed(failure: Failure) -> Failure {
    let class = match failure.class {
        Some(ErrorClass::Timeout) => ErrorClass::Timeout,
        _ => ErrorClass::AuthError,
    };
    // What it complained of may have a token in it.
    let shown = SecretRedactor::default().with_forms(true).failure(failure, None);
    Failure::of(class, format!("the command of the key failed: {}", without_tokens(&shown.message)))
}

/// What a command of keys complains of, without words that may be one: long, with letters and digits. Tokens have no form that all
/// have.
fn without_tokens(said: &str) -> String {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '~' | '+');
    let mut shown = String::with_capacity(said.len());
    let mut rest = said;
    while !rest.is_empty() {
        let (word, more) = rest.split_at(rest.find(|c| !is_part(c)).unwrap_or(rest.len()));
        let has = |is: fn(&u8) -> bool| word.bytes().any(|byte| is(&byte));
        let is_token =
            word.len() >= SHORTEST_TOKEN && has(u8::is_ascii_digit) && has(u8::is_ascii_alphabetic);
        shown.push_str(if is_token { "[redacted]" } else { word });
        let (between, next) = more.split_at(more.find(is_part).unwrap_or(more.len()));
        shown.push_str(between);
        rest = next;
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_command_complains_of_has_no_token_in_it() {
        for (said, shown) in [
            ("no login; token SECRET-abcdefghijkl123456", "no login; token [redacted]"),
            ("key=\"abcDEF0123456789\" refused", "key=\"[redacted]\" refused"),
            ("exit code 3 of ./token.sh: no login", "exit code 3 of ./token.sh: no login"),
            (
                "a-very-long-word-without-digits 12345678901234567890",
                "a-very-long-word-without-digits 12345678901234567890",
            ),
            ("", ""),
        ] {
            assert_eq!(without_tokens(said), shown);
        }
    }
}
