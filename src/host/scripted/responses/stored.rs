//! Responses that the server keeps, for requests that continue one.

use std::collections::VecDeque;

use serde_json::{Value, json};

use crate::host::scripted::script::ErrorReply;

/// So many are kept, the latest.
const MOST: usize = 100;

/// The responses that a server keeps, each with the whole conversation up to its end.
#[derive(Debug, Default)]
pub(in crate::host::scripted) struct StoredResponses(VecDeque<(String, Vec<Value>)>);

impl StoredResponses {
    /// The request with the whole conversation, as one that continues nothing has it.
    ///
    /// # Errors
    /// The response that it continues is not there.
    pub(in crate::host::scripted) fn whole(&self, mut body: Value) -> Result<Value, Box<ErrorReply>> {
        let Some(id) = body["previous_response_id"].as_str() else { return Ok(body) };
        let Some((_, before)) = self.0.iter().find(|(known, _)| known == id) else {
            // The words and the code of the API (openai/openai-python#2213).
            let message = format!("Previous response with id '{id}' not found.");
            let code = Some("previous_response_not_found".to_owned());
            return Err(Box::new(ErrorReply { code, ..*ErrorReply::invalid_request(message) }));
        };
        let input = [before.clone(), items(&body["input"])].concat();
        body["input"] = input.into();
        Ok(body)
    }

    /// Keeps a response to that request, which has the whole conversation, unless it says otherwise.
    pub(in crate::host::scripted) fn keep(&mut self, body: &Value, response: &Value) {
        let (Some(id), true) = (response["id"].as_str(), body["store"] != false) else { return };
        let conversation = [items(&body["input"]), items(&response["output"])].concat();
        self.0.push_front((id.to_owned(), conversation));
        self.0.truncate(MOST);
    }
}

fn items(list: &Value) -> Vec<Value> {
    match list {
        Value::Array(items) => items.clone(),
        Value::String(text) => vec![json!({"type": "message", "role": "user", "content": text})],
        _ => Vec::new(),
    }
}
