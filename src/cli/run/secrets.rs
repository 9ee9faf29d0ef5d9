//! The secrets an agent file says the place of: keys of models, and headers of models and MCP servers.

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

/// What the requests to one model or server carry that nobody may see.
#[derive(Default)]
pub(super) struct Access {
    pub(super) key: Option<SecretString>,
    pub(super) headers: Vec<(String, SecretString)>,
}

/// The secrets of all models and MCP servers, by their names.
pub(super) struct Secrets {
    models: HashMap<String, Access>,
    mcp: HashMap<String, Access>,
}

impl Secrets {
    /// Reads them.
    ///
    /// # Errors
    /// Every one that is missing or cannot be sent, each at its place.
    pub(super) fn read(file: &Document<AgentFile>, folder: &Path) -> Result<Self, Failed> {
        let (mut models, mut mcp, mut missing) = (HashMap::new(), HashMap::new(), Vec::new());
        for (name, entry) in &file.value.models {
            let access = access(entry.api_key(), entry.headers(), folder, &mut |span, message| {
                let message = format!("model `{name}`: {message}");
                missing.push(Diagnostic::error(Code::UNKNOWN_NAME, span, message));
            });
            models.insert(name.clone(), access);
        }
        for (name, entry) in &file.value.mcp {
            let headers = entry.headers.iter().map(|(name, value)| (name.as_str(), value));
            let access = access(None, headers, folder, &mut |span, message| {
                let message = format!("MCP server `{name}`: {message}");
                missing.push(Diagnostic::error(Code::UNKNOWN_NAME, span, message));
            });
            mcp.insert(name.clone(), access);
        }
        if missing.is_empty() { Ok(Self { models, mcp }) } else { Err(reported(&[file.report(missing)])) }
    }

    /// All of them.
    pub(super) fn all(&self) -> impl Iterator<Item = SecretString> {
        let headers =
            |access: &Access| access.headers.iter().map(|(_, value)| value.clone()).collect::<Vec<_>>();
        self.models
            .values()
            .chain(self.mcp.values())
            .flat_map(move |access| access.key.clone().into_iter().chain(headers(access)))
    }

    /// Those of one model.
    pub(super) fn take(&mut self, model: &str) -> Access {
        self.models.remove(model).unwrap_or_default()
    }

    /// The headers of one MCP server.
    pub(super) fn take_mcp(&mut self, server: &str) -> Vec<(String, SecretString)> {
        self.mcp.remove(server).unwrap_or_default().headers
    }
}

/// The key and the headers that come from elsewhere; `missing` is told of each that does not.
fn access<'a>(
    key: Option<&KeySource>,
    headers: impl Iterator<Item = (&'a str, &'a HeaderEntry)>,
    folder: &Path,
    missing: &mut dyn FnMut(Span, String),
) -> Access {
    let mut take = |source: &KeySource, header: Option<&str>| match secret(source, header, folder)? {
        (_, Ok(secret)) => Some(secret),
        (span, Err(message)) => {
            missing(span, message);
            None
        }
    };
    let mut access = Access { key: key.and_then(|source| take(source, None)), headers: Vec::new() };
    for (header, value) in headers {
        if let HeaderEntry::From(source) = value
            && let Some(secret) = take(source, Some(header))
        {
            access.headers.push((header.to_owned(), secret));
        }
    }
    access
}

/// The address of the database that the file keeps its sessions in, if it does.
pub(crate) fn sessions_url(file: &AgentFile, folder: &Path) -> Option<Result<SecretString, Failed>> {
    let (_, url) = read(file.session.url.as_ref()?, "the address of the database", folder)?;
    Some(url.map_err(|why| Failed::Usage(format!("session: {why}"))))
}

/// The key, or the value of that header, or why there is none; and where the file says so.
fn secret(
    source: &KeySource,
    header: Option<&str>,
    folder: &Path,
) -> Option<(Span, Result<SecretString, String>)> {
    let what = header.map_or_else(|| "the key".to_owned(), |name| format!("the header `{name}`"));
    let (span, secret) = read(source, &what, folder)?;
    let secret = secret.and_then(|secret| match header.map(|name| check_header(name, &secret)) {
        Some(Err(error)) => Err(format!("{}: {error}", from(source, folder))),
        Some(Ok(())) | None => Ok(secret),
    });
    Some((span, secret))
}

/// Where a secret comes from.
fn from(source: &KeySource, folder: &Path) -> String {
    match (&source.env, &source.file) {
        (Some(name), _) => format!("the environment variable {}", name.value),
        (None, Some(path)) => folder.join(&path.value).display().to_string(),
        (None, None) => String::new(),
    }
}

/// A secret that is `what`, or why there is none; and where the file says so.
fn read(source: &KeySource, what: &str, folder: &Path) -> Option<(Span, Result<SecretString, String>)> {
    let from = from(source, folder);
    let (span, text) = match (&source.env, &source.file) {
        (Some(Spanned { value: name, span }), _) => {
            (*span, std::env::var(name).map_err(|_| format!("{from} is not set; it holds {what}")))
        }
        (None, Some(Spanned { value: path, span })) => {
            let text = files::bytes(&folder.join(path)).map_err(|error| {
                format!("cannot read {what} from {from}: {}", unfazed::host::file_error(&error))
            });
            (*span, text.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
        }
        (None, None) => return None,
    };
    let text = text.and_then(|text| {
        if text.trim().is_empty() {
            return Err(format!("{from} is empty; it should hold {what}"));
        }
        Ok(SecretString::from(text))
    });
    Some((span, text))
}
