//! Reading a token, and when it expires, as the tools of clouds print both.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use secrecy::SecretString;
use serde_json::{Map, Value};

/// Where the token is: `gcloud config config-helper` has it under `credential`, `ExecCredential` of Kubernetes under `status`.
const WITHIN: [&str; 2] = ["credential", "status"];
/// What it is called: by OAuth (RFC 6749, 5.1), by `az account get-access-token`, by Kubernetes and `azd`, by `OpenID` Connect.
const TOKENS: [&str; 5] = ["access_token", "accessToken", "token", "id_token", "idToken"];
/// What the time is called at which it expires. `expiresOn` of `az` is a local time and is no RFC 3339; `expires_on` takes precedence.
const ENDS: [&str; 11] = [
    "expires_on",
    "expirationTimestamp",
    "token_expiry",
    "expiration_time",
    "expiration",
    "expiry",
    "expires_at",
    "expiresAt",
    "expireTime",
    "expire_time",
    "expiresOn",
];
/// What the seconds are called until then (RFC 6749, 5.1).
const LIVES: [&str; 2] = ["expires_in", "expiresIn"];
/// From here on a number counts milliseconds: as seconds it is a date beyond the year 5000.
const MILLIS: u64 = 100_000_000_000;

/// The token that a text holds, and when it expires, if that is known.
///
/// # Errors
/// The text holds no token: what it holds instead, without a word of it.
pub(super) fn read(text: &str) -> Result<(SecretString, Option<SystemTime>), &'static str> {
    let text = text.trim();
    if text.is_empty() {
        return Err("printed nothing");
    }
    let value = match text.chars().next() {
        Some('{' | '"') => serde_json::from_str(text).map_err(|_| "printed JSON that is broken")?,
        _ => Value::String(text.to_owned()),
    };
    match value {
        Value::String(token) if is_header(&token) => {
            Err("printed `Bearer` before the token; leave it out, it is added where it belongs")
        }
        Value::String(token) if token.chars().any(char::is_whitespace) => {
            Err("printed several words; it should print a token alone, or JSON with one")
        }
        Value::String(token) => {
            let ends = of_jwt(&token);
            Ok((token.into(), ends))
        }
        Value::Object(fields) => of_object(&fields)
            .ok_or("printed JSON without a token (access_token, accessToken, token, id_token, status.token)"),
        _ => Err("printed JSON that is no object"),
    }
}

/// Whether the token stands there as a header has it (RFC 6750, 2.1).
fn is_header(text: &str) -> bool {
    let mut words = text.split_whitespace();
    let (first, token, more) = (words.next(), words.next(), words.next());
    first.is_some_and(|word| word.eq_ignore_ascii_case("bearer")) && token.is_some() && more.is_none()
}

fn of_object(fields: &Map<String, Value>) -> Option<(SecretString, Option<SystemTime>)> {
    let within = WITHIN.iter().filter_map(|name| fields.get(*name)?.as_object());
    [fields].into_iter().chain(within).find_map(|fields| {
        let text = |name: &&str| fields.get(*name)?.as_str().filter(|token| !token.trim().is_empty());
        let token = TOKENS.iter().find_map(text)?;
        let end = ENDS.iter().find_map(|name| time(fields.get(*name)?));
        let life = || {
            let seconds = LIVES.iter().find_map(|name| number(fields.get(*name)?))?;
            SystemTime::now().checked_add(Duration::from_secs(seconds))
        };
        Some((token.into(), end.or_else(life).or_else(|| of_jwt(token))))
    })
}

/// A time as seconds or milliseconds since 1970, or as RFC 3339.
fn time(value: &Value) -> Option<SystemTime> {
    match number(value) {
        Some(millis) if millis >= MILLIS => UNIX_EPOCH.checked_add(Duration::from_millis(millis)),
        Some(seconds) => UNIX_EPOCH.checked_add(Duration::from_secs(seconds)),
        None => humantime::parse_rfc3339(value.as_str()?).ok(),
    }
}

fn number(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| value.as_str()?.parse().ok())
}

/// When a JSON Web Token expires (RFC 7519, 4.1.4).
fn of_jwt(token: &str) -> Option<SystemTime> {
    let mut parts = token.split('.');
    let (_, claims, _, None) = (parts.next()?, parts.next()?, parts.next()?, parts.next()) else {
        return None;
    };
    let claims: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims).ok()?).ok()?;
    let seconds = claims.get("exp")?;
    // A numeric date may have decimals.
    time(seconds).or_else(|| {
        let seconds = Duration::try_from_secs_f64(seconds.as_f64()?).ok()?;
        UNIX_EPOCH.checked_add(seconds)
    })
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret;
    use serde_json::json;

    use super::*;

    /// The token, and its end in seconds.
    fn told(text: &str) -> Result<(String, Option<u64>), &'static str> {
        let seconds = |end: SystemTime| end.duration_since(UNIX_EPOCH).unwrap().as_secs();
        read(text).map(|(token, end)| (token.expose_secret().to_owned(), end.map(seconds)))
    }

    fn jwt(claims: &Value) -> String {
        format!("eyJhbGciOiJub25lIn0.{}.c2ln", URL_SAFE_NO_PAD.encode(claims.to_string()))
    }

    #[test]
    fn the_tools_of_clouds_are_understood() {
        let held = jwt(&json!({"aud": "x", "exp": 1_700_000_000}));
        for (text, token, end) in [
            // gcloud auth print-access-token; the same with --format=json
            ("ya29.a0\n".to_owned(), "ya29.a0", None),
            ("\"ya29.a0\"\n".to_owned(), "ya29.a0", None),
            ("{\"token\": \"ya29.a0\"}".to_owned(), "ya29.a0", None),
            (held.clone(), &*held, Some(1_700_000_000)),
            // gcloud config config-helper --format=json
            (
                json!({"configuration": {}, "credential": {
                    "access_token": "ya29.a0", "id_token": "x", "token_expiry": "2023-11-14T22:13:20Z"
                }})
                .to_string(),
                "ya29.a0",
                Some(1_700_000_000),
            ),
            // az account get-access-token
            (
                json!({"accessToken": "eyJ0", "expiresOn": "2023-11-14 23:13:20.000000",
                       "expires_on": 1_700_000_000, "tokenType": "Bearer"})
                .to_string(),
                "eyJ0",
                Some(1_700_000_000),
            ),
            (
                json!({"accessToken": "eyJ0", "expiresOn": "2023-11-14 23:13:20.000000"}).to_string(),
                "eyJ0",
                None,
            ),
            (json!({"accessToken": held, "expiresOn": "local"}).to_string(), &*held, Some(1_700_000_000)),
            // azd auth token --output json
            (
                json!({"token": "t", "expiresOn": "2023-11-14T22:13:20Z"}).to_string(),
                "t",
                Some(1_700_000_000),
            ),
            // ExecCredential
            (
                json!({"kind": "ExecCredential", "spec": {},
                       "status": {"token": "k8s", "expirationTimestamp": "2023-11-14T22:13:20Z"}})
                .to_string(),
                "k8s",
                Some(1_700_000_000),
            ),
            (json!({"access_token": "a", "expires_on": "1700000000"}).to_string(), "a", Some(1_700_000_000)),
            (
                json!({"accessToken": "a", "expiresAt": 1_700_000_000_000_u64}).to_string(),
                "a",
                Some(1_700_000_000),
            ),
            (
                jwt(&json!({"exp": 1_700_000_000.5})),
                &jwt(&json!({"exp": 1_700_000_000.5})),
                Some(1_700_000_000),
            ),
        ] {
            assert_eq!(told(&text), Ok((token.to_owned(), end)), "{text}");
        }
        let (_, end) = read(r#"{"access_token": "a", "expires_in": 3600}"#).unwrap();
        let left = end.unwrap().duration_since(SystemTime::now()).unwrap();
        assert!(left > Duration::from_secs(3500) && left <= Duration::from_secs(3600), "{left:?}");
    }

    #[test]
    fn what_is_no_token_is_not_shown() {
        for (text, says) in [
            (" \n", "nothing"),
            ("Please log in", "several words"),
            ("Bearer s3cret\n", "leave it out"),
            ("\"bearer  s3cret\"", "leave it out"),
            ("Bearer of s3cret news", "several words"),
            ("{\"access_token\": \"s3cr", "broken"),
            ("{\"code\": \"s3cret\", \"token\": \"\"}", "without a token"),
            ("{\"success\": false, \"status\": 1}", "without a token"),
        ] {
            let error = told(text).unwrap_err();
            assert!(error.contains(says) && !error.contains("s3cr"), "{error}");
        }
        for text in ["a.b.c", "a.e30.c", "eyJ0.eyJleHAiOiJuZXZlciJ9.x", "eyJ0.eyJleHAiOi0xfQ.x"] {
            assert_eq!(told(text), Ok((text.to_owned(), None)));
        }
    }
}
