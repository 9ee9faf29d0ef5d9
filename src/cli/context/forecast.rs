//! What the next reduction would come to, if the conversation were reduced as it stands.

use crate::context::{TokenLedger, reduce};
use crate::engine::{ContextBudget, ReducePlan};
use crate::session::splice;

use super::subject::ContextSubject;

/// The limits of the budget, and the next reduction.
pub(super) struct BudgetForecast {
    pub(super) room: ContextBudget,
    /// With less room left than this the conversation is reduced.
    pub(super) compact_at_free: u64,
    /// With less room left than this the model is not called.
    pub(super) min_free: u64,
    /// A reduction continues until so much room is left.
    pub(super) target_free: u64,
    /// So many tokens the results of the calls of the next reply have together; `None`: any number.
    pub(super) results: Option<u64>,
    /// Messages of more tokens are reduced; `None`: none ever are.
    pub(super) most: Option<u64>,
    /// Whether the next turn begins with a reduction.
    pub(super) due: bool,
    /// Whether the tools alone are too large: then nothing is reduced, and the provider decides.
    pub(super) filled: bool,
    /// Whether the model can be called as it is.
    pub(super) open: bool,
    /// The steps that would cut something.
    pub(super) steps: Vec<ForecastStep>,
    /// Why the conversation would still be too large.
    pub(super) lacking: Option<String>,
}

/// A step of a reduction that cuts something.
pub(super) struct ForecastStep {
    pub(super) number: u32,
    pub(super) kind: &'static str,
    pub(super) before: u64,
    pub(super) after: u64,
    pub(super) shortened: u64,
    pub(super) left_out: u64,
    /// The tokens a model is asked to sum up.
    pub(super) asked: Option<u64>,
}

impl BudgetForecast {
    pub(super) fn of(subject: &ContextSubject, room: ContextBudget) -> Self {
        let rules = subject.policy.context();
        let budget = room.budget();
        // What leaves messages no room at all no reduction helps.
        let (steps, lacking) = if budget > 0 { steps(subject, room) } else { (Vec::new(), None) };
        Self {
            room,
            compact_at_free: room.compact_at_free(rules),
            min_free: room.min_free(rules),
            target_free: rules.target_free.value.of(budget),
            results: room.for_results(rules),
            most: (!rules.reduce.value.is_empty()).then(|| room.most(rules)),
            due: budget > 0 && room.is_short(rules) && !rules.reduce.value.is_empty(),
            filled: room.is_filled_by_tools(),
            open: room.is_open(rules),
            steps,
            lacking,
        }
    }
}

fn steps(subject: &ContextSubject, room: ContextBudget) -> (Vec<ForecastStep>, Option<String>) {
    let (policy, counter) = (&subject.policy, &*subject.counter);
    let rules = policy.context();
    // Messages are weighed as they are counted here, the room as the provider counts.
    let expected = |tokens| subject.calibration.part(&subject.model, tokens);
    let by_ours = |tokens| subject.calibration.counted(&subject.model, tokens);
    let mut messages = subject.messages.clone();
    let mut ledger = TokenLedger::of_weights(subject.weights.clone());
    let (mut steps, mut lacking) = (Vec::new(), None);
    for (number, step) in (1..).zip(rules.reduce.value.iter()) {
        let before = ledger.messages();
        let Some(plan) = room.plan(rules, number, step, expected(before), false) else { continue };
        let plan = ReducePlan { aim: by_ours(plan.aim), most: by_ours(plan.most), ..plan };
        let reduction = reduce(policy, &plan, &messages, ledger.weights(), counter);
        lacking = reduction.lacking;
        if reduction.splices.is_empty() {
            continue;
        }
        splice(&mut messages, &reduction.splices);
        ledger.splice(counter, &reduction.splices);
        steps.push(ForecastStep {
            number,
            kind: step.name(),
            before: expected(before),
            after: expected(ledger.messages()),
            shortened: reduction.shortened,
            left_out: reduction.dropped,
            asked: reduction.summarize.map(|request| expected(request.tokens)),
        });
    }
    (steps, lacking)
}
