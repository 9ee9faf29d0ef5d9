//! A model or a tool that all agents share: what becomes of a call, by its rules, its trace and what is left of its
//! capacity.

use super::capacity::Capacity;
use super::chance::{Draws, strikes};
use super::figures::Load;
use super::latency::Latency;
use super::scenario::{ServiceRules, WindowRule};
use crate::policy::ErrorClass;
use crate::time::Nanos;

/// A service under way.
#[derive(Debug)]
pub(super) struct Service<'a> {
    rules: &'a ServiceRules,
    capacity: Option<Capacity>,
    /// Of each window that has a capacity of its own.
    windows: Vec<Option<Capacity>>,
    pub(super) load: Load,
}

/// What becomes of a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Served {
    /// How long it takes. A timeout never ends by itself.
    pub(super) takes: Nanos,
    /// How it fails, if it does.
    pub(super) fault: Option<Fault>,
}

/// How a call fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) class: ErrorClass,
    /// The wait it asks for.
    pub(super) retry_after: Option<Nanos>,
}

impl<'a> Service<'a> {
    pub(super) fn new(rules: &'a ServiceRules) -> Self {
        Self {
            rules,
            capacity: rules.capacity.map(Capacity::new),
            windows: rules.trace.iter().map(|window| window.capacity.map(Capacity::new)).collect(),
            load: Load { name: rules.name.clone(), ..Load::default() },
        }
    }

    /// Whether what it does for one caller depends on the others.
    pub(super) fn is_limited(&self) -> bool {
        self.capacity.is_some() || self.windows.iter().any(Option::is_some)
    }

    /// What becomes of a call so long after the start. If it is limited, calls come in the
    /// order of their times.
    pub(super) fn call(&mut self, at: Nanos, draws: Draws) -> Served {
        self.load.calls = self.load.calls.saturating_add(1);
        let fault = self.fault(at, draws);
        self.load.failed = self.load.failed.saturating_add(fault.is_some().into());
        let takes = match fault {
            Some(fault) if !is_answer(fault.class) => &self.rules.fails_after,
            _ => self.latency(at),
        };
        Served { takes: takes.draw(draws.time()), fault }
    }

    fn latency(&self, at: Nanos) -> &Latency {
        let mut slow = self.rules.trace.iter().filter(|window| window.holds(at));
        slow.find_map(|window| window.latency.as_ref()).unwrap_or(&self.rules.latency)
    }

    fn fault(&mut self, at: Nanos, draws: Draws) -> Option<Fault> {
        let strikes_now = |window: &&WindowRule| {
            window.fault.is_some() && window.holds(at) && strikes(window.ppm, draws.window())
        };
        if let Some(window) = self.rules.trace.iter().find(strikes_now) {
            return window.fault.map(|class| Fault { class, retry_after: window.retry_after });
        }
        let windows = self.rules.trace.iter().zip(&mut self.windows);
        let mut narrow =
            windows.filter_map(|(window, capacity)| capacity.as_mut().filter(|_| window.holds(at)));
        if let Some(capacity) = narrow.next().or(self.capacity.as_mut())
            && let Err(wait) = capacity.take(at)
        {
            self.load.refused = self.load.refused.saturating_add(1);
            return Some(Fault { class: ErrorClass::RateLimit, retry_after: wait });
        }
        let mut below = 0_u32;
        let struck = self.rules.faults.iter().find(|(_, ppm)| {
            below = below.saturating_add(*ppm);
            strikes(below, draws.fault())
        });
        struck.map(|(class, _)| Fault { class: *class, retry_after: None })
    }
}

/// Whether a model that fails so has answered: it takes as long as any answer.
pub(super) const fn is_answer(class: ErrorClass) -> bool {
    matches!(
        class,
        ErrorClass::EmptyResponse
            | ErrorClass::ReasoningOnly
            | ErrorClass::TextOnly
            | ErrorClass::TruncatedOutput
            | ErrorClass::ContentFilter
            | ErrorClass::MalformedToolCall
            | ErrorClass::InvalidArgs
            | ErrorClass::InvalidOutput
            | ErrorClass::ToolNotFound
    )
}
