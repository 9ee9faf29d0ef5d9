//! A scenario that does what recorded sessions met.
//!
//! Every value stands beside the number of calls that it was read from. What was seen is one past: `docs/tune.md` says what to
//! add to it.

use core::fmt::Write as _;
use std::collections::BTreeMap;

use serde_json::Value;

use super::layer::quoted;
use super::samples::{CallSample, ServiceSamples, SessionSamples};
use crate::policy::{Effect, ErrorClass};
use crate::time::Nanos;

/// Fewer calls than this say little.
const ENOUGH: usize = 30;
/// So many failures of one class in a row are an outage.
const OUTAGE: usize = 3;
/// Outages that are closer together are one.
const GAP: u64 = 30_000_000_000;
const MINUTE: u64 = 60_000_000_000;

/// An outage: calls that failed one after the other.
struct FittedOutage {
    class: ErrorClass,
    from: u64,
    to: u64,
    hint: Option<Nanos>,
    calls: usize,
}

impl SessionSamples {
    /// The scenario, as a file; `None`: no run was recorded, or no model was called.
    pub(crate) fn scenario(mut self, from: &str) -> Option<String> {
        for service in self.models.values_mut().chain(self.tools.values_mut()) {
            service.calls.sort_by_key(|call| (call.at, call.took));
        }
        self.models.retain(|_, model| !model.calls.is_empty());
        let start = *self.runs.iter().min()?;
        let last = *self.runs.iter().max()?;
        if self.models.is_empty() {
            return None;
        }
        let runs = self.runs.len();
        let mut page = format!("# What {runs} runs met that are recorded in {from}.\nversion: 1\n");
        let _ = writeln!(page, "about: {}", Value::from(format!("{runs} recorded runs")));
        let _ = writeln!(page, "agents: {}", runs.min(100_000));
        if last > start {
            let _ = writeln!(page, "arrival: {{kind: random, over: {}}}", time(last - start));
        }
        let _ = writeln!(page, "duration: {}", time((self.end - start).max(1_000_000_000)));
        page.push_str("runs: 1\n");
        let (calls, parallel) = (median(&mut self.calls), median(&mut self.parallel).max(1));
        let report = self.report.as_ref().map(|report| format!(", report: {report}")).unwrap_or_default();
        let _ = writeln!(page, "work: {{calls: {}, parallel: {parallel}{report}}}", calls.min(10_000));
        page.push_str("models:\n");
        for (name, model) in &self.models {
            model.write(&mut page, name, start);
        }
        self.tools.retain(|_, tool| !tool.calls.is_empty());
        if !self.tools.is_empty() {
            page.push_str("tools:\n");
        }
        for (name, tool) in &self.tools {
            tool.write(&mut page, name, start);
        }
        Some(page)
    }
}

impl ServiceSamples {
    /// Its entry. Times count from `start`.
    fn write(&self, page: &mut String, name: &str, start: u64) {
        let _ = writeln!(page, "  {}:  # {}", quoted(name), count_of(self.calls.len(), "call"));
        let took = |failed: bool| -> Vec<u64> {
            let of = self.calls.iter().filter(|call| call.failed.is_some() == failed);
            of.map(|call| call.took).collect()
        };
        if let Some((latency, count)) = latency(took(false)) {
            let _ = writeln!(page, "    latency: {latency}  # {}", count_of(count, "answer"));
        }
        if let Some((latency, count)) = latency(took(true)) {
            let _ = writeln!(page, "    fails_after: {latency}  # {}", count_of(count, "failure"));
        }
        if let Some(effect) = self.effect {
            let _ = writeln!(page, "    effect: {}", effect_name(effect));
        }
        if let Some(Value::Object(arguments)) = &self.arguments {
            let mut arguments = arguments.clone();
            // No two calls are the same, or the policy would take them for repetitions.
            arguments.entry("number").or_insert_with(|| "{n}".into());
            let _ = writeln!(page, "    arguments: {}", Value::from(arguments));
        }
        if !self.tokens.is_empty() {
            let part =
                |of: fn(&(u64, u64)) -> u64| median(&mut self.tokens.iter().map(of).collect::<Vec<_>>());
            let _ = writeln!(
                page,
                "    tokens: {{input: {}, output: {}}}",
                part(|tokens| tokens.0),
                part(|tokens| tokens.1)
            );
        }
        let limit = self.limit();
        if let Some((calls, is_hinted)) = limit {
            let hint = if is_hinted { "" } else { ", retry_after: false" };
            let _ = writeln!(
                page,
                "    capacity: {{calls: {calls}, per: 1m{hint}}}  # accepted in a minute before a refusal"
            );
        }
        let of_limit = |call: &CallSample| limit.is_some() && class_of(call) == Some(ErrorClass::RateLimit);
        let calls: Vec<CallSample> = self.calls.iter().filter(|call| !of_limit(call)).copied().collect();
        let outages = outages(&calls);
        Self::write_faults(page, &calls, &outages);
        if !outages.is_empty() {
            page.push_str("    trace:\n");
        }
        for FittedOutage { class, from, to, hint, calls } in outages {
            let hint = hint.map(|hint| format!(", retry_after: {hint}")).unwrap_or_default();
            let (from, to) = (time(from.saturating_sub(start)), time(to.saturating_sub(start)));
            let _ =
                writeln!(page, "      - {{from: {from}, to: {to}, fault: {class}{hint}}}  # {calls} calls");
        }
    }

    /// The failures outside of outages, as fractions of the calls outside of them.
    fn write_faults(page: &mut String, calls: &[CallSample], outages: &[FittedOutage]) {
        let inside =
            |call: &&CallSample| outages.iter().any(|outage| (outage.from..outage.to).contains(&call.at));
        let outside: Vec<&CallSample> = calls.iter().filter(|call| !inside(call)).collect();
        let mut faults: BTreeMap<ErrorClass, u128> = BTreeMap::new();
        for class in outside.iter().filter_map(|call| class_of(call)) {
            *faults.entry(class).or_default() += 1;
        }
        if faults.is_empty() {
            return;
        }
        let all = u128::try_from(outside.len()).unwrap_or(u128::MAX);
        let share = |count: u128| {
            let millionths = (count * 1_000_000 / all).min(999_999);
            format!("0.{millionths:06}").trim_end_matches('0').to_owned()
        };
        let rates: Vec<String> =
            faults.iter().map(|(class, count)| format!("{class}: {}", share(*count))).collect();
        let _ =
            writeln!(page, "    faults: {{{}}}  # of {}", rates.join(", "), count_of(outside.len(), "call"));
    }

    /// How many calls a minute were accepted before one was refused, the upper median, and whether refusals had hints; `None`:
    /// fewer were refused than an outage has.
    fn limit(&self) -> Option<(u64, bool)> {
        let refused = || self.calls.iter().filter(|call| class_of(call) == Some(ErrorClass::RateLimit));
        if refused().count() < OUTAGE {
            return None;
        }
        let accepted = |refused: &CallSample| {
            let minute = refused.at.saturating_sub(MINUTE)..=refused.at;
            let taken = self.calls.iter().filter(|call| call.failed.is_none() && minute.contains(&call.at));
            u64::try_from(taken.count()).unwrap_or(u64::MAX)
        };
        let mut accepted: Vec<u64> = refused().map(accepted).collect();
        let is_hinted = refused().any(|call| matches!(call.failed, Some((_, Some(_)))));
        Some((median(&mut accepted).max(1), is_hinted))
    }
}

/// At least so many failures of one class in a row, up to the next success.
fn outages(calls: &[CallSample]) -> Vec<FittedOutage> {
    let mut found: Vec<FittedOutage> = Vec::new();
    let mut rest = calls;
    while let Some(class) = rest.first().map(class_of) {
        let length = rest.iter().take_while(|call| class_of(call) == class).count();
        let (streak, behind) = rest.split_at(length);
        rest = behind;
        let Some(class) = class.filter(|_| length >= OUTAGE) else { continue };
        let (Some(first), Some(last)) = (streak.first(), streak.last()) else { continue };
        // It may have been over before somebody called again, but not before the last call failed.
        let to = last.end().max(last.at.saturating_add(1)).max(first.at.saturating_add(1_000_000_000));
        let mut hints: Vec<u64> = streak.iter().filter_map(|call| Some(call.failed?.1?.0)).collect();
        let hint = (!hints.is_empty()).then(|| Nanos(median(&mut hints)));
        match found.last_mut() {
            Some(before) if before.class == class && first.at.saturating_sub(before.to) <= GAP => {
                before.to = to;
                before.calls += length;
            }
            _ => found.push(FittedOutage { class, from: first.at, to, hint, calls: length }),
        }
    }
    found
}

fn class_of(call: &CallSample) -> Option<ErrorClass> {
    call.failed.map(|(class, _)| class)
}

/// A distribution of times, and how many there are.
fn latency(mut times: Vec<u64>) -> Option<(String, usize)> {
    let count = times.len();
    if count == 0 {
        return None;
    }
    let middle = median(&mut times).max(1_000_000);
    let high = times.get((count * 99).div_ceil(100).saturating_sub(1)).copied().unwrap_or(middle);
    let (middle, high) = (time(middle), time(high.max(middle)));
    if middle == high || count < OUTAGE {
        return Some((middle, count));
    }
    Some((format!("{{kind: lognormal, median: {middle}, p99: {high}}}"), count))
}

/// The upper median; the numbers are sorted afterwards.
fn median(numbers: &mut [u64]) -> u64 {
    numbers.sort_unstable();
    numbers.get(numbers.len() / 2).copied().unwrap_or_default()
}

/// A time in three digits.
fn time(time: u64) -> String {
    Nanos(time).rounded().to_string()
}

/// `1 call`, `12 calls, too few to say much`.
fn count_of(count: usize, what: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    let few = if count < ENOUGH { ", too few to say much" } else { "" };
    format!("{count} {what}{plural}{few}")
}

fn effect_name(effect: Effect) -> String {
    serde_json::to_value(effect).ok().and_then(|name| name.as_str().map(str::to_owned)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn call(at: u64, took: u64, failed: Option<ErrorClass>) -> CallSample {
        CallSample { at: at * SECOND, took: took * SECOND, failed: failed.map(|class| (class, None)) }
    }

    fn fitted(calls: Vec<CallSample>) -> String {
        let mut samples = SessionSamples {
            runs: vec![0, 50 * SECOND],
            calls: vec![2, 4],
            end: 600 * SECOND,
            ..SessionSamples::default()
        };
        samples.models.insert("main".into(), ServiceSamples { calls, ..ServiceSamples::default() });
        let text = samples.scenario("sessions").unwrap();
        crate::simulate::Scenario::read("fitted.yaml", text.as_bytes()).unwrap();
        text
    }

    #[test]
    fn failures_in_a_row_are_an_outage_and_single_ones_a_rate() {
        let mut calls: Vec<CallSample> = (0..40).map(|at| call(at * 10, 2 + at % 3, None)).collect();
        calls.push(call(5, 1, Some(ErrorClass::Timeout)));
        calls.extend((1..5).map(|at| call(200 + at, 1, Some(ErrorClass::Overloaded))));
        insta::assert_snapshot!(fitted(calls));
    }

    #[test]
    fn refusals_are_a_limit_and_no_fault() {
        let mut calls: Vec<CallSample> = (0..120).map(|at| call(at * 2, 1, None)).collect();
        calls.extend((1..6).map(|at| call(60 + at * 30, 0, Some(ErrorClass::RateLimit))));
        let text = fitted(calls);
        assert!(text.contains("capacity: {calls: 31, per: 1m, retry_after: false}"), "{text}");
        assert!(!text.contains("faults") && !text.contains("trace"), "{text}");
    }

    #[test]
    fn nothing_recorded_is_no_scenario() {
        assert_eq!(SessionSamples::default().scenario("sessions"), None);
    }
}
