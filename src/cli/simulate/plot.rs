//! How it went over time, as a drawing: the share of runs that were complete, and the calls of models. SVG, written by hand;
//! legible on light and dark grounds.

use std::fmt::Write as _;

use crate::simulate::{SimulationFigures, TimeShare};
use crate::time::Nanos;

use super::PlayedScenario;
use crate::cli::text::{fit, one_line, xml};

/// Of middling brightness, so that they stand out from white and from black.
const COLOURS: [&str; 8] =
    ["#3d85c6", "#d97a2b", "#3a9d6e", "#b4569c", "#b8952a", "#7b6fd0", "#cc5a5a", "#4f9a9e"];
/// Lines of the same colour differ in this.
const DASHES: [&str; 3] = ["none", "7 4", "2 3"];

const WIDTH: u64 = 900;
const LEFT: u64 = 64;
const RIGHT: u64 = 20;
const TITLE: u64 = 48;
const PANEL: u64 = 190;
const GAP: u64 = 44;
const LEGEND_ROW: u64 = 20;
const LEGEND_COLUMNS: u64 = 3;
/// About so many marks on the axis of time.
const MARKS: u64 = 8;
const MINUTE: u64 = 60_000_000_000;
/// How far marks of time may stand apart, in seconds.
const STEPS: [u64; 13] = [1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1_200, 1_800, 3_600];

const STYLE: &str = "text{font:12px system-ui,sans-serif;fill:#6b6b6b}.t{font-size:15px;font-weight:600}\
.axis{stroke:#8a8a8a;stroke-width:1}.grid{stroke:#8a8a8a;stroke-opacity:.25}.down{fill:#8a8a8a;fill-opacity:.16}\
.line{fill:none;stroke-width:2;stroke-linejoin:round;stroke-linecap:round}\
@media(prefers-color-scheme:dark){text{fill:#b4b4b4}}";

/// One of the two drawings, one above the other.
struct PlotPanel {
    top: u64,
    title: &'static str,
    /// What the upper edge stands for.
    most: u128,
    /// What a value is divided by when it is shown, and what is put behind it.
    unit: &'static str,
}

/// The plot of one scenario.
pub(super) fn svg(played: &PlayedScenario) -> String {
    let results = &played.results;
    let rows = u64::try_from(results.len()).unwrap_or(u64::MAX).div_ceil(LEGEND_COLUMNS);
    let height = TITLE + 2 * (PANEL + GAP) + rows * LEGEND_ROW + 12;
    let scenario = &played.scenario;
    let end = results
        .iter()
        .map(|(_, figures)| figures.ended)
        .max()
        .unwrap_or_default()
        .max(scenario.duration())
        .0
        .max(1);
    let title = scenario.about().unwrap_or_else(|| scenario.name());
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" \
         role=\"img\">\n<style>{STYLE}</style>\n<title>{0}</title>\n<text class=\"t\" x=\"{LEFT}\" y=\"24\">{0}</text>\n",
        xml(&fit(&one_line(title), 100)),
    );
    let busiest = results
        .iter()
        .flat_map(|(_, figures)| figures.over_time.iter().map(|part| a_minute(part, figures.part)));
    let busiest = ceiling(busiest.max().unwrap_or(0));
    let panels = [
        PlotPanel { top: TITLE, title: "complete runs", most: 100, unit: " %" },
        PlotPanel { top: TITLE + PANEL + GAP, title: "calls of models a minute", most: busiest, unit: "" },
    ];
    let windows = scenario.windows();
    for panel in &panels {
        frame(&mut svg, panel, &windows, end);
    }
    for (number, (_, figures)) in results.iter().enumerate() {
        let style = style(number);
        line(&mut svg, &panels[0], &style, end, &successes(figures));
        line(&mut svg, &panels[1], &style, end, &loads(figures));
    }
    for (number, (name, _)) in results.iter().enumerate() {
        legend(&mut svg, number, name, TITLE + 2 * (PANEL + GAP));
    }
    svg.push_str("</svg>\n");
    svg
}

/// The ground of a drawing: when something was wrong, marks of values and of times.
fn frame(svg: &mut String, panel: &PlotPanel, windows: &[(Nanos, Nanos)], end: u64) {
    let (top, bottom, right) = (panel.top, panel.top + PANEL, WIDTH - RIGHT);
    for (from, to) in windows {
        let (x, to) = (across(from.0, end), across(to.0, end));
        let _ = writeln!(
            svg,
            "<rect class=\"down\" x=\"{x}\" y=\"{top}\" width=\"{}\" height=\"{PANEL}\"/>",
            to - x
        );
    }
    for quarter in 0..=4_u8 {
        let y = bottom - PANEL * u64::from(quarter) / 4;
        let value = panel.most * u128::from(quarter);
        let shown = if value.is_multiple_of(4) {
            (value / 4).to_string()
        } else {
            format!("{}.{}", value / 4, value % 4 * 25)
        };
        let _ = writeln!(svg, "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{right}\" y1=\"{y}\" y2=\"{y}\"/>");
        let _ = writeln!(
            svg,
            "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{shown}{}</text>",
            LEFT - 8,
            y + 4,
            panel.unit
        );
    }
    let _ =
        writeln!(svg, "<line class=\"axis\" x1=\"{LEFT}\" x2=\"{right}\" y1=\"{bottom}\" y2=\"{bottom}\"/>");
    let _ = writeln!(svg, "<text x=\"{LEFT}\" y=\"{}\">{}</text>", top - 6, panel.title);
    let step = step(end);
    for mark in (0..).map_while(|mark: u64| mark.checked_mul(step)).take_while(|at| *at <= end) {
        let x = across(mark, end);
        let _ = writeln!(
            svg,
            "<text x=\"{x}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
            bottom + 16,
            Nanos(mark)
        );
    }
}

fn line(svg: &mut String, panel: &PlotPanel, style: &str, end: u64, points: &[(Nanos, u128)]) {
    let bottom = panel.top + PANEL;
    let most = (panel.most * 100).max(1);
    let place = |(at, value): &(Nanos, u128)| {
        let y = u128::from(bottom) - u128::from(PANEL) * (*value).min(most) / most;
        format!("{},{y}", across(at.0, end))
    };
    let places: Vec<String> = points.iter().map(place).collect();
    let _ = writeln!(svg, "<polyline class=\"line\" {style} points=\"{}\"/>", places.join(" "));
}

/// The share of complete runs of each part in which one ended, in hundredths of a percent.
fn successes(figures: &SimulationFigures) -> Vec<(Nanos, u128)> {
    let share = |part: &TimeShare| (u128::from(part.complete) * 10_000).checked_div(part.runs.into());
    parts(figures).filter_map(|(at, part)| Some((at, share(part)?))).collect()
}

/// The calls of models in each part, a minute, in hundredths.
fn loads(figures: &SimulationFigures) -> Vec<(Nanos, u128)> {
    parts(figures).map(|(at, part)| (at, a_minute(part, figures.part) * 100)).collect()
}

/// Each part with its middle.
fn parts(figures: &SimulationFigures) -> impl Iterator<Item = (Nanos, &TimeShare)> {
    let length = figures.part.0;
    let numbered = (0..).zip(&figures.over_time);
    numbered.map(move |(number, part): (u64, _)| {
        (Nanos(number.saturating_mul(length).saturating_add(length / 2)), part)
    })
}

fn a_minute(part: &TimeShare, length: Nanos) -> u128 {
    let calls = u128::from(part.model_calls) * u128::from(MINUTE);
    calls.checked_div(length.0.into()).unwrap_or(0)
}

fn legend(svg: &mut String, number: usize, name: &str, top: u64) {
    let place = u64::try_from(number).unwrap_or(0);
    let column = (WIDTH - LEFT - RIGHT) / LEGEND_COLUMNS;
    let (x, y) = (LEFT + place % LEGEND_COLUMNS * column, top + place / LEGEND_COLUMNS * LEGEND_ROW);
    let _ = writeln!(
        svg,
        "<line class=\"line\" {} x1=\"{x}\" x2=\"{}\" y1=\"{y}\" y2=\"{y}\"/>\n<text x=\"{}\" y=\"{}\">{}</text>",
        style(number),
        x + 24,
        x + 32,
        y + 4,
        xml(&end_of(&one_line(name), 36)),
    );
}

/// The end of a name, which tells it from others.
fn end_of(name: &str, most: usize) -> String {
    let length = name.chars().count();
    if length <= most {
        return name.to_owned();
    }
    let end: String = name.chars().skip(length - most + 1).collect();
    format!("…{end}")
}

fn style(number: usize) -> String {
    let colour = COLOURS[number % COLOURS.len()];
    let dash = DASHES[(number / COLOURS.len() + number % COLOURS.len()) % DASHES.len()];
    format!("stroke=\"{colour}\" stroke-dasharray=\"{dash}\"")
}

/// Where a time stands between left and right.
fn across(at: u64, end: u64) -> u64 {
    let part = u128::from(at.min(end)) * u128::from(WIDTH - LEFT - RIGHT) / u128::from(end);
    LEFT + u64::try_from(part).unwrap_or(0)
}

/// How far the marks of time stand apart.
fn step(end: u64) -> u64 {
    const SECOND: u64 = 1_000_000_000;
    let seconds = end / SECOND;
    let fits = STEPS.iter().find(|step| seconds / **step <= MARKS);
    fits.copied().unwrap_or_else(|| (seconds / MARKS).div_ceil(3_600) * 3_600) * SECOND
}

/// A round number that is not below it.
fn ceiling(value: u128) -> u128 {
    let power = 10_u128.saturating_pow(value.checked_ilog10().unwrap_or(0));
    [1, 2, 4, 6, 8, 10]
        .iter()
        .map(|times| times * power)
        .find(|round| *round >= value)
        .unwrap_or(value)
        .max(4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_dozen_policies_have_lines_that_differ() {
        let styles: std::collections::BTreeSet<String> = (0..24).map(style).collect();
        assert_eq!(styles.len(), 24, "{styles:?}");
    }

    #[test]
    fn there_may_be_as_many_calls_as_can_be_counted() {
        let part = TimeShare { model_calls: u64::MAX, ..TimeShare::default() };
        let most = ceiling(a_minute(&part, Nanos(1)));
        let panel = PlotPanel { top: 7, title: "calls", most, unit: "" };
        let mut svg = String::new();
        line(&mut svg, &panel, "", 100, &[(Nanos(0), 0), (Nanos(100), most * 100)]);
        assert!(svg.contains(&format!("\"{LEFT},{} {},7\"", 7 + PANEL, WIDTH - RIGHT)), "{svg}");
        frame(&mut svg, &panel, &[], u64::MAX);
    }

    #[test]
    fn marks_are_round_and_few() {
        assert_eq!(
            [10, 59, 600, 7_200].map(|secs| step(secs * 1_000_000_000) / 1_000_000_000),
            [2, 10, 120, 1_200]
        );
        assert_eq!([0, 3, 17, 62, 100, 4_321].map(ceiling), [4, 4, 20, 80, 100, 6_000]);
    }
}
