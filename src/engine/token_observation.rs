//! What providers teach about tokens: how many they count, and how large their windows are.

use super::failure::Failure;
use super::known_windows::KnownWindows;
use super::token_calibration::TokenCalibration;
use crate::policy::ModelPolicy;

/// What a provider said of a request that was counted here as so many tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenObservation {
    /// It counted so many.
    Counted {
        /// By the count of the host.
        counted: u64,
        /// By its own.
        reported: u64,
    },
    /// It refused the request for its size.
    Refused {
        /// By the count of the host; 0: it measures nothing.
        counted: u64,
        /// The window it named.
        limit: Option<u64>,
        /// The size by its own count.
        size: Option<u64>,
    },
}

impl TokenObservation {
    /// It refused the request for its size.
    pub fn of_refusal(counted: u64, failure: &Failure) -> Self {
        Self::Refused { counted, limit: failure.limit(), size: failure.size() }
    }

    /// Learns it about a model.
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
                // A host that measures nothing learns the window alone.
                windows.refused(target, limit.unwrap_or_default());
            }
            Self::Refused { counted, limit, size } => {
                if let Some(size) = size.filter(|_| learns) {
                    calibration.learn(target, counted, size);
                }
                let sent = calibration.expected(target, counted);
                let told = match (limit, size) {
                    // The provider counts more than was expected of it, so its limit is converted to the count used
                    // here.
                    (Some(limit), Some(size)) if size > sent => {
                        let by_ours = u128::from(limit).saturating_mul(sent.into()).checked_div(size.into());
                        by_ours.and_then(|limit| u64::try_from(limit).ok()).unwrap_or(limit)
                    }
                    (Some(limit), _) => limit,
                    // It names no limit, so what was sent is the best upper bound.
                    (None, _) => sent,
                };
                // The request and its reserve should have fitted into the named window, and did not: the window is
                // smaller than it says.
                let whole = sent.saturating_add(policy.output_reserve.value.get().into());
                windows.refused(target, if told >= whole { sent } else { told });
            }
        }
    }
}
