//! The state of the tools across the batches of a run: breakers and their probes, hidden tools, and the corrections
//! of each tool's arguments.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::super::because::{because, threshold};
use super::super::breaker::{BreakerAdmission, BreakerPhase, CircuitBreaker};
use super::super::directive::{DecisionReason, Note};
use super::super::reason::StoredReason;
use super::call_queue::CallPermit;
use super::out::{StepOutput, StepRules};
use crate::engine::attempt_series::AttemptSeries;
use crate::engine::machine::call_refusal::CallRefusal;
use crate::policy::{BreakerPolicy, BreakerScope, ErrorClass, FailureCounting, TimeBound, ToolPolicy};
use crate::session::StopReason;
use crate::time::Instant;

/// Whether a call gets a permit.
pub(in crate::engine) enum CallAdmission {
    /// The call gets this permit.
    Free(CallPermit),
    /// The call waits until others of its tool are settled.
    Later,
    /// The call waits until others of any tool are settled.
    Full,
    /// The call does not run.
    Refused(CallRefusal),
}

/// The breakers and corrections of all tools.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(in crate::engine) struct ToolHealth {
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    breakers: BTreeMap<String, CircuitBreaker>,
    /// The attempts of the model at valid arguments, by tool.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    corrections: BTreeMap<String, AttemptSeries>,
    /// The tools currently hidden from models, sorted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    hidden: Vec<String>,
    /// The tools for which a person has approved all calls.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    agreed: BTreeSet<String>,
}

impl ToolHealth {
    /// The state for the next run of the session: the breakers that outlive a run.
    pub(in crate::engine) fn next_run(&self) -> Self {
        // A failing tool stays suspect in the next run only if the policy says so; supyagent and LocalCowork reset
        // with each message.
        let stays = |scope| matches!(scope, BreakerScope::Session | BreakerScope::Shared);
        let breakers = self.breakers.iter().filter(|(_, breaker)| stays(breaker.scope()));
        // Probes in flight belong to the ended run and are never returned.
        let breakers = breakers.map(|(tool, breaker)| (tool.clone(), breaker.without_probes()));
        Self { breakers: breakers.collect(), ..Self::default() }
    }

    /// The breaker of a tool, if it was ever run.
    pub(in crate::engine) fn breaker(&self, tool: &str) -> Option<&CircuitBreaker> {
        self.breakers.get(tool)
    }

    /// All breakers, by tool.
    pub(in crate::engine) const fn breakers(&self) -> &BTreeMap<String, CircuitBreaker> {
        &self.breakers
    }

    /// Whether any tool is hidden.
    pub(in crate::engine) const fn hides_any(&self) -> bool {
        !self.hidden.is_empty()
    }

    /// Whether the breaker of a tool is open.
    pub(in crate::engine) fn is_open(&self, tool: &str) -> bool {
        self.phase(tool) == Some(BreakerPhase::Open)
    }

    /// Whether a breaker has counted failures that the next turn resets.
    pub(in crate::engine) fn knows_for_turn(&self) -> bool {
        self.breakers.values().any(|breaker| breaker.scope() == BreakerScope::Turn && !breaker.is_quiet())
    }

    /// Whether a success of the tool would change nothing.
    pub(in crate::engine) fn is_quiet(&self, tool: &str) -> bool {
        // A success also ends corrections, so a tool with corrections is not quiet.
        self.breakers.get(tool).is_none_or(CircuitBreaker::is_quiet) && !self.corrections.contains_key(tool)
    }

    /// Whether the breaker of a tool is closed and admits all calls.
    pub(in crate::engine) fn is_closed(&self, tool: &str) -> bool {
        self.phase(tool).is_none_or(|phase| phase == BreakerPhase::Closed)
    }

    /// Counts a failure only if the breaker is closed and stays closed. `false`: it would open, and nothing has
    /// changed. Not for breakers that count the last results.
    pub(in crate::engine) fn failed_within_bounds(
        &mut self,
        tool: &str,
        policy: &BreakerPolicy,
        now: Instant,
    ) -> bool {
        if let Some(breaker) = self.breakers.get_mut(tool) {
            return breaker.bears(policy, now);
        }
        // The name is only copied for the first failure.
        let mut breaker = CircuitBreaker::default();
        let bears = breaker.bears(policy, now);
        if bears {
            self.breakers.insert(tool.to_owned(), breaker);
        }
        bears
    }

    /// Counts a success in the simple case: the breaker is closed, not shared, and does not count the last results.
    /// Returns whether no failure is counted then; `None`: another case, and nothing has changed.
    pub(in crate::engine) fn succeeded_within_bounds(
        &mut self,
        tool: &str,
        policy: &BreakerPolicy,
    ) -> Option<bool> {
        if matches!(policy.count.value, FailureCounting::Window(_)) || CircuitBreaker::is_shared_by(policy) {
            return None;
        }
        match self.breakers.get_mut(tool) {
            None => Some(true),
            Some(breaker) if breaker.phase() == BreakerPhase::Closed => {
                breaker.succeeded(policy, Instant::default());
                Some(breaker.is_quiet())
            }
            Some(_) => None,
        }
    }

    /// Takes the attempts at valid arguments; a new series if there were none. The caller puts them back unless they
    /// have ended.
    pub(in crate::engine) fn take_corrections(&mut self, tool: &str, now: Instant) -> AttemptSeries {
        self.corrections.remove(tool).unwrap_or_else(|| AttemptSeries::begin(now))
    }

    /// Keeps the attempts at arguments that are not valid yet.
    pub(in crate::engine) fn keep_corrections(&mut self, tool: &str, series: AttemptSeries) {
        self.corrections.insert(tool.to_owned(), series);
    }

    /// Ends the corrections of a tool whose call ran.
    pub(in crate::engine) fn end_corrections(&mut self, tool: &str) -> Option<AttemptSeries> {
        // Called for every attempt of every call, and few models need corrections.
        if self.corrections.is_empty() { None } else { self.corrections.remove(tool) }
    }

    /// Ends the corrections because a reducer objected.
    pub(in crate::engine) fn refuse_corrections(&mut self, tool: &str) {
        if let Some(series) = self.corrections.get_mut(tool) {
            series.over = Some(StopReason::ReducerError);
        }
    }

    /// Records a person's approval of all calls of a tool.
    pub(in crate::engine) fn agree(&mut self, tool: &str) {
        self.agreed.insert(tool.to_owned());
    }

    /// Whether a person has approved all calls of a tool.
    pub(in crate::engine) fn is_agreed(&self, tool: &str) -> bool {
        self.agreed.contains(tool)
    }

    /// Asks the breaker of a tool to admit a call; `places` is the number of permits in use.
    pub(in crate::engine) fn admit(
        &mut self,
        tool: &str,
        policy: &ToolPolicy,
        places: u32,
        out: &mut StepOutput<'_>,
    ) -> CallAdmission {
        let admission = match self.breakers.get_mut(tool) {
            // The calls in flight could open the breaker together; the next one waits until they are settled.
            Some(breaker) if breaker.is_full(&policy.breaker, places) => return CallAdmission::Later,
            Some(breaker) => breaker.ask(out.now),
            // A tool without a breaker has had no failure, but the limit applies to its first calls, too.
            None if CircuitBreaker::default().is_full(&policy.breaker, places) => {
                return CallAdmission::Later;
            }
            None => BreakerAdmission::Run,
        };
        match admission {
            BreakerAdmission::Run => CallAdmission::Free(CallPermit::Run),
            BreakerAdmission::Probe => {
                let state = BreakerPhase::HalfOpen;
                out.note(Note::Breaker { tool: tool.to_owned(), state, until: None }, Vec::new());
                CallAdmission::Free(CallPermit::Probe)
            }
            BreakerAdmission::Refused => CallAdmission::Refused(self.refusal(tool, policy, out)),
        }
    }

    /// Asks the breaker again about a call that has held its permit for a while. Returns the new permit, or the
    /// refusal.
    pub(in crate::engine) fn admit_again(
        &mut self,
        tool: &str,
        place: Option<CallPermit>,
        policy: &ToolPolicy,
        out: &mut StepOutput<'_>,
    ) -> Result<Option<CallPermit>, CallRefusal> {
        // The breaker may have opened while a person was asked.
        match self.phase(tool) {
            None | Some(BreakerPhase::Closed) => return Ok(place),
            // The call already holds a probe; asking again would take a second one.
            Some(BreakerPhase::HalfOpen) if place == Some(CallPermit::Probe) => return Ok(place),
            Some(BreakerPhase::HalfOpen | BreakerPhase::Open) => {}
        }
        match self.admit(tool, policy, 0, out) {
            CallAdmission::Free(place) => Ok(Some(place)),
            CallAdmission::Refused(refusal) => Err(refusal),
            // No other call is counted here, so neither can occur; the permit stays as it is.
            CallAdmission::Later | CallAdmission::Full => Ok(place),
        }
    }

    /// Returns a probe without a result, so that the next call may be a probe.
    pub(in crate::engine) fn return_probe(&mut self, tool: &str, out: &mut StepOutput<'_>) {
        let Some(breaker) = self.breakers.get_mut(tool) else { return };
        // Reported, since the breaker has changed: it can be probed again.
        if breaker.phase() == BreakerPhase::HalfOpen {
            breaker.returned(out.now);
            let (state, until) = (breaker.phase(), breaker.open_until());
            out.note(Note::Breaker { tool: tool.to_owned(), state, until }, Vec::new());
        }
    }

    /// Whether the breaker would be open after a failure of the run with this permit.
    pub(in crate::engine) fn would_open(
        &self,
        tool: &str,
        place: Option<CallPermit>,
        policy: &ToolPolicy,
        now: Instant,
    ) -> bool {
        // Tried on a copy, because the question must not count as a failure.
        let mut breaker = self.breakers.get(tool).cloned().unwrap_or_default();
        if !self.is_late(tool, place) {
            breaker.failed(&policy.breaker, now);
        }
        breaker.phase() == BreakerPhase::Open
    }

    /// Counts a run that failed.
    pub(in crate::engine) fn failed(
        &mut self,
        tool: &str,
        place: Option<CallPermit>,
        policy: &ToolPolicy,
        out: &mut StepOutput<'_>,
    ) {
        // A run from before the breaker opened shows only the earlier state of the tool.
        if self.is_late(tool, place) {
            return;
        }
        let breaker = self.breakers.entry(tool.to_owned()).or_default();
        let probed = breaker.phase() == BreakerPhase::HalfOpen;
        if !breaker.failed(&policy.breaker, out.now) {
            return;
        }
        let (until, failures) = (breaker.open_until(), breaker.failures());
        let mut why = Vec::new();
        if probed {
            // One failed probe opens the breaker at any failure threshold, so the rule named is the time it stays
            // open.
            let fact = "a probe failed".to_owned();
            why.push(because(out.rules.policy, "breaker.open_for", &policy.breaker.open_for, [fact]));
        } else {
            why.push(why_open(out.rules, &policy.breaker, failures).told(out.rules.policy));
            why.extend(why_for_long(out.rules, &policy.breaker));
        }
        out.note(Note::Breaker { tool: tool.to_owned(), state: BreakerPhase::Open, until }, why);
    }

    /// Counts a run that succeeded.
    pub(in crate::engine) fn succeeded(
        &mut self,
        tool: &str,
        place: Option<CallPermit>,
        policy: &ToolPolicy,
        out: &mut StepOutput<'_>,
    ) {
        if self.is_late(tool, place) {
            return;
        }
        // A window also counts successes, so it exists from the first run; otherwise a tool that never fails has no
        // breaker in the state.
        let closed = if matches!(policy.breaker.count.value, FailureCounting::Window(_)) {
            self.breakers.entry(tool.to_owned()).or_default().succeeded(&policy.breaker, out.now)
        } else {
            let breaker = self.breakers.get_mut(tool);
            breaker.is_some_and(|breaker| breaker.succeeded(&policy.breaker, out.now))
        };
        if closed {
            let state = BreakerPhase::Closed;
            out.note(Note::Breaker { tool: tool.to_owned(), state, until: None }, Vec::new());
        }
    }

    /// Resets the breakers that count within one turn.
    pub(in crate::engine) fn begin_turn(&mut self, out: &mut StepOutput<'_>) {
        let begun = self.forget(|_, breaker| breaker.scope() == BreakerScope::Turn);
        for tool in begun {
            let policy = out.rules.policy.tool(&tool);
            let fact = "another turn begins".to_owned();
            let why = vec![because(out.rules.policy, "breaker.scope", &policy.breaker.scope, [fact])];
            out.note(Note::Breaker { tool, state: BreakerPhase::Closed, until: None }, why);
        }
    }

    /// Resets the breakers whose rules the new policy changes.
    pub(in crate::engine) fn policy_changed(&mut self, out: &mut StepOutput<'_>) {
        let policy = out.rules.policy;
        // A count under other rules cannot be compared, so it is reset; an open breaker that closes is reported.
        let begun = self.forget(|tool, breaker| !breaker.fits(&policy.tool(tool).breaker));
        for tool in begun {
            let fact = "the rules of the breaker have changed".to_owned();
            let limit = threshold(&policy.tool(&tool).breaker);
            let why = vec![because(policy, "breaker.failures", &limit, [fact])];
            out.note(Note::Breaker { tool, state: BreakerPhase::Closed, until: None }, why);
        }
    }

    /// Takes a shared breaker from other hosts. Returns whether this changed when its tool runs. Ignored if the
    /// policy does not share the breaker under these rules.
    pub(in crate::engine) fn take_shared(
        &mut self,
        tool: &str,
        breaker: CircuitBreaker,
        rules: StepRules<'_>,
    ) -> bool {
        let policy = rules.policy.tool(tool);
        if !CircuitBreaker::is_shared_by(&policy.breaker) || !breaker.fits(&policy.breaker) {
            return false;
        }
        let before = self.breakers.remove(tool).unwrap_or_default();
        // A count changed by other hosts is not reported. A change in whether calls run is.
        let moved = (before.phase(), before.open_until()) != (breaker.phase(), breaker.open_until());
        if !breaker.is_new() {
            self.breakers.insert(tool.to_owned(), breaker);
        }
        moved
    }

    /// The tools shown to a model. Notes the hidden ones, if they have changed.
    pub(in crate::engine) fn shown_tools(&mut self, out: &mut StepOutput<'_>) -> Vec<String> {
        let StepRules { policy, tools } = out.rules;
        let mut hidden = Vec::new();
        let mut why = Vec::new();
        for (tool, breaker) in &self.breakers {
            // An open breaker whose time is over is shown: the next call is its probe, and a hidden tool is never
            // called.
            if !breaker.is_open(out.now) || tools.get(tool).is_none() {
                continue;
            }
            let rules = policy.tool(tool);
            if rules.breaker.hide.value {
                hidden.push(tool.clone());
                // LocalCowork removes the tool from the request; supyagent keeps it and refuses the call. Hiding
                // saves calls and tokens.
                let fact = format!("the breaker of {tool} is open");
                why.push(because(policy, "breaker.hide", &rules.breaker.hide, [fact]));
            }
        }
        if self.hidden != hidden {
            self.hidden.clone_from(&hidden);
            out.note(Note::ToolsHidden { tools: hidden }, why);
        }
        // The names are sorted, as they come from an ordered map.
        let is_hidden = |name: &str| self.hidden.binary_search_by(|one| (**one).cmp(name)).is_ok();
        tools.names().filter(|name| !is_hidden(name)).map(str::to_owned).collect()
    }

    /// The refusal of a call while the breaker is open.
    fn refusal(&self, tool: &str, policy: &ToolPolicy, out: &mut StepOutput<'_>) -> CallRefusal {
        let failures = self.breakers.get(tool).map_or(0, CircuitBreaker::failures);
        let text = out.say(&policy.breaker.message, json!({ "tool": tool, "failures": failures }));
        let because = vec![self.why_open(tool, policy, out.rules)];
        CallRefusal { class: ErrorClass::CircuitOpen, text, because }
    }

    /// Why the breaker of a tool is open.
    pub(in crate::engine) fn why_open(
        &self,
        tool: &str,
        policy: &ToolPolicy,
        rules: StepRules<'_>,
    ) -> StoredReason {
        let failures = self.breakers.get(tool).map_or(0, CircuitBreaker::failures);
        why_open(rules, &policy.breaker, failures)
    }

    /// Whether the breaker opened after the run with this permit began, so that the run's result is ignored.
    fn is_late(&self, tool: &str, place: Option<CallPermit>) -> bool {
        self.breakers.get(tool).is_some_and(|breaker| breaker.is_late(place == Some(CallPermit::Probe)))
    }

    fn phase(&self, tool: &str) -> Option<BreakerPhase> {
        self.breakers.get(tool).map(CircuitBreaker::phase)
    }

    /// Removes breakers, and returns the tools of those that were not closed.
    fn forget(&mut self, is_over: impl Fn(&str, &CircuitBreaker) -> bool) -> Vec<String> {
        let mut begun = Vec::new();
        self.breakers.retain(|tool, breaker| {
            let over = is_over(tool, breaker);
            // Closed ones are removed without a note, since nothing changes for calls.
            if over && breaker.phase() != BreakerPhase::Closed {
                begun.push(tool.clone());
            }
            !over
        });
        begun
    }
}

/// The start of the fact that explains how long an open breaker admits no probe.
pub(crate) const NO_PROBE_FOR: &str = "no probe is let through for ";

/// The rule that keeps a breaker open without probes, unless it is the end of the run.
fn why_for_long(rules: StepRules<'_>, breaker: &BreakerPolicy) -> Option<DecisionReason> {
    let lifetime = match breaker.scope.value {
        BreakerScope::Run => return None,
        BreakerScope::Turn => "the rest of the turn",
        BreakerScope::Session => "the rest of the session",
        BreakerScope::Shared => "all runs that share it",
    };
    let fact = || format!("{NO_PROBE_FOR}{lifetime}");
    let stays = breaker.open_for.value == TimeBound::Unlimited;
    stays.then(|| because(rules.policy, "breaker.open_for", &breaker.open_for, [fact()]))
}

fn why_open(rules: StepRules<'_>, breaker: &BreakerPolicy, failures: u32) -> StoredReason {
    let fact = match breaker.count.value {
        FailureCounting::Consecutive => format!("{failures} failures in a row"),
        FailureCounting::Cumulative => format!("{failures} failures in all"),
        FailureCounting::Window(window) => {
            format!("{failures} failures among the last {} results", window.calls)
        }
    };
    StoredReason::new(rules.policy, "breaker.failures", &threshold(breaker), [fact])
}
