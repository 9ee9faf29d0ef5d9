//! Random policies: a small grammar that covers the language.

use std::sync::{Arc, Mutex, OnceLock};

use unfazed::analysis::{ComparedNames, CostBounds};
use unfazed::policy::{ErrorClass, Policy};

use super::host::{TARGETS, TOOLS};
use super::tape::Tape;

/// How many there are. Another number makes another policy of the same choice: what a failing stream has left behind in
/// `tests/proptest-regressions` would mean another stream.
pub(crate) const POLICIES: usize = 500;

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
const COUNTS: &[&str] = &[
    "{kind: consecutive}",
    "{kind: cumulative}",
    "{kind: window}",
    "{kind: window, calls: 3}",
    "{kind: window, within: 5s, ratio: 0.5, min_calls: 2}",
    "{kind: window, calls: 4, within: 1m, ratio: 1, min_calls: 3}",
];
const STAGES: &[&str] = &[
    "{nudge: 3, block: 5, final_turn: 8}",
    "{nudge: 1, block: 2, final_turn: 3}",
    "{nudge: never, block: 1, final_turn: never}",
    "{nudge: 2, block: never, final_turn: 2}",
    "{nudge: never, block: never, final_turn: never}",
];
const REDUCTIONS: &[&str] = &[
    "{kind: results, keep_last: 2, over: 20 chars, show: 9 chars}",
    "{kind: drop, keep_last: 4}",
    "{kind: summary, keep_last: 3, max: 50 tokens}",
    "{kind: summary, keep_last: 2, max: 200 tokens, model: spare, input: 0.5}",
    "{kind: digest, keep_last: 3, max: 50 tokens, line: 20 chars, result_line: 9 chars}",
    "{kind: truncate, keep_last: 2, over: 90 chars, head: 30 chars, tail: 9 chars}",
];
const ON_EXHAUSTED: &[&str] = &["tell_model", "final_turn", "fail", "ask_planner"];
const EFFECTS: &[&str] = &["read_only", "idempotent", "non_idempotent", "unknown"];
const BOUNDS: &[&str] = &["unlimited", "1ms", "1s", "5s", "1m"];
const BOOLS: &[&str] = &["true", "false"];
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

/// A policy of the grammar.
pub(crate) struct Made {
    pub(crate) policy: Policy,
    /// As it is written.
    pub(crate) text: String,
    elsewhere: OnceLock<Policy>,
    /// What `explain --bounds` says, for so many models.
    bounds: Mutex<[Option<Arc<CostBounds>>; TARGETS.len()]>,
}

impl Made {
    /// The policy, read from a file of another name.
    pub(crate) fn elsewhere(&self) -> &Policy {
        self.elsewhere.get_or_init(|| Policy::from_yaml("/srv/elsewhere/rules.yaml", &self.text).unwrap())
    }

    /// The most that a run of the first so many models can cost.
    pub(crate) fn bounds(&self, models: usize) -> Arc<CostBounds> {
        let compute = || {
            let owned = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
            Arc::new(
                self.policy
                    .bounds(&ComparedNames { models: owned(&TARGETS[..models]), tools: owned(&TOOLS) }, 1),
            )
        };
        Arc::clone(self.bounds.lock().unwrap()[models - 1].get_or_insert_with(compute))
    }
}

/// One of the policies, made when it is asked for first.
pub(crate) fn made(number: usize) -> &'static Made {
    static MADE: [OnceLock<Made>; POLICIES] = [const { OnceLock::new() }; POLICIES];
    MADE[number].get_or_init(|| {
        let text = document(&mut Tape::from_seed(number as u64));
        match Policy::from_yaml("policy.yaml", &text) {
            Ok(policy) => Made { policy, text, elsewhere: OnceLock::new(), bounds: Mutex::default() },
            Err(report) => panic!("a policy of the grammar does not load:\n{report}\n{text}"),
        }
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
    let mut tools = Vec::new();
    for name in ["'*'", "alpha"] {
        tools.push(text.len());
        text.push(format!("  {name}:\n{}", tool(t)));
    }
    if t.once_in(2) {
        let approval = t.of(&["never", "always"]);
        text.push(format!(
            "    calls:\n      - {{when: args.n > 5, retry: {}, approval: {approval}}}\n",
            retry(t)
        ));
    }
    text.push("  witness: {effect: read_only, breaker: {failures: 2}}\n".into());
    let models = text.len();
    text.push(format!("models:\n  '*': {}\n", model(t)));
    if t.once_in(2) {
        text.push(format!("  spare: {}\n", model(t)));
    }
    if t.once_in(2) {
        text.push(format!("context: {}\n", context(t)));
    }
    text.push(format!("turn: {}\n", turn(t)));
    if t.once_in(2) {
        let check = t.of(&["before_call", "after_error", "never"]);
        let (orphans, chars) = (t.of(&["inject", "prune"]), t.of(&[1, 50]));
        text.push(format!(
            "history: {{check: {check}, orphan_calls: {orphans}, max_argument_chars: {chars}}}\n"
        ));
    }
    if !t.once_in(3) {
        text.push(output(t));
    }
    text.push(reducers(t));
    // Drawn last, so that the policies without a pace are those there were before there was one.
    for tool in tools {
        if t.once_in(4) {
            let pace = pace(t, "own");
            text[tool].push_str("    pace: ");
            text[tool].push_str(&pace);
            text[tool].push('\n');
        }
    }
    if t.once_in(4) {
        let tokens = t.of(&["unlimited", "{limit: 900, per: 9s}", "{limit: 100, per: 1s, burst: 300}"]);
        let model = text[models].trim_end().strip_suffix('}').unwrap().to_owned();
        let pace = pace(t, "provider");
        // Nothing is drawn for these, so that what is drawn later stays as it was.
        let flight = match tokens {
            "unlimited" => "concurrency: 1, breaker: {failures: 1, base: 1s, cap: 9s}, ",
            _ => "",
        };
        text[models] = format!("{model}, pace: {{tokens: {tokens}, {flight}{}}}\n", &pace[1..]);
    }
    text.concat()
}

fn pace(t: &mut Tape, pool: &'static str) -> String {
    format!(
        "{{requests: {}, pool: {}, max_wait: {}}}",
        t.of(&["{limit: 1, per: 1s}", "{limit: 3, per: 5s, burst: 1}", "{limit: 2, per: 2s}", "unlimited"]),
        t.of(&[pool, pool, "common"]),
        t.of(&["5m", "2s", "unlimited"]),
    )
}

fn tool(t: &mut Tape) -> String {
    let mut text = vec![format!(
        "    retry: {}\n    effect: {}\n    on_exhausted: {}\n    breaker: {}\n    on_uncertain_effect: {}\n",
        retry(t),
        t.of(EFFECTS),
        t.of(ON_EXHAUSTED),
        breaker(t),
        t.of(AFTER_EFFECTS),
    )];
    let (approval, concurrency) = (t.of(&["never", "never", "always"]), t.of(&["unlimited", "1", "2"]));
    text.push(format!("    approval: {approval}\n    concurrency: {concurrency}\n"));
    if t.once_in(3) {
        text.push("    validate: [{name: small, check: args.n < 9, message: n must be small}]\n".into());
    }
    if t.once_in(3) {
        text.push(format!("    limits: {}\n", limits(t)));
    }
    if t.once_in(2) {
        text.push(format!("    loop_guard: {}\n", loop_guard(t)));
    }
    if t.once_in(2) {
        text.push(format!("    result: {}\n", result(t)));
    }
    text.concat()
}

fn breaker(t: &mut Tape) -> String {
    format!(
        "{{failures: {}, open_for: {}, count: {}, scope: {}, probes: {}, successes: {}, hide: {}}}",
        t.of(&["never", "1", "2", "4"]),
        t.of(&["unlimited", "0s", "2s"]),
        t.of(COUNTS),
        t.of(&["run", "turn", "session"]),
        t.of(&[1, 2]),
        t.of(&[1, 2]),
        t.of(BOOLS),
    )
}

fn loop_guard(t: &mut Tape) -> String {
    let (enabled, count) = (t.of(&["true", "true", "false"]), t.of(&["consecutive", "cumulative"]));
    let mut keys = vec![format!("enabled: {enabled}, count: {count}")];
    for pattern in ["same_call", "same_error", "same_result", "cycle"] {
        if t.once_in(2) {
            keys.push(format!("{pattern}: {}", t.of(STAGES)));
        }
    }
    format!("{{{}}}", keys.join(", "))
}

fn result(t: &mut Tape) -> String {
    format!(
        "{{max: {}, keep: {}, error_lines: {}, json: {}, overflow: {}, form: {}}}",
        t.of(&["200 chars", "120 bytes", "40 tokens", "unlimited"]),
        t.of(&["both", "head", "tail"]),
        t.of(&[20, 0, 1]),
        t.of(BOOLS),
        t.of(&["cut", "spill"]),
        t.of(&["text", "json", "full"]),
    )
}

fn model(t: &mut Tape) -> String {
    let aborts = t.of(&["[]", "[auth_error, text_only]", "[timeout, empty_response, malformed_tool_call]"]);
    format!(
        "{{retry: {}, on_exhausted: {}, no_fallback_on: {aborts}, cooldown: {}, provider: {}, context_window: {}, \
         output_reserve: 100, tokens: {{learn: {}, method: {}}}}}",
        retry(t),
        t.of(ON_EXHAUSTED),
        t.of(&["1m", "0s", "1s", "unlimited"]),
        t.of(&["own", "own", "shared"]),
        t.of(&["unknown", "unknown", "500", "2000"]),
        t.of(BOOLS),
        t.of(&["estimate", "max"]),
    )
}

fn context(t: &mut Tape) -> String {
    let steps: Vec<&str> = REDUCTIONS.iter().copied().filter(|_| t.once_in(2)).collect();
    format!(
        "{{reduce: [{}], give_up_after: {}, compact_on_overflow: {}, keep_last_user_message: {}, reserve: {}, safety: {}, compact_at_free: {}, \
         min_free: {}, target_free: {}}}",
        steps.join(", "),
        t.of(&[1, 3]),
        t.of(BOOLS),
        t.of(BOOLS),
        t.of(&["0 tokens", "0.1", "200 tokens"]),
        t.of(&["0.02", "0 tokens", "50 tokens"]),
        t.of(&["0.15", "0.9", "100 tokens"]),
        t.of(&["0.02", "0.5", "20 tokens"]),
        t.of(&["0.4", "0.95", "300 tokens"]),
    )
}

fn turn(t: &mut Tape) -> String {
    let (max, text_only) = (t.of(&[1, 2, 3, 5]), t.of(&["accept", "reject"]));
    let (advance, wait) =
        (t.of(&["exhausted", "attempt", "skip", "rotate"]), t.of(&["target", "round", "turn"]));
    let (attempts, longest) = (t.of(&[3, 1, 2]), t.of(&["2s", "0s", "unlimited"]));
    let targets =
        format!("fallback: {advance}, wait: {wait}, attempts: {attempts}, fallback_after: {longest}");
    let keys = [
        format!("max_turns: {max}, text_only: {text_only}, targets: {{{targets}}}"),
        format!(
            "after_partial: {}, malformed_calls: {}",
            t.of(&["retry", "fail"]),
            t.of(&["answer", "drop"])
        ),
        format!("guidance: {{keep: {}, max: {}}}", t.of(BOOLS), t.of(&[2, 1])),
        format!("final_turn_after_rejection: {}, report_from_text: {}", t.of(BOOLS), t.of(BOOLS)),
        format!("repair_json: {}, text_tool_calls: {}", t.of(BOOLS), t.of(BOOLS)),
        format!("max_feedback_chars: {}, on_stop: {}", t.of(&[2000, 40]), t.of(&["end", "final_turn"])),
        format!("calls: {}", calls(t)),
        format!("approval: {{timeout: {}, unanswered: {}}}", t.of(BOUNDS), t.of(&["refuse", "approve"])),
    ];
    format!("{{{}}}", keys.join(", "))
}

/// The calls of one reply.
fn calls(t: &mut Tape) -> String {
    format!(
        "{{parallel: {}, max: {}, nudge_after_failed_rounds: {}, unpack_arguments: {}, correct_names: {}, suggestions: {}}}",
        t.of(&["unlimited", "1", "2", "3"]),
        t.of(&["unlimited", "1", "3"]),
        t.of(&["never", "1", "2"]),
        t.of(BOOLS),
        t.of(BOOLS),
        t.of(&["3", "0"]),
    )
}

fn output(t: &mut Tape) -> String {
    let mut text = vec![format!("output:\n  retry: {}\n  on_exhausted: {}\n", retry(t), t.of(ON_EXHAUSTED))];
    if t.once_in(2) {
        text.push(
            "  schema: {type: object, properties: {total: {type: number}}, required: [total]}\n".into(),
        );
        text.push("  validate: [{name: positive, check: output.total >= 0, message: too small}]\n".into());
    }
    if t.once_in(4) {
        text.push(format!("  limits: {}\n", limits(t)));
    }
    text.concat()
}

fn reducers(t: &mut Tape) -> String {
    let reducers: Vec<&str> = TRIGGERS.iter().copied().filter(|_| t.once_in(4)).collect();
    if reducers.is_empty() {
        return String::new();
    }
    let mut text = vec!["session:\n  slices: {count: {initial: 0}}\n  reducers:\n".to_owned()];
    for trigger in reducers {
        let check = t.of(&["", ", check: slice < 3", ", check: slice < 1"]);
        text.push(format!(
            "    on_{trigger}: {{on: {trigger}, slice: count, do: {{kind: increment, value: '1'}}{check}}}\n"
        ));
    }
    text.concat()
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
    if t.once_in(6) {
        keys.push("min_attempt_time: 500ms".into());
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
    let key = t.of(&[
        "max_attempts: 2",
        "total_delay: 2s",
        "deadline: 5s",
        "attempt_timeout: 1s",
        "never_retry: [timeout]",
    ]);
    format!("{{{key}}}")
}
