//! What a scenario came to under each policy, as a table.

use crate::session::FailureReason;
use crate::simulate::{EndedBy, SimulationFigures};
use crate::time::Nanos;
use anstyle::{AnsiColor, Style};

use super::PlayedScenario;
use super::spread::{SeedFigures, SeedMean};
use crate::cli::out;
use crate::cli::table::{TableCell, TableColumn, TextTable};
use crate::cli::text::{delay, one_line};

const BOLD: Style = Style::new().bold();
const DIM: Style = Style::new().dimmed();
const GOOD: Style = AnsiColor::Green.on_default();
const BAD: Style = AnsiColor::Red.on_default();

const HEADINGS: [&str; 14] = [
    "policy",
    "runs",
    "ok",
    "partly",
    "failed",
    "good an hour",
    "calls",
    "per need",
    "tools",
    "per need",
    "turn p50",
    "turn p99",
    "waiting",
    "tokens",
];
/// Those over several seeds.
const OVER_SEEDS: [&str; 7] =
    ["policy", "ok", "good an hour", "calls per need", "turn p50", "turn p99", "longest wait"];
/// Of one more column, if runs have failed.
const WHY: &str = "failed by";

/// The table of one scenario.
pub(super) fn table(played: &PlayedScenario) -> String {
    let scenario = &played.scenario;
    let about = scenario.about().map(|about| format!(": {}", one_line(about))).unwrap_or_default();
    let plural = if scenario.agents() == 1 { "" } else { "s" };
    let seeds = match played.spread.first() {
        Some((_, spread)) => {
            format!("seeds {} to {}", scenario.seed(), scenario.seed().saturating_add(spread.seeds) - 1)
        }
        None => format!("seed {}", scenario.seed()),
    };
    let length = match scenario.fixed_runs() {
        Some(1) => "1 run each".to_owned(),
        Some(runs) => format!("{runs} runs each"),
        None => format!("for {}", scenario.duration()),
    };
    let mut page = format!(
        "{BOLD}{}{BOLD:#}{about}\n{DIM}{} agent{plural} {length}, {seeds}{DIM:#}\n\n",
        one_line(scenario.name()),
        scenario.agents(),
    );
    if !played.spread.is_empty() {
        page.push_str(&over_seeds(&played.spread));
        return page;
    }
    let why = played.results.iter().any(|(_, figures)| figures.failed > 0).then_some(&WHY);
    let headings = HEADINGS.iter().chain(why).enumerate();
    let columns =
        headings.map(|(at, heading)| TableColumn { heading, right: (1..HEADINGS.len()).contains(&at) });
    let table = TextTable {
        columns: columns.collect(),
        rows: played.results.iter().map(|(name, figures)| row(name, figures)).collect(),
        cut: false,
    };
    page.push_str(&table.render(out::width()));
    page
}

/// The means over seeds, and how far they may be off.
fn over_seeds(all: &[(String, SeedFigures)]) -> String {
    let columns =
        OVER_SEEDS.iter().enumerate().map(|(at, heading)| TableColumn { heading, right: at > 0 }).collect();
    let rows = all.iter().map(|(name, figures)| {
        let SeedFigures { success, goodput, amplification, turn_p50, turn_p99, longest_wait, .. } = figures;
        let about = |mean: &SeedMean, show: fn(u64) -> String| {
            format!("{} \u{b1} {}", show(mean.mean), show(mean.within)).into()
        };
        let time = |nanos: u64| delay(Nanos(nanos));
        vec![
            TableCell::styled(one_line(name), BOLD),
            about(success, |ppm| format!("{} %", decimal(ppm, 10_000, 1))),
            about(goodput, |count| decimal(count, 1_000, 0)),
            about(amplification, |ppm| decimal(ppm, 1_000_000, 2)),
            about(turn_p50, time),
            about(turn_p99, time),
            time(*longest_wait).into(),
        ]
    });
    TextTable { columns, rows: rows.collect(), cut: false }.render(out::width())
}

/// A number in units of `unit`, rounded to so many decimals.
fn decimal(number: u64, unit: u64, decimals: u32) -> String {
    let parts = 10_u128.pow(decimals);
    let rounded = (u128::from(number) * parts + u128::from(unit / 2)) / u128::from(unit);
    let whole = rounded / parts;
    match decimals {
        0 => whole.to_string(),
        _ => format!("{whole}.{:0width$}", rounded % parts, width = decimals as usize),
    }
}

fn row(name: &str, figures: &SimulationFigures) -> Vec<TableCell> {
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
    let (won, lost) = (figures.complete == figures.runs && figures.runs > 0, figures.failed > 0);
    let styled = |text: String, style: Style, shown: bool| {
        TableCell::styled(text, if shown { style } else { Style::new() })
    };
    let mut row = vec![
        TableCell::styled(one_line(name), BOLD),
        figures.runs.to_string().into(),
        styled(share(figures.complete), GOOD, won),
        share(figures.partial).into(),
        styled(share(figures.failed), BAD, lost),
        figures.goodput().map_or_else(|| "-".to_owned(), |count| decimal(count, 1_000, 0)).into(),
        figures.model_calls.to_string().into(),
        times(figures.amplification_ppm()).into(),
        figures.tool_runs.to_string().into(),
        times(figures.tool_amplification_ppm()).into(),
        delay(figures.turn_p50).into(),
        delay(figures.turn_p99).into(),
        delay(figures.waiting).into(),
        tokens(figures.tokens.input.saturating_add(figures.tokens.output)).into(),
    ];
    row.push(figures.ended_by.first().map_or_else(String::new, |why| failed_by(why, figures.failed)).into());
    row
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
    fn counts_are_as_precise_as_they_are_of_use() {
        assert_eq!([999, 12_600, 25_400_000].map(tokens), ["999", "13k", "25M"]);
    }
}
