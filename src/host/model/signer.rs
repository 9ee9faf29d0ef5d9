//! Requests signed for AWS (Signature Version 4), with credentials from where its own tools look for them: the environment, a
//! profile, a web identity, a container, the instance.

mod missing;

use std::error::Error;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use aws_config::Region;
use aws_config::default_provider::credentials::DefaultCredentialsChain;
use aws_config::profile::ProfileFileCredentialsProvider;
use aws_config::provider_config::ProviderConfig;
use aws_credential_types::Credentials;
use aws_credential_types::provider::error::CredentialsError;
use aws_credential_types::provider::{ProvideCredentials, SharedCredentialsProvider};
use aws_sigv4::http_request::{SignableBody, SignableRequest, SigningSettings, sign};
use aws_sigv4::sign::v4::SigningParams;
use aws_smithy_http_client::tls::Provider;
use aws_smithy_http_client::tls::rustls_provider::CryptoMode;
use reqwest::Url;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use tokio::time::Instant;
use tracing::Dispatch;
use tracing::instrument::WithSubscriber;

use self::missing::{missing, refused};
use super::renewed::REFUSAL;
use crate::engine::Failure;
use crate::host::redact::LearnedSecrets;

/// Credentials that expire so soon are asked for again: a long request must begin with valid ones.
const EARLY: Duration = Duration::from_secs(300);
/// How long they are waited for: a process that a profile names may hang.
const WITHIN: Duration = Duration::from_secs(60);
/// How long those in hand are used before others are asked for again, where none came.
const NEXT_TRY: Duration = Duration::from_secs(30);
/// How Bedrock refuses credentials that have expired, are unknown, or have another secret by now.
const REFUSALS: [&str; 6] = [
    "ExpiredTokenException",
    "ExpiredToken",
    "RequestExpired",
    "UnrecognizedClientException",
    "InvalidClientTokenId",
    "InvalidSignatureException",
];

/// Signs the requests to one model.
pub(super) struct AwsSigner {
    region: String,
    profile: Option<String>,
    /// Held while credentials are asked for, so that requests at one time ask once.
    asking: tokio::sync::Mutex<()>,
    known: Mutex<KnownCredentials>,
    learned: LearnedSecrets,
}

#[derive(Default)]
struct KnownCredentials {
    held: Option<HeldCredentials>,
    /// The last time a server refused some.
    refused: Option<Instant>,
    /// Before this, those in hand are not renewed: nobody gave any.
    next_try: Option<Instant>,
}

/// The credentials in hand.
#[derive(Clone)]
struct HeldCredentials {
    /// Which ones they are of those that came.
    number: u64,
    credentials: Credentials,
}

impl AwsSigner {
    /// For a service in that region. `profile`: whose credentials; `None`: what the environment says.
    pub(super) fn new(region: String, profile: Option<String>) -> Self {
        Self {
            region,
            profile,
            asking: tokio::sync::Mutex::default(),
            known: Mutex::default(),
            learned: LearnedSecrets::default(),
        }
    }

    /// Adds the signature of a request to its headers.
    ///
    /// # Errors
    /// There are no credentials.
    pub(super) async fn sign(&self, url: &Url, headers: &mut HeaderMap, body: &[u8]) -> Result<(), Failure> {
        // They were valid for a while as the request began.
        let held = self.fresh(Duration::ZERO);
        let held = if let Some(held) = held { held } else { self.valid().await? };
        let identity = held.credentials.into();
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
    pub(super) fn learned(&self) -> LearnedSecrets {
        self.learned.clone()
    }

    /// The number of credentials that are valid for a while.
    ///
    /// # Errors
    /// There are none.
    pub(super) async fn current(&self) -> Result<u64, Failure> {
        self.valid().await.map(|held| held.number)
    }

    /// What is other in a request that is sent again because the credentials of that number were refused; `None`: they were not, or there
    /// are no other ones.
    ///
    /// # Errors
    /// Other ones were asked for, and none came.
    pub(super) async fn renews(&self, number: u64, refusal: &Failure) -> Result<Option<String>, Failure> {
        let said = [&refusal.kind, &refusal.code].into_iter().flatten();
        let Some(said) = said.map(String::as_str).find(|said| REFUSALS.contains(said)) else {
            return Ok(None);
        };
        match self.renewed(number).await {
            Ok(true) => {
                Ok(Some(format!("the credentials for AWS were refused ({said}) and asked for again")))
            }
            Ok(false) => Ok(None),
            Err(failure) => {
                let message =
                    format!("the credentials for AWS were refused ({said}), and then: {}", failure.message);
                Err(Failure { message, ..failure })
            }
        }
    }

    /// Whether there are other credentials than those that a server refused.
    async fn renewed(&self, refused: u64) -> Result<bool, Failure> {
        let _asking = self.asking.lock().await;
        let now = Instant::now();
        let (number, last) = self.known(|known| (known.held.as_ref().map(|held| held.number), known.refused));
        if number.is_some_and(|number| number != refused) {
            return Ok(true);
        }
        if last.is_some_and(|last| now.duration_since(last) < REFUSAL) {
            return Ok(false);
        }
        self.known(|known| known.refused = Some(now));
        Ok(self.ask().await?.number != refused)
    }

    /// Credentials that are valid for a while.
    async fn valid(&self) -> Result<HeldCredentials, Failure> {
        if let Some(fresh) = self.fresh(EARLY) {
            return Ok(fresh);
        }
        let _asking = self.asking.lock().await;
        if let Some(fresh) = self.fresh(EARLY) {
            return Ok(fresh);
        }
        // Those in hand may still do, and nobody waits for others at once again.
        let held = self.fresh(Duration::ZERO);
        let now = Instant::now();
        if let Some(held) =
            held.clone().filter(|_| self.known(|known| known.next_try.is_some_and(|next| now < next)))
        {
            return Ok(held);
        }
        match (self.ask().await, held) {
            (Err(_), Some(held)) => {
                self.known(|known| known.next_try = now.checked_add(NEXT_TRY));
                Ok(held)
            }
            (asked, _) => asked,
        }
    }

    /// The credentials in hand, if they are valid for that long.
    fn fresh(&self, long: Duration) -> Option<HeldCredentials> {
        let held = self.known(|known| known.held.clone())?;
        let until = SystemTime::now().checked_add(long);
        let is_valid = |expiry: SystemTime| until.is_none_or(|until| expiry > until);
        held.credentials.expiry().is_none_or(is_valid).then_some(held)
    }

    /// Asks for credentials, and remembers what came.
    async fn ask(&self) -> Result<HeldCredentials, Failure> {
        let provided = async { self.provider().await.provide_credentials().await };
        // What the SDK logs on the way has tokens, and what processes complain of.
        let provided = tokio::time::timeout(WITHIN, provided.with_subscriber(Dispatch::none())).await;
        match provided.unwrap_or_else(|_| Err(CredentialsError::provider_timed_out(WITHIN))) {
            Ok(credentials) => Ok(self.hold(credentials)),
            Err(error) => Err(missing(&error, self.profile.as_deref())),
        }
    }

    fn hold(&self, credentials: Credentials) -> HeldCredentials {
        let secrets = [Some(credentials.secret_access_key()), credentials.session_token()];
        secrets.into_iter().flatten().for_each(|secret| self.learned.add(secret.into()));
        self.known(|known| {
            let last = known.held.as_ref();
            let last =
                last.map_or((0, false), |last| (last.number, is_same(&last.credentials, &credentials)));
            let number = if last.1 { last.0 } else { last.0.wrapping_add(1) };
            let held = HeldCredentials { number, credentials };
            known.held = Some(held.clone());
            held
        })
    }

    /// Who is asked. Made anew each time, as it reads the files of profiles only once.
    async fn provider(&self) -> SharedCredentialsProvider {
        let client = aws_smithy_http_client::Builder::new()
            .tls_provider(Provider::Rustls(CryptoMode::Ring))
            .build_https();
        let region = Region::new(self.region.clone());
        let config =
            ProviderConfig::without_region().with_region(Some(region.clone())).with_http_client(client);
        // The chain would ask the environment first. Who names a profile wants that one, as with `--profile` of AWS's own tools.
        if let Some(profile) = &self.profile {
            let profile = ProfileFileCredentialsProvider::builder().profile_name(profile);
            return SharedCredentialsProvider::new(profile.configure(&config).build());
        }
        let chain = DefaultCredentialsChain::builder().configure(config).region(region);
        SharedCredentialsProvider::new(chain.build().await)
    }

    fn known<T>(&self, look: impl FnOnce(&mut KnownCredentials) -> T) -> T {
        look(&mut self.known.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Whether a server that has refused the one refuses the other, too.
fn is_same(one: &Credentials, other: &Credentials) -> bool {
    let parts = |of: &Credentials| {
        [Some(of.access_key_id()), Some(of.secret_access_key()), of.session_token()]
            .map(|part| part.map(str::to_owned))
    };
    parts(one) == parts(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holding(credentials: Credentials) -> AwsSigner {
        // No file has it, so that nothing comes where it is asked.
        let signer = AwsSigner::new("eu-west-1".to_owned(), Some("no-such-profile-3f1c".to_owned()));
        signer.hold(credentials);
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
    }

    #[test]
    fn credentials_that_expire_soon_are_not_fresh() {
        let at = |seconds| SystemTime::now().checked_add(Duration::from_secs(seconds));
        assert!(holding(credentials(None, None)).fresh(EARLY).is_some());
        assert!(holding(credentials(None, at(3600))).fresh(EARLY).is_some());
        assert!(holding(credentials(None, at(60))).fresh(EARLY).is_none());
        assert!(holding(credentials(None, at(60))).fresh(Duration::ZERO).is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn refused_credentials_are_asked_for_again_once() {
        let refusal = |kind: &str| Failure { kind: Some(kind.to_owned()), ..Failure::default() };
        let expired = refusal("ExpiredTokenException");
        let signer = holding(credentials(Some("old"), None));
        let first = signer.current().await.unwrap();
        assert_eq!(signer.renews(first, &refusal("AccessDeniedException")).await, Ok(None));
        // The same ones again are no other ones.
        assert_eq!(signer.hold(credentials(Some("old"), None)).number, first);
        let second = signer.hold(credentials(Some("new"), None)).number;
        let note = signer.renews(first, &expired).await.unwrap().unwrap();
        assert_eq!(note, "the credentials for AWS were refused (ExpiredTokenException) and asked for again");
        let failure = signer.renews(second, &expired).await.unwrap_err();
        assert!(failure.message.contains("(ExpiredTokenException), and then: "), "{}", failure.message);
        assert_eq!(failure.kind.as_deref(), Some("CredentialsNotLoaded"));
        // Not with each request that is refused.
        assert_eq!(signer.renews(second, &expired).await, Ok(None));
        tokio::time::advance(REFUSAL).await;
        assert!(signer.renews(second, &expired).await.is_err());
    }

    #[tokio::test]
    async fn a_profile_is_all_that_is_asked_where_one_is_named() {
        let asked = |profile: Option<&str>| {
            let signer = AwsSigner::new("eu-west-1".to_owned(), profile.map(str::to_owned));
            async move { format!("{:?}", signer.provider().await) }
        };
        let named = asked(Some("agents")).await;
        assert!(named.contains("ProfileFileCredentialsProvider") && named.contains("\"agents\""), "{named}");
        assert!(!named.contains("DefaultCredentialsChain"), "{named}");
        assert!(asked(None).await.contains("DefaultCredentialsChain"));
    }

    #[test]
    fn secrets_of_credentials_that_were_renewed_are_still_known() {
        use crate::host::redact::SecretRedactor;
        let signer = holding(credentials(Some("token-old"), None));
        signer.hold(credentials(Some("token-new"), None));
        let redactor = SecretRedactor::default().learning([signer.learned()]);
        let shown = redactor.text("token-old token-new secret-key-1234".to_owned());
        assert_eq!(shown, "[redacted] [redacted] [redacted]");
    }
}
