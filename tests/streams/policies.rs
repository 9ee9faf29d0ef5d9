//! Random policies: a small grammar that covers the language.

use std::sync::OnceLock;

use unfazed::policy::{ErrorClass, Policy};

use crate::tape::Tape;

const POLICIES: u64 = 200;

const BACKOFFS: &[&str] = &[
    "{kind: constant, delay: 0s}",
    "{kind: constant, delay: 1s}",
    "{kind: linear, base: 0s, step: 1s}",
    "{kind: exponential, base: 100ms, factor: 2.5, cap: 5s, jitter: full}",
    "{kind: exponential, base: 1s, factor: 1000}",
    "{kind: fibonacci, base: 300ms, jitter: equal}",
    "{kind: schedule, delays: [0s, 2s, 1ms], jitter: plus_minus, spread: 0.2}",
    "{kind: exponential, base: 50ms, factor: 3, cap: 2s, jitter: decorrelated}",
];
const SERVER_DELAYS: &[&str] = &[
    "{mode: floor, min: 0s, max: 1m, above_max: give_up}",
    "{mode: replace, min: 0s, max: 2s, above_max: clamp}",
    "{mode: replace, min: 500ms, max: 1s, above_max: give_up}",
    "{mode: floor, min: 1s, max: unlimited, above_max: clamp}",
    "{mode: ignore}",
    "{mode: clamp, margin: 2s, max: 30s, above_max: next_target}",
    "{mode: replace, max: 10s, above_max: clamp, spread: 0.25}",
];
const BUDGETS: &[&str] = &[
    "{kind: none}",
    "{kind: tokens, capacity: 3}",
    "{kind: tokens, capacity: 20, cost: 7, cost_of: {rate_limit: 2, timeout: 0}, pool: shared}",
    "{kind: window, window: 10s, ratio: 0.5, min: 1}",
    "{kind: window, window: 1m, ratio: 0.1, min: 2, pool: window}",
];
const ON_EXHAUSTED: &[&str] = &["tell_model", "final_turn", "fail", "ask_planner"];
const EFFECTS: &[&str] = &["read_only", "idempotent", "non_idempotent", "unknown"];
const BOUNDS: &[&str] = &["unlimited", "1ms", "1s", "5s", "1m"];
const AFTER_EFFECTS: &[&str] = &[
    "{kind: tell}",
    "{kind: ask}",
    "{kind: verify, tool: witness, arguments: {n: args.n}, acted: result.count > 0}",
];
const TRIGGERS: &[&str] = &[
    "retry_feedback",
    "reducer_error",
    "tool_succeeded",
    "tool_failed",
    "tool_refused",
    "model_responded",
    "model_failed",
    "output_accepted",
    "output_refused",
];

/// The policies of one run of the tests, each with its text.
pub(crate) fn pool() -> &'static [(String, Policy)] {
    static POOL: OnceLock<Vec<(String, Policy)>> = OnceLock::new();
    POOL.get_or_init(|| {
        let load = |seed| {
            let text = document(&mut Tape::from_seed(seed));
            match Policy::from_yaml("policy.yaml", &text) {
                Ok(policy) => (text, policy),
                Err(report) => panic!("a policy of the grammar does not load:\n{report}\n{text}"),
            }
        };
        (0..POLICIES).map(load).collect()
    })
}

fn document(t: &mut Tape) -> String {
    let mut text = vec!["version: 1\n".to_owned()];
    if t.once_in(3) {
        text.push(format!("limits: {}\n", limits(t)));
    }
    if t.once_in(3) {
        text.push(format!("retry: {}\n", retry(t)));
    }
    text.push("tools:\n".into());
    for name in ["'*'", "alpha"] {
        text.push(format!("  {name}:\n    retry: {}\n    effect: {}\n", retry(t), t.of(EFFECTS)));
        text.push(format!("    on_exhausted: {}\n", t.of(ON_EXHAUSTED)));
        let (failures, open_for) = (t.of(&["never", "1", "2", "4"]), t.of(&["unlimited", "0s", "2s"]));
        text.push(format!("    breaker: {{failures: {failures}, open_for: {open_for}}}\n"));
        let (approval, concurrency) = (t.of(&["never", "never", "always"]), t.of(&["unlimited", "1", "2"]));
        text.push(format!("    approval: {approval}\n    concurrency: {concurrency}\n"));
        text.push(format!("    after_effect: {}\n", t.of(AFTER_EFFECTS)));
        if t.once_in(3) {
            text.push("    validate: [{name: small, check: args.n < 9, message: n must be small}]\n".into());
        }
        if t.once_in(3) {
            text.push(format!("    limits: {}\n", limits(t)));
        }
    }
    if t.once_in(2) {
        let approval = t.of(&["never", "always"]);
        text.push(format!(
            "    calls:\n      - {{when: args.n > 5, retry: {}, approval: {approval}}}\n",
            retry(t)
        ));
    }
    text.push("  witness: {effect: read_only, breaker: {failures: 2}}\n".into());
    let aborts = t.of(&["[]", "[auth_error, text_only]", "[timeout, empty_response, malformed_tool_call]"]);
    let on_exhausted = t.of(ON_EXHAUSTED);
    let window = t.of(&["unknown", "unknown", "500", "2000"]);
    text.push(format!(
        "models:\n  '*': {{retry: {}, on_exhausted: {on_exhausted}, abort_on: {aborts}, \
         context_window: {window}, output_reserve: 100}}\n",
        retry(t)
    ));
    if t.once_in(2) {
        let steps = [
            "{kind: results, keep_last: 2, over: 20 chars, show: 9 chars}",
            "{kind: summary, keep_last: 3, most: 50 tokens}",
            "{kind: digest, keep_last: 3, most: 50 tokens, line: 20 chars, result_line: 9 chars}",
            "{kind: truncate, keep_last: 2, over: 90 chars, head: 30 chars, tail: 9 chars}",
        ];
        let steps: Vec<&str> = steps.into_iter().filter(|_| t.once_in(2)).collect();
        let (tries, recover) = (t.of(&[1, 3]), t.of(&["true", "false"]));
        let steps = steps.join(", ");
        text.push(format!("context: {{reduce: [{steps}], give_up_after: {tries}, recover: {recover}}}\n"));
    }
    let (turns, text_only) = (t.of(&[1, 2, 3, 5]), t.of(&["accept", "reject"]));
    let after_partial = t.of(&["retry", "fail"]);
    let (malformed, keep) = (t.of(&["answer", "drop"]), t.of(&["true", "false"]));
    let (collapse, pending) = (t.of(&["true", "false"]), t.of(&["true", "false"]));
    text.push(format!(
        "turn: {{max_turns: {turns}, text_only: {text_only}, after_partial: {after_partial}, \
         malformed_calls: {malformed}, guidance: {{keep: {keep}}}, collapse: {collapse}, pending_report: {pending}, \
         calls: {}, approval: {{timeout: {}, unanswered: {}}}}}\n",
        calls(t),
        t.of(BOUNDS),
        t.of(&["refuse", "approve"]),
    ));
    if !t.once_in(3) {
        text.push(format!("output:\n  retry: {}\n  on_exhausted: {}\n", retry(t), t.of(ON_EXHAUSTED)));
        if t.once_in(2) {
            text.push(
                "  schema: {type: object, properties: {total: {type: number}}, required: [total]}\n".into(),
            );
            text.push(
                "  validate: [{name: positive, check: output.total >= 0, message: too small}]\n".into(),
            );
        }
    }
    let reducers: Vec<&str> = TRIGGERS.iter().copied().filter(|_| t.once_in(4)).collect();
    if !reducers.is_empty() {
        text.push("session:\n  slices: {count: {initial: 0}}\n  reducers:\n".into());
        for trigger in reducers {
            let check = t.of(&["", ", check: slice < 3", ", check: slice < 1"]);
            text.push(format!(
                "    on_{trigger}: {{on: {trigger}, slice: count, do: {{kind: increment, value: '1'}}{check}}}\n"
            ));
        }
    }
    text.concat()
}

/// The calls of one reply.
fn calls(t: &mut Tape) -> String {
    format!(
        "{{parallel: {}, most: {}, failed_rounds: {}, unpack_arguments: {}, correct_names: {}, suggestions: {}}}",
        t.of(&["unlimited", "1", "2", "3"]),
        t.of(&["unlimited", "1", "3"]),
        t.of(&["never", "1", "2"]),
        t.of(&["true", "false"]),
        t.of(&["true", "false"]),
        t.of(&["3", "0"]),
    )
}

fn retry(t: &mut Tape) -> String {
    let classes = |t: &mut Tape, often| {
        let of: Vec<&str> =
            ErrorClass::ALL.iter().map(|class| class.name()).filter(|_| t.below(often) == 0).collect();
        of.join(", ")
    };
    let unlimited = t.once_in(10);
    let attempts = if unlimited { "unlimited" } else { t.of(&["3", "1", "2", "5"]) };
    let mut keys = vec![
        format!("max_attempts: {attempts}"),
        format!("retry_on: [{}]", classes(t, 2)),
        format!("never_retry: [{}]", classes(t, 12)),
        format!("backoff: {}", t.of(BACKOFFS)),
        format!("server_delay: {}", t.of(SERVER_DELAYS)),
    ];
    for key in ["deadline", "total_delay", "attempt_timeout"] {
        if unlimited && key == "deadline" {
            keys.push("deadline: 5s".into());
        } else if t.once_in(3) {
            keys.push(format!("{key}: {}", t.of(BOUNDS)));
        }
    }
    for key in ["enabled", "emit_feedback"] {
        if t.once_in(6) {
            keys.push(format!("{key}: false"));
        }
    }
    if t.once_in(3) {
        keys.push(format!("budget: {}", t.of(BUDGETS)));
    }
    if t.once_in(12) {
        keys.push("shadow: true".into());
    }
    if t.once_in(4) {
        keys.push(format!("by_class: {{timeout: {}, rate_limit: {}}}", of_class(t), of_class(t)));
    }
    format!("{{{}}}", keys.join(", "))
}

fn of_class(t: &mut Tape) -> String {
    let mut keys = Vec::new();
    if t.once_in(2) {
        keys.push(format!("max_attempts: {}", t.of(&["1", "2", "4", "6"])));
    }
    if t.once_in(2) {
        keys.push(format!("backoff: {}", t.of(BACKOFFS)));
    }
    if t.once_in(3) {
        keys.push(format!("server_delay: {}", t.of(SERVER_DELAYS)));
    }
    format!("{{{}}}", keys.join(", "))
}

fn limits(t: &mut Tape) -> String {
    let key = t.of(&["max_attempts: 2", "total_delay: 2s", "deadline: 5s", "never_retry: [timeout]"]);
    format!("{{{key}}}")
}
