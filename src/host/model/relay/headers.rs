//! Which headers pass: of a client's those that a provider reads and that say nothing about who may; of a provider's all but
//! those of the connection.

use reqwest::header::{
    CONNECTION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, DATE, HeaderMap, HeaderName, SERVER,
    SET_COOKIE, TE, TRAILER, TRANSFER_ENCODING, UPGRADE, USER_AGENT,
};

/// What passes to a provider. Everything else stays here: keys, cookies, addresses, and what belongs to the connection (RFC 9110,
/// section 7.6.1).
const TO_PROVIDERS: [&str; 8] = [
    "idempotency-key",
    "x-request-id",
    "x-client-request-id",
    "traceparent",
    "tracestate",
    "openai-beta",
    "x-app",
    "x-goog-api-client",
];
/// The beginnings of names that pass, too.
const PREFIXES: [&str; 2] = ["anthropic-", "x-stainless-"];
/// What does not pass to a client.
const KEPT_BACK: [HeaderName; 10] = [
    CONNECTION,
    CONTENT_ENCODING,
    CONTENT_LENGTH,
    DATE,
    SERVER,
    SET_COOKIE,
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
];
/// The same, of names that have no constant.
const KEPT_BACK_TOO: [&str; 4] = ["keep-alive", "proxy-connection", "proxy-authenticate", "alt-svc"];

/// What passes of the headers of a client.
pub(in crate::host) fn passed_on(headers: &HeaderMap) -> HeaderMap {
    let named = named_by_connection(headers);
    let is_for_providers = |name: &HeaderName| {
        let text = name.as_str();
        let known = *name == USER_AGENT || TO_PROVIDERS.contains(&text);
        (known || PREFIXES.iter().any(|prefix| text.starts_with(prefix))) && !named.contains(name)
    };
    let passed = headers.iter().filter(|(name, _)| is_for_providers(name));
    passed.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// What a provider of any dialect reads of the headers of a client: the others say how the client speaks.
pub(super) fn of_any_dialect(headers: &HeaderMap) -> HeaderMap {
    let speaks = |name: &str| {
        PREFIXES.iter().any(|prefix| name.starts_with(prefix))
            || ["openai-beta", "x-app", "x-goog-api-client"].contains(&name)
    };
    let passed = headers.iter().filter(|(name, _)| !speaks(name.as_str()));
    passed.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// What passes of the headers of a provider.
pub(super) fn passed_back(headers: &HeaderMap) -> HeaderMap {
    let named = named_by_connection(headers);
    let stays = |name: &HeaderName| {
        KEPT_BACK.contains(name)
            || KEPT_BACK_TOO.contains(&name.as_str())
            // Nobody but this gateway says what it did.
            || name.as_str().starts_with("x-unfazed-")
            || (*name != CONTENT_TYPE && named.contains(name))
    };
    let mut passed = HeaderMap::new();
    for (name, value) in headers.iter().filter(|(name, _)| !stays(name)) {
        passed.append(name.clone(), value.clone());
    }
    passed
}

/// The headers that `Connection` says belong to it alone.
fn named_by_connection(headers: &HeaderMap) -> Vec<HeaderName> {
    let values = headers.get_all(CONNECTION).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).filter_map(|name| name.trim().parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(fields: &[(&'static str, &'static str)]) -> HeaderMap {
        let fields =
            fields.iter().map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap()));
        fields.collect()
    }

    #[test]
    fn who_a_client_is_never_reaches_a_provider() {
        let client = map(&[
            ("authorization", "Bearer mine"),
            ("x-api-key", "mine"),
            ("api-key", "mine"),
            ("x-goog-api-key", "mine"),
            ("proxy-authorization", "Basic mine"),
            ("cookie", "mine"),
            ("host", "127.0.0.1"),
            ("origin", "http://localhost"),
            ("x-forwarded-for", "10.0.0.7"),
            ("openai-organization", "mine"),
            ("connection", "anthropic-note"),
            ("anthropic-note", "of the connection"),
            ("anthropic-beta", "a,b"),
            ("user-agent", "sdk"),
        ]);
        assert_eq!(passed_on(&client), map(&[("anthropic-beta", "a,b"), ("user-agent", "sdk")]));
    }

    #[test]
    fn what_a_provider_says_passes_but_for_its_connection() {
        let provider = map(&[
            ("content-type", "application/json"),
            ("content-length", "7"),
            ("transfer-encoding", "chunked"),
            ("set-cookie", "theirs"),
            ("x-unfazed-why", "invented"),
            ("connection", "x-hop"),
            ("x-hop", "theirs"),
            ("request-id", "req_1"),
            ("retry-after", "2"),
        ]);
        let passed = [("content-type", "application/json"), ("request-id", "req_1"), ("retry-after", "2")];
        assert_eq!(passed_back(&provider), map(&passed));
    }
}
