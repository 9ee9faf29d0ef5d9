//! Results that were cut: all of each, for a client that reads it as a resource.

use std::collections::VecDeque;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::message::PROTOCOL_META;

/// What the addresses of the results begin with.
const SCHEME: &str = "unfazed://result/";
/// The most bytes of all of them: the oldest go first.
const MOST_BYTES: usize = 16 << 20;

/// Results, the oldest first.
#[derive(Debug, Default)]
pub(super) struct KeptResults {
    last: u64,
    bytes: usize,
    results: VecDeque<(u64, String)>,
}

#[derive(Deserialize)]
struct ReadParams {
    uri: String,
    #[serde(default, rename = "_meta")]
    meta: Map<String, Value>,
}

impl KeptResults {
    /// Keeps a result, and gives its address.
    pub(super) fn keep(&mut self, text: String) -> String {
        self.last = self.last.saturating_add(1);
        self.bytes = self.bytes.saturating_add(text.len());
        self.results.push_back((self.last, text));
        while self.bytes > MOST_BYTES && self.results.len() > 1 {
            let gone = self.results.pop_front().map_or(0, |(_, text)| text.len());
            self.bytes = self.bytes.saturating_sub(gone);
        }
        format!("{SCHEME}{}", self.last)
    }

    /// What a request to read a resource is answered with: the result as JSON, or why it is not there. `None`: the resource
    /// is the server's.
    pub(super) fn read(&self, params: Option<&RawValue>) -> Option<Result<String, String>> {
        let ReadParams { uri, meta } = serde_json::from_str(params?.get()).ok()?;
        let number = uri.strip_prefix(SCHEME)?;
        let kept = number.parse().ok().and_then(|number: u64| {
            self.results.iter().find(|(known, _)| *known == number).map(|(_, text)| text)
        });
        let Some(text) = kept else {
            return Some(Err(format!(
                "no result is kept under {uri}: the latest ones are, up to 16 MiB of them"
            )));
        };
        let kind =
            if serde_json::from_str::<&RawValue>(text).is_ok() { "application/json" } else { "text/plain" };
        let contents = json!([{ "uri": uri, "mimeType": kind, "text": text }]);
        let mut result = json!({ "contents": contents });
        if meta.keys().any(|key| key.starts_with(PROTOCOL_META)) {
            result["resultType"] = "complete".into();
        }
        Some(Ok(result.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(kept: &KeptResults, uri: &str) -> Option<Result<Value, String>> {
        let params = RawValue::from_string(json!({ "uri": uri }).to_string()).unwrap();
        let read = kept.read(Some(&params))?;
        Some(read.map(|result| serde_json::from_str::<Value>(&result).unwrap()["contents"][0].clone()))
    }

    #[test]
    fn a_result_is_read_under_its_address_and_others_are_the_servers() {
        let mut kept = KeptResults::default();
        let (one, two) = (kept.keep("plain".into()), kept.keep("[1, 2]".into()));
        assert_eq!(
            read(&kept, &one),
            Some(Ok(json!({"uri": one, "mimeType": "text/plain", "text": "plain"})))
        );
        assert_eq!(read(&kept, &two).unwrap().unwrap()["mimeType"], "application/json");
        assert_eq!(read(&kept, "file:///etc/hosts"), None);
        assert!(read(&kept, "unfazed://result/9").unwrap().unwrap_err().contains("no result is kept"));
    }

    #[test]
    fn the_oldest_goes_when_there_is_no_room() {
        let mut kept = KeptResults::default();
        let first = kept.keep("x".repeat(MOST_BYTES));
        assert!(read(&kept, &first).unwrap().is_ok(), "one is kept, however large");
        let second = kept.keep("y".into());
        assert!(read(&kept, &first).unwrap().is_err() && read(&kept, &second).unwrap().is_ok());
    }
}
