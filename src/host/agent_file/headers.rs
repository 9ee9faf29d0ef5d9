//! Further headers of requests to models and servers of tools: written into the agent file, or, if they are secret, told where they are.

use std::collections::HashMap;

use secrecy::SecretString;

use super::AgentFile;
use crate::host::check_header;
use crate::host::header_entry::HeaderEntry;
use crate::policy::decode::DecodedDocument;
use crate::text::{Code, Diagnostic};

/// How the names of headers end that hold a secret.
const SECRET: [&str; 8] =
    ["api-key", "apikey", "authorization", "cookie", "password", "secret", "token", "credentials"];
/// How the values of such headers begin.
const SCHEMES: [&str; 2] = ["bearer ", "basic "];

/// What is wrong with headers that stand under that key.
pub(super) fn problems<'a>(
    document: &DecodedDocument<AgentFile>,
    path: &[&str],
    headers: impl Iterator<Item = (&'a str, &'a HeaderEntry)>,
) -> Vec<Diagnostic> {
    let mut problems = Vec::new();
    let mut seen: HashMap<String, &str> = HashMap::new();
    for (name, entry) in headers {
        let key = AgentFile::key(document, &[path, &[name]].concat());
        // The value of a secret is not known before the run.
        let (value, at) = match entry {
            HeaderEntry::Text(text) => (text.value.as_str(), text.span),
            HeaderEntry::From(_) => ("", key),
        };
        if let HeaderEntry::Text(text) = entry
            && is_secret(name, &text.value)
        {
            let message =
                format!("header `{name}` holds a secret, and secrets are never written into the file");
            let problem = Diagnostic::error(Code::BAD_VALUE, key, message);
            problems.push(problem.help("write where it is: `{env: NAME}` or `{file: PATH}`"));
        } else if let Err(error) = check_header(name, &SecretString::default()) {
            problems.push(Diagnostic::error(Code::BAD_VALUE, key, error.to_string()));
        } else if let Err(error) = check_header(name, &SecretString::from(value)) {
            problems.push(Diagnostic::error(Code::BAD_VALUE, at, error.to_string()));
        }
        if let Some(first) = seen.insert(name.to_ascii_lowercase(), name) {
            let message =
                format!("`{name}` and `{first}` are one header: case does not count in their names");
            problems.push(Diagnostic::error(Code::DUPLICATE_KEY, key, message).help("remove one of them"));
        }
    }
    problems
}

fn is_secret(name: &str, value: &str) -> bool {
    let (name, value) = (name.to_ascii_lowercase(), value.trim_start().to_ascii_lowercase());
    SECRET.iter().any(|end| name.ends_with(end)) || SCHEMES.iter().any(|scheme| value.starts_with(scheme))
}
