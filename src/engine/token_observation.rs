//! Observations of providers' token counts and context windows.

use super::failure::Failure;
use super::known_windows::KnownWindows;
use super::token_calibration::TokenCalibration;
use crate::policy::ModelPolicy;

/// A provider's response to a request, with the host's count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenObservation {
    /// The provider counted the request.
    Counted {
        /// The host's count.
        counted: u64,
        /// The provider's count.
        reported: u64,
    },
    /// The provider refused the request for its size.
    Refused {
        /// The host's count; 0: the host measures nothing.
        counted: u64,
        /// The named window, in tokens.
        limit: Option<u64>,
        /// The size of the request in the provider's count.
        size: Option<u64>,
    },
}

impl TokenObservation {
    /// The observation from a refusal for size.
    pub fn of_refusal(counted: u64, failure: &Failure) -> Self {
        Self::Refused { counted, limit: failure.limit(), size: failure.size() }
    }

    /// Adds the observation to the knowledge about a model.
    ///
    /// ```
    /// use unfazed::engine::{KnownWindows, TokenObservation, TokenCalibration};
    /// use unfazed::policy::Policy;
    /// let (mut calibration, mut windows) = (TokenCalibration::default(), KnownWindows::default());
    /// let observation = TokenObservation::Counted { counted: 1000, reported: 1500 };
    /// observation.learn("main", &Policy::builtin().model("main"), &mut calibration, &mut windows);
    /// assert_eq!((calibration.expected("main", 1000), calibration.expected("main", 2000)), (1500, 2704));
    /// ```
    pub fn learn(
        self,
        target: &str,
        policy: &ModelPolicy,
        calibration: &mut TokenCalibration,
        windows: &mut KnownWindows,
    ) {
        let learns = policy.tokens.learn.value;
        match self {
            Self::Counted { counted, reported } => {
                if learns {
                    calibration.learn(target, counted, reported);
                }
            }
            Self::Refused { counted: 0, limit, .. } => {
                // A host that measures nothing only learns the window.
                windows.refused(target, limit.unwrap_or_default());
            }
            Self::Refused { counted, limit, size } => {
                if let Some(size) = size.filter(|_| learns) {
                    calibration.learn(target, counted, size);
                }
                let sent = calibration.expected(target, counted);
                let told = match (limit, size) {
                    // The provider counts more than expected, so its limit is converted to the count used here.
                    (Some(limit), Some(size)) if size > sent => {
                        let by_ours = u128::from(limit).saturating_mul(sent.into()).checked_div(size.into());
                        by_ours.and_then(|limit| u64::try_from(limit).ok()).unwrap_or(limit)
                    }
                    (Some(limit), _) => limit,
                    // The provider names no limit, so the size sent is the best upper bound.
                    (None, _) => sent,
                };
                // Request and reserve should have fitted into the named window, and did not: the window is smaller
                // than named.
                let whole = sent.saturating_add(policy.output_reserve.value.get().into());
                windows.refused(target, if told >= whole { sent } else { told });
            }
        }
    }
}
