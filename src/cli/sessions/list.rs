//! `unfazed sessions list`: the sessions there are, by the files beside their logs.

use serde_json::{Value, json};
use unfazed::store::{Listing, SessionInfo, SessionStatus, Store};

use super::filter::Filter;
use super::find::failed;
use crate::cli::exit::{Exit, Failed};
use crate::cli::format::Format;
use crate::cli::out;
use crate::cli::text::{one_line, shorten};

/// The longest title and name of an agent that are shown.
const TITLE: usize = 60;
const AGENT: usize = 20;

/// Lists sessions, the one written last first
#[derive(clap::Args, Default)]
#[command(after_help = "Examples:
  unfazed sessions list --status broken_off
  unfazed sessions list --since 2026-11-01 --agent order-desk --format json")]
pub(super) struct Args {
    #[command(flatten)]
    filter: Filter,
    /// At most so many.
    #[arg(long, value_name = "COUNT")]
    limit: Option<usize>,
    /// How they are shown.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

pub(super) fn run(args: &Args, store: &dyn Store) -> Result<Exit, Failed> {
    let mut listing = store.list().map_err(|error| failed(&error))?;
    listing.sessions.retain(|info| args.filter.takes(info));
    listing.sessions.truncate(args.limit.unwrap_or(usize::MAX));
    let wanted = if args.filter.is_given() { "such sessions" } else { "sessions" };
    print(&listing, args.format, store, wanted)
}

/// Prints sessions, and says which cannot be used, and that there are none of those that are wanted.
pub(super) fn print(
    listing: &Listing,
    format: Format,
    store: &dyn Store,
    wanted: &str,
) -> Result<Exit, Failed> {
    match format {
        Format::Json => out::raw(&format!("{:#}\n", json(listing, store)))?,
        Format::Human => {
            let lines: String = listing.sessions.iter().map(line).collect();
            out::raw(&lines)?;
            if listing.sessions.is_empty() {
                out::say(&format!("no {wanted} in {}\n", store.place()));
            }
            damaged(listing);
        }
    }
    Ok(Exit::Clean)
}

/// Says which sessions cannot be used.
pub(super) fn damaged(listing: &Listing) {
    for (id, why) in &listing.damaged {
        out::say(&format!("passed over  {id}: {}\n", one_line(why)));
    }
}

fn line(info: &SessionInfo) -> String {
    let SessionInfo { id, meta, updated, .. } = info;
    // To the second: nobody reads more of it in a list.
    let updated = updated.to_rfc3339();
    let updated = updated.get(..19).unwrap_or(&updated).replace('T', " ") + "Z";
    let agent = shorten(&one_line(meta.agent.as_deref().unwrap_or("-")), AGENT);
    let title = shorten(&one_line(&meta.title), TITLE);
    let status = meta.status.name().replace('_', " ");
    format!("{:<36}  {updated}  {status:<10}  {agent:<12}  {title}\n", id.as_str())
}

fn json(listing: &Listing, store: &dyn Store) -> Value {
    let sessions: Vec<Value> = listing.sessions.iter().map(|info| one(info, store)).collect();
    let damaged: Vec<Value> =
        listing.damaged.iter().map(|(id, why)| json!({ "id": id, "error": why })).collect();
    json!({ "v": 1, "sessions": sessions, "damaged": damaged })
}

/// A session as other programs read it.
pub(super) fn one(info: &SessionInfo, store: &dyn Store) -> Value {
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
        "path": store.place_of(id).display().to_string(),
    })
}
