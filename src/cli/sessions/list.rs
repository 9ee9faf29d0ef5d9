//! `unfazed sessions list`: the sessions there are, by the files beside their logs.

use crate::store::{SessionInfo, SessionListing, SessionStatus};
use anstyle::{AnsiColor, Style};
use serde_json::{Value, json};

use super::failed;
use super::filter::SessionFilter;
use super::open_store::OpenStore;
use crate::cli::exit::{CommandFailure, ExitStatus};
use crate::cli::format::OutputFormat;
use crate::cli::out;
use crate::cli::table::{TableCell, TableColumn, TextTable};
use crate::cli::text::{fit, one_line};

/// The longest name of an agent that is shown.
const AGENT: usize = 20;
const GOOD: Style = AnsiColor::Green.on_default();
const WARN: Style = AnsiColor::Yellow.on_default();
const BAD: Style = AnsiColor::Red.on_default();

/// Lists sessions, the one written last first
#[derive(clap::Args, Default)]
#[command(after_help = "Examples:
  unfazed sessions list --status broken_off
  unfazed sessions list --since 2026-11-01 --agent order-desk --format json")]
pub(super) struct ListArgs {
    #[command(flatten)]
    filter: SessionFilter,
    /// At most so many.
    #[arg(long, value_name = "COUNT")]
    limit: Option<usize>,
    /// How they are shown.
    #[arg(long, value_enum, default_value_t)]
    format: OutputFormat,
}

pub(super) fn run(args: &ListArgs, store: &OpenStore) -> Result<ExitStatus, CommandFailure> {
    let mut listing = store.list().map_err(|error| failed(&error))?;
    listing.sessions.retain(|info| args.filter.takes(info));
    listing.sessions.truncate(args.limit.unwrap_or(usize::MAX));
    let wanted = if args.filter.is_given() { "such sessions" } else { "sessions" };
    print(&listing, args.format, store, wanted)
}

/// Prints sessions, and says which cannot be used, and that there are none of those that are wanted.
pub(super) fn print(
    listing: &SessionListing,
    format: OutputFormat,
    store: &OpenStore,
    wanted: &str,
) -> Result<ExitStatus, CommandFailure> {
    match format {
        OutputFormat::Json => out::raw(&format!("{:#}\n", json(listing, store)))?,
        OutputFormat::Human => {
            if listing.sessions.is_empty() {
                out::say(&format!("no {wanted} in {}\n", store.place()));
            } else {
                out::styled(&table(&listing.sessions).render(out::width()))?;
            }
            damaged(listing);
        }
    }
    Ok(ExitStatus::Clean)
}

/// Says which sessions cannot be used.
pub(super) fn damaged(listing: &SessionListing) {
    for (id, why) in &listing.damaged {
        out::say(&format!("passed over  {id}: {}\n", one_line(why)));
    }
}

fn table(sessions: &[SessionInfo]) -> TextTable {
    let column = |heading| TableColumn { heading, right: false };
    TextTable {
        columns: ["session", "updated", "status", "agent", "title"].map(column).into(),
        rows: sessions.iter().map(row).collect(),
        cut: true,
    }
}

fn row(SessionInfo { id, meta, updated, .. }: &SessionInfo) -> Vec<TableCell> {
    // To the second: nobody reads more of it in a list.
    let updated = updated.to_rfc3339();
    let updated = updated.get(..19).unwrap_or(&updated).replace('T', " ") + "Z";
    let style = match meta.status {
        SessionStatus::New | SessionStatus::Running => Style::new(),
        SessionStatus::BrokenOff | SessionStatus::Stopped => WARN,
        SessionStatus::Reported | SessionStatus::Answered => GOOD,
        SessionStatus::Failed => BAD,
    };
    vec![
        id.as_str().to_owned().into(),
        updated.into(),
        TableCell::styled(meta.status.name().replace('_', " "), style),
        fit(&one_line(meta.agent.as_deref().unwrap_or("-")), AGENT).into(),
        one_line(&meta.title).into(),
    ]
}

fn json(listing: &SessionListing, store: &OpenStore) -> Value {
    let sessions: Vec<Value> = listing.sessions.iter().map(|info| one(info, store)).collect();
    let damaged: Vec<Value> =
        listing.damaged.iter().map(|(id, why)| json!({ "id": id, "error": why })).collect();
    json!({ "v": 1, "sessions": sessions, "damaged": damaged })
}

/// A session as other programs read it.
pub(super) fn one(info: &SessionInfo, store: &OpenStore) -> Value {
    let SessionInfo { id, meta, updated, bytes } = info;
    json!({
        "id": id,
        "title": meta.title,
        "agent": meta.agent,
        "status": meta.status,
        "resumable": matches!(meta.status, SessionStatus::BrokenOff | SessionStatus::New),
        "model": meta.model,
        "created": meta.created.to_rfc3339(),
        "updated": updated.to_rfc3339(),
        "runs": meta.runs,
        "turns": meta.turns,
        "messages": meta.messages,
        "tokens": meta.tokens,
        "bytes": bytes,
        "path": store.place_of(id),
    })
}
