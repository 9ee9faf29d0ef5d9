//! A layer of a policy that is made of single values, as YAML.

use core::fmt::Write as _;

use indexmap::IndexMap;
use serde_json::Value;

/// A part of a layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LayerNode {
    /// Keys with their values, in order.
    Map(IndexMap<String, LayerNode>),
    /// A value, as YAML.
    Text(String),
}

impl Default for LayerNode {
    fn default() -> Self {
        Self::Map(IndexMap::new())
    }
}

impl LayerNode {
    /// A value whose fields can be replaced one by one.
    pub(super) fn of(value: &Value) -> Self {
        match value {
            Value::Object(fields) => {
                Self::Map(fields.iter().map(|(key, value)| (key.clone(), Self::of(value))).collect())
            }
            Value::String(text) if is_time(text) => Self::Text(text.clone()),
            Value::String(text) => Self::Text(quoted(text)),
            other => Self::Text(other.to_string()),
        }
    }

    /// The part at a path; the last one is made by `new` if it is not there.
    pub(super) fn enter(&mut self, path: &[String], new: impl FnOnce() -> Self) -> &mut Self {
        let Some((key, rest)) = path.split_first() else { return self };
        if let Self::Text(_) = self {
            *self = Self::default();
        }
        let Self::Map(fields) = self else { unreachable!("a text has been replaced") };
        if rest.is_empty() {
            return fields.entry(key.clone()).or_insert_with(new);
        }
        fields.entry(key.clone()).or_default().enter(rest, new)
    }

    /// The layer on one line, in YAML's flow style.
    pub(super) fn flow(&self) -> String {
        match self {
            Self::Map(fields) => {
                let fields = fields.iter().map(|(key, value)| format!("{}: {}", quoted(key), value.flow()));
                format!("{{{}}}", fields.collect::<Vec<_>>().join(", "))
            }
            Self::Text(text) => text.clone(),
        }
    }

    /// The layer in lines. Above each value for which `comments` has some, by its path, these are written.
    pub(crate) fn lines(&self, comments: &dyn Fn(&[&str]) -> Vec<String>) -> String {
        let mut page = String::new();
        self.line(&mut Vec::new(), comments, &mut page);
        page
    }

    fn line<'a>(
        &'a self,
        path: &mut Vec<&'a str>,
        comments: &dyn Fn(&[&str]) -> Vec<String>,
        page: &mut String,
    ) {
        let Self::Map(fields) = self else { return };
        for (key, value) in fields {
            let margin = "  ".repeat(path.len());
            path.push(key);
            let said = comments(path);
            for comment in &said {
                let _ = writeln!(page, "{margin}# {comment}");
            }
            if matches!(value, Self::Text(_)) || !said.is_empty() {
                let _ = writeln!(page, "{margin}{}: {}", quoted(key), value.flow());
            } else {
                let _ = writeln!(page, "{margin}{}:", quoted(key));
                value.line(path, comments, page);
            }
            path.pop();
        }
    }
}

/// A key or a text as YAML takes it, without quotes where it is a plain word.
pub(super) fn quoted(text: &str) -> String {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let is_plain = text.starts_with(|c: char| c.is_ascii_alphabetic()) && text.chars().all(is_word);
    // Readers of YAML 1.1 take these for truth values.
    if is_plain && !matches!(text, "on" | "off" | "yes" | "no" | "y" | "n" | "true" | "false" | "null") {
        text.to_owned()
    } else {
        Value::from(text).to_string()
    }
}

/// Whether a text is a duration such as `1m30s`, which no reader of YAML takes for a number.
fn is_time(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_digit())
        && text.ends_with(['s', 'm', 'h', 'd', 'w'])
        && text
            .chars()
            .all(|c| c.is_ascii_digit() || matches!(c, '.' | 'n' | 'u' | 's' | 'm' | 'h' | 'd' | 'w'))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn texts_have_quotes_only_where_yaml_would_read_something_else() {
        let value = json!({"kind": "linear", "base": "1m30s", "on": ["1e5", "no", "a: b"], "most": 3});
        assert_eq!(
            LayerNode::of(&value).flow(),
            "{kind: linear, base: 1m30s, \"on\": [\"1e5\",\"no\",\"a: b\"], most: 3}"
        );
    }

    #[test]
    fn comments_stand_above_the_value_they_are_of() {
        let mut layer = LayerNode::default();
        let path = |path: &str| path.split('.').map(str::to_owned).collect::<Vec<_>>();
        *layer.enter(&path("models.*.retry.backoff"), LayerNode::default) =
            LayerNode::of(&json!({"kind": "linear"}));
        let comments =
            |path: &[&str]| if path.ends_with(&["backoff"]) { vec!["was none".to_owned()] } else { vec![] };
        let page = "models:\n  \"*\":\n    retry:\n      # was none\n      backoff: {kind: linear}\n";
        assert_eq!(layer.lines(&comments), page);
    }
}
