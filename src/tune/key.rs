//! A key whose values are tried, and where it stands in a policy.

use serde_json::Value;

use super::layer::LayerNode;
use super::range::{self, RangeError};
use crate::policy::Policy;

/// A key and the values that are tried: `models.*.retry.max_attempts=2..16`.
#[derive(Clone, Debug)]
pub(crate) struct TunedKey {
    /// As it was given, without the values.
    pub(crate) name: String,
    /// Its values, as a policy writes them.
    pub(crate) values: Vec<String>,
    path: Vec<String>,
}

/// Where the value of a key is written: a block that layers replace whole, and the rest of the path in it.
#[derive(Clone, Debug)]
pub(super) struct KeyPlace {
    pub(super) block: Vec<String>,
    inside: Vec<String>,
    /// The block as it is without the layer.
    before: Option<Value>,
}

impl TunedKey {
    /// Reads `KEY=RANGE`. Places of errors count from the beginning of the text.
    pub(crate) fn read(text: &str) -> Result<Self, RangeError> {
        let whole = |message: &str| RangeError {
            from: 0,
            to: text.len(),
            message: message.to_owned(),
            help: "write a key and its values, such as `models.*.retry.max_attempts=2..16`",
        };
        let (name, range) = text.split_once('=').ok_or_else(|| whole("there is no `=`"))?;
        let path = segments(name.trim()).ok_or_else(|| whole("this is no path of a key"))?;
        if path.first().is_some_and(|first| first == "limits") {
            return Err(RangeError {
                from: 0,
                to: name.len(),
                message: "limits are not tuned: a layer can only make them tighter".to_owned(),
                help: "vary the key that is limited, such as `retry.max_attempts`, or change the limit in the policy",
            });
        }
        let behind = name.len() + 1;
        let values = range::values(range).map_err(|error| RangeError {
            from: error.from + behind,
            to: error.to + behind,
            ..error
        })?;
        Ok(Self { name: name.trim().to_owned(), values, path })
    }

    /// Where its value is written in a layer above that policy.
    pub(super) fn place(&self, policy: &Policy) -> KeyPlace {
        let (before, rest) = self.held(policy);
        let above = self.path.len() - rest.len();
        // The longest path that is a key: what is behind it is inside its value.
        let found = (1..=rest.len()).rev().find_map(|length| {
            let path = rest[..length].join(".");
            let held = before.iter().find(|(held, _)| *held == path)?;
            Some((length, held.1.clone()))
        });
        let (length, value) = found.map_or((rest.len(), None), |(length, value)| (length, Some(value)));
        let (block, inside) = self.path.split_at(above + length);
        KeyPlace { block: block.to_vec(), inside: inside.to_vec(), before: value }
    }

    /// The values of what the key is about, by their paths, and the rest of the key's own path.
    fn held(&self, policy: &Policy) -> (Vec<(String, Value)>, &[String]) {
        let rest = |from: usize| self.path.get(from..).unwrap_or_default();
        let subject = |at: usize| example(self.path.get(at).map_or("", String::as_str));
        let explained = match self.path.first().map(String::as_str) {
            Some("tools") => policy.explain_tool(&subject(1)),
            Some("models") => policy.explain_model(&subject(1)),
            Some("retry") => policy.explain_model(&subject(usize::MAX)),
            Some("turn") => policy.explain_turn(),
            Some("history") => policy.explain_history(),
            Some("context") => policy.explain_context(),
            Some("output") => match policy.explain_output() {
                Some(explained) => explained,
                None => return (Vec::new(), rest(1)),
            },
            _ => return (Vec::new(), rest(1)),
        };
        let from = match self.path.first().map(String::as_str) {
            Some("tools" | "models") => 2,
            // Values of `retry` have it in their paths.
            Some("retry") => 0,
            _ => 1,
        };
        let values = explained.values.into_iter().map(|value| (value.path, value.value));
        (values.collect(), rest(from))
    }
}

impl KeyPlace {
    /// The value before: in the block, or the block itself.
    pub(super) fn before(&self) -> Option<&Value> {
        self.inside.iter().try_fold(self.before.as_ref()?, |value, key| value.get(key))
    }

    /// Puts a value there.
    pub(super) fn put(&self, layer: &mut LayerNode, value: &str) {
        let block = layer.enter(&self.block, || {
            let before = self.before.as_ref().filter(|_| !self.inside.is_empty());
            before.map_or_else(LayerNode::default, LayerNode::of)
        });
        *block.enter(&self.inside, LayerNode::default) = LayerNode::Text(value.to_owned());
    }
}

/// The path between dots; a segment in double quotes may have dots of its own.
fn segments(name: &str) -> Option<Vec<String>> {
    let (mut path, mut segment, mut quoted) = (Vec::new(), String::new(), false);
    for c in name.chars() {
        match c {
            '"' => quoted = !quoted,
            '.' if !quoted => path.push(core::mem::take(&mut segment)),
            c => segment.push(c),
        }
    }
    path.push(segment);
    (!quoted && path.iter().all(|segment| !segment.is_empty())).then_some(path)
}

/// A name that the selector matches.
fn example(selector: &str) -> String {
    selector.replace(['*', '?'], "x")
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: &str = "version: 1
models:
  clerk: {retry: {max_attempts: 4, backoff: {kind: exponential, base: 200ms, factor: 2, cap: 2s, jitter: none}}}
";

    fn layer(policy: &str, vary: &[(&str, &str)]) -> String {
        let policy = Policy::from_yaml("policy.yaml", policy).unwrap();
        let mut layer = LayerNode::default();
        for (key, value) in vary {
            TunedKey::read(&format!("{key}={value}|other")).unwrap().place(&policy).put(&mut layer, value);
        }
        layer.flow()
    }

    #[test]
    fn a_value_is_written_where_the_policy_has_it() {
        let attempts = [("models.clerk.retry.max_attempts", "7")];
        assert_eq!(layer(POLICY, &attempts), "{models: {clerk: {retry: {max_attempts: 7}}}}");
        let dots = [("tools.\"http.*\".retry.max_attempts", "7"), ("turn.max_turns", "9")];
        assert_eq!(
            layer(POLICY, &dots),
            "{tools: {\"http.*\": {retry: {max_attempts: 7}}}, turn: {max_turns: 9}}"
        );
    }

    #[test]
    fn a_block_that_is_replaced_whole_keeps_its_other_fields() {
        let both = [("models.clerk.retry.backoff.cap", "8s"), ("models.clerk.retry.backoff.base", "1s")];
        let whole = "{kind: exponential, base: 1s, factor: 2, cap: 8s, jitter: none}";
        assert_eq!(layer(POLICY, &both), format!("{{models: {{clerk: {{retry: {{backoff: {whole}}}}}}}}}"));
    }

    #[test]
    fn the_value_before_is_the_effective_one() {
        let policy = Policy::from_yaml("policy.yaml", POLICY).unwrap();
        let before = |key: &str| {
            let place = TunedKey::read(&format!("{key}=1s..2s")).unwrap().place(&policy);
            place.before().map(crate::policy::display::flow)
        };
        assert_eq!(before("models.clerk.retry.backoff.cap").unwrap(), "2s");
        assert_eq!(before("models.clerk.retry.max_attempts").unwrap(), "4");
        assert_eq!(before("retry.no_such_key"), None);
    }

    #[test]
    fn what_is_no_key_is_refused_at_its_place() {
        for (text, at) in
            [("retry", 0..5), (".a=1..2", 0..7), ("limits.deadline=1s..2s", 0..15), ("a=2..1", 2..6)]
        {
            let error = TunedKey::read(text).unwrap_err();
            assert_eq!(error.from..error.to, at, "{text}: {error:?}");
        }
    }
}
