//! The short form of an explanation: what people ask first, then the values that their own files set.

use core::fmt::Write as _;

use serde_json::{Value, json};

use super::render::{LONGEST, length, short};
use super::worst::AttemptKind;
use super::{ExplainedValue, PolicyExplanation};
use crate::policy::{ErrorClass, LayerKind, RetryPolicy, TimeBound};
use crate::text::Template;

/// So many classes are named; the rest is counted.
const NAMED: usize = 6;

impl PolicyExplanation {
    /// For people, in short: how often, how long, what the model learns and what ends it; then the values that are set in
    /// files, with what every layer says of them. [`PolicyExplanation::human`] has all values.
    pub fn brief(&self) -> String {
        let mut out = format!("effective policy for {}\n", self.subject);
        if let Some((verdict, _)) = &self.verdict {
            // Writing into a string does not fail.
            let _ = writeln!(out, "  {:<9}  {verdict}", "this call");
        }
        if let Some((retry, work)) = &self.rules {
            for (title, text) in [
                ("how often", self.how_often(retry, work.kind)),
                ("how long", self.how_long()),
                ("the model", self.told()),
                ("ends with", self.end_of_attempts()),
            ] {
                let _ = writeln!(out, "  {title:<9}  {text}");
            }
        }
        for (title, text) in &self.opening {
            let _ = writeln!(out, "  {title:<9}  {text}");
        }
        let (own, rest): (Vec<_>, Vec<_>) = self.values.iter().partition(|value| is_set_in_files(value));
        let count = own.len();
        let _ = match count {
            0 => writeln!(out, "\nyour files set none of its {} values", self.values.len()),
            _ => writeln!(out, "\nset by your files ({count} of {} values)", self.values.len()),
        };
        for value in own {
            let _ = write!(out, "\n{value}");
        }
        if !self.budgets.is_empty() {
            out.push_str("\nthe run has budgets, which bound all of it\n");
        }
        for budget in &self.budgets {
            let _ = write!(out, "\n{budget}");
        }
        for layer in &self.conditional {
            let _ = write!(out, "\n{layer}");
        }
        for left_out in &self.left_out {
            let _ = writeln!(out, "\n  does not apply: {left_out}");
        }
        if !rest.is_empty() {
            let waits = if self.delays.is_some() { " and the table of waits" } else { "" };
            let _ = writeln!(out, "\n--all shows the {} built-in values{waits}", rest.len());
        }
        out
    }

    fn how_often(&self, retry: &RetryPolicy, kind: AttemptKind) -> String {
        if !retry.enabled.value {
            return "1 attempt: retry.enabled is false".to_owned();
        }
        let most = self.delays.as_ref().map_or(Some(1), |delays| delays.worst.calls);
        let most = most.map_or_else(|| "any number of".to_owned(), |most| most.to_string());
        let plural = if most == "1" { "attempt" } else { "attempts" };
        let classes: Vec<ErrorClass> = ErrorClass::ALL
            .iter()
            .copied()
            .filter(|class| kind.fails_with(*class) && retry.retries(*class))
            .collect();
        let named: Vec<&str> = classes.iter().take(NAMED).map(|class| class.name()).collect();
        match (classes.len(), classes.len().saturating_sub(NAMED)) {
            (0, _) => format!("{most} {plural}; no error is retried"),
            (_, 0) => format!("{most} {plural}; retried: {}", named.join(", ")),
            (_, more) => format!("{most} {plural}; retried: {} and {more} more", named.join(", ")),
        }
    }

    fn how_long(&self) -> String {
        let Some(delays) = &self.delays else { return "no waits".to_owned() };
        let worst = &delays.worst;
        let first = delays.waits.rows.first().map(|row| {
            if row.min == row.max {
                format!("first wait {}; ", row.min.rounded())
            } else {
                format!("first wait {} to {}; ", row.min.rounded(), row.max.rounded())
            }
        });
        let asked = if worst.waiting_if_asked == worst.waiting {
            String::new()
        } else {
            format!(" ({} with Retry-After)", length(worst.waiting_if_asked))
        };
        let first = first.unwrap_or_default();
        let total = match worst.total {
            TimeBound::Unlimited => "no bound in all".to_owned(),
            TimeBound::Within(_) => format!("{} in all", length(worst.total)),
        };
        format!("{first}at most {} of waiting{asked}, {total}", length(worst.waiting))
    }

    /// What the model reads of failures.
    fn told(&self) -> String {
        let feedback = match self.get("retry.emit_feedback").map(|value| &value.value) {
            Some(Value::Bool(false)) => "no feedback in the session",
            _ => "feedback in the session after each failure",
        };
        let text = ["messages.exhausted", "messages.invalid"].iter().find_map(|path| self.get(path));
        match text {
            Some(text) => {
                let shown = self.rendered(&text.value).unwrap_or_else(|| text.value.clone());
                format!("reads {} ({}); {feedback}", short(&first_line(&shown), LONGEST), text.at)
            }
            None => format!("reads nothing of failed attempts; {feedback}"),
        }
    }

    /// What the text about a tool whose attempts are used up is, with an error that is left open.
    fn rendered(&self, text: &Value) -> Option<Value> {
        let attempts = self.delays.as_ref().and_then(|delays| delays.worst.calls).unwrap_or(1);
        let vars = json!({
            "tool": self.path.get(1)?, "error": "…", "error_type": "timeout", "attempts": attempts,
            "may_have_acted": false,
        });
        let vars = vars.as_object()?;
        let names: Vec<&str> = vars.keys().map(String::as_str).collect();
        let text = Template::parse(text.as_str()?, &names).ok()?.render(vars).ok()?;
        Some(text.into())
    }
}

/// Whether a file sets it or limits it.
fn is_set_in_files(value: &ExplainedValue) -> bool {
    value.capped_from.is_some() || value.contributions.iter().any(|said| said.scope != LayerKind::Builtin)
}

fn first_line(text: &Value) -> Value {
    text.as_str().map_or_else(|| text.clone(), |text| text.lines().next().unwrap_or_default().into())
}
