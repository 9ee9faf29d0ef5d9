//! The secrets an agent file says the place of: keys of models, and headers of models and MCP servers.

use std::collections::HashMap;
use std::io;
use std::path::Path;

use secrecy::SecretString;

use super::{AgentFile, McpEntry, ToolEntry};
use crate::host::header_entry::HeaderEntry;
use crate::host::key_source::{KeyCommand, KeyEntry, KeySource};
use crate::host::read_file::{MOST, read_file};
use crate::host::{CommandKey, FileKey, RenewedKey, check_header, file_error};
use crate::policy::decode::{DecodedDocument, Spanned};
use crate::text::{Code, Diagnostic, Report, Span};

/// Why there is no secret where an agent file says that there is one.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SecretError {
    /// The environment variable is not set.
    #[error("{place} is not set; it holds {what}")]
    Unset {
        /// The variable: `the environment variable OPENAI_API_KEY`.
        place: String,
        /// What it holds: `the key`.
        what: String,
    },
    /// The file cannot be read.
    #[error("cannot read {what} from {place}: {}", file_error(source))]
    Read {
        /// The file.
        place: String,
        /// What it holds.
        what: String,
        /// Why.
        source: io::Error,
    },
    /// There is nothing in it.
    #[error("{place} is empty; it should hold {what}")]
    Empty {
        /// The variable or the file.
        place: String,
        /// What it should hold.
        what: String,
    },
}

/// What the requests to one model or server carry that nobody may see.
#[derive(Default)]
pub(super) struct ServerAccess {
    pub(super) key: Option<SecretString>,
    /// The key, if it is asked for again.
    pub(super) renewed: Option<RenewedKey>,
    pub(super) headers: Vec<(String, SecretString)>,
}

/// The secrets of models and MCP servers, by their names.
#[derive(Default)]
pub(super) struct NamedSecrets {
    /// Models whose keys come from one command share what it prints.
    commands: Vec<(KeyCommand, RenewedKey)>,
    models: HashMap<String, ServerAccess>,
    servers: HashMap<String, ServerAccess>,
}

impl KeySource {
    /// The secret, which is `what` to people: `the key`. A path starts at `folder`. `None`: it does not say where.
    ///
    /// # Errors
    /// There is none.
    pub(crate) fn secret(&self, what: &str, folder: &Path) -> Result<Option<SecretString>, SecretError> {
        let (place, what) = (place(self, folder), what.to_owned());
        let text = match (&self.env, &self.file) {
            (Some(name), _) => match std::env::var(&name.value) {
                Ok(text) => text,
                Err(_) => return Err(SecretError::Unset { place, what }),
            },
            (None, Some(path)) => match read_file(&folder.join(&path.value), MOST) {
                Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
                Err(source) => return Err(SecretError::Read { place, what, source }),
            },
            (None, None) => return Ok(None),
        };
        if text.trim().is_empty() {
            return Err(SecretError::Empty { place, what });
        }
        Ok(Some(SecretString::from(text)))
    }
}

impl NamedSecrets {
    /// Those of all models and servers.
    ///
    /// # Errors
    /// Every one that is missing or cannot be sent, each at its place.
    pub(super) fn read(file: &DecodedDocument<AgentFile>, folder: &Path) -> Result<Self, Report> {
        let (mut secrets, mut missing) = (Self::default(), Vec::new());
        for (name, entry) in &file.value.models {
            let kept = match entry.api_key() {
                Some(KeyEntry::Kept(source)) => Some(source),
                Some(KeyEntry::Command(_)) | None => None,
            };
            let access = access(kept, entry.headers(), folder, &mut |span, message| {
                let message = format!("model `{name}`: {message}");
                missing.push(Diagnostic::error(Code::UNKNOWN_NAME, span, message));
            });
            let renewed = entry.api_key().and_then(|entry| secrets.renewed(entry, folder));
            secrets.models.insert(name.clone(), ServerAccess { renewed, ..access });
        }
        secrets.add_servers(&file.value, folder, &mut missing);
        if missing.is_empty() { Ok(secrets) } else { Err(file.report(missing)) }
    }

    /// The key that is asked for again; `None`: it is in the environment, which does not change.
    fn renewed(&mut self, entry: &KeyEntry, folder: &Path) -> Option<RenewedKey> {
        let entry = match entry {
            KeyEntry::Kept(source) => {
                let path = source.file.as_ref().filter(|_| source.env.is_none())?;
                return Some(RenewedKey::new(FileKey::new(folder.join(&path.value))));
            }
            KeyEntry::Command(entry) => entry,
        };
        let same = |known: &KeyCommand| {
            known.command.value == entry.command.value
                && (&known.pass_env, known.timeout, known.lifetime)
                    == (&entry.pass_env, entry.timeout, entry.lifetime)
        };
        if let Some((_, key)) = self.commands.iter().find(|(known, _)| same(known)) {
            return Some(key.clone());
        }
        // The folder of a file that is named without one.
        let here = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        let command = CommandKey::new(&entry.command.value)
            .working_dir(here)
            .pass_env(&entry.pass_env)
            .timeout(entry.timeout.into())
            .lifetime(entry.lifetime.into());
        let key = RenewedKey::new(command);
        self.commands.push((entry.clone(), key.clone()));
        Some(key)
    }

    /// The keys that are asked for again.
    pub(super) fn renewed_keys(&self) -> impl Iterator<Item = &RenewedKey> {
        self.models.values().filter_map(|access| access.renewed.as_ref())
    }

    /// Those of the servers alone.
    #[cfg(feature = "mcp")]
    pub(super) fn of_servers(file: &DecodedDocument<AgentFile>, folder: &Path) -> Result<Self, Report> {
        let (mut secrets, mut missing) = (Self::default(), Vec::new());
        secrets.add_servers(&file.value, folder, &mut missing);
        if missing.is_empty() { Ok(secrets) } else { Err(file.report(missing)) }
    }

    fn add_servers(&mut self, file: &AgentFile, folder: &Path, missing: &mut Vec<Diagnostic>) {
        for (name, entry) in file.mcp.iter() {
            let headers = entry.headers.iter().map(|(name, value)| (name.as_str(), value));
            let access = access(None, headers, folder, &mut |span, message| {
                let message = format!("MCP server `{name}`: {message}");
                missing.push(Diagnostic::error(Code::UNKNOWN_NAME, span, message));
            });
            self.servers.insert(name.clone(), access);
        }
    }

    /// All of them.
    pub(super) fn all(&self) -> impl Iterator<Item = SecretString> {
        let headers =
            |access: &ServerAccess| access.headers.iter().map(|(_, value)| value.clone()).collect::<Vec<_>>();
        self.models
            .values()
            .chain(self.servers.values())
            .flat_map(move |access| access.key.clone().into_iter().chain(headers(access)))
    }

    /// Those of one model.
    pub(super) fn take(&mut self, model: &str) -> ServerAccess {
        self.models.remove(model).unwrap_or_default()
    }

    /// The headers of one MCP server.
    #[cfg(feature = "mcp")]
    pub(super) fn take_headers(&mut self, server: &str) -> Vec<(String, SecretString)> {
        self.servers.remove(server).unwrap_or_default().headers
    }
}

/// The key and the headers that come from elsewhere; `missing` gets each that does not.
fn access<'a>(
    key: Option<&KeySource>,
    headers: impl Iterator<Item = (&'a str, &'a HeaderEntry)>,
    folder: &Path,
    missing: &mut dyn FnMut(Span, String),
) -> ServerAccess {
    let mut take = |source: &KeySource, header: Option<&str>| match secret(source, header, folder)? {
        (_, Ok(secret)) => Some(secret),
        (span, Err(message)) => {
            missing(span, message);
            None
        }
    };
    let key = key.and_then(|source| take(source, None));
    let mut access = ServerAccess { key, ..ServerAccess::default() };
    for (header, value) in headers {
        if let HeaderEntry::From(source) = value
            && let Some(secret) = take(source, Some(header))
        {
            access.headers.push((header.to_owned(), secret));
        }
    }
    access
}

/// The key, or the value of that header, or why there is none; and where the file says so.
fn secret(
    source: &KeySource,
    header: Option<&str>,
    folder: &Path,
) -> Option<(Span, Result<SecretString, String>)> {
    let what = header.map_or_else(|| "the key".to_owned(), |name| format!("the header `{name}`"));
    let Spanned { span, .. } = source.env.as_ref().or(source.file.as_ref())?;
    let secret = match source.secret(&what, folder) {
        Ok(secret) => secret?,
        Err(error) => return Some((*span, Err(error.to_string()))),
    };
    Some((
        *span,
        match header.map(|name| check_header(name, &secret)) {
            Some(Err(error)) => Err(format!("{}: {error}", place(source, folder))),
            Some(Ok(())) | None => Ok(secret),
        },
    ))
}

/// Where a secret comes from.
fn place(source: &KeySource, folder: &Path) -> String {
    match (&source.env, &source.file) {
        (Some(name), _) => format!("the environment variable {}", name.value),
        (None, Some(path)) => folder.join(&path.value).display().to_string(),
        (None, None) => String::new(),
    }
}

/// The values of variables passed on to tools and servers whose names say that they are secrets.
pub(super) fn passed_secrets(file: &AgentFile) -> Vec<SecretString> {
    let mut secrets = Vec::new();
    let of_tools = file.tools.values().filter_map(|entry| match entry {
        ToolEntry::Process { env, pass_env, .. } => Some((env.clone(), pass_env.clone())),
        ToolEntry::Builtin { .. } => None,
    });
    let of_servers = file.mcp.values().map(McpEntry::environment);
    for (env, pass_env) in of_tools.chain(of_servers) {
        let passed = pass_env.iter().filter(|name| is_secret(name));
        secrets.extend(passed.filter_map(|name| std::env::var(name).ok()));
        secrets.extend(env.into_iter().filter(|(name, _)| is_secret(name)).map(|(_, value)| value));
    }
    secrets.into_iter().map(SecretString::from).collect()
}

fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    ["KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "CREDENTIAL"]
        .iter()
        .any(|word| name.contains(word))
}
