//! Where telemetry goes, by the environment variables of OpenTelemetry.
//!
//! <https://opentelemetry.io/docs/specs/otel/protocol/exporter/>

use std::time::Duration;

use reqwest::Url;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

/// How long a request may take as long as nobody says otherwise.
const TIMEOUT: Duration = Duration::from_secs(10);
/// How often metrics are exported as long as nobody says otherwise.
const INTERVAL: Duration = Duration::from_secs(60);
const PROTOCOL: &str = "http/protobuf";
const SAMPLER: &str = "OTEL_TRACES_SAMPLER";
const SAMPLED_PART: &str = "OTEL_TRACES_SAMPLER_ARG";

/// What is exported.
#[derive(Debug)]
pub(super) struct OtlpSettings {
    pub(super) traces: Option<SignalSettings>,
    pub(super) metrics: Option<SignalSettings>,
    /// How often metrics are exported.
    pub(super) interval: Duration,
}

/// Where one kind of telemetry goes.
pub(super) struct SignalSettings {
    pub(super) url: Url,
    pub(super) headers: HeaderMap,
    pub(super) timeout: Duration,
    /// The variable that leaves this signal out.
    pub(super) exporter: String,
}

// Headers have keys, and so may an address.
crate::debug_parts!(|this: SignalSettings| host: this.url.host_str());

/// Why the environment does not say where telemetry goes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OtlpError {
    /// Not an address.
    #[error("the environment's {0} is no address; write one such as http://127.0.0.1:4318")]
    Address(String),
    /// Another protocol than the one that is spoken.
    #[error("the environment's {0} names a protocol that is not spoken here; write http/protobuf")]
    Protocol(String),
    /// Another exporter than the one there is.
    #[error("the environment's {0} names an exporter that is not here; write otlp or none")]
    Exporter(String),
    /// Not a list of headers.
    #[error(
        "the environment's {0} is no list of headers; write NAME=VALUE,NAME=VALUE, in which %2C is a comma"
    )]
    Headers(String),
    /// Not a number of milliseconds.
    #[error("the environment's {0} is no number of milliseconds")]
    Milliseconds(String),
    /// Not a sampler of traces.
    #[error(
        "the environment's {0} names a sampler that is not here, so parentbased_always_on holds; write always_on, always_off or traceidratio, alone or behind parentbased_"
    )]
    Sampler(String),
    /// Not a part of all traces.
    #[error("the environment's {0} is no part of all traces; write a number from 0 to 1")]
    SampledPart(String),
    /// There can be no connection.
    #[error("no connection to a collector can be made: {0}")]
    Client(String),
}

impl OtlpSettings {
    /// As the variables say that `env` finds.
    ///
    /// # Errors
    /// One of them cannot be read.
    pub(super) fn read(env: &dyn Fn(&str) -> Option<String>) -> Result<Self, OtlpError> {
        // A variable without a text is one that is not set.
        let env = |name: &str| env(name).map(|text| text.trim().to_owned()).filter(|text| !text.is_empty());
        let interval = milliseconds(&env, "OTEL_METRIC_EXPORT_INTERVAL")?.unwrap_or(INTERVAL);
        let off = env("OTEL_SDK_DISABLED").is_some_and(|disabled| disabled.eq_ignore_ascii_case("true"));
        let (traces, metrics) = if off {
            (None, None)
        } else {
            (SignalSettings::read(&env, "TRACES")?, SignalSettings::read(&env, "METRICS")?)
        };
        Ok(Self { traces, metrics, interval: interval.max(Duration::from_millis(1)) })
    }
}

impl SignalSettings {
    /// `None`: nothing of that kind is exported.
    fn read(env: &impl Fn(&str) -> Option<String>, signal: &str) -> Result<Option<Self>, OtlpError> {
        let exporter = format!("OTEL_{signal}_EXPORTER");
        let wanted = env(&exporter).unwrap_or_else(|| "otlp".to_owned());
        if wanted == "none" {
            return Ok(None);
        }
        // That of the signal takes precedence over that of all.
        let find = |option: &str| {
            let names =
                [format!("OTEL_EXPORTER_OTLP_{signal}_{option}"), format!("OTEL_EXPORTER_OTLP_{option}")];
            names.into_iter().find_map(|name| Some((env(&name)?, name)))
        };
        let Some((endpoint, name)) = find("ENDPOINT") else { return Ok(None) };
        if wanted != "otlp" {
            return Err(OtlpError::Exporter(exporter));
        }
        if let Some((_, name)) = find("PROTOCOL").filter(|(protocol, _)| protocol != PROTOCOL) {
            return Err(OtlpError::Protocol(name));
        }
        let parsed = endpoint.parse::<Url>().ok().filter(|url| matches!(url.scheme(), "http" | "https"));
        let mut url = parsed.ok_or_else(|| OtlpError::Address(name.clone()))?;
        if name == "OTEL_EXPORTER_OTLP_ENDPOINT" {
            let path = format!("{}/v1/{}", url.path().trim_end_matches('/'), signal.to_lowercase());
            url.set_path(&path);
        }
        let headers = match find("HEADERS") {
            Some((list, name)) => headers(&list).ok_or(OtlpError::Headers(name))?,
            None => HeaderMap::new(),
        };
        let own = milliseconds(env, &format!("OTEL_EXPORTER_OTLP_{signal}_TIMEOUT"))?;
        let timeout = own.or(milliseconds(env, "OTEL_EXPORTER_OTLP_TIMEOUT")?).unwrap_or(TIMEOUT);
        Ok(Some(Self { url, headers, timeout, exporter }))
    }
}

/// Checks what the SDK reads by itself, and passes over without a word.
///
/// # Errors
/// It names no sampler, or no part of all traces. The SDK does without.
pub(super) fn check_sampler(env: &dyn Fn(&str) -> Option<String>) -> Result<(), OtlpError> {
    let sampler = env(SAMPLER).unwrap_or_default();
    match sampler.strip_prefix("parentbased_").unwrap_or(&sampler) {
        "traceidratio" => {
            let part = env(SAMPLED_PART).unwrap_or_else(|| "1".to_owned());
            let is_one = part.parse().is_ok_and(|part: f64| (0.0..=1.0).contains(&part));
            is_one.then_some(()).ok_or_else(|| OtlpError::SampledPart(SAMPLED_PART.to_owned()))
        }
        "always_on" | "always_off" => Ok(()),
        _ if sampler.is_empty() => Ok(()),
        _ => Err(OtlpError::Sampler(SAMPLER.to_owned())),
    }
}

fn milliseconds(env: &impl Fn(&str) -> Option<String>, name: &str) -> Result<Option<Duration>, OtlpError> {
    let Some(text) = env(name) else { return Ok(None) };
    text.parse()
        .map(|ms| Some(Duration::from_millis(ms)))
        .map_err(|_| OtlpError::Milliseconds(name.to_owned()))
}

/// The headers of a list, in which values are encoded as in an address.
fn headers(list: &str) -> Option<HeaderMap> {
    let mut headers = HeaderMap::new();
    for pair in list.split(',').map(str::trim).filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=')?;
        let mut value = HeaderValue::from_bytes(&decoded(value.trim())).ok()?;
        value.set_sensitive(true);
        headers.insert(HeaderName::try_from(name.trim()).ok()?, value);
    }
    Some(headers)
}

/// A text with the bytes that it has as `%XX`. What is no such byte stays as it is.
fn decoded(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, behind @ ..] = rest {
        let code = behind.get(..2).filter(|_| *first == b'%');
        let code = code.and_then(|code| u8::from_str_radix(std::str::from_utf8(code).ok()?, 16).ok());
        bytes.push(code.unwrap_or(*first));
        rest = if code.is_some() { behind.get(2..).unwrap_or_default() } else { behind };
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<OtlpSettings, OtlpError> {
        OtlpSettings::read(&|name| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, text)| (*text).to_owned())
        })
    }

    fn urls(variables: &[(&str, &str)]) -> [Option<String>; 2] {
        let settings = read(variables).unwrap();
        [settings.traces, settings.metrics].map(|signal| Some(signal?.url.to_string()))
    }

    const ALL: (&str, &str) = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4318/base/");

    #[test]
    fn nothing_is_exported_where_nobody_says_to() {
        assert_eq!(urls(&[]), [None, None]);
        assert_eq!(urls(&[("OTEL_EXPORTER_OTLP_ENDPOINT", "  ")]), [None, None]);
        assert_eq!(urls(&[ALL, ("OTEL_SDK_DISABLED", "TRUE")]), [None, None]);
        let [traces, metrics] = urls(&[ALL, ("OTEL_TRACES_EXPORTER", "none")]);
        assert_eq!((traces, metrics.as_deref()), (None, Some("http://c:4318/base/v1/metrics")));
        let [traces, metrics] = urls(&[ALL, ("OTEL_METRICS_EXPORTER", "none")]);
        assert_eq!((traces.as_deref(), metrics), (Some("http://c:4318/base/v1/traces"), None));
    }

    #[test]
    fn the_address_of_a_signal_is_taken_as_it_is() {
        let own = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://t/in");
        assert_eq!(urls(&[own]), [Some("https://t/in".into()), None]);
        let [traces, metrics] = urls(&[own, ALL]);
        assert_eq!(traces.as_deref(), Some("https://t/in"));
        assert_eq!(metrics.as_deref(), Some("http://c:4318/base/v1/metrics"));
    }

    #[test]
    fn headers_are_decoded_and_never_shown() {
        let settings = read(&[
            ALL,
            ("OTEL_EXPORTER_OTLP_HEADERS", "api-key=s%2Cecret%3D, x=100%"),
            ("OTEL_EXPORTER_OTLP_METRICS_HEADERS", "authorization=Bearer%20m"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "1500"),
        ]);
        let settings = settings.unwrap();
        let shown = format!("{settings:?}");
        assert!(!shown.contains("secret") && !shown.contains("Bearer"), "{shown}");
        let (traces, metrics) = (settings.traces.unwrap(), settings.metrics.unwrap());
        assert_eq!(
            (&traces.headers["api-key"], &traces.headers["x"]),
            (&"s,ecret=".parse().unwrap(), &"100%".parse().unwrap())
        );
        assert_eq!(metrics.headers["authorization"], "Bearer m");
        assert!(!format!("{:?}", traces.headers).contains("ecret"));
        assert_eq!((metrics.headers.len(), traces.timeout), (1, Duration::from_millis(1500)));
    }

    #[test]
    fn what_cannot_be_read_is_said_by_the_name_of_its_variable() {
        let wrong = |name: &str, text: &str| read(&[ALL, (name, text)]).err().map(|error| error.to_string());
        for (name, text, says) in [
            ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "collector:4317", "no address"),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", "not spoken"),
            ("OTEL_TRACES_EXPORTER", "console", "otlp or none"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "secret", "no list of headers"),
            ("OTEL_METRIC_EXPORT_INTERVAL", "soon", "milliseconds"),
        ] {
            let said = wrong(name, text).unwrap();
            assert!(said.contains(name) && said.contains(says) && !said.contains(text), "{said}");
        }
        assert_eq!(wrong("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf"), None);
    }
    #[test]
    fn a_sampler_that_is_none_is_said() {
        let said = |sampler: &str, part: Option<&str>| {
            let find = |name: &str| match name {
                SAMPLER => Some(sampler.to_owned()),
                _ => part.map(str::to_owned),
            };
            check_sampler(&find).err().map(|error| error.to_string())
        };
        for (sampler, part) in [
            ("", None),
            ("always_on", Some("nonsense")),
            ("parentbased_always_off", None),
            ("traceidratio", None),
            ("parentbased_traceidratio", Some("0.25")),
        ] {
            assert_eq!(said(sampler, part), None, "{sampler}");
        }
        for sampler in ["nonsense", "ALWAYS_ON", "xray", "parentbased_jaeger_remote", "parentbased_"] {
            let said = said(sampler, None).unwrap();
            assert!(said.contains("OTEL_TRACES_SAMPLER names") && said.contains("write always_on"), "{said}");
        }
        for part in ["", "half", "2", "-0.1", "NaN", "50%"] {
            let said = said("traceidratio", Some(part)).unwrap();
            assert!(said.contains("OTEL_TRACES_SAMPLER_ARG is no part") && said.contains("0 to 1"), "{said}");
        }
    }
}
