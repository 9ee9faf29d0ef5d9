//! What a scenario came to under each policy, as a table.

use std::fmt::Write as _;

use anstyle::Style;
use unfazed::policy::{columns, padded};
use unfazed::session::FailureReason;
use unfazed::simulate::{EndedBy, Figures};
use unfazed::time::Nanos;

use super::Played;
use crate::cli::text::{delay, one_line};

const BOLD: Style = Style::new().bold();
const DIM: Style = Style::new().dimmed();

const HEADINGS: [&str; 13] = [
    "policy", "runs", "ok", "partly", "failed", "calls", "per need", "tools", "per need", "turn p50",
    "turn p99", "asleep", "tokens",
];
/// Of one more column, if runs have failed.
const WHY: &str = "failed by";

/// The table of one scenario.
pub(super) fn table(played: &Played) -> String {
    let scenario = &played.scenario;
    let about = scenario.about().map(|about| format!(": {}", one_line(about))).unwrap_or_default();
    let plural = if scenario.agents() == 1 { "" } else { "s" };
    let mut page = format!(
        "{BOLD}{}{BOLD:#}{about}\n{DIM}{} agent{plural} for {}, seed {}{DIM:#}\n\n",
        one_line(scenario.name()),
        scenario.agents(),
        scenario.duration(),
        scenario.seed(),
    );
    let why = played.results.iter().any(|(_, figures)| figures.failed > 0).then_some(&WHY);
    let headings: Vec<String> = HEADINGS.iter().chain(why).map(|text| (*text).to_owned()).collect();
    let rows: Vec<Vec<String>> = played.results.iter().map(|(name, figures)| row(name, figures)).collect();
    let widths: Vec<usize> = (0..headings.len())
        .map(|column| {
            let cells = core::iter::once(&headings).chain(&rows).filter_map(|row| row.get(column));
            cells.map(|cell| columns(cell)).max().unwrap_or(0)
        })
        .collect();
    let _ = writeln!(page, "{DIM}{}{DIM:#}", line(&headings, &widths));
    for row in &rows {
        let _ = writeln!(page, "{}", line(row, &widths));
    }
    page
}

fn row(name: &str, figures: &Figures) -> Vec<String> {
    let share = |some: u64| {
        let tenths =
            (u128::from(some) * 1_000 + u128::from(figures.runs / 2)).checked_div(figures.runs.into());
        tenths.map_or_else(|| "-".to_owned(), |tenths| format!("{}.{} %", tenths / 10, tenths % 10))
    };
    let times = |ppm: Option<u64>| {
        ppm.map_or_else(
            || "-".to_owned(),
            |ppm| {
                let hundredths = ppm.saturating_add(5_000) / 10_000;
                format!("{}.{:02}", hundredths / 100, hundredths % 100)
            },
        )
    };
    vec![
        one_line(name),
        figures.runs.to_string(),
        share(figures.complete),
        share(figures.partial),
        share(figures.failed),
        figures.model_calls.to_string(),
        times(figures.amplification_ppm()),
        figures.tool_runs.to_string(),
        times(figures.tool_amplification_ppm()),
        rounded(figures.turn_p50),
        rounded(figures.turn_p99),
        rounded(figures.asleep),
        tokens(figures.tokens.input.saturating_add(figures.tokens.output)),
        figures.ended_by.first().map_or_else(String::new, |why| failed_by(why, figures.failed)),
    ]
}

/// Why most of the runs failed that did: with what, why nothing more was tried, and how many of them if not all.
fn failed_by(why: &EndedBy, failed: u64) -> String {
    let class = why.error_type.map(|class| format!("{class}, ")).unwrap_or_default();
    let end = match (why.reason, why.stopped_by) {
        (Some(FailureReason::SessionFailed), Some(stop)) => stop.name(),
        (Some(reason), _) => reason.name(),
        (None, _) => "there was no end",
    };
    let part = if why.runs < failed { format!(" ({} of {failed})", why.runs) } else { String::new() };
    format!("{class}{end}{part}")
}

/// The first column to the left, the others to the right; what there is to say besides at the end.
fn line(cells: &[String], widths: &[usize]) -> String {
    let cell = |(column, (cell, width)): (usize, (&String, &usize))| match column {
        0 => padded(cell, *width),
        _ if column < HEADINGS.len() => format!("{cell:>width$}"),
        _ => cell.clone(),
    };
    let cells = cells.iter().zip(widths).enumerate().map(cell).collect::<Vec<_>>();
    cells.join("  ").trim_end().to_owned()
}

/// A time as precise as it is of use: milliseconds, tenths of a second, seconds.
fn rounded(time: Nanos) -> String {
    const SECOND: u64 = 1_000_000_000;
    let to = |unit: u64| Nanos((time.0.saturating_add(unit / 2) / unit).saturating_mul(unit));
    match time.0 {
        ..SECOND => delay(time),
        SECOND..60_000_000_000 => to(SECOND / 10).to_string(),
        _ => to(SECOND).to_string(),
    }
}

fn tokens(count: u64) -> String {
    match count {
        ..10_000 => count.to_string(),
        10_000..10_000_000 => format!("{}k", count.saturating_add(500) / 1_000),
        _ => format!("{}M", count.saturating_add(500_000) / 1_000_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_counts_are_as_precise_as_they_are_of_use() {
        let shown = [0, 250, 1_234, 61_700, 4_000_400].map(|millis| rounded(Nanos::from_millis(millis)));
        assert_eq!(shown, ["0s", "250ms", "1.2s", "1m2s", "1h6m40s"]);
        assert_eq!([999, 12_600, 25_400_000].map(tokens), ["999", "13k", "25M"]);
    }
}
