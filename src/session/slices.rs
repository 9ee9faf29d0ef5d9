//! The slices: named parts of the session's state that reducers change and prompts can read.

use core::cell::OnceCell;
use std::borrow::Cow;
use std::sync::Arc;

use indexmap::IndexMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value, json};

use super::slice::{Element, Slice, fits, surplus};
use super::{ReducerError, RetryFeedback};
use crate::policy::{ReducerChange, ReducerRule, SessionPolicy, Trigger};
use crate::text::{Expr, kind};

/// The slice in which the built-in policy keeps [`RetryFeedback`].
pub(super) const FEEDBACK: &str = "feedback";
/// The slice in which the built-in policy keeps [`ReducerError`]s.
pub(super) const REDUCER_ERRORS: &str = "reducer_errors";

/// The number of slices up to which a linear search is faster than hashing a name.
const FEW_SLICES: usize = 8;

/// The values of all slices.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SessionSlices(IndexMap<String, Slice>);

/// An event for reducers.
enum ReducerEvent<'e> {
    Json(&'e Value),
    /// Feedback, and the event about it once a reducer reads it.
    Feedback(Arc<RetryFeedback>, OnceCell<Value>),
}

impl ReducerEvent<'_> {
    fn json(&self) -> &Value {
        match self {
            Self::Json(event) => event,
            Self::Feedback(feedback, event) => {
                event.get_or_init(|| json!({ "tool": feedback.tool_name, "feedback": &**feedback }))
            }
        }
    }
}

impl SessionSlices {
    /// All slices with their initial values.
    pub fn new(policy: &SessionPolicy) -> Self {
        let mut slices = Self::default();
        slices.complete(policy);
        slices
    }

    /// Adds missing slices with their initial values.
    pub fn complete(&mut self, policy: &SessionPolicy) {
        for (name, rule) in &policy.slices {
            if !self.0.contains_key(name) {
                self.0.insert(name.clone(), Slice::new(rule.initial.clone()));
            }
        }
    }

    /// The value of a slice.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name).map(Slice::json)
    }

    /// All slices by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.0.iter().map(|(name, slice)| (name.as_str(), slice.json()))
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
        let elements = self.0.get(slice).into_iter().flat_map(Slice::elements);
        // A user's reducer may have put any value into the slice.
        elements.filter_map(|record: Cow<'_, Value>| T::deserialize(&*record).ok())
    }

    /// Runs every reducer for `trigger`, in the order of the policy.
    ///
    /// A reducer changes its slice completely or, if it fails, not at all; the later ones still run.
    pub fn reduce(
        &mut self,
        policy: &SessionPolicy,
        trigger: Trigger,
        event: &Value,
    ) -> Vec<(ReducerError, usize)> {
        self.take(policy, trigger, &ReducerEvent::Json(event))
    }

    /// Like [`reduce`](Self::reduce), for [`Trigger::RetryFeedback`].
    pub(crate) fn reduce_feedback(
        &mut self,
        policy: &SessionPolicy,
        feedback: RetryFeedback,
    ) -> Vec<(ReducerError, usize)> {
        let event = ReducerEvent::Feedback(Arc::new(feedback), OnceCell::new());
        self.take(policy, Trigger::RetryFeedback, &event)
    }

    fn take(
        &mut self,
        policy: &SessionPolicy,
        trigger: Trigger,
        event: &ReducerEvent<'_>,
    ) -> Vec<(ReducerError, usize)> {
        let listening = policy.reducers.iter().enumerate().filter(|(_, rule)| rule.on.contains(&trigger));
        let mut failed = Vec::new();
        for (index, rule) in listening {
            // weakincentives, "Reducer Error Propagation": no error is swallowed, and an error must not prevent other
            // reducers from running.
            if let Err(message) = self.apply(rule, event) {
                let (reducer, payload) = (rule.name.clone(), event.json().clone());
                failed.push((ReducerError { reducer, payload, message }, index));
            }
        }
        failed
    }

    fn apply(&mut self, rule: &ReducerRule, event: &ReducerEvent<'_>) -> Result<(), String> {
        let Some(slice) = self.slice_mut(&rule.slice) else {
            return Err(format!("there is no slice `{}`", rule.slice));
        };
        if change_at_once(slice, rule, event)? {
            return Ok(());
        }
        let vars = self.variables(rule, event);
        if let Some(when) = &rule.when
            && !when.holds(&vars).map_err(|e| format!("`when`: {e}"))?
        {
            return Ok(());
        }
        let Some(slice) = self.slice_mut(&rule.slice) else { return Ok(()) };
        change(slice, rule, vars)
    }

    fn slice_mut(&mut self, name: &str) -> Option<&mut Slice> {
        if self.0.len() > FEW_SLICES {
            return self.0.get_mut(name);
        }
        self.0.iter_mut().find(|(known, _)| *known == name).map(|(_, slice)| slice)
    }

    /// The variables for the expressions of a reducer.
    fn variables(&self, rule: &ReducerRule, event: &ReducerEvent<'_>) -> Map<String, Value> {
        let mut vars = Map::new();
        // Slices may be long, so only those that an expression reads are copied.
        if reads(rule, "event") {
            vars.insert("event".into(), event.json().clone());
        }
        if reads(rule, "slice")
            && let Some(slice) = self.get(&rule.slice)
        {
            vars.insert("slice".into(), slice.clone());
        }
        if reads(rule, "state") {
            let state = self.iter().map(|(name, value)| (name.to_owned(), value.clone()));
            vars.insert("state".into(), Value::Object(state.collect()));
        }
        vars
    }
}

impl Serialize for SessionSlices {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for SessionSlices {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let values = Map::deserialize(deserializer)?;
        Ok(Self(values.into_iter().map(|(name, value)| (name, Slice::new(value))).collect()))
    }
}

/// Changes a list in place, if there is no condition, no check and no value to compute, as for the built-in reducers.
/// `false`: nothing has changed.
fn change_at_once(slice: &mut Slice, rule: &ReducerRule, event: &ReducerEvent<'_>) -> Result<bool, String> {
    if rule.when.is_some() || rule.check.is_some() {
        return Ok(false);
    }
    match (&rule.change, event) {
        (ReducerChange::KeepLast(count), _) => Ok(slice.keep_last(*count)),
        (ReducerChange::Append(value), ReducerEvent::Feedback(feedback, _))
            if value.names("event", "feedback") =>
        {
            slice.append(&rule.slice, Element::Feedback(Arc::clone(feedback)))
        }
        _ => Ok(false),
    }
}

/// Changes a slice by the results of the reducer's expressions.
fn change(slice: &mut Slice, rule: &ReducerRule, mut vars: Map<String, Value>) -> Result<(), String> {
    // Without a check nothing can fail once the value is known: a list can be changed in place, without a copy as a
    // fallback.
    if rule.check.is_none() && slice.is_list() {
        match &rule.change {
            ReducerChange::Append(value) => {
                let value = eval(value, &vars)?;
                return slice.append(&rule.slice, Element::Json(value)).map(|_| ());
            }
            ReducerChange::KeepLast(count) => {
                slice.keep_last(*count);
                return Ok(());
            }
            ReducerChange::Set(_)
            | ReducerChange::Merge(_)
            | ReducerChange::Increment(_)
            | ReducerChange::Remove(_) => {}
        }
    }
    let next = changed(&rule.change, slice.json(), &mut vars)?;
    // The size is checked before the value is stored: a slice grows with every event of a long session.
    fits(&rule.slice, &next)?;
    if let Some(check) = &rule.check {
        vars.insert("slice".into(), next.clone());
        if !check.holds(&vars).map_err(|e| format!("`check`: {e}"))? {
            return Err(format!("the check `{}` does not hold", check.as_str()));
        }
    }
    // Nothing can fail from here: a reducer changes its slice completely or not at all.
    *slice = Slice::new(next);
    Ok(())
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

/// Adds; integers stay integers, and an overflow is an error, never a wrap.
fn increment(current: &Value, by: &Value) -> Result<Value, String> {
    // Floats only if one of the two is a float: large counters must not lose their last digits.
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
    use super::super::FeedbackSource;
    use super::super::slice::bytes;
    use super::*;
    use crate::policy::{ErrorClass, Policy};
    use crate::time::{Instant, Nanos};
    use proptest::prelude::*;

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
        /// A wrong total would refuse values that fit, or keep values that do not.
        #[test]
        fn the_kept_sizes_are_those_of_the_values(changes in prop::collection::vec((0..3_u8, 0..40_usize), 0..60)) {
            let policy = Policy::from_yaml("p.yaml", POLICY).unwrap();
            let mut slices = SessionSlices::new(policy.session());
            for (change, length) in changes {
                let trigger = [Trigger::ToolFailed, Trigger::ModelFailed, Trigger::ToolRefused][usize::from(change)];
                slices.reduce(policy.session(), trigger, &json!({"data": {"text": "x".repeat(length)}}));
                let list = slices.get("seen").and_then(Value::as_array).unwrap();
                let held = list.iter().map(bytes).sum::<usize>();
                if let Some(kept) = slices.0["seen"].bytes {
                    prop_assert_eq!(kept, held);
                }
                let back: SessionSlices = serde_json::from_str(&serde_json::to_string(&slices).unwrap()).unwrap();
                prop_assert_eq!(&back, &slices);
            }
        }

        /// Feedback kept as a record equals the event about it, for every reader and after any other change of the
        /// slice.
        #[test]
        fn feedback_is_the_same_as_the_event_about_it(
            changes in prop::collection::vec((any::<u8>(), any::<Option<u32>>(), "[a-zü ]{0,20}", any::<u64>()), 0..12),
        ) {
            let policy = Policy::from_yaml("p.yaml", FEEDBACK_POLICY).unwrap();
            let (mut records, mut events) = (SessionSlices::new(policy.session()), SessionSlices::new(policy.session()));
            for (what, max_attempts, message, time) in changes {
                if what % 5 == 0 {
                    let event = json!({"data": message});
                    records.reduce(policy.session(), Trigger::ToolFailed, &event);
                    events.reduce(policy.session(), Trigger::ToolFailed, &event);
                    continue;
                }
                let (tool_name, source) = if what % 2 == 0 {
                    (Some("search".to_owned()), FeedbackSource::Tool)
                } else {
                    (None, FeedbackSource::StructuredOutput)
                };
                let feedback = RetryFeedback {
                    source,
                    tool_name,
                    attempt: what.into(),
                    max_attempts,
                    error_type: ErrorClass::RateLimit,
                    message,
                    retry_scheduled_at: Instant(time),
                    next_delay: Nanos(time >> 20),
                };
                let event = json!({ "tool": feedback.tool_name, "feedback": feedback });
                let failed = events.reduce(policy.session(), Trigger::RetryFeedback, &event);
                prop_assert_eq!(records.reduce_feedback(policy.session(), feedback), failed);
                let held = |slices: &SessionSlices| slices.0["seen"].bytes;
                if let (Some(records), Some(events)) = (held(&records), held(&events)) {
                    prop_assert_eq!(records, events);
                }
                let json = serde_json::to_string(&records).unwrap();
                prop_assert_eq!(&json, &serde_json::to_string(&events).unwrap());
                // The JSON was read by now.
                prop_assert_eq!(&records, &events);
                prop_assert_eq!(json, serde_json::to_string(&records).unwrap());
                let read = |slices: &SessionSlices| slices.records::<RetryFeedback>("seen").collect::<Vec<_>>();
                prop_assert_eq!(read(&records), read(&events));
            }
        }
    }

    const FEEDBACK_POLICY: &str = "
version: 1
session:
  slices: {seen: {initial: []}, some: {initial: [1]}, last: {initial: []}}
  reducers:
    grown: {on: retry_feedback, slice: seen, do: {kind: append, value: event.feedback}}
    few: {on: retry_feedback, slice: seen, do: {kind: keep_last, count: 3}}
    others: {on: retry_feedback, slice: some, when: 'event.feedback.attempt > 99', do: {kind: append, value: event.feedback}}
    last: {on: retry_feedback, slice: last, do: {kind: set, value: event}}
    wrong: {on: retry_feedback, slice: last, do: {kind: append, value: event.feedback}}
    wronger: {on: retry_feedback, slice: last, do: {kind: keep_last, count: 3}}
    besides: {on: tool_failed, slice: seen, do: {kind: append, value: event.data}}
";
}
