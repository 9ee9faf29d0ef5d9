//! How far calls are, as their clients see it: a call that is run again does not fall back to its beginning, and a wait is
//! a step.

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::message::{self, RpcMessage};

/// The calls whose clients want to know how far they are, by their tokens, which are JSON.
#[derive(Debug, Default)]
pub(super) struct ProgressTable(HashMap<String, CallProgress>);

/// How far a call is.
#[derive(Clone, Copy, Debug, Default)]
struct CallProgress {
    /// What the attempt in flight began at, or the last wait before it ended with.
    base: f64,
    /// What the client was sent last.
    last: f64,
}

#[derive(Deserialize)]
struct ProgressParams<'a> {
    #[serde(rename = "progressToken", borrow)]
    token: &'a RawValue,
    progress: f64,
}

/// By what a server wants to know how far a request of its own is. Two servers may choose the same: the client sees another one
/// then.
#[derive(Debug)]
pub(super) struct SharedToken {
    own: String,
    shown: String,
}

impl SharedToken {
    /// The token that a server wrote. `number`: that of its request, if the client must see another one.
    pub(super) fn new(own: &RawValue, number: Option<u64>) -> Self {
        let own = own.get().to_owned();
        let shown = number.map_or_else(|| own.clone(), |number| format!("\"unfazed {number}\""));
        Self { own, shown }
    }

    /// As the server wrote it, which is JSON.
    pub(super) fn own(&self) -> &str {
        &self.own
    }

    /// As the client sees it, which is JSON.
    pub(super) fn shown(&self) -> &str {
        &self.shown
    }

    /// The token in the `_meta` of a request.
    pub(super) fn written_in(params: Option<&RawValue>) -> Option<&RawValue> {
        #[derive(Deserialize)]
        struct Params<'a> {
            #[serde(rename = "_meta", borrow)]
            meta: Meta<'a>,
        }
        #[derive(Deserialize)]
        struct Meta<'a> {
            #[serde(rename = "progressToken", borrow)]
            token: &'a RawValue,
        }
        serde_json::from_str(params?.get()).ok().map(|Params { meta: Meta { token } }| token)
    }

    /// The token of a notification that says how far a request is.
    pub(super) fn moved_in(params: Option<&RawValue>) -> Option<&RawValue> {
        serde_json::from_str(params?.get()).ok().map(|TokenParams { token }| token)
    }

    /// The request with another token.
    pub(super) fn renamed(line: &str, shown: &str) -> Option<String> {
        let Ok(RpcMessage::Request { params, .. }) = RpcMessage::parse(line) else { return None };
        Some(message::with_part(line, Self::written_in(params)?, shown))
    }
}

#[derive(Deserialize)]
struct TokenParams<'a> {
    #[serde(rename = "progressToken", borrow)]
    token: &'a RawValue,
}

impl ProgressTable {
    /// A call begins whose client wants to know how far it is.
    pub(super) fn begin(&mut self, token: &str) {
        self.0.insert(token.to_owned(), CallProgress::default());
    }

    /// A call is over.
    pub(super) fn end(&mut self, token: &str) {
        self.0.remove(token);
    }

    /// A further attempt begins: the protocol wants the numbers of one token to grow.
    pub(super) fn again(&mut self, token: &str) {
        if let Some(call) = self.0.get_mut(token) {
            call.base = call.last;
        }
    }

    /// The call waits: the notification of it.
    pub(super) fn waits(&mut self, token: &str, text: &str) -> Option<String> {
        let call = self.0.get_mut(token)?;
        call.last += 1.0;
        call.base = call.last;
        let token: Value = serde_json::from_str(token).ok()?;
        let params = json!({ "progressToken": token, "progress": call.last, "message": text });
        Some(message::notification("notifications/progress", &params))
    }

    /// The server says how far a call is: what the client is sent instead; `None`: the same.
    pub(super) fn moved(&mut self, params: Option<&RawValue>) -> Option<String> {
        let params = params?.get();
        let ProgressParams { token, progress } = serde_json::from_str(params).ok()?;
        let call = self.0.get_mut(token.get())?;
        call.last = call.last.max(call.base + progress);
        if call.base == 0.0 {
            return None;
        }
        let mut params: Map<String, Value> = serde_json::from_str(params).ok()?;
        for name in ["progress", "total"] {
            if let Some(number) = params.get_mut(name)
                && let Some(told) = number.as_f64()
            {
                *number = (told + call.base).into();
            }
        }
        Some(message::notification("notifications/progress", &Value::Object(params)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moved(table: &mut ProgressTable, params: &Value) -> Option<Value> {
        let params = RawValue::from_string(params.to_string()).unwrap();
        let line = table.moved(Some(&params))?;
        Some(serde_json::from_str::<Value>(&line).unwrap()["params"].clone())
    }

    #[test]
    fn the_numbers_of_a_call_grow_over_its_attempts_and_waits() {
        let mut table = ProgressTable::default();
        table.begin("7");
        let told = |progress: f64| json!({"progressToken": 7, "progress": progress, "total": 10.0, "x": 1});
        assert_eq!(moved(&mut table, &told(4.0)), None, "the first attempt is passed on as it is");
        let wait: Value = serde_json::from_str(&table.waits("7", "retry in 2s").unwrap()).unwrap();
        assert_eq!(wait["params"], json!({"progressToken": 7, "progress": 5.0, "message": "retry in 2s"}));
        table.again("7");
        let shown = json!({"progressToken": 7, "progress": 6.0, "total": 15.0, "x": 1});
        assert_eq!(moved(&mut table, &told(1.0)), Some(shown));
        table.end("7");
        assert_eq!(moved(&mut table, &told(2.0)), None, "the call is over");
        assert_eq!(table.waits("7", ""), None);
    }

    #[test]
    fn the_first_attempt_after_a_wait_does_not_fall_back() {
        let mut table = ProgressTable::default();
        table.begin("7");
        table.waits("7", "its turn in 2s").unwrap();
        let told = moved(&mut table, &json!({"progressToken": 7, "progress": 1.0})).unwrap();
        assert_eq!(told["progress"], 2.0);
    }

    #[test]
    fn what_is_no_progress_is_passed_on() {
        let mut table = ProgressTable::default();
        assert_eq!(table.moved(None), None);
        assert_eq!(moved(&mut table, &json!({"progressToken": "a", "progress": "far"})), None);
    }
}
