//! A failure that is asked about: its class, what tells the class, or the answer of a provider as it came.

use std::path::PathBuf;

use crate::analysis::{ErrorExplanation, PolicyExplanation};
use crate::analysis::{explain_class, explain_failure};
use crate::engine::{BodyFacts, Failure, ReplyHeaders, WaitHint};
use crate::host::Clock;
use crate::policy::{ErrorClass, Policy};
use serde_json::{Value, json};

use crate::cli::exit::CommandFailure;
use crate::cli::files;
use crate::cli::text::{fit, one_line};

/// The longest message that is shown, in characters.
const SHOWN: usize = 300;

/// What the failure is classified by.
#[derive(clap::Args)]
#[command(next_help_heading = "What is done about a failure")]
pub(super) struct FailureQuery {
    /// Its class: `rate_limit`, `timeout`, ...
    #[arg(long, value_name = "CLASS", value_parser = class, conflicts_with_all = ["turn", "history", "context", "key", "status", "code", "type", "message", "detail", "provider"])]
    error: Option<ErrorClass>,
    /// Its HTTP status.
    #[arg(long, conflicts_with_all = ["turn", "history", "context", "bounds", "key"], value_parser = status)]
    status: Option<u16>,
    /// The provider's code.
    #[arg(long, conflicts_with_all = ["turn", "history", "context", "bounds", "key"])]
    code: Option<String>,
    /// The provider's type.
    #[arg(long, conflicts_with_all = ["turn", "history", "context", "bounds", "key"])]
    r#type: Option<String>,
    /// The message.
    #[arg(long, conflicts_with_all = ["turn", "history", "context", "bounds", "key"])]
    message: Option<String>,
    /// A word of the body's detail fields, such as the name of a quota; may be given several times.
    #[arg(long, value_name = "WORD", conflicts_with_all = ["turn", "history", "context", "bounds", "key"])]
    detail: Vec<String>,
    /// The provider behind a router.
    #[arg(long, conflicts_with_all = ["turn", "history", "context", "bounds", "key"])]
    provider: Option<String>,
    /// The body of the answer as it came, in a file; without --status that of an answer that seemed well, or the data of
    /// an event.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["turn", "history", "context", "bounds", "key", "error", "code", "type", "message", "detail", "provider"])]
    body: Option<PathBuf>,
    /// A header of the answer whose body `--body` gives, such as `retry-after: 5`; may be given several times.
    #[arg(long, value_name = "NAME: VALUE", requires = "body", value_parser = header)]
    header: Vec<(String, String)>,
}

/// What is done about a failure, and what was read of it.
pub(super) struct FailureAnswer {
    done: ErrorExplanation,
    read: Option<Failure>,
}

impl FailureQuery {
    /// Whether a failure is asked about.
    pub(super) fn is_asked(&self) -> bool {
        let told =
            self.status.is_some() || self.code.is_some() || self.r#type.is_some() || self.message.is_some();
        let words = !self.detail.is_empty() || self.provider.is_some();
        told || words || self.error.is_some() || self.body.is_some()
    }

    /// What is done about it, if something is asked.
    pub(super) fn answer(
        &self,
        policy: &Policy,
        explanation: &PolicyExplanation,
    ) -> Result<Option<FailureAnswer>, CommandFailure> {
        if let Some(class) = self.error {
            return Ok(Some(FailureAnswer { done: explain_class(policy, explanation, class), read: None }));
        }
        if !self.is_asked() {
            return Ok(None);
        }
        let read = self.read()?;
        let failure = read.clone().unwrap_or_else(|| self.told());
        let done = explain_failure(policy, explanation, &failure);
        Ok(done.map(|done| FailureAnswer { done, read }))
    }

    /// The failure as the options tell it.
    fn told(&self) -> Failure {
        let facts = BodyFacts {
            details: self.detail.clone(),
            provider: self.provider.clone(),
            ..BodyFacts::default()
        };
        Failure {
            status: self.status,
            code: self.code.clone(),
            kind: self.r#type.clone(),
            message: self.message.clone().unwrap_or_default(),
            facts: Some(Box::new(facts)),
            ..Failure::default()
        }
    }

    /// The failure in the file, read as the host reads answers.
    fn read(&self) -> Result<Option<Failure>, CommandFailure> {
        let Some(path) = &self.body else { return Ok(None) };
        let body = files::read(path)?;
        let headers = self.header.iter().map(|(name, value)| (name.as_str(), value.as_bytes()));
        let headers = ReplyHeaders::new(headers);
        if let Some(status) = self.status {
            return Ok(Some(Failure::from_answer(status, &headers, &body, || Clock::system().now())));
        }
        let json = serde_json::from_slice::<Value>(&body).ok();
        let inside = json.as_ref().and_then(Failure::inside_success);
        let Some(failure) = inside else {
            let message = format!(
                "{} does not say that it is an error: give the --status it came with",
                path.display()
            );
            return Err(CommandFailure::Usage(message));
        };
        Ok(Some(failure.with_hint(&headers, json.as_ref(), || Clock::system().now())))
    }
}

impl FailureAnswer {
    /// For people.
    pub(super) fn human(&self) -> String {
        let read = self.read.as_ref().map(told).unwrap_or_default();
        format!("{read}{}", self.done.human())
    }

    /// For machines.
    pub(super) fn to_json(&self) -> Value {
        let mut json = self.done.to_json();
        if let (Some(read), Some(object)) = (&self.read, json.as_object_mut()) {
            object.insert("failure".into(), json!(read));
        }
        json
    }
}

/// What was read of an answer.
fn told(failure: &Failure) -> String {
    let facts = failure.facts.as_deref();
    let tokens = |tokens: u64| format!("{tokens} tokens");
    let all = [
        ("status", failure.status.map(|status| status.to_string())),
        ("code", failure.code.clone()),
        ("type", failure.kind.clone()),
        ("param", facts.and_then(|facts| facts.param.clone())),
        ("details", facts.map(|facts| facts.details.join(", "))),
        ("provider", facts.and_then(|facts| facts.provider.clone())),
        ("message", Some(failure.message.clone())),
        ("window", failure.limit().map(tokens)),
        ("request", failure.size().map(tokens)),
        ("wait", hint(&failure.retry_after)),
    ];
    let said =
        all.into_iter().filter_map(|(name, value)| Some((name, value.filter(|value| !value.is_empty())?)));
    let lines = said.map(|(name, value)| format!("  {name:<9}{}\n", fit(&one_line(&value), SHOWN)));
    format!("the answer says\n{}\n", lines.collect::<String>())
}

fn hint(hint: &WaitHint) -> Option<String> {
    match hint {
        WaitHint::None => None,
        WaitHint::Wait(wait) => Some(wait.rounded().to_string()),
        WaitHint::Partly(partly) => Some(format!("{}; ignored {}", partly.wait.rounded(), partly.ignored)),
        WaitHint::Ignored(reason) => Some(format!("ignored {reason}")),
    }
}

/// Reads the name of a class.
fn class(name: &str) -> Result<ErrorClass, String> {
    ErrorClass::parse(name).map_err(|error| error.to_string())
}

/// Reads an HTTP status.
fn status(text: &str) -> Result<u16, String> {
    let status = text.parse().ok().filter(|status| (100..=599).contains(status));
    status.ok_or_else(|| "write an HTTP status, from 100 to 599".to_owned())
}

/// Reads a header as it is written in an answer.
fn header(text: &str) -> Result<(String, String), String> {
    match text.split_once(':') {
        Some((name, value)) if !name.trim().is_empty() => {
            Ok((name.trim().to_owned(), value.trim().to_owned()))
        }
        _ => Err("write it as it came, such as `retry-after: 5`".to_owned()),
    }
}
