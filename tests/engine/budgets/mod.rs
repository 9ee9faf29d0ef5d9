//! The law of the budgets of a run: no more is charged than there is, but for what one call reports beyond what was kept for
//! it; and a run that spends its budget has its final turn. With and without a restart at any event.

mod host;

use unfazed::engine::Outcome;
use unfazed::policy::Policy;
use unfazed::session::FailureReason;

use crate::streams::count;
use crate::streams::tape::Tape;

use host::{Host, Met};

/// Budgets of which one turn at least fits, and some that are too small for it.
fn policy(t: &mut Tape) -> String {
    let mut budgets = Vec::new();
    if t.once_in(2) {
        budgets.push(format!("tokens: {}", t.of(&["100000", "20000", "9000", "5000", "600", "50"])));
    }
    if t.once_in(2) {
        budgets.push(format!("cost: {}", t.of(&["5", "0.5", "0.05", "0.001"])));
    }
    if t.once_in(3) {
        budgets.push(format!("model_calls: {}", t.of(&["40", "7", "3", "2", "1"])));
    }
    if t.once_in(3) {
        budgets.push(format!("tool_calls: {}", t.of(&["40", "5", "1", "0"])));
    }
    if t.once_in(3) || budgets.is_empty() {
        budgets.push(format!("time: {}", t.of(&["1h", "5m", "30s", "3s"])));
    }
    let output = if t.once_in(2) { "output: {schema: {type: object}}\n" } else { "" };
    let reduce = t.of(&[
        "[{kind: truncate, keep_last: 2, over: 200 chars, head: 50 chars, tail: 50 chars}]",
        "[{kind: drop, keep_last: 2}]",
        "[{kind: summary, keep_last: 2, max: 200 tokens}, {kind: drop, keep_last: 2}]",
        "[]",
    ]);
    format!(
        "version: 1
limits: {{run: {{{}}}}}
turn: {{max_turns: {}, targets: {{fallback: {}}}}}
tools: {{'*': {{loop_guard: {{enabled: false}}, effect: read_only, result: {{max: {} chars}}}}}}
context: {{results: {}, reduce: {reduce}}}
models:
  '*': {{retry: {{max_attempts: {}, backoff: {{kind: constant, delay: {}}}}}, price: {{input: 2, output: 8}}}}
  spare: {{price: {{input: {}, output: 40, cache_read: 0.5, reasoning: 60}}}}
{output}",
        budgets.join(", "),
        t.of(&["60", "8", "2"]),
        t.of(&["exhausted", "attempt"]),
        t.of(&["16000", "2000", "200"]),
        t.of(&["reduced", "left", "unlimited"]),
        t.of(&["1", "3", "6"]),
        t.of(&["0s", "1s", "20s"]),
        t.of(&["1", "10"]),
    )
}

#[test]
fn no_more_is_charged_than_there_is_and_the_final_turn_comes() {
    count::holds("no more is charged than there is, and the final turn comes", file!(), 500, |choices| {
        let mut t = Tape::new(choices);
        let text = policy(&mut t);
        let policy = Policy::from_yaml("x.yaml", &text).unwrap_or_else(|report| panic!("{report}\n{text}"));
        let limits = policy.run_limits().clone();
        let Some(Met { outcome, state, beyond, beyond_picodollars, late, final_calls, calls, events }) =
            Host::play(&policy, &mut t)
        else {
            return 0;
        };
        let spent = state.spending();
        if let Some(most) = limits.tokens {
            assert!(spent.tokens <= most.value + beyond, "{} tokens of {most:?}\n{text}", spent.tokens);
        }
        if let Some(most) = limits.cost {
            let cost = spent.cost().0;
            assert!(cost <= most.value.0 + beyond_picodollars, "{} of {most:?}\n{text}", spent.cost());
        }
        if let Some(most) = limits.model_calls {
            assert!(
                u64::from(most.value) >= calls && u64::from(spent.model_calls) == calls,
                "{calls} calls\n{text}"
            );
        }
        if let Some(most) = limits.tool_calls {
            assert!(spent.tool_calls <= most.value, "{} calls of tools\n{text}", spent.tool_calls);
        }
        if let Some(most) = limits.time {
            let taken = spent.time(state.now);
            assert!(taken.0 <= most.value.0 + late + 1_000_000, "{taken} of {most:?}, {late} late\n{text}");
        }
        // Without what nobody could foresee, a run that was begun has its final turn before the budget is gone.
        if let Outcome::Failed { report, .. } = &outcome
            && report.reason == FailureReason::BudgetExhausted
            && beyond == 0
            && late == 0
            && calls > 0
        {
            assert!(final_calls > 0, "there was no final turn: {outcome:?}\n{text}");
        }
        events
    });
}
