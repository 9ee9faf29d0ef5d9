//! One call or turn: what is attempted, waited for and decided, with the rules that decided it.

use std::fmt::Write as _;

use crate::simulate::{CallStory, StoryCall, StoryError};
use anstyle::Style;
use serde_json::{Map, Value, json};

use super::SimulateArgs;
use super::subject::NamedPolicy;
use crate::cli::exit::{CommandFailure, ExitStatus};
use crate::cli::format::OutputFormat;
use crate::cli::out;
use crate::cli::text::{delay, one_line};

const BOLD: Style = Style::new().bold();
const DIM: Style = Style::new().dimmed();

pub(super) fn run(
    args: &SimulateArgs,
    subjects: &[NamedPolicy],
    outcomes: &str,
) -> Result<ExitStatus, CommandFailure> {
    let mut stories = Vec::with_capacity(subjects.len());
    for subject in subjects {
        stories.push((&subject.name, play(args, subject, outcomes)?));
    }
    match args.format {
        OutputFormat::Human => {
            let page = |(name, story): &(&String, CallStory)| {
                if stories.len() == 1 {
                    return page(story);
                }
                format!("{BOLD}{}{BOLD:#}\n{}", one_line(name), page(story))
            };
            out::styled(&stories.iter().map(page).collect::<Vec<_>>().join("\n"))?;
        }
        OutputFormat::Json => {
            let stories: Vec<Value> = stories.iter().map(|(name, story)| document(name, story)).collect();
            out::raw(&format!("{:#}\n", json!({"version": 1, "outcomes": outcomes, "policies": stories})))?;
        }
    }
    Ok(ExitStatus::Clean)
}

fn play(args: &SimulateArgs, subject: &NamedPolicy, outcomes: &str) -> Result<CallStory, CommandFailure> {
    let seed = args.seed.unwrap_or(1);
    let story = match &args.tool {
        Some(tool) => {
            let arguments = args.arguments.clone().unwrap_or_else(|| Value::Object(Map::new()));
            let call = StoryCall { tool, arguments, effect: args.effect };
            CallStory::of_tool(&subject.policy, &call, outcomes, seed)
        }
        None if args.model.is_empty() => {
            return Err(CommandFailure::Usage(
                "say whose outcomes these are: `--tool NAME` or `--model NAME`".into(),
            ));
        }
        None => CallStory::of_model(&subject.policy, &args.model, outcomes, seed),
    };
    story.map_err(|error| match error {
        StoryError::Outcome(_) => CommandFailure::Usage(format!("--outcomes: {error}")),
        _ => CommandFailure::Stopped(format!("{}: {error}", subject.name)),
    })
}

fn page(story: &CallStory) -> String {
    let mut page = String::new();
    let mut said: &[String] = &[];
    for line in &story.lines {
        let _ = writeln!(page, "{:>10}  {}", delay(line.at), one_line(&line.text));
        // The same reasons are not said twice in a row.
        if !line.why.is_empty() && line.why != said {
            said = &line.why;
            for why in said {
                let _ = writeln!(page, "            {DIM}{}{DIM:#}", one_line(why));
            }
        }
    }
    let plural = if story.attempts == 1 { "" } else { "s" };
    let waiting = story.delays.iter().fold(crate::time::Nanos::ZERO, |sum, wait| sum.saturating_add(*wait));
    let reason = story.reason.as_ref().map(|reason| format!(" ({reason})")).unwrap_or_default();
    let _ = writeln!(
        page,
        "\n{BOLD}{}{BOLD:#}{reason} after {} attempt{plural}, {} waiting, {} in all",
        story.status,
        story.attempts,
        delay(waiting),
        delay(story.took),
    );
    page
}

/// Lengths of time are whole nanoseconds.
fn document(name: &str, story: &CallStory) -> Value {
    let lines = story.lines.iter().map(|line| json!({"at": line.at, "text": line.text, "why": line.why}));
    json!({
        "policy": name,
        "attempts": story.attempts,
        "delays": story.delays,
        "took": story.took,
        "status": story.status,
        "reason": story.reason,
        "timeline": lines.collect::<Vec<_>>(),
    })
}
