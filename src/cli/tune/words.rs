//! Figures and their differences, in words.

use crate::cli::text::delay;
use crate::time::Nanos;
use crate::tune::{PointMeasure, TunedFigure};

/// All figures, in the order of tables.
pub(super) const FIGURES: [TunedFigure; 4] =
    [TunedFigure::Success, TunedFigure::Goodput, TunedFigure::Calls, TunedFigure::P99];

/// The heading of a figure.
pub(super) const fn heading(figure: TunedFigure) -> &'static str {
    match figure {
        TunedFigure::Success => "ok",
        TunedFigure::Goodput => "good an hour",
        TunedFigure::Calls => "calls per need",
        TunedFigure::P99 => "turn p99",
    }
}

/// A figure as tables show it.
pub(super) fn shown(measure: &PointMeasure, figure: TunedFigure) -> String {
    let decimals = |value: u64, unit: u64, digits: u32| {
        let scale = 10_u128.pow(digits);
        let scaled = (u128::from(value) * scale + u128::from(unit / 2)) / u128::from(unit);
        match digits {
            0 => scaled.to_string(),
            _ => format!("{}.{:0width$}", scaled / scale, scaled % scale, width = digits as usize),
        }
    };
    match figure {
        TunedFigure::Success => format!("{} %", decimals(measure.success, 10_000, 1)),
        TunedFigure::Goodput => decimals(measure.goodput, 1_000, 0),
        TunedFigure::Calls => decimals(measure.calls, 1_000_000, 2),
        TunedFigure::P99 => delay(Nanos(measure.p99)),
    }
}

/// What one point loses to another, as verbs with what they are about; empty: nothing beyond noise.
pub(super) fn losses(own: &PointMeasure, other: &PointMeasure) -> Vec<String> {
    let lost = |figure: TunedFigure| {
        let regret = own.regret(other, figure);
        (regret > figure.noise()).then(|| amount(regret))
    };
    let points = lost(TunedFigure::Success).map(|amount| format!("{amount} points of success"));
    let goodput = lost(TunedFigure::Goodput).map(|amount| format!("{amount} % of the good answers an hour"));
    let given_up: Vec<String> = points.into_iter().chain(goodput).collect();
    let given_up = (!given_up.is_empty()).then(|| format!("gives up {}", list(&given_up)));
    let calls = lost(TunedFigure::Calls).map(|amount| format!("makes {amount} % more calls"));
    let p99 = lost(TunedFigure::P99).map(|amount| format!("takes {amount} % longer at p99"));
    given_up.into_iter().chain(calls).chain(p99).collect()
}

/// What one point is better at than another, by a figure; `None`: nothing beyond noise.
pub(super) fn gained(own: &PointMeasure, other: &PointMeasure, figure: TunedFigure) -> Option<String> {
    (other.regret(own, figure) > figure.noise()).then(|| {
        let (own, other) = (shown(own, figure), shown(other, figure));
        match figure {
            TunedFigure::Success => format!("{own} ok instead of {other}"),
            TunedFigure::Goodput => format!("{own} good answers an hour instead of {other}"),
            TunedFigure::Calls => format!("{own} calls per need instead of {other}"),
            TunedFigure::P99 => format!("a p99 of {own} instead of {other}"),
        }
    })
}

/// Words between commas, and `and` before the last.
pub(super) fn list(words: &[String]) -> String {
    match words {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// Thousandths of points or percents.
fn amount(regret: u64) -> String {
    match regret {
        ..10_000 => format!("{}.{}", regret / 1_000, regret % 1_000 / 100),
        _ => (regret.saturating_add(500) / 1_000).to_string(),
    }
}
