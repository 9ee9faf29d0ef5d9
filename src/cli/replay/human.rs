//! What came of it, for people: a page about one session, a table of several.

use std::fmt::Write as _;

use crate::engine::{Directive, Narrator};
use crate::replay::{DecisionSides, PassedOver, ReplayDifference, ReplayDivergence, ReplayReport, WorkTally};
use anstyle::{AnsiColor, Style};

use super::{ReplayEntry, decides_again};
use crate::cli::out;
use crate::cli::table::{TableCell, TableColumn, TextTable};
use crate::cli::text::{delay, fit, one_line};

const BOLD: Style = Style::new().bold();
const DIM: Style = Style::new().dimmed();
const GOOD: Style = AnsiColor::Green.on_default();
const BAD: Style = AnsiColor::Red.on_default();

/// The longest value that is shown.
const VALUE: usize = 60;
/// So much of a digest tells it from others.
const DIGEST: usize = 12;

/// A page about one session.
pub(super) fn page(entry: &ReplayEntry) -> String {
    let Ok(found) = &entry.result else { return String::new() };
    // Behind the word, the id and what stands between.
    let before = "session   ".len() + entry.id.as_str().len() + 2;
    let title =
        fit(&one_line(&entry.title), out::width().map_or(usize::MAX, |width| width.saturating_sub(before)));
    let mut page = format!("session   {BOLD}{}{BOLD:#}  {title}\npolicy    {}\n", entry.id, policies(found));
    for (digest, from) in found.by.iter().skip(1) {
        let by = if decides_again(found, digest, *from) { ", and does so again" } else { "" };
        let _ = writeln!(page, "          from event {from} on {} decided{by}", short(digest));
    }
    for file in &entry.idle {
        let _ = writeln!(
            page,
            "note      {} decided nothing in this session",
            one_line(&file.display().to_string())
        );
    }
    let _ = writeln!(page, "same      {GOOD}{}{GOOD:#}{}", decisions(found.same), exactly(found));
    if !found.unchecked.is_empty() {
        let tools: Vec<&str> = found.unchecked.iter().map(String::as_str).collect();
        let _ = writeln!(
            page,
            "unknown   the parameters of {}: arguments of its calls are taken as they are",
            one_line(&tools.join(", "))
        );
    }
    if let Some(divergence) = found.divergence() {
        page.push_str(&diverges(divergence));
        page.push_str(&tallies(found));
        if found.left_out > 0 {
            let _ = writeln!(
                page,
                "left out  {}: what happened then answers what was decided then",
                decisions(found.left_out)
            );
        }
    }
    if let Some(seq) = found.undecided {
        let _ =
            writeln!(page, "broken    nothing was decided about event {seq}: the run was broken off there");
    }
    page
}

fn policies(found: &ReplayReport) -> String {
    let now = short(&found.policy);
    match found.by.first() {
        None => format!("{now}; nothing was decided then"),
        Some((then, _)) if *then == found.policy => format!("{now}, which decided then"),
        Some((then, _)) if found.again.contains(then) => {
            format!("{now}; {} decided first, and does so again", short(then))
        }
        Some((then, _)) => format!("{now}, {BAD}not the one that decided then{BAD:#} ({})", short(then)),
    }
}

/// How exactly what is the same is the same.
fn exactly(found: &ReplayReport) -> String {
    let PassedOver { because, bounds, texts, times } = found.passed_over;
    let passed = [("reasons", because), ("bounds", bounds), ("texts", texts), ("times", times)];
    let passed = passed.into_iter().filter(|(_, count)| *count > 0);
    let passed: Vec<String> = passed.map(|(part, count)| format!("{part} of {count}")).collect();
    if !found.by_same() {
        let others = if found.by.iter().any(|(policy, _)| *policy == found.policy) {
            " where another policy decided; --earlier FILE names it"
        } else {
            ""
        };
        return format!(", without their reasons and bounds{others}");
    }
    if passed.is_empty() { ", byte for byte".to_owned() } else { format!(", but for {}", passed.join(", ")) }
}

fn diverges(ReplayDivergence { seq, at, event, difference, .. }: &ReplayDivergence) -> String {
    let happened = Narrator::default().any_event(event).to_string();
    let mut text =
        format!("{BAD}diverges{BAD:#}  at event {seq} ({}): {}\n", at.to_rfc3339(), one_line(&happened));
    match difference {
        ReplayDifference::State { then, now } => {
            let _ = writeln!(text, "  then    the state {then}\n  now     the state {now}");
        }
        ReplayDifference::Decision(side) => sides(&mut text, side, ""),
        ReplayDifference::Because(side) => sides(&mut text, side, ", for other reasons"),
    }
    text
}

fn sides(text: &mut String, side: &DecisionSides, but: &str) {
    decision(text, "then", side.then.as_ref(), "");
    decision(text, "now", side.now.as_ref(), but);
    let kind = |side: &Option<Directive>| {
        let json = serde_json::to_value(side.as_ref()?).ok()?;
        json.get("directive").cloned()
    };
    if kind(&side.then) == kind(&side.now)
        && let Some((field, then, now)) = side.field()
    {
        let shown = |value: &serde_json::Value| fit(&one_line(&value.to_string()), VALUE);
        let _ = writeln!(text, "  differ  {field}: {} → {}", shown(&then), shown(&now));
    }
}

fn decision(text: &mut String, when: &str, decided: Option<&Directive>, but: &str) {
    let Some(decided) = decided else {
        let _ = writeln!(text, "  {when:<6}  nothing more");
        return;
    };
    let told = Narrator::default().directive(decided);
    let _ = writeln!(text, "  {when:<6}  {told}{but}");
    for reason in told.because {
        let _ = writeln!(text, "          {DIM}{}{DIM:#}", one_line(&reason));
    }
}

fn tallies(found: &ReplayReport) -> String {
    let mut text = "up to it              then         now\n".to_owned();
    for (name, then, now) in rows(&found.recorded, &found.replayed) {
        let _ = writeln!(text, "  {name:<12}  {then:>10}  {now:>10}");
    }
    text
}

fn rows(then: &WorkTally, now: &WorkTally) -> Vec<(&'static str, String, String)> {
    let counts = [
        ("model calls", then.model_calls, now.model_calls),
        ("tool runs", then.tool_runs, now.tool_runs),
        ("retries", then.retries, now.retries),
        ("waits", then.waits, now.waits),
    ];
    let counts = counts.into_iter().map(|(name, then, now)| (name, then.to_string(), now.to_string()));
    counts.chain([("waiting", delay(then.waiting), delay(now.waiting))]).collect()
}

/// A table of several sessions.
pub(super) fn table(entries: &[ReplayEntry]) -> String {
    let column = |(heading, right)| TableColumn { heading, right };
    let columns = [
        ("session", false),
        ("result", false),
        ("decisions", true),
        ("calls", true),
        ("runs", true),
        ("retries", true),
        ("waiting", true),
    ];
    let decided = entries.iter().filter_map(|entry| Some(row(entry, entry.result.as_ref().ok()?)));
    let table = TextTable { columns: columns.map(column).into(), rows: decided.collect(), cut: false };
    let mut text = if table.rows.is_empty() { String::new() } else { table.render(out::width()) };
    for entry in entries {
        if let Err(why) = &entry.result {
            let _ = writeln!(text, "{}  {BAD}not decided{BAD:#}: {}", entry.id, one_line(why));
        }
    }
    text.push_str(&summary(entries));
    text
}

fn row(entry: &ReplayEntry, found: &ReplayReport) -> Vec<TableCell> {
    let all = found.same.saturating_add(found.left_out);
    let (all, result) = match found.divergence() {
        None if found.by_same() => (all, TableCell::styled("same".to_owned(), GOOD)),
        None => (all, TableCell::styled("same, by another policy".to_owned(), GOOD)),
        Some(divergence) => {
            (all.saturating_add(1), TableCell::styled(format!("diverges at {}", divergence.seq), BAD))
        }
    };
    let (then, now) = (&found.recorded, &found.replayed);
    let waiting = match (then.waiting, now.waiting) {
        (then, now) if now > then => format!("+{}", delay(now.saturating_sub(then))),
        (then, now) if now < then => format!("-{}", delay(then.saturating_sub(now))),
        _ => "0".to_owned(),
    };
    vec![
        entry.id.as_str().to_owned().into(),
        result,
        all.to_string().into(),
        change(then.model_calls, now.model_calls).into(),
        change(then.tool_runs, now.tool_runs).into(),
        change(then.retries, now.retries).into(),
        waiting.into(),
    ]
}

fn change(then: u64, now: u64) -> String {
    match now.checked_sub(then) {
        Some(0) => "0".to_owned(),
        Some(more) => format!("+{more}"),
        None => format!("-{}", then.saturating_sub(now)),
    }
}

fn summary(entries: &[ReplayEntry]) -> String {
    let count = |is: &dyn Fn(&ReplayEntry) -> bool| entries.iter().filter(|entry| is(entry)).count();
    let unusable = count(&|entry| entry.result.is_err());
    let diverge = count(&|entry| entry.result.as_ref().is_ok_and(|found| found.divergence().is_some()));
    let same = entries.len().saturating_sub(unusable).saturating_sub(diverge);
    let mut text = match entries.len() {
        1 => "1 session".to_owned(),
        count => format!("{count} sessions"),
    };
    let _ = write!(text, ": {same} the same, {diverge} otherwise");
    if unusable > 0 {
        let _ = write!(text, ", {unusable} not decided");
    }
    text.push('\n');
    text
}

fn decisions(count: u64) -> String {
    if count == 1 { "1 decision".to_owned() } else { format!("{count} decisions") }
}

fn short(digest: &str) -> String {
    one_line(digest.get(..DIGEST).unwrap_or(digest))
}
