//! The kinds of directives, events and messages, and the fields of each: what a field of another kind is expected
//! to be can never come.

/// The fields of a record, and the records within them. Without fields it may be anything.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape(pub(crate) &'static [(&'static str, &'static Shape)]);

/// Anything.
const ANY: Shape = Shape(&[]);

/// A kind of record: the key that names the kind, its name, and its own fields.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kind {
    pub(crate) tag: &'static str,
    pub(crate) name: &'static str,
    pub(crate) own: Shape,
}

macro_rules! shape {
    ($($field:literal $(: $inner:ident)?),* $(,)?) => {
        Shape(&[$(($field, shape!(@ $($inner)?))),*])
    };
    (@) => { &ANY };
    (@ $inner:ident) => { &$inner };
}

macro_rules! kinds {
    ($vis:vis $name:ident by $tag:literal { $($kind:literal = [$($field:literal $(: $inner:ident)?),* $(,)?],)+ }) => {
        $vis const $name: &[Kind] =
            &[$(Kind { tag: $tag, name: $kind, own: shape![$($field $(: $inner)?),*] }),+];
    };
}

const FACTS: Shape = shape!["param", "details", "provider", "limit", "size"];
const WAITS: Shape = shape!["header", "body", "reset"];
const FAILURE: Shape = shape!["class", "status", "code", "type", "message", "facts": FACTS, "retry_after", "waits": WAITS, "should_retry", "received"];
const TIMEOUTS: Shape = shape!["connect", "first_token", "idle"];
const TRIAL: Shape = shape!["attempt", "error_type", "message", "at", "delay"];
const EXHAUSTED: Shape = shape!["action", "reason", "attempts": TRIAL, "retry_after"];
const FEEDBACK: Shape = shape![
    "source",
    "tool_name",
    "attempt",
    "max_attempts",
    "error_type",
    "message",
    "retry_scheduled_at",
    "next_delay_seconds",
];
const REDUCER: Shape = shape!["reducer", "payload", "message"];
const CALL: Shape = shape!["id", "name", "arguments", "policy"];
const REPLY: Shape = shape!["text", "calls": CALL, "finish", "usage", "extra", "notes", "opaque"];
const MESSAGE: Shape =
    shape!["role", "text", "guidance", "calls": CALL, "extra", "call", "tool", "error", "handle"];
const SPLICE: Shape = shape!["at", "remove", "insert": MESSAGE];
const ORPHAN: Shape = shape!["id", "name", "arguments"];
const INJECTED: Shape = shape!["call", "tool", "splice", "message"];
const REPAIR: Shape =
    shape!["splices": SPLICE, "pruned": ORPHAN, "injected": INJECTED, "dropped", "moved", "malformed"];
const RAN: Shape = shape!["outcome", "data", "failure": FAILURE, "effect"];
const FACTS_OF_RUN: Shape = shape!["duration", "process_id", "handle"];
const STEP: Shape = shape![
    "kind",
    "keep_last",
    "over",
    "show",
    "most",
    "line",
    "result_line",
    "head",
    "tail",
    "model",
    "input_ppm"
];
const PLAN: Shape = shape!["number", "step": STEP, "aim", "most", "input", "keep_task"];
const ASKED: Shape = shape!["prompt", "tokens", "cut"];
const REDUCTION: Shape = shape![
    "splices": SPLICE,
    "shortened",
    "dropped",
    "messages",
    "message_tokens",
    "history_faults",
    "summarize": ASKED,
    "lacking",
];
const SPILL: Shape = shape!["handle", "over"];
const REPORT: Shape = shape![
    "reason",
    "text",
    "turns_completed",
    "max_turns",
    "final_report_attempts",
    "forced_final_reason",
    "last_stop_reason",
    "last_error_type",
    "last_error",
];
const END: Shape = shape!["status", "output", "text", "exhausted": EXHAUSTED, "reason", "report": REPORT];
const PLACE: Shape = shape!["file", "line", "column"];
const OF: Shape = shape!["proposal", "call"];
const MEASURE: Shape = shape!["messages", "message_tokens", "tool_tokens", "history_faults"];
const BECAUSE: Shape = shape!["rule", "value", "layer", "place": PLACE, "facts"];

/// What every directive, event and message has.
pub(crate) const COMMON: &[(&str, Shape)] = &[
    ("directive", shape!["directive", "because": BECAUSE, "of": OF, "at"]),
    ("event", shape!["event", "seq", "now", "at"]),
    ("role", shape!["role"]),
];

kinds!(pub(crate) DIRECTIVES by "directive" {
    "prepare_turn" = ["work", "turn", "max_turns", "last"],
    "repair_history" = ["work", "orphan_calls", "malformed_calls"],
    "reduce_context" = ["work", "target", "plan": PLAN],
    "summarize" = ["work", "turn", "target", "prompt", "max_output", "timeout", "timeouts": TIMEOUTS],
    "call_model" = [
        "work", "turn", "attempt", "max_attempts", "target", "tools", "tool_choice", "max_output", "guidance", "timeout",
        "timeouts": TIMEOUTS,
    ],
    "run_tool" = [
        "work", "call", "tool", "attempt", "max_attempts", "arguments", "timeout", "idempotency_key",
        "spill": SPILL,
    ],
    "wait" = ["work", "delay", "until", "subject", "attempt", "max_attempts", "error_type", "message"],
    "consult" = ["work", "exhausted": EXHAUSTED],
    "ask" = ["work", "question", "call", "tool", "arguments", "message", "timeout"],
    "append" = ["message": MESSAGE],
    "splice" = ["splices": SPLICE],
    "orphan_tool_calls_pruned" = [
        "pruned_count", "injected_count", "dropped_count", "moved_count", "malformed_count", "model", "original_error",
    ],
    "context_reduced" = ["target", "step", "tokens_before", "tokens_after", "shortened", "left_out"],
    "feedback" = ["feedback": FEEDBACK],
    "reducer_error" = ["error": REDUCER],
    "refused" = ["call", "tool", "error_type", "message"],
    "repaired" = ["tool", "call", "repairs"],
    "renamed" = ["call", "tool", "from"],
    "effect_checked" = ["call", "tool", "by", "effect"],
    "rounds_failed" = ["rounds", "message"],
    "tool_ended" = ["call", "tool", "attempts", "error_type", "message"],
    "leaked_calls" = ["tools"],
    "result_cut" = ["call", "tool", "unit", "shown", "total", "handle"],
    "reject_turn" = ["error_type", "message"],
    "turn_retracted" = ["target", "attempt", "received"],
    "turn_retry" = [
        "action", "target", "next_target", "remaining", "error_type", "backoff", "log_message", "system_message",
        "sources",
    ],
    "final_turn" = ["reason", "turn", "max_turns"],
    "dropped" = ["work"],
    "breaker" = ["tool", "state", "until"],
    "tools_hidden" = ["tools"],
    "loop_guard" = ["call", "tool", "pattern", "length", "count", "stage"],
    "exhausted" = ["exhausted": EXHAUSTED, "decision"],
    "shadow" = ["action", "attempt", "error_type", "delay"],
    "output_accepted" = ["output", "source"],
    "output_refused" = ["attempt", "max_attempts", "message"],
    "settled" = ["proposal", "result", "target", "attempts", "delay", "guidance", "final_turn"],
    "proposal_refused" = ["proposal", "reason", "message"],
    "metric" = ["name", "subject", "value"],
    "warning" = ["message"],
    "finish" = ["outcome": END],
});

kinds!(pub(crate) EVENTS by "event" {
    "run_started" = ["run", "policy", "seed", "drive", "system", "history": MESSAGE, "task", "targets", "windows", "overheads", "prices", "tools", "deadline"],
    "turn_prepared" = ["work", "messages", "message_tokens", "tool_tokens", "history_faults"],
    "history_repaired" = ["work", "repair": REPAIR],
    "context_reduced" = ["work", "reduction": REDUCTION],
    "model_responded" = ["work", "reply": REPLY],
    "model_failed" = ["work", "failure": FAILURE],
    "tools_proposed" = ["calls": CALL, "turn"],
    "turn_proposed" = ["targets", "measure": MEASURE, "can", "deadline"],
    "proposal_withdrawn" = ["proposal", "call"],
    "output_proposed" = ["output"],
    "tool_finished" = ["work", "outcome": RAN, "run": FACTS_OF_RUN],
    "timer_fired" = ["work"],
    "planner_decided" = ["work", "decision"],
    "answered" = ["work", "answer"],
    "policy_changed" = ["policy"],
    "tools_changed" = ["tools"],
    "shared_changed" = ["breakers", "budgets"],
    "stop_requested" = ["reason"],
    "cancelled" = ["reason"],
});

kinds!(pub(crate) MESSAGES by "role" {
    "system" = ["text"],
    "user" = ["text", "guidance"],
    "assistant" = ["text", "calls": CALL, "extra"],
    "tool" = ["call", "tool", "text", "error", "handle"],
});

impl Shape {
    /// The field of that name, and the record within it.
    pub(crate) fn field(self, name: &str) -> Option<&'static Self> {
        self.0.iter().find(|(known, _)| *known == name).map(|(_, inner)| *inner)
    }

    /// Whether it may be anything.
    pub(crate) const fn is_any(self) -> bool {
        self.0.is_empty()
    }

    /// The names of its fields.
    pub(crate) fn names(self) -> Vec<&'static str> {
        self.0.iter().map(|(name, _)| *name).collect()
    }
}

impl Kind {
    /// The field of that name, its own or one that all of its sort have.
    pub(crate) fn field(&self, name: &str) -> Option<&'static Shape> {
        self.own.field(name).or_else(|| self.common().field(name))
    }

    /// The names of all its fields.
    pub(crate) fn names(&self) -> Vec<&'static str> {
        let mut names = self.own.names();
        names.extend(self.common().names().into_iter().filter(|name| *name != self.tag));
        names
    }

    fn common(&self) -> Shape {
        COMMON.iter().find(|(tag, _)| *tag == self.tag).map_or(ANY, |(_, shape)| *shape)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::Value;

    use super::*;

    /// The fields of all forms of a schema, references followed.
    fn fields(schema: &Value, root: &Value, found: &mut BTreeSet<String>) {
        if let Some(name) = schema["$ref"].as_str() {
            fields(&root["$defs"][name.rsplit('/').next().unwrap()], root, found);
        }
        found.extend(schema["properties"].as_object().into_iter().flatten().map(|(name, _)| name.clone()));
        for form in ["oneOf", "anyOf"].iter().flat_map(|key| schema[key].as_array().into_iter().flatten()) {
            fields(form, root, found);
        }
    }

    fn same(shape: Shape, schema: &Value, root: &Value, of: &str) {
        let mut found = BTreeSet::new();
        fields(schema, root, &mut found);
        let known: BTreeSet<String> = shape.names().into_iter().map(str::to_owned).collect();
        assert_eq!(known, found, "{of}");
    }

    #[test]
    fn the_kinds_have_the_fields_that_hosts_see() {
        let root = crate::engine::Record::json_schema();
        let defs = &root["$defs"];
        for (kinds, forms) in [
            (DIRECTIVES, vec![&defs["Work"]["oneOf"], &defs["Note"]["oneOf"]]),
            (EVENTS, vec![&defs["Envelope"]["oneOf"]]),
            (MESSAGES, vec![&defs["Message"]["oneOf"]]),
        ] {
            let forms: Vec<&Value> = forms.iter().flat_map(|list| list.as_array().unwrap()).collect();
            assert_eq!(kinds.len(), forms.len());
            for kind in kinds {
                let form =
                    forms.iter().find(|form| form["properties"][kind.tag]["const"] == kind.name).unwrap();
                let mut own = kind.own.names();
                own.push(kind.tag);
                let mut found = BTreeSet::new();
                fields(form, &root, &mut found);
                assert_eq!(
                    own.into_iter().map(str::to_owned).collect::<BTreeSet<_>>(),
                    found,
                    "{}",
                    kind.name
                );
            }
        }
    }

    #[test]
    fn the_records_within_have_the_fields_that_hosts_see() {
        let root = crate::engine::Record::json_schema();
        for (shape, name) in [
            (FACTS, "BodyFacts"),
            (FAILURE, "Failure"),
            (TRIAL, "AttemptRecord"),
            (EXHAUSTED, "RetryExhausted"),
            (FEEDBACK, "RetryFeedback"),
            (REDUCER, "ReducerError"),
            (CALL, "Proposal"),
            (REPLY, "ModelReply"),
            (MESSAGE, "Message"),
            (SPLICE, "Splice"),
            (ORPHAN, "ToolCall"),
            (INJECTED, "InjectedResult"),
            (REPAIR, "HistoryRepair"),
            (RAN, "ToolOutcome"),
            (END, "Outcome"),
            (PLACE, "Place"),
            (BECAUSE, "Because"),
        ] {
            same(shape, &root["$defs"][name], &root, name);
        }
    }
}
