//! Breakers that never open, never probe or never close, and loop guards whose stages are in the wrong order.

use core::num::NonZeroU32;

use super::LintFindings;
use crate::policy::decode::Patch;
use crate::policy::document::ToolLayer;
use crate::policy::{BreakerScope, FailureCounting, LoopStages, Setting, TimeBound, ToolPolicy};
use crate::text::{Code, Diagnostic};

/// Looks at the effective rules for a tool.
pub(super) fn check(subject: &str, policy: &ToolPolicy, found: &mut LintFindings<'_>) {
    idle_window(subject, policy, found);
    open_for_all(subject, policy, found);
    let guard = &policy.loop_guard;
    if !guard.enabled.value {
        return;
    }
    // What is known when a call ends can still be reported when the next one would not run.
    for (name, stages, at_the_end) in [
        ("same_call", &guard.same_call, false),
        ("cycle", &guard.cycle, false),
        ("same_result", &guard.same_result, true),
        ("same_error", &guard.same_error, true),
    ] {
        stages_in_order(subject, name, stages, at_the_end, found);
    }
}

/// Looks at what one rule says by itself.
pub(super) fn plain(tool: &ToolLayer, found: &mut LintFindings<'_>) {
    let breaker = &tool.breaker;
    let Patch::Set(TimeBound::Unlimited, until) = breaker.open_for else { return };
    for (name, patch) in [("probes", &breaker.probes), ("successes", &breaker.successes)] {
        if let Patch::Set(count, span) = patch
            && count.get() > 1
        {
            let message = format!("`{name}` has no effect: the breaker stays open and lets no probe through");
            let problem =
                Diagnostic::warning(Code::NO_PROBE, *span, message).also(until, "for as long as it lives");
            found.push(problem.help(format!("set `open_for` to a time, or remove `{name}`")));
        }
    }
}

fn idle_window(subject: &str, policy: &ToolPolicy, found: &mut LintFindings<'_>) {
    let breaker = &policy.breaker;
    let (Some(failures), FailureCounting::Window(window)) = (breaker.failures.value, breaker.count.value)
    else {
        return;
    };
    let calls = window.calls.get();
    let lacks = if failures.get() > calls {
        format!("{failures} failures")
    } else if window.min_calls > calls {
        format!("{} results", window.min_calls)
    } else {
        return;
    };
    let Some(span) = found.place(breaker.count.origin).or_else(|| found.place(breaker.failures.origin))
    else {
        return;
    };
    let message =
        format!("the breaker of {subject} never opens: it needs {lacks}, and its window holds {calls}");
    let problem = Diagnostic::warning(Code::IDLE_WINDOW, span, message);
    let problem =
        match found.place(breaker.failures.origin).filter(|at| *at != span && failures.get() > calls) {
            Some(at) => problem.also(at, "the failures it waits for"),
            None => problem,
        };
    found.push(problem.help("make `calls` larger, or wait for less; `failures: never` keeps it closed"));
}

fn open_for_all(subject: &str, policy: &ToolPolicy, found: &mut LintFindings<'_>) {
    let breaker = &policy.breaker;
    let stays = breaker.failures.value.is_some() && breaker.open_for.value == TimeBound::Unlimited;
    if !stays || breaker.scope.value != BreakerScope::Shared {
        return;
    }
    let (scope, until) = (found.place(breaker.scope.origin), found.place(breaker.open_for.origin));
    let Some(span) = until.or(scope) else { return };
    let message = format!("once the breaker of {subject} opens, it stays open in all runs of all hosts");
    let problem = Diagnostic::warning(Code::OPEN_FOR_ALL, span, message);
    let problem = match scope.filter(|at| *at != span) {
        Some(at) => problem.also(at, "who knows it"),
        None => problem,
    };
    found.push(problem.help("set `open_for` to a time"));
}

fn stages_in_order(
    subject: &str,
    name: &str,
    stages: &LoopStages,
    at_the_end: bool,
    found: &mut LintFindings<'_>,
) {
    let later =
        |stage: &Setting<Option<NonZeroU32>>, at_the_end: bool, next: &Setting<Option<NonZeroU32>>| {
            stage.value.zip(next.value).is_some_and(
                |(stage, next)| {
                    if at_the_end { stage > next } else { stage >= next }
                },
            )
        };
    let LoopStages { nudge, block, final_turn } = stages;
    for ((stage, setting), at_the_end, (next_name, next)) in [
        (("nudge", nudge), at_the_end, ("block", block)),
        (("nudge", nudge), at_the_end, ("final_turn", final_turn)),
        (("block", block), false, ("final_turn", final_turn)),
    ] {
        if !later(setting, at_the_end, next) {
            continue;
        }
        let (stage_at, next_at) = (found.place(setting.origin), found.place(next.origin));
        let Some(span) = stage_at.or(next_at) else { continue };
        let (count, next_count) =
            (setting.value.map_or(0, NonZeroU32::get), next.value.map_or(0, NonZeroU32::get));
        let message = format!(
            "`loop_guard.{name}.{stage}` of {subject} is unreachable: it is {count}, and `{next_name}` is {next_count}"
        );
        let problem = Diagnostic::warning(Code::LATE_STAGE, span, message);
        let problem = match next_at.filter(|at| *at != span) {
            Some(at) => problem.also(at, "comes before"),
            None => problem,
        };
        return found.push(
            problem.help(format!("make `{stage}` less than `{next_name}`, or write `{stage}: never`")),
        );
    }
}
