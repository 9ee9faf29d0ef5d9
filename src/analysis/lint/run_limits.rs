//! Budgets of a run that leave nothing before its final turn, and one of money without a price.

use super::found::LintFindings;
use super::view::ProfileView;
use crate::policy::form::MergedBlock as _;
use crate::policy::{Cost, Origin, RunLimits, Setting};
use crate::text::{Code, Diagnostic};
use crate::time::Nanos;

/// The tokens that a turn takes before the final one, whatever the conversation is: its reply, room for results, and the
/// reply of the final turn.
const ONE_TURN: u64 = 3 * RunLimits::LEAST_REPLY;
/// No model answers twice in less.
const LEAST_TIME: Nanos = Nanos::from_secs(2);

/// Looks at the budgets of a run.
pub(super) fn check(view: &ProfileView<'_>, found: &mut LintFindings<'_>) {
    let limits = view.layers.run_limits();
    if let Some(time) = &limits.time
        && time.value < LEAST_TIME
    {
        too_small(
            time.origin,
            &format!("`time` is {}: no model answers twice in less than {LEAST_TIME}", time.value),
            found,
        );
    }
    if let Some(tokens) = &limits.tokens
        && tokens.value < ONE_TURN
    {
        let kept = format!(
            "`tokens` is {}: one turn and the final turn keep {ONE_TURN} for replies and results",
            tokens.value
        );
        too_small(tokens.origin, &kept, found);
    }
    if let Some(calls) = &limits.model_calls
        && calls.value < 2
    {
        too_small(calls.origin, "`model_calls` is 1: that one is the final turn", found);
    }
    short(view, found);
    let Some(cost) = &limits.cost else { return };
    let prices = view
        .models()
        .into_iter()
        .filter_map(|named| view.layers.model(named.name).policy()?.price.value.known());
    let least = prices.map(|price| {
        Cost::of([(RunLimits::LEAST_REPLY, price.input), (2 * RunLimits::LEAST_REPLY, price.output)])
    });
    if let Some(least) = least.min()
        && cost.value < least
    {
        let kept = format!(
            "`cost` is {}: replies and results of one turn and the final turn alone are kept {least}",
            cost.value
        );
        too_small(cost.origin, &kept, found);
    }
    unpriced(view, cost.origin, found);
}

/// What a constant does not tell: an agent whose first request alone is too large.
fn short(view: &ProfileView<'_>, found: &mut LintFindings<'_>) {
    let Some(short) = &view.options.short_budget else { return };
    let limits = view.layers.run_limits();
    let enough_alone = |tokens: &&Setting<u64>| tokens.value >= ONE_TURN;
    let origin = match short.path.as_str() {
        "limits.run.tokens" => limits.tokens.as_ref().filter(enough_alone).map(|tokens| tokens.origin),
        _ => limits.cost.as_ref().map(|cost| cost.origin),
    };
    if let Some(origin) = origin {
        too_small(origin, &format!("the first turn of the agent is its final one: {}", short.why), found);
    }
}

fn too_small(origin: Origin, why: &str, found: &mut LintFindings<'_>) {
    let Some(span) = found.place(origin) else { return };
    let message = format!("{why}; nothing is left before the final turn");
    found.push(
        Diagnostic::warning(Code::SMALL_BUDGET, span, message)
            .help("make the budget larger, or leave it out"),
    );
}

/// Reports models without a price, if the models are known and only the policy can set prices.
fn unpriced(view: &ProfileView<'_>, cost: Origin, found: &mut LintFindings<'_>) {
    let Some(span) = found.place(cost) else { return };
    for model in view.options.models.iter().flatten().map(|model| &model.name) {
        if view.layers.model(model).policy().is_some_and(|policy| policy.price.value.known().is_some()) {
            continue;
        }
        let message =
            format!("`cost` bounds what a run may spend, and the price of the model `{model}` is unknown");
        let problem = Diagnostic::error(Code::NO_PRICE, span, message);
        found.push(problem.help(format!(
            "write `price: {{input: 2.50, output: 10}}` for `{model}`, in US dollars per million tokens"
        )));
    }
}
