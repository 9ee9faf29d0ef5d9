//! What is printed for people: a table, a bar, and sentences.

use std::fmt::Write as _;

use crate::text::{columns, padded};
use anstyle::Style;

use super::bar::bar;
use super::forecast::{BudgetForecast, ForecastStep};
use super::subject::ContextSubject;
use crate::cli::text::one_line;

const BOLD: Style = Style::new().bold();

/// A row of the table.
struct ContextRow {
    /// The sign of the part in the bar; a space: it is part of the row above.
    sign: char,
    name: String,
    tokens: u64,
}

pub(super) fn shown(subject: &ContextSubject, forecast: Option<&BudgetForecast>) -> String {
    let mut text = String::new();
    // Writing into a string does not fail.
    let _ = writeln!(text, "{BOLD}{}{BOLD:#}", one_line(&subject.title));
    let model = one_line(&subject.model);
    let _ = match subject.window {
        Some(known) => {
            writeln!(text, "window of {model}: {} tokens ({})\n", known.tokens, known.source)
        }
        None => {
            writeln!(text, "window of {model}: unknown; write `context_window` into the policy\n")
        }
    };
    let rows = rows(subject, forecast);
    text.push_str(&table(&rows, subject.window.map(|known| known.tokens.get())));
    let parts: Vec<(char, u64)> =
        rows.iter().filter(|row| row.sign != ' ').map(|row| (row.sign, row.tokens)).collect();
    let _ = writeln!(text, "\n[{}]", bar(&parts));
    if let Some(ppm) = subject.calibration.of(&subject.model) {
        let (whole, part) = (ppm / 1_000_000, ppm / 1000 % 1000);
        let _ = writeln!(
            text,
            "\nits provider counts {whole}.{part:03} tokens for each one counted here, and {} for each request besides: all \
             numbers are by its count",
            subject.calibration.offset(&subject.model).unwrap_or(0)
        );
    }
    if let Some(usage) = subject.reported {
        let _ = writeln!(text, "\nof the last request the provider counted {} tokens", usage.input);
    }
    if let Some(forecast) = forecast {
        text.push_str(&limits(forecast));
        text.push_str(&next(forecast));
    }
    text
}

fn rows(subject: &ContextSubject, forecast: Option<&BudgetForecast>) -> Vec<ContextRow> {
    let parts = &subject.parts;
    let row = |sign, name: &str, tokens| ContextRow { sign, name: name.to_owned(), tokens };
    let counted = |name: &str, said: super::parts::MessageGroup| match said.messages {
        1 => format!("{name} (1 message)"),
        many => format!("{name} ({many} messages)"),
    };
    let mut rows = vec![row('s', "system", parts.system), row('t', "tools", parts.all_tools())];
    if parts.fixed > 0 {
        rows.push(row('f', "what the provider adds", parts.fixed));
    }
    rows.extend(parts.tools.iter().map(|(name, tokens)| row(' ', &format!("  {}", one_line(name)), *tokens)));
    rows.push(row('u', &counted("user", parts.user), parts.user.tokens));
    rows.push(row('a', &counted("assistant", parts.assistant), parts.assistant.tokens));
    rows.push(row('r', &counted("results of tools", parts.results), parts.results.tokens));
    if parts.images > 0 {
        rows.push(row('i', "images", parts.images));
    }
    if let Some(BudgetForecast { room, .. }) = forecast {
        rows.push(row('o', "output (kept for the reply)", room.reply));
        rows.push(row('k', "reserve", room.reserve));
        rows.push(row('y', "safety", room.safety));
        rows.push(row('.', "free", room.left().unwrap_or(0)));
    }
    rows
}

fn table(rows: &[ContextRow], window: Option<u64>) -> String {
    let mut text = String::new();
    let name = rows.iter().map(|row| columns(&row.name)).max().unwrap_or_default();
    let tokens = rows.iter().map(|row| row.tokens.to_string().len()).max().unwrap_or_default().max(6);
    let _ = writeln!(text, "   {:name$}  {:>tokens$}{}", "part", "tokens", window.map_or("", |_| "   share"));
    for row in rows {
        let share = window.map(|window| share(row.tokens, window)).unwrap_or_default();
        let part = padded(&row.name, name);
        let _ = writeln!(text, " {} {part}  {:>tokens$}{share}", row.sign, row.tokens);
    }
    text
}

/// The share of the window in percent, rounded to tenths.
fn share(tokens: u64, window: u64) -> String {
    let window = u128::from(window.max(1));
    let tenths = (u128::from(tokens) * 1000 + window / 2) / window;
    format!("  {:>4}.{}%", tenths / 10, tenths % 10)
}

fn limits(forecast: &BudgetForecast) -> String {
    let BudgetForecast { room, compact_at_free, min_free, target_free, results, .. } = forecast;
    let results = results
        .map(|most| format!("{BOLD}results{BOLD:#}  the results of one reply have {most} tokens together\n"));
    let left = match room.left() {
        Some(left) => format!("{left} free"),
        None => format!("{} tokens over budget", room.messages.saturating_sub(room.budget())),
    };
    format!(
        "\n{BOLD}budget{BOLD:#}   {room}; {left}\n{BOLD}compact{BOLD:#}  with less than {compact_at_free} tokens free (`compact_at_free`), down to \
         {target_free} free (`target_free`)\n{BOLD}minimum{BOLD:#}  with less than {min_free} tokens free the model is not called (`min_free`)\n{}",
        results.unwrap_or_default()
    )
}

fn next(forecast: &BudgetForecast) -> String {
    let mut text = String::from("\n");
    let BudgetForecast { most, due, filled, open, steps, lacking, .. } = forecast;
    let _ = match (due, open) {
        _ if *filled => writeln!(
            text,
            "The definitions of the tools alone are too large for the window. Nothing is reduced for that: the model is \
             called, and its provider decides."
        ),
        (true, _) => writeln!(text, "The next turn begins with a reduction:"),
        (false, false) => {
            writeln!(text, "The model is not called with this, and no step of the policy can reduce it.")
        }
        (false, true) => match most {
            None => writeln!(text, "Nothing is ever reduced: `context.reduce` of the policy is empty."),
            Some(most) if steps.is_empty() => {
                writeln!(text, "Messages of more than {most} tokens are reduced. Now nothing would be cut.")
            }
            Some(most) => {
                writeln!(text, "Messages of more than {most} tokens are reduced. If that were done now:")
            }
        },
    };
    if *due && steps.is_empty() {
        let _ = writeln!(text, "  nothing can be cut");
    }
    for step in steps {
        let _ = writeln!(text, "  {}", told(step));
    }
    if let Some(lacking) = lacking {
        let _ = writeln!(text, "It would still be too large: {}.", one_line(lacking));
    }
    text
}

fn told(step: &ForecastStep) -> String {
    let ForecastStep { number, kind, before, after, .. } = step;
    let done = [("shortened", step.shortened), ("left out", step.left_out)];
    let done: Vec<String> = done
        .into_iter()
        .filter(|(_, many)| *many > 0)
        .map(|(what, many)| format!("{many} {} {what}", if many == 1 { "message" } else { "messages" }))
        .collect();
    let asked = match step.asked {
        Some(tokens) => format!("; a model sums up {tokens} tokens, and its summary is added"),
        None => String::new(),
    };
    format!("{number}. {kind}: {}; {before} tokens become {after}{asked}", done.join(", "))
}
