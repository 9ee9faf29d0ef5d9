//! Explanations for people, as text, and for machines, as JSON.

use core::fmt::{self, Write as _};

use serde_json::{Map, Value, json};

use super::{
    CallLayer, ConditionState, DelayTable, ExplainedValue, LayerContribution, PolicyExplanation, RetryDelays,
};
use crate::policy::TimeBound;
use crate::policy::display::flow;
use crate::text::excerpt;
use crate::text::{Place, columns, padded};
use crate::time::Nanos;

/// Longer values are cut in the text, those of the layers sooner; the JSON holds them whole.
pub(super) const LONGEST: usize = 72;
const LONGEST_SAID: usize = 48;

impl fmt::Display for PolicyExplanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "effective policy for {}", self.subject)?;
        if let Some((verdict, _)) = &self.verdict {
            writeln!(f, "  this call  {verdict}")?;
        }
        for value in self.values.iter().chain(&self.budgets) {
            writeln!(f)?;
            if self.values.len() == 1 { write!(f, "{value:#}")? } else { write!(f, "{value}")? }
        }
        let idle: Vec<_> = self.limits.iter().filter(|limit| !limit.binds).collect();
        if !idle.is_empty() {
            writeln!(f, "\n  limits that change nothing here")?;
            for limit in idle {
                writeln!(f, "      limits.{} = {}   {}", limit.name, short(&limit.value, LONGEST), limit.at)?;
            }
        }
        for layer in &self.conditional {
            writeln!(f)?;
            layer.fmt(f)?;
        }
        for left_out in &self.left_out {
            writeln!(f, "\n  does not apply: {left_out}")?;
        }
        if let Some(delays) = &self.delays {
            write!(f, "\n{delays}")?;
        }
        match self.planner {
            Some(Some(most)) => {
                writeln!(f, "  a planner may change this for a call, up to limits.max_attempts: {most}")
            }
            Some(None) => {
                writeln!(f, "  a planner may raise this for a call: no limits.max_attempts bounds it")
            }
            None => Ok(()),
        }
    }
}

impl fmt::Display for ExplainedValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Alone it is shown whole.
        let longest = if f.alternate() { usize::MAX } else { LONGEST };
        write!(f, "  {} = {}", self.path, short(&self.value, longest))?;
        if let Some(from) = &self.capped_from {
            let name = self.path.rsplit('.').next().unwrap_or_default();
            write!(f, "   (capped from {} by limits.{name}, {})", short(from, LONGEST), self.at)?;
        }
        writeln!(f)?;
        let width = self.contributions.iter().map(|c| columns(&said(c))).max().unwrap_or(0);
        let names = self.contributions.iter().map(|c| columns(&layer(c))).max().unwrap_or(0);
        for contribution in &self.contributions {
            let won = if contribution.won { "won " } else { "lost" };
            let (said, layer) = (padded(&said(contribution), width), padded(&layer(contribution), names));
            writeln!(f, "      {won} {said}  {layer}  {}", contribution.at)?;
        }
        Ok(())
    }
}

impl fmt::Display for RetryDelays {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let others = if self.by_class.is_empty() { "wait after attempt" } else { "wait after another class" };
        let own = self.by_class.iter().map(|(class, table)| (format!("wait after {class}"), table));
        let tables: Vec<_> = core::iter::once((others.to_owned(), &self.waits)).chain(own).collect();
        let width = tables.iter().map(|(title, _)| title.len()).max().unwrap_or_default();
        for (title, table) in tables {
            table.write(f, &title, width)?;
        }
        let worst = &self.worst;
        let calls = match worst.calls {
            Some(1) => "1 call".to_owned(),
            Some(calls) => format!("{calls} calls"),
            None => "unbounded calls".to_owned(),
        };
        write!(f, "  worst case: {calls}, {} waiting", length(worst.waiting))?;
        if worst.waiting_if_asked != worst.waiting {
            write!(f, " ({} if the server asks for a delay)", length(worst.waiting_if_asked))?;
        }
        writeln!(f, ", {} in attempts, {} in all", length(worst.in_attempts), length(worst.total))
    }
}

impl DelayTable {
    /// With what is waited after as its title; nothing if nothing is waited for.
    fn write(&self, f: &mut fmt::Formatter<'_>, title: &str, width: usize) -> fmt::Result {
        if self.rows.is_empty() {
            return Ok(());
        }
        let middle = if self.decorrelated { "middle draw" } else { "median" };
        let wide = middle.len().max(10);
        writeln!(f, "  {title:width$}  {:>10}  {middle:>wide$}  {:>10}", "shortest", "longest")?;
        for row in &self.rows {
            let [min, median, max] = [row.min, row.median, row.max].map(|wait| wait.rounded().to_string());
            writeln!(f, "  {:>width$}  {min:>10}  {median:>wide$}  {max:>10}", row.attempt)?;
        }
        if self.more {
            writeln!(f, "  {:>width$}", "...")?;
        }
        Ok(())
    }

    fn to_json(&self) -> Value {
        let row = |row: &super::DelayRow| {
            json!({
                "attempt": row.attempt,
                "min": row.min.to_string(),
                "median": row.median.to_string(),
                "max": row.max.to_string(),
            })
        };
        let rows = self.rows.iter().map(row).collect::<Vec<_>>();
        json!({"rows": rows, "more": self.more, "decorrelated": self.decorrelated})
    }
}

impl fmt::Display for CallLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let holds = match &self.holds {
            None => String::new(),
            Some(ConditionState::Yes) => ": holds".into(),
            Some(ConditionState::No) => ": does not hold".into(),
            Some(ConditionState::NoValue(error)) => {
                format!(": has no value, only what tightens applies; {error}")
            }
        };
        writeln!(f, "  when {} ({}){holds}", self.when, self.at)?;
        let said = |value: &Value| match value {
            Value::Null => "unset".to_owned(),
            value => edited(value),
        };
        let paths = self.says.iter().map(|(path, ..)| path.len()).max().unwrap_or(0);
        let width = self.says.iter().map(|(_, value, _)| columns(&said(value))).max().unwrap_or(0);
        for (path, value, at) in &self.says {
            writeln!(f, "      {path:paths$}  {}  {at}", padded(&said(value), width))?;
        }
        Ok(())
    }
}

impl PolicyExplanation {
    /// For people: each value, what every layer says about it, and what the retries cost at worst.
    pub fn human(&self) -> String {
        self.to_string()
    }

    /// For machines. `format` counts up when a field is removed or changes its meaning.
    pub fn to_json(&self) -> Value {
        let says = |(path, value, at): &(String, Value, Place)| {
            let op = if value.is_null() { "unset" } else { "set" };
            json!({"path": path, "op": op, "value": value, "at": at})
        };
        let conditional = self.conditional.iter().map(|layer| {
            let error = match &layer.holds {
                Some(ConditionState::NoValue(error)) => Some(error),
                _ => None,
            };
            json!({
                "when": layer.when,
                "at": layer.at,
                "says": layer.says.iter().map(says).collect::<Vec<_>>(),
                "holds": layer.holds.as_ref().map(|holds| *holds == ConditionState::Yes),
                "error": error,
            })
        });
        let limits = self.limits.iter().map(
            |limit| json!({"name": limit.name, "value": limit.value, "at": limit.at, "binds": limit.binds}),
        );
        json!({
            "format": 1,
            "subject": self.subject,
            "values": self.values.iter().map(ExplainedValue::to_json).collect::<Vec<_>>(),
            "limits": limits.collect::<Vec<_>>(),
            "conditional": conditional.collect::<Vec<_>>(),
            "left_out": self.left_out,
            "call": self.verdict.as_ref().map(|(_, json)| json),
            "delays": self.delays.as_ref().map(RetryDelays::to_json),
        })
    }
}

impl ExplainedValue {
    fn to_json(&self) -> Value {
        let contribution = |c: &LayerContribution| {
            let op = if c.set.is_some() { "set" } else { "unset" };
            json!({"won": c.won, "op": op, "value": c.set, "layer": c.layer, "scope": c.scope, "at": c.at})
        };
        json!({
            "path": self.path,
            "value": self.value,
            "scope": self.scope,
            "at": self.at,
            "capped_from": self.capped_from,
            "contributions": self.contributions.iter().map(contribution).collect::<Vec<_>>(),
        })
    }
}

impl RetryDelays {
    pub(super) fn to_json(&self) -> Value {
        let by_class = self.by_class.iter().map(|(class, table)| (class.name().to_owned(), table.to_json()));
        let mut json = self.waits.to_json();
        if let Value::Object(json) = &mut json {
            json.insert("by_class".into(), by_class.collect::<Map<_, _>>().into());
            json.insert("calls".into(), self.worst.calls.into());
            json.insert("waiting".into(), exact(self.worst.waiting).into());
            json.insert("waiting_if_asked".into(), exact(self.worst.waiting_if_asked).into());
            json.insert("in_attempts".into(), exact(self.worst.in_attempts).into());
            json.insert("total".into(), exact(self.worst.total).into());
        }
        json
    }
}

/// `set 9`, `add [timeout] remove [rate_limit]`, `unset`.
fn said(contribution: &LayerContribution) -> String {
    contribution.set.as_ref().map_or_else(|| "unset".into(), edited)
}

fn edited(value: &Value) -> String {
    match value {
        Value::Object(edit) if !edit.is_empty() && edit.keys().all(|key| key == "add" || key == "remove") => {
            let mut out = String::new();
            for (key, classes) in edit {
                let space = if out.is_empty() { "" } else { " " };
                // Writing into a string does not fail.
                let _ = write!(out, "{space}{key} {}", short(classes, LONGEST_SAID));
            }
            out
        }
        value => format!("set {}", short(value, LONGEST_SAID)),
    }
}

pub(super) fn layer(contribution: &LayerContribution) -> String {
    match contribution.scope {
        crate::policy::LayerKind::Builtin => format!("built-in {}", contribution.layer),
        _ => contribution.layer.clone(),
    }
}

/// On one line, cut, and with as few quotes as can be.
pub(super) fn short(value: &Value, longest: usize) -> String {
    excerpt(&flow(value), longest)
}

/// For machines: to the nanosecond; null is unbounded.
pub(super) fn exact(length: TimeBound) -> Option<String> {
    match length {
        TimeBound::Within(Nanos::MAX) => Some("more than 584 years".into()),
        TimeBound::Within(length) => Some(length.to_string()),
        TimeBound::Unlimited => None,
    }
}

pub(super) fn length(length: TimeBound) -> String {
    match length {
        TimeBound::Within(Nanos::MAX) => "more than 584 years".into(),
        TimeBound::Within(length) => length.rounded().to_string(),
        TimeBound::Unlimited => "unbounded".into(),
    }
}
