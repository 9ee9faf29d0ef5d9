//! What is done about each class of errors, as `explain` says it, and the rows where that differs.

use serde_json::Value;

use super::{DiffRow, DiffVerdict};
use crate::analysis::{ErrorAction, PolicyExplanation};
use crate::policy::{ErrorClass, Policy};
use crate::text::Place;

/// How the rules of a policy are explained; `None`: nothing is retried by them.
pub(super) type ExplainedRules<'e> = &'e dyn Fn(&Policy) -> Option<PolicyExplanation>;

/// A row for each class that another thing is done about.
pub(super) fn rows(
    when: Option<&str>,
    old: Option<PolicyExplanation>,
    new: Option<PolicyExplanation>,
) -> Vec<DiffRow> {
    let Some((old, new)) = old.zip(new) else { return Vec::new() };
    let of_class = |class: &ErrorClass| row(when, *class, &old, &new);
    ErrorClass::ALL.iter().filter_map(of_class).collect()
}

fn row(
    when: Option<&str>,
    class: ErrorClass,
    old: &PolicyExplanation,
    new: &PolicyExplanation,
) -> Option<DiffRow> {
    let (was, is) = (old.action(class), new.action(class));
    // `max_attempts` says already that one attempt is all there is.
    let (lists, now) = (old.action_by_rules(class), new.action_by_rules(class));
    if coarse(was) != coarse(is) && coarse(lists) != coarse(now) {
        let verdict = verdict(coarse(was), coarse(is));
        let place = |side: &PolicyExplanation| side.deciding(class);
        let (old_at, new_at) = (place(old), place(new));
        return Some(DiffRow { old_at, new_at, ..told(when, class, coarse(was), coarse(is), verdict) });
    }
    if was == is || coarse(was) != coarse(is) || coarse(is) != ErrorAction::Retried {
        return None;
    }
    let place =
        |side: &PolicyExplanation| -> Option<Place> { side.get("effect").map(|held| held.at.clone()) };
    let (old_at, new_at) = (place(old), place(new));
    Some(DiffRow { old_at, new_at, ..told(when, class, was, is, verdict(was, is)) })
}

fn told(
    when: Option<&str>,
    class: ErrorClass,
    was: ErrorAction,
    is: ErrorAction,
    verdict: DiffVerdict,
) -> DiffRow {
    DiffRow {
        when: when.map(str::to_owned),
        field: format!("on {class}"),
        old: Some(shown(was)),
        new: Some(shown(is)),
        old_at: None,
        new_at: None,
        verdict,
    }
}

/// Whether there is another attempt, whatever it takes.
pub(super) const fn coarse(action: ErrorAction) -> ErrorAction {
    match action {
        ErrorAction::RetriedIfHarmless | ErrorAction::RetriedIfNotStarted | ErrorAction::Corrected => {
            ErrorAction::Retried
        }
        ErrorAction::NotAsItIs => ErrorAction::NotRetried,
        other => other,
    }
}

pub(super) fn shown(action: ErrorAction) -> Value {
    Value::from(match action {
        ErrorAction::Retried => "retried",
        ErrorAction::RetriedIfHarmless => "retried if harmless",
        ErrorAction::RetriedIfNotStarted => "retried if not started",
        ErrorAction::Corrected => "corrected",
        ErrorAction::NotAsItIs | ErrorAction::NotRetried => "not retried",
        ErrorAction::NeverRetried => "never retried",
    })
}

fn verdict(was: ErrorAction, is: ErrorAction) -> DiffVerdict {
    match rank(was).cmp(&rank(is)) {
        core::cmp::Ordering::Less => DiffVerdict::Looser,
        core::cmp::Ordering::Greater => DiffVerdict::Tighter,
        core::cmp::Ordering::Equal => DiffVerdict::Changed,
    }
}

/// From the tightest to the loosest.
const fn rank(action: ErrorAction) -> u8 {
    match action {
        ErrorAction::NeverRetried => 0,
        ErrorAction::NotRetried | ErrorAction::NotAsItIs => 1,
        ErrorAction::RetriedIfNotStarted => 2,
        ErrorAction::RetriedIfHarmless => 3,
        ErrorAction::Retried | ErrorAction::Corrected => 4,
    }
}
