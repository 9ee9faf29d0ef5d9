//! The secrets an agent file says the place of: keys of models, and headers.

use std::collections::HashMap;
use std::path::Path;

use secrecy::SecretString;
use unfazed::host::agent_file::{AgentFile, HeaderEntry, KeySource};
use unfazed::host::check_header;
use unfazed::policy::decode::{Document, Spanned};
use unfazed::policy::{Code, Diagnostic, Span};

use crate::cli::exit::Failed;
use crate::cli::files;
use crate::cli::policies::reported;

/// What the requests to one model carry that nobody may see.
#[derive(Default)]
pub(super) struct Access {
    pub(super) key: Option<SecretString>,
    pub(super) headers: Vec<(String, SecretString)>,
}

/// The secrets of all models, by their names.
pub(super) struct Secrets(HashMap<String, Access>);

impl Secrets {
    /// Reads them.
    ///
    /// # Errors
    /// Every one that is missing or cannot be sent, each at its place.
    pub(super) fn read(file: &Document<AgentFile>, folder: &Path) -> Result<Self, Failed> {
        let (mut models, mut missing) = (HashMap::new(), Vec::new());
        for (name, entry) in &file.value.models {
            let mut access = Access::default();
            let mut take = |source: &KeySource, header: Option<&str>| match secret(source, header, folder)? {
                (_, Ok(secret)) => Some(secret),
                (span, Err(message)) => {
                    let message = format!("model `{name}`: {message}");
                    missing.push(Diagnostic::error(Code::UNKNOWN_NAME, span, message));
                    None
                }
            };
            access.key = entry.api_key().and_then(|source| take(source, None));
            for (header, value) in entry.headers() {
                if let HeaderEntry::From(source) = value
                    && let Some(secret) = take(source, Some(header))
                {
                    access.headers.push((header.to_owned(), secret));
                }
            }
            models.insert(name.clone(), access);
        }
        if missing.is_empty() { Ok(Self(models)) } else { Err(reported(&[file.report(missing)])) }
    }

    /// All of them.
    pub(super) fn all(&self) -> impl Iterator<Item = SecretString> {
        let headers =
            |access: &Access| access.headers.iter().map(|(_, value)| value.clone()).collect::<Vec<_>>();
        self.0.values().flat_map(move |access| access.key.clone().into_iter().chain(headers(access)))
    }

    /// Those of one model.
    pub(super) fn take(&mut self, model: &str) -> Access {
        self.0.remove(model).unwrap_or_default()
    }
}

/// The key, or the value of that header, or why there is none; and where the file says so.
fn secret(
    source: &KeySource,
    header: Option<&str>,
    folder: &Path,
) -> Option<(Span, Result<SecretString, String>)> {
    let what = header.map_or_else(|| "the key".to_owned(), |name| format!("the header `{name}`"));
    let (span, from, text) = match (&source.env, &source.file) {
        (Some(Spanned { value: name, span }), _) => {
            let from = format!("the environment variable {name}");
            let text = std::env::var(name).map_err(|_| format!("{from} is not set; it holds {what}"));
            (*span, from, text)
        }
        (None, Some(Spanned { value: path, span })) => {
            let path = folder.join(path);
            let from = path.display().to_string();
            let text =
                files::bytes(&path).map_err(|error| format!("cannot read {what} from {from}: {error}"));
            (*span, from, text.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
        }
        (None, None) => return None,
    };
    let text = text.and_then(|text| {
        if text.trim().is_empty() {
            return Err(format!("{from} is empty; it should hold {what}"));
        }
        let secret = SecretString::from(text);
        match header.map(|name| check_header(name, &secret)) {
            Some(Err(error)) => Err(format!("{from}: {error}")),
            Some(Ok(())) | None => Ok(secret),
        }
    });
    Some((span, text))
}
