//! Addresses and headers of a model's server, and what is wrong with them.

use reqwest::Url;
use reqwest::header::{
    CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue, TRANSFER_ENCODING,
};
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Map, Value};

use crate::ErrorCause;
use crate::host::model::failure::cause;

/// Headers that say what the body is and how it comes: the transport's own.
const OWN_HEADERS: [HeaderName; 5] = [CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, HOST, TRANSFER_ENCODING];

/// A model that cannot be set up.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The address is none.
    #[error("`base_url` is not a URL ({0}); write it like {1}")]
    Url(#[source] ErrorCause, &'static str),
    /// Neither HTTP nor HTTPS.
    #[error("`base_url` starts with `{0}:`; only http and https are spoken")]
    Scheme(String),
    /// The address holds a user or a password.
    #[error("`base_url` holds a user name or password; put the key into `api_key`")]
    Userinfo,
    /// The key cannot be sent.
    #[error(
        "the API key holds a character that cannot stand in an HTTP header; is there a line break in it?"
    )]
    Key,
    /// A header that is none.
    #[error("header `{0}` cannot be sent: its name or value holds a character that HTTP does not allow")]
    Header(String),
    /// A header that belongs to the connection.
    #[error("header `{0}` cannot be set: the agent writes it itself")]
    OwnHeader(String),
    /// A body field that would overwrite the agent's own.
    #[error("`{0}` cannot be set as an extra field: the agent writes it itself")]
    OwnField(String),
    /// A region of AWS that is none.
    #[error("`region` is `{0}`, which is none; write it like us-east-1")]
    Region(String),
    /// No certificates, or no usable TLS.
    #[error("TLS cannot be set up: {0}; install the system's CA certificates or point SSL_CERT_FILE at some")]
    Tls(#[source] ErrorCause),
    /// The HTTP client refused its settings.
    #[error("the HTTP client cannot be set up: {}", cause(&**.0))]
    Client(#[source] ErrorCause),
}

/// The address of the server, without a fragment. `like` is how one is written.
pub(super) fn address(base_url: &str, like: &'static str) -> Result<Url, ConfigError> {
    let url = Url::parse(base_url.trim()).map_err(|error| ConfigError::Url(error.into(), like));
    let mut url = url?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(ConfigError::Scheme(url.scheme().to_owned()));
    }
    // `reqwest` would send them as Basic authentication, and every message with the address would show them.
    if !url.username().is_empty() || url.password().is_some() {
        return Err(ConfigError::Userinfo);
    }
    url.set_fragment(None);
    Ok(url)
}

/// The key without the blank space around it; `None` if nothing is left.
pub(super) fn trimmed(key: Option<&SecretString>) -> Option<&str> {
    // A key that was read from a file ends with a line break.
    key.map(|key| key.expose_secret().trim()).filter(|key| !key.is_empty())
}

/// Whether a header can be sent with every request.
///
/// # Errors
/// Why it cannot. The value is not shown.
pub(crate) fn check_header(name: &str, value: &SecretString) -> Result<(), ConfigError> {
    header(name, value.expose_secret()).map(drop)
}

/// Adds the headers that the user set; they go before those of the same name.
pub(super) fn add(
    headers: &mut HeaderMap,
    plain: &[(String, String)],
    secret: &[(String, SecretString)],
) -> Result<(), ConfigError> {
    for (name, value) in plain {
        let (name, value) = header(name, value)?;
        headers.insert(name, value);
    }
    for (name, value) in secret {
        let (name, mut value) = header(name, value.expose_secret())?;
        // Sensitive values are left out of `Debug`, and HPACK does not index them (RFC 7541, section 7.1.3).
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    Ok(())
}

fn header(name: &str, value: &str) -> Result<(HeaderName, HeaderValue), ConfigError> {
    let bad = || ConfigError::Header(name.to_owned());
    let parsed = name.parse::<HeaderName>().map_err(|_| bad())?;
    // A wrong length or framing header would break the connection, or smuggle a second request.
    if OWN_HEADERS.contains(&parsed) {
        return Err(ConfigError::OwnHeader(name.to_owned()));
    }
    Ok((parsed, HeaderValue::from_str(value.trim()).map_err(|_| bad())?))
}

/// A header's value that is not shown.
pub(super) fn secret(value: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(value).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// Everything that must not be reported.
pub(super) fn secrets(
    key: Option<&SecretString>,
    headers: &[(String, SecretString)],
) -> impl Iterator<Item = SecretString> {
    let key = trimmed(key).map(SecretString::from);
    key.into_iter().chain(headers.iter().map(|(_, value)| value.clone()))
}

/// Whether the extra fields leave the agent's own alone.
pub(super) fn check_extra(extra: &Map<String, Value>, own: &[&str]) -> Result<(), ConfigError> {
    match own.iter().find(|field| extra.contains_key(**field)) {
        Some(field) => Err(ConfigError::OwnField((*field).to_owned())),
        None => Ok(()),
    }
}
