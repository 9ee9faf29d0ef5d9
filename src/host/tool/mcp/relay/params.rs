//! The parameters of a call as a client sent them, and what the client can do.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;

use indexmap::IndexMap;
use serde::de::{Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value};

use super::message::PROTOCOL_META;
use crate::host::surrogates::without_halves;
#[cfg(feature = "otlp")]
use crate::host::telemetry::otel;

/// Where a request says what its client can do, if there was no handshake.
const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
/// Where a server finds what is the same for every attempt of a call, and for no other call.
const IDEMPOTENCY_KEY: &str = "unfazed/idempotencyKey";

/// The parameters of a call as the client sent them.
pub(super) struct CallParams {
    name: String,
    fields: IndexMap<String, Box<RawValue>>,
    meta: IndexMap<String, Box<RawValue>>,
}

/// JSON in which no object has a key twice: of two, the policy would see one, and a server might take the other.
struct UniqueKeys;

impl<'de> Deserialize<'de> for UniqueKeys {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Self)
    }
}

impl<'de> Visitor<'de> for UniqueKeys {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_str<E>(self, _: &str) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_unit<E>(self) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self, A::Error> {
        while items.next_element::<Self>()?.is_some() {}
        Ok(self)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self, A::Error> {
        let mut seen = HashSet::new();
        while let Some(key) = map.next_key::<String>()? {
            map.next_value::<Self>()?;
            if let Some(twice) = seen.replace(key) {
                return Err(A::Error::custom(format!("an object has the key `{twice}` twice")));
            }
        }
        Ok(self)
    }
}

/// What a client can do.
#[derive(Deserialize)]
pub(super) struct ClientCapabilities {
    #[serde(default)]
    elicitation: Option<ElicitationModes>,
}

impl ClientCapabilities {
    /// Whether a person can be asked by a form.
    pub(super) fn can_elicit(&self) -> bool {
        self.elicitation.as_ref().is_some_and(|modes| modes.form.is_some() || modes.url.is_none())
    }
}

/// How it can ask a person. Without a mode it is by forms (the specification of 2025-11-25).
#[derive(Deserialize)]
struct ElicitationModes {
    #[serde(default)]
    form: Option<IgnoredAny>,
    #[serde(default)]
    url: Option<IgnoredAny>,
}

impl CallParams {
    /// What a further round of a call has beside its first (the protocol's version 2026-07-28).
    pub(super) const ROUND_FIELDS: [&str; 2] = ["requestState", "inputResponses"];

    /// Reads the parameters, or says what is wrong with them.
    pub(super) fn read(params: Option<&RawValue>) -> Result<Self, String> {
        let fields: IndexMap<String, Box<RawValue>> = match params {
            Some(params) => {
                serde_json::from_str(params.get()).map_err(|_| "`params` is not an object".to_owned())?
            }
            None => IndexMap::new(),
        };
        let names = ["name", "arguments", "_meta"];
        if let Some(key) = fields
            .keys()
            .find(|key| names.iter().any(|name| key.eq_ignore_ascii_case(name) && key.as_str() != *name))
        {
            return Err(format!("`{key}` differs in its case alone from a field that has a meaning"));
        }
        if let Some(arguments) = fields.get("arguments")
            && let Err(error) = serde_json::from_str::<UniqueKeys>(&without_halves(arguments.get()))
        {
            return Err(format!("`arguments` cannot be used: {error}"));
        }
        let name = fields.get("name").and_then(|name| serde_json::from_str(name.get()).ok());
        let name = name.ok_or_else(|| "`params` has no `name` of a tool".to_owned())?;
        let meta = match fields.get("_meta") {
            Some(meta) => {
                serde_json::from_str(meta.get()).map_err(|_| "`_meta` is not an object".to_owned())?
            }
            None => IndexMap::new(),
        };
        Ok(Self { name, fields, meta })
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The arguments; null if they are no JSON.
    pub(super) fn parsed_arguments(&self) -> Value {
        serde_json::from_str(&self.arguments()).unwrap_or_default()
    }

    /// A field, if it is there and can be read.
    pub(super) fn field<T: for<'de> Deserialize<'de>>(&self, name: &str) -> Option<T> {
        serde_json::from_str(self.fields.get(name)?.get()).ok()
    }

    /// Puts these fields in the place of those of the round.
    pub(super) fn carry(&mut self, fields: Vec<(&'static str, Box<RawValue>)>) {
        for name in Self::ROUND_FIELDS {
            self.fields.shift_remove(name);
        }
        self.fields.extend(fields.into_iter().map(|(name, value)| (name.to_owned(), value)));
    }

    /// Whether the client says in this request that it can ask a person by a form.
    pub(super) fn can_elicit(&self) -> bool {
        let capabilities = self.meta.get(CAPABILITIES);
        let read = capabilities.and_then(|read| serde_json::from_str::<ClientCapabilities>(read.get()).ok());
        read.is_some_and(|capabilities| capabilities.can_elicit())
    }

    /// By which the client wants to know how far the call is, as JSON.
    pub(super) fn progress_token(&self) -> Option<&str> {
        self.meta.get("progressToken").map(|token| token.get())
    }

    /// A text of its `_meta`.
    #[cfg(feature = "otlp")]
    pub(super) fn meta_text(&self, field: &str) -> Option<String> {
        serde_json::from_str(self.meta.get(field)?.get()).ok()
    }

    /// What each request of the client has in its `_meta`, if there is no handshake.
    pub(super) fn protocol_meta(&self) -> Map<String, Value> {
        let fields = self.meta.iter().filter(|(key, _)| key.starts_with(PROTOCOL_META));
        fields
            .filter_map(|(key, value)| Some((key.clone(), serde_json::from_str(value.get()).ok()?)))
            .collect()
    }

    /// Whether a result says that it is one, as it must since the protocol's version 2026-07-28.
    pub(super) fn is_complete(&self) -> bool {
        self.meta.keys().any(|key| key.starts_with(PROTOCOL_META))
    }

    /// The arguments as the policy reads them: `null` is as if they were left out, and texts can be decoded.
    pub(super) fn arguments(&self) -> Cow<'_, str> {
        let written = self.fields.get("arguments").map(|arguments| arguments.get());
        written.filter(|written| *written != "null").map_or(Cow::Borrowed("{}"), without_halves)
    }

    /// The parameters of one attempt: those of the client, but for what the policy has changed.
    pub(super) fn of_attempt(
        &self,
        remote: &str,
        arguments: &Value,
        key: &str,
    ) -> serde_json::Result<String> {
        let mut fields = self.fields.clone();
        if remote != self.name {
            fields.insert("name".to_owned(), to_raw_value(remote)?);
        }
        if serde_json::from_str::<Value>(&self.arguments()).ok().as_ref() != Some(arguments) {
            let corrected = match self.fields.get("arguments") {
                Some(written) => corrected(written, arguments)?,
                None => to_raw_value(arguments)?,
            };
            fields.insert("arguments".to_owned(), corrected);
        }
        let mut meta = self.meta.clone();
        meta.insert(IDEMPOTENCY_KEY.to_owned(), to_raw_value(key)?);
        #[cfg(feature = "otlp")]
        for (name, value) in otel::carried_fields() {
            meta.insert(name, to_raw_value(&value)?);
        }
        fields.insert("_meta".to_owned(), to_raw_value(&meta)?);
        serde_json::to_string(&fields)
    }
}

/// What was written, with what the policy has changed written anew. The rest stays as it was: a number that no `f64` holds would
/// become another one.
fn corrected(written: &RawValue, wanted: &Value) -> serde_json::Result<Box<RawValue>> {
    if serde_json::from_str::<Value>(&without_halves(written.get())).ok().as_ref() == Some(wanted) {
        return Ok(written.to_owned());
    }
    if let Value::Object(wanted) = wanted
        && let Ok(fields) = serde_json::from_str::<IndexMap<String, &RawValue>>(written.get())
    {
        let fields = wanted.iter().map(|(key, wanted)| {
            let field =
                fields.get(key).map_or_else(|| to_raw_value(wanted), |field| corrected(field, wanted));
            Ok((key, field?))
        });
        return to_raw_value(&fields.collect::<serde_json::Result<IndexMap<_, _>>>()?);
    }
    if let Value::Array(wanted) = wanted
        && let Ok(items) = serde_json::from_str::<Vec<&RawValue>>(written.get())
        && items.len() == wanted.len()
    {
        let items = items.iter().zip(wanted).map(|(item, wanted)| corrected(item, wanted));
        return to_raw_value(&items.collect::<serde_json::Result<Vec<_>>>()?);
    }
    to_raw_value(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn params(text: &str) -> Result<CallParams, String> {
        CallParams::read(Some(&RawValue::from_string(text.to_owned()).unwrap()))
    }

    #[test]
    fn what_the_client_wrote_reaches_the_server_as_it_was_written() {
        let written =
            r#"{"name":"t","arguments":{"n": 1.50,"big":123456789012345678901234567890},"task":{"ttl":1}}"#;
        let params = params(written).unwrap();
        let sent = params.of_attempt("t", &params.parsed_arguments(), "run-1-0").unwrap();
        let begin = written.strip_suffix('}').unwrap();
        assert_eq!(sent, format!(r#"{begin},"_meta":{{"unfazed/idempotencyKey":"run-1-0"}}}}"#));
        let sent = params.of_attempt("u", &json!({"n": 2}), "run-1-0").unwrap();
        let sent: Value = serde_json::from_str(&sent).unwrap();
        assert_eq!(
            (&sent["name"], &sent["arguments"], &sent["task"]["ttl"]),
            (&json!("u"), &json!({"n": 2}), &json!(1))
        );
    }

    #[test]
    fn what_the_policy_has_not_changed_stays_as_it_was_written() {
        let written = r#"{"name":"t","arguments":{"n":"12","big":12345678901234567890123,"list":[{"x":1.50,"y":"2"},1e2]}}"#;
        let params = params(written).unwrap();
        let mut arguments = params.parsed_arguments();
        (arguments["n"], arguments["list"][0]["y"], arguments["new"]) = (json!(12), json!(2), json!(true));
        let sent = params.of_attempt("t", &arguments, "k").unwrap();
        let sent: IndexMap<String, Box<RawValue>> = serde_json::from_str(&sent).unwrap();
        let sent: IndexMap<String, &RawValue> = serde_json::from_str(sent["arguments"].get()).unwrap();
        assert_eq!(
            ["n", "big", "list", "new"].map(|key| sent[key].get()),
            ["12", "12345678901234567890123", r#"[{"x":1.50,"y":2},1e2]"#, "true"]
        );
    }

    #[test]
    fn the_meta_of_the_client_stays_and_what_the_protocol_needs_is_known() {
        let params =
            params(r#"{"name":"t","_meta":{"progressToken":"a","io.modelcontextprotocol/x":{"y":1}}}"#)
                .unwrap();
        assert_eq!(params.progress_token(), Some("\"a\""));
        assert_eq!(Value::Object(params.protocol_meta()), json!({"io.modelcontextprotocol/x": {"y": 1}}));
        let sent = params.of_attempt("t", &json!({}), "run-1-0").unwrap();
        assert!(
            sent.contains(r#""_meta":{"progressToken":"a","io.modelcontextprotocol/x":{"y":1},"unfazed/"#),
            "{sent}"
        );
        assert!(!sent.contains("arguments"), "{sent}");
    }

    #[test]
    fn arguments_that_no_text_can_have_are_the_servers_business() {
        let written = r#"{"name":"t","arguments":{"a":"\\ud800"}}"#.replace("\\\\", "\\");
        let half = params(&written).unwrap();
        assert_eq!(half.parsed_arguments(), json!({"a": "\u{fffd}"}));
        assert!(half.of_attempt("t", &half.parsed_arguments(), "k").unwrap().contains(r"\ud800"));
        let null = params(r#"{"name":"t","arguments":null}"#).unwrap();
        assert_eq!(null.parsed_arguments(), json!({}));
        assert!(null.of_attempt("t", &json!({}), "k").unwrap().contains("\"arguments\":null"));
    }

    #[test]
    fn a_call_without_a_name_is_none() {
        assert_eq!(params("[]").err().as_deref(), Some("`params` is not an object"));
        assert_eq!(params(r#"{"name":7}"#).err().as_deref(), Some("`params` has no `name` of a tool"));
        assert_eq!(params(r#"{"name":"t","_meta":7}"#).err().as_deref(), Some("`_meta` is not an object"));
        assert!(CallParams::read(None).is_err());
        let twice = params(r#"{"name":"t","arguments":{"a":[{"b":1,"b":2}]}}"#).err().unwrap();
        assert!(twice.contains("an object has the key `b` twice"), "{twice}");
        assert!(params(r#"{"name":"t","Name":"u"}"#).err().unwrap().contains("differs in its case alone"));
        assert!(
            params(r#"{"name":"t","arguments":{"a":[{"b":1},{"b":null}],"c":true,"d":-1,"e":1.5}}"#).is_ok()
        );
    }
}
