//! The frontier as a drawing: one line for each point across the four figures, better values above. SVG, written by hand;
//! legible on light and dark grounds.

use std::fmt::Write as _;

use super::TunedPolicy;
use super::words::{FIGURES, heading, shown};
use crate::cli::text::{fit, one_line, xml};
use crate::tune::{PointMeasure, TunedFigure};

const COLOURS: [&str; 9] =
    ["#8a8a8a", "#3a9d6e", "#3d85c6", "#d97a2b", "#b4569c", "#b8952a", "#7b6fd0", "#cc5a5a", "#4f9a9e"];
const WIDTH: u64 = 900;
const LEFT: u64 = 90;
const TOP: u64 = 80;
const HEIGHT: u64 = 280;
/// Between two axes.
const STEP: u64 = 240;
const ROW: u64 = 20;
const STYLE: &str = "text{font:12px system-ui,sans-serif;fill:#6b6b6b}.t{font-size:15px;font-weight:600}\
.axis{stroke:#8a8a8a;stroke-width:1}.line{fill:none;stroke-width:2;stroke-linejoin:round}.chosen{stroke-width:4}\
@media(prefers-color-scheme:dark){text{fill:#b4b4b4}}";

/// The plot of a search.
pub(super) fn svg(tuned: &TunedPolicy<'_, '_>) -> String {
    let result = &tuned.result;
    let lines: Vec<(String, PointMeasure)> = [("as it is".to_owned(), result.base.measure)]
        .into_iter()
        .chain((1..).zip(&result.frontier).map(|(number, point)| (number.to_string(), point.measure)))
        .collect();
    let rows = u64::try_from(lines.len()).unwrap_or(u64::MAX);
    let height = TOP + HEIGHT + 50 + rows * ROW;
    let title = xml(&fit(&one_line(&tuned.args.policy), 100));
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" \
         role=\"img\">\n<style>{STYLE}</style>\n<title>{title}</title>\n<text class=\"t\" x=\"{LEFT}\" y=\"28\">{title}</text>\n",
    );
    let scales: Vec<(u64, u64)> = FIGURES.iter().map(|figure| scale(&lines, *figure)).collect();
    for ((axis, figure), scale) in (0..).zip(FIGURES).zip(&scales) {
        draw_axis(&mut svg, LEFT + axis * STEP, figure, *scale);
    }
    for (number, (name, measure)) in lines.iter().enumerate() {
        let is_chosen = number > 0 && result.chosen.as_ref().is_some_and(|chosen| chosen.at + 1 == number);
        let places = (0..).zip(FIGURES).zip(&scales).map(|((axis, figure), scale)| {
            format!("{},{}", LEFT + axis * STEP, TOP + down(value(measure, figure), *scale))
        });
        let colour = COLOURS[number % COLOURS.len()];
        let class = if is_chosen { "line chosen" } else { "line" };
        let dash = if number == 0 { " stroke-dasharray=\"6 4\"" } else { "" };
        let _ = writeln!(
            svg,
            "<polyline class=\"{class}\" stroke=\"{colour}\"{dash} points=\"{}\"/>",
            places.collect::<Vec<_>>().join(" ")
        );
        let y = TOP + HEIGHT + 50 + u64::try_from(number).unwrap_or_default() * ROW;
        let figures: Vec<String> = FIGURES.iter().map(|figure| shown(measure, *figure)).collect();
        let star = if is_chosen { "*" } else { "" };
        let _ = writeln!(
            svg,
            "<text x=\"{LEFT}\" y=\"{y}\" style=\"fill:{colour}\">{}{star}: {}</text>",
            xml(name),
            figures.join(", ")
        );
    }
    svg.push_str("</svg>\n");
    svg
}

fn draw_axis(svg: &mut String, x: u64, figure: TunedFigure, (worst, best): (u64, u64)) {
    let bottom = TOP + HEIGHT;
    let _ = writeln!(svg, "<line class=\"axis\" x1=\"{x}\" x2=\"{x}\" y1=\"{TOP}\" y2=\"{bottom}\"/>");
    let mark = |svg: &mut String, y: u64, text: &str| {
        let _ = writeln!(svg, "<text x=\"{x}\" y=\"{y}\" text-anchor=\"middle\">{text}</text>");
    };
    mark(svg, TOP - 24, heading(figure));
    mark(svg, TOP - 8, &shown(&of_value(best, figure), figure));
    mark(svg, bottom + 18, &shown(&of_value(worst, figure), figure));
}

const fn value(measure: &PointMeasure, figure: TunedFigure) -> u64 {
    match figure {
        TunedFigure::Success => measure.success,
        TunedFigure::Goodput => measure.goodput,
        TunedFigure::Calls => measure.calls,
        TunedFigure::P99 => measure.p99,
    }
}

/// A measure with that value, to be shown.
fn of_value(value: u64, figure: TunedFigure) -> PointMeasure {
    let none = PointMeasure::default();
    match figure {
        TunedFigure::Success => PointMeasure { success: value, ..none },
        TunedFigure::Goodput => PointMeasure { goodput: value, ..none },
        TunedFigure::Calls => PointMeasure { calls: value, ..none },
        TunedFigure::P99 => PointMeasure { p99: value, ..none },
    }
}

/// The worst and the best value of a figure.
fn scale(lines: &[(String, PointMeasure)], figure: TunedFigure) -> (u64, u64) {
    let values = || lines.iter().map(|(_, measure)| value(measure, figure));
    let (least, most) = (values().min().unwrap_or_default(), values().max().unwrap_or_default());
    match figure {
        TunedFigure::Success | TunedFigure::Goodput => (least, most),
        TunedFigure::Calls | TunedFigure::P99 => (most, least),
    }
}

/// How far below the upper end of its axis a value is.
fn down(value: u64, (worst, best): (u64, u64)) -> u64 {
    let far = u128::from(value.abs_diff(best)) * u128::from(HEIGHT);
    u64::try_from(far.checked_div(worst.abs_diff(best).into()).unwrap_or_default()).unwrap_or(HEIGHT)
}
