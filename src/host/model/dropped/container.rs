//! Containers of Anthropic's that are gone: code that a model had run is in one, and it expires.

use std::sync::{Mutex, PoisonError};

use serde_json::{Map, Value};

use crate::engine::Failure;
use crate::host::model::wire::RefusalWords;

/// The field of a request that names one.
const CONTAINER: &str = "container";
/// So many are remembered that a server no longer has.
const MOST: usize = 64;

/// The containers that a server no longer has.
#[derive(Debug, Default)]
pub(super) struct LostContainers(Mutex<Vec<String>>);

impl LostContainers {
    pub(super) fn any(&self) -> bool {
        !self.ids().is_empty()
    }

    /// Leaves out of a body the container that it names, if it is one of them: code then begins in a new one.
    // "A container that has expired can't be reused. Send the request again without the `container` parameter" (Anthropic, "Code
    // execution tool").
    pub(super) fn leave_out_of(&self, fields: &mut Map<String, Value>) {
        if !named(fields).is_some_and(|id| self.ids().iter().any(|lost| lost == id)) {
            return;
        }
        match fields.get_mut(CONTAINER) {
            // The skills that are to be in it stay.
            Some(Value::Object(asked)) if asked.len() > 1 => drop(asked.shift_remove("id")),
            _ => drop(fields.shift_remove(CONTAINER)),
        }
    }

    /// What a refusal teaches of the container that the body names, in words; `None`: nothing new.
    pub(super) fn learn(&self, model: &str, sent: &[u8], refusal: &Failure) -> Option<String> {
        let words = RefusalWords::of(refusal);
        let is_gone = words.says(&["expired", "not found", "no longer", "does not exist", "not available"]);
        if !matches!(refusal.status, Some(400 | 404 | 410 | 422)) || !words.says(&[CONTAINER]) || !is_gone {
            return None;
        }
        let Ok(Value::Object(fields)) = serde_json::from_slice(sent) else { return None };
        let id = named(&fields)?;
        let mut ids = self.ids();
        if ids.iter().any(|lost| lost == id) {
            return None;
        }
        ids.insert(0, id.to_owned());
        ids.truncate(MOST);
        Some(format!("`{model}` no longer has the container `{id}`: code is run in a new one"))
    }

    fn ids(&self) -> std::sync::MutexGuard<'_, Vec<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The id of the container that a body names, alone or beside skills.
fn named(fields: &Map<String, Value>) -> Option<&str> {
    let container = fields.get(CONTAINER)?;
    container.as_str().or_else(|| container.get("id")?.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn refusal(status: u16, message: &str) -> Failure {
        Failure { status: Some(status), message: message.into(), ..Failure::default() }
    }

    #[test]
    fn a_container_that_is_gone_is_not_named_again_and_another_one_is() {
        let skills = json!([{"type": "anthropic", "skill_id": "pptx"}]);
        for (container, left) in [
            (json!("container_1"), json!({"model": "m"})),
            (json!({"id": "container_1"}), json!({"model": "m"})),
            (
                json!({"id": "container_1", "skills": skills}),
                json!({"model": "m", "container": {"skills": skills}}),
            ),
        ] {
            let lost = LostContainers::default();
            let sent = json!({"model": "m", "container": container});
            let body = sent.to_string().into_bytes();
            assert_eq!(lost.learn("m", &body, &refusal(400, "max_tokens: not found")), None);
            let pending = "container_id is required when there are pending tool uses";
            assert_eq!(lost.learn("m", &body, &refusal(400, pending)), None);
            let gone = refusal(404, "The container has expired.");
            assert!(lost.learn("m", &body, &gone).unwrap().contains("`container_1`"));
            assert_eq!(lost.learn("m", &body, &gone), None, "nothing new");
            let without = |mut body: Value| {
                lost.leave_out_of(body.as_object_mut().unwrap());
                body
            };
            assert_eq!(without(sent), left);
            let other = json!({"container": "container_2"});
            assert_eq!(without(other.clone()), other);
        }
    }
}
