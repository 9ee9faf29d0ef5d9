//! The slices: named parts of the session's state that reducers change and prompts can read.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

use super::{ReducerError, RetryFeedback};
use crate::policy::{ReducerChange, ReducerRule, SessionPolicy, Trigger};
use crate::text::{Expr, kind};

/// The slice the built-in policy keeps [`RetryFeedback`] in.
pub(super) const FEEDBACK: &str = "feedback";
/// The slice the built-in policy keeps [`ReducerError`]s in.
pub(super) const REDUCER_ERRORS: &str = "reducer_errors";

/// The largest value of a slice: 8 bytes for each value in it, and its texts and keys.
const MOST_BYTES: usize = 16 << 20;

/// The values of all slices.
#[derive(Clone, Debug, Default)]
pub struct SessionSlices {
    values: Map<String, Value>,
    /// The bytes of each list that has grown, so that an append costs what it adds and not what is there.
    bytes: BTreeMap<String, usize>,
}

impl SessionSlices {
    /// Every slice at its starting value.
    pub fn new(policy: &SessionPolicy) -> Self {
        let values = policy.slices.iter().map(|(name, rule)| (name.clone(), rule.initial.clone()));
        Self { values: values.collect(), bytes: BTreeMap::new() }
    }

    /// Adds the slices that are not there yet, each at its starting value.
    pub fn complete(&mut self, policy: &SessionPolicy) {
        for (name, rule) in &policy.slices {
            if !self.values.contains_key(name) {
                self.values.insert(name.clone(), rule.initial.clone());
            }
        }
    }

    /// The value of a slice.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.values.get(name)
    }

    /// All slices by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.values.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// The feedback records, oldest first.
    pub fn feedback(&self) -> impl DoubleEndedIterator<Item = RetryFeedback> {
        self.records(FEEDBACK)
    }

    /// The latest feedback.
    pub fn latest_feedback(&self) -> Option<RetryFeedback> {
        self.feedback().next_back()
    }

    /// The feedback about one tool, oldest first.
    ///
    /// ```
    /// use unfazed::policy::{ErrorClass, Policy, Trigger};
    /// use unfazed::session::SessionSlices;
    /// use serde_json::json;
    /// let policy = Policy::builtin();
    /// let mut slices = SessionSlices::new(policy.session());
    /// for (tool, message) in [("search", "no query"), ("fetch", "no url"), ("search", "too long")] {
    ///     let feedback = json!({
    ///         "source": "tool", "tool_name": tool, "attempt": 1, "max_attempts": 3, "error_type": "invalid_args",
    ///         "message": message, "retry_scheduled_at": "2026-11-21T08:00:00Z", "next_delay_seconds": 0.2,
    ///     });
    ///     slices.reduce(policy.session(), Trigger::RetryFeedback, &json!({ "tool": tool, "feedback": feedback }));
    /// }
    /// let of_search: Vec<String> = slices.feedback_of("search").map(|feedback| feedback.message).collect();
    /// assert_eq!(of_search, ["no query", "too long"]);
    /// assert_eq!(slices.latest_feedback_of("fetch").unwrap().error_type, ErrorClass::InvalidArgs);
    /// assert_eq!(slices.latest_feedback().unwrap().message, "too long");
    /// assert_eq!(slices.get("feedback").unwrap().as_array().unwrap().len(), 3);
    /// ```
    pub fn feedback_of(&self, tool: &str) -> impl DoubleEndedIterator<Item = RetryFeedback> {
        self.feedback().filter(move |feedback| feedback.tool_name.as_deref() == Some(tool))
    }

    /// The latest feedback about one tool.
    pub fn latest_feedback_of(&self, tool: &str) -> Option<RetryFeedback> {
        self.feedback_of(tool).next_back()
    }

    /// The reducer errors, oldest first.
    pub fn reducer_errors(&self) -> impl DoubleEndedIterator<Item = ReducerError> {
        self.records(REDUCER_ERRORS)
    }

    fn records<T: for<'de> Deserialize<'de>>(&self, slice: &str) -> impl DoubleEndedIterator<Item = T> {
        let list = self.values.get(slice).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        // A reducer of the user may have put anything into the slice.
        list.iter().filter_map(|record| T::deserialize(record).ok())
    }

    /// Runs every reducer that listens to `trigger`, in the order of the policy.
    ///
    /// A reducer changes its slice wholly or, if it fails, not at all; the ones after it run all the same.
    pub fn reduce(
        &mut self,
        policy: &SessionPolicy,
        trigger: Trigger,
        event: &Value,
    ) -> Vec<(ReducerError, usize)> {
        let listening = policy.reducers.iter().enumerate().filter(|(_, rule)| rule.on.contains(&trigger));
        let mut failed = Vec::new();
        for (index, rule) in listening {
            // weakincentives, "Reducer Error Propagation": no error is swallowed, and it must not keep other
            // reducers from running.
            if let Err(message) = self.apply(rule, event) {
                let error = ReducerError { reducer: rule.name.clone(), payload: event.clone(), message };
                failed.push((error, index));
            }
        }
        failed
    }

    fn apply(&mut self, rule: &ReducerRule, event: &Value) -> Result<(), String> {
        let Some(current) = self.values.get(&rule.slice) else {
            return Err(format!("there is no slice `{}`", rule.slice));
        };
        let mut vars = Map::new();
        // Slices may be long, so only those that an expression reads are copied.
        if reads(rule, "event") {
            vars.insert("event".into(), event.clone());
        }
        if reads(rule, "slice") {
            vars.insert("slice".into(), current.clone());
        }
        if reads(rule, "state") {
            vars.insert("state".into(), Value::Object(self.values.clone()));
        }
        if let Some(when) = &rule.when
            && !when.holds(&vars).map_err(|e| format!("`when`: {e}"))?
        {
            return Ok(());
        }
        // Without a check nothing can fail after the change, so a list may be changed in place.
        if rule.check.is_none() && self.change_list(rule, &vars)? {
            return Ok(());
        }
        let Some(current) = self.values.get(&rule.slice) else { return Ok(()) };
        let next = changed(&rule.change, current, &mut vars)?;
        // The size is checked before the value is stored: a slice grows with every event of a long session.
        within(&rule.slice, bytes(&next))?;
        if let Some(check) = &rule.check {
            vars.insert("slice".into(), next.clone());
            if !check.holds(&vars).map_err(|e| format!("`check`: {e}"))? {
                return Err(format!("the check `{}` does not hold", check.as_str()));
            }
        }
        // Nothing can fail any more: a reducer changes its slice wholly or not at all.
        if let Some(slot) = self.values.get_mut(&rule.slice) {
            *slot = next;
            self.bytes.remove(&rule.slice);
        }
        Ok(())
    }

    /// Changes a list where it is, if the change is one that a list takes so. Without a check nothing can fail after the
    /// value is known: no copy to fall back on is needed.
    fn change_list(&mut self, rule: &ReducerRule, vars: &Map<String, Value>) -> Result<bool, String> {
        let Some(Value::Array(list)) = self.values.get_mut(&rule.slice) else { return Ok(false) };
        let known = self.bytes.get(&rule.slice).copied();
        // Counted once and then kept up, so that an append costs what it adds.
        let held = || known.unwrap_or_else(|| list.iter().map(bytes).fold(0, usize::saturating_add));
        let left = match &rule.change {
            ReducerChange::Append(value) => {
                let value = eval(value, vars)?;
                let left = held().saturating_add(bytes(&value));
                within(&rule.slice, left)?;
                list.push(value);
                left
            }
            ReducerChange::KeepLast(count) => {
                let surplus = surplus(list.len(), *count);
                if surplus == 0 {
                    return Ok(true);
                }
                let held = held();
                list.drain(..surplus).fold(held, |held, value| held.saturating_sub(bytes(&value)))
            }
            ReducerChange::Set(_)
            | ReducerChange::Merge(_)
            | ReducerChange::Increment(_)
            | ReducerChange::Remove(_) => return Ok(false),
        };
        match self.bytes.get_mut(&rule.slice) {
            Some(bytes) => *bytes = left,
            None => drop(self.bytes.insert(rule.slice.clone(), left)),
        }
        Ok(true)
    }
}

/// What is known of their sizes makes no difference.
impl PartialEq for SessionSlices {
    fn eq(&self, other: &Self) -> bool {
        self.values == other.values
    }
}

impl Serialize for SessionSlices {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.values.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for SessionSlices {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self { values: Map::deserialize(deserializer)?, bytes: BTreeMap::new() })
    }
}

/// Whether an expression of the reducer reads this variable.
fn reads(rule: &ReducerRule, variable: &str) -> bool {
    let change = match &rule.change {
        ReducerChange::Set(expr)
        | ReducerChange::Append(expr)
        | ReducerChange::Merge(expr)
        | ReducerChange::Increment(expr)
        | ReducerChange::Remove(expr) => Some(expr),
        ReducerChange::KeepLast(_) => None,
    };
    let exprs = [rule.when.as_ref(), change, rule.check.as_ref()];
    exprs.into_iter().flatten().any(|expr| expr.reads(variable))
}

/// Refuses a value that a slice cannot hold.
fn within(slice: &str, bytes: usize) -> Result<(), String> {
    if bytes <= MOST_BYTES {
        return Ok(());
    }
    Err(format!(
        "the value of the slice `{slice}` would be larger than {} MiB; keep less of it",
        MOST_BYTES >> 20
    ))
}

/// What a value takes; does not recurse.
fn bytes(value: &Value) -> usize {
    let mut bytes: usize = 0;
    let mut stack = vec![value];
    while let Some(part) = stack.pop() {
        bytes = bytes.saturating_add(8);
        match part {
            Value::String(text) => bytes = bytes.saturating_add(text.len()),
            Value::Array(list) => stack.extend(list),
            Value::Object(entries) => {
                for (key, value) in entries {
                    bytes = bytes.saturating_add(key.len());
                    stack.push(value);
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
    bytes
}

/// How many of `length` elements are more than `count`.
fn surplus(length: usize, count: u32) -> usize {
    length.saturating_sub(usize::try_from(count).unwrap_or(usize::MAX))
}

/// The slice after the change.
fn changed(change: &ReducerChange, current: &Value, vars: &mut Map<String, Value>) -> Result<Value, String> {
    match change {
        ReducerChange::Set(value) => eval(value, vars),
        ReducerChange::Append(value) => {
            let mut list = list(current)?;
            list.push(eval(value, vars)?);
            Ok(Value::Array(list))
        }
        ReducerChange::Merge(value) => {
            let (Value::Object(mut map), Value::Object(entries)) = (current.clone(), eval(value, vars)?)
            else {
                return Err("merge needs a map on both sides".into());
            };
            map.extend(entries);
            Ok(Value::Object(map))
        }
        ReducerChange::Increment(value) => increment(current, &eval(value, vars)?),
        ReducerChange::Remove(condition) => {
            let mut kept = Vec::new();
            for item in list(current)? {
                vars.insert("item".into(), item.clone());
                if !condition.holds(vars).map_err(|e| e.to_string())? {
                    kept.push(item);
                }
            }
            vars.remove("item");
            Ok(Value::Array(kept))
        }
        ReducerChange::KeepLast(count) => {
            let list = list(current)?;
            let drop = surplus(list.len(), *count);
            Ok(Value::Array(list.into_iter().skip(drop).collect()))
        }
    }
}

fn eval(expr: &Expr, vars: &Map<String, Value>) -> Result<Value, String> {
    expr.eval(vars).map_err(|e| e.to_string())
}

fn list(value: &Value) -> Result<Vec<Value>, String> {
    match value {
        Value::Array(list) => Ok(list.clone()),
        other => Err(format!("the slice holds {}, not a list", kind(other))),
    }
}

/// Whole numbers stay whole; an overflow is a failure, never a wrap.
fn increment(current: &Value, by: &Value) -> Result<Value, String> {
    // Floats only where one of the two is a float: large counters must not lose their last digits.
    if let (Some(a), Some(b)) = (current.as_i64(), by.as_i64()) {
        return a.checked_add(b).map(Value::from).ok_or_else(|| "the sum does not fit in 64 bits".into());
    }
    match (current.as_f64(), by.as_f64()) {
        (Some(a), Some(b)) => serde_json::Number::from_f64(a + b)
            .map(Value::Number)
            .ok_or_else(|| "the sum is not a number".to_owned()),
        _ => Err(format!("increment needs numbers, found {} and {}", kind(current), kind(by))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Policy;
    use proptest::prelude::*;
    use serde_json::json;

    const POLICY: &str = "
version: 1
session:
  slices: {seen: {initial: []}}
  reducers:
    grown: {on: tool_failed, slice: seen, do: {kind: append, value: event.data}}
    few: {on: model_failed, slice: seen, do: {kind: keep_last, count: 3}}
    anew: {on: tool_refused, slice: seen, do: {kind: set, value: '[event.data]'}}
";

    proptest! {
        /// A total that drifts would refuse what fits, or keep what does not.
        #[test]
        fn the_kept_sizes_are_those_of_the_values(changes in prop::collection::vec((0..3_u8, 0..40_usize), 0..60)) {
            let policy = Policy::from_yaml("p.yaml", POLICY).unwrap();
            let mut slices = SessionSlices::new(policy.session());
            for (change, length) in changes {
                let trigger = [Trigger::ToolFailed, Trigger::ModelFailed, Trigger::ToolRefused][usize::from(change)];
                slices.reduce(policy.session(), trigger, &json!({"data": {"text": "x".repeat(length)}}));
                let list = slices.get("seen").and_then(Value::as_array).unwrap();
                let held = list.iter().map(bytes).sum::<usize>();
                if let Some(kept) = slices.bytes.get("seen") {
                    prop_assert_eq!(*kept, held);
                }
                let back: SessionSlices = serde_json::from_str(&serde_json::to_string(&slices).unwrap()).unwrap();
                prop_assert_eq!(&back, &slices);
            }
        }
    }
}
