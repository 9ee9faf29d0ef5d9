//! The fields of events, directives and messages, as the schema of test files describes them.

use serde_json::{Map, Value, json};

/// What a field is, and an example of what may be expected of it, in JSON or as plain text.
const FIELDS: &[(&str, &str, &str)] = &[
    (
        "action",
        "What is attempted: a tool, a model or the report; of `turn_retry`: what is done.",
        "tool search",
    ),
    ("arguments", "The arguments of the call.", r#"{"query": "price of item 42"}"#),
    ("at", "How long after the start it happens. With a unit: ms, s, m, h, d.", "600ms"),
    ("attempt", "The number of the attempt, from 1.", "2"),
    ("attempts", "How many attempts it took.", "3"),
    ("backoff", "The wait before the next attempt. With a unit: ms, s, m, h, d.", "2s"),
    ("because", "Why: the rules that decided.", r#"[{"rule": "retry.max_attempts"}]"#),
    ("call", "The model's id of the call.", "call_1"),
    ("calls", "The calls of one reply, in order.", r#"[{"name": "search"}]"#),
    ("deadline", "The time after which no attempt starts, in nanoseconds since 1970.", "1767225900000000000"),
    ("decision", "What is done when attempts are exhausted.", "tell_model"),
    ("delay", "How long is waited. With a unit: ms, s, m, h, d.", "200ms"),
    ("directive", "The kind of directive.", "wait"),
    ("drive", "Who runs the loop of turns.", "turns"),
    ("error", "What failed; of a message: whether the call failed or was refused.", "true"),
    ("error_type", "The class of the failure.", "rate_limit"),
    ("event", "The kind of event.", "tool_finished"),
    ("exhausted", "The end of the attempts.", r#"{"action": "tool search", "reason": "attempts"}"#),
    ("extra", "What the provider sent besides.", r#"{"reasoning": "First the price."}"#),
    ("failure", "What is known about a failure.", r#"{"status": 429}"#),
    ("feedback", "The record of feedback.", r#"{"error_type": "timeout"}"#),
    ("guidance", "Which guidance of the policy it is.", "final_turn"),
    ("idempotency_key", "The key that is the same for every attempt of a call.", r#"{"contains": "-1-"}"#),
    ("last", "Whether only the final report is allowed in the turn.", "true"),
    ("log_message", "What the log says.", r#"{"contains": "slow down"}"#),
    ("max_attempts", "The most attempts; null: unlimited.", "3"),
    ("max_turns", "The most turns there are.", "30"),
    ("message", "What went wrong, or what the model is told.", r#"{"contains": "slow down"}"#),
    ("message_tokens", "How many tokens the messages have.", "1200"),
    ("messages", "How many messages the conversation has.", "4"),
    ("name", "The name of the metric.", "retry_attempts"),
    ("next_delay_seconds", "The wait before the next attempt, in seconds.", "0.2"),
    ("next_target", "The model that is asked next.", "spare"),
    ("now", "The time of the event, in nanoseconds since 1970.", "1767225600000000000"),
    ("outcome", "How it ended.", r#"{"status": "reported"}"#),
    ("output", "The final report.", r#"{"price": 12.5}"#),
    ("policy", "The digest of the policy in force.", r#"{"matches": "^[0-9a-f]+$"}"#),
    ("reason", "Why the run was stopped, or why a turn is the last.", "stopped by the user"),
    ("received", "How many characters of a streamed answer had come.", "120"),
    ("remaining", "How many other models can still be asked in the turn.", "1"),
    ("repairs", "The kinds of repairs.", r#"["trailing_comma"]"#),
    ("reply", "The model's reply.", r#"{"text": "The price is 12.50."}"#),
    ("retry_scheduled_at", "When the next attempt may start, RFC 3339.", "2026-01-01T00:00:00.200Z"),
    ("role", "Who the message is from.", "tool"),
    ("run", "The id of the run.", r#"{"contains": "run"}"#),
    ("seed", "The seed of every jittered delay.", "42"),
    ("seq", "The number of the event, from 1.", "3"),
    ("source", "What failed: a tool call or the report; of a report, how it was delivered.", "tool"),
    ("sources", "The rules the action comes from.", r#"["retry.server_delay"]"#),
    ("state", "The phase of the breaker.", "open"),
    ("subject", "What is waited for, or measured.", "tool search"),
    ("system", "Instructions above the conversation.", "You look up prices."),
    ("system_message", "What the model is told.", r#"{"contains": "was empty"}"#),
    ("target", "Which model is called.", "main"),
    ("targets", "The models, in order of preference.", r#"["main", "spare"]"#),
    ("task", "What the user wants.", "What does item 42 cost?"),
    ("text", "The text of the message.", r#"{"contains": "did not run"}"#),
    ("timeout", "The longest the call may take. With a unit: ms, s, m, h, d.", "20s"),
    (
        "timeouts",
        "The longest each step of a model call may take. With a unit: ms, s, m, h, d.",
        r#"{"first_token": "5m"}"#,
    ),
    ("tool", "The name of the tool.", "search"),
    ("tool_choice", "Whether the model must call a tool.", "required"),
    ("tool_name", "The name of the tool that failed.", "search"),
    ("tool_tokens", "How many tokens the tool definitions have.", "350"),
    ("tools", "The tools the model may be shown, or those of the run.", r#"["search"]"#),
    ("turn", "The number of the turn, from 1.", "2"),
    ("until", "The time at which the wait ends, in nanoseconds since 1970.", "1767225600200000000"),
    ("value", "What is measured: a count, or nanoseconds of delay.", "3"),
    ("work", "The number of the piece of work.", "1"),
];

/// The schemas of those fields. Any value may be expected of them, also a piece of a text.
pub(crate) fn schemas(names: &[&str]) -> Map<String, Value> {
    let schema = |name: &&str| {
        let known = FIELDS.iter().find(|(known, ..)| known == name);
        let about =
            known.map(|(_, about, example)| json!({"description": format!("{about} Example: `{example}`")}));
        ((*name).to_owned(), about.unwrap_or_else(|| json!({})))
    };
    names.iter().map(schema).collect()
}
