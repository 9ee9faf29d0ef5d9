//! Which way a difference goes: the direction of every field.

use serde_json::Value;

use super::DiffVerdict;
use crate::policy::{parse_duration, parse_millionths};

/// Which values of a field are looser.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    /// Larger numbers and longer times; without end or absent is the most.
    More,
    /// Smaller numbers and shorter times.
    Less,
    /// Later ones of these words; words that are not here have no direction.
    Words(&'static [&'static str]),
    /// Fewer entries.
    Fewer,
    /// More entries.
    Further,
    /// None: a difference is only a difference.
    None,
}

/// The direction of a field; `None`: nobody has said. A test keeps that from happening.
pub(super) fn direction(path: &str) -> Option<Direction> {
    let (block, field) = path.rsplit_once('.').unwrap_or(("", path));
    Some(match (block, field) {
        // Of these no value is looser than another; classes have rows of their own.
        (
            "messages"
            | "loop_guard.messages"
            | "targets"
            | "guidance"
            | "result"
            | "tokens"
            | "tokens.bytes_per_token",
            _,
        )
        | ("breaker", "count")
        | (
            "",
            "tool" | "description" | "schema" | "feedback_chars" | "repair_json" | "leaked_calls"
            | "malformed_calls" | "collapse" | "check" | "orphan_calls" | "argument_chars" | "pending_report"
            | "on_stop" | "cool_down" | "provider" | "price" | "context_window" | "assumed_window"
            | "output_reserve" | "reserve" | "safety" | "evict_at" | "gate" | "target" | "results" | "reduce"
            | "keep_task" | "recover" | "give_up_after",
        )
        | (
            _,
            "message" | "backoff" | "correction_backoff" | "server_delay" | "budget" | "emit_feedback"
            | "on_exhausted",
        ) => Direction::None,
        ("breaker", "scope") => Direction::Words(&["shared", "session", "run", "turn"]),
        ("breaker", "hide") | ("loop_guard", "enabled") => Direction::Words(&["true", "false"]),
        ("loop_guard", "count") => Direction::Words(&["in_all", "in_a_row"]),
        ("calls", "parallel" | "most") | ("approval", "timeout") | (_, "concurrency") => Direction::More,
        ("calls", "failed_rounds" | "unpack_arguments" | "correct_names" | "suggestions")
        | ("calls.messages", _)
        | (_, "after_effect") => Direction::None,
        (_, "approval") => Direction::Words(&["always", "never"]),
        ("approval", "unanswered") => Direction::Words(&["refuse", "approve"]),
        ("breaker", "open_for" | "successes") | (_, "min_attempt_time") => Direction::Less,
        ("timeouts", _) | ("breaker", "probes") | (_, "nudge" | "block" | "final_turn") => Direction::More,
        (_, "enabled") => Direction::Words(&["false", "true"]),
        (_, "shadow") => Direction::Words(&["true", "false"]),
        ("limits.run", _)
        | (
            _,
            "max_attempts" | "deadline" | "attempt_timeout" | "total_delay" | "run_delay" | "max_turns"
            | "failures",
        ) => Direction::More,
        // Whether a run may be repeated; of the last two, each may.
        (_, "effect") => Direction::Words(&["non_idempotent", "unknown", "idempotent"]),
        (_, "after_partial") => Direction::Words(&["fail", "retry"]),
        (_, "text_only") => Direction::Words(&["reject", "accept"]),
        (_, "retry_on") => Direction::Further,
        (_, "validate" | "never_retry" | "abort_on") => Direction::Fewer,
        _ => return None,
    })
}

/// What it means that the value at a path is another one.
pub(super) fn of(path: &str, old: Option<&Value>, new: Option<&Value>) -> DiffVerdict {
    let compared = match direction(path) {
        Some(Direction::More) => amount(old).partial_cmp(&amount(new)),
        Some(Direction::Less) => amount(new).partial_cmp(&amount(old)),
        Some(Direction::Words(words)) => {
            rank(words, old).zip(rank(words, new)).map(|(old, new)| old.cmp(&new))
        }
        Some(Direction::Fewer) => contained(new, old),
        Some(Direction::Further) => contained(old, new),
        Some(Direction::None) | None => None,
    };
    match compared {
        Some(core::cmp::Ordering::Less) => DiffVerdict::Looser,
        Some(core::cmp::Ordering::Greater) => DiffVerdict::Tighter,
        Some(core::cmp::Ordering::Equal) | None => DiffVerdict::Changed,
    }
}

/// A number, or nanoseconds; what has no end is more than everything.
fn amount(value: Option<&Value>) -> u64 {
    let length = |text: &str| parse_duration(text).map_or(u64::MAX, |length| length.0);
    match value {
        Some(Value::Number(number)) => number.as_u64().or_else(|| money(number)).unwrap_or(u64::MAX),
        Some(Value::String(text)) => length(text),
        _ => u64::MAX,
    }
}

/// An amount of US dollars, in millionths: it has no more decimals.
fn money(number: &serde_json::Number) -> Option<u64> {
    parse_millionths(&format!("{:.6}", number.as_f64()?)).ok()
}

fn rank(words: &[&str], value: Option<&Value>) -> Option<usize> {
    let word = match value? {
        Value::Bool(flag) => flag.to_string(),
        Value::String(word) if word == "read_only" => "idempotent".to_owned(),
        Value::String(word) => word.clone(),
        _ => return None,
    };
    words.iter().position(|known| *known == word)
}

/// `Less` if all of `a` is in `b`, and more; `Greater` the other way round.
fn contained(a: Option<&Value>, b: Option<&Value>) -> Option<core::cmp::Ordering> {
    let entries = |value: Option<&Value>| value.and_then(Value::as_array).cloned().unwrap_or_default();
    let (a, b) = (entries(a), entries(b));
    let within = |a: &[Value], b: &[Value]| a.iter().all(|entry| b.contains(entry));
    match (within(&a, &b), within(&b, &a)) {
        (true, false) => Some(core::cmp::Ordering::Less),
        (false, true) => Some(core::cmp::Ordering::Greater),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::policy::document::{
        MergedContext, MergedHistory, MergedModel, MergedOutput, MergedTool, MergedTurn,
    };

    #[test]
    fn every_field_there_is_has_a_direction() {
        let mut paths = Vec::new();
        let mut each = |path: String, _: &dyn crate::policy::merge::AnyTrail| paths.push(path);
        MergedTool::default().each("", &mut each);
        MergedModel::default().each("", &mut each);
        MergedOutput::default().each("", &mut each);
        MergedTurn::default().each("", &mut each);
        MergedHistory::default().each("", &mut each);
        MergedContext::default().each("", &mut each);
        let schema = crate::policy::json_schema();
        let keys =
            |of: &str| schema["$defs"][of]["properties"].as_object().unwrap().keys().cloned().collect();
        let (limits, run): (Vec<String>, Vec<String>) = (keys("TopLimits"), keys("RunLimitsRule"));
        paths.extend(limits.iter().filter(|name| *name != "run").map(|name| format!("limits.{name}")));
        paths.extend(run.iter().map(|name| format!("limits.run.{name}")));
        assert!(paths.len() > 40, "only {} were found", paths.len());
        let unknown: Vec<_> = paths.iter().filter(|path| direction(path).is_none()).collect();
        assert!(unknown.is_empty(), "say in `direction` which values of these are looser: {unknown:?}");
    }

    #[test]
    fn each_kind_of_field_goes_its_way() {
        use DiffVerdict::{Changed, Looser, Tighter};
        let check = |name: &str| json!({"name": name, "check": "true", "message": "m"});
        for (path, old, new, expected) in [
            ("retry.max_attempts", json!(3), json!(5), Looser),
            ("retry.max_attempts", json!("unlimited"), json!(5), Tighter),
            ("retry.deadline", json!("1m"), json!("unlimited"), Looser),
            ("retry.attempt_timeout", json!("90s"), json!("1m"), Tighter),
            ("retry.enabled", json!(true), json!(false), Tighter),
            ("retry.backoff", json!({"kind": "constant"}), json!({"kind": "linear"}), Changed),
            ("breaker.failures", json!(3), json!("never"), Looser),
            ("breaker.open_for", json!("1m"), json!("unlimited"), Tighter),
            ("effect", json!("unknown"), json!("idempotent"), Looser),
            ("effect", json!("idempotent"), json!("read_only"), Changed),
            ("text_only", json!("accept"), json!("reject"), Tighter),
            ("validate", json!([check("a")]), json!([check("a"), check("b")]), Tighter),
            ("validate", json!([check("a")]), json!([check("b")]), Changed),
            ("limits.never_retry", json!(["timeout"]), json!([]), Looser),
            ("retry.retry_on", json!(["timeout", "overloaded"]), json!(["timeout"]), Tighter),
            ("retry.retry_on", json!(["timeout"]), json!(["overloaded"]), Changed),
            ("limits.run.time", json!("1h"), json!("30m"), Tighter),
            ("limits.run.cost", json!(0.5), json!(2.0), Looser),
        ] {
            assert_eq!(of(path, Some(&old), Some(&new)), expected, "{path}: {old} -> {new}");
        }
        assert_eq!(of("limits.deadline", None, Some(&json!("1m"))), Tighter);
        assert_eq!(of("limits.run.tokens", Some(&json!(1000)), None), Looser);
    }
}
