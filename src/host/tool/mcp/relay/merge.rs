//! What several servers say, as one server would say it.

use indexmap::IndexMap;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

/// Makes one answer to a handshake, or to the question what a server can do, of those of several servers, each with its name.
/// `None`: there is none. `begins`: it is the answer to a handshake.
pub(super) fn handshake(answers: &[(&str, Map<String, Value>)], begins: bool) -> Option<Value> {
    let (_, first) = answers.first()?;
    let mut merged = first.clone();
    // What the relay does itself: its tools change when a server comes or goes, and results that were cut are resources.
    // Without a handshake the client learns of it by its subscriptions at the servers alone.
    let tools = if begins { json!({ "listChanged": true }) } else { json!({}) };
    let mut capabilities = json!({ "tools": tools, "resources": {} });
    let mut instructions: Vec<String> = Vec::new();
    for (name, answer) in answers {
        if let Some(announced) = answer.get("capabilities") {
            join(&mut capabilities, announced);
        }
        if let Some(text) = answer.get("instructions").and_then(Value::as_str) {
            instructions.push(format!("# {name}\n\n{}", text.trim()));
        }
        // Versions are dates: all servers know what the oldest one says.
        let version = |of: &Map<String, Value>| of.get("protocolVersion")?.as_str().map(str::to_owned);
        if let (Some(version), Some(oldest)) = (version(answer), version(&merged))
            && version < oldest
        {
            merged.insert("protocolVersion".to_owned(), version.into());
        }
        if let (Some(theirs), Some(Value::Array(versions))) =
            (answer.get("supportedVersions").and_then(Value::as_array), merged.get_mut("supportedVersions"))
        {
            versions.retain(|version| theirs.contains(version));
        }
    }
    merged.insert("capabilities".to_owned(), capabilities);
    merged
        .insert("serverInfo".to_owned(), json!({ "name": "unfazed", "version": env!("CARGO_PKG_VERSION") }));
    if instructions.is_empty() {
        merged.shift_remove("instructions");
    } else {
        merged.insert("instructions".to_owned(), instructions.join("\n\n").into());
    }
    Some(Value::Object(merged))
}

/// Adds what is announced: a feature is there if any server has it.
fn join(known: &mut Value, more: &Value) {
    match (known, more) {
        (Value::Object(known), Value::Object(more)) => {
            for (key, value) in more {
                match known.get_mut(key) {
                    Some(known) => join(known, value),
                    None => drop(known.insert(key.clone(), value.clone())),
                }
            }
        }
        (Value::Bool(known), Value::Bool(more)) => *known |= more,
        _ => {}
    }
}

/// A page of a list as it was sent.
pub(super) struct ListPage {
    pub(super) items: Vec<Box<RawValue>>,
    /// Its other fields.
    pub(super) fields: IndexMap<String, Box<RawValue>>,
    /// Where the next page begins.
    pub(super) next: Option<String>,
}

impl ListPage {
    /// Reads the page, whose items are in the field `key`; `None`: it is no page.
    pub(super) fn read(page: &str, key: &str) -> Option<Self> {
        let mut fields: IndexMap<String, Box<RawValue>> = serde_json::from_str(page).ok()?;
        let items = serde_json::from_str(fields.shift_remove(key)?.get()).ok()?;
        let next = fields.shift_remove("nextCursor");
        let next = next.and_then(|next| serde_json::from_str(next.get()).ok());
        Some(Self { items, fields, next })
    }
}

/// The list with these items, in the field `key`, as JSON.
pub(super) fn list(
    mut fields: IndexMap<String, Box<RawValue>>,
    key: &str,
    items: &[Box<RawValue>],
) -> serde_json::Result<String> {
    fields.insert(key.to_owned(), serde_json::value::to_raw_value(items)?);
    serde_json::to_string(&fields)
}

/// A text field of an item; `None`: it has none.
pub(super) fn text_of(item: &RawValue, key: &str) -> Option<String> {
    let fields: IndexMap<String, &RawValue> = serde_json::from_str(item.get()).ok()?;
    serde_json::from_str(fields.get(key)?.get()).ok()
}

/// The item, or the parameters, with another text in a field.
pub(super) fn with_text(item: &RawValue, key: &str, text: &str) -> Option<Box<RawValue>> {
    let mut fields: IndexMap<String, Box<RawValue>> = serde_json::from_str(item.get()).ok()?;
    fields.insert(key.to_owned(), serde_json::value::to_raw_value(text).ok()?);
    serde_json::value::to_raw_value(&fields).ok()
}

/// The parameters of a completion with another name of its prompt.
pub(super) fn with_ref_name(params: &RawValue, name: &str) -> Option<Box<RawValue>> {
    let mut fields: IndexMap<String, Box<RawValue>> = serde_json::from_str(params.get()).ok()?;
    let of = with_text(fields.get("ref")?, "name", name)?;
    fields.insert("ref".to_owned(), of);
    serde_json::value::to_raw_value(&fields).ok()
}

/// Which text of the parameters says whose a completion is.
#[derive(Deserialize)]
pub(super) struct CompletionParams {
    #[serde(rename = "ref")]
    pub(super) of: CompletionRef,
}

/// What is completed.
#[derive(Deserialize)]
pub(super) struct CompletionRef {
    #[serde(default)]
    pub(super) name: Option<String>,
    #[serde(default)]
    pub(super) uri: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(value: Value) -> Map<String, Value> {
        let Value::Object(fields) = value else { panic!() };
        fields
    }

    #[test]
    fn one_handshake_announces_what_any_server_has() {
        let one = answer(json!({
            "protocolVersion": "2025-11-25", "serverInfo": {"name": "one"}, "instructions": " Do this. ", "new": 1,
            "capabilities": {"resources": {"subscribe": false}, "logging": {}},
        }));
        let two = answer(json!({
            "protocolVersion": "2025-06-18", "serverInfo": {"name": "two"}, "instructions": "Do that.",
            "capabilities": {"prompts": {}, "resources": {"subscribe": true}},
        }));
        let merged = handshake(&[("one", one), ("two", two)], true).unwrap();
        assert_eq!(
            merged,
            json!({
                "protocolVersion": "2025-06-18", "new": 1, "instructions": "# one\n\nDo this.\n\n# two\n\nDo that.",
                "serverInfo": {"name": "unfazed", "version": env!("CARGO_PKG_VERSION")},
                "capabilities": {
                    "tools": {"listChanged": true}, "resources": {"subscribe": true}, "logging": {}, "prompts": {},
                },
            })
        );
        assert_eq!(handshake(&[], true), None);
    }

    #[test]
    fn items_stay_as_they_were_written_but_for_their_names() {
        let page =
            ListPage::read(r#"{"tools":[{"name": "x",  "n":1.50}],"nextCursor":"7","ttl":1}"#, "tools")
                .unwrap();
        assert_eq!(
            (page.next.as_deref(), text_of(&page.items[0], "name").as_deref()),
            (Some("7"), Some("x"))
        );
        let items = [page.items[0].clone(), with_text(&page.items[0], "name", "a__x").unwrap()];
        let merged = list(page.fields, "tools", &items).unwrap();
        assert_eq!(merged, r#"{"ttl":1,"tools":[{"name": "x",  "n":1.50},{"name":"a__x","n":1.50}]}"#);
        assert!(ListPage::read("[]", "tools").is_none() && ListPage::read("{}", "tools").is_none());
    }
}
