//! The part of a result shown to a model.

use std::borrow::Cow;

use serde_json::Value;

use super::cut::{CutRules, KeptText, cut_text};
use super::excerpt::shortened;
use super::json::cut_json;
use super::write::{json_size, json_text, json_within};
use crate::policy::{ResultPolicy, TextSize};

/// The maximum size in bytes of a text that is parsed as JSON.
// Larger texts are cut as text: parsing them costs more memory than the cut saves tokens.
const READ_BYTES: usize = 4 << 20;

/// The result for a model.
pub(in crate::engine) struct ShownResult {
    pub(in crate::engine) text: String,
    /// The size shown and the total size, if the result was cut.
    pub(in crate::engine) of: Option<(u64, u64)>,
}

/// As much of a value as the policy allows. `notice` makes the notice from the size shown and the total size; it is
/// added to every cut text, and after JSON if `always`.
pub(in crate::engine) fn show(
    value: &Value,
    rules: &ResultPolicy,
    always: bool,
    notice: &mut dyn FnMut(u64, u64) -> String,
) -> ShownResult {
    let text: Cow<'_, str> = match value {
        Value::String(text) => Cow::Borrowed(text),
        Value::Array(_) | Value::Object(_) => return structure(value, rules, always, notice),
        Value::Null | Value::Bool(_) | Value::Number(_) => Cow::Owned(value.to_string()),
    };
    let Some(max) = rules.max.value.size() else { return whole(text.into_owned()) };
    if max.holds(&text) {
        return whole(text.into_owned());
    }
    let total = max.unit.measure(&text);
    // A text that is JSON is cut as JSON; otherwise the model gets half of an object and guesses the rest.
    if rules.json.value
        && let Some(read) = as_json(&text)
        && let Some(shown) = json(&read, max, total, rules, always, notice)
    {
        return shown;
    }
    cut(&text, max, total, rules, notice)
}

fn structure(
    value: &Value,
    rules: &ResultPolicy,
    always: bool,
    notice: &mut dyn FnMut(u64, u64) -> String,
) -> ShownResult {
    let Some(max) = rules.max.value.size() else { return whole(json_text(value)) };
    if let Some(text) = json_within(value, max) {
        return whole(text);
    }
    // Measured without writing it: results of megabytes are common, and only their size is needed here.
    let total = json_size(value, max.unit);
    // An excerpt of a stored text is cut at its end, and its `to` is adjusted, so that the next request begins there.
    let short = shortened(value, max);
    if let Some(text) = short.as_ref().map(json_text).filter(|text| max.holds(text)) {
        let shown = max.unit.measure(&text);
        return ShownResult { text, of: Some((shown, total)) };
    }
    let value = short.as_ref().unwrap_or(value);
    if rules.json.value
        && let Some(shown) = json(value, max, total, rules, always, notice)
    {
        return shown;
    }
    cut(&json_text(value), max, total, rules, notice)
}

/// As JSON; `None`: too little fits.
fn json(
    value: &Value,
    max: TextSize,
    total: u64,
    rules: &ResultPolicy,
    always: bool,
    notice: &mut dyn FnMut(u64, u64) -> String,
) -> Option<ShownResult> {
    let limit = max.of_json();
    // The notice with the largest numbers is assumed; the exact one may be shorter.
    let told = if always { format!("\n{}", notice(total, total)) } else { String::new() };
    let count = limit.count.checked_sub(limit.unit.measure(&told))?;
    let mut text = cut_json(value, TextSize { count, unit: limit.unit }, rules.keep.value)?;
    let shown = max.unit.measure(&text);
    if always {
        let exact = format!("\n{}", notice(shown, total));
        let fits = limit.unit.measure(&exact) <= limit.unit.measure(&told);
        text.push_str(if fits { &exact } else { &told });
    }
    Some(ShownResult { text, of: Some((shown, total)) })
}

fn cut(
    text: &str,
    max: TextSize,
    total: u64,
    rules: &ResultPolicy,
    notice: &mut dyn FnMut(u64, u64) -> String,
) -> ShownResult {
    let rules = CutRules { max, keep: rules.keep.value, error_lines: rules.error_lines.value };
    match cut_text(text, &rules, &mut |shown| notice(shown, total)) {
        Some(KeptText { text, shown }) => ShownResult { text, of: Some((shown, total)) },
        None => whole(text.to_owned()),
    }
}

const fn whole(text: String) -> ShownResult {
    ShownResult { text, of: None }
}

/// A text that is a JSON list or mapping.
fn as_json(text: &str) -> Option<Value> {
    // The first character excludes most texts before anything is parsed.
    if text.len() > READ_BYTES || !text.trim_start().starts_with(['{', '[']) {
        return None;
    }
    serde_json::from_str(text).ok()
}

/// Tests of all steps together.
#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::policy::{KeptPart, Policy, SizeCap, SizeUnit};

    fn rules(count: u64, unit: SizeUnit) -> ResultPolicy {
        let mut rules = Policy::from_yaml("p.yaml", "version: 1\n").unwrap().tool("look").result.clone();
        rules.max.value = SizeCap::Most(TextSize { count, unit });
        rules
    }

    fn of(value: &Value, rules: &ResultPolicy, always: bool) -> String {
        show(value, rules, always, &mut |shown, total| format!("[{shown} of {total}]")).text
    }

    #[test]
    fn a_text_that_is_json_is_cut_to_json() {
        let list: Value = (0..1000).collect();
        let text = of(&json!(list.to_string()), &rules(100, SizeUnit::Chars), false);
        assert!(serde_json::from_str::<Value>(&text).unwrap().is_array(), "{text}");
    }

    #[test]
    fn where_json_need_not_stay_json_it_is_cut_as_text() {
        let mut rules = rules(60, SizeUnit::Chars);
        (rules.json.value, rules.keep.value) = (false, KeptPart::Head);
        let list: Value = (0..1000).collect();
        assert!(of(&list, &rules, false).ends_with(" of 3891]"));
    }

    #[test]
    fn the_notice_follows_json_where_it_is_needed() {
        let list: Value = (0..1000).collect();
        let text = of(&list, &rules(100, SizeUnit::Chars), true);
        let (json, notice) = text.split_once('\n').unwrap();
        assert!(serde_json::from_str::<Value>(json).is_ok() && notice.ends_with("of 3891]"), "{text}");
    }

    proptest! {
        #[test]
        fn nothing_that_is_shown_exceeds_the_cap(
            items in prop::collection::vec("[a-z\u{e4}{\\[\"]{0,30}", 0..20), count in 0_u64..200, unit in 0..3, form in 0..3,
            always in any::<bool>(),
        ) {
            let unit = [SizeUnit::Chars, SizeUnit::Bytes, SizeUnit::Tokens][usize::try_from(unit).unwrap()];
            let value = match form {
                0 => json!(items),
                1 => json!({"items": items, "n": items.len()}),
                _ => json!(items.join("\n")),
            };
            let text = of(&value, &rules(count, unit), always);
            prop_assert!(unit.measure(&text) <= count, "{text}");
            prop_assert_eq!(of(&json!(text.clone()), &rules(count, unit), always), text);
        }
    }
}
