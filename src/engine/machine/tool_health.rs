//! What a run knows of its tools from one batch to the next: the breakers, what they count and which calls they let
//! through, which tools are hidden, and the corrections of each tool's arguments.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::super::because::{because, threshold};
use super::super::breaker::{Admission, Breaker, BreakerPhase};
use super::super::directive::{Because, Note};
use super::super::reason::Reason;
use super::super::shared::is_shared;
use super::super::state::Series;
use super::call_queue::Place;
use super::out::{Out, Rules};
use super::tool_series::Refusal;
use crate::policy::{Bound, BreakerPolicy, BreakerScope, Counting, ErrorClass, ToolPolicy};
use crate::session::StopReason;
use crate::time::Instant;

/// Whether a call gets a place.
pub(in crate::engine) enum Entry {
    /// It gets this one.
    Free(Place),
    /// When others of its tool are settled.
    Later,
    /// When others of any tool are settled.
    Full,
    /// It does not run.
    Refused(Refusal),
}

/// Breakers and corrections of all tools.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(in crate::engine) struct ToolHealth {
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    breakers: BTreeMap<String, Breaker>,
    /// The attempts of the model at arguments that hold, by tool.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    corrections: BTreeMap<String, Series>,
    /// The tools that models are not shown for now, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    hidden: Vec<String>,
    /// The tools all calls of which a person has agreed to.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    agreed: BTreeSet<String>,
}

impl ToolHealth {
    /// What the next run of the session begins with: the breakers that last longer than a run.
    pub(in crate::engine) fn next_run(&self) -> Self {
        let stays = |scope| matches!(scope, BreakerScope::Session | BreakerScope::Shared);
        let breakers = self.breakers.iter().filter(|(_, breaker)| stays(breaker.scope()));
        let breakers = breakers.map(|(tool, breaker)| (tool.clone(), breaker.without_probes()));
        Self { breakers: breakers.collect(), ..Self::default() }
    }

    /// The breaker of a tool, if it was ever run.
    pub(in crate::engine) fn breaker(&self, tool: &str) -> Option<&Breaker> {
        self.breakers.get(tool)
    }

    /// All breakers, by tool.
    pub(in crate::engine) const fn breakers(&self) -> &BTreeMap<String, Breaker> {
        &self.breakers
    }

    /// Whether models are not shown all tools.
    pub(in crate::engine) const fn hides_any(&self) -> bool {
        !self.hidden.is_empty()
    }

    /// Whether the breaker of a tool is open.
    pub(in crate::engine) fn is_open(&self, tool: &str) -> bool {
        self.phase(tool) == Some(BreakerPhase::Open)
    }

    /// Whether the breaker of a tool is closed, and lets all calls run.
    pub(in crate::engine) fn is_closed(&self, tool: &str) -> bool {
        self.phase(tool).is_none_or(|phase| phase == BreakerPhase::Closed)
    }

    /// The attempts of the model at arguments that hold, which are its first if there were none. Whoever takes them keeps
    /// them, or they have ended.
    pub(in crate::engine) fn take_corrections(&mut self, tool: &str, now: Instant) -> Series {
        self.corrections.remove(tool).unwrap_or_else(|| Series::begin(now))
    }

    /// Keeps the attempts at arguments that do not hold yet.
    pub(in crate::engine) fn keep_corrections(&mut self, tool: &str, series: Series) {
        self.corrections.insert(tool.to_owned(), series);
    }

    /// Ends the corrections of a tool, whose call ran.
    pub(in crate::engine) fn end_corrections(&mut self, tool: &str) -> Option<Series> {
        self.corrections.remove(tool)
    }

    /// No further correction follows, as a reducer objected.
    pub(in crate::engine) fn refuse_corrections(&mut self, tool: &str) {
        if let Some(series) = self.corrections.get_mut(tool) {
            series.over = Some(StopReason::ReducerError);
        }
    }

    /// A person agrees to all calls of a tool.
    pub(in crate::engine) fn agree(&mut self, tool: &str) {
        self.agreed.insert(tool.to_owned());
    }

    /// Whether a person has agreed to all calls of a tool.
    pub(in crate::engine) fn is_agreed(&self, tool: &str) -> bool {
        self.agreed.contains(tool)
    }

    /// Asks the breaker of a tool about a call, where so many others of the tool have a place.
    pub(in crate::engine) fn admit(
        &mut self,
        tool: &str,
        policy: &ToolPolicy,
        places: u32,
        out: &mut Out<'_>,
    ) -> Entry {
        let admission = match self.breakers.get_mut(tool) {
            Some(breaker) if breaker.is_full(&policy.breaker, places) => return Entry::Later,
            Some(breaker) => breaker.ask(out.now),
            None if Breaker::default().is_full(&policy.breaker, places) => return Entry::Later,
            None => Admission::Run,
        };
        match admission {
            Admission::Run => Entry::Free(Place::Run),
            Admission::Probe => {
                let state = BreakerPhase::HalfOpen;
                out.note(Note::Breaker { tool: tool.to_owned(), state, until: None }, Vec::new());
                Entry::Free(Place::Probe)
            }
            Admission::Refused => Entry::Refused(self.refusal(tool, policy, out)),
        }
    }

    /// Asks the breaker again about a call that has had its place for a while: the place it has now, or why it does not
    /// run.
    pub(in crate::engine) fn admit_again(
        &mut self,
        tool: &str,
        place: Option<Place>,
        policy: &ToolPolicy,
        out: &mut Out<'_>,
    ) -> Result<Option<Place>, Refusal> {
        match self.phase(tool) {
            None | Some(BreakerPhase::Closed) => return Ok(place),
            Some(BreakerPhase::HalfOpen) if place == Some(Place::Probe) => return Ok(place),
            Some(BreakerPhase::HalfOpen | BreakerPhase::Open) => {}
        }
        match self.admit(tool, policy, 0, out) {
            Entry::Free(place) => Ok(Some(place)),
            Entry::Refused(refusal) => Err(refusal),
            // It was asked about a call beside no others.
            Entry::Later | Entry::Full => Ok(place),
        }
    }

    /// Gives back a probe that shows nothing about the tool's health, so that the next call may try.
    pub(in crate::engine) fn return_probe(&mut self, tool: &str, out: &mut Out<'_>) {
        let Some(breaker) = self.breakers.get_mut(tool) else { return };
        if breaker.phase() == BreakerPhase::HalfOpen {
            breaker.returned(out.now);
            let (state, until) = (breaker.phase(), breaker.open_until());
            out.note(Note::Breaker { tool: tool.to_owned(), state, until }, Vec::new());
        }
    }

    /// Whether the breaker is open once a failure of the run in that place is counted.
    pub(in crate::engine) fn would_open(
        &self,
        tool: &str,
        place: Option<Place>,
        policy: &ToolPolicy,
        now: Instant,
    ) -> bool {
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
        place: Option<Place>,
        policy: &ToolPolicy,
        out: &mut Out<'_>,
    ) {
        if self.is_late(tool, place) {
            return;
        }
        let breaker = self.breakers.entry(tool.to_owned()).or_default();
        if !breaker.failed(&policy.breaker, out.now) {
            return;
        }
        let (until, failures) = (breaker.open_until(), breaker.failures());
        let mut why = vec![why_open(out.rules, &policy.breaker, failures).told(out.rules.policy)];
        why.extend(why_for_long(out.rules, &policy.breaker));
        out.note(Note::Breaker { tool: tool.to_owned(), state: BreakerPhase::Open, until }, why);
    }

    /// Counts a run that succeeded.
    pub(in crate::engine) fn succeeded(
        &mut self,
        tool: &str,
        place: Option<Place>,
        policy: &ToolPolicy,
        out: &mut Out<'_>,
    ) {
        if self.is_late(tool, place) {
            return;
        }
        let closed = if matches!(policy.breaker.count.value, Counting::Window(_)) {
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

    /// Begins a turn: what was counted for one turn only is forgotten.
    pub(in crate::engine) fn begin_turn(&mut self, out: &mut Out<'_>) {
        let begun = self.forget(|_, breaker| breaker.scope() == BreakerScope::Turn);
        for tool in begun {
            let policy = out.rules.policy.tool(&tool);
            let fact = "another turn begins".to_owned();
            let why = vec![because(out.rules.policy, "breaker.scope", &policy.breaker.scope, [fact])];
            out.note(Note::Breaker { tool, state: BreakerPhase::Closed, until: None }, why);
        }
    }

    /// There is another policy: breakers that do not fit it begin anew.
    pub(in crate::engine) fn policy_changed(&mut self, out: &mut Out<'_>) {
        let policy = out.rules.policy;
        let begun = self.forget(|tool, breaker| !breaker.fits(&policy.tool(tool).breaker));
        for tool in begun {
            let fact = "the rules of the breaker have changed".to_owned();
            let limit = threshold(&policy.tool(&tool).breaker);
            let why = vec![because(policy, "breaker.failures", &limit, [fact])];
            out.note(Note::Breaker { tool, state: BreakerPhase::Closed, until: None }, why);
        }
    }

    /// Takes a breaker that hosts share, and returns whether that changed when its tool runs. One that the policy does not
    /// share, or not by these rules, is of no use.
    pub(in crate::engine) fn take_shared(&mut self, tool: &str, breaker: Breaker, rules: Rules<'_>) -> bool {
        let policy = rules.policy.tool(tool);
        if !is_shared(&policy.breaker) || !breaker.fits(&policy.breaker) {
            return false;
        }
        let before = self.breakers.remove(tool).unwrap_or_default();
        let moved = (before.phase(), before.open_until()) != (breaker.phase(), breaker.open_until());
        if !breaker.is_new() {
            self.breakers.insert(tool.to_owned(), breaker);
        }
        moved
    }

    /// The tools that a model may be shown. Notes which are hidden, if that has changed.
    pub(in crate::engine) fn shown_tools(&mut self, out: &mut Out<'_>) -> Vec<String> {
        let Rules { policy, tools } = out.rules;
        let mut hidden = Vec::new();
        let mut why = Vec::new();
        for (tool, breaker) in &self.breakers {
            if !breaker.is_open(out.now) || tools.get(tool).is_none() {
                continue;
            }
            let rules = policy.tool(tool);
            if rules.breaker.hide.value {
                hidden.push(tool.clone());
                let fact = format!("the breaker of {tool} is open");
                why.push(because(policy, "breaker.hide", &rules.breaker.hide, [fact]));
            }
        }
        if self.hidden != hidden {
            self.hidden.clone_from(&hidden);
            out.note(Note::ToolsHidden { tools: hidden }, why);
        }
        let is_hidden = |name: &str| self.hidden.binary_search_by(|one| (**one).cmp(name)).is_ok();
        tools.names().filter(|name| !is_hidden(name)).map(str::to_owned).collect()
    }

    /// Why a call does not run while the breaker is open.
    fn refusal(&self, tool: &str, policy: &ToolPolicy, out: &mut Out<'_>) -> Refusal {
        let failures = self.breakers.get(tool).map_or(0, Breaker::failures);
        let text = out.say(&policy.breaker.message, json!({ "tool": tool, "failures": failures }));
        let because = vec![why_open(out.rules, &policy.breaker, failures)];
        Refusal { class: ErrorClass::CircuitOpen, text, because }
    }

    /// Whether the breaker has opened since the run in that place began, so that its end changes nothing.
    fn is_late(&self, tool: &str, place: Option<Place>) -> bool {
        self.phase(tool) == Some(BreakerPhase::HalfOpen) && place != Some(Place::Probe)
    }

    fn phase(&self, tool: &str) -> Option<BreakerPhase> {
        self.breakers.get(tool).map(Breaker::phase)
    }

    /// Forgets breakers, and returns the tools of those that were not closed.
    fn forget(&mut self, is_over: impl Fn(&str, &Breaker) -> bool) -> Vec<String> {
        let mut begun = Vec::new();
        self.breakers.retain(|tool, breaker| {
            let over = is_over(tool, breaker);
            if over && breaker.phase() != BreakerPhase::Closed {
                begun.push(tool.clone());
            }
            !over
        });
        begun
    }
}

/// Which rule keeps a breaker open that lets no probe through, if it is not the run's end.
fn why_for_long(rules: Rules<'_>, breaker: &BreakerPolicy) -> Option<Because> {
    let stays = breaker.open_for.value == Bound::Unlimited && breaker.scope.value != BreakerScope::Run;
    let fact = || "no probe is let through".to_owned();
    stays.then(|| because(rules.policy, "breaker.scope", &breaker.scope, [fact()]))
}

fn why_open(rules: Rules<'_>, breaker: &BreakerPolicy, failures: u32) -> Reason {
    let fact = match breaker.count.value {
        Counting::Consecutive => format!("{failures} failures in a row"),
        Counting::Cumulative => format!("{failures} failures in all"),
        Counting::Window(window) => {
            format!("{failures} failures among the last {} results", window.calls)
        }
    };
    Reason::new(rules.policy, "breaker.failures", &threshold(breaker), [fact])
}
