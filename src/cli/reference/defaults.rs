//! What the built-in policy says.

use crate::policy::Policy;
use crate::text::{
    Problems,
    yaml::{self, YamlNode},
};
use crate::text::{SourceId, Sources};
use serde_json::Value;

use super::super::exit::CommandFailure;
use super::flow::{code, flow};

/// Longer values are not shown.
const LONGEST: usize = 180;

/// What it means to leave keys out of mappings that are replaced whole, and of entries that inherit nothing.
const LEFT_OUT: &[(&str, &str, &str)] = &[
    ("retry.server_delay", "min", "0s"),
    ("retry.server_delay", "max", "unlimited"),
    ("retry.server_delay", "above_max", "next_target"),
    ("retry.budget", "cost", "1"),
    ("retry.budget", "earn", "1"),
    ("retry.budget", "min", "0"),
    ("tools.*.breaker.count", "calls", "100"),
    ("tools.*.breaker.count", "min_calls", "0"),
    ("context.reduce[]", "input", "0.8"),
    ("tools.*", "priority", "0"),
    ("models.*", "priority", "0"),
    ("session.slices.*", "initial", "[]"),
    ("errors[]", "request_at_fault", "false"),
];

/// The built-in policy as it is written.
pub(in crate::cli) struct WrittenDefaults(YamlNode);

impl WrittenDefaults {
    pub(in crate::cli) fn read() -> Result<Self, CommandFailure> {
        let policy = Policy::builtin();
        let text = policy.sources().get(SourceId(0)).map_or("", |source| source.text());
        let (mut sources, mut problems) = (Sources::default(), Problems::default());
        let (_, node) = yaml::load(&mut sources, &mut problems, "builtin:default", text.as_bytes());
        node.map(Self).ok_or_else(|| CommandFailure::Stopped("the built-in policy cannot be read".to_owned()))
    }

    /// The value of a key in all places where its mapping stands; empty if there is none. `whole`: the mapping is
    /// replaced whole, so that nothing of the built-in one is inherited.
    pub(in crate::cli) fn cell(&self, places: &[String], key: &str, whole: bool) -> String {
        let mut left_out = LEFT_OUT.iter().filter(|(place, name, _)| places[0] == *place && *name == key);
        if let Some((_, _, value)) = left_out.next() {
            return code(value);
        }
        if whole {
            return String::new();
        }
        let mut told: Vec<(String, Vec<&str>)> = Vec::new();
        for place in places {
            let Some(value) = self.at(place, key) else { continue };
            let text = shown(value);
            match told.iter_mut().find(|(known, _)| *known == text) {
                Some((_, places)) => places.push(place),
                None => told.push((text, vec![place])),
            }
        }
        let told = told.into_iter().map(|(text, at)| {
            // What the first place says is the default of those that say nothing.
            if at[0] == places[0] {
                return text;
            }
            let at: Vec<_> = at.iter().map(|place| format!("`{place}`")).collect();
            format!("in {}: {text}", at.join(", "))
        });
        told.collect::<Vec<_>>().join("; ")
    }

    /// The value itself in the first place, if it is written there and in one word.
    pub(in crate::cli) fn value(&self, places: &[String], key: &str, whole: bool) -> Option<Value> {
        let value = self.at(places.first()?, key).filter(|_| !whole)?.to_json();
        let text = value.as_str().unwrap_or_default();
        let is_plain = !text.contains("{{") && !text.contains('\n');
        Some(value).filter(|value| is_plain && !value.is_object() && !value.is_array())
    }

    fn at(&self, place: &str, key: &str) -> Option<&YamlNode> {
        let path = place.split('.').filter(|part| !part.is_empty());
        path.chain([key]).try_fold(&self.0, |node, part| node.get(part))
    }
}

fn shown(node: &YamlNode) -> String {
    let json = node.to_json();
    if let Some(text) = json.as_str().filter(|text| text.contains('\n') || text.contains("{{")) {
        let (lines, plural) = (text.lines().count(), if text.lines().count() == 1 { "" } else { "s" });
        return format!("a text of {lines} line{plural}");
    }
    let text = flow(&json);
    // The keys of a mapping are reported one by one.
    if text.len() > LONGEST { String::new() } else { code(&text) }
}

#[cfg(test)]
mod tests {
    use crate::analysis::ComparedNames;

    use super::*;

    /// A policy with `HERE` where the key stands, and a value that means something else.
    const SHOWN: &[(&str, &str, &str)] = &[
        ("min", "1s", "retry: {server_delay: {mode: floor HERE}}"),
        ("max", "1m", "retry: {server_delay: {mode: floor HERE}}"),
        ("above_max", "clamp", "retry: {server_delay: {mode: floor, max: 1m HERE}}"),
        ("cost", "2", "retry: {budget: {kind: tokens, capacity: 9 HERE}}"),
        ("earn", "2", "retry: {budget: {kind: tokens, capacity: 9 HERE}}"),
        ("min", "2", "retry: {budget: {kind: window, window: 1m, ratio: 0.5 HERE}}"),
        ("calls", "50", "tools: {t: {breaker: {count: {kind: window HERE}}}}"),
        ("min_calls", "2", "tools: {t: {breaker: {count: {kind: window HERE}}}}"),
        ("input", "0.5", "context: {reduce: [{kind: summary, keep_last: 2, max: 100 tokens HERE}]}"),
        ("priority", "-1", "tools: {t: {effect: read_only HERE}, \"t*\": {effect: idempotent}}"),
        ("priority", "-1", "models: {m: {cooldown: 2s HERE}, \"m*\": {cooldown: 1s}}"),
        ("initial", "[1]", "session: {slices: {s: { HERE}}}"),
        ("request_at_fault", "true", "errors: [{code: x, class: rate_limit HERE}]"),
    ];

    #[test]
    fn to_leave_a_key_out_means_what_the_page_says() {
        assert_eq!(SHOWN.len(), LEFT_OUT.len());
        for ((place, key, value), (shown, other, text)) in LEFT_OUT.iter().zip(SHOWN) {
            assert_eq!(key, shown);
            let load = |here: &str| {
                let text = format!("version: 1\n{}\n", text.replace(" HERE", here).replace("{, ", "{"));
                Policy::from_yaml("p.yaml", &text).unwrap_or_else(|report| panic!("{}", report.human(false)))
            };
            let without = load("");
            let differs =
                |here: &str| !without.diff(&load(here), &ComparedNames::default()).groups.is_empty();
            assert!(!differs(&format!(", {key}: {value}")), "{place}.{key} is not `{value}`");
            assert!(differs(&format!(", {key}: {other}")), "{place}.{key} means nothing");
        }
    }
}
