//! From the contents of a request to messages. Calls need no id there: a result is then one of the oldest call of its name.

use serde_json::{Map, Value};

use super::{object, objects};
use crate::host::model::front::fields::{Fields, Unconvertible};
use crate::host::model::front::media;
use crate::host::model::front::request::FrontRequest;
use crate::host::model::wire::gemini::STAND_IN;
use crate::session::Message;

/// Contents that are being read.
pub(super) struct ReadContents<'r> {
    request: &'r mut FrontRequest,
    /// The calls of the last turn that have no result, with their ids and names.
    open: Vec<(String, String)>,
    /// How many calls there were.
    calls: usize,
}

impl<'r> ReadContents<'r> {
    pub(super) const fn new(request: &'r mut FrontRequest) -> Self {
        Self { request, open: Vec::new(), calls: 0 }
    }

    /// Reads the next one.
    pub(super) fn read(&mut self, mut content: Fields) -> Result<(), Unconvertible> {
        let role = content.text("role")?;
        let parts = objects(&mut content, "parts")?;
        match role.as_deref() {
            Some("model") => self.model(parts)?,
            None | Some("user" | "function" | "tool") => self.user(parts)?,
            Some(_) => return Err(Unconvertible::new(content.path("role"))),
        }
        content.leave_out(&mut self.request.left_out);
        Ok(())
    }

    fn model(&mut self, parts: Vec<Fields>) -> Result<(), Unconvertible> {
        if !matches!(self.request.messages.last(), Some(Message::Assistant { .. })) {
            self.open.clear();
        }
        let (mut said, mut calls) = (String::new(), Vec::new());
        for mut part in parts {
            if self.is_aside(&mut part) {
                continue;
            }
            match (part.text("text")?, object(&mut part, "functionCall")?) {
                (Some(text), None) => said.push_str(&text),
                (None, Some(call)) => calls.push(call),
                _ => return Err(part.unconvertible()),
            }
            part.leave_out(&mut self.request.left_out);
        }
        self.request.continued(&said, None);
        calls.into_iter().try_for_each(|call| self.call(call))
    }

    /// The results of tools come first, as other dialects want them right behind the calls.
    fn user(&mut self, parts: Vec<Fields>) -> Result<(), Unconvertible> {
        let mut said = Vec::new();
        for mut part in parts {
            if self.is_aside(&mut part) {
                continue;
            }
            match (part.text("text")?, object(&mut part, "functionResponse")?, self.attached(&mut part)?) {
                (Some(text), None, None) => said.push(text),
                (None, Some(result), None) => self.result(result)?,
                (None, None, Some(mark)) => said.push(mark),
                _ => return Err(part.unconvertible()),
            }
            part.leave_out(&mut self.request.left_out);
        }
        self.request.user(&said);
        Ok(())
    }

    /// The mark of an image or a document.
    fn attached(&mut self, part: &mut Fields) -> Result<Option<String>, Unconvertible> {
        let attachment = match (object(part, "inlineData")?, object(part, "fileData")?) {
            (Some(mut data), None) => media::gemini_data(&mut data)?,
            (None, Some(mut file)) => media::gemini_file(&mut file)?,
            (Some(_), Some(_)) => return Err(Unconvertible::new(part.path("fileData"))),
            (None, None) => return Ok(None),
        };
        Ok(Some(self.request.attachments.mark(attachment)))
    }

    /// Whether a part is a thought, which is signed by who issued it, who alone can read it.
    fn is_aside(&mut self, part: &mut Fields) -> bool {
        let is_thought = part.take("thought") == Some(Value::Bool(true));
        let signature = part.take("thoughtSignature");
        if is_thought {
            self.request.left_out.add("contents.parts.thought");
        }
        // One that stands in for none came with a converted reply.
        if signature.as_ref().is_some_and(|signature| signature != STAND_IN) {
            self.request.left_out.add("contents.parts.thoughtSignature");
        }
        is_thought || (signature.is_some() && part.is_empty())
    }

    fn call(&mut self, mut call: Fields) -> Result<(), Unconvertible> {
        self.calls = self.calls.saturating_add(1);
        let name = call.required("name")?;
        let id = call.text("id")?.filter(|id| !id.is_empty());
        let id = id.unwrap_or_else(|| format!("call_{}", self.calls));
        let arguments = call.take("args").unwrap_or_else(|| Map::new().into()).to_string();
        self.open.push((id.clone(), name.clone()));
        let made = self.request.call(id, name, arguments);
        self.request.continued("", Some(made));
        call.leave_out(&mut self.request.left_out);
        Ok(())
    }

    fn result(&mut self, mut result: Fields) -> Result<(), Unconvertible> {
        let mut attached = Vec::new();
        for mut part in objects(&mut result, "parts")? {
            attached.push(self.attached(&mut part)?.ok_or_else(|| part.unconvertible())?);
            part.leave_out(&mut self.request.left_out);
        }
        let name = result.required("name")?;
        let id = result.text("id")?.filter(|id| !id.is_empty());
        let answers =
            |(call, called): &(String, String)| id.as_ref().map_or(*called == name, |id| call == id);
        let call = self.open.iter().position(answers).map(|at| self.open.remove(at).0);
        // One that answers none is taken out where the policy says so.
        let call = call.or(id).unwrap_or_else(|| format!("call_of_{name}"));
        let (text, error) = outcome(&result.take("response").unwrap_or_default());
        let texts: Vec<String> = [text].into_iter().chain(attached).collect();
        self.request.result(call, &texts, error);
        result.leave_out(&mut self.request.left_out);
        Ok(())
    }
}

/// What a result says, and whether it is an error: by the keys that the API and its SDKs use (`FunctionResponse` in `types.py`
/// and `_extra_utils.py` of google-genai).
fn outcome(response: &Value) -> (String, bool) {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let only =
        response.as_object().filter(|fields| fields.len() == 1).and_then(|fields| fields.iter().next());
    match only {
        Some((key, value)) if matches!(&**key, "output" | "result") => (text(value), false),
        Some((key, value)) if key == "error" => (text(value), true),
        _ => (text(response), false),
    }
}
