//! Who may use the gateway, and which routes.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::http::header::AUTHORIZATION;
use axum::http::{HeaderMap, HeaderName, StatusCode};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::digest::{SHA256, digest};
use subtle::ConstantTimeEq;

use crate::cli::http::{OriginRules, bearer, text};
use crate::host::agent_file::GatewayKeys;
use crate::host::gateway::GatewayError;
use crate::policy::Selector;

/// Where clients of Anthropic's SDK send their key, and those of Azure's.
static KEY_HEADERS: [HeaderName; 3] = [
    HeaderName::from_static("x-api-key"),
    HeaderName::from_static("api-key"),
    HeaderName::from_static("x-goog-api-key"),
];

/// What proxies say of the requests that they pass (RFC 7239; RFC 9110, section 7.6.3).
const PROXY_HEADERS: [&str; 6] =
    ["forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-real-ip"];

/// Who may.
pub(super) struct AccessRules {
    origins: OriginRules,
    keys: Vec<ClientKey>,
}

struct ClientKey {
    hash: Vec<u8>,
    client: GatewayClient,
}

/// A client that may use the gateway.
#[derive(Clone, Debug, Default)]
pub(super) struct GatewayClient {
    /// Its name; empty: no keys are taken.
    pub(super) name: String,
    /// The routes that it may use, by their names; `None`: all.
    routes: Option<Arc<[Selector]>>,
    admin: bool,
}

impl AccessRules {
    /// The rules for an address; `None`: beyond this machine it takes keys.
    pub(super) fn new(address: SocketAddr, keys: &GatewayKeys) -> Option<Self> {
        let origins = OriginRules::new(address);
        let key = |(name, entry): (&String, &_)| ClientKey::of(name, entry);
        let keys: Vec<ClientKey> = keys.iter().filter_map(key).collect();
        (origins.is_loopback() || !keys.is_empty()).then_some(Self { origins, keys })
    }

    /// Whether only this machine is served.
    pub(super) const fn is_loopback(&self) -> bool {
        self.origins.is_loopback()
    }

    /// Refuses a request that comes from elsewhere.
    pub(super) fn origin(&self, headers: &HeaderMap) -> Result<(), GatewayError> {
        let foreign = |why| GatewayError::new(StatusCode::FORBIDDEN, "foreign_origin", why);
        self.origins.check(headers).map_err(foreign)
    }

    /// Whose request it is.
    pub(super) fn client(&self, headers: &HeaderMap) -> Result<GatewayClient, GatewayError> {
        self.origin(headers)?;
        if self.keys.is_empty() {
            return Ok(GatewayClient::default());
        }
        let own = KEY_HEADERS.each_ref().map(|name| text(headers, name).trim());
        let given = bearer(headers).into_iter().chain(own).filter(|key| !key.is_empty());
        self.known(given).ok_or_else(|| {
            let message =
                "it takes a key of this gateway, as `Authorization: Bearer KEY` or `x-api-key: KEY`";
            GatewayError::new(StatusCode::UNAUTHORIZED, "invalid_api_key", message)
        })
    }

    /// Refuses who may not see what the gateway does. A browser asks its user for the key, and sends it as a password.
    pub(super) fn status(&self, headers: &HeaderMap) -> Result<(), GatewayError> {
        self.origin(headers)?;
        let password = password(headers);
        let by_password = || self.known(password.as_deref().into_iter().filter(|key| !key.is_empty()));
        if self.is_open(headers) || by_password().is_some_and(|client| client.admin) {
            return Ok(());
        }
        self.admin(headers, "the state of the gateway takes a key with `admin: true`")
    }

    /// The first client of these keys.
    fn known<'k>(&self, given: impl Iterator<Item = &'k str>) -> Option<GatewayClient> {
        let mut found = None;
        for key in given {
            let hash = digest(&SHA256, key.as_bytes());
            // Every key is compared, so that the time does not say which of them it was.
            for known in &self.keys {
                if bool::from(hash.as_ref().ct_eq(&known.hash)) {
                    found = found.or(Some(&known.client));
                }
            }
        }
        found.cloned()
    }

    /// Refuses who may not read the metrics.
    pub(super) fn metrics(&self, headers: &HeaderMap) -> Result<(), GatewayError> {
        if self.is_open(headers) {
            return self.origin(headers);
        }
        self.admin(headers, "metrics take a key with `admin: true`")
    }

    /// Whether all who reach it may see what it does: those on this machine, unless the file says who may, or they come through a
    /// proxy, as clients of other machines do.
    fn is_open(&self, headers: &HeaderMap) -> bool {
        let has_passed = || PROXY_HEADERS.iter().any(|name| headers.contains_key(*name));
        self.is_loopback()
            && (self.keys.is_empty() || !(has_passed() || self.keys.iter().any(|key| key.client.admin)))
    }

    /// Whether clients need a key.
    pub(super) const fn has_keys(&self) -> bool {
        !self.keys.is_empty()
    }

    fn admin(&self, headers: &HeaderMap, message: &str) -> Result<(), GatewayError> {
        if self.client(headers)?.admin {
            return Ok(());
        }
        Err(GatewayError::new(StatusCode::FORBIDDEN, "not_admin", message))
    }
}

/// The password that a browser sends (RFC 7617); the name before it may be any.
fn password(headers: &HeaderMap) -> Option<String> {
    let (scheme, pair) = text(headers, &AUTHORIZATION).split_once(' ')?;
    let pair = scheme.eq_ignore_ascii_case("basic").then(|| STANDARD.decode(pair.trim()).ok())??;
    let (_, password) = core::str::from_utf8(&pair).ok()?.split_once(':')?;
    Some(password.to_owned())
}

impl ClientKey {
    fn of(name: &str, entry: &crate::host::agent_file::GatewayKeyEntry) -> Option<Self> {
        let digits = &entry.sha256.value;
        let byte = |at: usize| u8::from_str_radix(digits.get(at..at.saturating_add(2))?, 16).ok();
        let hash = (0..digits.len()).step_by(2).map(byte).collect::<Option<Vec<u8>>>()?;
        let routes = entry.allowed_routes().map(Arc::from);
        Some(Self { hash, client: GatewayClient { name: name.to_owned(), routes, admin: entry.admin } })
    }
}

impl GatewayClient {
    /// Whether it may use some routes alone.
    pub(super) const fn is_limited(&self) -> bool {
        self.routes.is_some()
    }

    /// Whether it may use the route of that name.
    pub(super) fn may(&self, route: &str) -> bool {
        self.routes.as_ref().is_none_or(|routes| routes.iter().any(|allowed| allowed.matches(route)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::agent_file::AgentFile;

    fn rules(address: &str, keys: &str) -> Option<AccessRules> {
        let text = format!("version: 1\nmodels: {{m: {{api: scripted, script: s.yaml}}}}\nkeys: {keys}\n");
        let file = AgentFile::read("gateway.yaml", text.as_bytes()).unwrap();
        AccessRules::new(address.parse().unwrap(), &file.value.keys)
    }

    fn hash(key: &str) -> String {
        crate::cli::serve::hex(digest(&SHA256, key.as_bytes()).as_ref())
    }

    fn client(rules: &AccessRules, fields: &[(&'static str, &str)]) -> Result<String, u16> {
        let all = [("host", "127.0.0.1:1")].iter().chain(fields);
        let headers =
            all.map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap())).collect();
        rules.client(&headers).map(|client| client.name).map_err(|error| error.status.as_u16())
    }

    #[test]
    fn a_key_is_known_by_its_hash_wherever_an_sdk_sends_it() {
        let keys = format!("{{desk: {{sha256: {}}}, shop: {{sha256: {}}}}}", hash("sesame"), hash("open"));
        let rules = rules("127.0.0.1:80", &keys).unwrap();
        assert_eq!(client(&rules, &[("authorization", "Bearer sesame")]), Ok("desk".into()));
        assert_eq!(client(&rules, &[("x-api-key", "open")]), Ok("shop".into()));
        assert_eq!(client(&rules, &[("api-key", "open")]), Ok("shop".into()));
        // Some SDKs send a placeholder beside the real key.
        assert_eq!(
            client(&rules, &[("authorization", "Bearer none"), ("x-api-key", "open")]),
            Ok("shop".into())
        );
        for value in ["Bearer Sesame", "Bearer ", "Basic sesame", "sesame", ""] {
            assert_eq!(client(&rules, &[("authorization", value)]), Err(401), "{value}");
        }
        let hashed = format!("Bearer {}", hash("sesame"));
        assert_eq!(client(&rules, &[("authorization", &hashed)]), Err(401), "a hash is no key");
        let foreign = [("authorization", "Bearer sesame"), ("origin", "https://evil.example")];
        assert_eq!(client(&rules, &foreign), Err(403));
    }

    #[test]
    fn a_key_may_use_every_route_that_one_of_its_patterns_matches() {
        let client = |routes: &str| {
            let keys = format!("{{desk: {{sha256: {}, routes: {routes}}}}}", hash("a"));
            rules("127.0.0.1:80", &keys).unwrap().known(["a"].into_iter()).unwrap()
        };
        let wide = client("['gpt-*', cheap]");
        for route in ["gpt-*", "gpt-5", "gpt-5*", "cheap"] {
            assert!(wide.may(route), "{route}");
        }
        for route in ["gpt", "*", "cheap-2", "claude-*"] {
            assert!(!wide.may(route), "{route}");
        }
        assert!(!client("gpt-5").may("gpt-*"), "a name is no pattern");
        assert!(!client("[]").may("gpt-5"));
    }

    #[test]
    fn beyond_this_machine_it_takes_keys() {
        assert!(rules("0.0.0.0:80", "{}").is_none());
        assert!(rules("127.0.0.1:80", "{}").is_some());
        let keys =
            format!("{{desk: {{sha256: {}}}, ops: {{sha256: {}, admin: true}}}}", hash("a"), hash("b"));
        let rules = rules("0.0.0.0:80", &keys).unwrap();
        let status = |key: &str| {
            let headers = [("authorization".parse().unwrap(), format!("Bearer {key}").parse().unwrap())];
            rules.metrics(&headers.into_iter().collect()).err().map(|error| error.status.as_u16())
        };
        assert_eq!((status("a"), status("b"), status("c")), (Some(403), None, Some(401)));
    }

    #[test]
    fn on_this_machine_it_shows_itself_unless_the_file_says_to_whom() {
        let [desk, ops] =
            [("desk", "a"), ("ops", "b")].map(|(name, key)| format!("{name}: {{sha256: {}", hash(key)));
        let shows = |keys: &str, fields: &[(&'static str, &str)]| {
            let rules = rules("127.0.0.1:80", keys).unwrap();
            let all = [("host", "127.0.0.1")].iter().chain(fields);
            let headers: HeaderMap =
                all.map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap())).collect();
            let [status, metrics] = [rules.status(&headers), rules.metrics(&headers)]
                .map(|refused| refused.err().map(|error| error.status.as_u16()));
            assert_eq!(status, metrics);
            status
        };
        let proxied = ("x-forwarded-for", "10.0.0.7");
        assert_eq!(
            (shows("{}", &[]), shows("{}", &[proxied])),
            (None, None),
            "nothing is held back from anybody"
        );
        let none = format!("{{{desk}}}}}");
        assert_eq!((shows(&none, &[]), shows(&none, &[proxied])), (None, Some(401)));
        assert_eq!(shows(&none, &[proxied, ("x-api-key", "a")]), Some(403));
        let both = format!("{{{desk}}}, {ops}, admin: true}}}}");
        let status = |key| shows(&both, &[("x-api-key", key)]);
        assert_eq!((shows(&both, &[]), status("a"), status("b")), (Some(401), Some(403), None));
    }
}
