//! What ends the attempts: of all that bounds them, what can be the first.

use super::PolicyExplanation;
use super::render::{LONGEST, short};
use super::worst::{AttemptedWork, WorstCase, larger};
use crate::policy::{AttemptLimit, RetryPolicy, TimeBound};
use crate::text::Place;

impl PolicyExplanation {
    /// What can end the attempts, and what is done then. A bound that another one always comes before is left out.
    pub(super) fn end_of_attempts(&self) -> String {
        let mut ends = match &self.rules {
            Some((retry, work)) => self.ends_of(retry, *work),
            None => Vec::new(),
        };
        let breaker = self.value_but("breaker.failures", "never");
        ends.extend(breaker.map(|(failures, at)| format!("breaker after {failures} failures ({at})")));
        let budgets = self.budgets.iter();
        ends.extend(budgets.map(|one| format!("{} {} ({})", one.path, short(&one.value, LONGEST), one.at)));
        let then = self.value_but("on_exhausted", "");
        ends.extend(then.map(|(then, at)| format!("then on_exhausted: {then} ({at})")));
        ends.join(", ")
    }

    /// The bounds of the retry rules that can end the attempts.
    fn ends_of(&self, retry: &RetryPolicy, work: AttemptedWork) -> Vec<String> {
        if !retry.enabled.value {
            let enabled = self.value_but("retry.enabled", "true");
            return enabled.map(|(_, at)| format!("retry.enabled false ({at})")).into_iter().collect();
        }
        let patience = match &self.patience {
            Some(limit) => Some((limit.name, short(&limit.value, LONGEST), &limit.at)),
            None => {
                self.value_but("retry.total_delay", "unlimited").map(|(most, at)| ("total_delay", most, at))
            }
        };
        let number = self.value_but("retry.max_attempts", "unlimited");
        let number = number.filter(|_| number_ends(retry, work)).map(|(most, at)| ("max_attempts", most, at));
        let deadline = self.value_but("retry.deadline", "unlimited").map(|(most, at)| ("deadline", most, at));
        let ends = [number, patience.filter(|_| waits_end(retry, work)), deadline];
        ends.into_iter().flatten().map(|(name, most, at)| format!("{name} {most} ({at})")).collect()
    }

    /// The text and the place of a value, if it is not this one.
    fn value_but(&self, path: &str, idle: &str) -> Option<(String, &Place)> {
        let value = self.get(path)?;
        Some((short(&value.value, LONGEST), &value.at)).filter(|(text, _)| text != idle)
    }
}

/// Whether the number of attempts can end them: without it there were more, or no length of time ends them earlier.
fn number_ends(retry: &RetryPolicy, work: AttemptedWork) -> bool {
    let calls = |retry: &RetryPolicy| WorstCase::of(retry, work).calls.unwrap_or(u32::MAX);
    let mut any_number = retry.clone();
    any_number.max_attempts.value = AttemptLimit::Unlimited;
    for class in any_number.by_class.rules_mut() {
        class.max_attempts.value = AttemptLimit::Unlimited;
    }
    calls(&any_number) > calls(retry) || calls(&patient(retry)) == calls(retry)
}

/// Whether `total_delay` can end the attempts: without it they might wait longer.
fn waits_end(retry: &RetryPolicy, work: AttemptedWork) -> bool {
    let worst = WorstCase::of(&patient(retry), work);
    match (larger(worst.waiting, worst.waiting_if_asked), retry.total_delay.value) {
        (_, TimeBound::Unlimited) => false,
        (TimeBound::Unlimited, TimeBound::Within(_)) => true,
        (TimeBound::Within(waiting), TimeBound::Within(most)) => waiting > most,
    }
}

/// The same rules without a bound on what is waited in all.
fn patient(retry: &RetryPolicy) -> RetryPolicy {
    let mut patient = retry.clone();
    patient.total_delay.value = TimeBound::Unlimited;
    patient
}
