//! A model or a tool that all agents share: determines the result of a call from its rules, its trace and its
//! remaining capacity.

use super::capacity::ServiceCapacity;
use super::chance::{CallDraws, strikes};
use super::document::WindowFile;
use super::figures::ServiceLoad;
use super::latency::LatencyModel;
use super::limits::{CallUse, CountedCalls, CountedUnit, LimitFile};
use super::scenario::ServiceRules;
use super::shedding::{ForeignCalls, ServiceShedding};
use crate::cases::{is_answer, longest, of_class};
use crate::engine::{CallTimeouts, EffectState, Failure, ProviderLimit, ToolOutcome, WaitHint};
use crate::policy::ErrorClass;
use crate::time::Nanos;

/// The duration after which a call without any limit is cut off.
const CUT_OFF: Nanos = Nanos::from_secs(15 * 60);

/// The state of a service.
#[derive(Debug)]
pub(super) struct SimulatedService<'a> {
    rules: &'a ServiceRules,
    /// Whether the service is a model, whose replies may also be faulty.
    answers: bool,
    capacity: Option<ServiceCapacity>,
    /// The capacity of each window that has its own.
    windows: Vec<Option<ServiceCapacity>>,
    limits: Vec<ServiceCapacity>,
    shedding: Option<ServiceShedding>,
    foreign: Option<ForeignCalls>,
    pub(super) load: ServiceLoad,
}

/// A call of a service.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ServiceCall {
    /// The maximum duration.
    pub(super) whole: Option<Nanos>,
    /// The maximum durations of its steps, for a model.
    pub(super) steps: CallTimeouts,
    /// Whether a good reply of a model contains tool calls or the report.
    pub(super) has_calls: bool,
    /// The tokens of a call of a model.
    pub(super) used: CallUse,
    /// How the same request was answered badly before.
    pub(super) again: Option<ErrorClass>,
}

/// The result of a call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ServedCall {
    /// The duration.
    pub(super) takes: Nanos,
    /// The failure, if it fails.
    pub(super) fault: Option<ServiceFault>,
    /// The limits that the answer states.
    pub(super) stated: Vec<ProviderLimit>,
}

/// The failure of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ServiceFault {
    pub(super) class: ErrorClass,
    /// The server delay.
    pub(super) retry_after: Option<Nanos>,
}

impl<'a> SimulatedService<'a> {
    pub(super) fn model(rules: &'a ServiceRules) -> Self {
        Self::new(rules, true)
    }

    pub(super) fn tool(rules: &'a ServiceRules) -> Self {
        Self::new(rules, false)
    }

    fn new(rules: &'a ServiceRules, answers: bool) -> Self {
        let limits: &[(CountedUnit, LimitFile)] = &rules.provider.limits;
        Self {
            rules,
            answers,
            capacity: rules.capacity.map(ServiceCapacity::of),
            windows: windows(rules).map(|window| window.capacity.map(ServiceCapacity::of)).collect(),
            limits: limits.iter().map(|(unit, limit)| ServiceCapacity::new(*unit, *limit)).collect(),
            shedding: rules.provider.shedding.map(ServiceShedding::new),
            foreign: rules.provider.foreign.map(ForeignCalls::new),
            load: ServiceLoad { name: rules.name.clone(), ..ServiceLoad::default() },
        }
    }

    /// Whether the calls of one agent depend on those of others.
    pub(super) fn is_limited(&self) -> bool {
        self.capacity.is_some()
            || self.windows.iter().any(Option::is_some)
            || !self.limits.is_empty()
            || self.shedding.is_some()
    }

    /// The result of a call at a time from the start. If the service is limited, calls must come in the order of
    /// their times.
    pub(super) fn call(&mut self, at: Nanos, draws: CallDraws, call: ServiceCall) -> ServedCall {
        self.load.calls = self.load.calls.saturating_add(1);
        let any = call.has_calls || !self.answers;
        self.play_foreign(at);
        let fault = self.fault(at, draws, call).filter(|fault| any || !is_of_calls(fault.class));
        let is_answered = fault.is_none_or(|fault| self.answers && is_answer(fault.class));
        let takes = if is_answered { self.latency(at) } else { &self.rules.fails_after };
        let bound = longest(call.whole, call.steps, is_answered);
        let served = ends(takes.draw(draws.time()), fault, bound);
        self.load.failed = self.load.failed.saturating_add(served.fault.is_some().into());
        let stated = self.limits_at(at).filter_map(|limit| limit.stated(at)).collect();
        ServedCall { stated, ..served }
    }

    /// The limits that are in effect at a time.
    fn limits_at(&mut self, at: Nanos) -> impl Iterator<Item = &mut ServiceCapacity> {
        let windows = windows(self.rules).zip(&mut self.windows);
        let narrow = windows.filter_map(move |(window, limit)| limit.as_mut().filter(|_| window.holds(at)));
        narrow.chain(&mut self.capacity).take(1).chain(&mut self.limits)
    }

    /// What foreign clients have taken up to a time.
    fn play_foreign(&mut self, at: Nanos) {
        let Some(foreign) = &mut self.foreign else { return };
        let used = self.rules.provider.foreign_use;
        for at in foreign.until(at) {
            if self.limits_at(at).all(|limit| limit.wait(at, used).is_zero()) {
                self.limits_at(at).for_each(|limit| limit.take(at, used));
            }
        }
    }

    /// Takes a call out of the limits; or refuses it, with the wait that is asked for.
    fn take(&mut self, at: Nanos, used: CallUse) -> Option<ServiceFault> {
        let rules = self.rules;
        let provider = &rules.provider;
        let mut refused: Option<Option<Nanos>> = None;
        for limit in self.limits_at(at) {
            let wait = limit.wait(at, used);
            if !wait.is_zero() {
                let hint = limit.hint(provider.hint, at, wait, used);
                refused = Some(refused.flatten().max(hint));
            }
        }
        let Some(hint) = refused else {
            self.limits_at(at).for_each(|limit| limit.take(at, used));
            return None;
        };
        if provider.count == CountedCalls::All {
            self.limits_at(at).for_each(|limit| limit.take_rest(at));
        }
        let hint = hint.map(|hint| provider.hint_factor.map_or(hint, |factor| factor.times(hint)));
        Some(ServiceFault { class: ErrorClass::RateLimit, retry_after: hint })
    }

    /// Whether the load is such that a call fails. Every call is load.
    fn is_shed(&mut self, at: Nanos, draws: CallDraws) -> bool {
        let ended = windows(self.rules).filter(|window| window.fault.is_some());
        let ended = ended.filter_map(|window| window.ended(at)).min();
        self.shedding.as_mut().is_some_and(|load| strikes(load.call(at, ended), draws.load()))
    }

    fn latency(&self, at: Nanos) -> &LatencyModel {
        let mut slow = windows(self.rules).filter(|window| window.holds(at));
        slow.find_map(|window| window.latency.as_ref()).unwrap_or(&self.rules.latency)
    }

    fn fault(&mut self, at: Nanos, draws: CallDraws, call: ServiceCall) -> Option<ServiceFault> {
        let is_shed = self.is_shed(at, draws);
        let strikes_now = |window: &&WindowFile| {
            window.fault.is_some()
                && window.holds(at)
                && strikes(window.rate.map_or(1_000_000, |rate| rate.value.0), draws.window())
        };
        if let Some(window) = windows(self.rules).find(strikes_now) {
            let retry_after = window.retry_after.map(|wait| wait.value);
            return window.fault.map(|class| ServiceFault { class: class.value, retry_after });
        }
        if let Some(refused) = self.take(at, call.used) {
            self.load.refused = self.load.refused.saturating_add(1);
            return Some(refused);
        }
        if is_shed {
            return Some(ServiceFault { class: ErrorClass::Overloaded, retry_after: None });
        }
        let sticks = self.rules.provider.sticky.is_some_and(|rate| strikes(rate.0, draws.again()));
        if let Some(class) = call.again.filter(|_| sticks) {
            return Some(ServiceFault { class, retry_after: None });
        }
        let mut below = 0_u32;
        let struck = self.rules.faults.iter().find(|(_, ppm)| {
            below = below.saturating_add(*ppm);
            strikes(below, draws.fault())
        });
        struck.map(|(class, _)| ServiceFault { class: *class, retry_after: None })
    }
}

impl ServiceFault {
    const TIMEOUT: Self = Self { class: ErrorClass::Timeout, retry_after: None };

    pub(super) fn failure(self) -> Failure {
        let retry_after = self.retry_after.map_or(WaitHint::None, WaitHint::Wait);
        Failure { retry_after, ..Failure::of(self.class, self.class.name()) }
    }

    /// The failure as the outcome of a tool. A refused call has not started.
    pub(super) fn outcome(self) -> ToolOutcome {
        let turned_away = matches!(self.class, ErrorClass::RateLimit | ErrorClass::Overloaded);
        let effect = match of_class(self.class) {
            ToolOutcome::Failed { effect, .. } if !turned_away => effect,
            _ => EffectState::NotStarted,
        };
        ToolOutcome::Failed { failure: self.failure(), effect }
    }
}

/// The windows of the trace.
fn windows(rules: &ServiceRules) -> impl Iterator<Item = &WindowFile> {
    rules.trace.iter().map(|window| &window.value)
}

/// When and how a call ends. A hanging call only ends at its limit.
fn ends(takes: Nanos, fault: Option<ServiceFault>, bound: Option<Nanos>) -> ServedCall {
    let hangs = fault.is_some_and(|fault| fault.class == ErrorClass::Timeout);
    match bound.or_else(|| hangs.then_some(CUT_OFF)) {
        Some(bound) if hangs || takes >= bound => {
            ServedCall { takes: bound, fault: Some(ServiceFault::TIMEOUT), stated: Vec::new() }
        }
        _ => ServedCall { takes, fault, stated: Vec::new() },
    }
}

/// Whether a reply can have this fault only if it contains calls.
const fn is_of_calls(class: ErrorClass) -> bool {
    matches!(
        class,
        ErrorClass::MalformedToolCall
            | ErrorClass::InvalidArgs
            | ErrorClass::InvalidOutput
            | ErrorClass::ToolNotFound
            | ErrorClass::TextOnly
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Nanos = Nanos::from_secs(1);

    #[test]
    fn a_call_ends_by_itself_or_when_its_time_is_over() {
        let refused = Some(ServiceFault { class: ErrorClass::RateLimit, retry_after: Some(SECOND) });
        let over = ServedCall { takes: SECOND, fault: Some(ServiceFault::TIMEOUT), stated: Vec::new() };
        for fault in [None, refused] {
            assert_eq!(ends(SECOND, fault, None), ServedCall { takes: SECOND, fault, stated: Vec::new() });
            assert_eq!(
                ends(SECOND, fault, Some(Nanos::from_secs(5))),
                ServedCall { takes: SECOND, fault, stated: Vec::new() }
            );
            assert_eq!(ends(Nanos::from_secs(9), fault, Some(SECOND)), over);
        }
    }

    #[test]
    fn what_hangs_ends_when_its_time_is_over_or_the_connection_is_cut() {
        let hangs = |bound| ends(SECOND, Some(ServiceFault::TIMEOUT), bound).takes;
        assert_eq!((hangs(Some(Nanos::from_secs(5))), hangs(None)), (Nanos::from_secs(5), CUT_OFF));
    }
}
