//! The first lines of an explanation of the turns, the history or the windows: what people ask first, in the words and numbers
//! of the engine.

use serde_json::{Value, json};

use crate::analysis::PolicyExplanation;
use crate::context::repair;
use crate::engine::{ContextBudget, TurnMeasure, final_turn, orphans, told};
use crate::policy::{
    ContextPolicy, ContextWindow, HistoryCheck, Origin, Policy, ReduceStep, Setting, TextOnly,
};
use crate::session::{FinalReason, Message, ToolCall};
use crate::text::Template;

/// The name of a model of which no policy says anything of its own.
const ANY: &str = "";
/// The placeholder for an unknown tool.
const SOME: &str = "…";

/// The rules of the loop of turns: how many, how long, what the model reads at the end, what ends them.
pub(crate) fn explain_turn(policy: &Policy) -> PolicyExplanation {
    let turn = policy.turn();
    let at = |origin| policy.place(origin);
    let most = turn.max_turns.value.get();
    let alone = if policy.output().is_some() { "the report" } else { "an answer without tools" };
    let turns = if most == 1 { "1 turn" } else { &format!("{most} turns") };
    let how_often = format!("{turns} at most ({}); the last allows {alone} only", at(turn.max_turns.origin));
    let how_long = format!(
        "waits for models: {} in a turn ({}), {} in a run ({})",
        turn.total_delay.value,
        at(turn.total_delay.origin),
        turn.run_delay.value,
        at(turn.run_delay.origin)
    );
    let (template, vars) = final_turn(policy, most, FinalReason::MaxTurns);
    let reads = format!("reads in the final turn: {}", quoted(policy, template, vars));
    let end = match (policy.output(), turn.text_only.value) {
        (Some(output), TextOnly::Accept) => format!("the report (`{}`), or a text", output.tool.value),
        (Some(output), TextOnly::Reject) => format!("the report (`{}`), and no text", output.tool.value),
        (None, TextOnly::Accept) => "a text".to_owned(),
        (None, TextOnly::Reject) => "no text".to_owned(),
    };
    let mut ends =
        vec![format!("{end} (text_only {}, {})", name(&turn.text_only.value), at(turn.text_only.origin))];
    ends.extend(policy.run_limits().each().into_iter().map(|(name, limit)| {
        let value = limit.shown.as_str().map_or_else(|| limit.shown.to_string(), str::to_owned);
        format!("limits.{name} {value} ({})", at(limit.origin))
    }));
    let stop = format!("a stop: on_stop {} ({})", name(&turn.on_stop.value), at(turn.on_stop.origin));
    ends.push(stop);
    policy.explain_turn().opened(vec![
        ("how often", how_often),
        ("how long", how_long),
        ("the model", reads),
        ("ends with", ends.join("; ")),
    ])
}

/// The rules for the validity of the history: when it is looked at, what is repaired, and what the model reads of it.
pub(crate) fn explain_history(policy: &Policy) -> PolicyExplanation {
    let rules = policy.history();
    let at = |origin| policy.place(origin);
    let when = match rules.check.value {
        HistoryCheck::BeforeCall => "before each turn, and when a provider refuses the history",
        HistoryCheck::AfterError => "when a provider refuses the history",
        HistoryCheck::Never => "never",
    };
    let mut lines = vec![(
        "looked at",
        format!("{when} (check {}, {})", name(&rules.check.value), at(rules.check.origin)),
    )];
    if rules.check.value != HistoryCheck::Never {
        let call = ToolCall { id: "1".into(), name: SOME.into(), arguments: "{}".into() };
        let history = [
            Message::user(SOME),
            Message::Assistant { text: String::new(), calls: vec![call], extra: serde_json::Map::new() },
        ];
        let mut found = repair(&history, rules.orphan_calls.value, policy.turn().malformed_calls.value);
        let done = if found.pruned.is_empty() { "gets one" } else { "is taken out" };
        let by = at(rules.orphan_calls.origin);
        lines.push((
            "repairs",
            format!(
                "a call without a result {done} (orphan_calls {}, {by})",
                name(&rules.orphan_calls.value)
            ),
        ));
        let mut read = Vec::new();
        let mut say = |template: &Setting<Template>, vars: Value| {
            read.push(quoted(policy, template, vars));
            String::new()
        };
        orphans::write(rules, &mut found, &mut say);
        let _ = orphans::reminder(rules, &found.pruned, &mut say);
        lines.extend(read.pop().map(|text| ("the model", format!("reads {text}"))));
    }
    let again = match rules.check.value {
        HistoryCheck::Never => "a refusal is a failure like others",
        _ => "one repair in a turn after a refusal; the next refusal is a failure like others",
    };
    lines.push(("ends with", again.to_owned()));
    policy.explain_history().opened(lines)
}

/// The rules for windows: how much there is for messages where no window is known, when the conversation is
/// reduced, what the model reads of it, and what ends the reductions.
pub(crate) fn explain_context(policy: &Policy) -> PolicyExplanation {
    let rules = policy.context();
    let model = policy.model(ANY);
    let room = match model.context_window.value {
        ContextWindow::Tokens(window) => Some((window, "context_window", model.context_window.origin)),
        ContextWindow::Unknown => match model.assumed_window.value {
            ContextWindow::Tokens(window) => Some((window, "assumed_window", model.assumed_window.origin)),
            ContextWindow::Unknown => None,
        },
    };
    let at = |origin| policy.place(origin);
    let mut lines = Vec::new();
    if let Some((window, rule, origin)) = room {
        let room = ContextBudget::of(rules, &model, window.get(), TurnMeasure::default());
        let kept = format!("{window} less reply, reserve and safety");
        lines.push((
            "how much",
            format!(
                "{} tokens for messages and tools ({kept}) where no window is known ({rule}, {})",
                room.budget(),
                at(origin)
            ),
        ));
        lines.push(("reduced", reduced(policy, rules, &room)));
        let gate = format!(
            "with less than {} left the model is not called (min_free, {})",
            room.min_free(rules),
            at(rules.min_free.origin)
        );
        lines.push(("the model", read_of(policy, rules)));
        lines.push(("ends with", format!("{gate}; {}", given_up(policy, rules))));
    } else {
        lines.push(("how much", "any amount where no window is known (assumed_window unknown)".to_owned()));
        lines.push(("the model", read_of(policy, rules)));
        lines.push(("ends with", given_up(policy, rules)));
    }
    policy.explain_context().opened(lines)
}

fn reduced(policy: &Policy, rules: &ContextPolicy, room: &ContextBudget) -> String {
    let steps: Vec<&str> = rules.reduce.value.iter().map(ReduceStep::name).collect();
    let at = |origin: Origin| policy.place(origin);
    if steps.is_empty() {
        return format!("never (reduce [], {})", at(rules.reduce.origin));
    }
    format!(
        "with less than {} free (compact_at_free, {}), until {} are free (target_free, {}): {}",
        room.compact_at_free(rules),
        at(rules.compact_at_free.origin),
        room.budget().saturating_sub(room.aim(rules)),
        at(rules.target_free.origin),
        steps.join(", ")
    )
}

/// What the model reads in the place of what a reduction leaves out, by its first step that leaves out messages.
fn read_of(policy: &Policy, rules: &ContextPolicy) -> String {
    let texts = &rules.messages;
    let steps = &rules.reduce.value;
    let leaves_out = |step: &&ReduceStep| !matches!(step, ReduceStep::Results { .. });
    let Some(step) = steps.iter().find(leaves_out).or_else(|| steps.first()) else {
        return "reads the whole conversation".to_owned();
    };
    let (template, vars) = match step {
        ReduceStep::Results { .. } => {
            (&texts.shortened, json!({"tool": SOME, "tokens": SOME, "shown": SOME}))
        }
        ReduceStep::Drop { .. } => (&texts.dropped, json!({"count": SOME})),
        ReduceStep::Digest { .. } => (&texts.digest, json!({"count": SOME})),
        ReduceStep::Summary { .. } => (&texts.summary, json!({"count": SOME})),
        ReduceStep::Truncate { .. } => (&texts.cut, json!({"tokens": SOME})),
    };
    format!("reads in the place of what is left out: {}", quoted(policy, template, vars))
}

fn given_up(policy: &Policy, rules: &ContextPolicy) -> String {
    let most = rules.give_up_after.value;
    let at = policy.place(rules.give_up_after.origin);
    format!(
        "after {most} reductions in a row that gain next to nothing the next turn is the last (give_up_after, {at})"
    )
}

/// The first line of what the model reads, with its place.
fn quoted(policy: &Policy, template: &Setting<Template>, vars: Value) -> String {
    let Value::Object(vars) = vars else { return String::new() };
    let text = told(policy, &template.value, &vars).unwrap_or_else(|_| template.value.to_string());
    let line = text.lines().next().unwrap_or_default();
    format!("{} ({})", PolicyExplanation::shown(line), policy.place(template.origin))
}

/// A choice as policies write it.
fn name(choice: &impl serde::Serialize) -> String {
    serde_json::to_value(choice).ok().and_then(|name| name.as_str().map(str::to_owned)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opening(explained: &PolicyExplanation) -> Vec<String> {
        explained.brief().lines().take_while(|line| !line.is_empty()).map(str::to_owned).collect()
    }

    fn policy(text: &str) -> Policy {
        Policy::from_yaml("a.yaml", &format!("version: 1\n{text}")).unwrap()
    }

    #[test]
    fn each_begins_with_what_people_ask_first() {
        let builtin = policy("");
        let all = [explain_turn(&builtin), explain_history(&builtin), explain_context(&builtin)];
        insta::assert_snapshot!("openings", all.map(|one| opening(&one).join("\n")).join("\n\n"));
    }

    #[test]
    fn the_lines_follow_the_rules() {
        let told = opening(&explain_turn(&policy(
            "output: {schema: {type: object}}\nturn: {max_turns: 1, text_only: reject}\nlimits: {run: {tool_calls: 4}}\n",
        )));
        assert!(
            told[1].contains("1 turn at most (a.yaml:3:") && told[1].ends_with("the report only"),
            "{told:?}"
        );
        assert!(told[3].contains("(turn 1 of 1). No other tool"), "{told:?}");
        assert!(
            told[4].contains("the report (`final_report`), and no text")
                && told[4].contains("limits.run.tool_calls 4 (a.yaml:4:"),
            "{told:?}"
        );
        let told = opening(&explain_history(&policy("history: {orphan_calls: prune}\n")));
        assert!(
            told[2].contains("is taken out") && told[3].contains("Some calls were interrupted"),
            "{told:?}"
        );
        let told = opening(&explain_history(&policy("history: {check: never}\n")));
        assert!(told.len() == 3 && told[1].contains("never"), "{told:?}");
        let told = opening(&explain_context(&policy(
            "models: {'*': {assumed_window: 10000}}\ncontext: {reduce: []}\n",
        )));
        assert!(told[1].contains("5704 tokens") && told[2].contains("never (reduce []"), "{told:?}");
        let told = opening(&explain_context(&policy("models: {'*': {assumed_window: unknown}}\n")));
        assert!(told[1].contains("any amount"), "{told:?}");
    }

    /// Each line is what the engine does with such a conversation.
    #[test]
    fn the_numbers_of_a_window_are_those_the_engine_decides_by() {
        let policy = policy("");
        let (rules, model) = (policy.context(), policy.model("main"));
        let told = opening(&explain_context(&policy)).join("\n");
        let number = |before: &str| -> u64 {
            let rest = told.split_once(before).unwrap().1;
            rest.split(|c: char| !c.is_ascii_digit()).next().unwrap().parse().unwrap()
        };
        let (all, compact_at_free, gate) = (
            number("how much   "),
            number("reduced    with less than "),
            number("ends with  with less than "),
        );
        let room = |left: u64| {
            let measure = TurnMeasure { messages: 1, message_tokens: all - left, ..TurnMeasure::default() };
            ContextBudget::of(rules, &model, 32_768, measure)
        };
        assert!(room(compact_at_free - 1).is_short(rules) && !room(compact_at_free).is_short(rules));
        assert!(!room(gate - 1).is_open(rules) && room(gate).is_open(rules));
    }
}
