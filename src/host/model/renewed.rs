//! Keys that expire: asked for again ahead of that, once for all who wait, and once more where a server refuses one.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use secrecy::{ExposeSecret, SecretString};
use tokio::time::Instant;

use super::headers::secret;
use crate::engine::Failure;
use crate::host::port::BoxFuture;
use crate::host::redact::LearnedSecrets;
use crate::policy::{ErrorClass, Policy};

/// A key is asked for again so long before it expires, or a fifth of its life if that is less: a long request must begin with
/// one that is valid.
const EARLY: Duration = Duration::from_secs(300);
/// How long a key that is still valid is used after no other one came.
const NEXT_TRY: Duration = Duration::from_secs(30);
/// How long a refusal counts that a new key did not mend. It has another reason then.
pub(super) const REFUSAL: Duration = Duration::from_secs(60);

/// Where a key comes from that changes while a program runs.
pub trait KeySupplier: Send + Sync {
    /// Asks for the key.
    fn supply(&self) -> BoxFuture<'_, Result<SuppliedKey, Failure>>;
}

/// A key as it came.
#[derive(Clone, Debug)]
pub struct SuppliedKey {
    /// The key.
    pub key: SecretString,
    /// When it expires, if that is known.
    pub expires: Option<SystemTime>,
    /// After which time it is asked for again, though it may be valid for longer.
    pub ask_again: Option<Duration>,
}

/// A key that is asked for again before it expires. Clones share it, and what was learned.
#[derive(Clone)]
pub struct RenewedKey(Arc<KeyState>);

struct KeyState {
    supplier: Box<dyn KeySupplier>,
    /// Held while the key is asked for, so that requests at one time ask once.
    asking: tokio::sync::Mutex<()>,
    known: Mutex<KnownKeys>,
    learned: LearnedSecrets,
}

#[derive(Default)]
struct KnownKeys {
    held: Option<HeldKey>,
    /// The last time nothing came, and why.
    failed: Option<(Instant, Failure)>,
    /// The last time a server refused one.
    refused: Option<Instant>,
}

/// The key in hand.
#[derive(Clone)]
pub(super) struct HeldKey {
    /// Which one it is of those that came.
    number: u64,
    key: SecretString,
    /// From when on it is asked for again.
    due: Option<Instant>,
    /// When it expires.
    ends: Option<Instant>,
}

#[cfg(feature = "bedrock")]
impl HeldKey {
    /// Stands for the credentials of that number, which sign requests and are sent with none.
    pub(super) fn of_credentials(number: u64) -> Self {
        Self { number, key: SecretString::default(), due: None, ends: None }
    }

    /// Which one it is of those that came.
    pub(super) const fn number(&self) -> u64 {
        self.number
    }
}

impl RenewedKey {
    /// A key that comes from there. Nothing is asked yet.
    pub fn new(supplier: impl KeySupplier + 'static) -> Self {
        Self(Arc::new(KeyState {
            supplier: Box::new(supplier),
            asking: tokio::sync::Mutex::default(),
            known: Mutex::default(),
            learned: LearnedSecrets::default(),
        }))
    }

    /// The keys that came so far, the last few of them: nobody may see them.
    pub(in crate::host) fn learned(&self) -> LearnedSecrets {
        self.0.learned.clone()
    }

    /// A key that is valid for a while.
    pub(super) async fn current(&self) -> Result<HeldKey, Failure> {
        let began = Instant::now();
        if let Some(held) = self.fresh() {
            return Ok(held);
        }
        let _asking = self.0.asking.lock().await;
        if let Some(held) = self.fresh() {
            return Ok(held);
        }
        // Who waited for the same question has the same answer.
        if let Some((at, failure)) = self.known(|known| known.failed.clone())
            && at > began
        {
            return Err(failure);
        }
        match self.ask().await {
            Ok(held) => Ok(held),
            Err(failure) => self.kept(&failure).ok_or(failure),
        }
    }

    /// Whether there is another key than the one that a server refused.
    ///
    /// # Errors
    /// Another one was asked for, and none came.
    pub(super) async fn renewed(&self, refused: &HeldKey) -> Result<bool, Failure> {
        let _asking = self.0.asking.lock().await;
        let now = Instant::now();
        let (number, last) = self.known(|known| (known.held.as_ref().map(|held| held.number), known.refused));
        if number.is_some_and(|number| number != refused.number) {
            return Ok(true);
        }
        if last.is_some_and(|last| now.duration_since(last) < REFUSAL) {
            return Ok(false);
        }
        self.known(|known| known.refused = Some(now));
        Ok(self.ask().await?.number != refused.number)
    }

    /// Asks for the key, and remembers what came.
    async fn ask(&self) -> Result<HeldKey, Failure> {
        let supplied = match self.0.supplier.supply().await {
            Ok(supplied) if secret(supplied.key.expose_secret().trim()).is_some() => supplied,
            Ok(_) => {
                let message = "the key that came holds a character that cannot stand in an HTTP header";
                return Err(self.failed(Failure::of(ErrorClass::AuthError, message)));
            }
            Err(failure) => return Err(self.failed(failure)),
        };
        let now = Instant::now();
        let key = SecretString::from(supplied.key.expose_secret().trim());
        self.0.learned.add(key.clone());
        let life = supplied.expires.map(|end| end.duration_since(SystemTime::now()).unwrap_or_default());
        let early = life.map(|life| life.saturating_sub(lead(life)));
        let due = early.into_iter().chain(supplied.ask_again).min();
        let at = |after: Duration| now.checked_add(after);
        Ok(self.known(|known| {
            let last = known
                .held
                .as_ref()
                .map_or((0, false), |held| (held.number, held.key.expose_secret() == key.expose_secret()));
            let number = if last.1 { last.0 } else { last.0.wrapping_add(1) };
            let held = HeldKey { number, key, due: due.and_then(at), ends: life.and_then(at) };
            known.held = Some(held.clone());
            held
        }))
    }

    fn failed(&self, failure: Failure) -> Failure {
        self.known(|known| known.failed = Some((Instant::now(), failure.clone())));
        failure
    }

    /// The key in hand, unless it is time for another one.
    fn fresh(&self) -> Option<HeldKey> {
        let held = self.known(|known| known.held.clone())?;
        held.due.is_none_or(|due| Instant::now() < due).then_some(held)
    }

    /// The key in hand though no other one came: it may still do.
    fn kept(&self, failure: &Failure) -> Option<HeldKey> {
        let now = Instant::now();
        let held = self.known(|known| {
            let held = known.held.as_mut().filter(|held| held.ends.is_none_or(|ends| now < ends))?;
            held.due = now.checked_add(NEXT_TRY);
            Some(held.clone())
        })?;
        tracing::warn!(error = failure.message, "a key was not renewed; the last one is still used");
        Some(held)
    }

    fn known<T>(&self, look: impl FnOnce(&mut KnownKeys) -> T) -> T {
        look(&mut self.0.known.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The header of a key.
#[derive(Clone, Debug)]
pub(super) struct KeyPlace {
    pub(super) header: HeaderName,
    pub(super) bearer: bool,
}

impl KeyPlace {
    /// The header's value; `None`: the key has a character that HTTP does not allow.
    pub(super) fn value(&self, key: &str) -> Option<HeaderValue> {
        if self.bearer { secret(&format!("Bearer {key}")) } else { secret(key) }
    }
}

/// The key of the requests to one model, and how it is sent.
pub(super) struct RequestKey {
    place: KeyPlace,
    key: RenewedKey,
}

impl RequestKey {
    pub(super) fn new((place, key): (KeyPlace, RenewedKey)) -> Self {
        Self { place, key }
    }

    /// A key that is valid for a while.
    pub(super) async fn current(&self) -> Result<HeldKey, Failure> {
        self.key.current().await
    }

    /// Puts it into the headers of a request.
    pub(super) fn set(&self, held: &HeldKey, headers: &mut HeaderMap) {
        if let Some(value) = self.place.value(held.key.expose_secret()) {
            headers.insert(self.place.header.clone(), value);
        }
    }

    /// What is other in a request that is sent again because its key was refused; `None`: it was not, or there is no other one.
    ///
    /// # Errors
    /// Another one was asked for, and none came.
    pub(super) async fn renews(&self, held: &HeldKey, refusal: &Failure) -> Result<Option<String>, Failure> {
        let Some(status) = refusal.status.filter(|_| is_of_key(refusal)) else { return Ok(None) };
        match self.key.renewed(held).await {
            Ok(true) => Ok(Some(format!("the key was refused (HTTP {status}) and asked for again"))),
            Ok(false) => Ok(None),
            Err(failure) => {
                let message = format!("the key was refused (HTTP {status}), and {}", failure.message);
                Err(Failure { message, ..failure })
            }
        }
    }
}

/// Whether a server has refused the key of a request. Some call a token that has expired forbidden, and Gemini calls it a mistake in the
/// request: `API_KEY_INVALID`.
fn is_of_key(refusal: &Failure) -> bool {
    match refusal.status {
        Some(401 | 403) => true,
        Some(400) => refusal.classified(&Policy::builtin()).class == ErrorClass::AuthError,
        _ => false,
    }
}

// Without the key.
impl fmt::Debug for RenewedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RenewedKey").finish_non_exhaustive()
    }
}

/// How long before the end of its life a key is asked for again.
pub(in crate::host) fn lead(life: Duration) -> Duration {
    EARLY.min(life / 5)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures_util::future::join_all;

    use super::*;
    use crate::engine::ReplyHeaders;

    /// Keys that live so long, as many as there are names; after that none comes.
    struct Names {
        all: &'static [&'static str],
        life: Option<u64>,
        asked: Arc<AtomicUsize>,
    }

    impl KeySupplier for Names {
        fn supply(&self) -> BoxFuture<'_, Result<SuppliedKey, Failure>> {
            let asked = self.asked.fetch_add(1, Ordering::Relaxed);
            let expires = |life| SystemTime::now().checked_add(Duration::from_secs(life));
            Box::pin(async move {
                tokio::time::sleep(Duration::from_millis(10)).await;
                let name = self.all.get(asked);
                let name = name.ok_or_else(|| Failure::of(ErrorClass::AuthError, "no key"))?;
                Ok(SuppliedKey { key: (*name).into(), expires: self.life.and_then(expires), ask_again: None })
            })
        }
    }

    fn key(names: &'static [&'static str], life: Option<u64>) -> (RenewedKey, Arc<AtomicUsize>) {
        let asked = Arc::<AtomicUsize>::default();
        (RenewedKey::new(Names { all: names, life, asked: Arc::clone(&asked) }), asked)
    }

    async fn name(key: &RenewedKey) -> Result<String, String> {
        let held = key.current().await;
        held.map(|held| held.key.expose_secret().to_owned()).map_err(|failure| failure.message)
    }

    async fn pass(seconds: u64) {
        tokio::time::advance(Duration::from_secs(seconds)).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_is_asked_for_again_before_it_expires() {
        // Five minutes before, or a fifth of its life.
        for (life, before) in [(3600, 3290), (60, 47)] {
            let (key, asked) = key(&["a", "b"], Some(life));
            assert_eq!(name(&key).await.unwrap(), "a");
            pass(before).await;
            assert_eq!(name(&key).await.unwrap(), "a");
            pass(10).await;
            assert_eq!((name(&key).await.unwrap(), asked.load(Ordering::Relaxed)), ("b".to_owned(), 2));
        }
        let (key, asked) = key(&["a"], None);
        assert_eq!(name(&key).await.unwrap(), "a");
        pass(1_000_000).await;
        assert_eq!((name(&key).await.unwrap(), asked.load(Ordering::Relaxed)), ("a".to_owned(), 1));
    }

    #[tokio::test(start_paused = true)]
    async fn all_who_wait_ask_once_whatever_comes() {
        let (good, asked) = key(&["a"], Some(3600));
        let all = join_all((0..20).map(|_| name(&good))).await;
        assert!(all.iter().all(|name| name.as_deref() == Ok("a")), "{all:?}");
        assert_eq!(asked.load(Ordering::Relaxed), 1);
        let (none, asked) = key(&[], None);
        let all = join_all((0..20).map(|_| name(&none))).await;
        assert!(all.iter().all(|name| name == &Err("no key".to_owned())), "{all:?}");
        assert_eq!(asked.load(Ordering::Relaxed), 1);
        // Who comes later asks for himself.
        assert!(name(&none).await.is_err());
        assert_eq!(asked.load(Ordering::Relaxed), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_that_is_still_valid_is_used_where_no_other_one_comes() {
        let (key, asked) = key(&["a"], Some(3600));
        assert_eq!(name(&key).await.unwrap(), "a");
        pass(3310).await;
        assert_eq!((name(&key).await.unwrap(), asked.load(Ordering::Relaxed)), ("a".to_owned(), 2));
        // Not asked for with each request.
        pass(20).await;
        assert_eq!((name(&key).await.unwrap(), asked.load(Ordering::Relaxed)), ("a".to_owned(), 2));
        pass(20).await;
        assert_eq!((name(&key).await.unwrap(), asked.load(Ordering::Relaxed)), ("a".to_owned(), 3));
        pass(300).await;
        assert_eq!(name(&key).await.unwrap_err(), "no key");
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_that_is_refused_is_asked_for_again_once() {
        let (key, asked) = key(&["a", "b", "c", "c"], Some(36_000));
        let first = key.current().await.unwrap();
        let renewed = join_all((0..5).map(|_| key.renewed(&first))).await;
        assert!(renewed.iter().all(|renewed| *renewed == Ok(true)), "{renewed:?}");
        assert_eq!((name(&key).await.unwrap(), asked.load(Ordering::Relaxed)), ("b".to_owned(), 2));
        // One that came a moment ago is refused for another reason.
        let second = key.current().await.unwrap();
        assert_eq!(key.renewed(&second).await, Ok(false));
        pass(61).await;
        assert_eq!(key.renewed(&second).await, Ok(true));
        pass(61).await;
        let third = key.current().await.unwrap();
        // The same one again is no reason to send the request again.
        assert_eq!((key.renewed(&third).await, asked.load(Ordering::Relaxed)), (Ok(false), 4));
        pass(61).await;
        assert_eq!(key.renewed(&third).await.unwrap_err().message, "no key");
    }

    #[test]
    fn a_refusal_of_the_key_is_told_by_its_status_or_by_what_it_says() {
        let refusal = |status, body: &str| {
            Failure::from_answer(
                status,
                &ReplyHeaders::default(),
                body.as_bytes(),
                crate::time::Instant::default,
            )
        };
        let expired = r#"{"error": {"code": 400, "message": "API key expired. Please renew the API key.",
            "status": "INVALID_ARGUMENT", "details": [{"@type": "type.googleapis.com/google.rpc.ErrorInfo",
            "reason": "API_KEY_INVALID", "domain": "googleapis.com"}]}}"#;
        let wrong = r#"{"error": {"code": 400, "message": "Unable to submit request because it has no contents",
            "status": "INVALID_ARGUMENT"}}"#;
        for (status, body, of_key) in [
            (401, "", true),
            (403, "", true),
            (400, expired, true),
            (400, wrong, false),
            (400, "", false),
            (500, expired, false),
        ] {
            assert_eq!(is_of_key(&refusal(status, body)), of_key, "{status} {body}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_that_cannot_be_sent_is_none() {
        let (key, _) = key(&["a\u{7}"], None);
        let error = name(&key).await.unwrap_err();
        assert!(error.contains("HTTP header") && !error.contains('\u{7}'), "{error}");
    }
}
