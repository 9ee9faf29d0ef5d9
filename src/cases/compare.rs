//! Holds what happened against what was expected.

use serde_json::{Value, json};

use super::expect::{ExpectRule, ExpectedEnd};
use super::pattern::{RecordFields, RecordPattern, matches};
use super::record::{CaseRecord, RecordedMoment};
use super::why;
use crate::policy::decode::Spanned;
use crate::text::Span;

/// An expectation that was not met.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpectationMismatch {
    /// The key of the expectation: `delays`.
    pub what: String,
    /// Expected and got, line by line.
    pub rows: Vec<MismatchRow>,
    /// What would make it hold, where that is a number or a list that was written out; its place, and its text.
    pub(crate) fix: Option<(Span, String)>,
}

/// One line of an expectation that was not met.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MismatchRow {
    /// What was expected; empty: nothing more.
    pub expected: String,
    /// What came; empty: nothing more.
    pub got: String,
    /// Whether they agree.
    pub same: bool,
}

/// Every expectation that was not met.
pub(crate) fn compare(expect: &ExpectRule, record: &CaseRecord) -> Vec<ExpectationMismatch> {
    let mut held = RecordComparison { mismatches: Vec::new() };
    for problem in &record.problems {
        held.fail("case", vec![row(problem.expected, &problem.found, false)], None);
    }
    if record.problems.is_empty() {
        held.unused(expect, record);
    }
    held.numbers(expect, record);
    if let Some(calls) = &expect.calls {
        held.list("calls", &runs(&calls.value), &record.calls);
    }
    held.patterns("waits", expect.waits.as_ref(), &record.waits);
    held.patterns("refused", expect.refused.as_ref(), &record.refused);
    held.patterns("feedback", expect.feedback.as_ref(), &record.feedback);
    held.told(expect, record);
    if let Some(messages) = &expect.messages {
        let found: Vec<Value> =
            record.messages.iter().map(|message| serde_json::to_value(message).unwrap_or_default()).collect();
        held.subsequence("messages", &values(&messages.value), &found);
    }
    let of = |directive: bool| -> Vec<Value> {
        record.moments.iter().filter(|moment| moment.directive == directive).map(timed).collect()
    };
    if let Some(directives) = &expect.directives {
        held.subsequence("directives", &values(&directives.value), &of(true));
    }
    if let Some(events) = &expect.events {
        held.subsequence("events", &values(&events.value), &of(false));
    }
    held.state(expect, record);
    held.ending(expect, record);
    held.why(expect, record);
    if let Some(never) = &expect.never {
        let all: Vec<Value> = record.moments.iter().map(timed).collect();
        for pattern in &never.value.0 {
            if let Some(found) = all.iter().find(|found| matches(&pattern.value, found)) {
                held.fail(
                    "never",
                    vec![row(&format!("never {}", pattern.value), &short(found), false)],
                    None,
                );
            }
        }
    }
    held.mismatches
}

struct RecordComparison {
    mismatches: Vec<ExpectationMismatch>,
}

impl RecordComparison {
    fn fail(&mut self, what: &str, rows: Vec<MismatchRow>, fix: Option<(Span, String)>) {
        self.mismatches.push(ExpectationMismatch { what: what.to_owned(), rows, fix });
    }

    fn equal<T: PartialEq + ToString>(&mut self, what: &str, expected: Option<&Spanned<T>>, got: &T) {
        if let Some(expected) = expected.filter(|expected| expected.value != *got) {
            let (wanted, got) = (expected.value.to_string(), got.to_string());
            let fix = Some((expected.span, got.clone()));
            self.fail(what, vec![row(&wanted, &got, false)], fix);
        }
    }

    fn numbers(&mut self, expect: &ExpectRule, record: &CaseRecord) {
        let tools = u32::try_from(record.calls.len()).unwrap_or(u32::MAX);
        let attempts = if record.turns { record.model_calls } else { tools };
        self.equal("attempts", expect.attempts.as_ref(), &attempts);
        self.equal("turns", expect.turns.as_ref(), &record.state.turn);
        self.equal("elapsed", expect.elapsed.as_ref(), &record.elapsed);
        if let Some(delays) = expect.delays.as_ref().filter(|delays| delays.value != record.delays) {
            let text =
                |delays: &[crate::time::Nanos]| delays.iter().map(ToString::to_string).collect::<Vec<_>>();
            let (expected, got) = (text(&delays.value), text(&record.delays));
            let fix = (delays.span, format!("[{}]", got.join(", ")));
            self.fail("delays", rows(&expected, &got, |a, b| a == b), Some(fix));
        }
    }

    /// A case that says more than what happens usually shows something else than it means to.
    fn unused(&mut self, expect: &ExpectRule, record: &CaseRecord) {
        let wanted = expect.unused.as_ref().map_or(0, |unused| unused.value);
        let left = record.unused.len();
        if usize::try_from(wanted).is_ok_and(|wanted| wanted == left) {
            return;
        }
        let all = match wanted {
            0 => format!("all that is scripted is used, or `unused: {left}`"),
            some => format!("{some} of what is scripted are never used"),
        };
        let first = if left == 0 { "all of it is used" } else { "these are never used:" };
        let mut rows = vec![row(&all, first, false)];
        rows.extend(record.unused.iter().map(|what| row("", what, false)));
        self.fail("unused", rows, None);
    }

    fn patterns<F: RecordFields>(
        &mut self,
        what: &str,
        expected: Option<&Spanned<Vec<RecordPattern<F>>>>,
        found: &[Value],
    ) {
        if let Some(expected) = expected {
            self.list(what, &values(&expected.value), found);
        }
    }

    /// All of them, in order.
    fn list(&mut self, what: &str, expected: &[Value], found: &[Value]) {
        let same = expected.len() == found.len()
            && expected.iter().zip(found).all(|(want, found)| matches(want, found));
        if same {
            return;
        }
        let most = expected.len().max(found.len());
        let rows = (0..most).map(|index| {
            let (want, found) = (expected.get(index), found.get(index));
            MismatchRow {
                expected: want.map(ToString::to_string).unwrap_or_default(),
                got: found.map(|found| like(want, found)).unwrap_or_default(),
                same: want.zip(found).is_some_and(|(want, found)| matches(want, found)),
            }
        });
        self.fail(what, rows.collect(), None);
    }

    /// Those that are named, in order, with anything between.
    fn subsequence(&mut self, what: &str, expected: &[Value], found: &[Value]) {
        let mut rest = found.iter();
        let mut rows = Vec::new();
        for want in expected {
            let before = rest.clone();
            if let Some(found) = rest.by_ref().find(|found| matches(want, found)) {
                rows.push(row(&want.to_string(), &like(Some(want), found), true));
                continue;
            }
            // The nearest is one of the same kind.
            let kind = ["directive", "event", "role"].into_iter().find_map(|key| Some((key, want.get(key)?)));
            let alike =
                kind.and_then(|(key, kind)| before.clone().find(|found| found.get(key) == Some(kind)));
            let earlier = found.iter().any(|found| matches(want, found));
            let got = match alike {
                Some(found) => like(Some(want), found),
                None if earlier => "only earlier than expected".to_owned(),
                None => "does not happen".to_owned(),
            };
            rows.push(row(&want.to_string(), &got, false));
            return self.fail(what, rows, None);
        }
    }

    fn told(&mut self, expect: &ExpectRule, record: &CaseRecord) {
        let Some(told) = &expect.told else { return };
        let all = record.told();
        let (mut message, mut at) = (0, 0);
        for piece in &told.value.0 {
            let found = all.iter().enumerate().skip(message).find_map(|(index, text)| {
                let from = if index == message { at } else { 0 };
                let found = text.get(from..)?.find(piece.as_str())?;
                Some((index, from.saturating_add(found).saturating_add(piece.len())))
            });
            if let Some(place) = found {
                (message, at) = place;
                continue;
            }
            let mut rows = vec![row(piece, "", false)];
            rows.extend(all.iter().skip(message).map(|text| row("", text, false)));
            return self.fail("told", rows, None);
        }
    }

    fn state(&mut self, expect: &ExpectRule, record: &CaseRecord) {
        if let Some(slices) = &expect.slices {
            self.partial(
                "slices",
                &slices.value.0,
                &serde_json::to_value(record.state.slices()).unwrap_or_default(),
            );
        }
        if let Some(state) = &expect.state {
            self.partial("state", &state.value.0, &serde_json::to_value(&record.state).unwrap_or_default());
        }
    }

    fn partial(&mut self, what: &str, expected: &Value, found: &Value) {
        if matches(expected, found) {
            return;
        }
        let rows = expected.as_object().map_or_else(
            || vec![row(&expected.to_string(), &found.to_string(), false)],
            |fields| {
                let line = |(name, want): (&String, &Value)| {
                    let got = found.get(name).unwrap_or(&Value::Null);
                    row(
                        &format!("{name}: {want}"),
                        &format!("{name}: {}", like(Some(want), got)),
                        matches(want, got),
                    )
                };
                fields.iter().map(line).collect()
            },
        );
        self.fail(what, rows, None);
    }

    fn ending(&mut self, expect: &ExpectRule, record: &CaseRecord) {
        let ending = &record.ending;
        if let Some(wanted) = &expect.r#final {
            let held = match wanted.value {
                ExpectedEnd::Failed => matches!(ending.status, "failed" | "retry_exhausted"),
                other => other.name() == ending.status,
            };
            if !held {
                let got = match &ending.reason {
                    Some(reason) => format!("{} ({reason})", ending.status),
                    None => ending.status.to_owned(),
                };
                self.fail("final", vec![row(wanted.value.name(), &got, false)], None);
            }
        }
        if let Some(wanted) = &expect.reason {
            let got = ending.reason.clone().unwrap_or_default();
            if wanted.value != got {
                self.fail("reason", vec![row(&wanted.value, &got, false)], None);
            }
        }
        if let Some(wanted) = &expect.output {
            match &ending.output {
                Some(output) if matches(&wanted.value.0, output) => {}
                output => {
                    let got = output.as_ref().map_or_else(|| "none".to_owned(), ToString::to_string);
                    self.fail("output", vec![row(&wanted.value.0.to_string(), &got, false)], None);
                }
            }
        }
    }

    fn why(&mut self, expect: &ExpectRule, record: &CaseRecord) {
        let Some(expected) = &expect.why else { return };
        let mut rows = Vec::new();
        for (rule, places) in &expected.value {
            let decided: Vec<_> =
                record.because.iter().filter(|because| why::same_rule(rule, &because.rule)).collect();
            for place in &places.0 {
                // What cannot be read was reported when the file was.
                let Ok(wanted) = why::ExpectedPlace::parse(&place.value) else { continue };
                let held = decided.iter().any(|because| wanted.holds(because));
                let mut got: Vec<String> = decided.iter().map(|because| why::shown(because)).collect();
                got.dedup();
                let got = match got.as_slice() {
                    [] => format!("{rule} decided nothing"),
                    got => format!("{rule}: {}", got.join(", ")),
                };
                rows.push(row(&format!("{rule}: {}", place.value), &got, held));
            }
        }
        if rows.iter().any(|row| !row.same) {
            self.fail("why", rows, None);
        }
    }
}

fn values<F: RecordFields>(patterns: &[RecordPattern<F>]) -> Vec<Value> {
    patterns.iter().map(|pattern| pattern.value.clone()).collect()
}

/// `search x3` stands for three runs, the attempts 1 to 3.
fn runs<F: RecordFields>(patterns: &[RecordPattern<F>]) -> Vec<Value> {
    let expand = |pattern: &RecordPattern<F>| -> Vec<Value> {
        let word = pattern.value.get("tool").and_then(Value::as_str).unwrap_or_default();
        match word.rsplit_once(" x").map(|(tool, times)| (tool, times.parse::<u32>())) {
            Some((tool, Ok(times))) => {
                (1..=times.min(10_000)).map(|attempt| json!({"tool": tool, "attempt": attempt})).collect()
            }
            _ => vec![pattern.value.clone()],
        }
    };
    patterns.iter().flat_map(expand).collect()
}

/// With the time from the start.
fn timed(moment: &RecordedMoment) -> Value {
    let mut json = moment.json.clone();
    if let Some(fields) = json.as_object_mut() {
        fields.insert("at".to_owned(), moment.at.to_string().into());
    }
    json
}

/// The fields of `found` that are expected, for a line of their own.
fn like(expected: Option<&Value>, found: &Value) -> String {
    match expected {
        Some(expected @ Value::Object(_)) if found.is_object() => fields(expected, found).to_string(),
        _ => short(found),
    }
}

/// What is expected of a record, as it is found.
fn fields(expected: &Value, found: &Value) -> Value {
    match (expected, found) {
        (Value::Object(expected), Value::Object(record)) if !expected.is_empty() => {
            let field = |(key, wanted): (&String, &Value)| {
                (key.clone(), fields(wanted, record.get(key).unwrap_or(&Value::Null)))
            };
            Value::Object(expected.iter().map(field).collect())
        }
        _ => found.clone(),
    }
}

fn short(found: &Value) -> String {
    let mut found = found.clone();
    if let Some(fields) = found.as_object_mut() {
        for noise in ["because", "idempotency_key", "work", "seq", "now"] {
            fields.remove(noise);
        }
    }
    found.to_string()
}

fn row(expected: &str, got: &str, same: bool) -> MismatchRow {
    MismatchRow { expected: expected.to_owned(), got: got.to_owned(), same }
}

fn rows(expected: &[String], got: &[String], same: impl Fn(&str, &str) -> bool) -> Vec<MismatchRow> {
    let most = expected.len().max(got.len());
    let line = |index: usize| match (expected.get(index), got.get(index)) {
        (Some(expected), Some(got)) => row(expected, got, same(expected, got)),
        (Some(expected), None) => row(expected, "", false),
        (None, got) => row("", got.map_or("", String::as_str), false),
    };
    (0..most).map(line).collect()
}
