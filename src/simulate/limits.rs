//! What a provider holds its clients to: limits by unit, what it says when it refuses a call, load that it sheds, and
//! clients that no run has.

use core::num::NonZeroU32;

use schemars::{Schema, SchemaGenerator, json_schema};

use crate::engine::LimitUnit;
use crate::policy::decode::{Decode, NodeReader, Spanned, choice, record};
use crate::policy::{NonZeroTime, OpenFraction};
use crate::text::parse_millionths;
use crate::text::yaml::{YamlData, YamlNode};
use crate::time::Nanos;

record! {
    /// The limits of a model, each of what all its calls take together. A call beyond one of them is refused as
    /// `rate_limit`.
    #[derive(Default)]
    pub(crate) struct LimitsFile {
        /// Of calls.
        /// Example: `{"limit": 60, "per": "1m"}`
        pub(crate) requests: Option<Spanned<LimitFile>>,
        /// Of the tokens of requests.
        /// Example: `{"limit": 40000, "per": "1m"}`
        pub(crate) input_tokens: Option<Spanned<LimitFile>>,
        /// Of the tokens of replies.
        /// Example: `{"limit": 8000, "per": "1m"}`
        pub(crate) output_tokens: Option<Spanned<LimitFile>>,
        /// Of the tokens of requests and replies together.
        /// Example: `{"limit": 40000, "per": "1m", "headers": true}`
        pub(crate) tokens: Option<Spanned<LimitFile>>,
    }
}

record! {
    /// How much calls may take in a period.
    #[derive(Copy)]
    pub(crate) struct LimitFile {
        /// How much.
        /// Example: `60`
        pub(crate) limit: NonZeroU32,
        /// The period.
        /// Example: `1m`
        pub(crate) per: NonZeroTime<Nanos>,
        /// How it becomes free again.
        /// Example: `fixed`
        pub(crate) window: LimitWindow = LimitWindow::Continuous,
        /// The most that is saved up while it is not used. Left out: as much as `limit`.
        /// Example: `10`
        pub(crate) burst: Option<Spanned<NonZeroU32>>,
        /// Whether answers state the limit and what is left of it, as `x-ratelimit-*` does.
        /// Example: `true`
        pub(crate) headers: bool = false,
    }
}

choice! {
    /// How a limit becomes free again.
    pub(crate) enum LimitWindow {
        /// Evenly, all the time.
        Continuous = "continuous",
        /// All of it at once, whenever a period begins, counted from the start of the scenario.
        Fixed = "fixed",
    }
}

choice! {
    /// The wait that a refusal by a limit asks for.
    pub(crate) enum RefusalHint {
        /// Until there is room for the refused call, if nobody else takes it.
        Exact = "exact",
        /// The same, behind all that were refused before.
        Fair = "fair",
        /// Until the whole limit is free.
        Reset = "reset",
        /// None.
        None = "none",
    }
}

choice! {
    /// The calls that count against a limit of requests.
    pub(crate) enum CountedCalls {
        /// Those that are not refused.
        Accepted = "accepted",
        /// Refused ones, too, as far as there is anything left.
        All = "all",
    }
}

record! {
    /// Load that a model sheds: the more calls came within the last `per`, the more of them fail as `overloaded`.
    #[derive(Copy)]
    pub(crate) struct SheddingFile {
        /// Up to so many calls it fails none.
        /// Example: `60`
        pub(crate) above: u32,
        /// With so many it fails all; between the two numbers a share that grows evenly.
        /// Example: `240`
        pub(crate) all: Spanned<NonZeroU32>,
        /// The time that calls are counted over.
        /// Example: `30s`
        pub(crate) per: NonZeroTime<Nanos> = NonZeroTime(Nanos::from_secs(60)),
        /// After a window of the `trace` with a `fault` both numbers begin at half, and grow back within that time.
        /// Example: `1m`
        pub(crate) recovers: Nanos = Nanos::ZERO,
    }
}

record! {
    /// Clients that are not in the scenario and draw on the same limits, evenly.
    #[derive(Copy)]
    pub(crate) struct ForeignFile {
        /// How many calls they make.
        /// Example: `20`
        pub(crate) calls: NonZeroU32,
        /// In which time.
        /// Example: `1m`
        pub(crate) per: NonZeroTime<Nanos>,
    }
}

/// A factor above 0 and at most 1000, in millionths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HintFactor(pub(crate) u64);

impl Decode for HintFactor {
    fn decode(node: &YamlNode, reader: &mut NodeReader<'_>) -> Option<Self> {
        const MOST: u64 = 1_000_000_000;
        let YamlData::Number(_) = node.data else {
            return reader.wrong_type(node, "a number above 0 and at most 1000");
        };
        let read = parse_millionths(reader.text(node.span)).ok().filter(|factor| (1..=MOST).contains(factor));
        read.map(Self).or_else(|| reader.out_of_range(node, "must be above 0 and at most 1000"))
    }

    fn schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "number", "exclusiveMinimum": 0, "maximum": 1000, "examples": [0.1]})
    }
}

/// What a limit counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CountedUnit {
    Requests,
    InputTokens,
    OutputTokens,
    Tokens,
}

/// What a call takes of limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct CallUse {
    /// Tokens of the request.
    pub(super) input: u64,
    /// Tokens of the reply.
    pub(super) output: u64,
}

/// What a provider holds its clients to.
#[derive(Clone, Debug)]
pub(super) struct ProviderRules {
    pub(super) limits: Vec<(CountedUnit, LimitFile)>,
    pub(super) hint: RefusalHint,
    pub(super) hint_factor: Option<HintFactor>,
    pub(super) count: CountedCalls,
    pub(super) shedding: Option<SheddingFile>,
    pub(super) foreign: Option<ForeignFile>,
    /// What calls of foreign clients take.
    pub(super) foreign_use: CallUse,
    pub(super) sticky: Option<OpenFraction>,
}

impl Default for ProviderRules {
    fn default() -> Self {
        Self {
            limits: Vec::new(),
            hint: RefusalHint::Exact,
            hint_factor: None,
            count: CountedCalls::Accepted,
            shedding: None,
            foreign: None,
            foreign_use: CallUse::default(),
            sticky: None,
        }
    }
}

impl CountedUnit {
    /// How much of it a call takes.
    pub(super) const fn of(self, used: CallUse) -> u64 {
        match self {
            Self::Requests => 1,
            Self::InputTokens => used.input,
            Self::OutputTokens => used.output,
            Self::Tokens => used.input.saturating_add(used.output),
        }
    }

    /// What headers call it, if any that are read do.
    pub(super) const fn stated(self) -> Option<LimitUnit> {
        match self {
            Self::Requests => Some(LimitUnit::Requests),
            Self::Tokens => Some(LimitUnit::Tokens),
            Self::InputTokens | Self::OutputTokens => None,
        }
    }
}

impl LimitsFile {
    /// The limits there are, with their units.
    pub(super) fn all(&self) -> impl Iterator<Item = (CountedUnit, Spanned<LimitFile>)> {
        let all = [
            (CountedUnit::Requests, self.requests),
            (CountedUnit::InputTokens, self.input_tokens),
            (CountedUnit::OutputTokens, self.output_tokens),
            (CountedUnit::Tokens, self.tokens),
        ];
        all.into_iter().filter_map(|(unit, limit)| Some((unit, limit?)))
    }
}

impl HintFactor {
    pub(super) fn times(self, time: Nanos) -> Nanos {
        let product = u128::from(time.0) * u128::from(self.0) / 1_000_000;
        Nanos(u64::try_from(product).unwrap_or(u64::MAX))
    }
}
