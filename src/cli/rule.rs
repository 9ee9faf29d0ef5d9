//! `unfazed rule`: what a problem means that `unfazed check` finds.

use std::fmt::Write as _;

use crate::text::did_you_mean;

use super::exit::{CommandFailure, ExitStatus};
use super::{out, pages};

/// Explains a problem that check finds: what it means, an example, the repair; lists all of them without an ID
#[derive(clap::Args)]
#[command(after_help = "Examples:
  unfazed rule W0202
  unfazed rule")]
pub(crate) struct RuleArgs {
    /// The code of the problem: P0101, W0202.
    id: Option<String>,
}

pub(crate) fn run(args: &RuleArgs) -> Result<ExitStatus, CommandFailure> {
    let Some(id) = &args.id else {
        out::styled(&list())?;
        return Ok(ExitStatus::Clean);
    };
    let id = id.to_ascii_uppercase();
    let Some(page) = pages::find(&id) else {
        let meant = did_you_mean(&id, pages::all().map(|page| page.id));
        let meant = match meant {
            Some(meant) => format!("did you mean `{meant}`?"),
            None => "`unfazed rule` lists all".to_owned(),
        };
        return Err(CommandFailure::Usage(format!("there is no rule `{id}`; {meant}")));
    };
    out::styled(&format!("{}: {}\n\n{}\n", page.id, page.title, page.body))?;
    Ok(ExitStatus::Clean)
}

fn list() -> String {
    let mut text = String::new();
    for page in pages::all() {
        // Writing into a string does not fail.
        let _ = writeln!(text, "{}  {}", page.id, page.title);
    }
    text
}
