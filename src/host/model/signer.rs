//! Requests signed for AWS (Signature Version 4), with credentials from where its own tools look for them: the environment, a
//! profile, a web identity, a container, the instance.

use std::error::Error;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use aws_config::Region;
use aws_config::default_provider::credentials::DefaultCredentialsChain;
use aws_config::provider_config::ProviderConfig;
use aws_credential_types::Credentials;
use aws_credential_types::provider::ProvideCredentials;
use aws_credential_types::provider::error::CredentialsError;
use aws_sigv4::http_request::{SignableBody, SignableRequest, SigningSettings, sign};
use aws_sigv4::sign::v4::SigningParams;
use aws_smithy_http_client::tls::Provider;
use aws_smithy_http_client::tls::rustls_provider::CryptoMode;
use aws_smithy_types::error::ErrorMetadata;
use reqwest::Url;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use secrecy::SecretString;
use tokio::sync::OnceCell;

use super::failure::{cause, cut_off};
use crate::engine::Failure;

/// Credentials that expire so soon are asked for again: a long request must begin with valid ones.
const EARLY: Duration = Duration::from_secs(300);

/// Signs the requests to one model.
pub(super) struct AwsSigner {
    region: String,
    profile: Option<String>,
    chain: OnceCell<DefaultCredentialsChain>,
    /// Held while credentials are asked for, so that requests at one time ask once.
    asking: tokio::sync::Mutex<()>,
    current: Mutex<Option<Credentials>>,
}

impl AwsSigner {
    /// For a service in that region. `profile`: whose credentials; `None`: what the environment says.
    pub(super) const fn new(region: String, profile: Option<String>) -> Self {
        Self {
            region,
            profile,
            chain: OnceCell::const_new(),
            asking: tokio::sync::Mutex::const_new(()),
            current: Mutex::new(None),
        }
    }

    /// Adds the signature of a request to its headers.
    ///
    /// # Errors
    /// There are no credentials.
    pub(super) async fn sign(&self, url: &Url, headers: &mut HeaderMap, body: &[u8]) -> Result<(), Failure> {
        let identity = self.credentials().await?.into();
        let params = SigningParams::builder()
            .identity(&identity)
            .region(&self.region)
            .name("bedrock")
            .time(SystemTime::now())
            .settings(SigningSettings::default())
            .build();
        let unsigned = |error: &dyn Error| refused(format!("the request cannot be signed: {error}"));
        let params = params.map_err(|error| unsigned(&error))?.into();
        // Proxies may change other headers.
        let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        let signed = kind.map(|kind| (CONTENT_TYPE.as_str(), kind)).into_iter();
        let request = SignableRequest::new("POST", url.as_str(), signed, SignableBody::Bytes(body));
        let request = request.map_err(|error| unsigned(&error))?;
        let (added, _) = sign(request, &params).map_err(|error| unsigned(&error))?.into_parts();
        for (name, value) in added.headers() {
            let name = HeaderName::from_bytes(name.as_bytes()).map_err(|error| unsigned(&error))?;
            let mut value = HeaderValue::from_str(value).map_err(|error| unsigned(&error))?;
            value.set_sensitive(true);
            headers.insert(name, value);
        }
        Ok(())
    }

    /// What must not be reported: a refused signature is answered with what it was made of.
    pub(super) fn secrets(&self) -> Vec<SecretString> {
        let current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let secrets = |current: &Credentials| {
            let token = current.session_token().map(SecretString::from);
            token.into_iter().chain([SecretString::from(current.secret_access_key())]).collect()
        };
        current.as_ref().map(secrets).unwrap_or_default()
    }

    /// Credentials that are valid for a while.
    async fn credentials(&self) -> Result<Credentials, Failure> {
        if let Some(fresh) = self.fresh(EARLY) {
            return Ok(fresh);
        }
        let _asking = self.asking.lock().await;
        if let Some(fresh) = self.fresh(EARLY) {
            return Ok(fresh);
        }
        match self.chain.get_or_init(|| self.chain()).await.provide_credentials().await {
            Ok(credentials) => {
                *self.current.lock().unwrap_or_else(PoisonError::into_inner) = Some(credentials.clone());
                Ok(credentials)
            }
            // Those in hand may still do.
            Err(error) => self.fresh(Duration::ZERO).ok_or_else(|| missing(&error)),
        }
    }

    /// The credentials in hand, if they are valid for that long.
    fn fresh(&self, long: Duration) -> Option<Credentials> {
        let current = self.current.lock().unwrap_or_else(PoisonError::into_inner).clone()?;
        let until = SystemTime::now().checked_add(long);
        let is_valid = |expiry: SystemTime| until.is_none_or(|until| expiry > until);
        current.expiry().is_none_or(is_valid).then_some(current)
    }

    async fn chain(&self) -> DefaultCredentialsChain {
        let client = aws_smithy_http_client::Builder::new()
            .tls_provider(Provider::Rustls(CryptoMode::Ring))
            .build_https();
        let config = ProviderConfig::without_region().with_http_client(client);
        let mut chain =
            DefaultCredentialsChain::builder().configure(config).region(Region::new(self.region.clone()));
        if let Some(profile) = &self.profile {
            chain = chain.profile_name(profile);
        }
        chain.build().await
    }
}

/// Why there are no credentials. Whether another attempt may find some depends on who was asked, and on the answer.
fn missing(error: &CredentialsError) -> Failure {
    if let Some((code, said)) = answered(error) {
        let message = format!("the credentials for AWS were refused with `{code}`: {said}");
        return Failure { kind: Some(code), message, ..Failure::default() };
    }
    let why = cause(error);
    match error {
        CredentialsError::ProviderTimedOut(_) | CredentialsError::ProviderError(_) => {
            cut_off(format!("the credentials for AWS did not come: {why}"))
        }
        _ => refused(format!(
            "there are no credentials for AWS ({why}); set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, name a `profile`, or \
             give the model an `api_key` of Bedrock"
        )),
    }
}

/// The code of a refusal by the service that gives credentials, and what it says. Their errors are those of crates that cannot be
/// named here: one that they do not know has its code as data, any other begins with the name of its type.
fn answered(error: &CredentialsError) -> Option<(String, String)> {
    let mut innermost = error.source()?;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    if let Some(unknown) = innermost.downcast_ref::<ErrorMetadata>() {
        return Some((unknown.code()?.to_owned(), unknown.message().unwrap_or("no reason").to_owned()));
    }
    let shown = innermost.to_string();
    let (name, said) = shown.split_once(": ").unwrap_or((&shown, "no reason"));
    let is_name = name.ends_with("Exception") && name.chars().all(|c| c.is_ascii_alphanumeric());
    is_name.then(|| (name.to_owned(), said.to_owned()))
}

/// A request that is not sent, as nobody can sign it. The table of errors says what class that is.
fn refused(message: String) -> Failure {
    Failure { kind: Some("CredentialsNotLoaded".to_owned()), message, ..Failure::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Policy;

    fn holding(credentials: Credentials) -> AwsSigner {
        let signer = AwsSigner::new("eu-west-1".to_owned(), None);
        *signer.current.lock().unwrap() = Some(credentials);
        signer
    }

    fn credentials(token: Option<&str>, expires: Option<SystemTime>) -> Credentials {
        Credentials::new("AKIDEXAMPLE", "secret-key-1234", token.map(str::to_owned), expires, "test")
    }

    #[tokio::test]
    async fn a_signature_covers_what_is_sent_and_is_never_shown() {
        let signer = holding(credentials(Some("token-5678"), None));
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert("x-other", HeaderValue::from_static("1"));
        let url = Url::parse("https://bedrock-runtime.eu-west-1.amazonaws.com/model/a%3A0/converse").unwrap();
        signer.sign(&url, &mut headers, b"{}").await.unwrap();
        let signature = headers["authorization"].to_str().unwrap();
        assert!(signature.contains("/eu-west-1/bedrock/aws4_request"), "{signature}");
        assert!(
            signature.contains("SignedHeaders=content-type;host;x-amz-date;x-amz-security-token"),
            "{signature}"
        );
        assert_eq!(headers["x-amz-security-token"], "token-5678");
        let shown = format!("{headers:?}");
        assert!(!shown.contains("AKIDEXAMPLE") && !shown.contains("5678"), "{shown}");
        assert_eq!(signer.secrets().len(), 2);
    }

    #[test]
    fn credentials_that_expire_soon_are_not_fresh() {
        let at = |seconds| SystemTime::now().checked_add(Duration::from_secs(seconds));
        assert!(holding(credentials(None, None)).fresh(EARLY).is_some());
        assert!(holding(credentials(None, at(3600))).fresh(EARLY).is_some());
        assert!(holding(credentials(None, at(60))).fresh(EARLY).is_none());
        assert!(holding(credentials(None, at(60))).fresh(Duration::ZERO).is_some());
    }

    #[test]
    fn only_what_may_pass_is_worth_another_attempt() {
        let class = |error| missing(&error).classified(&Policy::builtin()).class.name();
        assert_eq!(class(CredentialsError::not_loaded("nothing there")), "auth_error");
        assert_eq!(class(CredentialsError::invalid_configuration("no such profile")), "auth_error");
        assert_eq!(class(CredentialsError::provider_error("503")), "network_error");
        // As the token service answers, with a code that its crate knows and one that it does not.
        let answer = |code: &str| ErrorMetadata::builder().code(code).message("no").build();
        for (code, expected) in [
            ("AccessDenied", "permission_denied"),
            ("SignatureDoesNotMatch", "auth_error"),
            ("Throttling", "rate_limit"),
            ("ServiceUnavailable", "overloaded"),
        ] {
            assert_eq!(class(CredentialsError::provider_error(answer(code))), expected, "{code}");
        }
        for (code, expected) in [
            ("InvalidIdentityTokenException", "auth_error"),
            ("ExpiredTokenException", "auth_error"),
            ("IdpCommunicationErrorException", "overloaded"),
        ] {
            assert_eq!(class(CredentialsError::provider_error(format!("{code}: no"))), expected, "{code}");
        }
    }
}
