//! The paces that a provider states in the headers of its answers.

use core::num::NonZeroU32;

use serde::{Deserialize, Serialize};

use crate::engine::pace_clock::PaceClock;
use crate::engine::provider_limit::{LimitUnit, ProviderLimit};
use crate::policy::PaceRate;
use crate::time::{Instant, Nanos};

/// The longest period over which calls are spread.
// A limit of a day would hold a short run back though nearly all of it is left.
const LONGEST_SPREAD: Nanos = Nanos::from_secs(120);
/// The period of a limit whose headers tell none. Nearly all providers count minutes.
const USUAL: Nanos = Nanos::from_secs(60);

/// The limits of a provider, as far as its answers state them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct LearnedPaces {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) requests: Option<PaceClock>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) tokens: Option<PaceClock>,
    /// When the latest call began whose answer is known.
    #[serde(default, skip_serializing_if = "crate::session::is_default")]
    latest: Instant,
    /// Until when nothing is left of a limit whose calls are not spread.
    #[serde(default, skip_serializing_if = "crate::session::is_default")]
    pub(super) spent_until: Instant,
}

impl LearnedPaces {
    /// Follows what an answer states. The call began at `since`; calls and tokens of `later` ones are not counted in it.
    pub(super) fn observe(
        &mut self,
        stated: &ProviderLimit,
        since: Instant,
        (later_calls, later_tokens): (u64, u64),
        now: Instant,
    ) {
        let is_latest = since >= self.latest;
        self.latest = self.latest.max(since);
        let (clock, later) = match stated.unit {
            LimitUnit::Requests => (&mut self.requests, later_calls),
            LimitUnit::Tokens => (&mut self.tokens, later_tokens),
        };
        let per = stated.per.or_else(|| clock.as_ref().map(|clock| clock.rate().per)).unwrap_or(USUAL);
        if per > LONGEST_SPREAD {
            if let (0, Some(reset)) = (stated.remaining, stated.reset) {
                self.spent_until = self.spent_until.max(now.saturating_add(reset.min(per)));
            }
            return;
        }
        let limit = u32::try_from(stated.limit).ok().and_then(NonZeroU32::new).unwrap_or(NonZeroU32::MAX);
        let rate = PaceRate { limit, per, burst: limit };
        let clock = clock.get_or_insert_with(|| PaceClock::new(rate, now));
        clock.observe(rate, (stated.remaining, since), later, is_latest, now);
    }

    /// The limits, for people; `None`: there are none.
    pub(super) fn text(&self) -> Option<String> {
        let limits = [(&self.requests, "requests"), (&self.tokens, "tokens")];
        let rates = limits.into_iter().filter_map(|(clock, unit)| {
            let PaceRate { limit, per, .. } = clock.as_ref()?.rate();
            Some(format!("{limit} {unit} in {per}"))
        });
        let rates: Vec<String> = rates.collect();
        (!rates.is_empty()).then(|| format!("the provider allows {}", rates.join(" and ")))
    }
}
