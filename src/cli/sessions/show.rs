//! `unfazed sessions show`: a session as a story, with the decisions in line.

use crate::session::Message;
use anstyle::Style;

use super::failed;
use super::find::one;
use super::open_store::OpenStore;
use super::transcript::{TranscriptPiece, read};
use crate::cli::exit::{CommandFailure, ExitStatus};
use crate::cli::out;
use crate::cli::text::{one_line, visible};

const BOLD: Style = Style::new().bold();

/// Shows the messages in a session, and between it what happened and what was decided
#[derive(clap::Args)]
#[command(after_help = "Examples:
  unfazed sessions show latest
  unfazed sessions show 1f0a7c --quiet | less")]
pub(super) struct ShowArgs {
    /// The session.
    #[arg(value_name = "ID")]
    id: String,
    /// Leaves out which policy line decided.
    #[arg(long, short)]
    quiet: bool,
}

pub(super) fn run(args: &ShowArgs, store: &OpenStore) -> Result<ExitStatus, CommandFailure> {
    let id = one(store, &args.id)?;
    let info = store.info(&id).map_err(|error| failed(&error))?;
    let title = one_line(&info.meta.title);
    out::styled(&format!("{BOLD}{title}{BOLD:#}\n{id}  {}\n\n", info.meta.status.name().replace('_', " ")))?;
    // A message has an empty line before it and one after it.
    let mut apart = true;
    for piece in read(store, &id, !args.quiet).map_err(|error| failed(&error))? {
        match piece {
            TranscriptPiece::Decided(lines) => {
                apart = false;
                out::styled(&lines)?;
            }
            TranscriptPiece::Said(message) => {
                let message = said(&message);
                if !message.is_empty() {
                    out::styled(&format!("{}{message}", if apart { "" } else { "\n" }))?;
                    apart = true;
                }
            }
            TranscriptPiece::Damaged(why) => return Err(CommandFailure::Stopped(why)),
        }
    }
    Ok(ExitStatus::Clean)
}

/// A message with who said it. What others wrote must not command a terminal.
fn said(message: &Message) -> String {
    let who = match message {
        Message::System { .. } => "system".to_owned(),
        Message::User { guidance: None, .. } => "user".to_owned(),
        Message::User { guidance: Some(guidance), .. } => format!("policy ({})", one_line(guidance)),
        Message::Assistant { .. } => "assistant".to_owned(),
        Message::Tool { tool, .. } => one_line(tool),
    };
    let text = visible(message.text());
    if text.trim().is_empty() {
        return String::new();
    }
    let lines: String =
        text.trim_end().lines().map(|line| format!("    {line}").trim_end().to_owned() + "\n").collect();
    format!("  {BOLD}{who}{BOLD:#}\n{lines}\n")
}
