//! What a search came to, for people.

use std::fmt::Write as _;

use anstyle::{AnsiColor, Style};

use super::TunedPolicy;
use super::words::{FIGURES, gained, heading, list, losses, shown};
use crate::cli::out;
use crate::cli::table::{TableCell, TableColumn, TextTable};
use crate::cli::text::{one_line, wrap};
use crate::tune::{PointMeasure, TunedKey, TunedPoint};

const BOLD: Style = Style::new().bold();
const DIM: Style = Style::new().dimmed();
const GOOD: Style = AnsiColor::Green.on_default();

/// The whole page.
pub(super) fn page(tuned: &TunedPolicy<'_, '_>) -> String {
    let mut page = String::new();
    let names: Vec<String> =
        tuned.scenarios.iter().map(|scenario| one_line(scenario.scenario.name())).collect();
    let _ = writeln!(page, "{BOLD}{}{BOLD:#}: {}", one_line(&tuned.args.policy), list(&names));
    let _ = writeln!(
        page,
        "{DIM}{} points tried, {} seeds in the last round, seed {}{DIM:#}\n",
        tuned.result.tried, tuned.args.seeds, tuned.args.seed
    );
    page.push_str(&frontier(tuned));
    page.push('\n');
    for line in sentences(tuned) {
        let _ = writeln!(page, "{}", wrap(&line, out::width().unwrap_or(120), "  "));
    }
    page.push_str(&held_out(tuned));
    page
}

fn frontier(tuned: &TunedPolicy<'_, '_>) -> String {
    let mut rows = vec![row("-".into(), &tuned.result.base.measure, "as it is".into())];
    for (number, point) in (1..).zip(&tuned.result.frontier) {
        let is_chosen = tuned.chosen().is_some_and(|chosen| chosen.point == point.point);
        let mut row = row(number.to_string(), &point.measure, values(tuned, point));
        if is_chosen && let Some(first) = row.first_mut() {
            *first = TableCell::styled(format!("{number}*"), GOOD);
        }
        rows.push(row);
    }
    table(rows, "point", "values")
}

fn held_out(tuned: &TunedPolicy<'_, '_>) -> String {
    if tuned.held_out.is_empty() {
        return String::new();
    }
    let rows = tuned.held_out.iter().flat_map(|(name, measures)| {
        let who = ["as it is", "the chosen point"];
        who.into_iter().zip(measures).map(|(who, measure)| row(who.into(), measure, one_line(name)))
    });
    format!("\n{BOLD}held out{BOLD:#}\n{}", table(rows.collect(), "", "scenario"))
}

fn table(rows: Vec<Vec<TableCell>>, first: &'static str, last: &'static str) -> String {
    let headings = [first].into_iter().chain(FIGURES.map(heading)).chain([last]).enumerate();
    let columns =
        headings.map(|(at, heading)| TableColumn { heading, right: (1..=FIGURES.len()).contains(&at) });
    TextTable { columns: columns.collect(), rows, cut: false }.render(out::width())
}

fn row(first: String, measure: &PointMeasure, last: String) -> Vec<TableCell> {
    let figures = FIGURES.iter().map(|figure| shown(measure, *figure).into());
    [first.into()].into_iter().chain(figures).chain([last.into()]).collect()
}

fn values(tuned: &TunedPolicy<'_, '_>, point: &TunedPoint) -> String {
    let short = shared_beginning(tuned.subject.keys.iter().map(|key| key.name.as_str()));
    let value =
        |(key, value): (&TunedKey, &str)| format!("{} {}", one_line(&key.name[short..]), one_line(value));
    let all: Vec<String> = tuned.values(point).map(value).collect();
    if all.is_empty() { "as it is".into() } else { all.join(", ") }
}

/// How many bytes of the paths are the same and end with a dot.
fn shared_beginning<'k>(mut names: impl Iterator<Item = &'k str>) -> usize {
    let Some(first) = names.next() else { return 0 };
    let parts = |name: &'k str| name.rmatch_indices('.').map(move |(at, _)| &name[..=at]).collect::<Vec<_>>();
    let shared = names.fold(parts(first), |shared, name| {
        shared.into_iter().filter(|part| name.starts_with(part)).collect()
    });
    shared.first().map_or(0, |part| part.len())
}

/// What each point gives up, and for what.
fn sentences(tuned: &TunedPolicy<'_, '_>) -> Vec<String> {
    let result = &tuned.result;
    let Some(chosen) = tuned.chosen() else {
        return vec!["No point is better than the policy as it is: nothing is written.".into()];
    };
    let mut all = vec![format!(
        "1* is chosen. Against the policy as it is, it {}.",
        against(&chosen.measure, &result.base.measure)
    )];
    for (number, point) in (1..).zip(&result.frontier).skip(1) {
        all.push(format!("{number}, against 1*, {}.", against(&point.measure, &chosen.measure)));
    }
    all
}

/// `gives up 3.2 points of success; in return, a p99 of 12s instead of 44s`.
fn against(own: &PointMeasure, other: &PointMeasure) -> String {
    let lost = losses(own, other);
    let gained: Vec<String> = FIGURES.iter().filter_map(|figure| gained(own, other, *figure)).collect();
    match (lost.is_empty(), gained.is_empty()) {
        (true, true) => "is as good".to_owned(),
        (true, false) => format!("gives up nothing, and has {}", list(&gained)),
        (false, true) => list(&lost),
        (false, false) => format!("{}; in return, {}", list(&lost), list(&gained)),
    }
}
